//! The Digest scheme (RFC 7616 with MD5, the one algorithm of Apache and its files).
//!
//! Called by: `authenticate`.
//! Caveat: nonces are not stored. Each carries its time and a hash of it with this process's
//! secret; it is valid for AuthDigestNonceLifetime, and so is a request that was overheard. With a
//! lifetime of 0, it is valid for one request (`one_time`).
//! Out of scope: counting of `nc`, which Apache does not do either.

use crate::{
    context::{AuthContext, LookupError},
    credentials::{Authenticated, quoted},
    one_time,
    passwords::{is_same, secret},
    providers::realm_hash,
    settings::{DigestSettings, Provider},
};
use saker_ap_expr::{base64_encode, md5_hex, unescape};
use saker_http::{Status, host::parse_authority};
use saker_telemetry::httpd_message::{self, HttpdMessage};
use sha1::{Digest as _, Sha1};

const NONCE_LIFETIME_S: i64 = 300;
/// A nonce is replaced by the next one this long before it expires.
const NEXT_NONCE_S: i64 = 30;
const NONCE_BYTES: usize = 12 + 40;

/// The credentials that a client sends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Proof {
    username: String,
    realm: String,
    nonce: String,
    uri: String,
    response: String,
    algorithm: Option<String>,
    cnonce: String,
    qop: Option<String>,
    count: String,
    /// The one of the challenge, which its nonce is bound to.
    opaque: Option<String>,
}

/// The value of WWW-Authenticate.
pub fn challenge(context: &mut AuthContext<'_>) -> String {
    let opaque = new_opaque(context);
    challenge_with(context, opaque.as_deref(), false)
}

/// As in Apache, challenges for one request have an `opaque`: any text will do, since the nonce is
/// bound to it.
fn new_opaque(context: &AuthContext<'_>) -> Option<String> {
    let settings = context.settings.authentication.digest.as_deref();
    let made = one_time::made(context.request.now_s());
    let text = || nonce("", None, made).get(NONCE_BYTES - 8..).map(Into::into);
    settings.filter(|own| is_one_time(own)).and_then(|_| text())
}

fn is_one_time(settings: &DigestSettings) -> bool {
    settings.nonce_lifetime_s == Some(0)
}

/// The time of a new nonce.
fn time_of_nonce(settings: &DigestSettings, now_s: i64) -> i64 {
    match is_one_time(settings) {
        true => one_time::made(now_s),
        false => now_s,
    }
}

/// `stale`: the client need not ask for credentials again.
fn challenge_with(context: &mut AuthContext<'_>, opaque: Option<&str>, stale: bool) -> String {
    let settings = context
        .settings
        .authentication
        .digest
        .clone()
        .unwrap_or_default();
    let realm = context.realm();
    let made = time_of_nonce(&settings, context.request.now_s());
    let nonce = nonce(&realm, opaque, made);
    let opaque = opaque.map_or(String::new(), |opaque| format!(", opaque=\"{opaque}\""));
    let domain = match settings.domain.is_empty() {
        true => String::new(),
        false => format!(", domain=\"{}\"", quoted(&settings.domain.join(" "))),
    };
    let stale = if stale { ", stale=true" } else { "" };
    format!(
        "Digest realm=\"{}\", nonce=\"{nonce}\", algorithm=MD5{opaque}{domain}{stale}, qop=\"auth\"",
        quoted(&realm)
    )
}

/// Variable of requests whose clients leave the query out of `uri`.
const QUERY_STRING_HACK: &[u8] = b"AuthDigestEnableQueryStringHack";

/// Challenges a client again. One that has named an `opaque` gets one: its own, or a new one where no
/// challenge had that, and then has nothing to do with the password (as in Apache).
fn challenged(context: &mut AuthContext<'_>, stale: bool, proof: &Proof) -> Authenticated {
    let (realm, now_s) = (context.realm(), context.request.now_s());
    let is_known = age_s(&proof.nonce, &realm, proof.opaque.as_deref(), now_s).is_some();
    let (fresh, new) = (nonce(&realm, None, now_s), new_opaque(context));
    let opaque = match &proof.opaque {
        Some(own) if is_known => Some(own.as_str()),
        // Any text will do, since the nonce is bound to it.
        Some(_) => fresh.get(NONCE_BYTES - 8..),
        None => new.as_deref(),
    };
    let is_foreign = proof.opaque.is_some() && !is_known;
    let challenge = challenge_with(context, opaque, stale || is_foreign);
    Authenticated::Refused(Status::UNAUTHORIZED, Some(challenge))
}

