//! RewriteRule, compiled.
//!
//! Called by: `settings`, when the configuration is read.
//! Caveat: flags change each other's meaning: `R=404` is not a redirect, a `?` at the end of the
//! substitution drops the query.
//! Out of scope: checking that a chain has a successor; httpd does not either.

use crate::{DirectiveError, SourceLine, arguments, condition::Condition, template::Template};
use saker_ap_expr::{Pattern, PatternOptions};
use std::sync::Arc;

/// Rounds that `[N]` makes at most, unless it says otherwise.
const ROUNDS_MAX: u32 = 10_000;

#[derive(Debug)]
pub(crate) struct Rule {
    pub conditions: Vec<Arc<Condition>>,
    pub pattern: Pattern,
    pub negated: bool,
    /// Text as written, for the trace and for checks of the file system's root.
    pub output: Vec<u8>,
    pub substitution: Template,
    pub flags: Flags,
    pub line: Option<SourceLine>,
}

/// Parsed flags (the third argument).
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub escape_groups: bool,
    pub escape_these: Vec<u8>,
    pub escape_not_these: Vec<u8>,
    pub escape_controls: bool,
    pub escape_no_plus: bool,
    pub chain: bool,
    pub cookies: Vec<Template>,
    pub discard_path_info: bool,
    pub environment: Vec<Template>,
    pub end: bool,
    pub handler: Option<Template>,
    pub last: bool,
    pub next: bool,
    pub rounds_max: u32,
    pub caseless: bool,
    pub no_escape: bool,
    pub no_subrequest: bool,
    pub proxy: bool,
    pub pass_through: bool,
    pub query_append: bool,
    pub query_discard: bool,
    pub query_last: bool,
    /// The query goes, and none is looked for in the substitution.
    pub query_none: bool,
    pub redirect: bool,
    /// Status of redirects, or with `status_only` on its own.
    pub status: u16,
    pub status_only: bool,
    /// The rule names an informational status, which its answer does not get.
    pub is_interim: bool,
    /// `-`, `[F]`, `[G]`, `[R=404]`.
    pub no_substitution: bool,
    pub skip: usize,
    pub mime_type: Option<Template>,
    pub unsafe_allow_3f: bool,
    pub unsafe_prefix_stat: bool,
}

impl Rule {
    /// Compiles the line after the directive's name, with the preceding conditions.
    pub fn compile(line: &[u8], conditions: Vec<Arc<Condition>>) -> Result<Rule, DirectiveError> {
        let Some((text, output, field)) = arguments::cut(line) else {
            return Err(error(format!("bad argument line '{}'", lossy(line))));
        };
        let mut flags = Flags {
            rounds_max: ROUNDS_MAX,
            status: 302,
            ..Flags::default()
        };
        for (name, value) in field
            .map_or(Some(Vec::new()), arguments::flags)
            .ok_or_else(|| error("bad flag delimiters"))?
        {
            flags.set(name, value)?;
        }
        let unsigned = text.strip_prefix(b"!").unwrap_or(text);
        let pattern = Pattern::compile(unsigned, PatternOptions::caseless(flags.caseless))
            .map_err(|_| {
                error(format!(
                    "cannot compile regular expression '{}'",
                    lossy(unsigned)
                ))
            })?;
        flags.no_substitution |= output == b"-";
        let output = flags.settle_query(output);
        let (substitution, negated) = (Template::compile(output), unsigned.len() < text.len());
        Ok(Rule {
            conditions,
            pattern,
            negated,
            output: output.to_vec(),
            substitution,
            flags,
            line: None,
        })
    }
}

