//! Renewal of sessions with refresh tokens (OpenID Connect Core section 12).
//!
//! Called by: `sessions`, when a session is due.
//! Caveat: a browser sends several requests at once, and a provider may take a refresh token that is
//! used twice for a stolen one. So the first request of a session renews it, and those that come
//! with the same token soon after get the same result; on other workers they renew it themselves.
//! Out of scope: sessions without a refresh token, which last until their end.

use super::{flow::provider_failed, renewal_results::Renewed, state::Identities};
use saker_config::model::OidcRules;
use saker_http::Status;
use saker_identity::{Claims, session::Session};
use saker_pipeline::Exchange;
use std::sync::Arc;

/// Time until a renewal that failed is tried again.
const RETRY_S: i64 = 60;

impl Identities {
    pub(super) async fn renewed(
        &self,
        exchange: &Exchange,
        oidc: &Arc<OidcRules>,
        session: Session,
    ) -> Renewed {
        let token = session.refresh_token.clone().unwrap_or_default();
        let cell = self
            .renewals
            .of(&format!("{} {token}", session.id), exchange.now);
        let renewed = cell
            .get_or_init(|| self.renew(exchange, oidc, session, &token))
            .await;
        renewed.clone()
    }

    async fn renew(
        &self,
        exchange: &Exchange,
        oidc: &OidcRules,
        session: Session,
        token: &str,
    ) -> Renewed {
        let grant = [("grant_type", "refresh_token"), ("refresh_token", token)];
        let tokens = match self.tokens(exchange, oidc, &grant).await {
            Ok(tokens) => tokens,
            Err((Status::FORBIDDEN, _)) => return Renewed::Ended,
            Err((_, why)) => {
                provider_failed(exchange, oidc, &why);
                return Renewed::Session(Session {
                    renews_s: exchange.now + RETRY_S,
                    ..session
                });
            }
        };
        let mut claims = session.claims.clone();
        // An ID token is optional here; its user is the same.
        if tokens.id_token.is_some() {
            match self.claims(exchange, oidc, &tokens, None).await {
                Ok(newer) if same_user(&newer, &claims) => claims = Session::kept(newer),
                Ok(_) | Err((Status::FORBIDDEN, _)) => return Renewed::Ended,
                Err((_, why)) => provider_failed(exchange, oidc, &why),
            }
        }
        Renewed::Session(Session {
            claims,
            renews_s: exchange.now + oidc.renew_s,
            refresh_token: tokens.refresh_token.or(session.refresh_token),
            ..session
        })
    }
}

fn same_user(one: &Claims, other: &Claims) -> bool {
    one.text("sub").is_some() && one.text("sub") == other.text("sub")
}
