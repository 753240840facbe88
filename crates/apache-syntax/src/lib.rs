//! The language of Apache's configuration and `.htaccess` files: from text to a checked tree, with
//! everything there is to say about it.
//!
//! Floor 3: knows the diagnostics of `config` and nothing above. [`load`] reads a configuration
//! with all it includes, [`parse_htaccess`] one `.htaccess` file; both give a [`Tree`] whose
//! conditions, macros and variables are gone. What the directives mean is not decided here; each
//! has a [`Row`] that says where it may stand, what it takes, and what becomes of it.
//!
//! The walk: `line` (logical lines) -> `variables` -> `word` -> `read` (sections; `conditions`,
//! `macro_use`, `include`) -> `check`.

mod arguments;
mod check;
mod completion;
mod condition;
mod conditions;
mod environment;
mod envvars;
mod files;
mod htaccess;
mod include;
pub mod limits;
mod line;
mod load;
mod macro_use;
mod macros;
mod modules;
pub mod options;
mod permission;
mod read;
mod reference;
mod report;
pub mod row;
mod rows;
mod sections;
mod shape;
mod tree;
mod variables;
mod version;

pub use completion::complete;
pub use environment::Environment;
pub use envvars::read_envvars;
pub use files::{FileKind, Files, InMemory, OnDisk, OnDiskPrivileged};
pub use htaccess::{Htaccess, parse_htaccess};
pub use load::{Loaded, Setup, load};
pub use macros::{Macro, Macros};
pub use modules::{Link, LoadOutcome, LoadedModules, ModuleRow, Provision, find_module, modules};
pub use permission::{Permission, Verdict};
pub use reference::reference_markdown;
pub use row::{Importance, Row, Shape, Treatment};
pub use rows::{NO_SUBVERSION, find_row, rows};
pub use sections::METHODS;
pub use tree::{Node, Tree};
pub use variables::{ProcessEnvironment, Variables};
pub use version::{APACHE_VERSION, PatternMatch, Version};

use saker_ap_expr::words as word;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_apache_syntax;
#[cfg(test)]
mod tests;
