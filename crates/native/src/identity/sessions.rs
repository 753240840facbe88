//! Sessions of browsers: opened at each request, renewed now and then.
//!
//! Called by: `identity`, for requests without a token.
//! Caveat: only a browser that navigates is sent to the provider. Other requests get 401, because a
//! script can't log in, and a form that is sent must not become a GET.
//! Out of scope: the log-in itself (`flow`).

use super::{
    place::{Place, lines},
    renewal_results::Renewed,
    state::{Identities, OwnCookies, PersonalResponse, grant, is_allowed, uncached},
};
use saker_config::model::{AuthRules, OidcRules};
use saker_http::{Method, Status};
use saker_identity::session::Session;
use saker_pipeline::{Exchange, Verdict};
use saker_telemetry::{error_log, message};
use std::sync::Arc;

impl Identities {
    pub(super) async fn by_session(
        &self,
        exchange: &mut Exchange,
        rules: &AuthRules,
        oidc: &Arc<OidcRules>,
    ) -> Verdict {
        let place = match self.place(exchange, oidc) {
            Ok(place) => place,
            Err(refusal) => return Verdict::Answer(*refusal),
        };
        let session = match self.session(exchange, oidc, &place).await {
            Some(session) => session,
            None if is_navigation(exchange) => {
                return Verdict::Answer(self.begin(exchange, oidc, &place).await);
            }
            None => {
                let mut response = uncached(Status::UNAUTHORIZED);
                let challenge = format!("OpenIDConnect realm=\"{}\"", rules.realm);
                response
                    .fields_mut()
                    .set("WWW-Authenticate", challenge.into_bytes());
                return Verdict::Answer(response);
            }
        };
        exchange.extensions.insert(PersonalResponse);
        let user = session.claims.text(&oidc.user_claim).unwrap_or_default();
        if user.is_empty() || !is_allowed(rules, &user, &oidc.groups_claim, &session.claims) {
            let address = exchange.client.ip();
            error_log::log_about(
                &message::ACCESS_REFUSED,
                exchange,
                format_args!("address={address} user={user} has logged in, and has no access"),
            );
            return Verdict::Answer(uncached(Status::FORBIDDEN));
        }
        grant(exchange, rules, Some((&user, session.claims)))
    }

    /// The session of the request's cookies, renewed if that is due.
    async fn session(
        &self,
        exchange: &mut Exchange,
        oidc: &Arc<OidcRules>,
        place: &Place,
    ) -> Option<Session> {
        let view = exchange.head.view();
        let (sealed, parts) = place.names.joined(|name| view.cookie(name.as_bytes()));
        let context = (&*oidc.issuer, &*oidc.client_id, &*place.host);
        let session = Session::open(&sealed, &place.keys, context, exchange.now)?;
        if exchange.now < session.renews_s || session.refresh_token.is_none() {
            return Some(session);
        }
        match self.renewed(exchange, oidc, session).await {
            Renewed::Session(session) => {
                let lines = lines(&session, oidc, place, parts, exchange.now);
                let cookies = exchange.extensions.get_or_default::<OwnCookies>();
                cookies.0 = lines.unwrap_or_default();
                Some(session)
            }
            Renewed::Ended => None,
        }
    }
}

/// True if a browser opens a page (Fetch Metadata), as far as it says.
fn is_navigation(exchange: &Exchange) -> bool {
    let view = exchange.head.view();
    let mode = view.first("sec-fetch-mode");
    matches!(view.method(), Method::Get | Method::Head)
        && mode.is_none_or(|mode| mode == b"navigate")
        && view.first("x-requested-with").is_none()
}
