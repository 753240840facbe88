//! Names of cookies: patterns, the default session cookies, and cookies that identify no client.
//!
//! Called by: the rules of HTTP (is a request personal?) and LSCache's client identity.
//! Caveat: applications disagree about names. PHP reads `a.b`, `a b` and `a[x]` as `a_b`, `a_b` and
//! `a`, so a name is compared after percent-decoding, without what follows a bracket, ignoring
//! case, and with everything but letters and digits equal.
//! Out of scope: values.

use foldhash::fast::RandomState;
use saker_http::field_name::is_alike;
use std::{cell::RefCell, collections::HashMap};

/// Session cookies of well-known applications and frameworks, and common names. `*` matches any
/// text, at either end.
pub const SESSIONS: &[&str] = &[
    "__Host-*",
    "__Secure-*",
    "PHPSESSID",
    "JSESSIONID*",
    "ASP.NET_SessionId",
    "ASPSESSIONID*",
    ".ASPX*",
    ".AspNet*",
    "CAKEPHP",
    "CGISESSID",
    "frontend",
    "adminhtml",
    "admin",
    "xf_user",
    "lsc_private",
    "wordpress_logged_in_*",
    "wordpress_sec_*",
    "wp-postpass_*",
    "comment_author_*",
    "woocommerce_items_in_cart",
    "woocommerce_cart_hash",
    "edd_items_in_cart",
    "PrestaShop-*",
    "joomla_user_state",
    "phpbb3_*",
    "fe_typo_user",
    "be_typo_user",
    "SID",
    "*_sid",
    "user",
    "user_id",
    "userid",
    "username",
    "uid",
    "sso",
    "*_sso",
    "remember*",
    "KEYCLOAK_*",
    "*sess*",
    "*auth*",
    "*token*",
    "*jwt*",
    "*login*",
    "*logged_in*",
    "*remember_me*",
    "*rememberme*",
    "*csrf*",
    "*xsrf*",
    "*saml*",
];

/// Cookies for statistics, advertising and consent, and others that all clients of an application
/// share: exact names, and unambiguous prefixes. `wordpress_sec_*` is sent below some paths only,
/// and always with `wordpress_logged_in_*`.
const NO_IDENTITY: &[&str] = &[
    "__utm*",
    "__ga",
    "__gads",
    "__gpi",
    "__eoi",
    "__cf_bm",
    "__cfduid",
    "__cflb",
    "__cfruid",
    "__cfwaitingroom",
    "_cfuvid",
    "cf_clearance",
    "__hstc",
    "__hssc",
    "__hssrc",
    "__qca",
    "__atuvc",
    "__atuvs",
    "__stripe_mid",
    "__stripe_sid",
    "_ga",
    "_ga_*",
    "_gid",
    "_gat",
    "_gat_*",
    "_gac_*",
    "_gcl_*",
    "_fbp",
    "_fbc",
    "_hj*",
    "_pk_id*",
    "_pk_ses*",
    "_pk_ref*",
    "_mtm_*",
    "_clck",
    "_clsk",
    "_uetsid",
    "_uetvid",
    "_ttp",
    "_pin_unauth",
    "ai_session",
    "ai_user",
    "rl_session",
    "tk_ai",
    "OptanonConsent",
    "OptanonAlertBoxClosed",
    "CookieConsent",
    "cookieyes-consent",
    "cmplz_*",
    "cookielawinfo-checkbox-*",
    "woocommerce_recently_viewed",
    "wp-settings-*",
    "wordpress_sec_*",
    "wordpress_test_cookie",
    "has_js",
    "_lscache_vary*",
    "ls_smartpush",
    "bb_forum_view",
];

/// Joomla names its session by an MD5 digest.
const JOOMLA_BYTES: usize = 32;

/// Names that a thread remembers the kind of; beyond that it forgets all, because clients invent
/// names.
const KINDS_MAX: usize = 512;
/// Longer names are looked at each time.
const KIND_NAME_BYTES_MAX: usize = 64;

