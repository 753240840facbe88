//! Request fields by which proxies override scheme, host, path or user.
//!
//! Called by: `key` and `replay_request`.
//! Caveat: a client that sends one may get another page, so name and value are part of the key.
//! Out of scope: which proxies are trusted.

use saker_http::field_name::{is_alike, is_alike_any};

/// Prefixes of such fields, except for those about the client's address, which differ for each
/// client and select no page.
const FAMILIES: [&str; 8] = [
    CLOUDFRONT,
    "x-forwarded-",
    "x-original-",
    "x-rewrite-",
    "x-http-",
    "x-override-",
    "x-auth-",
    "x-ssl-",
];

/// The one family that doesn't begin with an X.
const CLOUDFRONT: &str = "cloudfront-forwarded-";

const ADDRESSES: [&str; 8] = [
    "for",
    "forwarded-for",
    "for-original",
    "ip",
    "client-ip",
    "clientip",
    "remote-addr",
    "remote-ip",
];

/// Other such fields, sorted.
const OTHERS: [&str; 37] = [
    "base-url",
    "cf-visitor",
    "fastly-ssl",
    "forwarded",
    "front-end-https",
    "http-url",
    "https",
    "proxy-host",
    "proxy-url",
    "remote-user",
    "request-uri",
    "ssl-https",
    "uri",
    "url",
    "x-arr-ssl",
    "x-backend-host",
    "x-client-proto",
    "x-client-scheme",
    "x-forwarded",
    "x-host",
    "x-https",
    "x-method-override",
    "x-path",
    "x-proto",
    "x-real-host",
    "x-remote-user",
    "x-request-uri",
    "x-request-url",
    "x-scheme",
    "x-script-name",
    "x-server-name",
    "x-ssl",
    "x-uri",
    "x-url",
    "x-url-scheme",
    "x-user",
    "x-webauth-user",
];

/// Lengths of [`OTHERS`], a bit each, by the first letter.
static LENGTHS: [u32; 26] = {
    let mut lengths = [0; 26];
    let mut at = 0;
    while at < OTHERS.len() {
        let name = OTHERS[at].as_bytes();
        lengths[(name[0] - b'a') as usize] |= 1 << name.len();
        at += 1;
    }
    lengths
};

/// True for fields by which proxies tell applications the original scheme, host, port, path, method
/// or user. Names that programs can't distinguish count as one.
pub fn is_override(name: &[u8]) -> bool {
    let Some(first) = name.first().map(u8::to_ascii_lowercase) else {
        return false;
    };
    let lengths = LENGTHS
        .get(usize::from(first.wrapping_sub(b'a')))
        .copied()
        .unwrap_or_default();
    let may_be_other = name.len() < 32 && lengths & 1 << name.len() != 0;
    let may_be_family = first == b'x' || first == b'c' && name.len() > CLOUDFRONT.len();
    may_be_other && is_alike_any(name, &OTHERS) || may_be_family && is_in_family(name)
}

fn is_in_family(name: &[u8]) -> bool {
    let rest = FAMILIES.iter().find_map(|family| {
        let (start, rest) = name.split_at_checked(family.len())?;
        is_alike(start, family.as_bytes()).then_some(rest)
    });
    rest.is_some_and(|rest| !is_alike_any(rest, &ADDRESSES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_the_lists_is_found() {
        for name in OTHERS {
            assert!(is_override(name.as_bytes()), "{name}");
            assert!(is_override(
                name.to_ascii_uppercase().replace('-', "_").as_bytes()
            ));
        }
        for family in FAMILIES {
            let name = family.to_owned() + "what";
            assert!(is_override(name.as_bytes()), "{name}");
            assert!(is_override(
                name.to_ascii_uppercase().replace('-', ".").as_bytes()
            ));
        }
    }

    #[test]
    fn fields_that_steer_pages() {
        for name in [
            "X-Forwarded-Host",
            "x_forwarded_host",
            "X-Forwarded-Uri",
            "X-Forwarded-Path",
            "X-Forwarded-Scheme",
            "X-Forwarded-User",
            "Forwarded",
            "CF-Visitor",
            "CloudFront-Forwarded-Proto",
            "X-Scheme",
            "X-Original-URI",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Host-Override",
            "X-HTTP-Method",
            "X.HTTP.Method.Override",
            "X-Method-Override",
            "Front-End-Https",
            "HTTPS",
        ] {
            assert!(is_override(name.as_bytes()), "{name}");
        }
        for name in [
            "X-Forwarded-For",
            "X_Forwarded_For",
            "X-Original-Forwarded-For",
            "X-Forwarded-Client-Ip",
            "X-Requested-With",
            "Host",
            "Cookie",
            "User-Agent",
            "Upgrade-Insecure-Requests",
            "Referer",
            "Priority",
            "Sec-Fetch-Mode",
            "X-Forwarde",
            "",
        ] {
            assert!(!is_override(name.as_bytes()), "{name}");
        }
    }
}
