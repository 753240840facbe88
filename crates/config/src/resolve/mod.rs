//! Resolves references between the parts of a configuration, when all files have been read.
//!
//! Called by: `load`, before `check`.

mod addresses;
mod conditions;
mod modsecurity;
mod streams;
mod templates;
mod upstreams;

pub use upstreams::{fetched_from, server_address, with_discovered, with_servers};

use crate::configuration::Configuration;

pub(crate) fn all(configuration: &mut Configuration) {
    upstreams::resolve(configuration);
    addresses::resolve(configuration);
    modsecurity::resolve(configuration);
    templates::resolve(configuration);
    streams::resolve(configuration);
}
