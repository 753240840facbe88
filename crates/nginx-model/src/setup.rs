//! Parameters of reading a configuration.
//!
//! Called by: the command line, which fills them.

use std::path::PathBuf;

/// Parameters of reading a configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The file, absolute.
    pub file: PathBuf,
    /// Directory that relative names refer to (`-p`).
    pub prefix: PathBuf,
    /// Directives of `-g`.
    pub global: String,
    /// The log for errors until the configuration names one (`-e`).
    pub error_log: Option<PathBuf>,
    /// The server is started by root, and may switch to another user.
    pub is_root: bool,
}
