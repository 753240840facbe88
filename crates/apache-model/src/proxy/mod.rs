//! Settings of mod_proxy: paths that are proxied, workers, balancers, `<Proxy>` sections.
//!
//! `draft` reads the directives of servers, `sections` reads `<Proxy>`, `workers` puts together
//! which upstream is known by which URL.
//!
//! Called by: `server`, `load`, `assemble`; the phases, with the URL of a request.
//! Out of scope: everything that happens on a connection.

pub mod balancers;
pub mod canonical;
pub mod connect_ports;
pub mod draft;
pub mod health;
pub mod parameters;
pub mod pass;
pub mod remote;
pub mod section;
pub mod sections;
pub mod sockets;
pub mod unhonored;
pub mod workers;
