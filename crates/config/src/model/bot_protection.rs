//! Challenge (proof of work), login protection and bot verification.
//!
//! Called by: the challenge and access phases.
//! Out of scope: the keys (`directives/challenge`, `logins`, `bot_verification`).

use saker_http::Status;
use std::{net::SocketAddr, sync::Arc};

/// Settings of a site or route; empty by default.
#[derive(Clone, Debug, Default)]
pub struct Visitors {
    pub challenge: Option<Arc<Challenge>>,
    pub logins: Option<Arc<Logins>>,
    pub robots: Option<Arc<Robots>>,
}

impl Visitors {
    pub fn is_idle(&self) -> bool {
        self.challenge.is_none() && self.logins.is_none() && self.robots.is_none()
    }
}

/// A challenge page with proof of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Challenges all clients; otherwise only those that exceed a limit.
    pub always: bool,
    /// Number of leading zero bits of the hash.
    pub difficulty: u32,
    /// Lifetime of the clearance cookie.
    pub life_s: u64,
    /// 503 or 403.
    pub status: Status,
    /// The site's custom page, HTML with [`CHALLENGE_PLACE`] once.
    pub page: Option<Arc<str>>,
}

/// Placeholder for the script in a custom page.
pub const CHALLENGE_PLACE: &str = "{challenge}";

impl Default for Challenge {
    fn default() -> Self {
        Challenge {
            always: false,
            difficulty: 16,
            life_s: 86_400,
            status: Status::SERVICE_UNAVAILABLE,
            page: None,
        }
    }
}

/// Protection of wp-login.php and xmlrpc.php (LiteSpeed's WordPressProtect).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logins {
    pub action: LoginAction,
    pub attempts: u32,
    pub within_s: u64,
}

impl Default for Logins {
    fn default() -> Self {
        Logins {
            action: LoginAction::Throttle,
            attempts: 10,
            within_s: 300,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAction {
    /// Responses are delayed from half of the attempts on; 429 beyond them.
    Throttle,
    /// Responds with 403.
    Deny,
    /// Closes the connection.
    Drop,
    /// Proof of work.
    Challenge,
}

/// Verification of bots by the host names of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    /// Clients that only claim to be a bot get 403; otherwise they are treated like any other.
    pub refuses_liars: bool,
    /// Parts of User-Agent, and their domains.
    pub more: Vec<(String, Vec<String>)>,
    /// `None`: the system's resolver.
    pub resolver: Option<SocketAddr>,
}
