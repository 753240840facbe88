//! Values of name components and extensions as text.
//!
//! Called by: the variables of a certificate and its names.

/// Maximum of alternative names and of name components that a program gets: more than a person's
/// certificate has.
pub const NAMES_MAX: usize = 64;

/// Text of a string value; invalid UTF-8 is replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Upper-case hexadecimal digits, as OpenSSL prints numbers.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
