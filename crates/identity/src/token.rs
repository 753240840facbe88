//! Checks JSON Web Tokens (RFC 7519) in JWS compact form (RFC 7515 section 7.1).
//!
//! Called by: the access phase, for tokens of clients; `attempt`, for ID tokens.
//! Caveat: the token's header chooses among the algorithms that the configuration allows, never
//! beyond (RFC 8725 section 3.1), and `exp` is required: a token that never ends can't be revoked.
//! Out of scope: encrypted tokens (JWE), detached and unencoded content (`crit`, `b64`).

use crate::{
    claims::Claims,
    encoding::from_base64url,
    keys::{KeySet, algorithm},
};
use jsonwebtoken::{Algorithm, crypto};
use std::fmt;

/// Tokens that are longer are not looked at.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Requirements on a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    pub algorithms: Vec<Algorithm>,
    /// `iss` has to be this.
    pub issuer: Option<String>,
    /// `aud` has to name one of these; empty: it is not looked at.
    pub audiences: Vec<String>,
    /// Difference of clocks that is tolerated.
    pub leeway_s: i64,
}

/// Reason why a token proves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    TooLong,
    Malformed,
    /// Not one of the allowed algorithms.
    Algorithm,
    /// It has header parameters that must be understood, and are not (RFC 7515 section 4.1.11).
    Critical,
    /// No key has this id, or is for this algorithm.
    UnknownKey,
    Signature,
    WithoutEnd,
    Expired,
    NotYetValid,
    Issuer,
    Audience,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenError::TooLong => "the token is too long",
            TokenError::Malformed => "the token is malformed",
            TokenError::Algorithm => "the algorithm of the token is not allowed",
            TokenError::Critical => "the token has unknown critical header parameters",
            TokenError::UnknownKey => "the key of the token is unknown",
            TokenError::Signature => "the signature of the token is invalid",
            TokenError::WithoutEnd => "the token has no expiration time",
            TokenError::Expired => "the token has expired",
            TokenError::NotYetValid => "the token is not valid yet",
            TokenError::Issuer => "the token is of another issuer",
            TokenError::Audience => "the token is for another audience",
        })
    }
}

/// Returns the claims of a token that proves what the rules ask for, at `now_s` (seconds since
/// 1970).
///
/// # Errors
/// Why it does not. [`TokenError::UnknownKey`] may change when the keys are fetched again.
pub fn verify(
    token: &[u8],
    keys: &KeySet,
    rules: &TokenRules,
    now_s: i64,
) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let text = std::str::from_utf8(token).map_err(|_| TokenError::Malformed)?;
    let (message, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, content) = message.split_once('.').ok_or(TokenError::Malformed)?;
    if content.contains('.') {
        return Err(TokenError::Malformed);
    }
    let object = |text: &str| {
        from_base64url(text.as_bytes())
            .and_then(|bytes| Claims::parse(&bytes))
            .ok_or(TokenError::Malformed)
    };
    let header = object(header)?;
    let chosen = header.0.get("alg").and_then(|name| name.as_str());
    let chosen = chosen
        .and_then(algorithm)
        .filter(|chosen| rules.algorithms.contains(chosen))
        .ok_or(TokenError::Algorithm)?;
    if header.0.contains_key("crit") || header.0.contains_key("b64") {
        return Err(TokenError::Critical);
    }
    let id = header.0.get("kid").and_then(|id| id.as_str());
    let mut error = TokenError::UnknownKey;
    for key in keys.candidates(chosen, id) {
        match crypto::verify(signature, message.as_bytes(), &key.key, chosen) {
            Ok(true) => return within(object(content)?, rules, now_s),
            Ok(false) | Err(_) => error = TokenError::Signature,
        }
    }
    Err(error)
}

/// Checks the registered claims.
fn within(claims: Claims, rules: &TokenRules, now_s: i64) -> Result<Claims, TokenError> {
    let end = claims.seconds("exp").ok_or(TokenError::WithoutEnd)?;
    if now_s >= end.saturating_add(rules.leeway_s) {
        return Err(TokenError::Expired);
    }
    if claims.0.contains_key("nbf") {
        let from = claims.seconds("nbf").ok_or(TokenError::Malformed)?;
        if now_s < from.saturating_sub(rules.leeway_s) {
            return Err(TokenError::NotYetValid);
        }
    }
    if let Some(issuer) = &rules.issuer
        && claims.0.get("iss").and_then(|value| value.as_str()) != Some(issuer)
    {
        return Err(TokenError::Issuer);
    }
    if !rules.audiences.is_empty() && !claims.has_any("aud", &rules.audiences) {
        return Err(TokenError::Audience);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests;
