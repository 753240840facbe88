//! The session cookie, and the cookie of a log-in that is under way at a provider.
//!
//! Called by: log-in and log-out, which set them; the gate, which reads the session's.
//! Caveat: over TLS names have the prefix `__Host-` (RFC 6265bis section 4.1.3.2), so that no other
//! host and no plain response can set them. A provider sends the browser back from another site, so
//! the cookie of that log-in is `Lax`; the session's is `Strict`.

use crate::exchange::Request;

const SESSION: &str = "saker-console";
const ATTEMPT: &str = "saker-console-login";

fn prefix(is_secure: bool) -> &'static str {
    match is_secure {
        true => "__Host-",
        false => "",
    }
}

/// The value of `Set-Cookie` for a new session; an empty token removes the cookie.
pub fn set(token: &str, is_secure: bool) -> String {
    let age = if token.is_empty() { "; Max-Age=0" } else { "" };
    line((SESSION, token), is_secure, &format!("Strict{age}"))
}

/// The value of `Set-Cookie` for a log-in at a provider; an empty one removes the cookie.
pub fn set_attempt(sealed: &str, is_secure: bool, lifetime_s: i64) -> String {
    let age = if sealed.is_empty() { 0 } else { lifetime_s };
    line((ATTEMPT, sealed), is_secure, &format!("Lax; Max-Age={age}"))
}

fn line((name, value): (&str, &str), is_secure: bool, rest: &str) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let prefix = prefix(is_secure);
    format!("{prefix}{name}={value}; Path=/; HttpOnly; SameSite={rest}{secure}")
}

/// The token of the request.
pub fn token(request: &Request) -> Option<&str> {
    value(request, SESSION)
}

/// The log-in under way at a provider, sealed.
pub fn attempt(request: &Request) -> Option<&str> {
    value(request, ATTEMPT)
}

/// The value of a cookie; two cookies of the name are none, because one of them was planted.
fn value<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let wanted = format!("{}{name}", prefix(request.is_secure)).into_bytes();
    let view = request.head.view();
    let mut found = view
        .all("cookie")
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            (pair[..at].trim_ascii() == wanted).then(|| pair[at + 1..].trim_ascii())
        });
    let (value, other) = (found.next()?, found.next());
    other
        .is_none()
        .then_some(value)
        .and_then(|value| std::str::from_utf8(value).ok())
}
