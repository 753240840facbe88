//! Response fields: an ordered list, because order is visible and lists of this length beat maps.

use std::borrow::Cow;

/// A field value. Static where it can be.
pub type Value = Cow<'static, [u8]>;

/// Field lines of a response (or of trailers), in the order they go out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    lines: Vec<(Cow<'static, str>, Value)>,
}

impl Fields {
    pub fn new() -> Self {
        Fields::default()
    }

    /// With room for so many lines.
    pub fn with_capacity(lines: usize) -> Self {
        Fields {
            lines: Vec::with_capacity(lines),
        }
    }

    /// Adds a line; lines of the same name stay.
    pub fn append(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        self.lines.push((name.into(), one_line(value.into())));
    }

    /// Sets the one line of that name, in the place of the first such line.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let (name, value) = (name.into(), one_line(value.into()));
        match self
            .lines
            .iter()
            .position(|line| line.0.eq_ignore_ascii_case(&name))
        {
            Some(at) => {
                self.lines[at].1 = value;
                let mut index = 0;
                self.lines.retain(|line| {
                    index += 1;
                    index - 1 <= at || !line.0.eq_ignore_ascii_case(&name)
                });
            }
            None => self.lines.push((name, value)),
        }
    }

    /// Removes all lines of that name and says whether there were any.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !line.0.eq_ignore_ascii_case(name));
        before != self.lines.len()
    }

    /// Keeps the lines whose names are wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str) -> bool) {
        self.lines.retain(|line| wanted(&line.0));
    }

    pub fn first(&self, name: &str) -> Option<&[u8]> {
        self.lines
            .iter()
            .find(|line| line.0.eq_ignore_ascii_case(name))
            .map(|line| line.1.as_ref())
    }

    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Adds `token` to a comma list such as `Vary` unless it is there already or the list is `*`.
    pub fn add_token(&mut self, name: &'static str, token: &str) {
        let Some(old) = self.first(name) else {
            return self.append(name, token.as_bytes().to_vec());
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
            .map(|line| (line.0.as_ref(), line.1.as_ref()))
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
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
pub fn frequent_name(name: &[u8]) -> Option<&'static str> {
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
        16 => &["Content-Encoding", "Content-Language"],
        19 => &["Content-Disposition"],
        _ => &[],
    };
    names.iter().find(|known| known.as_bytes() == name).copied()
}

/// A static value, without an allocation, if it is a common one.
pub fn known_value(value: &[u8]) -> Value {
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
    match values.iter().find(|known| **known == value) {
        Some(known) => Cow::Borrowed(*known),
        None => Cow::Owned(value.to_vec()),
    }
}

/// RFC 9110 section 5.5: line ends and NUL become spaces, wherever a value came from; otherwise a
/// decoded path in it could begin another field, or another response. This is the one place for
/// every protocol and for heads that are encoded once.
fn one_line(mut value: Value) -> Value {
    let ends_line = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
    if value.iter().any(ends_line) {
        value
            .to_mut()
            .iter_mut()
            .filter(|byte| ends_line(byte))
            .for_each(|byte| *byte = b' ');
    }
    value
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
