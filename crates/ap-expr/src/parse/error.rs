//! The error of scanner and parser, and the limit that both check.

use std::fmt;

/// Longest literal part of a string, as in httpd.
pub const STRING_BYTES_MAX: usize = 8191;

/// Syntax error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// In httpd's words.
    pub message: String,
    /// Byte of the text at which it was noticed.
    pub at: usize,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExpressionError {}
