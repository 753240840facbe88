//! Destinations of expanded templates. Each puts values of a request into a text so that they
//! cannot change its structure.
//!
//! Called by: actions of routes, edits of fields, and maps.
//! Caveat: three dangers: a line break that begins a field of the client's, `..` in a file path, and
//! a URL that leads to a host of the client's choice.
//! Out of scope: configured text, which is taken as it is.

use saker_http::escape;

/// Origin of a value, which determines its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// A host name, an address, a number: a few harmless characters.
    Name,
    /// A decoded path, or a part of one.
    Path,
    /// A path as sent, percent-encoded.
    SentPath,
    /// A query as sent, percent-encoded.
    SentQuery,
    /// Any other decoded text.
    Text,
}

/// Destination of an expanded template.
pub trait Sink {
    /// Appends configured text.
    fn literal(&mut self, text: &str);

    /// Appends a value of the request.
    fn value(&mut self, value: &[u8], nature: Nature);
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn percent(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[
        b'%',
        HEX[usize::from(byte >> 4)],
        HEX[usize::from(byte & 15)],
    ]);
}

/// Appends a text as one component of a query: unreserved characters and slashes stay.
pub fn encode_component(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) => out.push(*byte),
            byte => percent(*byte, out),
        }
    }
}

/// Appends percent-encoded text as sent, except for bytes that a URI may not contain.
fn push_as_sent(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%[]".contains(byte) => {
                out.push(*byte)
            }
            byte => percent(*byte, out),
        }
    }
}

/// Values as they are, for lookups and comparisons.
#[derive(Debug, Default)]
pub struct TextSink(pub Vec<u8>);

impl Sink for TextSink {
    fn literal(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &[u8], _: Nature) {
        self.0.extend_from_slice(value);
    }
}

/// A URL, such as the value of Location.
#[derive(Debug, Default)]
pub struct UrlSink {
    out: Vec<u8>,
    /// Values other than names have been appended.
    has_values: bool,
    names_host: bool,
}

/// The component of a URL that is being written.
enum Component {
    Authority { is_complete: bool },
    Path,
    Query,
}

impl UrlSink {
    /// Returns the URL. A client cannot make it lead to another host: a URL whose configured start
    /// names no host is a path with exactly one slash at its start.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.names_host && !self.has_configured_scheme() {
            let slashes = self
                .out
                .iter()
                .take_while(|byte| matches!(byte, b'/' | b'\\'))
                .count();
            self.out.splice(..slashes, [b'/']);
        }
        self.out
    }

    /// `mailto:` and the like, which name no host.
    fn has_configured_scheme(&self) -> bool {
        !self.has_values
            && self
                .out
                .split(|byte| *byte == b':')
                .next()
                .is_some_and(|scheme| {
                    scheme.len() < self.out.len()
                        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
                        && scheme
                            .iter()
                            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
                })
    }

    fn after_start(&mut self) {
        if !self.has_values {
            self.names_host =
                self.out.windows(3).any(|part| part == b"://") || self.out.starts_with(b"//");
        }
    }

    fn component(&self) -> Component {
        let rest = match self.names_host {
            true => {
                let at = self.out.windows(2).position(|part| part == b"//");
                let authority = self
                    .out
                    .get(at.map_or(0, |at| at + 2)..)
                    .unwrap_or_default();
                match authority.iter().position(|byte| b"/?#".contains(byte)) {
                    Some(at) => authority.get(at..).unwrap_or_default(),
                    None => {
                        let is_complete = authority
                            .last()
                            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b']');
                        return Component::Authority { is_complete };
                    }
                }
            }
            false => self.out.as_slice(),
        };
        match rest.iter().any(|byte| b"?#".contains(byte)) {
            true => Component::Query,
            false => Component::Path,
        }
    }

    fn path_value(&mut self, value: &[u8], nature: Nature) {
        match nature {
            Nature::SentPath | Nature::SentQuery | Nature::Name => {
                push_as_sent(value, &mut self.out)
            }
            Nature::Path | Nature::Text => escape::uri_path(value, &mut self.out),
        }
    }
}

impl Sink for UrlSink {
    fn literal(&mut self, text: &str) {
        for (at, piece) in text.split('#').enumerate() {
            if at > 0 {
                self.out.push(b'#');
            }
            push_as_sent(piece.as_bytes(), &mut self.out);
        }
        self.after_start();
    }

