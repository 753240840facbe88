//! Evaluates a compiled expression with the facts of one request.
//!
//! Called by: [`crate::Expression`] and [`crate::StringExpression`]. Trees have bounded depth,
//! patterns have limits, and texts that grow by replacement have a maximum.
//! Caveat: captures of `=~` are visible to everything evaluated later, in this expression and by
//! the caller; only patterns with groups change them.
//! Out of scope: caching results; [`Evaluation::dependencies`] tells whether that is allowed.

mod replace;
mod tested;
#[cfg(test)]
mod tests;

use crate::{
    Dependency, ExpressionOptions, FileFault, Pattern, base64_decode, base64_encode, escape_uri,
    evaluation::{Evaluated, Evaluation, EvaluationError, FILE_BYTES_MAX, Text, within_limit},
    glob_matches, ldap_escape, md5_hex, sha1_hex,
    tree::{Comparison, Condition, Function, List, Substitution, Word},
    unescape,
};
use std::{borrow::Cow, cmp::Ordering};

impl Evaluation<'_> {
    pub(crate) fn string(&mut self, root: &Word, options: ExpressionOptions) -> Evaluated<Vec<u8>> {
        Walk {
            evaluation: self,
            options,
        }
        .word(root)
        .map(Cow::into_owned)
    }

    pub(crate) fn condition(
        &mut self,
        root: &Condition,
        options: ExpressionOptions,
    ) -> Evaluated<bool> {
        Walk {
            evaluation: self,
            options,
        }
        .condition(root)
    }
}

/// An evaluation under the options of one expression.
struct Walk<'e, 'f> {
    evaluation: &'e mut Evaluation<'f>,
    options: ExpressionOptions,
}

