//! Character classes of RFC 9110 section 5.6.2 and RFC 3986 section 2.

/// `tchar`: what a method or field name is made of.
pub fn is_token_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A non-empty token.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is_token_char(*byte))
}
