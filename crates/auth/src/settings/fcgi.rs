//! FastCGI authorizers (FastCGI 1.0 section 6.3) that know users, or who may do what
//! (mod_authnz_fcgi).
//!
//! Called by: front ends, which fill them; `fcgi`, which asks.
//! Out of scope: connections, which are the front ends'.

use saker_ap_expr::StringExpression;
use std::sync::Arc;

/// The decisions of an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FcgiDuty {
    /// Users and passwords.
    Users,
    /// Requirements.
    Requirements,
    /// Both, at once.
    Both,
}

impl FcgiDuty {
    /// The duty by Apache's name of it.
    pub fn named(kind: &str) -> Option<FcgiDuty> {
        Some(match kind.to_ascii_lowercase().as_str() {
            "authn" => FcgiDuty::Users,
            "authz" => FcgiDuty::Requirements,
            "authnz" => FcgiDuty::Both,
            _ => return None,
        })
    }
}

/// An authorizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FcgiAuthorizer {
    pub name: Box<str>,
    pub duty: FcgiDuty,
    pub host: Box<str>,
    pub port: u16,
}

impl FcgiAuthorizer {
    pub fn knows_users(&self) -> bool {
        self.duty != FcgiDuty::Requirements
    }

    pub fn knows_requirements(&self) -> bool {
        self.duty != FcgiDuty::Users
    }
}

/// An authorizer in the place of a scheme.
#[derive(Clone, Debug)]
pub struct FcgiCheck {
    pub authorizer: Box<str>,
    /// Its refusal is final (the default).
    pub is_authoritative: bool,
    pub default_user: Option<Box<str>>,
    /// Clients have to send a user name and a password.
    pub requires_credentials: bool,
    /// The name of the user, of the authorizer's variables.
    pub user: Option<Arc<StringExpression>>,
}
