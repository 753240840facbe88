//! Fields of a response that are stored (RFC 9111 section 3.1).
//!
//! Called by: the page cache, before storing and after a 304.
//! Caveat: an entry is sent to all clients, so personal and connection fields must not get in.
//! Out of scope: LSCache's own fields (`lscache::visible`).

use super::{life::Life, settings::RuleSettings, targeted::lines};
use saker_http::{Fields, chars::trim_ows, fields::known_name};

/// Connection fields (RFC 9110 section 7.6.1), fields of proxies (section 3.1), and personal ones.
const NEVER: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "content-length",
    "age",
    "set-cookie",
    "set-cookie2",
    "alt-svc",
];

/// The fields of an entry, in order.
pub fn stored_fields(fields: &Fields, life: &Life, settings: &RuleSettings) -> Fields {
    let connection: Vec<&[u8]> = lines(fields, "connection")
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(trim_ows)
        .collect();
    let of_connection = |name: &str| {
        connection
            .iter()
            .any(|held| held.eq_ignore_ascii_case(name.as_bytes()))
    };
    let ignored = |name: &str| {
        settings
            .ignored_fields
            .iter()
            .any(|held| held.eq_ignore_ascii_case(name))
    };
    let is_never =
        |name: &str| is_never_stored(name) && !(settings.store_cookies && is_cookie(name));
    let mut kept = Fields::new();
    for (name, value) in fields.iter() {
        let is_dropped = is_never(name) || ignored(name);
        if !is_dropped && !of_connection(name) && !hides(life, name) {
            kept.append(known_name(name), value.to_vec());
        }
    }
    kept
}

/// True for Set-Cookie, and for Set-Cookie2, which RFC 6265 obsoletes: it may repeat what is personal.
pub(super) fn is_cookie(name: &str) -> bool {
    ["set-cookie", "set-cookie2"]
        .iter()
        .any(|held| held.eq_ignore_ascii_case(name))
}

/// True if a response sets cookies.
pub fn sets_cookies(fields: &Fields) -> bool {
    fields.iter().any(|(name, _)| is_cookie(name))
}

pub(super) fn is_never_stored(name: &str) -> bool {
    NEVER.iter().any(|never| never.eq_ignore_ascii_case(name))
}

/// Sections 5.2.2.4 and 5.2.2.7: without these the rest may be used.
fn hides(life: &Life, name: &str) -> bool {
    life.hidden_fields
        .iter()
        .any(|hidden| hidden.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_per_field() {
        let life = Life {
            hidden_fields: vec!["x-hidden".into()],
            ..Life::default()
        };
        let settings = RuleSettings {
            ignored_fields: vec!["X-Ignored".into()],
            ..RuleSettings::default()
        };
        let rows = [
            ("Content-Type", true),
            ("ETag", true),
            ("Date", true),
            ("Warning", true),
            ("X-Foo", true),
            ("Cache-Control", true),
            ("Connection", false),
            ("keep-alive", false),
            ("Proxy-Connection", false),
            ("Transfer-Encoding", false),
            ("Trailer", false),
            ("TE", false),
            ("Upgrade", false),
            ("Proxy-Authenticate", false),
            ("Proxy-Authentication-Info", false),
            ("Content-Length", false),
            ("Age", false),
            ("Set-Cookie", false),
            ("Set-Cookie2", false),
            ("X-Named", false),
            ("X-Also-Named", false),
            ("X-HIDDEN", false),
            ("x-ignored", false),
        ];
        let mut fields = Fields::new();
        rows.iter()
            .for_each(|(name, _)| fields.append(*name, &b"1"[..]));
        fields.append("Connection", &b"close, x-named"[..]);
        fields.append("Connection", &b"X-Also-Named"[..]);
        let kept = stored_fields(&fields, &life, &settings);
        for (name, want) in rows {
            assert_eq!(kept.has(name), want, "{name}");
        }
    }

    #[test]
    fn cookies_that_a_site_stores() {
        let settings = RuleSettings {
            store_cookies: true,
            ..RuleSettings::default()
        };
        let mut fields = Fields::new();
        for name in ["Set-Cookie", "Set-Cookie2"] {
            fields.append(name, &b"a=1"[..]);
        }
        let kept = stored_fields(&fields, &Life::default(), &settings);
        assert!(kept.has("Set-Cookie") && kept.has("Set-Cookie2"));
    }
}