/// The result of the lists of this module for a name.
#[derive(Clone, Copy)]
struct Kind {
    is_usual_session: bool,
    is_no_identity: bool,
}

thread_local! {
    /// A hundred patterns are compared with each cookie of each request; sites use few names.
    static KINDS: RefCell<HashMap<Box<[u8]>, Kind, RandomState>> = RefCell::default();
}

impl Kind {
    fn of(name: &[u8]) -> Kind {
        if name.len() > KIND_NAME_BYTES_MAX {
            return Kind::by_patterns(name);
        }
        KINDS.with_borrow_mut(|kinds| {
            if let Some(known) = kinds.get(name) {
                return *known;
            }
            if kinds.len() >= KINDS_MAX {
                kinds.clear();
            }
            let kind = Kind::by_patterns(name);
            kinds.insert(name.into(), kind);
            kind
        })
    }

    fn by_patterns(name: &[u8]) -> Kind {
        let is_no_identity = NO_IDENTITY.iter().any(|pattern| fits(name, pattern));
        let is_session = SESSIONS
            .iter()
            .any(|pattern| !(is_no_identity && pattern.starts_with('*')) && fits(name, pattern));
        let is_digest = name.len() == JOOMLA_BYTES && name.iter().all(u8::is_ascii_hexdigit);
        Kind {
            is_usual_session: is_session || is_digest,
            is_no_identity,
        }
    }
}

/// True if the name is that of a session cookie, by the given patterns. Patterns that begin with
/// `*` don't match cookies for statistics.
pub fn is_session(name: &[u8], patterns: &[impl AsRef<str>]) -> bool {
    patterns.iter().any(|pattern| {
        fits(name, pattern.as_ref()) && !(pattern.as_ref().starts_with('*') && is_no_identity(name))
    })
}

/// The same by [`SESSIONS`].
pub fn is_usual_session(name: &[u8]) -> bool {
    Kind::of(name).is_usual_session
}

/// True if the cookie does not identify a client to the application.
pub fn is_no_identity(name: &[u8]) -> bool {
    Kind::of(name).is_no_identity
}

/// True if a name, as any application may read it, matches a pattern: text with `*` at its
/// beginning, its end, or both.
pub fn fits(name: &[u8], pattern: &str) -> bool {
    if name.contains(&b'%') {
        return fits_plain(&decoded(name), pattern) || fits_plain(name, pattern);
    }
    fits_plain(name, pattern)
}

/// True if an application may read both names as one variable.
pub fn is_same(name: &[u8], known: &[u8]) -> bool {
    let same = |name: &[u8]| is_alike(base(name), base(known));
    same(name) || (name.contains(&b'%') && same(&decoded(name)))
}

fn fits_plain(name: &[u8], pattern: &str) -> bool {
    let (whole, name) = (name, base(name));
    let (start, rest) = pattern
        .strip_prefix('*')
        .map_or((false, pattern), |rest| (true, rest));
    let (end, text) = rest
        .strip_suffix('*')
        .map_or((false, rest), |text| (true, text));
    let text = text.as_bytes();
    match (start, end) {
        (false, false) => is_alike(name, text),
        (false, true) => whole
            .get(..text.len())
            .is_some_and(|head| is_alike(head, text)),
        (true, false) => name
            .len()
            .checked_sub(text.len())
            .is_some_and(|at| is_alike(&name[at..], text)),
        (true, true) => {
            text.is_empty()
                || whole
                    .windows(text.len())
                    .any(|window| is_alike(window, text))
        }
    }
}

/// As PHP names an array's variable: without leading white space, and without brackets and what
/// follows.
fn base(name: &[u8]) -> &[u8] {
    let name = name.trim_ascii();
    let end = name
        .iter()
        .skip(1)
        .position(|byte| *byte == b'[')
        .map_or(name.len(), |at| at + 1);
    &name[..end]
}