/// Authenticates by the proof in the Authorization field.
pub fn authenticate(context: &mut AuthContext<'_>) -> Authenticated {
    let settings = context.settings;
    let Some(realm) = &settings.authentication.name else {
        context.log_httpd(
            &httpd_message::DIGEST_WITHOUT_NAME,
            format_args!("need AuthName: {}", context.path()),
        );
        return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
    };
    let realm = context.text(realm);
    let sent = context.request.field("authorization");
    let Some(proof) = sent.and_then(Proof::parse) else {
        log_unusable(context, sent);
        return Authenticated::Refused(Status::UNAUTHORIZED, Some(challenge(context)));
    };
    context.request.set_user(&proof.username);
    let uri = proof.uri.as_bytes();
    if !is_of_server(uri, context.request.server())
        || !is_same_target(uri, signed_target(context, &proof))
    {
        let target = String::from_utf8_lossy(context.request.target());
        let text = format_args!(
            "uri mismatch - <{}> does not match request-uri <{target}>",
            proof.uri
        );
        context.log_httpd(&httpd_message::DIGEST_URI_MISMATCH, text);
        return Authenticated::Refused(Status::BAD_REQUEST, None);
    }
    if let Some((message, text)) = proof.mismatch(&realm) {
        context.log_httpd(message, format_args!("{text}: {}", context.path()));
        return challenged(context, false, &proof);
    }
    let own = settings.authentication.digest.clone().unwrap_or_default();
    verify(context, &own, &realm, &proof)
}

/// The target that the proof has to name. Where the variable says so, a client may leave the query
/// out, as old versions of Internet Explorer do (Apache manual, mod_auth_digest).
fn signed_target<'c>(context: &'c AuthContext<'_>, proof: &Proof) -> &'c [u8] {
    let target = context.request.target();
    let is_without = !proof.uri.contains('?') && context.request.has_variable(QUERY_STRING_HACK);
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) if is_without => target.get(..at).unwrap_or(target),
        _ => target,
    }
}

/// Logs why a field is not accepted; a missing field is not logged.
fn log_unusable(context: &AuthContext<'_>, sent: Option<&[u8]>) {
    let Some(sent) = sent else { return };
    let scheme = String::from_utf8_lossy(
        sent.split(u8::is_ascii_whitespace)
            .next()
            .unwrap_or_default(),
    );
    if scheme.eq_ignore_ascii_case("digest") {
        let needed = "user, realm, nonce, uri, digest, cnonce, or nonce_count";
        let text = format_args!(
            "missing {needed} in authorization header: {}",
            context.path()
        );
        context.log_httpd(&httpd_message::DIGEST_FIELDS_MISSING, text);
    } else {
        let text = format_args!(
            "client used wrong authentication scheme `{scheme}': {}",
            context.path()
        );
        context.log_httpd(&httpd_message::DIGEST_OTHER_SCHEME, text);
    }
}

/// Verifies a proof for this realm, and its nonce.
fn verify(
    context: &mut AuthContext<'_>,
    settings: &DigestSettings,
    realm: &str,
    proof: &Proof,
) -> Authenticated {
    let hash = match hash_of(context, settings, realm, &proof.username) {
        Err(LookupError::Wait(pause)) => return Authenticated::Wait(pause),
        Err(LookupError::Busy) => {
            return Authenticated::Refused(Status::SERVICE_UNAVAILABLE, None);
        }
        Err(LookupError::Failed) => {
            return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
        }
        Ok(None) => {
            let text = format_args!(
                "user `{}' in realm `{realm}' not found: {}",
                proof.username,
                context.path()
            );
            context.log_httpd(&httpd_message::DIGEST_USER_NOT_FOUND, text);
            return challenged(context, false, proof);
        }
        Ok(Some(hash)) => hash,
    };
    let method = String::from_utf8_lossy(context.request.method()).into_owned();
    if !is_same(&proof.expected(&hash, &method), proof.response.as_bytes()) {
        let text = format_args!(
            "user {}: password mismatch: {}",
            proof.username,
            context.path()
        );
        context.log_httpd(&httpd_message::DIGEST_PASSWORD_MISMATCH, text);
        return challenged(context, false, proof);
    }
    let (now_s, lifetime_s) = (
        context.request.now_s(),
        settings.nonce_lifetime_s.unwrap_or(NONCE_LIFETIME_S),
    );
    let age_s = proof.nonce_age_s(realm, now_s);
    let is_valid = |age_s: &i64| match is_one_time(settings) {
        true => {
            let made = made(&proof.nonce).unwrap_or_default();
            one_time::take(made, now_s, &context.request.exchange().log.id)
        }
        false => lifetime_s < 0 || *age_s <= lifetime_s,
    };
    let Some(age_s) = age_s.filter(is_valid) else {
        let (message, text) = proof.nonce_error(realm, now_s, lifetime_s);
        context.log_httpd(message, format_args!("{text}"));
        // A nonce of another length is not from this server, so it has not expired.
        return challenged(context, proof.nonce.len() == NONCE_BYTES, proof);
    };
    let is_last = lifetime_s > 0 && age_s > lifetime_s - NEXT_NONCE_S;
    let next = (is_last || is_one_time(settings)).then(|| {
        let made = time_of_nonce(settings, now_s);
        nonce(realm, proof.opaque.as_deref(), made)
    });
    let info = proof.confirmation(&hash, next.as_deref());
    context.request.set_authentication_info(info);
    Authenticated::Yes
}

