//! Hotlink protection: checks whether the referring page may embed or link the requested file.
//!
//! Called by: the abuse rules.
//! Caveat: Referer is set by the client, so any program can forge it: this prevents other sites
//! from embedding files and isn't access control. Comparison follows nginx (`valid_referers`):
//! without scheme and port, host case-insensitive, path by prefix.

use saker_ap_expr::TextPredicate;
use saker_config::model::{ReferrerPattern, Referrers, Site, SiteName};
use std::sync::Arc;

/// The test whether a referrer is allowed, for one host of a site.
#[derive(Debug)]
pub struct AllowedReferrer {
    pub rule: Arc<Referrers>,
    pub site: Arc<Site>,
    pub host: Vec<u8>,
}

impl TextPredicate for AllowedReferrer {
    fn holds(&self, text: Option<&[u8]>) -> Option<bool> {
        Some(is_allowed(&self.rule, text, &self.site.names, &self.host))
    }

    fn identify(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"referrers\0");
        out.extend((Arc::as_ptr(&self.rule) as usize).to_ne_bytes());
        out.extend((Arc::as_ptr(&self.site) as usize).to_ne_bytes());
        out.extend_from_slice(&self.host);
    }
}

/// True if the rule applies to this path, by its extension, case-insensitively.
pub fn applies(rule: &Referrers, path: &[u8]) -> bool {
    if rule.extensions.is_empty() {
        return true;
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let extension = name
        .iter()
        .rposition(|byte| *byte == b'.')
        .and_then(|dot| name.get(dot + 1..));
    extension.is_some_and(|extension| {
        rule.extensions
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(extension))
    })
}

/// Decides on a referrer. `own` are the names of the site, `host` is the requested one.
pub fn is_allowed(
    rule: &Referrers,
    referrer: Option<&[u8]>,
    own: &[SiteName],
    host: &[u8],
) -> bool {
    let Some(referrer) = referrer.filter(|value| !value.is_empty()) else {
        return rule.without;
    };
    let Some(rest) = without_scheme(referrer) else {
        return rule.blocked;
    };
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let named = host_of(authority);
    rule.allow.iter().any(|pattern| match pattern {
        ReferrerPattern::OwnNames => named == host || own.iter().any(|name| is_named(name, &named)),
        ReferrerPattern::Host {
            name,
            path: beginning,
        } => is_named(name, &named) && path.starts_with(beginning.as_bytes()),
        ReferrerPattern::AnyDomain {
            name,
            path: beginning,
        } => {
            let below = named
                .strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.first() == Some(&b'.') && rest.len() > 1);
            below && path.starts_with(beginning.as_bytes())
        }
        // A pattern that hits its limits does not allow.
        ReferrerPattern::Regex(regex) => regex.is_match(rest).unwrap_or(false),
    })
}

fn without_scheme(referrer: &[u8]) -> Option<&[u8]> {
    let after = |scheme: &[u8]| {
        let (start, rest) = referrer.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    after(b"http://").or_else(|| after(b"https://"))
}

/// The host in lower case, without user, port, and trailing dot.
fn host_of(authority: &[u8]) -> Vec<u8> {
    let host = authority
        .rsplit(|byte| *byte == b'@')
        .next()
        .unwrap_or_default();
    let end = match host.first() {
        Some(b'[') => host
            .iter()
            .position(|byte| *byte == b']')
            .map_or(host.len(), |at| at + 1),
        _ => host
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(host.len()),
    };
    let host = host.get(..end).unwrap_or_default().to_ascii_lowercase();
    host.strip_suffix(b".").map(<[u8]>::to_vec).unwrap_or(host)
}

fn is_named(name: &SiteName, host: &[u8]) -> bool {
    match name {
        SiteName::Exact(name) => name.as_bytes() == host,
        SiteName::Wildcard(name) => host
            .strip_suffix(name.as_bytes())
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with(b".")),
        // A site for all names has no name of its own.
        SiteName::Any => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(allow: &[&str], without: bool, blocked: bool) -> Referrers {
        let allow = allow
            .iter()
            .map(|text| ReferrerPattern::read(text).unwrap())
            .collect();
        Referrers {
            allow,
            without,
            blocked,
            ..Referrers::default()
        }
    }

    #[test]
    fn who_may_refer() {
        let own = [
            SiteName::Exact("shop.example".into()),
            SiteName::Wildcard("shop.example".into()),
        ];
        let rows: &[(&[&str], &str, bool)] = &[
            (&["own"], "https://shop.example/a", true),
            (&["own"], "https://SHOP.example.:8443/a", true),
            (&["own"], "https://img.shop.example", true),
            (&["own"], "https://asked.example/", true),
            (&["own"], "https://notshop.example/", false),
            (&["own"], "https://shop.example.evil.test/", false),
            (&["own"], "https://evil.test/shop.example", false),
            (&["own"], "https://shop.example@evil.test/", false),
            (&["own"], "https://evil.test#shop.example", false),
            (&["friend.test"], "http://friend.test/", true),
            (&["friend.test"], "http://www.friend.test/", false),
            (&["*.friend.test"], "http://a.b.friend.test/", true),
            (&["*.friend.test"], "http://friend.test/", false),
            (&["*.friend.test"], "http://.friend.test/", false),
            (
                &["friend.test/gallery/"],
                "http://friend.test/gallery/1",
                true,
            ),
            (&["friend.test/gallery/"], "http://friend.test/other", false),
            (&["www.friend.*"], "http://www.friend.co.uk/", true),
            (&["www.friend.*"], "http://www.friend/", false),
            (&["www.friend.*"], "http://www.friendly.test/", false),
            (&["~\\.google\\."], "https://www.GOOGLE.com/search", true),
            (&["~\\.google\\."], "https://evil.test/", false),
            (&["[::1]"], "http://[::1]:80/", true),
        ];
        for (allow, referrer, allowed) in rows {
            let rule = rule(allow, false, false);
            assert_eq!(
                is_allowed(&rule, Some(referrer.as_bytes()), &own, b"asked.example"),
                *allowed,
                "{allow:?} {referrer}"
            );
        }
    }

    #[test]
    fn none_and_blocked() {
        for (value, without, blocked, allowed) in [
            (None, true, false, true),
            (None, false, true, false),
            (Some(&b""[..]), true, false, true),
            (Some(b"XXXXXXX"), false, true, true),
            (Some(b"XXXXXXX"), true, false, false),
            (Some(b"android-app://a"), true, false, false),
            (Some(b"https:/"), true, false, false),
        ] {
            assert_eq!(
                is_allowed(&rule(&["a.test"], without, blocked), value, &[], b"h"),
                allowed,
                "{value:?}"
            );
        }
    }

    #[test]
    fn extensions() {
        let rule = Referrers {
            extensions: vec!["jpg".into(), "mp4".into()],
            ..Referrers::default()
        };
        for (path, about) in [
            ("/a.jpg", true),
            ("/a.JPG", true),
            ("/jpg", false),
            ("/a.jpg/b", false),
            ("/a.mp4.html", false),
            ("/", false),
        ] {
            assert_eq!(applies(&rule, path.as_bytes()), about, "{path}");
        }
        assert!(applies(&Referrers::default(), b"/"));
    }
}
