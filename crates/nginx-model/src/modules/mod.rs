//! Modules: settings, inheritance, and setters; one file each.
//!
//! Called by: `load`.
//! Caveat: a setter sees the settings of its level alone; outer levels are merged in later.

pub mod access;
pub mod autoindex;
pub mod compression;
pub mod core;
pub mod headers;
pub mod limits;
pub mod listen;
pub mod log;
pub mod maps;
pub mod realip;
pub mod rewrite;
pub mod secure_link;
pub mod tls;
pub mod upstream;
pub mod upstream_conf;
pub mod upstream_setters;

use crate::reading::{Setter, Setters};

/// Setters of settings of levels, by module.
pub const SETTERS: &[Setters] = &[
    core::SETTERS,
    access::SETTERS,
    autoindex::SETTERS,
    compression::SETTERS,
    headers::SETTERS,
    limits::SETTERS,
    log::SETTERS,
    secure_link::SETTERS,
    upstream_setters::PROXY,
    upstream_setters::FASTCGI,
    upstream_setters::UWSGI,
    upstream_setters::SCGI,
    upstream_setters::GRPC,
];

/// Returns the setter of a directive.
pub fn setter(name: &str) -> Option<Setter> {
    let mut all = SETTERS.iter().flat_map(|setters| setters.iter());
    all.find(|(known, _)| *known == name)
        .map(|(_, setter)| *setter)
}
