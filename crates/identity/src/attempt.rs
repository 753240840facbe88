//! One log-in under way: authorization code flow with PKCE, `state`, and `nonce` (OpenID Connect
//! Core section 3.1, RFC 7636, RFC 9700).
//!
//! Called by: the access phase: begun when a client has to log in, ended by the callback.
//! Caveat: an attempt belongs to the browser that began it: its secrets are in a sealed cookie, and
//! a callback without that cookie is refused. So a code of another browser can't be slipped in.
//! Out of scope: the requests to the provider.

use crate::{
    claims::Claims,
    encoding::{base64url, form, random_text, sha256},
    keys::KeySet,
    local_path::local_path,
    provider::Provider,
    seal::SealKeys,
    session::context,
    token::{TokenError, TokenRules, verify},
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value, json};

/// Time for a log-in at the provider.
pub const ATTEMPT_S: i64 = 600;
/// Tolerated difference of the provider's clock.
const LEEWAY_S: i64 = 60;
/// Algorithms of ID tokens; asymmetric only.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// A log-in under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub state: String,
    nonce: String,
    pub verifier: String,
    /// A path of the host, to go back to.
    pub return_path: String,
    began_s: i64,
}

impl Attempt {
    /// `None`: the system gives no random bytes.
    pub fn begin(target: &[u8], now_s: i64) -> Option<Attempt> {
        Some(Attempt {
            state: random_text()?,
            nonce: random_text()?,
            verifier: random_text()?,
            return_path: local_path(target).to_owned(),
            began_s: now_s,
        })
    }

