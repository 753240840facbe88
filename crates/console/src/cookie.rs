//! The session cookie.
//!
//! Called by: log-in and log-out, which set it; the gate, which reads it.
//! Caveat: over TLS its name has the prefix `__Host-` (RFC 6265bis section 4.1.3.2), so that no
//! other host and no plain response can set it.

use crate::exchange::Request;

fn name(is_secure: bool) -> &'static str {
    match is_secure {
        true => "__Host-saker-console",
        false => "saker-console",
    }
}

/// The value of `Set-Cookie` for a new session; an empty token removes the cookie.
pub fn set(token: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let age = if token.is_empty() { "; Max-Age=0" } else { "" };
    format!(
        "{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{age}",
        name(is_secure)
    )
}

/// The token of the request; two cookies of the name are none, because one of them was planted.
pub fn token(request: &Request) -> Option<&str> {
    let wanted = name(request.is_secure).as_bytes();
    let view = request.head.view();
    let mut found = view
        .all("cookie")
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            (pair[..at].trim_ascii() == wanted).then(|| pair[at + 1..].trim_ascii())
        });
    let (token, other) = (found.next()?, found.next());
    other
        .is_none()
        .then_some(token)
        .and_then(|token| std::str::from_utf8(token).ok())
}
