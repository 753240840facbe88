//! Names resolved by given name servers.
//!
//! Called by: the front ends whose configurations name their servers (nginx's `resolver`), and bot
//! verification, which asks for the names of addresses.
//! Caveat: nothing here is for names that the system resolves (`/etc/hosts`, search lists).
//! Out of scope: recursion, DNSSEC, and names of the system's configuration.

mod exchange;
mod message;
mod resolver;

pub use exchange::{ask, ask_server};
pub use message::{Answer, NAME_ERROR, Question, ServiceServer, server_of, servers_of};
pub use resolver::{Lookup, LookupError, NameServers, Resolved, Resolver};
