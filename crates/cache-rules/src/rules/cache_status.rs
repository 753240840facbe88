//! Cache-Status (RFC 9211): reports what this cache did, for debugging.
//!
//! Called by: the page cache, last.
//! Caveat: a list to which each cache on the way appends (section 2), and a structured field, so
//! every value is checked or quoted.
//! Out of scope: parameters that would show keys to clients, unless the caller sets them.

use saker_http::Fields;

/// Why a request was forwarded to the origin (section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    Bypass,
    Method,
    UriMiss,
    VaryMiss,
    Miss,
    Request,
    Stale,
    Partial,
}

impl Forward {
    fn token(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Miss => "miss",
            Forward::Request => "request",
            Forward::Stale => "stale",
            Forward::Partial => "partial",
        }
    }
}

/// One member of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    pub hit: bool,
    /// Not together with `hit` (section 2.2).
    pub forward: Option<Forward>,
    /// Status of the origin's response, if it differs from the one sent (section 2.3).
    pub forward_status: Option<u16>,
    /// Seconds of freshness left; negative when stale (section 2.4).
    pub ttl_s: Option<i64>,
    pub stored: bool,
    pub collapsed: bool,
    pub key: Option<&'a str>,
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends this cache's member; `name` identifies it, a token or any text.
    pub fn append_to(&self, fields: &mut Fields, name: &str) {
        let value = self.value(name);
        let earlier: Vec<&[u8]> = super::targeted::lines(fields, "cache-status").collect();
        let joined = match earlier.is_empty() {
            true => value.into_bytes(),
            false => [earlier.join(&b", "[..]).as_slice(), b", ", value.as_bytes()].concat(),
        };
        fields.set("Cache-Status", joined);
    }

    pub fn value(&self, name: &str) -> String {
        let mut out = word(name);
        if self.hit {
            out.push_str("; hit");
        } else if let Some(forward) = self.forward {
            out.push_str("; fwd=");
            out.push_str(forward.token());
            self.push_forwarded(&mut out);
        }
        // Section 3.3.1 of RFC 9651: fifteen digits.
        if let Some(ttl_s) = self.ttl_s {
            out.push_str(&format!(
                "; ttl={}",
                ttl_s.clamp(-999_999_999_999_999, 999_999_999_999_999)
            ));
        }
        for (name, value) in [("key", self.key), ("detail", self.detail)] {
            if let Some(value) = value {
                out.push_str(&format!("; {name}={}", quoted(value)));
            }
        }
        out
    }

    /// Parameters that make sense only for forwarded requests (sections 2.3, 2.5 and 2.6).
    fn push_forwarded(&self, out: &mut String) {
        if let Some(status) = self.forward_status {
            out.push_str(&format!("; fwd-status={status}"));
        }
        if self.stored {
            out.push_str("; stored");
        }
        if self.collapsed {
            out.push_str("; collapsed");
        }
    }
}

/// A token where it can be one, else a string.
fn word(text: &str) -> String {
    let starts = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'*');
    match starts
        && text
            .bytes()
            .all(|byte| saker_http::chars::is_token_char(byte) || matches!(byte, b':' | b'/'))
    {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// A string holds printable ASCII (RFC 9651 section 3.3.3); other characters become question marks.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for symbol in text.chars() {
        match symbol {
            '"' | '\\' => out.extend(['\\', symbol]),
            ' '..='~' => out.push(symbol),
            _ => out.push('?'),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let none = CacheStatus::default();
        let forwarded = |forward| CacheStatus {
            forward: Some(forward),
            ..CacheStatus::default()
        };
        let rows = [
            (
                CacheStatus {
                    hit: true,
                    ttl_s: Some(376),
                    ..none.clone()
                },
                "Saker; hit; ttl=376",
            ),
            (
                CacheStatus {
                    hit: true,
                    ttl_s: Some(-412),
                    ..none.clone()
                },
                "Saker; hit; ttl=-412",
            ),
            (
                CacheStatus {
                    hit: true,
                    forward: Some(Forward::Miss),
                    stored: true,
                    ..none.clone()
                },
                "Saker; hit",
            ),
            (
                CacheStatus {
                    stored: true,
                    ..forwarded(Forward::UriMiss)
                },
                "Saker; fwd=uri-miss; stored",
            ),
            (
                CacheStatus {
                    collapsed: true,
                    ..forwarded(Forward::VaryMiss)
                },
                "Saker; fwd=vary-miss; collapsed",
            ),
            (
                CacheStatus {
                    forward_status: Some(304),
                    ..forwarded(Forward::Stale)
                },
                "Saker; fwd=stale; fwd-status=304",
            ),
            (
                CacheStatus {
                    detail: Some("set-cookie"),
                    ..forwarded(Forward::Bypass)
                },
                "Saker; fwd=bypass; detail=\"set-cookie\"",
            ),
            (
                CacheStatus {
                    key: Some("a\"b\\ü"),
                    ..forwarded(Forward::Miss)
                },
                "Saker; fwd=miss; key=\"a\\\"b\\\\?\"",
            ),
            (
                CacheStatus {
                    ttl_s: Some(i64::MAX),
                    ..none.clone()
                },
                "Saker; ttl=999999999999999",
            ),
            (forwarded(Forward::Method), "Saker; fwd=method"),
            (forwarded(Forward::Request), "Saker; fwd=request"),
            (forwarded(Forward::Partial), "Saker; fwd=partial"),
        ];
        for (status, want) in rows {
            assert_eq!(status.value("Saker"), want);
        }
        assert_eq!(none.value("my cache"), "\"my cache\"");
        assert_eq!(none.value("1"), "\"1\"");
    }

    #[test]
    fn each_cache_appends() {
        let mut fields = Fields::new();
        fields.append("cache-status", &b"origin; hit"[..]);
        fields.append("Cache-Status", &b"\"cdn\"; fwd=miss"[..]);
        CacheStatus {
            hit: true,
            ..CacheStatus::default()
        }
        .append_to(&mut fields, "Saker");
        assert_eq!(
            (fields.len(), fields.first("cache-status")),
            (1, Some(&b"origin; hit, \"cdn\"; fwd=miss, Saker; hit"[..]))
        );
    }
}
