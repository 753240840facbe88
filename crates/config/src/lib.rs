//! The typed configuration model, its native TOML form, and the table of directives.
//!
//! Floor 2: knows no consumer. Text becomes types here, before the first request (STYLE.md rule 8);
//! everything after reads [`model::Model`]. A feature's rows, its kinds of values and its merge
//! rule stand together in `directives/<feature>.rs`; reading, checks, the JSON Schema and the
//! reference page derive from the rows.

pub mod host_table;
pub mod model;
pub mod modsecurity;

mod check;
mod diagnostic;
mod directives;
mod folder;
mod include;
mod load;
mod reader;
mod reference;
mod row;
mod schema;
mod serve;
mod source;
mod suggest;
pub mod units;
mod value;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use directives::{php::parse_use as parse_php_use, rows};
pub use host_table::HostTable;
pub use load::{Loaded, load, parse};
pub use model::Model;
pub use reference::reference_markdown;
pub use row::{CONTEXTS, ContextRow, Contexts, KeyKind, Kind, Row, TableKind, Word};
pub use schema::json_schema;
pub use serve::ServeOptions;
pub use suggest::nearest;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_config;
#[cfg(test)]
mod tests;
