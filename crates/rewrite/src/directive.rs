//! Context and errors of directives.
//!
//! Called by: everything that compiles directives.

use std::{fmt, sync::Arc};

/// The line of a configuration file that a rule or condition comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

/// Context in which a directive appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The server or a virtual host.
    Server,
    /// `<Directory>`, `<Location>` and so on.
    Directory,
    Htaccess,
}

/// Error in a directive, in httpd's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectiveError(pub String);

impl fmt::Display for DirectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DirectiveError {}

/// Warning about a directive that is not used exactly as written.
pub type Notice = Option<String>;
