//! Requests that may be one client's own: those with a cookie, or with a field that looks like
//! credentials.
//!
//! Called by: [`super::judge`] and [`super::reuse`], for pages whose freshness is only heuristic (RFC
//! 9111 section 4.2.2): no field of theirs says that they may be shared.
//! Caveat: on the hot path of such pages.
//! Out of scope: `Authorization` and session cookies, which count for all pages.

use saker_http::{HeadView, KnownField};

/// Parts of names of fields that tell a client apart.
const WORDS: [&[u8]; 17] = [
    b"auth",
    b"token",
    b"key",
    b"secret",
    b"session",
    b"user",
    b"passw",
    b"credential",
    b"signature",
    b"jwt",
    b"api",
    b"account",
    b"tenant",
    b"customer",
    b"identity",
    b"login",
    b"access",
];

/// Fields of every browser, whose names have such a part.
fn is_usual(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"user-agent")
        || name
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"sec-"))
}

/// True for requests with cookies, or with fields such as `X-Api-Key`.
pub fn is_personal(request: HeadView<'_>) -> bool {
    request.has(KnownField::Cookie) || request.fields().any(|(name, _)| names_client(name))
}

fn names_client(name: &[u8]) -> bool {
    let has = |word: &[u8]| {
        name.windows(word.len())
            .any(|part| part.eq_ignore_ascii_case(word))
    };
    WORDS.iter().any(|word| has(word)) && !is_usual(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    #[test]
    fn names_of_fields() {
        for (name, expected) in [
            ("Cookie", true),
            ("X-Api-Key", true),
            ("PRIVATE-TOKEN", true),
            ("x-auth-request-email", true),
            ("X-Remote-User", true),
            ("X-Amz-Security-Token", true),
            ("User-Agent", false),
            ("Sec-Fetch-User", false),
            ("Accept-Language", false),
            ("Upgrade-Insecure-Requests", false),
            ("Referer", false),
            ("X-Forwarded-For", false),
            ("If-None-Match", false),
        ] {
            let request = RequestHead::build("GET", "/", Version::Http11, &[(name, "1")]);
            assert_eq!(is_personal(request.view()), expected, "{name}");
        }
    }
}
