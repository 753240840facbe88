//! `[console]`: pages and an API for operators.
//!
//! Called by: the process, which serves them.
//! Out of scope: the keys (`directives/console`).

use super::Origin;
use std::{net::SocketAddr, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// `None`: no console, unless `saker console` opens one.
    pub address: Option<SocketAddr>,
    /// TLS, with the certificates of the sites.
    pub tls: bool,
    /// Host names by which browsers reach it, in lower case; addresses and `localhost` always do.
    pub names: Vec<Box<str>>,
    /// File with users and tokens; `None`: `console-users` in the state directory.
    pub users: Option<PathBuf>,
    /// Time for confirming an applied change.
    pub confirm_time_ms: u64,
    pub origin: Origin,
}

impl Default for Console {
    fn default() -> Console {
        Console {
            address: None,
            tls: false,
            names: Vec::new(),
            users: None,
            confirm_time_ms: 60_000,
            origin: Origin::built_in(),
        }
    }
}
