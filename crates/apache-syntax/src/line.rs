//! Text to logical lines, by Apache's rules.
//!
//! A line that ends in a backslash goes on in the next, whatever stands before the backslash and
//! even if the line is a comment. White space round the joined line goes; the white space at the
//! beginning of a line that continues another stays. A zero byte hides the rest of its line, its
//! continuation too, since Apache reads C strings.

use crate::limits::LINE_BYTES_MAX;
use std::{ops::Range, sync::Arc};

/// A logical line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of what it was read from.
    pub file: Arc<str>,
    /// Without the white space round it.
    pub text: Vec<u8>,
    /// Number of the first physical line, from 1.
    pub number: u32,
    /// Column of the text in that line, from 1.
    pub column: u32,
}

/// Text that is read line by line: a file, or what a macro was expanded to.
#[derive(Clone, Debug)]
pub struct Feed {
    /// As shown to the user, and as Apache names it.
    pub name: Arc<str>,
    /// Lower case; of an expanded macro.
    pub macro_name: Option<Arc<[u8]>>,
    text: Arc<[u8]>,
    position: usize,
    /// Physical lines that were read.
    lines: u32,
}

/// The number of the line that is longer than [`LINE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong(pub u32);

impl Feed {
    pub fn new(name: Arc<str>, text: Arc<[u8]>) -> Feed {
        Feed {
            name,
            macro_name: None,
            text,
            position: 0,
            lines: 0,
        }
    }

    /// `None` at the end. After [`LineTooLong`] the next line may be asked for.
    pub fn next_line(&mut self) -> Option<Result<Line, LineTooLong>> {
        let mut line = self.physical_line()?;
        let number = self.lines;
        let mut text = Vec::new();
        while append(&mut text, self.text.get(line).unwrap_or_default())
            && text.len() <= LINE_BYTES_MAX
        {
            match self.physical_line() {
                Some(next) => line = next,
                None => break,
            }
        }
        if text.len() > LINE_BYTES_MAX {
            return Some(Err(LineTooLong(number)));
        }
        let column = text
            .iter()
            .position(|byte| !is_space(*byte))
            .map_or(1, |before| before as u32 + 1);
        Some(Ok(Line {
            file: self.name.clone(),
            text: trimmed(&text).to_vec(),
            number,
            column,
        }))
    }

    /// With its line end.
    fn physical_line(&mut self) -> Option<Range<usize>> {
        let rest = self
            .text
            .get(self.position..)
            .filter(|rest| !rest.is_empty())?;
        let length = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(rest.len(), |at| at + 1);
        let start = self.position;
        self.position += length;
        self.lines += 1;
        Some(start..self.position)
    }
}

/// Adds a physical line to a logical one; whether the next belongs to it too.
fn append(text: &mut Vec<u8>, line: &[u8]) -> bool {
    if let Some(zero) = line.iter().position(|byte| *byte == 0) {
        text.extend(line.iter().take(zero));
        return false;
    }
    text.extend(line);
    let Some(body) = text.strip_suffix(b"\n") else {
        return false;
    };
    let body = body.strip_suffix(b"\r").unwrap_or(body);
    let Some(body) = body.strip_suffix(b"\\") else {
        return false;
    };
    let length = body.len();
    text.truncate(length);
    true
}

/// Returns whether C's `isspace` accepts the byte.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Without white space at both ends.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|byte| !is_space(*byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !is_space(*byte))
        .map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(String, u32, u32)> {
        let mut feed = Feed::new("f".into(), text.as_bytes().into());
        let next = std::iter::from_fn(|| feed.next_line());
        next.map(|line| {
            line.map(|line| {
                (
                    String::from_utf8(line.text).unwrap(),
                    line.number,
                    line.column,
                )
            })
            .unwrap()
        })
        .collect()
    }

    fn line(text: &str, number: u32, column: u32) -> (String, u32, u32) {
        (text.to_owned(), number, column)
    }

    #[test]
    fn continuation() {
        assert_eq!(
            lines("a \\\n  b\nc"),
            [line("a   b", 1, 1), line("c", 3, 1)]
        );
        assert_eq!(lines("a\\\r\nb\r\n"), [line("ab", 1, 1)]);
        assert_eq!(
            lines("a\\\\\nb\n"),
            [line("a\\b", 1, 1)],
            "the first of two backslashes stays, the second continues"
        );
        assert_eq!(
            lines("a \\ \nb\n"),
            [line("a \\", 1, 1), line("b", 2, 1)],
            "white space behind the backslash"
        );
        assert_eq!(
            lines("# x \\\nb\n"),
            [line("# x b", 1, 1)],
            "comments continue too"
        );
        assert_eq!(lines("\\\n\\\nb"), [line("b", 1, 1)]);
    }

    #[test]
    fn the_end_of_the_text() {
        assert_eq!(lines(""), []);
        assert_eq!(
            lines("a\\"),
            [line("a\\", 1, 1)],
            "no line end, no continuation"
        );
        assert_eq!(lines("a\\\n"), [line("a", 1, 1)]);
        assert_eq!(
            lines("\n\na"),
            [line("", 1, 1), line("", 2, 1), line("a", 3, 1)]
        );
    }

    #[test]
    fn white_space_and_zero_bytes() {
        assert_eq!(lines(" \t a b\t \r\n"), [line("a b", 1, 4)]);
        assert_eq!(lines("a b\0 c \\\nd"), [line("a b", 1, 1), line("d", 2, 1)]);
    }

    #[test]
    fn the_longest_line() {
        let mut text = vec![b'x'; LINE_BYTES_MAX - 1];
        text.push(b'\n');
        let mut feed = Feed::new("f".into(), text.as_slice().into());
        assert!(feed.next_line().unwrap().is_ok());
        text.insert(0, b'x');
        let mut feed = Feed::new("f".into(), text.as_slice().into());
        assert_eq!(feed.next_line(), Some(Err(LineTooLong(1))));
        assert_eq!(feed.next_line(), None);
    }
}
