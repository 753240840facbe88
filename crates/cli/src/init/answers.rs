//! Answers to the questions of `saker init`.
//!
//! Called by: `init`, which asks or decides; `text`, which writes them down.
//! Out of scope: the questions.

use super::application::Application;
use std::path::PathBuf;

/// Everything that the file says.
#[derive(Debug)]
pub struct Answers {
    pub application: Application,
    /// `php` of the site; `None`: the application needs none.
    pub php: Option<String>,
    /// Names for automatic certificates; none: a site on this machine.
    pub domains: Vec<String>,
    /// Directory of the file.
    pub folder: PathBuf,
    pub is_root: bool,
    /// `.htaccess` files lie in the document root or below it, and files are served.
    pub has_htaccess: bool,
}

impl Answers {
    /// Presets with `try_files` stand for the rules of the root, and do not go with the files.
    pub fn applies_htaccess(&self) -> bool {
        let preset = self.application.kind.preset();
        self.has_htaccess && preset.is_none_or(|preset| !preset.text("").contains("try_files"))
    }
}
