//! Digest authentication in cases: a proof for a challenge, and fields without what chance makes.
//!
//! Called by: `pair`, for requests with `@digest:`, and `compare`.
//! Caveat: that the server's confirmation (`rspauth`) is right is the matter of
//! `apache_access::the_confirmation_of_digest_can_be_checked`; here it is there or not.

use super::case::Request;
use crate::apache_access::{Proof, parameter};
use saker_testkit::Response;

/// `Authorization` for the challenge; `credentials` are `USER:PASSWORD` and what is odd about it.
pub fn authorization(
    challenged: &Response,
    request: &Request,
    credentials: &str,
) -> Result<String, String> {
    let mut words = credentials.split(' ');
    let (user, password) = words
        .next()
        .and_then(|word| word.split_once(':'))
        .ok_or("no user and password")?;
    let odd: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
    let option = |name: &str| {
        odd.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    };
    let challenge = challenged.field("www-authenticate").unwrap_or_default();
    let of_challenge = |name: &str| option(name).or_else(|| parameter(challenge, name));
    let mut more = match option("qop") {
        Some("none") => String::new(),
        other => format!(", qop={}", other.unwrap_or("auth")),
    };
    for name in ["algorithm", "opaque", "nc", "cnonce", "username"] {
        let sent = || parameter(challenge, name);
        if let Some(value) = option(name).and_then(|value| match value {
            "sent" => sent(),
            value => Some(value),
        }) {
            more.push_str(&format!(", {name}={value}"));
        }
    }
    let proof = Proof {
        user,
        password,
        realm: of_challenge("realm").unwrap_or("none"),
        method: option("method").unwrap_or(&request.method),
        uri: option("uri").unwrap_or(&request.target),
        nonce: of_challenge("nonce").unwrap_or("none"),
        more: &more,
    };
    Ok(proof.value())
}

/// The field without nonces and confirmations, which differ each time.
pub fn masked(field: &str) -> String {
    ["nonce", "nextnonce", "rspauth", "opaque"]
        .into_iter()
        .fold(field.to_owned(), |text, name| {
            let value = format!(" {text}")
                .split_once(&format!(" {name}=\""))
                .and_then(|(_, rest)| rest.split_once('"'))
                .map(|(value, _)| value.to_owned());
            match value.filter(|value| !value.is_empty()) {
                Some(value) => text.replace(&format!("\"{value}\""), "*"),
                None => text,
            }
        })
}
