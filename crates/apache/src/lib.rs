//! What Apache's directives do to requests: hosts, sections, `.htaccess` files, and the modules
//! behind them.
//!
//! Floor 5: reads trees of `config-apache` into hosts ([`load`]) and stands in the pipeline's
//! phases as its rules ([`ApacheRules`]). A module is a file in `modules/`. The walk of a request:
//! `server_rewrite` (rules of the host), `map` (aliases, document root), `walk` (folders,
//! `.htaccess`, files, locations, conditions), `access`, `fixups` (rules of folders, index files,
//! types). Absent on purpose: handlers; what answers is in `handlers`, chosen by the name that the
//! rules leave in the exchange.

mod ahead;
mod asis;
mod call;
mod cgi;
mod connections;
mod content_filters;
mod dbd;
mod error_logs;
mod evasive;
mod facts;
mod fixups;
mod homes;
mod host;
mod htaccess;
mod includes;
mod info;
mod limits;
mod listing;
mod load;
mod local;
mod logs;
mod magic;
mod managed;
mod map_programs;
mod memo;
mod meta_variables;
mod methods;
mod modules;
mod multiviews;
mod negotiate;
mod origin;
mod overview;
mod own_page;
mod php;
mod process;
mod proxy;
mod reading;
mod response;
mod rules;
mod sections;
mod server;
mod settings;
mod signature;
mod state;
pub mod status;
mod time;
mod tls;
mod type_map;
mod upstream_tls;
mod verdict;
mod walk;
mod worker_url;

pub use content_filters::{ContentFilters, Inside};
pub use host::{Apache, Host};
pub use load::{Loaded, load};
pub use overview::Overview;
pub use response::ResponseRules;
pub use rules::ApacheRules;