fn hash_of(
    context: &mut AuthContext<'_>,
    settings: &DigestSettings,
    realm: &str,
    user: &str,
) -> Result<Option<Vec<u8>>, LookupError> {
    if settings.providers.is_empty() {
        return realm_hash(context, &Provider::File, user, realm);
    }
    for provider in &settings.providers {
        if let Some(hash) = realm_hash(context, provider, user, realm)? {
            return Ok(Some(hash));
        }
    }
    Ok(None)
}

impl Proof {
    /// Parses the value of an Authorization field; `None` if something is missing.
    fn parse(value: &[u8]) -> Option<Proof> {
        let text = String::from_utf8_lossy(value);
        let (scheme, mut rest) = text.split_once(char::is_whitespace)?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let (mut proof, mut seen) = (Proof::default(), Vec::new());
        while let Some((name, value, behind)) = parameter(rest) {
            rest = behind;
            proof.put(&name, value);
            seen.push(name);
        }
        let needed = [
            "username", "realm", "nonce", "uri", "response", "cnonce", "nc",
        ];
        needed
            .iter()
            .all(|name| seen.iter().any(|known| known == name))
            .then_some(proof)
    }

    fn put(&mut self, name: &str, value: String) {
        match name {
            "username" => self.username = value,
            "realm" => self.realm = value,
            "nonce" => self.nonce = value,
            "uri" => self.uri = value,
            "response" => self.response = value,
            "algorithm" => self.algorithm = Some(value),
            "cnonce" => self.cnonce = value,
            "qop" => self.qop = Some(value),
            "nc" => self.count = value,
            "opaque" => self.opaque = Some(value),
            _ => {}
        }
    }

    /// Reason why it does not answer the challenge.
    fn mismatch(&self, realm: &str) -> Option<(&'static HttpdMessage, String)> {
        if self.realm != realm {
            return Some((
                &httpd_message::DIGEST_REALM_MISMATCH,
                format!(
                    "realm mismatch - got `{}' but expected `{realm}'",
                    self.realm
                ),
            ));
        }
        if let Some(name) = self
            .algorithm
            .as_ref()
            .filter(|name| !name.eq_ignore_ascii_case("MD5"))
        {
            return Some((
                &httpd_message::DIGEST_ALGORITHM,
                format!("unknown algorithm `{name}' received"),
            ));
        }
        let qop = self.qop.as_deref().unwrap_or_default();
        (!qop.eq_ignore_ascii_case("auth")).then(|| {
            (
                &httpd_message::DIGEST_QOP,
                format!("invalid qop `{qop}' received"),
            )
        })
    }

    /// Age of its nonce; `None`: it is not from a challenge of this server.
    fn nonce_age_s(&self, realm: &str, now_s: i64) -> Option<i64> {
        age_s(&self.nonce, realm, self.opaque.as_deref(), now_s)
    }

