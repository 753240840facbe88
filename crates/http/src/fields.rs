//! Response fields: an ordered list, because order is visible and lists of this length beat maps.
//!
//! Called by: everything that makes, changes, or encodes a response head.
//! Caveat: text that is not static lies in one buffer per list, so a list costs two or three
//! allocations however many lines it has. Replaced and removed text stays there until the list is
//! dropped.
//! Out of scope: request fields (`head`), which are spans into the bytes that arrived.

use crate::chars::has_control;
use std::{borrow::Cow, fmt};

/// A field value. Static where it can be.
pub type Value = Cow<'static, [u8]>;

/// Field lines of a response (or of trailers), in the order they go out.
#[derive(Clone, Default)]
pub struct Fields {
    lines: Vec<Line>,
    /// Names that are not static.
    names: String,
    /// Values that are not static.
    values: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Line {
    name: Text<&'static str>,
    value: Text<&'static [u8]>,
}

/// Text of the program, or a part of the list's own buffer.
#[derive(Clone, Copy)]
enum Text<T> {
    Static(T),
    /// First byte and length; heads are far shorter than 4 GB.
    Own(u32, u32),
}

impl Fields {
    pub fn new() -> Self {
        Fields::default()
    }

    /// With room for so many lines, and so many bytes of values that are not static.
    pub fn with_capacity(lines: usize, value_bytes: usize) -> Self {
        Fields {
            lines: Vec::with_capacity(lines),
            names: String::new(),
            values: Vec::with_capacity(value_bytes),
        }
    }

    /// Makes room for so many more lines, and bytes of values that are not static.
    pub fn reserve(&mut self, lines: usize, value_bytes: usize) {
        self.lines.reserve(lines);
        self.values.reserve(value_bytes);
    }

    /// Adds a line; lines of the same name stay.
    pub fn append(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let line = Line {
            name: self.keep_name(name.into()),
            value: self.keep_value(value.into()),
        };
        self.lines.push(line);
    }

    /// [`Fields::append`] of texts that are only borrowed; common ones are static then.
    pub fn append_copy(&mut self, name: &str, value: &[u8]) {
        let name = match frequent_name(name.as_bytes()) {
            Some(known) => Text::Static(known),
            None => self.copy_name(name),
        };
        let value = self.copy_value_unless_known(value);
        self.lines.push(Line { name, value });
    }

    /// [`Fields::append_copy`] of a name that is a token (RFC 9110 section 5.6.2), and so text; what
    /// is none is left out with its value.
    pub fn append_token(&mut self, name: &[u8], value: &[u8]) {
        let name = match frequent_name(name) {
            Some(known) => Text::Static(known),
            None => match std::str::from_utf8(name) {
                Ok(name) => self.copy_name(name),
                Err(_) => return,
            },
        };
        let value = self.copy_value_unless_known(value);
        self.lines.push(Line { name, value });
    }

    /// Sets the one line of that name, in the place of the first such line.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let name = name.into();
        let value = self.keep_value(value.into());
        match self.position(&name) {
            Some(at) => {
                self.lines[at].value = value;
                let mut index = 0;
                self.retain(|other| {
                    index += 1;
                    index - 1 <= at || !other.eq_ignore_ascii_case(&name)
                });
            }
            None => {
                let name = self.keep_name(name);
                self.lines.push(Line { name, value });
            }
        }
    }

    /// [`Fields::set`] of texts that are only borrowed.
    pub fn set_copy(&mut self, name: &str, value: &[u8]) {
        match self.has(name) {
            true => self.set(name.to_owned(), value.to_vec()),
            false => self.append_copy(name, value),
        }
    }

