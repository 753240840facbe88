//! Decodes pages to UTF-8 (mod_xml2enc).
//!
//! Called by: `proxy_html`.
//! Caveat: the charset is that of a byte order mark, of `Content-Type`, or of the page's own words in
//! its first [`LOOK_BYTES`] bytes, in this order; without any it is the configured one. What is
//! malformed becomes U+FFFD.
//! For the client a page can be encoded anew (ProxyHTMLCharsetOut): what the charset lacks becomes a
//! reference like `&#8364;`, as browsers send forms.
//! Out of scope: UTF-16 for the client, which browsers don't need.

use encoding_rs::{CoderResult, Decoder, Encoder, Encoding, WINDOWS_1252};
use std::ops::Range;

/// Bytes in which a page may say its charset (HTML section 13.2.3.2).
pub(super) const LOOK_BYTES: usize = 1024;

/// The charset that a page is sent in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharsetOut {
    /// The one that it has come in.
    Own,
    /// The one of this name, which is told to clients as it is written.
    Named(&'static Encoding, Box<str>),
}

/// Charsets of pages.
#[derive(Clone, Debug)]
pub struct Charsets {
    /// The charset of pages that don't say theirs.
    pub default: &'static Encoding,
    /// Its name, as clients are told.
    pub default_name: Box<str>,
    /// `None`: UTF-8.
    pub out: Option<CharsetOut>,
}

impl Default for Charsets {
    fn default() -> Charsets {
        // ISO-8859-1, as browsers read it.
        Charsets {
            default: WINDOWS_1252,
            default_name: "ISO-8859-1".into(),
            out: None,
        }
    }
}

/// Returns the charset of a name.
pub fn encoding_named(name: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label(name)
}

impl Charsets {
    /// The charset for the client, and the name that it is told by. `None`: UTF-8.
    pub fn of_client(
        &self,
        media_type: &[u8],
        beginning: &[u8],
    ) -> Option<(&'static Encoding, String)> {
        let (encoding, name) = match self.out.as_ref()? {
            CharsetOut::Named(encoding, name) => (*encoding, name.to_string()),
            CharsetOut::Own => {
                let label = match Encoding::for_bom(beginning) {
                    Some(_) => Some(&b"utf-8"[..]),
                    None => charset_in(media_type)
                        .or_else(|| own_words(beginning.get(..LOOK_BYTES).unwrap_or(beginning))),
                };
                let said = label.and_then(|label| {
                    let name = std::str::from_utf8(label).ok()?;
                    Some((Encoding::for_label(label)?, name.to_owned()))
                });
                said.unwrap_or_else(|| (self.default, self.default_name.to_string()))
            }
        };
        (encoding.output_encoding() == encoding).then_some((encoding, name))
    }
}

/// A page that is encoded for the client.
pub struct Encoded(Encoder);

impl Encoded {
    pub fn new(encoding: &'static Encoding) -> Encoded {
        Encoded(encoding.new_encoder())
    }

    /// `text` is UTF-8, whole characters at a time.
    pub fn push(&mut self, text: &str, is_last: bool, output: &mut Vec<u8>) {
        let mut rest = text;
        loop {
            let start = output.len();
            let room = self
                .0
                .max_buffer_length_from_utf8_if_no_unmappables(rest.len());
            output.resize(start + room.unwrap_or(rest.len()).max(32), 0);
            let to = output.get_mut(start..).unwrap_or_default();
            let (result, read, written, _) = self.0.encode_from_utf8(rest, to, is_last);
            output.truncate(start + written);
            rest = rest.get(read..).unwrap_or_default();
            if result == CoderResult::InputEmpty {
                return;
            }
        }
    }
}

/// The text of a page.
pub struct Decoded {
    default: &'static Encoding,
    named: Option<&'static Encoding>,
    /// The beginning, until the charset is known.
    beginning: Vec<u8>,
    decoder: Option<Decoder>,
}

impl Decoded {
    /// `media_type`: of the response.
    pub fn new(charsets: &Charsets, media_type: &[u8]) -> Decoded {
        Decoded {
            default: charsets.default,
            named: charset_in(media_type).and_then(Encoding::for_label),
            beginning: Vec::new(),
            decoder: None,
        }
    }

    pub fn push(&mut self, input: &[u8], output: &mut Vec<u8>) {
        if self.decoder.is_some() {
            return self.decode(input, false, output);
        }
        self.beginning.extend_from_slice(input);
        if self.beginning.len() >= LOOK_BYTES || self.named.is_some() {
            self.begin(false, output);
        }
    }

    pub fn finish(&mut self, output: &mut Vec<u8>) {
        match self.decoder.is_some() {
            true => self.decode(b"", true, output),
            false => self.begin(true, output),
        }
    }

