//! A log-in that a client keeps in a sealed cookie.
//!
//! Called by: the access phase, at each request, and when a log-in is complete or renewed.
//! Caveat: rules are applied to the claims at each request, so the session has all claims of the ID
//! token but those of the protocol. What the provider takes back is seen when the session is
//! renewed with the refresh token, or ends.
//! Out of scope: cookies (`cookie`), and lists of sessions on the server; there are none.

use crate::{claims::Claims, seal::SealKeys};
use serde_json::{Map, Value, json};

/// Claims of the protocol, which nothing behind the log-in needs.
const DROPPED: [&str; 12] = [
    "iat",
    "nbf",
    "exp",
    "nonce",
    "at_hash",
    "c_hash",
    "s_hash",
    "jti",
    "azp",
    "acr",
    "amr",
    "session_state",
];

/// Claims that a log-in proved, and how long they hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub claims: Claims,
    /// Random; requests of one session that renew it at the same time find each other by it.
    pub id: String,
    /// Seconds since 1970.
    pub ends_s: i64,
    /// The provider is asked again from then on, if there is a refresh token.
    pub renews_s: i64,
    pub refresh_token: Option<String>,
}

/// Binds a sealed text to its purpose, provider, and host.
pub(crate) fn context(purpose: &str, issuer: &str, client_id: &str, host: &[u8]) -> Vec<u8> {
    let parts = [
        purpose.as_bytes(),
        issuer.as_bytes(),
        client_id.as_bytes(),
        host,
    ];
    parts.join(&b'\n')
}

impl Session {
    /// The claims that are kept.
    pub fn kept(claims: Claims) -> Claims {
        let kept = claims
            .0
            .into_iter()
            .filter(|(name, _)| !DROPPED.contains(&name.as_str()));
        Claims(kept.collect())
    }

    /// `None`: the system gives no random bytes.
    pub fn seal(
        &self,
        keys: &SealKeys,
        (issuer, client_id, host): (&str, &str, &[u8]),
    ) -> Option<String> {
        let whole = json!({
            "c": self.claims.0, "i": self.id, "e": self.ends_s, "r": self.renews_s,
            "t": self.refresh_token,
        });
        keys.seal(
            &context("session", issuer, client_id, host),
            whole.to_string().as_bytes(),
        )
    }

    /// `None`: not a session of this provider and host, or one that has ended.
    pub fn open(
        sealed: &[u8],
        keys: &SealKeys,
        (issuer, client_id, host): (&str, &str, &[u8]),
        now_s: i64,
    ) -> Option<Session> {
        let text = keys.open(&context("session", issuer, client_id, host), sealed)?;
        let mut whole: Map<String, Value> = serde_json::from_slice(&text).ok()?;
        let ends_s = whole.get("e")?.as_i64().filter(|end| now_s < *end)?;
        let renews_s = whole.get("r")?.as_i64()?;
        let id = whole.get("i")?.as_str()?.to_owned();
        let refresh_token = whole.get("t").and_then(Value::as_str).map(str::to_owned);
        let Some(Value::Object(claims)) = whole.remove("c") else {
            return None;
        };
        Some(Session {
            claims: Claims(claims),
            id,
            ends_s,
            renews_s,
            refresh_token,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_and_stay_where_they_are() {
        let keys = SealKeys::parse(&[b'k'; 32]).unwrap();
        let claims = Claims::parse(br#"{"sub":"ann","nonce":"n","groups":["a"],"exp":7}"#).unwrap();
        let session = Session {
            claims: Session::kept(claims),
            id: "id".into(),
            ends_s: 100,
            renews_s: 50,
            refresh_token: Some("r".into()),
        };
        assert!(session.claims.get("nonce").is_none() && session.claims.get("exp").is_none());
        let place = ("https://id.example", "shop", &b"a.example"[..]);
        let sealed = session.seal(&keys, place).unwrap();
        let open = |place, now_s| Session::open(sealed.as_bytes(), &keys, place, now_s);
        assert_eq!(open(place, 99), Some(session.clone()));
        assert_eq!(open(place, 100), None);
        for other in [
            ("https://id.example", "shop", &b"b.example"[..]),
            ("https://id.example", "blog", b"a.example"),
            ("https://other.example", "shop", b"a.example"),
        ] {
            assert_eq!(open(other, 99), None, "{other:?}");
        }
        let attempt = keys
            .seal(
                &context("attempt", place.0, place.1, place.2),
                b"{\"c\":{},\"i\":\"\",\"e\":999,\"r\":0}",
            )
            .unwrap();
        assert_eq!(Session::open(attempt.as_bytes(), &keys, place, 0), None);
    }
}
