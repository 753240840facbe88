//! nginx configurations at request time: the phases that evaluate the settings of
//! `saker_nginx_model` for a request.
//!
//! [`NginxRules`] (`rules`) stands in the pipeline's phases: `server_rewrite` (server, scripts,
//! location: `dispatch`), `map_to_storage` (`limits`), `access`, and `fixups` (`content`: try_files,
//! index files, the handler). [`ResponseFilter`] (`response`) edits responses.
//!
//! Called by: the registry of the server, which puts rules and filter into each worker.
//! Out of scope: reading configurations (`saker_nginx_model`); files and upstreams, which the
//! engine's handlers answer with.

#[cfg(test)]
extern crate self as saker_nginx;

mod accept_gzip;
mod access;
mod auth_request;
mod autoindex;
mod body_file;
mod body_filters;
mod browser;
mod builtin;
mod cache;
mod charset;
mod clients;
mod content;
mod dav;
mod dispatch;
mod errors;
mod evaluate;
mod files;
mod force_ranges;
mod gzip;
mod gzip_static;
mod kept;
mod kept_content;
mod limits;
mod log_lines;
mod made_upstreams;
mod mirror;
#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
mod mutations;
mod pages;
mod proxy;
mod random_index;
mod real_ip;
mod request;
mod request_body;
mod resolve;
mod response;
mod rules;
mod script;
mod secure_link;
mod slice;
mod ssi;
mod state;
mod sticky;
mod store;
mod stream;
mod stub_status;
mod subrequest;
mod tls;
mod upstream_rewrites;
mod upstream_values;
mod user_id;

pub use body_filters::BodyFilter;
pub use response::ResponseFilter;
pub use rules::{FrontEnd, NginxRules};
pub use saker_nginx_model::{Loaded, Process, Setup, VERSION, load};
pub use saker_nginx_syntax::{
    OnDisk,
    convert::{Conversion, convert},
};
pub use stream::NginxStreamRules;
pub use stub_status::{Count, ServerCounts};
pub use subrequest::Filters;