    /// Reason why its nonce is invalid or expired.
    fn nonce_error(
        &self,
        realm: &str,
        now: i64,
        lifetime_s: i64,
    ) -> (&'static HttpdMessage, String) {
        let nonce = &self.nonce;
        match self.nonce_age_s(realm, now) {
            _ if nonce.len() != NONCE_BYTES => (
                &httpd_message::DIGEST_NONCE_LENGTH,
                format!("invalid nonce {nonce} received - length is not {NONCE_BYTES}"),
            ),
            None => (
                &httpd_message::DIGEST_NONCE_HASH,
                format!("invalid nonce {nonce} received - hash is not this server's"),
            ),
            Some(age_s) => {
                let lifetime = format!("{age_s} seconds old - max lifetime {lifetime_s}");
                (
                    &httpd_message::DIGEST_NONCE_EXPIRED,
                    format!(
                        "user {}: nonce expired ({lifetime}) - sending new nonce",
                        self.username
                    ),
                )
            }
        }
    }

    /// RFC 7616 section 3.4.1.
    fn expected(&self, hash: &[u8], method: &str) -> Vec<u8> {
        let second = md5_hex(format!("{method}:{}", self.uri).as_bytes());
        let qop = self.qop.as_deref().unwrap_or_default();
        let middle = format!(":{}:{}:{}:{qop}:", self.nonce, self.count, self.cnonce);
        md5_hex(&[hash, middle.as_bytes(), &second].concat())
    }

    /// The value of Authentication-Info (RFC 7616 section 3.5).
    fn confirmation(&self, hash: &[u8], next: Option<&str>) -> String {
        let answer = String::from_utf8_lossy(&self.expected(hash, "")).into_owned();
        let next = next
            .map(|nonce| format!(", nextnonce=\"{nonce}\""))
            .unwrap_or_default();
        let qop = self.qop.as_deref().unwrap_or_default();
        format!(
            "rspauth=\"{answer}\"{next}, cnonce=\"{}\", nc={}, qop={}",
            quoted(&self.cnonce),
            quoted(&self.count),
            quoted(qop)
        )
    }
}

/// The next name and value, and the rest of the text.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let (name, rest) = text.split_once('=')?;
    let rest = rest.trim_start();
    let name = name.trim().to_ascii_lowercase();
    let Some(inside) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
        return Some((name, rest.get(..end)?.to_owned(), rest.get(end..)?));
    };
    let (mut value, mut letters) = (String::new(), inside.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((name, value, inside.get(at + 1..)?)),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    Some((name, value, ""))
}

