//! Apache configurations at request time: the phases that evaluate the settings of
//! `saker_apache_model` for a request.
//!
//! [`ApacheRules`] (`rules`) stands in the pipeline's phases: `server_rewrite` (rules of the host,
//! redirects), `map_to_storage` (aliases, document root; `walk` merges the settings of folders,
//! `.htaccess` files, locations and conditions), `access` (`modules/access`), `fixups` (rules of
//! directories, index files, types) and, at their end, `content`. What a module does to requests is
//! in `modules/`. Subrequests run the same phases through pointers that `worker` holds.
//!
//! Called by: the registry of the server, which puts the rules into each worker.
//! Out of scope: reading configurations (`saker_apache_model`); handlers, which are chosen by the
//! name that the rules leave in the exchange.

mod about_server;
mod asis;
mod authorizers;
mod balancer_manager;
mod call;
mod cgi;
mod coding_name;
mod content;
mod content_filters;
mod dbd;
mod early_hints;
mod error_document;
mod facts;
mod file_type;
mod fixups;
mod form_state;
mod homes;
mod host_name;
mod htaccess;
mod includes;
mod info;
mod kept;
mod kept_content;
mod listing;
mod look_ahead;
mod magic;
mod map_programs;
mod map_to_storage;
mod memo;
mod meta_variables;
mod methods;
mod modules;
mod multiviews;
mod negotiate;
mod origin;
mod own_page;
mod php;
mod proxy;
mod redirect;
mod reflector;
mod response;
mod rewriting;
mod rules;
mod script_uri;
mod server_rewrite;
mod signature;
mod state;
pub mod status;
mod subrequest;
mod time;
mod type_map;
mod verdict;
mod walk;
mod webdav;
mod worker;

pub use content_filters::{ContentFilters, Inside};
pub use modules::session::SaveSession;
pub use response::ResponseRules;
pub use saker_apache_model::{
    Apache, Host, Loaded, Overview,
    cost::{CostLine, cost_lines},
    load,
    native::configuration as native_configuration,
    native::problems as native_problems,
};
pub use worker::ApacheRules;