    /// Removes all lines of that name and says whether there were any.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        self.retain(|other| !is_name(other, name));
        before != self.lines.len()
    }

    /// Keeps the lines whose names are wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str) -> bool) {
        let names = &self.names;
        self.lines.retain(|line| wanted(name_in(names, line.name)));
    }

    pub fn first(&self, name: &str) -> Option<&[u8]> {
        let line = self.lines.get(self.position(name)?)?;
        Some(self.value(line))
    }

    pub fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Adds `token` to a comma list such as `Vary` unless it is there already or the list is `*`.
    pub fn add_token(&mut self, name: &'static str, token: &str) {
        let Some(old) = self.first(name) else {
            return match frequent_value(token.as_bytes()) {
                Some(known) => self.append(name, known),
                None => self.append(name, token.as_bytes().to_vec()),
            };
        };
        let there = old
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
            .any(|part| part == b"*" || part.eq_ignore_ascii_case(token.as_bytes()));
        if !there {
            let joined = [old, b", ", token.as_bytes()].concat();
            self.set(name, joined);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines
            .iter()
            .map(|line| (name_in(&self.names, line.name), self.value(line)))
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| is_name(name_in(&self.names, line.name), name))
    }

    fn value(&self, line: &Line) -> &[u8] {
        match line.value {
            Text::Static(value) => value,
            Text::Own(start, length) => &self.values[start as usize..][..length as usize],
        }
    }

    fn keep_name(&mut self, name: Cow<'static, str>) -> Text<&'static str> {
        match name {
            Cow::Borrowed(name) => Text::Static(name),
            Cow::Owned(name) => self.copy_name(&name),
        }
    }

    fn copy_name(&mut self, name: &str) -> Text<&'static str> {
        let start = self.names.len();
        self.names.push_str(name);
        Text::Own(start as u32, name.len() as u32)
    }

    fn keep_value(&mut self, value: Value) -> Text<&'static [u8]> {
        match value {
            Cow::Borrowed(value) if !has_line_end(value) => Text::Static(value),
            value => self.copy_value(&value),
        }
    }

    fn copy_value_unless_known(&mut self, value: &[u8]) -> Text<&'static [u8]> {
        match frequent_value(value) {
            Some(known) => Text::Static(known),
            None => self.copy_value(value),
        }
    }

    /// RFC 9110 section 5.5: line ends and NUL become spaces, wherever a value came from; otherwise
    /// a decoded path in it could begin another field, or another response. This is the one place
    /// for every protocol and for heads that are encoded once.
    fn copy_value(&mut self, value: &[u8]) -> Text<&'static [u8]> {
        let start = self.values.len();
        self.values.extend_from_slice(value);
        if has_line_end(value) {
            self.values[start..]
                .iter_mut()
                .filter(|byte| ends_line(**byte))
                .for_each(|byte| *byte = b' ');
        }
        Text::Own(start as u32, value.len() as u32)
    }
}

fn name_in<'n>(names: &'n str, name: Text<&'static str>) -> &'n str {
    match name {
        Text::Static(name) => name,
        Text::Own(start, length) => &names[start as usize..][..length as usize],
    }
}

/// Most names differ in length: nothing is read for those.
fn is_name(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.eq_ignore_ascii_case(other)
}

fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

fn has_line_end(value: &[u8]) -> bool {
    has_control(value) && value.iter().any(|byte| ends_line(*byte))
}

/// The same lines in the same order, wherever their text lies.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self
            .iter()
            .map(|(name, value)| (name, value.escape_ascii().to_string()));
        f.debug_map().entries(lines).finish()
    }
}

/// A static name, without an allocation, if it is a common response field in its usual spelling.
pub fn known_name(name: &str) -> Cow<'static, str> {
    match frequent_name(name.as_bytes()) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(name.to_owned()),
    }
}

/// A common response field in its usual spelling, if `name` is one.
fn frequent_name(name: &[u8]) -> Option<&'static str> {
    let names: &[&'static str] = match name.len() {
        4 => &["Date", "ETag", "Vary", "Link", "date", "vary", "etag"],
        6 => &["Server", "Pragma"],
        7 => &["Expires"],
        8 => &["Location"],
        10 => &["Set-Cookie", "set-cookie"],
        12 => &[
            "Content-Type",
            "Content-type",
            "X-Powered-By",
            "content-type",
        ],
        13 => &[
            "Last-Modified",
            "Accept-Ranges",
            "Cache-Control",
            "cache-control",
        ],
        15 => &["X-LiteSpeed-Tag", "X-Frame-Options"],
        16 => &["Content-Encoding", "Content-Language"],
        19 => &["Content-Disposition"],
        22 => &["X-Content-Type-Options"],
        25 => &["X-LiteSpeed-Cache-Control", "Strict-Transport-Security"],
        _ => &[],
    };
    names.iter().find(|known| known.as_bytes() == name).copied()
}