impl Flags {
    /// A literal `?` at the end means "no query", unless one is appended.
    fn settle_query<'a>(&mut self, output: &'a [u8]) -> &'a [u8] {
        match output.strip_suffix(b"?") {
            Some(_) if self.query_append => self.query_last = true,
            Some(shorter) => {
                self.query_none = true;
                return shorter;
            }
            None if self.query_discard && !output.contains(&b'?') => self.query_none = true,
            None => {}
        }
        output
    }

    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), DirectiveError> {
        let template = || Template::compile(value);
        match name.to_ascii_lowercase().as_slice() {
            b"b" | b"backrefescaping" => {
                self.escape_groups = true;
                if !value.is_empty() {
                    self.escape_these = value.to_vec();
                }
            }
            b"bne" if value.is_empty() => {
                return Err(error(
                    "flag 'BNE' wants a list of characters (i.e. [BNE=...])",
                ));
            }
            b"bne" => self.escape_not_these = value.to_vec(),
            b"bnp" | b"backrefernoplus" => self.escape_no_plus = true,
            b"bctls" => (self.escape_controls, self.escape_groups) = (true, true),
            b"c" | b"chain" => self.chain = true,
            b"co" | b"cookie" => self.cookies.push(template()),
            b"d" | b"dpi" | b"discardpath" => self.discard_path_info = true,
            b"e" | b"env" => self.environment.push(template()),
            b"end" => self.end = true,
            b"f" | b"forbidden" => self.only(403),
            b"g" | b"gone" => self.only(410),
            b"h" | b"handler" => self.handler = Some(template()),
            b"l" | b"last" => self.last = true,
            b"n" | b"next" => self.set_next(value),
            b"ne" | b"noescape" => self.no_escape = true,
            b"ns" | b"nosubreq" => self.no_subrequest = true,
            b"nc" | b"nocase" => self.caseless = true,
            b"p" | b"proxy" => self.proxy = true,
            b"pt" | b"passthrough" => self.pass_through = true,
            b"qsa" | b"qsappend" => self.query_append = true,
            b"qsd" | b"qsdiscard" => self.query_discard = true,
            b"qsl" | b"qslast" => self.query_last = true,
            b"r" | b"redirect" => self.set_redirect(value)?,
            b"s" | b"skip" => {
                self.skip = usize::try_from(saker_ap_expr::number(value)).unwrap_or(0)
            }
            b"t" | b"type" => self.mime_type = Some(template()),
            b"unsafeprefixstat" => self.unsafe_prefix_stat = true,
            b"unsafeallow3f" => self.unsafe_allow_3f = true,
            // Only Windows has such paths.
            b"unc" => {}
            // httpd takes anything that begins with this letter, and does nothing.
            [b'd', ..] => {}
            _ => return Err(error(format!("unknown flag '{}'", lossy(name)))),
        }
        Ok(())
    }

    fn only(&mut self, status: u16) {
        (self.status_only, self.no_substitution, self.status) = (true, true, status);
    }

    fn set_next(&mut self, value: &[u8]) {
        self.next = true;
        if !value.is_empty() {
            self.rounds_max = u32::try_from(saker_ap_expr::number(value)).unwrap_or(0);
        }
    }

    fn set_redirect(&mut self, value: &[u8]) -> Result<(), DirectiveError> {
        self.redirect = true;
        let status = match value.to_ascii_lowercase().as_slice() {
            b"" => return Ok(()),
            b"permanent" => 301,
            b"temp" => 302,
            b"seeother" => 303,
            [b'0'..=b'9', ..] => {
                let number = saker_ap_expr::number(value);
                let known = u16::try_from(number)
                    .ok()
                    .filter(|status| is_known(*status));
                let status = known.ok_or_else(|| {
                    error(format!(
                        "invalid HTTP response code '{}' for flag 'R'",
                        lossy(value)
                    ))
                })?;
                // RFC 9110 section 15.2: none of these ends a request, so the client would take
                // the next response for this one's.
                self.is_interim = status < 200;
                if self.is_interim { 500 } else { status }
            }
            // httpd takes any word for no status at all, which ends as a 302.
            _ => 0,
        };
        self.status = status;
        if status != 0 && !(300..400).contains(&status) {
            (self.status_only, self.no_substitution) = (true, true);
        }
        Ok(())
    }
}

/// Statuses that httpd has a line for.
fn is_known(status: u16) -> bool {
    matches!(status, 100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417 | 421..=424 | 426 | 428 | 429 | 431 | 451 | 500..=508 | 510 | 511)
}

