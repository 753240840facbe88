//! Debian's `/etc/apache2/envvars`: what the init script exports to Apache, read without a shell.
//!
//! Understood are `NAME=value` and `export NAME[=value]`, quotes, `$NAME`, `${NAME}`,
//! `${NAME:-default}`, `: ${NAME:=default}`, and `if`, with the tests of the stock file answered as
//! for the instance that has no suffix. Anything else in the file is skipped: it is a program, and
//! a server that ran it would trust it more than it needs to. The one name the file relies on is
//! `APACHE_CONFDIR`.

use crate::{line::trimmed, variables::ProcessEnvironment};

/// Larger files are no lists of variables.
const BYTES_MAX: usize = 1 << 20;
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Adds what the file exports to the environment, which wins where the file only gives defaults.
pub fn read_envvars(text: &[u8], environment: &mut ProcessEnvironment) {
    let text = text.get(..BYTES_MAX.min(text.len())).unwrap_or_default();
    let mut shell = Shell {
        variables: environment.clone(),
        exported: Vec::new(),
        branches: Vec::new(),
    };
    for line in text.split(|byte| *byte == b'\n') {
        shell.line(trimmed(line));
    }
    for name in shell.exported {
        if let Some(value) = shell.variables.get(&name) {
            environment.insert(name, value.clone());
        }
    }
}

struct Shell {
    variables: ProcessEnvironment,
    exported: Vec<Vec<u8>>,
    /// One entry per open `if`: `true` if its current branch counts.
    branches: Vec<bool>,
}

impl Shell {
    fn line(&mut self, line: &[u8]) {
        if line.first() == Some(&b'#') {
            return;
        }
        match first_word(line) {
            b"if" => {
                let test = line.get(2..).unwrap_or_default();
                let is_true = self.is_true(trimmed(test));
                self.branches.push(is_true);
            }
            b"else" => {
                if let Some(branch) = self.branches.last_mut() {
                    *branch = !*branch;
                }
            }
            b"elif" => {
                if let Some(branch) = self.branches.last_mut() {
                    *branch = false;
                }
            }
            b"fi" => drop(self.branches.pop()),
            _ if self.branches.contains(&false) => {}
            b"export" => self.export(trimmed(line.get(6..).unwrap_or_default())),
            b"unset" => self.unset(line.get(5..).unwrap_or_default()),
            b":" => drop(self.value(trimmed(line.get(1..).unwrap_or_default()))),
            _ => drop(self.assign(line)),
        }
    }

