//! ModSecurity of a site or route.

use super::Origin;
use crate::modsecurity::Rules;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ModSecurityMode {
    #[default]
    Off,
    /// As the rules' `SecRuleEngine` has it.
    On,
    /// What they say is told to the log only.
    Detect,
}

/// Rules that stand in the configuration itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RulesText {
    pub text: String,
    pub file: Arc<str>,
    pub line: u32,
    /// What names of files are relative to.
    pub base: Arc<Path>,
}

#[derive(Clone, Debug)]
pub struct ModSecurity {
    pub mode: ModSecurityMode,
    /// Patterns.
    pub files: Vec<PathBuf>,
    /// Behind the files.
    pub texts: Vec<RulesText>,
    /// Where the mode was said.
    pub origin: Origin,
    /// What requests are put to.
    pub rules: Option<Arc<Rules>>,
}

impl Default for ModSecurity {
    fn default() -> ModSecurity {
        ModSecurity {
            mode: ModSecurityMode::Off,
            files: Vec::new(),
            texts: Vec::new(),
            origin: Origin::built_in(),
            rules: None,
        }
    }
}
