//! Exceptions that were agreed on: `kind path [function] number reason`, one a line.
//!
//! The number is the most that is allowed. Where the code has become better than its exception, the
//! exception has to follow: a ratchet that is not tightened is a licence.

use super::finding::Finding;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    FileLines,
    FunctionLines,
    Unwrap,
    Opens,
    /// Files of a crate that stand in module circles.
    Circle,
    /// Public names of a crate that have a standard word.
    Names,
    /// Comments of a crate in private words.
    Comments,
}

struct Exception {
    kind: Kind,
    subject: String,
    allowed: usize,
    line: usize,
    used: bool,
}

pub struct Exceptions {
    all: Vec<Exception>,
}

impl Exceptions {
    pub fn parse(file: &str, text: &str) -> (Exceptions, Vec<Finding>) {
        let (mut all, mut findings) = (Vec::new(), Vec::new());
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        {
            match parse_line(index + 1, line) {
                Some(exception) => all.push(exception),
                None => findings.push(Finding::new(
                    file,
                    index + 1,
                    "is not `kind path [function] number reason`",
                )),
            }
        }
        (Exceptions { all }, findings)
    }

    /// Returns the number allowed for the subject, `otherwise` without an exception. An exception
    /// that is wider than `actual` is reported.
    pub fn allowed(&mut self, kind: Kind, subject: &str, actual: usize, otherwise: usize) -> usize {
        let Some(found) = self
            .all
            .iter_mut()
            .find(|exception| exception.kind == kind && exception.subject == subject)
        else {
            return otherwise;
        };
        // One that no longer needs it, or not so much, leaves `used` unset.
        // Functions of one name in a file share an exception.
        found.used |= actual > otherwise && actual >= found.allowed;
        found.allowed
    }

    pub fn report_unused(&self, file: &str, findings: &mut Vec<Finding>) {
        for exception in self.all.iter().filter(|exception| !exception.used) {
            let what = format!(
                "`{}` is better than its exception (or gone): lower the number or remove the line",
                exception.subject
            );
            findings.push(Finding::new(file, exception.line, what));
        }
    }
}

fn parse_line(line: usize, text: &str) -> Option<Exception> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (kind, subject, rest) = match words.as_slice() {
        ["file-lines", path, rest @ ..] => (Kind::FileLines, (*path).to_owned(), rest),
        ["unwrap", path, rest @ ..] => (Kind::Unwrap, (*path).to_owned(), rest),
        ["circle", path, rest @ ..] => (Kind::Circle, (*path).to_owned(), rest),
        ["names", path, rest @ ..] => (Kind::Names, (*path).to_owned(), rest),
        ["comments", path, rest @ ..] => (Kind::Comments, (*path).to_owned(), rest),
        ["opens", path, rest @ ..] => (Kind::Opens, (*path).to_owned(), rest),
        ["fn-lines", path, function, rest @ ..] => {
            (Kind::FunctionLines, format!("{path} {function}"), rest)
        }
        _ => return None,
    };
    // A number and a reason: an exception without one is none.
    let [number, _, ..] = rest else { return None };
    Some(Exception {
        kind,
        subject,
        allowed: number.parse().ok()?,
        line,
        used: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# comment\n\nfile-lines a.rs 900 one state machine\nfn-lines a.rs parse 80 one match\nunwrap b.rs 2 poisoned locks\n";

    #[test]
    fn allowed_by_subject() {
        let (mut exceptions, findings) = Exceptions::parse("f", TEXT);
        assert_eq!(findings, []);
        assert_eq!(exceptions.allowed(Kind::FileLines, "a.rs", 900, 800), 900);
        assert_eq!(exceptions.allowed(Kind::FileLines, "b.rs", 10, 800), 800);
        assert_eq!(
            exceptions.allowed(Kind::FunctionLines, "a.rs parse", 80, 70),
            80
        );
        assert_eq!(exceptions.allowed(Kind::Unwrap, "b.rs", 2, 0), 2);
        let mut unused = Vec::new();
        exceptions.report_unused("f", &mut unused);
        assert_eq!(unused, []);
    }

    #[test]
    fn a_ratchet_has_to_follow() {
        let (mut exceptions, _) = Exceptions::parse("f", TEXT);
        exceptions.allowed(Kind::FileLines, "a.rs", 850, 800);
        exceptions.allowed(Kind::Unwrap, "b.rs", 0, 0);
        let mut unused = Vec::new();
        exceptions.report_unused("f", &mut unused);
        assert_eq!(
            unused
                .iter()
                .map(|finding| finding.line)
                .collect::<Vec<_>>(),
            [3, 4, 5]
        );
    }

    #[test]
    fn reasons_are_asked_for() {
        let (_, findings) = Exceptions::parse(
            "f",
            "file-lines a.rs 900\nfn-lines a.rs 80 reason\nnonsense\n",
        );
        assert_eq!(
            findings
                .iter()
                .map(|finding| finding.line)
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
    }
}
