//! Inputs of reading besides the text: modules, variables, macros, the server root.
//!
//! Changed by what is read, from top to bottom; what stands at the end is what `.htaccess` files
//! are read with.

use crate::{
    macros::Macros,
    modules::LoadedModules,
    variables::{ProcessEnvironment, Variables},
    version::{APACHE_VERSION, PatternMatch, Version},
};
use saker_config::model::Origin;
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug)]
pub struct Environment {
    pub modules: LoadedModules,
    /// mod_php, if it is loaded: its file, and the place of LoadModule.
    pub php_module: Option<(PathBuf, Origin)>,
    pub variables: Variables,
    pub macros: Macros,
    pub server_root: PathBuf,
    pub version: Version,
    /// For the regular expressions of `<IfVersion>`.
    pub matches: PatternMatch,
}

impl Environment {
    pub fn new(
        server_root: PathBuf,
        environment: ProcessEnvironment,
        matches: PatternMatch,
    ) -> Environment {
        Environment {
            modules: LoadedModules::default(),
            php_module: None,
            variables: Variables::new(environment),
            macros: Macros::default(),
            server_root,
            version: APACHE_VERSION,
            matches,
        }
    }

    /// A path of the configuration: absolute, or below the server root. A trailing slash stays, as
    /// Apache's errors show it.
    pub fn path(&self, path: &[u8]) -> PathBuf {
        self.server_root.join(Path::new(OsStr::from_bytes(path)))
    }
}
