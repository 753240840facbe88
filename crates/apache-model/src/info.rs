//! The configuration as mod_info shows it.
//!
//! Called by: `load`, if the module is loaded.

use saker_apache_syntax::{ModuleRow, Tree};
use std::path::PathBuf;

/// Kept only where the module is loaded.
#[derive(Debug)]
pub struct Info {
    pub tree: Tree,
    pub modules: Vec<&'static ModuleRow>,
    pub server_root: PathBuf,
    pub timeout_s: u64,
    pub keep_alive_timeout_ms: u64,
    /// AddModuleInfo: of the module by its source file, in HTML.
    pub remarks: Vec<(Box<str>, Box<str>)>,
}
