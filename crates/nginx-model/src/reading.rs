//! State that setters share while a configuration is read.
//!
//! Called by: `load`, and the setters of the modules.

use crate::{text::Text, variables::Variables};
use saker_config::model::Origin;
use saker_nginx_syntax::{Directive, Report};
use std::path::{Path, PathBuf};

/// The state of reading a configuration.
#[derive(Debug)]
pub struct Reading<'r> {
    pub variables: Variables,
    pub report: &'r mut Report,
    /// Directory that relative paths of files refer to (`-p`).
    pub prefix: &'r Path,
    /// Directory of the configuration, for certificates and password files.
    pub conf_prefix: &'r Path,
    /// Name of the location whose block is read; empty outside.
    pub location_name: String,
    /// That location is one by expression.
    pub in_expression: bool,
    /// Zones that limits name, which may be defined behind them.
    pub zone_uses: Vec<ZoneUse>,
}

/// A limit's zone.
#[derive(Clone, Debug)]
pub struct ZoneUse {
    pub zone: Box<str>,
    /// The directive that defines such zones.
    pub kind: &'static str,
    pub origin: Origin,
}

impl Reading<'_> {
    /// Returns the status that a configuration answers with: 500 for an informational one, which
    /// ends no request (RFC 9110 section 15.2). The client would take the next response for this
    /// one's, and a proxy in front of the server would relay bytes blindly.
    pub fn final_status(&mut self, status: u16, directive: &Directive) -> u16 {
        if !(100..200).contains(&status) {
            return status;
        }
        let message =
            format!("{status} is informational and can't be the answer to a request: 500 is sent");
        self.report.warn(directive, message, None);
        500
    }

    /// Compiles a text with variables.
    ///
    /// # Errors
    /// nginx's message.
    pub fn text(&mut self, source: &str) -> Result<Text, String> {
        Text::compile(source, &mut self.variables)
    }

    /// Returns a path of a file relative to the prefix.
    pub fn path(&self, text: &str) -> PathBuf {
        self.prefix.join(text)
    }

    /// Compiles a path, which is relative to the prefix unless it begins with a variable.
    ///
    /// # Errors
    /// nginx's message.
    pub fn path_text(&mut self, source: &str, base: &Path) -> Result<Text, String> {
        match source.starts_with('/') || source.starts_with('$') {
            true => self.text(source),
            false => self.text(&base.join(source).to_string_lossy()),
        }
    }
}

/// Applies a directive to the settings of its module.
pub type Setter<T> = fn(&Directive, &mut T, &mut Reading<'_>) -> Result<(), String>;

/// Setters of a module by name.
pub type Setters<T> = &'static [(&'static str, Setter<T>)];
