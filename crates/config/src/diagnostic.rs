//! Diagnostics: what is wrong with a configuration, where, and how to fix it.
//!
//! Called by: the native front end and the Apache front end. All diagnostics of a load are
//! collected, sorted by source position and shown together, each with its line and a marker under
//! the cause.
//! Caveat: file contents are not trusted on a terminal; control characters are replaced, and long
//! lines are cut to a window around the cause.
//! Out of scope: error codes; the sentence is the message.

use crate::{origin::Origin, source::Location};
use std::fmt;

/// Maximum number of characters shown of a source line.
const SHOWN_MAX: usize = 140;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
    /// Information; nothing to fix.
    Note,
}

#[derive(Clone, Debug)]
pub struct Diagnostic {
    pub severity: Severity,
    pub origin: Origin,
    /// Number of characters of the cause, from the origin's column.
    pub length: u32,
    pub message: String,
    /// The fix.
    pub help: Option<String>,
    source_line: String,
    order: usize,
}

impl Diagnostic {
    pub(crate) fn new(
        severity: Severity,
        at: &Location,
        message: String,
        help: Option<String>,
    ) -> Diagnostic {
        let order = at.source.order;
        Diagnostic {
            severity,
            origin: at.origin(),
            length: at.length(),
            message,
            help,
            source_line: at.line_text().into(),
            order,
        }
    }

    /// For a front end with its own sources, which also sorts; `line` is the line as shown.
    pub fn with_line(
        severity: Severity,
        origin: Origin,
        length: u32,
        message: String,
        help: Option<String>,
        line: &str,
    ) -> Diagnostic {
        Diagnostic {
            severity,
            origin,
            length,
            message,
            help,
            source_line: line.into(),
            order: 0,
        }
    }

    /// For problems without a location in a file, such as an unreadable file.
    pub fn without_source(origin: Origin, message: String) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            origin,
            length: 0,
            message,
            help: None,
            source_line: String::new(),
            order: 0,
        }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Renders with terminal colors.
    pub fn colored(&self) -> impl fmt::Display + '_ {
        Rendered {
            diagnostic: self,
            colors: &COLOURED,
        }
    }

    pub(crate) fn sort_key(&self) -> (usize, u32, u32) {
        (self.order, self.origin.line, self.origin.column)
    }
}

/// All diagnostics of a refused configuration, warnings included, in source order. Contains at
/// least one error.
#[derive(Clone, Debug)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Renders with terminal colors.
    pub fn colored(&self) -> impl fmt::Display + '_ {
        AllRendered {
            diagnostics: &self.0,
            colors: &COLOURED,
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AllRendered {
            diagnostics: &self.0,
            colors: &PLAIN,
        }
        .fmt(f)
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rendered {
            diagnostic: self,
            colors: &PLAIN,
        }
        .fmt(f)
    }
}

struct Colors {
    error: &'static str,
    warning: &'static str,
    note: &'static str,
    gutter: &'static str,
    bold: &'static str,
    reset: &'static str,
}

const PLAIN: Colors = Colors {
    error: "",
    warning: "",
    note: "",
    gutter: "",
    bold: "",
    reset: "",
};
const COLOURED: Colors = Colors {
    error: "\x1b[1;31m",
    warning: "\x1b[1;33m",
    note: "\x1b[1;36m",
    gutter: "\x1b[1;34m",
    bold: "\x1b[1m",
    reset: "\x1b[0m",
};

impl Colors {
    fn of(&self, severity: Severity) -> &'static str {
        match severity {
            Severity::Error => self.error,
            Severity::Warning => self.warning,
            Severity::Note => self.note,
        }
    }
}

struct AllRendered<'d> {
    diagnostics: &'d [Diagnostic],
    colors: &'static Colors,
}

impl fmt::Display for AllRendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            Rendered {
                diagnostic,
                colors: self.colors,
            }
            .fmt(f)?;
        }
        Ok(())
    }
}

