//! Who visits: proof of work, guessing of passwords, robots.

use saker_http::Status;
use std::{net::SocketAddr, sync::Arc};

/// Of a site or route; nothing where nothing is set.
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

/// A page that has a browser do some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// For everybody; else only for who is over a limit.
    pub always: bool,
    /// Bits of a hash that have to be 0.
    pub difficulty: u32,
    /// How long a visitor is left in peace then.
    pub life_s: u64,
    /// 503 or 403.
    pub status: Status,
    /// The site's own page, HTML with [`CHALLENGE_PLACE`] once.
    pub page: Option<Arc<str>>,
}

/// Where a page of the site's own has what does the work.
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

/// Guard of wp-login.php and xmlrpc.php (LiteSpeed's WordPressProtect).
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
    /// From half of the attempts on answers wait; beyond them 429.
    Throttle,
    /// 403.
    Deny,
    /// The connection is cut.
    Drop,
    /// Proof of work.
    Challenge,
}

/// Robots whose addresses have the names that they should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    /// Who only says to be one is answered 403; else he is as anybody.
    pub refuses_liars: bool,
    /// What they say in User-Agent, and domains.
    pub more: Vec<(String, Vec<String>)>,
    /// `None`: the machine's own.
    pub resolver: Option<SocketAddr>,
}
