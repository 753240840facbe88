//! ModSecurity settings of a site or route.
//!
//! Called by: the phases that run rules.
//! Out of scope: compiling rules (`resolve/modsecurity`).

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
    /// As the rules' `SecRuleEngine` says.
    On,
    /// Matches are only logged.
    Detect,
}

/// Rules in the configuration itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RulesText {
    pub text: String,
    pub file: Arc<str>,
    pub line: u32,
    /// Directory that file names are relative to.
    pub base: Arc<Path>,
}

#[derive(Clone, Debug)]
pub struct ModSecurity {
    pub mode: ModSecurityMode,
    /// Patterns.
    pub files: Vec<PathBuf>,
    /// Added after the files.
    pub texts: Vec<RulesText>,
    /// Location of the mode.
    pub origin: Origin,
    /// The compiled rules.
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