fn error(what: impl AsRef<str>) -> DirectiveError {
    DirectiveError(format!("RewriteRule: {}", what.as_ref()))
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(field: &str) -> Flags {
        Rule::compile(format!("a /b \"[{field}]\"").as_bytes(), Vec::new())
            .unwrap_or_else(|error| panic!("{field}: {error}"))
            .flags
    }

    #[test]
    fn every_flag_by_both_names() {
        type Check = fn(&Flags) -> bool;
        let cases: [(&str, Check); 29] = [
            ("B|backrefescaping", |flags| {
                flags.escape_groups && flags.escape_these.is_empty()
            }),
            ("B=?&|b=?&", |flags| {
                flags.escape_groups && flags.escape_these == b"?&"
            }),
            ("BNE=/|bne=/", |flags| {
                flags.escape_not_these == b"/" && !flags.escape_groups
            }),
            ("BNP|backrefernoplus", |flags| flags.escape_no_plus),
            ("BCTLS|bctls", |flags| {
                flags.escape_controls && flags.escape_groups
            }),
            ("C|chain", |flags| flags.chain),
            ("CO=a:b:c,CO=d:e:f|cookie=a:b:c,cookie=d:e:f", |flags| {
                flags.cookies.len() == 2
            }),
            ("DPI|discardpath", |flags| flags.discard_path_info),
            ("E=a:b,E=!c|env=a:b,env=!c", |flags| {
                flags.environment.len() == 2
            }),
            ("END|end", |flags| flags.end && !flags.last),
            ("F|forbidden", |flags| {
                flags.status == 403 && flags.status_only && flags.no_substitution
            }),
            ("G|gone", |flags| flags.status == 410 && flags.status_only),
            ("H=x|handler=x", |flags| {
                flags.handler == Some(Template::compile(b"x"))
            }),
            ("L|last", |flags| flags.last),
            ("N|next", |flags| flags.next && flags.rounds_max == 10_000),
            ("N=7|next=7", |flags| flags.next && flags.rounds_max == 7),
            ("NC|nocase", |flags| flags.caseless),
            ("NE|noescape", |flags| flags.no_escape),
            ("NS|nosubreq", |flags| flags.no_subrequest),
            ("P|proxy", |flags| flags.proxy),
            ("PT|passthrough", |flags| flags.pass_through),
            ("QSA|qsappend", |flags| flags.query_append),
            ("QSD|qsdiscard", |flags| {
                flags.query_discard && flags.query_none
            }),
            ("QSL|qslast", |flags| flags.query_last),
            ("R|redirect", |flags| {
                flags.redirect && flags.status == 302 && !flags.status_only
            }),
            ("R=permanent|R=301", |flags| {
                flags.redirect && flags.status == 301
            }),
            ("R=404|redirect=404", |flags| {
                flags.status_only && flags.status == 404
            }),
            ("S=3|skip=3", |flags| flags.skip == 3),
            ("T=a/b|type=a/b", |flags| {
                flags.mime_type == Some(Template::compile(b"a/b"))
            }),
        ];
        for (names, check) in cases {
            names
                .split('|')
                .for_each(|field| assert!(check(&flags(field)), "{field}"));
        }
        assert!(
            flags("UnsafeAllow3F,unsafeprefixstat").unsafe_allow_3f
                && flags("UnsafePrefixStat").unsafe_prefix_stat
        );
        assert!(
            [
                ("temp", 302),
                ("seeother", 303),
                ("SeeOther", 303),
                ("307", 307),
                ("304", 304)
            ]
            .iter()
            .all(|(word, status)| flags(&format!("R={word}")).status == *status)
        );
        assert!(
            flags("dwhatever").skip == 0,
            "httpd takes any word with this letter"
        );
    }

    #[test]
    fn no_informational_status_is_an_answer() {
        for status in 100..=103 {
            let flags = flags(&format!("R={status}"));
            assert!(flags.status == 500 && flags.status_only && flags.is_interim);
        }
        assert!(!flags("R=200").is_interim && flags("R=200").status == 200);
    }

    #[test]
    fn question_mark_at_the_end() {
        let rule = |line: &str| Rule::compile(line.as_bytes(), Vec::new()).expect(line);
        assert!(rule("a /b?").flags.query_none && rule("a /b?").output == b"/b");
        assert!(rule("a /b? [QSA]").flags.query_last && rule("a /b? [QSA]").output == b"/b?");
        assert!(!rule("a /b?c [QSD]").flags.query_none);
        assert!(rule("!a -").negated && rule("a -").flags.no_substitution);
    }

    #[test]
    fn errors_in_the_words_of_httpd() {
        let cases = [
            ("a", "RewriteRule: bad argument line 'a'"),
            ("a b c", "RewriteRule: bad flag delimiters"),
            ("a b [L", "RewriteRule: bad flag delimiters"),
            ("a b [X]", "RewriteRule: unknown flag 'X'"),
            (
                "a b [UnsafeAllow]",
                "RewriteRule: unknown flag 'UnsafeAllow'",
            ),
            (
                "a b [BNE]",
                "RewriteRule: flag 'BNE' wants a list of characters (i.e. [BNE=...])",
            ),
            (
                "(a b",
                "RewriteRule: cannot compile regular expression '(a'",
            ),
        ];
        for (line, message) in cases {
            assert_eq!(
                Rule::compile(line.as_bytes(), Vec::new())
                    .expect_err(line)
                    .0,
                message
            );
        }
        for status in ["999", "418", "306", "425", "0", "99999999999"] {
            let error = Rule::compile(format!("a b [R={status}]").as_bytes(), Vec::new())
                .expect_err(status)
                .0;
            assert_eq!(
                error,
                format!("RewriteRule: invalid HTTP response code '{status}' for flag 'R'")
            );
        }
    }
}