/// Some applications percent-decode names.
fn decoded(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLED_SESSIONS: &[&str] = &[
        "PHPSESSID",
        "phpsessid",
        "PHPSESSID[a]",
        "%50HPSESSID",
        "sid",
        "connect.sid",
        "koa.sess",
        "koa.sess.sig",
        "__Host-session",
        "__Host-id",
        "__Secure-next-auth.session-token",
        "next-auth.session-token",
        "next-auth.session-token.0",
        "next_auth_session_token",
        "authjs.session-token",
        "__Secure-authjs.session-token",
        "jwt",
        "auth_token",
        "access_token",
        "refresh-token",
        "id_token",
        "remember_web_59ba36addc2b2f9401580f014c7f58ea4e30989d",
        "remember_me",
        "remember-me",
        "laravel_session",
        "laravel.session",
        "myshop_session",
        "_myapp_session",
        "_session_id",
        "session",
        "session_id",
        "sessionid",
        "JSESSIONID",
        "JSESSIONIDSSO",
        "ASP.NET_SessionId",
        "ASPSESSIONIDACBCQRST",
        ".AspNetCore.Cookies",
        ".AspNetCore.Identity.Application",
        ".ASPXAUTH",
        "wordpress_logged_in_abc",
        "wp_woocommerce_session_abc",
        "XSRF-TOKEN",
        "csrftoken",
        "_oauth2_proxy",
        "authelia_session",
        "user_session",
        "KEYCLOAK_IDENTITY",
        "SSESS0123",
        "MoodleSession",
        "OCSESSID",
        "mw_session",
        "5a105e8b9d40e1329780d62ea2265d8a",
    ];

    #[test]
    fn sessions_by_name() {
        for name in CALLED_SESSIONS {
            assert!(is_usual_session(name.as_bytes()), "{name}");
        }
        for name in [
            "a",
            "theme",
            "currency",
            "lang",
            "sidebar",
            "_ga",
            "_ga_AB12",
            "__utma",
            "_hjSessionUser_1",
            "ai_session",
            "_pk_ses.1.2",
            "_lscache_vary",
            "has_js",
            "cookieyes-consent",
            "",
        ] {
            assert!(!is_usual_session(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn no_session_is_taken_for_statistics() {
        for name in [
            "__Host-session",
            "__Secure-id",
            "__Host-",
            "__session",
            "_gateway_session",
            "_game",
            "__cfx",
            "PHPSESSID",
            "__utx",
        ] {
            assert!(!is_no_identity(name.as_bytes()), "{name}");
        }
    }

    /// The memory agrees with the patterns, however many names come in between.
    #[test]
    fn kinds_are_remembered_and_forgotten() {
        for round in 0..3 {
            for name in CALLED_SESSIONS {
                assert!(is_usual_session(name.as_bytes()), "{name}");
                assert!(is_session(name.as_bytes(), SESSIONS) || name.len() == JOOMLA_BYTES);
            }
            (0..KINDS_MAX).for_each(|other| {
                let name = format!("c{round}.{other}");
                assert!(!is_usual_session(name.as_bytes()) && !is_no_identity(name.as_bytes()));
            });
            assert!(KINDS.with_borrow(HashMap::len) <= KINDS_MAX);
            let long = "x".repeat(KIND_NAME_BYTES_MAX) + "_session";
            assert!(is_usual_session(long.as_bytes()));
            assert!(!KINDS.with_borrow(|kinds| kinds.contains_key(long.as_bytes())));
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*c", "abc", true),
            ("*c", "abcd", false),
            ("*b*", "abc", true),
            ("*b*", "ac", false),
            ("*", "", true),
            ("**", "x", true),
            ("a.b", "A_B", true),
            ("a.b", "a_b[c]", true),
            ("*abc", "bc", false),
        ] {
            assert_eq!(fits(name.as_bytes(), pattern), expected, "{pattern} {name}");
        }
        for (name, known, same) in [
            ("a.b", "a_b", true),
            (" a", "a", true),
            ("a[1]", "a", true),
            ("%61", "a", true),
            ("[a", "a", false),
            ("ab", "a", false),
        ] {
            assert_eq!(
                is_same(name.as_bytes(), known.as_bytes()),
                same,
                "{name} {known}"
            );
        }
    }
}