impl<'f> Walk<'_, 'f> {
    fn condition(&mut self, condition: &Condition) -> Evaluated<bool> {
        if self.evaluation.records_tests
            && let Some(holds) = self.tested(condition)
        {
            return Ok(holds);
        }
        match condition {
            Condition::Constant(value) => Ok(*value),
            Condition::Not(inner) => self.condition(inner).map(|value| !value),
            Condition::All(all) => {
                all.iter().try_fold(
                    true,
                    |met, one| if met { self.condition(one) } else { Ok(false) },
                )
            }
            Condition::Any(any) => {
                any.iter().try_fold(
                    false,
                    |met, one| if met { Ok(true) } else { self.condition(one) },
                )
            }
            Condition::Compare(comparison, left, right) => self.compare(*comparison, left, right),
            Condition::Matches {
                word,
                pattern,
                negated,
            } => {
                let subject = self.word(word)?;
                Ok(self.matches(&subject, pattern) != *negated)
            }
            Condition::In(word, list) => {
                let needle = self.word(word)?;
                self.is_in(&needle, list)
            }
            Condition::NotEmpty(word) => Ok(!self.word(word)?.is_empty()),
            Condition::Empty(word) => Ok(self.word(word)?.is_empty()),
            Condition::Truth(word) => Ok(truth(&self.word(word)?)),
            Condition::Glob {
                text,
                pattern,
                options,
            } => {
                let (text, pattern) = (self.word(text)?, self.word(pattern)?);
                Ok(glob_matches(&pattern, &text, *options))
            }
            about_the_world => self.fact(about_the_world),
        }
    }

    /// Evaluates a condition that needs `Facts`.
    fn fact(&mut self, condition: &Condition) -> Evaluated<bool> {
        let facts = self.evaluation.facts;
        Ok(match condition {
            Condition::File(test, word) => {
                let path = self.word(word)?;
                self.depends(Dependency::Files);
                facts.file_test(&path, *test)
            }
            Condition::FileAccessible(word) => {
                let path = self.word(word)?;
                self.depends(Dependency::Subrequest);
                facts.file_status(&path).is_some_and(|status| status < 300)
            }
            Condition::UriAccessible(word) => {
                let uri = self.word(word)?;
                self.depends(Dependency::Subrequest);
                facts.uri_status(&uri).is_some_and(|status| status < 400)
            }
            Condition::ClientIn(subnet) => {
                self.depends(Dependency::Client);
                facts
                    .client_address()
                    .is_some_and(|address| subnet.contains(address))
            }
            Condition::AddressIn(word, subnet) => {
                let text = self.word(word)?;
                let address = std::str::from_utf8(&text)
                    .ok()
                    .and_then(|text| text.parse().ok());
                address.is_some_and(|address| subnet.contains(address))
            }
            _ => false,
        })
    }

    fn depends(&mut self, dependency: Dependency) {
        self.evaluation.dependencies.add(dependency);
    }

    fn compare(&mut self, comparison: Comparison, left: &Word, right: &Word) -> Evaluated<bool> {
        let (left, right) = (self.word(left)?, self.word(right)?);
        let order = if self.options.tls_require {
            left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
        } else if comparison.numbers {
            number(&left).cmp(&number(&right))
        } else {
            left.cmp(&right)
        };
        Ok(comparison.relation.holds(order))
    }

    /// Runs a pattern. One that hits its limit does not match, and the request's work ends.
    fn matches(&mut self, subject: &[u8], pattern: &Pattern) -> bool {
        if pattern.groups() == 0 {
            return self.is_match(pattern, subject);
        }
        match self.evaluation.captures_at(pattern, subject, 0) {
            Ok(Some(spans)) => {
                self.evaluation.backreferences.set(subject, spans);
                true
            }
            _ => {
                self.evaluation.backreferences.clear();
                false
            }
        }
    }

    fn is_match(&self, pattern: &Pattern, subject: &[u8]) -> bool {
        let found = match self.evaluation.facts.work() {
            Some(work) => work.is_match(pattern, subject),
            None => pattern.is_match(subject),
        };
        found.unwrap_or(false)
    }

    fn is_in(&mut self, needle: &[u8], list: &List) -> Evaluated<bool> {
        let List::Words(words) = list else {
            return Ok(self.list(list)?.iter().any(|value| value == needle));
        };
        for word in words {
            if *self.word(word)? == *needle {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn list(&mut self, list: &List) -> Evaluated<Vec<Vec<u8>>> {
        match list {
            List::Words(words) => words
                .iter()
                .map(|word| self.word(word).map(Cow::into_owned))
                .collect(),
            List::PeerExtensions(word) => {
                let object_id = self.word(word)?;
                self.depends(Dependency::Transport);
                Ok(self.evaluation.facts.peer_extensions(&object_id))
            }
            List::Split { list, substitution } => {
                let mut parts = Vec::new();
                for text in self.list(list)? {
                    self.split(&text, substitution, &mut parts)?;
                }
                Ok(parts)
            }
        }
    }

    fn word<'a>(&mut self, word: &'a Word) -> Evaluated<Text<'a>>
    where
        'f: 'a,
    {
        let text = self.text_of(word)?;
        if let Cow::Owned(text) = &text {
            self.evaluation.made(text.len())?;
        }
        Ok(text)
    }

    fn text_of<'a>(&mut self, word: &'a Word) -> Evaluated<Text<'a>>
    where
        'f: 'a,
    {
        Ok(match word {
            Word::Literal(text) => Cow::Borrowed(text),
            Word::Variable(variable) => self.evaluation.variable(*variable, self.options),
            Word::TlsVariable(name) => {
                self.depends(Dependency::Transport);
                self.evaluation.facts.tls_variable(name).unwrap_or_default()
            }
            Word::Backreference(group) => Cow::Owned(
                self.evaluation
                    .backreferences
                    .text(usize::from(*group))
                    .to_vec(),
            ),
            Word::Concat(words) => Cow::Owned(self.concat(words)?),
            Word::Call(function, argument) => {
                let argument = self.word(argument)?;
                self.call(*function, argument)?
            }
            Word::Replace(words) => {
                let [text, from, to] = words.as_ref();
                let (text, from, to) = (self.word(text)?, self.word(from)?, self.word(to)?);
                Cow::Owned(replace::literal(&text, &from, &to)?)
            }
            Word::Condition(condition) => Cow::Borrowed(if self.condition(condition)? {
                b"true".as_slice()
            } else {
                b"false"
            }),
            Word::Substitute { word, substitution } => {
                let text = self.word(word)?;
                Cow::Owned(self.substitute(&text, substitution)?)
            }
            Word::Join { list, separator } => Cow::Owned(self.join(list, separator.as_deref())?),
        })
    }

    fn substitute(&mut self, text: &[u8], substitution: &Substitution) -> Evaluated<Vec<u8>> {
        let Some(replacement) = &substitution.replacement else {
            return Ok(text.to_vec());
        };
        let options = self.options;
        replace::substitute(self.evaluation, text, substitution, |evaluation| {
            evaluation.string(replacement, options)
        })
    }

    fn split(
        &mut self,
        text: &[u8],
        substitution: &Substitution,
        parts: &mut Vec<Vec<u8>>,
    ) -> Evaluated<()> {
        let options = self.options;
        let replacement = |evaluation: &mut Evaluation<'_>| {
            substitution
                .replacement
                .as_deref()
                .map(|word| evaluation.string(word, options))
                .transpose()
        };
        replace::split(
            self.evaluation,
            text,
            &substitution.pattern,
            replacement,
            parts,
        )
    }

    fn concat(&mut self, words: &[Word]) -> Evaluated<Vec<u8>> {
        let mut text = Vec::new();
        for word in words {
            text.extend_from_slice(&self.word(word)?);
            within_limit(text.len())?;
        }
        Ok(text)
    }

    fn join(&mut self, list: &List, separator: Option<&Word>) -> Evaluated<Vec<u8>> {
        let parts = self.list(list)?;
        let separator = separator
            .map(|word| self.word(word))
            .transpose()?
            .unwrap_or_default();
        let total: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
        within_limit(total)?;
        Ok(parts.join(separator.as_ref()))
    }

    fn call<'a>(&mut self, function: Function, argument: Text<'a>) -> Evaluated<Text<'a>>
    where
        'f: 'a,
    {
        Ok(match function {
            Function::ToLower => Cow::Owned(argument.to_ascii_lowercase()),
            Function::ToUpper => Cow::Owned(argument.to_ascii_uppercase()),
            Function::Escape => Cow::Owned(escape_uri(&argument)),
            Function::Unescape => match unescape(&argument, true) {
                (text, true) => Cow::Owned(text),
                (_, false) => Cow::Borrowed(&[]),
            },
            Function::Base64 => Cow::Owned(base64_encode(&argument)),
            // httpd's texts end at a NUL.
            Function::Unbase64 => Cow::Owned(
                base64_decode(&argument)
                    .split(|byte| *byte == 0)
                    .next()
                    .unwrap_or_default()
                    .to_vec(),
            ),
            Function::Md5 => Cow::Owned(md5_hex(&argument)),
            Function::Sha1 => Cow::Owned(sha1_hex(&argument)),
            Function::Ldap => Cow::Owned(ldap_escape(&argument)),
            Function::File | Function::FileSize | Function::FileModified => {
                self.file(function, &argument)?
            }
            table => self.table(table, &argument),
        })
    }

    /// Functions that look a name up.
    fn table(&mut self, function: Function, name: &[u8]) -> Text<'f> {
        let facts = self.evaluation.facts;
        let (dependency, value) = match function {
            Function::Request => return self.evaluation.request_field(name, !self.options.no_vary),
            Function::RequestNoVary => return self.evaluation.request_field(name, false),
            Function::Response => (Dependency::Response, facts.response_field(name)),
            Function::HealthCheck => (Dependency::Response, facts.health_check(name)),
            Function::Note => (Dependency::Environment, facts.note(name)),
            Function::RequestEnvironment => (Dependency::Environment, facts.environment(name)),
            Function::ProcessEnvironment => {
                (Dependency::Configuration, facts.process_environment(name))
            }
            _ => {
                let own = facts.note(name).or_else(|| facts.environment(name));
                (
                    Dependency::Environment,
                    own.or_else(|| facts.process_environment(name)),
                )
            }
        };
        self.depends(dependency);
        value.unwrap_or_default()
    }

    fn file(&mut self, function: Function, path: &[u8]) -> Evaluated<Text<'f>> {
        self.depends(Dependency::Files);
        let facts = self.evaluation.facts;
        let number = match function {
            Function::FileSize => facts.file_bytes(path).map(|bytes| bytes.to_string()),
            Function::FileModified => facts.file_modified_us(path).map(|time| time.to_string()),
            _ => {
                return facts
                    .file_content(path, FILE_BYTES_MAX)
                    .map(Cow::Owned)
                    .map_err(|fault| file_error(fault, path));
            }
        };
        Ok(Cow::Owned(
            number.unwrap_or_else(|| "0".to_owned()).into_bytes(),
        ))
    }
}

fn file_error(fault: FileFault, path: &[u8]) -> EvaluationError {
    let path = String::from_utf8_lossy(path);
    EvaluationError {
        message: match fault {
            FileFault::Open => format!("Cannot open file {path}"),
            FileFault::TooLarge => format!("File {path} too large"),
            FileFault::Read => format!("Cannot read from file {path}"),
        },
    }
}

/// `-T`: all but empty, `0`, `off`, `false` and `no`.
fn truth(text: &[u8]) -> bool {
    !(text.is_empty()
        || text == b"0"
        || [b"off".as_slice(), b"false", b"no"]
            .iter()
            .any(|no| text.eq_ignore_ascii_case(no)))
}

/// Parses a number like `atoi`: white space, a sign, digits; no number is 0, one that is too large
/// is the largest.
pub fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .map(|digit| i64::from(digit - b'0'));
    digits.fold(0i64, |number, digit| {
        let signed = if negative { -digit } else { digit };
        number.saturating_mul(10).saturating_add(signed)
    })
}

/// Texts by length first, as RewriteCond compares them.
pub fn compare_by_length(left: &[u8], right: &[u8]) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}
