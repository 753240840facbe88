//! State of a worker's identities, and what a decision does to the request.
//!
//! Called by: the modules of `identity`.
//! Caveat: the user of the request is always set before it passes, so that pages of one user are
//! never another's in the page cache; a token or session without a name proves nothing.
//! Out of scope: decisions (`bearer`, `sessions`).

use super::{documents::Documents, renewal_results::RenewalResults, session_keys::SessionKeys};
use crate::trusted_fields::replace_fields;
use saker_config::model::AuthRules;
use saker_http::Status;
use saker_identity::Claims;
use saker_pipeline::{Exchange, Fetcher, Response, UserClaims, Verdict};
use std::{path::Path, rc::Rc};

/// Identities of one worker.
pub struct Identities {
    pub documents: Documents,
    pub session_keys: SessionKeys,
    pub renewals: RenewalResults,
}

/// Cookies for the response to a request that passes.
#[derive(Default)]
pub struct OwnCookies(pub Vec<Vec<u8>>);

/// The request passed because of a cookie or the query, so shared caches can't tell by
/// `Authorization` that its response is for one user.
pub struct PersonalResponse;

/// Claims as texts of the configuration see them.
struct OwnClaims(Claims);

impl UserClaims for OwnClaims {
    fn text(&self, name: &str) -> Option<String> {
        self.0.text(name)
    }
}

impl Identities {
    pub fn new(fetcher: Option<Rc<dyn Fetcher>>, state_dir: &Path) -> Identities {
        Identities {
            documents: Documents::new(fetcher),
            session_keys: SessionKeys::new(state_dir),
            renewals: RenewalResults::default(),
        }
    }
}

/// True if the rules let a user with these claims pass.
pub fn is_allowed(rules: &AuthRules, user: &str, groups_claim: &str, claims: &Claims) -> bool {
    let is_named = rules.users.is_empty() && rules.groups.is_empty()
        || rules.users.iter().any(|known| known == user)
        || claims.has_any(groups_claim, &rules.groups);
    is_named && has_email(rules, claims)
}

/// True if the rules accept the address of the user, or any.
fn has_email(rules: &AuthRules, claims: &Claims) -> bool {
    let Some(oidc) = rules.oidc.as_deref() else {
        return true;
    };
    if oidc.emails.is_empty() && oidc.domains.is_empty() {
        return true;
    }
    let is_verified =
        oidc.unverified_emails || claims.text("email_verified").as_deref() == Some("true");
    let Some(email) = claims.text("email").filter(|_| is_verified) else {
        return false;
    };
    let is_same = |known: &String, text: &str| known.eq_ignore_ascii_case(text);
    oidc.emails.iter().any(|known| is_same(known, &email))
        || email
            .rsplit_once('@')
            .is_some_and(|(_, domain)| oidc.domains.iter().any(|known| is_same(known, domain)))
}

/// Lets the request pass: with a user and claims, or without because of its network.
pub fn grant(exchange: &mut Exchange, rules: &AuthRules, who: Option<(&str, Claims)>) -> Verdict {
    let mut own = Vec::new();
    if let Some((user, claims)) = who {
        exchange.access.user = Some(user.into());
        exchange.trace("access", Some(&rules.origin), || {
            format!("the user is `{user}`")
        });
        own.extend(
            rules
                .fields
                .iter()
                .filter_map(|(name, claim)| Some((name.clone(), claims.text(claim)?.into_bytes()))),
        );
        for (name, claim) in &rules.variables {
            if let Some(value) = claims.text(claim) {
                exchange.environment.set(name.as_bytes(), value.as_bytes());
            }
        }
        exchange.access.claims = Some(Rc::new(OwnClaims(claims)));
    }
    let names: Vec<Box<str>> = rules.fields.iter().map(|(name, _)| name.clone()).collect();
    replace_fields(exchange, &names, &own);
    exchange.access.has_identity_fields = true;
    Verdict::Pass
}

/// A response that no cache keeps.
pub fn uncached(status: Status) -> Response {
    let mut response = Response::new(status);
    response.fields_mut().set("Cache-Control", &b"no-store"[..]);
    response
}

#[cfg(test)]
mod tests;
