//! Typed settings of nginx configurations: servers, locations, and the setters of directives.
//!
//! `load` reads a tree (`saker-nginx-syntax`) into drafts of servers and locations (`read_http`,
//! with the setters of `modules`), merges them with nginx's rules of inheritance (`finish`), and
//! assembles the model of the engine (`assemble`) next to the data for requests (`server`).
//!
//! Called by: the command line, and `saker-nginx`, which evaluates the settings for requests.
//! Caveat: all diagnostics of a configuration are reported at once.
//! Out of scope: values of variables, and the phases of a request (`saker-nginx`).

mod assemble;
mod checks;
pub mod conf;
mod draft;
mod error_logs;
mod finish;
pub mod geoip;
mod inherit;
mod load;
pub mod location;
pub mod log_rules;
mod log_to;
pub mod modules;
mod process;
mod read_http;
mod reading;
pub mod server;
mod server_name_text;
mod setters;
mod settings;
mod setup;
pub mod stream;
mod support;
pub mod text;
pub mod values;
pub mod variables;

pub use load::{Loaded, load};
pub use location::{Choice, If, Location, LocationKind, LocationTree, Op, Proxied};
pub use process::Process;
pub use server::{Nginx, Server};
pub use setup::Setup;
pub use text::{Part, Text};

/// The version of nginx whose documentation the front end follows (`$nginx_version`, `-v`).
pub const VERSION: &str = "1.31.0";
