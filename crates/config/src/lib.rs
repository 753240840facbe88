//! The typed configuration model, its native TOML form, and the table of directives.
//!
//! Floor 2: knows no consumer. Text becomes types here, before the first request (STYLE.md rule 8); everything after reads
//! [`model::Model`]. A feature's rows, its settings type and its merge rule stand together in `directives/<feature>.rs`.

pub mod model;

pub use model::Model;
