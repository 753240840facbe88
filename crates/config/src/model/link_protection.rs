//! Hotlink protection, signed URLs, and downloads that require a page first.
//!
//! Called by: the access phase, and `saker sign-url`.
//! Out of scope: the keys (`directives/hotlink`, `signed_urls`, `trigger`).

use super::{PathPattern, SiteName};
use pcre2::bytes::{Regex, RegexBuilder};
use saker_http::Status;
use std::{fmt, path::Path, sync::Arc};

/// Settings of a site or route; empty by default.
#[derive(Clone, Debug, Default)]
pub struct Links {
    pub referrers: Option<Arc<Referrers>>,
    pub signed: Option<Arc<SignedUrls>>,
    pub trigger: Option<Arc<Trigger>>,
}

impl Links {
    pub fn is_idle(&self) -> bool {
        self.referrers.is_none() && self.signed.is_none() && self.trigger.is_none()
    }
}

/// Response to refused clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Status(Status),
    /// 302 to a URL or path.
    Redirect(String),
    /// The file at this path of the site.
    Instead(String),
}

/// Hotlink protection (nginx: `valid_referers`).
#[derive(Clone, Debug)]
pub struct Referrers {
    pub allow: Vec<ReferrerPattern>,
    /// Allows requests without the field (nginx: `none`).
    pub without: bool,
    /// Allows values removed by firewalls (nginx: `blocked`): without `http://` or `https://`.
    pub blocked: bool,
    /// In lowercase; empty: all.
    pub extensions: Vec<String>,
    pub refusal: Refusal,
}

impl Default for Referrers {
    fn default() -> Self {
        let refusal = Refusal::Status(Status::FORBIDDEN);
        Referrers {
            allow: vec![ReferrerPattern::OwnNames],
            without: true,
            blocked: true,
            extensions: Vec::new(),
            refusal,
        }
    }
}

#[derive(Clone, Debug)]
pub enum ReferrerPattern {
    /// The names of the site itself.
    OwnNames,
    /// With paths that start so.
    Host { name: SiteName, path: String },
    /// `www.example.*`
    AnyDomain { name: String, path: String },
    /// Matches what follows the scheme, case-insensitively.
    Regex(Regex),
}

impl ReferrerPattern {
    /// Parses `own` (`server_names`), `example.org/path`, `*.example.org`, `www.example.*`,
    /// `~pattern`.
    ///
    /// # Errors
    ///
    /// The error says what is wrong.
    pub fn read(text: &str) -> Result<ReferrerPattern, String> {
        if let Some(pattern) = text.strip_prefix('~') {
            // Limited like every pattern here: none may block a worker, whatever it is compared
            // with.
            let limited = format!("(*LIMIT_MATCH=100000)(*LIMIT_DEPTH=10000){pattern}");
            let compiled = RegexBuilder::new()
                .caseless(true)
                .dotall(true)
                .build(&limited);
            return compiled
                .map(ReferrerPattern::Regex)
                .map_err(|error| format!("invalid pattern: {error}"));
        }
        if matches!(text, "own" | "server_names") {
            return Ok(ReferrerPattern::OwnNames);
        }
        if text.contains("://") {
            return Err("hosts are compared without their scheme".into());
        }
        let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let (host, path) = (host.to_ascii_lowercase(), path.to_owned());
        let is_host = |host: &str| {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.[]:".contains(&byte))
        };
        if host.contains(':') && !host.starts_with('[') {
            return Err("hosts are compared without their port".into());
        }
        match (host.strip_prefix("*."), host.strip_suffix(".*")) {
            (Some(name), None) if is_host(name) => Ok(ReferrerPattern::Host {
                name: SiteName::Wildcard(name.into()),
                path,
            }),
            (None, Some(name)) if is_host(name) => Ok(ReferrerPattern::AnyDomain {
                name: name.into(),
                path,
            }),
            (None, None) if is_host(&host) => Ok(ReferrerPattern::Host {
                name: SiteName::Exact(host),
                path,
            }),
            _ => Err(
                "`*` stands for whole labels at the start (\"*.example.org\") or at the end \
                      (\"www.example.*\")"
                    .into(),
            ),
        }
    }
}

/// Signed URLs: only a program that knows the secret can make them.
#[derive(Clone)]
pub struct SignedUrls {
    pub form: SignForm,
    /// The first one signs, all are accepted. Never empty.
    pub secrets: Vec<Vec<u8>>,
    /// Path before the signed part; ends with a slash.
    pub prefix: String,
    /// Directory of the files after the token; `None`: below the prefix in the site's root.
    pub root: Option<Arc<Path>>,
    /// Status of expired links: 410 or 403.
    pub expired: Status,
    /// Paths outside the prefix need no signature.
    pub is_free_elsewhere: bool,
}

