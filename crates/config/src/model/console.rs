//! `[console]`: pages and an API for operators.
//!
//! Called by: the process, which serves them.
//! Out of scope: the keys (`directives/console`, `directives/console_oidc`).

use super::{LocatedPath, Origin, Secret};
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
    /// `None`: no log-in at a provider.
    pub oidc: Option<ConsoleOidc>,
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
            oidc: None,
            origin: Origin::built_in(),
        }
    }
}

/// Log-in to the console at an OpenID Connect provider (`[console.oidc]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleOidc {
    pub issuer: String,
    pub client_id: String,
    /// `None`: a public client.
    pub client_secret: Option<Secret>,
    pub client_secret_file: Option<LocatedPath>,
    pub scopes: Vec<String>,
    /// Claim with the name that pages and the audit log show.
    pub user_claim: String,
    /// Claim whose values `roles` names.
    pub roles_claim: String,
    /// Values of the claim, each with a role: `viewer`, `operator`, `administrator`, or
    /// `owner:SITE`.
    pub roles: Vec<(Box<str>, Box<str>)>,
    pub ca_file: Option<PathBuf>,
    pub origin: Origin,
}

impl Default for ConsoleOidc {
    fn default() -> ConsoleOidc {
        ConsoleOidc {
            issuer: String::new(),
            client_id: String::new(),
            client_secret: None,
            client_secret_file: None,
            scopes: ["openid", "email", "profile"].map(String::from).into(),
            user_claim: "sub".into(),
            roles_claim: "groups".into(),
            roles: Vec::new(),
            ca_file: None,
            origin: Origin::built_in(),
        }
    }
}