    /// URL of the provider that the client is sent to.
    pub fn authorization_url(
        &self,
        provider: &Provider,
        client_id: &str,
        redirect_uri: &str,
        scope: &str,
    ) -> String {
        let challenge = base64url(&sha256(self.verifier.as_bytes()));
        let query = form(&[
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_uri),
            ("scope", scope),
            ("state", &self.state),
            ("nonce", &self.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let url = &provider.authorization_endpoint;
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}{query}")
    }

    /// `None`: the system gives no random bytes.
    pub fn seal(
        &self,
        keys: &SealKeys,
        (issuer, client_id, host): (&str, &str, &[u8]),
    ) -> Option<String> {
        let whole = json!({
            "s": self.state, "n": self.nonce, "v": self.verifier, "p": self.return_path,
            "b": self.began_s,
        });
        keys.seal(
            &context("attempt", issuer, client_id, host),
            whole.to_string().as_bytes(),
        )
    }

    /// The attempt of a cookie, if it is the one of `state` and not too old.
    pub fn open(
        sealed: &[u8],
        state: &[u8],
        keys: &SealKeys,
        (issuer, client_id, host): (&str, &str, &[u8]),
        now_s: i64,
    ) -> Option<Attempt> {
        let text = keys.open(&context("attempt", issuer, client_id, host), sealed)?;
        let whole: Map<String, Value> = serde_json::from_slice(&text).ok()?;
        let text = |name: &str| Some(whole.get(name)?.as_str()?.to_owned());
        let attempt = Attempt {
            state: text("s")?,
            nonce: text("n")?,
            verifier: text("v")?,
            return_path: local_path(text("p")?.as_bytes()).to_owned(),
            began_s: whole.get("b")?.as_i64()?,
        };
        let is_in_time = now_s < attempt.began_s.saturating_add(ATTEMPT_S);
        let is_same = verify_slices_are_equal(attempt.state.as_bytes(), state).is_ok();
        (is_in_time && is_same).then_some(attempt)
    }

    /// Returns the claims of the ID token that ends the attempt (OpenID Connect Core section
    /// 3.1.3.7).
    ///
    /// # Errors
    /// Why the token is not the attempt's.
    pub fn id_token(
        &self,
        token: &str,
        keys: &KeySet,
        (issuer, client_id): (&str, &str),
        now_s: i64,
    ) -> Result<Claims, TokenError> {
        let claims = id_token(token, keys, (issuer, client_id), now_s)?;
        let nonce = claims
            .get("nonce")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match verify_slices_are_equal(nonce.as_bytes(), self.nonce.as_bytes()) {
            Ok(()) => Ok(claims),
            Err(_) => Err(TokenError::Malformed),
        }
    }
}

/// Returns the claims of an ID token, of a log-in or of its renewal.
///
/// # Errors
/// Why it proves nothing.
pub fn id_token(
    token: &str,
    keys: &KeySet,
    (issuer, client_id): (&str, &str),
    now_s: i64,
) -> Result<Claims, TokenError> {
    let rules = TokenRules {
        algorithms: ALGORITHMS.to_vec(),
        issuer: Some(issuer.to_owned()),
        audiences: vec![client_id.to_owned()],
        leeway_s: LEEWAY_S,
    };
    let claims = verify(token.as_bytes(), keys, &rules, now_s)?;
    // For several audiences the token says which of them asked for it.
    let party = claims.get("azp").and_then(Value::as_str);
    let is_ours = match party {
        Some(party) => party == client_id,
        None => claims.texts("aud").len() == 1,
    };
    match is_ours && claims.text("sub").is_some() {
        true => Ok(claims),
        false => Err(TokenError::Audience),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (&str, &str, &[u8]) = ("https://id.example", "shop", b"a.example");

    #[test]
    fn an_attempt_is_of_its_cookie_and_state() {
        let keys = SealKeys::parse(&[b'k'; 32]).unwrap();
        let attempt = Attempt::begin(b"/a?b=c", 1000).unwrap();
        let sealed = attempt.seal(&keys, PLACE).unwrap();
        let open = |state: &str, place, now_s| {
            Attempt::open(sealed.as_bytes(), state.as_bytes(), &keys, place, now_s)
        };
        assert_eq!(open(&attempt.state, PLACE, 1599), Some(attempt.clone()));
        assert_eq!(open(&attempt.state, PLACE, 1600), None);
        assert_eq!(open("other", PLACE, 1001), None);
        assert_eq!(open("", PLACE, 1001), None);
        assert_eq!(
            open(
                &attempt.state,
                ("https://id.example", "shop", b"b.example"),
                1001
            ),
            None
        );
        let other = Attempt::begin(b"/", 1000).unwrap();
        assert!(other.state != attempt.state && other.nonce != attempt.nonce);
        assert_eq!(
            Attempt::begin(b"//evil.example", 0).unwrap().return_path,
            "/"
        );
    }

    #[test]
    fn the_url_has_what_binds_the_answer() {
        let provider = Provider {
            authorization_endpoint: "https://id.example/auth?x=1".into(),
            ..Provider::default()
        };
        let attempt = Attempt::begin(b"/", 0).unwrap();
        let url =
            attempt.authorization_url(&provider, "shop&", "https://a.example/cb", "openid email");
        let challenge = base64url(&sha256(attempt.verifier.as_bytes()));
        assert_eq!(
            url,
            format!(
                "https://id.example/auth?x=1&response_type=code&client_id=shop%26\
                 &redirect_uri=https%3A%2F%2Fa.example%2Fcb&scope=openid%20email&state={}&nonce={}\
                 &code_challenge={challenge}&code_challenge_method=S256",
                attempt.state, attempt.nonce
            )
        );
        assert!(!url.contains(&attempt.verifier));
    }

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    struct Signer {
        key: jsonwebtoken::EncodingKey,
        keys: KeySet,
    }

    impl Signer {
        fn new() -> Signer {
            use aws_lc_rs::signature::{
                ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
            };
            let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
            let point = pair.public_key().as_ref();
            let jwk = format!(
                "{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{}\",\"y\":\"{}\"}}",
                base64url(&point[1..33]),
                base64url(&point[33..65])
            );
            Signer {
                key: jsonwebtoken::EncodingKey::from_ec_der(pair.to_pkcs8v1().unwrap().as_ref()),
                keys: KeySet::public(jwk.as_bytes()).unwrap(),
            }
        }

        fn token(&self, claims: &str) -> String {
            signed(claims, "ES256", &self.key, Algorithm::ES256)
        }
    }

    fn signed(
        claims: &str,
        name: &str,
        key: &jsonwebtoken::EncodingKey,
        algorithm: Algorithm,
    ) -> String {
        let header = base64url(format!("{{\"alg\":\"{name}\"}}").as_bytes());
        let message = format!("{header}.{}", base64url(claims.as_bytes()));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).unwrap();
        format!("{message}.{signature}")
    }

    #[test]
    fn an_id_token_is_of_its_attempt() {
        let (signer, attempt) = (Signer::new(), Attempt::begin(b"/", 0).unwrap());
        let of = ("https://id.example", "shop");
        let claims = |aud: &str, more: &str| {
            format!(
                "{{\"iss\":\"https://id.example\",\"aud\":{aud},\"exp\":2000,\"sub\":\"ann\",{more}\"nonce\":\"{}\"}}",
                attempt.nonce
            )
        };
        let check = |token: &str| attempt.id_token(token, &signer.keys, of, 1000).err();
        let good = claims("\"shop\"", "");
        assert_eq!(check(&signer.token(&good)), None);
        assert_eq!(
            check(&signer.token(&claims("[\"shop\",\"x\"]", "\"azp\":\"shop\","))),
            None
        );
        for (claims, expected) in [
            (claims("[\"shop\",\"x\"]", ""), TokenError::Audience),
            (claims("\"shop\"", "\"azp\":\"x\","), TokenError::Audience),
            (claims("\"x\"", ""), TokenError::Audience),
            (
                good.replace("id.example", "evil.example"),
                TokenError::Issuer,
            ),
            (good.replace(&attempt.nonce, "other"), TokenError::Malformed),
            (good.replace("\"nonce\"", "\"once\""), TokenError::Malformed),
            (good.replace("2000", "900"), TokenError::Expired),
            (good.replace("\"ann\"", "\"\""), TokenError::Audience),
        ] {
            assert_eq!(check(&signer.token(&claims)), Some(expected), "{claims}");
        }
        // Secrets sign no ID tokens, not even the client's own; neither do other keys.
        let secret = jsonwebtoken::EncodingKey::from_secret(SECRET);
        let forged = signed(&good, "HS256", &secret, Algorithm::HS256);
        assert_eq!(check(&forged), Some(TokenError::Algorithm));
        assert_eq!(
            check(&Signer::new().token(&good)),
            Some(TokenError::Signature)
        );
    }
}