    fn begin(&mut self, is_last: bool, output: &mut Vec<u8>) {
        let beginning = std::mem::take(&mut self.beginning);
        let looked_at = beginning.get(..LOOK_BYTES).unwrap_or(&beginning);
        let encoding = self
            .named
            .or_else(|| own_words(looked_at).and_then(Encoding::for_label))
            .unwrap_or(self.default);
        // A byte order mark counts more than anything else.
        self.decoder = Some(encoding.new_decoder());
        self.decode(&beginning, is_last, output);
    }

    fn decode(&mut self, input: &[u8], is_last: bool, output: &mut Vec<u8>) {
        let Some(decoder) = &mut self.decoder else {
            return;
        };
        let mut rest = input;
        loop {
            let room = decoder
                .max_utf8_buffer_length(rest.len())
                .unwrap_or(rest.len().saturating_mul(4));
            let start = output.len();
            output.resize(start.saturating_add(room.max(16)), 0);
            let (result, read, written, _) =
                decoder.decode_to_utf8(rest, output.get_mut(start..).unwrap_or_default(), is_last);
            output.truncate(start + written);
            rest = rest.get(read..).unwrap_or_default();
            if result == CoderResult::InputEmpty {
                return;
            }
        }
    }
}

/// A media type with UTF-8 as its charset.
pub(super) fn in_utf8(media_type: &[u8]) -> Vec<u8> {
    let known = charset_span(media_type)
        .and_then(|span| Some((media_type.get(..span.start)?, media_type.get(span.end..)?)));
    match known {
        Some((before, behind)) => [before, b"utf-8", behind].concat(),
        None => [media_type, b";charset=utf-8"].concat(),
    }
}

/// The charset that a media type or a page names: `charset=utf-8`.
fn charset_in(text: &[u8]) -> Option<&[u8]> {
    text.get(charset_span(text)?)
}

/// The place of its name.
fn charset_span(text: &[u8]) -> Option<Range<usize>> {
    const WORD: &[u8] = b"charset";
    let at = text
        .windows(WORD.len())
        .position(|piece| piece.eq_ignore_ascii_case(WORD))?;
    let rest = text.get(at + WORD.len()..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b"=")?.trim_ascii_start();
    let rest = rest
        .strip_prefix(b"\"")
        .or_else(|| rest.strip_prefix(b"'"))
        .unwrap_or(rest);
    let length = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
        .count();
    let start = text.len() - rest.len();
    (length > 0).then(|| start..start + length)
}

/// The charset that a page says it has, in a `meta` element or an XML declaration.
fn own_words(text: &[u8]) -> Option<&[u8]> {
    if text.starts_with(b"<?xml") {
        let end = text.iter().position(|byte| *byte == b'>')?;
        let declaration = text.get(..end)?;
        let at = declaration
            .windows(9)
            .position(|piece| piece == b"encoding=")?;
        let rest = declaration.get(at + 10..)?;
        let length = rest
            .iter()
            .take_while(|byte| !matches!(byte, b'"' | b'\''))
            .count();
        // Labels are found without the white space around them, which must not get into a field.
        return rest.get(..length).map(<[u8]>::trim_ascii);
    }
    let mut rest = text;
    while let Some(at) = rest
        .windows(5)
        .position(|piece| piece.eq_ignore_ascii_case(b"<meta"))
    {
        let tag = rest.get(at..)?;
        let end = tag
            .iter()
            .position(|byte| *byte == b'>')
            .unwrap_or(tag.len());
        if let Some(charset) = charset_in(tag.get(..end)?) {
            return Some(charset);
        }
        rest = tag.get(end..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_white_space_around_it() {
        let charsets = Charsets {
            out: Some(CharsetOut::Own),
            ..Charsets::default()
        };
        let page = b"<?xml version=\"1.0\" encoding=\"\r\n\x0cutf-8\r\n\"?>";
        let (_, name) = charsets.of_client(b"text/html", page).unwrap();
        assert_eq!(name, "utf-8");
    }

    #[test]
    fn charsets_of_media_types() {
        for (from, to) in [
            ("text/plain", "text/plain;charset=utf-8"),
            (
                "text/plain; charset=ISO-8859-1",
                "text/plain; charset=utf-8",
            ),
            (
                "a/b+xml; Charset=\"koi8-r\"; x=y",
                "a/b+xml; Charset=\"utf-8\"; x=y",
            ),
            ("text/plain; charset=", "text/plain; charset=;charset=utf-8"),
        ] {
            let made = in_utf8(from.as_bytes());
            assert_eq!(String::from_utf8(made).unwrap(), to, "{from}");
        }
    }
}
