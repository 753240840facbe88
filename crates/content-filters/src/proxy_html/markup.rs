//! Pieces of a page: tags, comments, scripts, and the text between.
//!
//! Called by: `proxy_html`.
//! Caveat: the page comes in any pieces, and what a tag is must not depend on them. What exceeds its
//! limit is passed on as text. Content of `textarea` and `title` is text (HTML section 13.1.2).
//! Out of scope: attributes (`attributes`), and the structure of the page.

use std::ops::Deref;

/// Longest tag that is edited.
pub const TAG_BYTES_MAX: usize = 64 << 10;
/// Longest script or style sheet that is edited.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// A piece of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Text(Vec<u8>),
    /// A start tag, from `<` to `>`.
    Tag(Vec<u8>),
    /// A comment, or a part of it.
    Comment(Vec<u8>),
    Doctype(Vec<u8>),
    /// The content of a script or style sheet, whole.
    Script(Vec<u8>),
}

/// The content of an element whose text is no markup.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RawElement {
    name: Vec<u8>,
    is_script: bool,
    /// It is too long to be edited.
    is_passed: bool,
}

/// Bytes that come at the end and are taken from the beginning. What has been taken goes with the next
/// push, so that taking a small piece does not copy the rest.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    taken: usize,
}

impl Buffer {
    fn push(&mut self, text: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(text);
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let piece = self.get(..bytes).unwrap_or(self).to_vec();
        self.taken += piece.len();
        piece
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }
}

/// A page that comes piece by piece.
#[derive(Debug, Default)]
pub struct Markup {
    buffer: Buffer,
    raw: Option<RawElement>,
    in_comment: bool,
    /// As far as the buffer has been looked at.
    scan: Scan,
}

/// A place in the buffer up to which an end was looked for, so that a page in small pieces costs no
/// more than a whole one.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    at: usize,
    /// Inside of a tag: the quote that is open, and an equals sign before it.
    quote: Option<u8>,
    is_value: bool,
}

impl Markup {
    pub fn push(&mut self, text: &[u8]) {
        self.buffer.push(text);
    }

    /// Returns the next piece. `is_last`: no more of the page will come. `None`: more is needed.
    pub fn next(&mut self, is_last: bool) -> Option<Token> {
        if self.buffer.is_empty() {
            return None;
        }
        if self.in_comment {
            return self.comment(is_last);
        }
        if self.raw.is_some() {
            return self.raw_content(is_last);
        }
        match memchr(b'<', &self.buffer) {
            Some(0) => self.markup(is_last),
            Some(at) => Some(Token::Text(self.take(at))),
            None => Some(Token::Text(self.take(self.buffer.len()))),
        }
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        self.scan = Scan::default();
        self.buffer.take(bytes)
    }

