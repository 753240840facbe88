//! Finds ESI tags in a page: `<esi:name …>`, `<esi_name …/>`, `</esi:name>`, and `<!--esi`.
//!
//! Called by: the parser.
//! Caveat: everything else belongs to the page, whatever it looks like. A tag that does not end, or
//! has unreadable attributes, is not a tag.

use std::ops::Range;

/// Maximum length of a tag.
const TAG_BYTES_MAX: usize = 16 << 10;
const COMMENT: &[u8] = b"<!--esi";

/// The next thing of ESI's.
pub(crate) enum Mark {
    Open(Tag),
    /// The name, and where the tag is.
    Close(Vec<u8>, Range<usize>),
    /// `<!--esi` with the white space behind it.
    Comment(Range<usize>),
}

pub(crate) struct Tag {
    /// Name in lower case, without `esi:`.
    pub name: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// `/>`
    pub is_empty: bool,
    pub range: Range<usize>,
}

impl Tag {
    /// The value of an attribute, with entities decoded.
    pub fn attribute(&self, name: &[u8]) -> Option<&[u8]> {
        self.attributes
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }
}

/// The first mark that begins in this range of the page; all of it is in there, too.
pub(crate) fn next(page: &[u8], range: Range<usize>) -> Option<Mark> {
    let mut from = range.start;
    loop {
        let at = from + memchr::memchr(b'<', page.get(from..range.end)?)?;
        if let Some(mark) = mark_at(page.get(at..range.end)?, at) {
            return Some(mark);
        }
        from = at + 1;
    }
}

fn mark_at(text: &[u8], at: usize) -> Option<Mark> {
    if text.starts_with(COMMENT) {
        let rest = text.get(COMMENT.len()..)?;
        return rest
            .first()?
            .is_ascii_whitespace()
            .then_some(Mark::Comment(at..at + COMMENT.len() + 1));
    }
    let is_close = text.get(1) == Some(&b'/');
    let begin = if is_close { 2 } else { 1 };
    let prefix = text.get(begin..begin + 4)?;
    if !prefix.get(..3)?.eq_ignore_ascii_case(b"esi") || !matches!(prefix.get(3), Some(b':' | b'_'))
    {
        return None;
    }
    let text = text.get(..text.len().min(TAG_BYTES_MAX))?;
    let mut reader = Reader {
        text,
        at: begin + 4,
    };
    let name = reader.name().to_ascii_lowercase();
    if name.is_empty() {
        return None;
    }
    match is_close {
        true => {
            reader.skip_space();
            reader
                .take(b'>')
                .then(|| Mark::Close(name, at..at + reader.at))
        }
        false => reader.rest_of_tag(name, at).map(Mark::Open),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_space(&mut self) -> bool {
        !self
            .take_while(|byte| byte.is_ascii_whitespace())
            .is_empty()
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'t [u8] {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let taken = &rest[..rest
            .iter()
            .position(|byte| !wanted(*byte))
            .unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn name(&mut self) -> &'t [u8] {
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'))
    }

    fn rest_of_tag(mut self, name: Vec<u8>, start: usize) -> Option<Tag> {
        let mut attributes = Vec::new();
        loop {
            let is_apart = self.skip_space();
            let is_empty = self.take(b'/');
            if self.take(b'>') {
                return Some(Tag {
                    name,
                    attributes,
                    is_empty,
                    range: start..start + self.at,
                });
            }
            if is_empty || !is_apart {
                return None;
            }
            attributes.push(self.attribute()?);
        }
    }

    fn attribute(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let name = self.name().to_ascii_lowercase();
        self.skip_space();
        if name.is_empty() || !self.take(b'=') {
            return None;
        }
        self.skip_space();
        let value = match self.peek()? {
            quote @ (b'"' | b'\'') => {
                self.at += 1;
                let value = self.take_while(|byte| byte != quote);
                self.take(quote).then_some(value)?
            }
            _ => {
                let value = self.take_while(|byte| {
                    !byte.is_ascii_whitespace() && !matches!(byte, b'>' | b'"' | b'\'')
                });
                // `src=/a/>`: the slash ends the tag.
                match value
                    .strip_suffix(b"/")
                    .filter(|_| self.peek() == Some(b'>'))
                {
                    Some(value) => {
                        self.at -= 1;
                        value
                    }
                    None => value,
                }
            }
        };
        Some((name, decoded(value)))
    }
}

/// HTML's entities that addresses and expressions need; others stay as they are.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest) {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        let end = from.iter().take(12).position(|byte| *byte == b';');
        match end.and_then(|end| Some((entity(&from[1..end])?, end))) {
            Some((character, end)) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &from[end + 1..];
            }
            None => {
                out.push(b'&');
                rest = &from[1..];
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

fn entity(name: &[u8]) -> Option<char> {
    match name {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        [b'#', b'x' | b'X', digits @ ..] => {
            char::from_u32(u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?)
        }
        [b'#', digits @ ..] => char::from_u32(std::str::from_utf8(digits).ok()?.parse().ok()?),
        _ => None,
    }
}
