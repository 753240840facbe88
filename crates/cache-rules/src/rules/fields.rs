//! Which fields of a response are stored (RFC 9111 section 3.1).
//!
//! Place in the walk: between a judged response and its entry, and again when a 304 brings newer
//! fields. Difficulty: an entry is replayed to everybody, so what was one visitor's or one
//! connection's must not get in. Absent on purpose: LSCache's own fields, which `lscache` takes
//! out.

use super::{life::Life, settings::RuleSettings, targeted::lines};
use saker_http::{Fields, chars::trim_ows, fields::known_name};

/// Of the connection (RFC 9110 section 7.6.1) or of a proxy's own dealings (section 3.1), made anew
/// for each answer, or somebody's own.
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
    let mut kept = Fields::new();
    for (name, value) in fields.iter() {
        if !is_never_stored(name) && !of_connection(name) && !hides(life, name) && !ignored(name) {
            kept.append(known_name(name), value.to_vec());
        }
    }
    kept
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
}
