//! Servers of upstreams that DNS, Consul, Kubernetes, or Docker names while the server runs.
//!
//! Called by: the process, on its main thread: [`Discoveries::begin`] at the start and after each
//! reload, [`Discoveries::changed`] for as long as it runs.
//! Caveat: no request ever waits for a source. Servers that were found stay in use while the source
//! gives no answer; an answer without servers takes all of them away. Sources are not trusted:
//! the length of answers, the number of servers, and their addresses are bounded.
//! Out of scope: the settings ([`saker_config::model::Discovery`]), and what operators change on top
//! (the console's live changes).

mod api;
mod consul;
mod discoveries;
mod dns_srv;
mod docker;
mod feed;
mod kept_servers;
mod kubernetes;
mod servers;

pub use discoveries::{Discoveries, carry_over};