struct Rendered<'d> {
    diagnostic: &'d Diagnostic,
    colors: &'static Colors,
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic {
            severity,
            origin,
            message,
            ..
        } = self.diagnostic;
        let Colors { bold, reset, .. } = self.colors;
        let color = self.colors.of(*severity);
        let word = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        writeln!(
            f,
            "{bold}{origin}: {color}{word}{reset}{bold}: {message}{reset}"
        )?;
        self.source_line(f)?;
        match &self.diagnostic.help {
            Some(help) => writeln!(f, "{bold}help:{reset} {help}"),
            None => Ok(()),
        }
    }
}

impl Rendered<'_> {
    fn source_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic {
            severity,
            origin,
            length,
            source_line,
            ..
        } = self.diagnostic;
        if origin.line == 0 || *length == 0 {
            return Ok(());
        }
        let Colors { gutter, reset, .. } = self.colors;
        let caret = self.colors.of(*severity);
        let (shown, before) = window(source_line, origin.column as usize - 1);
        let number = origin.line.to_string();
        let margin = " ".repeat(number.len());
        let under = (*length as usize)
            .min(shown.chars().count().saturating_sub(before))
            .max(1);
        writeln!(f, "{gutter}{margin} |{reset}")?;
        writeln!(f, "{gutter}{number} |{reset} {shown}")?;
        writeln!(
            f,
            "{gutter}{margin} |{reset} {}{caret}{}{reset}",
            " ".repeat(before),
            "^".repeat(under)
        )
    }
}

/// The part of a line to show, and the number of its characters before the cause.
fn window(line: &str, column: usize) -> (String, usize) {
    let skip = if column + 20 > SHOWN_MAX {
        column - 20
    } else {
        0
    };
    let mut shown: String = line
        .chars()
        .skip(skip)
        .take(SHOWN_MAX)
        .map(visible)
        .collect();
    if skip > 0 {
        shown.insert_str(0, "...");
    }
    let before = column - skip + if skip > 0 { 3 } else { 0 };
    (shown.trim_end().to_owned(), before)
}

fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// Quotes, escapes and shortens text of a file for a message.
pub(crate) fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    let escaped: String = text
        .chars()
        .take(MAX)
        .flat_map(char::escape_debug)
        .collect();
    let more = if text.chars().nth(MAX).is_some() {
        "..."
    } else {
        ""
    };
    format!("\"{}{more}\"", escaped.replace("\\'", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use std::{path::PathBuf, sync::Arc};

    fn diagnostic(text: &str, span: std::ops::Range<usize>) -> Diagnostic {
        let source = Arc::new(Source::new("saker.toml", PathBuf::new(), text.into(), 0));
        Diagnostic::new(
            Severity::Error,
            &Location { source, span },
            "wrong".into(),
            Some("do right".into()),
        )
    }

    #[test]
    fn shows_the_line_and_carets() {
        let expected =
            "saker.toml:2:5: error: wrong\n  |\n2 | b = true\n  |     ^^^^\nhelp: do right\n";
        assert_eq!(
            diagnostic("a = 1\nb = true\n", 10..14).to_string(),
            expected
        );
    }

    #[test]
    fn colors_only_when_asked() {
        let diagnostics = Diagnostics(vec![diagnostic("a = 1", 4..5)]);
        assert!(!diagnostics.to_string().contains('\x1b'));
        let colored = diagnostics.colored().to_string();
        assert!(colored.contains("\x1b[1;31merror\x1b[0m"), "{colored:?}");
    }

    #[test]
    fn a_terminal_is_safe_from_the_file() {
        let shown = diagnostic("a = \"\x1b[2J\"\t# x", 4..9).to_string();
        assert!(
            !shown.contains('\x1b') && !shown.contains('\t'),
            "{shown:?}"
        );
    }

    #[test]
    fn long_lines_are_cut_round_the_cause() {
        let text = format!("a = \"{}\" b", "x".repeat(1000));
        let shown = diagnostic(&text, 1007..1008).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[2].len() < 200, "{shown}");
        assert_eq!(lines[3].find('^'), lines[2].rfind('b'), "{shown}");
    }
}
