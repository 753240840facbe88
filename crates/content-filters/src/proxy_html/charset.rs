//! Decodes pages to UTF-8 (mod_xml2enc).
//!
//! Called by: `proxy_html`.
//! Caveat: the charset is that of a byte order mark, of `Content-Type`, or of the page's own words in
//! its first [`LOOK_BYTES`] bytes, in this order; without any it is the configured one. What is
//! malformed becomes U+FFFD.
//! Out of scope: other charsets for the client.

use encoding_rs::{CoderResult, Decoder, Encoding, WINDOWS_1252};

/// Bytes in which a page may say its charset (HTML section 13.2.3.2).
const LOOK_BYTES: usize = 1024;

/// Charsets of pages.
#[derive(Clone, Debug)]
pub struct Charsets {
    /// The charset of pages that don't say theirs.
    pub default: &'static Encoding,
}

impl Default for Charsets {
    fn default() -> Charsets {
        // ISO-8859-1, as browsers read it.
        Charsets {
            default: WINDOWS_1252,
        }
    }
}

/// Returns the charset of a name.
pub fn encoding_named(name: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label(name)
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

/// The charset that a media type or a page names: `charset=utf-8`.
fn charset_in(text: &[u8]) -> Option<&[u8]> {
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
    rest.get(..length).filter(|name| !name.is_empty())
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
        return rest.get(..length);
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
