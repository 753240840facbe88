//! Media types by file extension, and which types are worth compressing.

/// The media type of a lower-case extension without its dot, e.g. `html` -> `text/html`. `None` where unknown.
pub fn by_extension(_extension: &[u8]) -> Option<&'static str> {
    unimplemented!()
}

/// Whether a body of this type shrinks: text, scripts, XML, JSON, SVG, fonts that are not woff, wasm… Parameters are ignored.
pub fn is_compressible(_media_type: &[u8]) -> bool {
    unimplemented!()
}

/// Whether the type takes a charset parameter by default (`text/*`, JavaScript, JSON excepted as RFC 8259 has no charset).
pub fn takes_charset(_media_type: &[u8]) -> bool {
    unimplemented!()
}
