//! Escaping text for HTML and for URIs.

/// Appends `text` so that it may stand in HTML text or a quoted attribute. Bytes that are not UTF-8 become U+FFFD.
pub fn html(_text: &[u8], _out: &mut Vec<u8>) {
    unimplemented!()
}

/// Appends `path` percent-encoded: unreserved characters, `/` and what RFC 3986 allows in a path segment stay.
pub fn uri_path(_path: &[u8], _out: &mut Vec<u8>) {
    unimplemented!()
}