/// True for a path, and for a URL of this server: a proof for another server's page is none for this
/// one's (RFC 7616 section 3.4.6).
fn is_of_server(uri: &[u8], (name, port): (Vec<u8>, u16)) -> bool {
    let scheme_end = uri.windows(3).position(|part| part == b"://");
    let Some(at) = scheme_end.filter(|_| !uri.starts_with(b"/")) else {
        return true;
    };
    let usual = match uri[..at].eq_ignore_ascii_case(b"https") {
        true => 443,
        false => 80,
    };
    let rest = &uri[at + 3..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    parse_authority(&rest[..end.unwrap_or(rest.len())]).is_some_and(|own| {
        own.host.eq_ignore_ascii_case(&name) && own.port.unwrap_or(usual) == port
    })
}

/// Compares two spellings of a target.
fn is_same_target(one: &[u8], other: &[u8]) -> bool {
    one == other || target_parts(one) == target_parts(other)
}

fn target_parts(target: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let authority = target
        .windows(3)
        .position(|part| part == b"://")
        .and_then(|at| target.get(at + 3..));
    let path = match authority {
        Some(rest) if !target.starts_with(b"/") => rest.get(
            rest.iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(rest.len())..,
        ),
        _ => Some(target),
    };
    let mut parts = path.unwrap_or_default().splitn(2, |byte| *byte == b'?');
    let decoded = |text: &[u8]| unescape(text, false).0;
    (
        parts.next().map(decoded).unwrap_or_default(),
        parts.next().map(<[u8]>::to_vec),
    )
}

/// `made`: its time, and its number if it is for one request.
fn nonce(realm: &str, opaque: Option<&str>, made: i64) -> String {
    let time = base64_encode(&made.to_be_bytes());
    let mut hash = Sha1::new_with_prefix(secret());
    hash.update(&time);
    hash.update(realm);
    if let Some(opaque) = opaque {
        hash.update([0]);
        hash.update(opaque);
    }
    hash.update(secret());
    let digest = hash.finalize();
    let mut text = String::from_utf8_lossy(&time).into_owned();
    digest
        .iter()
        .for_each(|byte| text.push_str(&format!("{byte:02x}")));
    text
}

/// The age of a nonce. `None`: it is not from this process, or from the future.
fn age_s(text: &str, realm: &str, opaque: Option<&str>, now_s: i64) -> Option<i64> {
    let made = made(text)?;
    let made_s = one_time::time(made);
    let is_ours = is_same(nonce(realm, opaque, made).as_bytes(), text.as_bytes());
    (is_ours && made_s <= now_s).then_some(now_s.saturating_sub(made_s))
}

/// The time of a nonce, with its number.
fn made(text: &str) -> Option<i64> {
    let time = text.get(..12).filter(|_| text.len() == NONCE_BYTES)?;
    let bytes = saker_ap_expr::base64_decode(time.as_bytes());
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_2617() {
        let value = b"Digest username=\"Mufasa\", realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", \
            uri=\"/dir/index.html\", qop=auth, nc=00000001, cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\", opaque=\"5c\"";
        let proof = Proof::parse(value).unwrap();
        let hash = md5_hex(b"Mufasa:testrealm@host.com:Circle Of Life");
        assert_eq!(proof.expected(&hash, "GET"), proof.response.as_bytes());
        assert_ne!(proof.expected(&hash, "HEAD"), proof.response.as_bytes());
        let info = proof.confirmation(&hash, Some("n"));
        assert!(
            info.starts_with("rspauth=\"")
                && info
                    .ends_with("\", nextnonce=\"n\", cnonce=\"0a4f113b\", nc=00000001, qop=auth"),
            "{info}"
        );
    }

    #[test]
    fn what_is_missing() {
        for text in [
            "Digest",
            "Digest ",
            "Basic x=y",
            "Digest username=\"a\"",
            "Digest =,=",
            "Digest username=\"a, realm=b",
        ] {
            assert_eq!(Proof::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn parameters() {
        let (name, value, rest) = parameter(" , Name = \"a \\\"b\\\\\" , c=d").unwrap();
        assert_eq!(
            (name.as_str(), value.as_str(), rest),
            ("name", "a \"b\\", " , c=d")
        );
        assert_eq!(parameter(rest), Some(("c".into(), "d".into(), "")));
    }

    #[test]
    fn nonces_have_an_age() {
        let text = nonce("realm", None, 1000);
        assert_eq!(text.len(), NONCE_BYTES);
        assert_eq!(
            (
                age_s(&text, "realm", None, 1100),
                age_s(&text, "other", None, 1100),
                age_s(&text, "realm", None, 999)
            ),
            (Some(100), None, None)
        );
        let bound = nonce("realm", Some("5c"), 1000);
        for (nonce, opaque, expected) in [
            (&bound, Some("5c"), Some(100)),
            (&bound, Some("5d"), None),
            (&bound, Some(""), None),
            (&bound, None, None),
            (&text, Some(""), None),
        ] {
            assert_eq!(age_s(nonce, "realm", opaque, 1100), expected, "{opaque:?}");
        }
        for broken in [
            "",
            "x",
            &text.replace('=', "a"),
            &text[1..],
            &"é".repeat(26),
        ] {
            assert_eq!(age_s(broken, "realm", None, 1100), None, "{broken}");
        }
    }

    #[test]
    fn urls_of_other_servers() {
        for (uri, port, expected) in [
            ("/a", 80, true),
            ("/a://b", 80, true),
            ("*", 80, true),
            ("http://own.test/a", 80, true),
            ("HTTP://OWN.test:80?a", 80, true),
            ("https://own.test/a", 443, true),
            ("http://own.test/a", 8080, false),
            ("http://own.test:8080/a", 8080, true),
            ("http://own.test:81/a", 80, false),
            ("http://other.test/a", 80, false),
            ("http://own.test@other.test/a", 80, false),
            ("http:///a", 80, false),
            ("http://", 80, false),
        ] {
            assert_eq!(
                is_of_server(uri.as_bytes(), (b"own.test".to_vec(), port)),
                expected,
                "{uri} {port}"
            );
        }
    }

    #[test]
    fn targets() {
        for (one, other, expected) in [
            ("/a?b", "/a?b", true),
            ("/%61?b", "/a?b", true),
            ("http://x:80/a", "/a", true),
            ("http://x", "", true),
            ("/a", "/a?b", false),
            ("/a?b", "/a?c", false),
            ("/a/http://x/b", "/b", false),
        ] {
            assert_eq!(
                is_same_target(one.as_bytes(), other.as_bytes()),
                expected,
                "{one} {other}"
            );
        }
    }
}
