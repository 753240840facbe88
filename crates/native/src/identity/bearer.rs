//! Access with a token of the client's (RFC 6750).
//!
//! Called by: `identity`, for requests with a token.
//! Caveat: a client is told what is wrong with its token, but nothing about keys; the reason for a
//! refusal is in the error log, the token is not.
//! Out of scope: checking the token (`saker_identity::token`).

use super::state::{Identities, PersonalResponse, grant, is_allowed, uncached};
use crate::ambiguous_credentials::is_ambiguous;
use saker_config::model::{AuthRules, JwtRules};
use saker_http::{
    KnownField, Status,
    cookies::cookies_with_commas,
    query::{self, form_decoded, is_read_as},
};
use saker_identity::{Claims, KeySet, TokenError, TokenRules, token};
use saker_pipeline::{Exchange, Response, Verdict};
use saker_telemetry::{error_log, message};
use std::{rc::Rc, sync::Arc};

/// A token, and whether it came in `Authorization`.
pub struct Presented {
    token: Vec<u8>,
    is_in_field: bool,
}

/// Tokens of a request.
pub enum Tokens {
    None,
    One(Presented),
    /// Different ones, or several lines of `Authorization`: a program could take another one than
    /// the server checks (RFC 6750 section 2).
    Several,
}

/// The token of a request, in whichever of the places it is. Cookies and parameters are split wherever
/// some program splits them, and have the names that PHP reads, too.
pub fn tokens_of(exchange: &Exchange, jwt: &JwtRules) -> Tokens {
    if is_ambiguous(exchange) {
        return Tokens::Several;
    }
    let view = exchange.head.view();
    let field = view.first("authorization");
    let in_field = field.and_then(bearer);
    let mut all: Vec<Vec<u8>> = in_field.map(<[u8]>::to_vec).into_iter().collect();
    if let Some(name) = &jwt.cookie {
        let cookies = cookies_with_commas(view.lines(KnownField::Cookie));
        let named = cookies.filter(|cookie| is_read_as(cookie.name, name.as_bytes()));
        all.extend(named.filter_map(|cookie| Some(cookie.value?.to_vec())));
    }
    if let (Some(name), Some(query)) = (&jwt.query, exchange.query.as_deref()) {
        let parameters = query::parameters_with_semicolons(query);
        let named = parameters.filter(|parameter| is_read_as(parameter.name, name.as_bytes()));
        all.extend(named.filter_map(|parameter| Some(form_decoded(parameter.value?).into_owned())));
    }
    let is_in_field = in_field.is_some();
    let mut all = all.into_iter().filter(|token| !token.is_empty());
    match all.next() {
        None => Tokens::None,
        Some(_) if !is_in_field && field.is_some_and(may_be_token) => Tokens::Several,
        Some(token) if all.any(|other| other != token) => Tokens::Several,
        Some(token) => Tokens::One(Presented { token, is_in_field }),
    }
}

/// The refusal of a request with several tokens.
pub fn several(exchange: &Exchange, rules: &AuthRules) -> Response {
    log(exchange, "the request has several tokens");
    let error = ("invalid_request", "the request has several tokens");
    challenge(rules, Status::BAD_REQUEST, Some(error))
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let is_bearer =
        scheme.eq_ignore_ascii_case(b"bearer") && rest.first().is_some_and(u8::is_ascii_whitespace);
    is_bearer.then(|| rest.trim_ascii())
}

/// Returns true for credentials that a program could take for a token: all but those of Basic and
/// Digest.
fn may_be_token(value: &[u8]) -> bool {
    let is_of = |scheme: &[u8]| {
        let (start, rest) = value.split_at_checked(scheme.len()).unwrap_or((value, b""));
        start.eq_ignore_ascii_case(scheme) && rest.first().is_some_and(u8::is_ascii_whitespace)
    };
    !(value.trim_ascii().is_empty() || is_of(b"basic") || is_of(b"digest"))
}

/// The refusal of a request (RFC 6750 section 3): without a token, or with the error of one.
pub fn challenge(rules: &AuthRules, status: Status, error: Option<(&str, &str)>) -> Response {
    let mut value = format!("Bearer realm=\"{}\"", rules.realm);
    if let Some((error, description)) = error {
        value.push_str(&format!(
            ", error=\"{error}\", error_description=\"{description}\""
        ));
    }
    let mut response = uncached(status);
    response
        .fields_mut()
        .set("WWW-Authenticate", value.into_bytes());
    response
}