    /// `[ a = b ]`, `[ a != b ]`, `[ -n a ]`, `[ -z a ]`; what is not understood is not so.
    fn is_true(&mut self, test: &[u8]) -> bool {
        let test = test.split(|byte| *byte == b';').next().unwrap_or_default();
        let Some(inner) = trimmed(test)
            .strip_prefix(b"[")
            .and_then(|test| test.strip_suffix(b"]"))
        else {
            return false;
        };
        let words: Vec<Vec<u8>> = trimmed(inner)
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty())
            .map(|word| self.value(word))
            .collect();
        match words.as_slice() {
            [a, operator, b] if operator == b"=" => a == b,
            [a, operator, b] if operator == b"!=" => a != b,
            [operator, a] if operator == b"-n" => !a.is_empty(),
            [operator, a] if operator == b"-z" => a.is_empty(),
            _ => false,
        }
    }

    fn export(&mut self, line: &[u8]) {
        match self.assign(line) {
            Some(name) => self.exported.push(name),
            None => self.exported.extend(
                line.split(|byte| *byte == b' ')
                    .filter(|name| is_name(name))
                    .map(<[u8]>::to_vec),
            ),
        }
    }

    fn unset(&mut self, names: &[u8]) {
        for name in names
            .split(|byte| *byte == b' ')
            .filter(|name| is_name(name))
        {
            self.variables.remove(name);
        }
    }

    /// The name, if it is an assignment.
    fn assign(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (line.get(..at)?, line.get(at + 1..)?);
        if !is_name(name) {
            return None;
        }
        let value = self.value(value);
        self.variables.insert(name.to_vec(), value);
        Some(name.to_vec())
    }

    /// A shell word without its quotes, variables put in; it ends at the first space outside
    /// quotes.
    fn value(&mut self, text: &[u8]) -> Vec<u8> {
        let (mut value, mut quote, mut at) = (Vec::new(), None, 0);
        while let Some(byte) = text
            .get(at)
            .copied()
            .filter(|_| value.len() < VALUE_BYTES_MAX)
        {
            at += 1;
            match byte {
                b'"' | b'\'' if quote == Some(byte) => quote = None,
                b'"' | b'\'' if quote.is_none() => quote = Some(byte),
                b' ' | b'\t' | b';' if quote.is_none() => break,
                b'\\' if quote != Some(b'\'') => {
                    value.extend(text.get(at));
                    at += 1;
                }
                b'$' if quote != Some(b'\'') => {
                    at += self.reference(text.get(at..).unwrap_or_default(), &mut value)
                }
                byte => value.push(byte),
            }
        }
        value
    }

    /// Reads the reference behind a dollar sign. Returns its length.
    fn reference(&mut self, text: &[u8], value: &mut Vec<u8>) -> usize {
        let Some(inner) = text.strip_prefix(b"{") else {
            let length = text
                .iter()
                .position(|byte| !is_name_byte(*byte))
                .unwrap_or(text.len());
            let name = text.get(..length).unwrap_or_default();
            value.extend(self.variables.get(name).into_iter().flatten());
            return length;
        };
        let Some(end) = inner.iter().position(|byte| *byte == b'}') else {
            return text.len();
        };
        let inner = inner.get(..end).unwrap_or_default();
        let length = inner
            .iter()
            .position(|byte| !is_name_byte(*byte))
            .unwrap_or(inner.len());
        let (name, rest) = inner.split_at(length);
        let found = self
            .variables
            .get(name)
            .filter(|found| !found.is_empty() || rest.is_empty())
            .cloned();
        let assigns = rest.starts_with(b":=") || rest.starts_with(b"=");
        let default = rest
            .iter()
            .position(|byte| matches!(byte, b'-' | b'='))
            .and_then(|at| rest.get(at + 1..))
            .unwrap_or_default();
        let result = found.unwrap_or_else(|| default.to_vec());
        if assigns {
            self.variables.insert(name.to_vec(), result.clone());
        }
        value.extend(result);
        end + 2
    }
}

fn first_word(line: &[u8]) -> &[u8] {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b';'))
        .next()
        .unwrap_or_default()
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_name_byte(*byte))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, before: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut environment: ProcessEnvironment = before
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        read_envvars(text.as_bytes(), &mut environment);
        let string = |bytes| String::from_utf8(bytes).unwrap();
        let mut pairs: Vec<(String, String)> = environment
            .into_iter()
            .map(|(name, value)| (string(name), string(value)))
            .collect();
        pairs.sort();
        pairs
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_file_like_debians() {
        let text = "# comment\nunset HOME\nif [ \"${CONFDIR##/etc/apache2-}\" != \"${CONFDIR}\" ] ; then\n\tSUFFIX=\"-${CONFDIR##/etc/apache2-}\"\nelse\n\
            \tSUFFIX=\nfi\n: ${RUN_USER:=www-data}\nexport RUN_USER\nexport PID=/var/run/a$SUFFIX/a.pid\nexport LOGS=/var/log/a$SUFFIX\n\
            ## export LANG=x\nexport LANG=C\nexport LANG\n. /etc/default/locale\nulimit -n 8192\n";
        let expected = pairs(&[
            ("LANG", "C"),
            ("LOGS", "/var/log/a"),
            ("PID", "/var/run/a/a.pid"),
            ("RUN_USER", "www-data"),
        ]);
        assert_eq!(read(text, &[]), expected);
        assert_eq!(
            read(": ${U:=a}\nexport U", &[("U", "b")]),
            pairs(&[("U", "b")])
        );
    }

    #[test]
    fn values() {
        let rows = [
            ("export A='$B \"c\"'", "$B \"c\""),
            ("export A=\"x$B-${B}y\\\"\"", "xb-by\""),
            ("export A=${NONE:-d e}f", "d ef"),
            ("export A=x # comment", "x"),
            ("export A=\"unclosed", "unclosed"),
            ("export A=${unclosed", ""),
            ("A=1\nexport A B", "1"),
        ];
        for (text, value) in rows {
            assert_eq!(
                read(&format!("B=b\n{text}"), &[]).first(),
                Some(&("A".to_owned(), value.to_owned())),
                "{text}"
            );
        }
        assert_eq!(
            read(
                "A=1\nexport 2bad-name=3\nif [ -n x ]\nthen\nexport C=1\nfi\n",
                &[]
            ),
            pairs(&[("C", "1")])
        );
    }
}