    fn value(&mut self, value: &[u8], nature: Nature) {
        if value.is_empty() {
            return;
        }
        match self.component() {
            Component::Path => self.path_value(value, nature),
            Component::Query if nature == Nature::SentQuery => push_as_sent(value, &mut self.out),
            Component::Query => encode_component(value, &mut self.out),
            // `https://example.org$1`: the value is a path, and must not extend the host's name.
            Component::Authority { is_complete: true } if nature != Nature::Name => {
                if !b"/?".contains(&value[0]) {
                    self.out.push(b'/');
                }
                self.path_value(value, nature);
            }
            Component::Authority { .. } => {
                for byte in value {
                    match byte {
                        byte if byte.is_ascii_alphanumeric() => self.out.push(*byte),
                        b'-' | b'.' | b'_' => self.out.push(*byte),
                        b'[' | b']' | b':' if nature == Nature::Name => self.out.push(*byte),
                        byte => percent(*byte, &mut self.out),
                    }
                }
            }
        }
        self.has_values |= nature != Nature::Name;
        self.after_start();
    }
}

/// A decoded path: of a file below the document root, or of an internal redirect.
#[derive(Debug, Default)]
pub struct PathSink(Vec<u8>);

impl PathSink {
    /// Returns the path with single slashes. `None`: it has a `.` or `..` segment, or a NUL.
    pub fn finish(self) -> Option<Vec<u8>> {
        let mut path = Vec::with_capacity(self.0.len() + 1);
        for segment in self.0.split(|byte| *byte == b'/') {
            match segment {
                b"" => {}
                b"." | b".." => return None,
                name => {
                    path.push(b'/');
                    path.extend_from_slice(name);
                }
            }
        }
        if path.is_empty() || self.0.last() == Some(&b'/') {
            path.push(b'/');
        }
        (!path.contains(&0)).then_some(path)
    }
}

impl Sink for PathSink {
    fn literal(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &[u8], _: Nature) {
        self.0.extend_from_slice(value);
    }
}

/// A query.
#[derive(Debug, Default)]
pub struct QuerySink(pub Vec<u8>);

impl Sink for QuerySink {
    fn literal(&mut self, text: &str) {
        push_as_sent(text.as_bytes(), &mut self.0);
    }

    fn value(&mut self, value: &[u8], nature: Nature) {
        match nature {
            Nature::SentQuery => push_as_sent(value, &mut self.0),
            _ => encode_component(value, &mut self.0),
        }
    }
}

/// The value of a field: one line (RFC 9110 section 5.5).
#[derive(Debug, Default)]
pub struct FieldSink(Vec<u8>);

impl FieldSink {
    pub fn finish(self) -> Vec<u8> {
        self.0.trim_ascii().to_vec()
    }
}

impl Sink for FieldSink {
    fn literal(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &[u8], _: Nature) {
        for byte in value {
            match byte {
                b'\t' => self.0.push(b'\t'),
                byte if byte.is_ascii_control() => percent(*byte, &mut self.0),
                byte => self.0.push(*byte),
            }
        }
    }
}

/// Syntax of a body, in which values are escaped. Later ones escape all that earlier ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BodySyntax {
    Plain,
    /// HTML or XML.
    Markup,
    /// JSON or JavaScript: values belong into strings.
    Script,
}

impl BodySyntax {
    pub fn of(media_type: &str) -> BodySyntax {
        let lower = media_type.to_ascii_lowercase();
        let essence = lower.split(';').next().unwrap_or_default().trim();
        if essence.contains("json") || essence.contains("javascript") {
            BodySyntax::Script
        } else if essence.contains("html") || essence.contains("xml") {
            BodySyntax::Markup
        } else {
            BodySyntax::Plain
        }
    }
}

/// The body of a response.
#[derive(Debug)]
pub struct BodySink {
    pub out: Vec<u8>,
    pub syntax: BodySyntax,
}