fn insufficient(rules: &AuthRules) -> Response {
    let description = "the token does not permit this request";
    challenge(
        rules,
        Status::FORBIDDEN,
        Some(("insufficient_scope", description)),
    )
}

impl Identities {
    pub(super) async fn by_token(
        &self,
        exchange: &mut Exchange,
        rules: &AuthRules,
        jwt: &Arc<JwtRules>,
        presented: Presented,
    ) -> Verdict {
        let claims = match self.checked(exchange, jwt, &presented.token).await {
            Ok(claims) => claims,
            Err(Some(error)) => {
                log(exchange, &error.to_string());
                let error = ("invalid_token", &*error.to_string());
                return Verdict::Answer(challenge(rules, Status::UNAUTHORIZED, Some(error)));
            }
            Err(None) => return Verdict::Answer(uncached(Status::SERVICE_UNAVAILABLE)),
        };
        let Some(user) = claims.text(&jwt.user_claim) else {
            log(
                exchange,
                &format!("the token has no claim `{}`", jwt.user_claim),
            );
            let error = ("invalid_token", "the token names no user");
            return Verdict::Answer(challenge(rules, Status::UNAUTHORIZED, Some(error)));
        };
        let lacks = |(name, values): &&(String, Vec<String>)| !claims.has_any(name, values);
        if let Some((name, _)) = jwt.claims.iter().find(lacks) {
            log(
                exchange,
                &format!("user={user} the claim `{name}` has none of the required values"),
            );
            return Verdict::Answer(insufficient(rules));
        }
        if !is_allowed(rules, &user, &jwt.groups_claim, &claims) {
            log(
                exchange,
                &format!("user={user} is neither among users nor in groups with access"),
            );
            return Verdict::Answer(insufficient(rules));
        }
        if !presented.is_in_field {
            exchange.extensions.insert(PersonalResponse);
        }
        grant(exchange, rules, Some((&user, claims)))
    }

    /// The claims of a token. Without keys there is no error but `None`, which has been logged.
    async fn checked(
        &self,
        exchange: &Exchange,
        jwt: &Arc<JwtRules>,
        token: &[u8],
    ) -> Result<Claims, Option<TokenError>> {
        let rules = TokenRules {
            algorithms: jwt.algorithms.clone(),
            issuer: jwt.issuer.clone(),
            audiences: jwt.audiences.clone(),
            leeway_s: jwt.leeway_s,
        };
        let verify = |keys: &KeySet| token::verify(token, keys, &rules, exchange.now);
        let Some(url) = &jwt.keys_url else {
            // Loading refuses rules without keys.
            let keys = jwt.keys.as_ref().ok_or(None)?;
            return verify(keys).map_err(Some);
        };
        let source = self
            .documents
            .keys(url, jwt.ca_file.as_deref())
            .ok_or(None)?;
        let log = |why: &str| {
            error_log::log_about(
                &message::TOKEN_KEYS_FAILED,
                exchange,
                format_args!("{url}: {why}"),
            );
        };
        let mut keys = source
            .current(exchange, jwt.refresh_ms, &log)
            .await
            .ok_or(None)?;
        let mut outcome = verify(&keys);
        if matches!(outcome, Err(TokenError::UnknownKey))
            && let Some(newer) = source.newer_than(exchange, &keys, &log).await
        {
            keys = newer;
            outcome = verify(&keys);
        }
        drop::<Rc<KeySet>>(keys);
        outcome.map_err(Some)
    }
}

fn log(exchange: &Exchange, why: &str) {
    let address = exchange.client.ip();
    error_log::log_about(
        &message::TOKEN_REFUSED,
        exchange,
        format_args!("address={address} {why}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_credentials() {
        for (value, expected) in [
            ("Bearer abc", Some("abc")),
            ("bEARER  abc ", Some("abc")),
            ("Bearer", None),
            ("Basic abc", None),
            ("Bearerabc", None),
        ] {
            assert_eq!(
                bearer(value.as_bytes()),
                expected.map(str::as_bytes),
                "{value}"
            );
        }
    }
}
