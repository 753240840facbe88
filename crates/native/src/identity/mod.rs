//! Identities that tokens and providers prove (`[site.auth.jwt]`, `[site.auth.oidc]`).
//!
//! Called by: `auth`, for rules of these kinds.
//! Caveat: a request is judged by its token if there is one, else by its session.
//! Out of scope: what a token proves and how a log-in goes (`saker_identity`); fetching
//! (`saker_pipeline::Fetcher`).

mod bearer;
mod documents;
mod flow;
mod place;
mod renewal;
mod renewal_results;
mod session_keys;
mod sessions;
mod state;

pub use session_keys::SESSION_KEY_FILE;
pub use state::Identities;

use bearer::Tokens;
use saker_config::model::AuthRules;
use saker_http::Status;
use saker_pipeline::{Exchange, Filter, LocalFuture, Response, Step, Verdict, done};
use state::{OwnCookies, PersonalResponse, grant};
use std::sync::Arc;

/// Sets session cookies, and marks responses as personal.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityFilter;

impl Filter for IdentityFilter {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange.extensions.get::<PersonalResponse>().is_some()
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if exchange.extensions.get::<PersonalResponse>().is_some() {
            let fields = response.fields_mut();
            if !fields.has("cache-control") {
                fields.set("Cache-Control", &b"private"[..]);
            }
        }
        let cookies = exchange.extensions.get_mut::<OwnCookies>();
        for cookie in cookies.into_iter().flat_map(|cookies| cookies.0.drain(..)) {
            response.fields_mut().append("Set-Cookie", cookie);
        }
        done()
    }
}

impl Identities {
    /// Decides whether the request may pass.
    pub fn access<'a>(&'a self, exchange: &'a mut Exchange, rules: Arc<AuthRules>) -> Step<'a> {
        exchange.depends_on_request();
        (exchange.access.user, exchange.access.claims) = (None, None);
        if exchange.log.trace.is_some() {
            exchange.trace("access", Some(&rules.origin), || {
                "a token or a session is asked for; explain assumes that there is one".into()
            });
            return Step::PASS;
        }
        let client = exchange.client.ip();
        let is_inside = rules
            .networks
            .iter()
            .any(|network| network.contains(client));
        match (rules.networks.is_empty(), is_inside, rules.satisfies_any) {
            (false, true, true) => return grant(exchange, &rules, None).into(),
            (false, false, false) => {
                return Verdict::Answer(Response::new(Status::FORBIDDEN)).into();
            }
            _ => {}
        }
        Step::Pending(Box::pin(async move { self.decide(exchange, &rules).await }))
    }

    async fn decide(&self, exchange: &mut Exchange, rules: &Arc<AuthRules>) -> Verdict {
        if let Some(oidc) = &rules.oidc
            && let Some(answer) = self.own_path(exchange, oidc).await
        {
            return Verdict::Answer(answer);
        }
        if let Some(jwt) = &rules.jwt {
            match bearer::tokens_of(exchange, jwt) {
                Tokens::One(token) => return self.by_token(exchange, rules, jwt, token).await,
                Tokens::Several => return Verdict::Answer(bearer::several(exchange, rules)),
                Tokens::None => {}
            }
        }
        match (&rules.oidc, &rules.jwt) {
            (Some(oidc), _) => self.by_session(exchange, rules, oidc).await,
            (None, _) => Verdict::Answer(bearer::challenge(rules, Status::UNAUTHORIZED, None)),
        }
    }
}