impl Sink for BodySink {
    fn literal(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &[u8], _: Nature) {
        match self.syntax {
            BodySyntax::Plain => self.out.extend_from_slice(value),
            BodySyntax::Markup => escape::html(value, &mut self.out),
            BodySyntax::Script => {
                for character in String::from_utf8_lossy(value).chars() {
                    match character {
                        character
                            if character.is_control()
                                || "\"\\'`<>&$\u{2028}\u{2029}".contains(character) =>
                        {
                            let code = format!("\\u{:04x}", u32::from(character));
                            self.out.extend_from_slice(code.as_bytes());
                        }
                        character => {
                            let mut buffer = [0; 4];
                            let text = character.encode_utf8(&mut buffer);
                            self.out.extend_from_slice(text.as_bytes());
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(parts: &[(&str, Option<Nature>)]) -> String {
        let mut sink = UrlSink::default();
        for (text, nature) in parts {
            match nature {
                None => sink.literal(text),
                Some(nature) => sink.value(text.as_bytes(), *nature),
            }
        }
        String::from_utf8(sink.finish()).unwrap()
    }

    #[test]
    fn urls_stay_on_their_host() {
        use Nature::{Name, Path, SentPath, SentQuery, Text};
        for (parts, expected) in [
            (
                &[("/new/", None), ("a b?#", Some(Path))][..],
                "/new/a%20b%3F%23",
            ),
            (&[("/evil.example", Some(Path))], "/evil.example"),
            (&[("//evil.example", Some(SentPath))], "/evil.example"),
            (
                &[("https://evil.example/", Some(Text))],
                "/https%3A//evil.example/",
            ),
            (
                &[
                    ("https", Some(Name)),
                    ("://", None),
                    ("a.example", Some(Name)),
                    ("/x", Some(SentPath)),
                ],
                "https://a.example/x",
            ),
            (
                &[("https://a.example", None), (".evil.example", Some(Path))],
                "https://a.example/.evil.example",
            ),
            (
                &[("https://a.example", None), ("/x?y", Some(Path))],
                "https://a.example/x%3Fy",
            ),
            (
                &[("https://a.example", None), ("@evil.example", Some(Text))],
                "https://a.example/@evil.example",
            ),
            (
                &[
                    ("https://", None),
                    ("evil.example/x", Some(Path)),
                    (".a.example/", None),
                ],
                "https://evil.example%2Fx.a.example/",
            ),
            (
                &[
                    ("https://", None),
                    ("[::1]", Some(Name)),
                    (":8443", None),
                    ("/x", Some(SentPath)),
                ],
                "https://[::1]:8443/x",
            ),
            (
                &[("/in?to=", None), ("/a&b=c%20d", Some(SentPath))],
                "/in?to=/a%26b%3Dc%2520d",
            ),
            (
                &[("/in?", None), ("a=1&b=2\r\nX: y", Some(SentQuery))],
                "/in?a=1&b=2%0D%0AX:%20y",
            ),
            (&[("mailto:a@b", None)], "mailto:a@b"),
            (&[("javascript:x", Some(Path))], "/javascript%3Ax"),
        ] {
            assert_eq!(url(parts), expected, "{parts:?}");
        }
    }

    #[test]
    fn paths_have_no_dots() {
        let path = |text: &str| {
            let mut sink = PathSink::default();
            sink.value(text.as_bytes(), Nature::Text);
            sink.finish().map(|path| String::from_utf8(path).unwrap())
        };
        assert_eq!(path("/a//b/").as_deref(), Some("/a/b/"));
        assert_eq!(path("a").as_deref(), Some("/a"));
        assert_eq!(path("").as_deref(), Some("/"));
        for bad in ["/a/../b", "..", "/.", "/a/.", "/a\0b"] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_are_one_line() {
        let mut sink = FieldSink::default();
        sink.literal("a ");
        sink.value(b"b\r\nSet-Cookie: c\0 ", Nature::Text);
        assert_eq!(sink.finish(), b"a b%0D%0ASet-Cookie: c%00");
    }

    #[test]
    fn bodies_hold_values_as_text() {
        let body = |media_type: &str| {
            let mut sink = BodySink {
                out: Vec::new(),
                syntax: BodySyntax::of(media_type),
            };
            sink.literal("<b>");
            sink.value(b"<\"\n", Nature::Text);
            String::from_utf8(sink.out).unwrap()
        };
        assert_eq!(body("text/plain; charset=utf-8"), "<b><\"\n");
        assert_eq!(body("text/html"), "<b>&lt;&quot;\n");
        assert_eq!(body("application/ld+json"), "<b>\\u003c\\u0022\\u000a");
    }
}