/// Omits the secrets.
impl fmt::Debug for SignedUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SignedUrls {
            form,
            secrets,
            prefix,
            root,
            expired,
            is_free_elsewhere,
        } = self;
        write!(
            f,
            "SignedUrls {{ {form:?}, {} secrets, {prefix}, {root:?}, {expired:?}, {is_free_elsewhere} }}",
            secrets.len()
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignForm {
    /// nginx's `secure_link_secret`: `/prefix/MD5/rest`, MD5 in hexadecimal of the rest and the
    /// secret.
    PathMd5,
    /// nginx's `secure_link` with `secure_link_md5`.
    Expression {
        parts: Vec<SignPart>,
        /// Names of arguments.
        hash_argument: String,
        expires_argument: Option<String>,
    },
    /// lighttpd's mod_secdownload and Apache's mod_auth_token: `/prefix/TOKEN/TIME/rest`.
    Token(TokenForm),
    /// Saker's own: HMAC-SHA256 over path and arguments.
    Whole {
        hash_argument: String,
        expires_argument: String,
        address: bool,
        host: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenForm {
    pub algorithm: SignAlgorithm,
    /// A link is valid this long after its timestamp, and as long before it.
    pub lifetime_s: u64,
    /// Number of path segments that are signed; 0: all.
    pub path_segments: u32,
    pub query: bool,
    pub address: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignAlgorithm {
    Md5,
    HmacSha1,
    HmacSha256,
}

/// A part of the text to hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignPart {
    Text(String),
    Secret,
    Expires,
    Path,
    Address,
    Host,
    /// The first argument of this name, as sent.
    Argument(String),
}

impl SignPart {
    /// Parses nginx's notation, with `$secret` for the secret. The error is the offset of a dollar
    /// sign that starts no variable.
    pub fn read(text: &str) -> Result<Vec<SignPart>, usize> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let offset = text.len() - after.len() - 1;
            if !before.is_empty() {
                parts.push(SignPart::Text(before.into()));
            }
            let (name, behind) = match after.strip_prefix('{') {
                Some(inner) => inner.split_once('}').ok_or(offset)?,
                None => after.split_at(
                    after
                        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .unwrap_or(after.len()),
                ),
            };
            parts.push(SignPart::named(name).ok_or(offset)?);
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(SignPart::Text(rest.into()));
        }
        Ok(parts)
    }

    fn named(name: &str) -> Option<SignPart> {
        Some(match name {
            "secret" => SignPart::Secret,
            "expires" | "secure_link_expires" => SignPart::Expires,
            "uri" => SignPart::Path,
            "remote_addr" => SignPart::Address,
            "host" => SignPart::Host,
            other => SignPart::Argument(
                other
                    .strip_prefix("arg_")
                    .filter(|name| !name.is_empty())?
                    .into(),
            ),
        })
    }
}

/// Files that require another page first (lighttpd's mod_trigger_b4_dl).
#[derive(Clone, Debug)]
pub struct Trigger {
    pub pages: Vec<PathPattern>,
    pub files: Vec<PathPattern>,
    pub within_s: u64,
    pub by_cookie: bool,
    pub refusal: Refusal,
    /// Identifies this rule among others.
    pub id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        use SignPart::{Address, Argument, Expires, Host, Path, Secret, Text};
        let read = |text: &str| SignPart::read(text);
        let all = vec![Expires, Path, Address, Text(" ".into()), Secret];
        assert_eq!(
            read("$secure_link_expires$uri$remote_addr $secret"),
            Ok(all)
        );
        let all = vec![
            Text("a".into()),
            Secret,
            Text("b".into()),
            Argument("user".into()),
            Host,
        ];
        assert_eq!(read("a${secret}b$arg_user$host"), Ok(all));
        for (bad, offset) in [("$uri$x", 4), ("a$", 1), ("${uri", 0), ("$arg_", 0)] {
            assert_eq!(read(bad), Err(offset), "{bad}");
        }
    }

    #[test]
    fn referrer_patterns() {
        for good in [
            "own",
            "server_names",
            "example.org",
            "*.example.org/a",
            "www.example.*",
            "~a+",
            "[::1]",
        ] {
            assert!(ReferrerPattern::read(good).is_ok(), "{good}");
        }
        for bad in [
            "", "*", "*.", "a*", "*.a.*", "http://a", "a:80", "~(", "a b",
        ] {
            assert!(ReferrerPattern::read(bad).is_err(), "{bad}");
        }
    }
}
