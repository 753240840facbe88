//! Keys and cookies for the host of a request.
//!
//! Called by: `sessions` and `flow`.
//! Caveat: sessions of plain HTTP are refused unless the configuration allows them.
//! Out of scope: what cookies contain (`saker_identity`).

use super::state::{Identities, uncached};
use saker_config::model::OidcRules;
use saker_http::Status;
use saker_identity::{
    SealKeys,
    cookie::{CookieNames, PARTS_MAX},
    session::Session,
};
use saker_pipeline::{Exchange, Response};
use saker_telemetry::{error_log, message};

/// Keys and cookie names for the host of a request.
pub struct Place {
    pub names: CookieNames,
    pub keys: SealKeys,
    pub host: Vec<u8>,
}

impl Place {
    /// Cookies that the client's session takes so far, as many as the last one of them says.
    pub fn parts(&self, exchange: &Exchange) -> usize {
        let view = exchange.head.view();
        let has = |part: &usize| view.cookie(self.names.session(*part).as_bytes()).is_some();
        (0..PARTS_MAX).rev().find(has).map_or(0, |last| last + 1)
    }
}

impl Identities {
    /// Keys and names for the request's host.
    pub(super) fn place(
        &self,
        exchange: &Exchange,
        oidc: &OidcRules,
    ) -> Result<Place, Box<Response>> {
        if !exchange.client.secure && !oidc.allow_http {
            let address = exchange.client.ip();
            error_log::log_about(
                &message::PLAIN_LOGIN_REFUSED,
                exchange,
                format_args!("address={address}"),
            );
            return Err(Box::new(uncached(Status::FORBIDDEN)));
        }
        let keys = self.session_keys.of(oidc).map_err(|why| {
            error_log::log_about(
                &message::SESSION_KEY_FAILED,
                exchange,
                format_args!("{why}"),
            );
            Box::new(uncached(Status::INTERNAL_SERVER_ERROR))
        })?;
        Ok(Place {
            names: CookieNames::new(&oidc.issuer, &oidc.client_id, exchange.client.secure),
            keys,
            host: exchange.host.clone(),
        })
    }
}

/// `Set-Cookie` values for a session. `None`: it is too long, or can't be sealed.
pub fn lines(
    session: &Session,
    oidc: &OidcRules,
    place: &Place,
    parts: usize,
    now_s: i64,
) -> Option<Vec<Vec<u8>>> {
    let context = (&*oidc.issuer, &*oidc.client_id, &*place.host);
    let sealed = session.seal(&place.keys, context)?;
    let lifetime_s = u64::try_from(session.ends_s - now_s).ok()?;
    place.names.session_lines(&sealed, lifetime_s, parts)
}
