//! Typed settings of an Apache configuration: what directives say, before the first request.
//!
//! [`load`] reads a tree of `saker_apache_syntax` into drafts (`server`, `host_draft`, `process`)
//! and sections (`read_section`), and `assemble` lays them together into the model of
//! `saker_config` and into [`Host`]s. [`DirConfig`](dir_config::DirConfig) is what is in force at one
//! place, with the table of all modules; a module is a file in `modules/`.
//!
//! Called by: `saker_apache`, which evaluates these settings for requests; the command line.
//! Caveat: no file knows an exchange or a request.

pub mod arguments;
pub mod assemble;
pub mod connections;
pub mod cost;
pub mod dbd;
pub mod dir_config;
pub mod error_logs;
pub mod evasive;
pub mod host;
pub mod host_draft;
pub mod host_settings;
pub mod info;
pub mod limits;
pub mod listen;
pub mod load;
pub mod logs;
pub mod magic;
pub mod managed;
pub mod matcher;
pub mod modules;
pub mod native;
pub mod overview;
pub mod paths;
pub mod process;
pub mod proxy;
pub mod read_section;
pub mod reading;
pub mod server;
pub mod server_tokens;
pub mod settings;
pub mod tls;
pub mod upstream_tls;
pub mod worker_url;

pub use host::{Apache, Host};
pub use load::{Loaded, load};
pub use overview::Overview;