    /// Markup: it begins with `<`.
    fn markup(&mut self, is_last: bool) -> Option<Token> {
        const COMMENT: &[u8] = b"<!--";
        let begins_comment = COMMENT.starts_with(&self.buffer) || self.buffer.starts_with(COMMENT);
        if begins_comment {
            if self.buffer.len() < COMMENT.len() && !is_last {
                return None;
            }
            if self.buffer.starts_with(COMMENT) {
                self.in_comment = true;
                return Some(Token::Comment(self.take(COMMENT.len())));
            }
        }
        let Some(second) = self.buffer.get(1).copied() else {
            return is_last.then(|| Token::Text(self.take(1)));
        };
        let is_tag = second.is_ascii_alphabetic();
        if !is_tag && !matches!(second, b'!' | b'/' | b'?') {
            return Some(Token::Text(self.take(1)));
        }
        let end = match is_tag {
            true => self.scan.tag_end(&self.buffer),
            false => self.scan.byte(b'>', &self.buffer),
        };
        let Some(end) = end else {
            let is_too_long = self.buffer.len() > TAG_BYTES_MAX;
            return (is_last || is_too_long).then(|| Token::Text(self.take(self.buffer.len())));
        };
        let piece = self.take(end + 1);
        if !is_tag {
            let is_doctype = piece
                .get(..9)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"<!doctype"));
            return Some(if is_doctype {
                Token::Doctype(piece)
            } else {
                Token::Text(piece)
            });
        }
        self.enter(&piece);
        Some(if piece.len() > TAG_BYTES_MAX {
            Token::Text(piece)
        } else {
            Token::Tag(piece)
        })
    }

    /// Notes that the content of the element that begins is no markup.
    fn enter(&mut self, tag: &[u8]) {
        let name = name_of(tag);
        let is_script = name == b"script" || name == b"style";
        if is_script || name == b"textarea" || name == b"title" {
            self.raw = Some(RawElement {
                name,
                is_script,
                is_passed: false,
            });
        }
    }

    fn comment(&mut self, is_last: bool) -> Option<Token> {
        const END: &[u8] = b"-->";
        let end = self
            .buffer
            .windows(END.len())
            .position(|piece| piece == END);
        if let Some(at) = end {
            self.in_comment = false;
            return Some(Token::Comment(self.take(at + END.len())));
        }
        self.all_but(END.len() - 1, is_last).map(Token::Comment)
    }

    /// Everything except for the last `bytes`, which may begin what is looked for.
    fn all_but(&mut self, bytes: usize, is_last: bool) -> Option<Vec<u8>> {
        let length = match is_last {
            true => self.buffer.len(),
            false => self.buffer.len().saturating_sub(bytes),
        };
        (length > 0).then(|| self.take(length))
    }

    fn raw_content(&mut self, is_last: bool) -> Option<Token> {
        let raw = self.raw.as_mut()?;
        if let Some(at) = self.scan.end_tag(&self.buffer, &raw.name) {
            let is_edited = raw.is_script && !raw.is_passed;
            self.raw = None;
            let content = self.take(at);
            return match content.is_empty() {
                true => self.next(is_last),
                false if is_edited => Some(Token::Script(content)),
                false => Some(Token::Text(content)),
            };
        }
        let is_edited = raw.is_script && !raw.is_passed;
        if is_edited && self.buffer.len() <= SCRIPT_BYTES_MAX && !is_last {
            return None;
        }
        raw.is_passed = true;
        let name_bytes = raw.name.len();
        // `</name` may have begun.
        self.all_but(name_bytes + 2, is_last).map(Token::Text)
    }
}

fn memchr(byte: u8, text: &[u8]) -> Option<usize> {
    text.iter().position(|one| *one == byte)
}

/// The element's name in lower case.
pub fn name_of(tag: &[u8]) -> Vec<u8> {
    let rest = tag.get(1..).unwrap_or_default();
    let length = rest
        .iter()
        .take_while(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'/' | b'>'))
        .count();
    rest.get(..length).unwrap_or_default().to_ascii_lowercase()
}

impl Scan {
    fn byte(&mut self, wanted: u8, text: &[u8]) -> Option<usize> {
        let found = memchr(wanted, text.get(self.at..)?).map(|at| self.at + at);
        self.at = text.len();
        found
    }

    /// The place of the `>` that ends a start tag, which quoted values may contain, too.
    fn tag_end(&mut self, tag: &[u8]) -> Option<usize> {
        let from = self.at;
        self.at = tag.len();
        for (at, byte) in tag.iter().copied().enumerate().skip(from) {
            match (self.quote, byte) {
                (Some(open), _) if open == byte => self.quote = None,
                (Some(_), _) => {}
                (None, b'>') => return Some(at),
                (None, b'"' | b'\'') if self.is_value => self.quote = Some(byte),
                (None, b'=') => {
                    self.is_value = true;
                    continue;
                }
                (None, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') => continue,
                (None, _) => {}
            }
            self.is_value = false;
        }
        None
    }

    /// The place of `</name` behind which the name ends.
    fn end_tag(&mut self, text: &[u8], name: &[u8]) -> Option<usize> {
        let length = name.len() + 2;
        let end = text.len().saturating_sub(length);
        let found = (self.at..end).find(|at| {
            let rest = text.get(*at..).unwrap_or_default();
            rest.starts_with(b"</")
                && rest
                    .get(2..length)
                    .is_some_and(|found| found.eq_ignore_ascii_case(name))
                && rest.get(length).is_some_and(|byte| {
                    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'/' | b'>')
                })
        });
        self.at = end.max(self.at);
        found
    }
}