/// A common value, if `value` is one.
fn frequent_value(value: &[u8]) -> Option<&'static [u8]> {
    let values: &[&'static [u8]] = match value.len() {
        5 => &[b"bytes", b"nginx"],
        8 => &[b"no-cache", b"no-store", b"text/css"],
        9 => &[b"text/html"],
        10 => &[b"text/plain", b"image/jpeg"],
        15 => &[b"Accept-Encoding"],
        16 => &[b"application/json"],
        24 => &[b"text/html; charset=utf-8", b"text/html; charset=UTF-8"],
        _ => &[],
    };
    values.iter().find(|known| **known == value).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let mut fields = Fields::new();
        lines
            .iter()
            .for_each(|(name, value)| fields.append(*name, value.as_bytes()));
        fields
    }

    #[test]
    fn a_value_is_one_line() {
        let mut fields = Fields::new();
        fields.append("A", b"1\r\nB: 2".to_vec());
        fields.set("C", &b"3\n\0"[..]);
        assert_eq!(
            (fields.first("A"), fields.first("C"), fields.len()),
            (Some(&b"1  B: 2"[..]), Some(&b"3  "[..]), 2)
        );
    }

    #[test]
    fn tokens_are_copied_or_known_and_others_left_out() {
        let mut fields = Fields::new();
        fields.append_token(b"Content-Type", b"text/html");
        fields.append_token(b"X-Own", b"1\r\nB: 2");
        fields.append_token(b"\xff", b"3");
        let lines: Vec<_> = fields.iter().collect();
        assert_eq!(
            lines,
            [("Content-Type", &b"text/html"[..]), ("X-Own", b"1  B: 2")]
        );
    }

    #[test]
    fn set_replaces_the_first_line_in_its_place_and_drops_the_others() {
        let mut some = fields(&[("a", "1"), ("B", "2"), ("c", "3"), ("b", "4")]);
        some.set("b", &b"5"[..]);
        assert_eq!(some, fields(&[("a", "1"), ("B", "5"), ("c", "3")]));
        some.set("d", &b"6"[..]);
        assert_eq!(
            some,
            fields(&[("a", "1"), ("B", "5"), ("c", "3"), ("d", "6")])
        );
    }

    #[test]
    fn remove_takes_all_lines_of_a_name() {
        let mut some = fields(&[("a", "1"), ("B", "2"), ("b", "4")]);
        assert!(some.remove("b"));
        assert!(!some.remove("b"));
        assert_eq!(
            (some.len(), some.first("A"), some.has("b")),
            (1, Some(&b"1"[..]), false)
        );
    }

    #[test]
    fn tokens_are_added_once() {
        let rows = [
            ("", "Accept-Encoding", "Accept-Encoding"),
            ("Cookie", "Accept-Encoding", "Cookie, Accept-Encoding"),
            (
                "cookie,ACCEPT-encoding",
                "Accept-Encoding",
                "cookie,ACCEPT-encoding",
            ),
            ("*", "Accept-Encoding", "*"),
            (
                "Accept-Encoding-X",
                "Accept-Encoding",
                "Accept-Encoding-X, Accept-Encoding",
            ),
        ];
        for (before, token, want) in rows {
            let mut some = if before.is_empty() {
                Fields::new()
            } else {
                fields(&[("vary", before)])
            };
            some.add_token("Vary", token);
            assert_eq!(some.first("vary"), Some(want.as_bytes()), "{before}");
            assert_eq!(some.len(), 1);
        }
    }
}
