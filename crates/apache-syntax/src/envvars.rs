//! Debian's `/etc/apache2/envvars`: what the init script exports to Apache, read without a shell.
//!
//! Understood are `NAME=value` and `export NAME[=value]`, quotes, `$NAME`, `${NAME}`,
//! `${NAME:-default}`, `: ${NAME:=default}`, `${NAME##pattern}` and its kin with `*` and `?`, and
//! `if`. Anything else in the file is skipped: it is a program, and a server that ran it would trust
//! it more than it needs to. The one name the file relies on is `APACHE_CONFDIR`, the folder that the
//! file is in: the stock file makes the suffix of an instance (`/etc/apache2-NAME`) of it.

use crate::{line::trimmed, variables::ProcessEnvironment};

/// Larger files are no lists of variables.
const BYTES_MAX: usize = 1 << 20;
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Adds what the file in a folder exports to the environment, which wins where the file only gives
/// defaults, and for names that begin with `APACHE_`: apachectl, which exports them, has read the file
/// for the instance that is meant.
pub fn read_envvars(text: &[u8], folder: &[u8], environment: &mut ProcessEnvironment) {
    let text = text.get(..BYTES_MAX.min(text.len())).unwrap_or_default();
    let mut shell = Shell {
        variables: environment.clone(),
        exported: Vec::new(),
        branches: Vec::new(),
    };
    let confdir = b"APACHE_CONFDIR".to_vec();
    shell.variables.insert(confdir, folder.to_vec());
    for line in text.split(|byte| *byte == b'\n') {
        shell.line(trimmed(line));
    }
    let is_told = |name: &[u8]| name.starts_with(b"APACHE_") && environment.contains_key(name);
    shell.exported.retain(|name| !is_told(name));
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
        if let Some(cut) = Cut::of(rest) {
            let found = self.variables.get(name).map_or(&b""[..], Vec::as_slice);
            value.extend(cut.rest(found));
            return end + 2;
        }
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

/// `#pattern` and `##pattern` cut the shortest and the longest beginning, `%` and `%%` the end.
struct Cut<'t> {
    is_at_end: bool,
    is_longest: bool,
    pattern: &'t [u8],
}

impl<'t> Cut<'t> {
    fn of(text: &'t [u8]) -> Option<Cut<'t>> {
        let (sign, rest) = text.split_first()?;
        if !matches!(sign, b'#' | b'%') {
            return None;
        }
        let longest = rest.strip_prefix(&[*sign]);
        Some(Cut {
            is_at_end: *sign == b'%',
            is_longest: longest.is_some(),
            pattern: longest.unwrap_or(rest),
        })
    }

    fn rest<'v>(&self, value: &'v [u8]) -> &'v [u8] {
        // Lengths of the part that is cut.
        let mut lengths: Vec<usize> = (0..=value.len()).collect();
        if self.is_longest {
            lengths.reverse();
        }
        let halves = lengths.into_iter().map(|length| match self.is_at_end {
            true => {
                let (rest, cut) = value.split_at(value.len() - length);
                (cut, rest)
            }
            false => value.split_at(length),
        });
        let mut matching = halves.filter(|(cut, _)| fits(cut, self.pattern));
        matching.next().map_or(value, |(_, rest)| rest)
    }
}

/// Returns true if the whole text has the pattern, in which `*` and `?` mean what they do in a shell.
fn fits(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut in_pattern, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                star = Some((at, in_pattern));
                in_pattern += 1;
            }
            Some(sign) if *sign == b'?' || text.get(at) == Some(sign) => {
                at += 1;
                in_pattern += 1;
            }
            _ => {
                let Some((from, star_at)) = star else {
                    return false;
                };
                star = Some((from + 1, star_at));
                (at, in_pattern) = (from + 1, star_at + 1);
            }
        }
    }
    pattern.iter().skip(in_pattern).all(|sign| *sign == b'*')
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
        read_envvars(text.as_bytes(), b"/etc/apache2", &mut environment);
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
    fn instances_have_their_own_files() {
        const STOCK: &str = "if [ \"${APACHE_CONFDIR##/etc/apache2-}\" != \"${APACHE_CONFDIR}\" ] ; then\n\
            \tSUFFIX=\"-${APACHE_CONFDIR##/etc/apache2-}\"\nelse\n\tSUFFIX=\nfi\n\
            export APACHE_PID_FILE=/var/run/apache2$SUFFIX/apache2.pid\n";
        let pid_file = |folder: &str, told: Option<&str>| {
            let mut environment = ProcessEnvironment::default();
            if let Some(told) = told {
                environment.insert(b"APACHE_PID_FILE".to_vec(), told.into());
            }
            read_envvars(STOCK.as_bytes(), folder.as_bytes(), &mut environment);
            assert_eq!(environment.len(), 1, "{environment:?}");
            String::from_utf8(environment.into_iter().next().unwrap().1).unwrap()
        };
        assert_eq!(
            pid_file("/etc/apache2", None),
            "/var/run/apache2/apache2.pid"
        );
        assert_eq!(
            pid_file("/etc/apache2-two", None),
            "/var/run/apache2-two/apache2.pid"
        );
        assert_eq!(pid_file("/etc/apache2", Some("/x.pid")), "/x.pid");
    }

    #[test]
    fn cuts() {
        for (expression, value) in [
            ("${A#*/}", "b/c.d.e"),
            ("${A##*/}", "c.d.e"),
            ("${A%.*}", "a/b/c.d"),
            ("${A%%.*}", "a/b/c"),
            ("${A#x}", "a/b/c.d.e"),
            ("${A#?}", "/b/c.d.e"),
            ("${A##*}", ""),
            ("${A%}", "a/b/c.d.e"),
            ("${NONE##*/}", ""),
        ] {
            let text = format!("A=a/b/c.d.e\nexport B={expression}");
            assert_eq!(read(&text, &[]), pairs(&[("B", value)]), "{expression}");
        }
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
