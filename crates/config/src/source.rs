//! The text of one configuration file, and locations in it.
//!
//! Every value read from a file carries a [`Location`] until the whole configuration is checked, so
//! that a late diagnostic (duplicate names in two files) still shows the line. A `Location` is a
//! reference count and two offsets; line and column are computed on demand.

use crate::origin::Origin;
use std::{ops::Range, path::PathBuf, sync::Arc};

#[derive(Debug)]
pub struct Source {
    /// As shown to the user.
    pub name: Arc<str>,
    /// Directory that relative paths are relative to.
    pub base: PathBuf,
    pub text: String,
    /// Position among the files of this load; diagnostics are sorted by it.
    pub order: usize,
    line_starts: Vec<usize>,
}

impl Source {
    pub fn new(name: &str, base: PathBuf, text: String, order: usize) -> Source {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Source {
            name: name.into(),
            base,
            text,
            order,
            line_starts,
        }
    }

    /// Returns the location of a value by the origin that was made of it, as far as the line
    /// reaches.
    pub fn locate(self: &Arc<Source>, origin: &Origin) -> Option<Location> {
        let line = (origin.line as usize).checked_sub(1)?;
        let start = *self.line_starts.get(line)?;
        let text = self.line(line);
        let before = text
            .char_indices()
            .nth((origin.column as usize).checked_sub(1)?)?
            .0;
        Some(Location {
            source: Arc::clone(self),
            span: start + before..start + text.len(),
        })
    }

    /// Returns the line (from 0) of an offset.
    pub fn line_of(&self, offset: usize) -> usize {
        self.line_starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1)
    }

    /// Returns the text of a line without its end.
    pub fn line(&self, line: usize) -> &str {
        let start = self
            .line_starts
            .get(line)
            .copied()
            .unwrap_or(self.text.len());
        let end = self
            .line_starts
            .get(line + 1)
            .copied()
            .unwrap_or(self.text.len());
        self.text
            .get(start..end)
            .unwrap_or_default()
            .trim_end_matches(['\n', '\r'])
    }

    /// Returns the text between two offsets; empty if they split a character.
    pub fn slice(&self, span: Range<usize>) -> &str {
        self.text.get(span).unwrap_or_default()
    }
}

/// A range of bytes of a source.
#[derive(Clone, Debug)]
pub struct Location {
    pub source: Arc<Source>,
    pub span: Range<usize>,
}

impl Location {
    /// The part of a value that is at `part` of its text; the whole value if it has escapes.
    pub fn within(&self, text: &str, part: &Range<usize>) -> Location {
        let written = self.source.slice(self.span.clone());
        let start = written.find(text).filter(|_| !text.is_empty());
        let span = match start {
            Some(at) => {
                let start = self.span.start + at;
                start + part.start..start + part.end.max(part.start + 1)
            }
            None => self.span.clone(),
        };
        Location {
            source: Arc::clone(&self.source),
            span,
        }
    }

    pub fn origin(&self) -> Origin {
        let (line, column) = self.line_and_column();
        Origin {
            file: self.source.name.clone(),
            line: line as u32 + 1,
            column: column as u32 + 1,
        }
    }

    /// Returns the number of characters of the range on its first line; at least one.
    pub fn length(&self) -> u32 {
        let text = self.source.slice(self.span.clone());
        let first = text.split(['\n', '\r']).next().unwrap_or_default();
        first.chars().count().max(1) as u32
    }

    pub fn line_text(&self) -> &str {
        self.source.line(self.line_and_column().0)
    }

    fn line_and_column(&self) -> (usize, usize) {
        let line = self.source.line_of(self.span.start);
        let start = self.source.line_starts.get(line).copied().unwrap_or(0);
        (
            line,
            self.source.slice(start..self.span.start).chars().count(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = Arc::new(Source::new(
            "a.toml",
            PathBuf::new(),
            "x = 1\r\nö = \"é\" # y\n".into(),
            0,
        ));
        let at = Location {
            source: source.clone(),
            span: 12..16,
        };
        assert_eq!(at.origin().to_string(), "a.toml:2:5");
        assert_eq!(at.length(), 3);
        assert_eq!(at.line_text(), "ö = \"é\" # y");
        assert_eq!(Location { source, span: 0..0 }.length(), 1);
    }

    #[test]
    fn the_end_of_the_text_is_a_place() {
        let source = Arc::new(Source::new("a.toml", PathBuf::new(), "x".into(), 0));
        assert_eq!(
            Location { source, span: 1..1 }.origin().to_string(),
            "a.toml:1:2"
        );
    }
}
