//! Modules: settings, inheritance, and setters; one file each.
//!
//! Called by: `load`.
//! Caveat: a setter sees the settings of its level alone; outer levels are merged in later.

pub mod access;
pub mod autoindex;
pub mod body;
pub mod browser;
pub mod cache;
pub mod charset;
pub mod clients;
pub mod compression;
pub mod core;
pub mod filters;
pub mod geo;
pub mod geoip;
pub mod gzip_conditions;
pub mod handlers;
pub mod headers;
pub mod limits;
pub mod listen;
pub mod log;
pub mod maps;
pub mod network_index;
pub mod realip;
pub mod resolver;
pub mod rewrite;
pub mod secure_link;
pub mod socket_options;
pub mod sticky;
pub mod tls;
pub mod upstream;
pub mod upstream_conf;
pub mod upstream_rewrites;
pub mod upstream_setters;
