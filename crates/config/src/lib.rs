//! The typed configuration model, its native TOML form, and the table of directives.
//!
//! Called by: the command line and the server, which load a configuration; every feature, which
//! reads [`model::Model`].
//! Text becomes types here, before the first request. A feature's rows, grammars and merge rule
//! stand together in `directives/<feature>.rs`; reading, checks, the JSON Schema and the reference
//! page derive from the rows.
//! Out of scope: Apache's configuration language, whose front end makes the same model.

pub mod cipher_lists;
pub mod completion;
pub mod form;
pub mod host_table;
pub mod model;
pub mod modsecurity;
pub mod units;

mod check;
mod configuration;
mod context;
mod diagnostic;
mod directives;
mod expand;
mod folder;
mod foreign_words;
mod format;
mod include;
mod kind;
mod load;
mod made_streams;
mod origin;
mod peer_site;
mod preset;
mod reader;
mod reference;
mod report;
mod resolve;
mod row;
mod schema;
mod serve;
mod source;
mod suggest;
mod unknown_key;
mod value;
mod value_help;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use directives::php::parse_use as parse_php_use;
pub use expand::{Expanded, expand, expand_text};
pub use format::format;
pub use host_table::HostTable;
pub use include::expand as included_files;
pub use load::{Loaded, load, load_replacing, parse};
pub use model::Model;
pub use preset::{PRESETS, Preset};
pub use reference::{KeyUse, key_uses, reference_markdown};
pub use resolve::{fetched_from, server_address, with_discovered, with_servers};
pub use schema::json_schema;
pub use serve::ServeOptions;
pub use suggest::nearest;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_config;
#[cfg(test)]
mod tests;
