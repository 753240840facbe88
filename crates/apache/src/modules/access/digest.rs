//! mod_auth_digest: who knows the password proves it without sending it (RFC 7616 with MD5, which
//! is what Apache and its files have).
//!
//! Difficulty: nonces are not remembered. Each carries its time, and a hash of it with this
//! process's secret; it is good for AuthDigestNonceLifetime, and with it whatever was overheard.
//! Absent on purpose: counting of `nc`, which Apache does not do either.

use super::{
    authn::{Digest, Provider},
    decide::Inquiry,
    identify::{Identified, Trouble, quoted},
    passwords::{is_same, secret},
};
use crate::state::state;
use saker_ap_expr::{base64_encode, md5_hex, unescape};
use saker_http::Status;
use saker_telemetry::httpd_message::{self, HttpdMessage};
use sha1::{Digest as _, Sha1};
use std::sync::Arc;

const NONCE_LIFETIME_S: i64 = 300;
/// So long before its end a nonce is followed by the next one.
const NEXT_NONCE_S: i64 = 30;
const NONCE_BYTES: usize = 12 + 40;

/// What a client sends.
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
}

impl Inquiry<'_> {
    /// `stale`: name and password need not be asked for again.
    pub fn digest_challenge(&mut self, stale: bool) -> String {
        let own = self.local.authn.digest.clone().unwrap_or_default();
        let realm = self
            .local
            .authn
            .name
            .clone()
            .map(|name| self.text(&name))
            .unwrap_or_default();
        let nonce = nonce(&realm, self.exchange.now);
        let domain = match own.domain.is_empty() {
            true => String::new(),
            false => format!(", domain=\"{}\"", quoted(&own.domain.join(" "))),
        };
        let stale = if stale { ", stale=true" } else { "" };
        format!(
            "Digest realm=\"{}\", nonce=\"{nonce}\", algorithm=MD5{domain}{stale}, qop=\"auth\"",
            quoted(&realm)
        )
    }

    fn ask_for_digest(&mut self, stale: bool) -> Identified {
        Identified::Refused(Status::UNAUTHORIZED, Some(self.digest_challenge(stale)))
    }

    pub fn digest(&mut self) -> Identified {
        let own = self.local.authn.digest.clone().unwrap_or_default();
        let Some(realm) = self.local.authn.name.clone().map(|name| self.text(&name)) else {
            self.log_httpd(
                &httpd_message::DIGEST_WITHOUT_NAME,
                format_args!("need AuthName: {}", self.path()),
            );
            return Identified::Refused(Status::INTERNAL_SERVER_ERROR, None);
        };
        let sent = self.exchange.head.view().first("authorization");
        let Some(proof) = sent.and_then(Proof::parse) else {
            self.complain_of(sent);
            return self.ask_for_digest(false);
        };
        self.exchange.user = Some(proof.username.as_str().into());
        if !is_same_target(
            proof.uri.as_bytes(),
            self.exchange.head.view().target_as_sent(),
        ) {
            let target = String::from_utf8_lossy(self.exchange.head.view().target_as_sent());
            let text = format_args!(
                "uri mismatch - <{}> does not match request-uri <{target}>",
                proof.uri
            );
            self.log_httpd(&httpd_message::DIGEST_URI_MISMATCH, text);
            return Identified::Refused(Status::BAD_REQUEST, None);
        }
        if let Some((message, text)) = proof.mismatch(&realm) {
            self.log_httpd(message, format_args!("{text}: {}", self.path()));
            return self.ask_for_digest(false);
        }
        self.prove(&own, &realm, &proof)
    }

    /// Of a field that proves nothing; without one there is nothing to say.
    fn complain_of(&self, sent: Option<&[u8]>) {
        let Some(sent) = sent else { return };
        let scheme = String::from_utf8_lossy(
            sent.split(u8::is_ascii_whitespace)
                .next()
                .unwrap_or_default(),
        );
        if scheme.eq_ignore_ascii_case("digest") {
            let needed = "user, realm, nonce, uri, digest, cnonce, or nonce_count";
            let text = format_args!("missing {needed} in authorization header: {}", self.path());
            self.log_httpd(&httpd_message::DIGEST_FIELDS_MISSING, text);
        } else {
            let text = format_args!(
                "client used wrong authentication scheme `{scheme}': {}",
                self.path()
            );
            self.log_httpd(&httpd_message::DIGEST_OTHER_SCHEME, text);
        }
    }

    fn prove(&mut self, own: &Arc<Digest>, realm: &str, proof: &Proof) -> Identified {
        let hash = match self.digest_hash(own, realm, &proof.username) {
            Err(Trouble::Wait(pause)) => return Identified::Wait(pause),
            Err(Trouble::Busy) => return Identified::Refused(Status::SERVICE_UNAVAILABLE, None),
            Err(Trouble::Error) => return Identified::Refused(Status::INTERNAL_SERVER_ERROR, None),
            Ok(None) => {
                let text = format_args!(
                    "user `{}' in realm `{realm}' not found: {}",
                    proof.username,
                    self.path()
                );
                self.log_httpd(&httpd_message::DIGEST_USER_NOT_FOUND, text);
                return self.ask_for_digest(false);
            }
            Ok(Some(hash)) => hash,
        };
        let method = String::from_utf8_lossy(self.method()).into_owned();
        if !is_same(&proof.expected(&hash, &method), proof.response.as_bytes()) {
            let text = format_args!(
                "user {}: password mismatch: {}",
                proof.username,
                self.path()
            );
            self.log_httpd(&httpd_message::DIGEST_PASSWORD_MISMATCH, text);
            return self.ask_for_digest(false);
        }
        let lifetime_s = own.nonce_lifetime_s.unwrap_or(NONCE_LIFETIME_S);
        let Some(age_s) = age_s(&proof.nonce, realm, self.exchange.now)
            .filter(|age| lifetime_s < 0 || *age <= lifetime_s)
        else {
            let (message, text) = proof.fault_of_nonce(realm, self.exchange.now, lifetime_s);
            self.log_httpd(message, format_args!("{text}"));
            // What can't have been made here is no nonce that has run out.
            return self.ask_for_digest(proof.nonce.len() == NONCE_BYTES);
        };
        let next = (lifetime_s > 0 && age_s > lifetime_s - NEXT_NONCE_S)
            .then(|| nonce(realm, self.exchange.now));
        let info = proof.confirmation(&hash, next.as_deref());
        state(self.exchange).authentication_info = Some(info.into_bytes());
        Identified::Yes
    }

    fn digest_hash(
        &mut self,
        own: &Digest,
        realm: &str,
        user: &str,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        if own.providers.is_empty() {
            return self.realm_hash(&Provider::File, user, realm);
        }
        for provider in &own.providers {
            if let Some(hash) = self.realm_hash(provider, user, realm)? {
                return Ok(Some(hash));
            }
        }
        Ok(None)
    }
}

impl Proof {
    /// The value of an Authorization field; `None` where something is missing.
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
            _ => {}
        }
    }

    /// Why it is no answer to what was asked.
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

    /// Why its nonce is not good, or no more.
    fn fault_of_nonce(
        &self,
        realm: &str,
        now: i64,
        lifetime_s: i64,
    ) -> (&'static HttpdMessage, String) {
        let nonce = &self.nonce;
        match age_s(nonce, realm, now) {
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

/// The next name and value, and what is behind them.
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

/// A client may write its target in more than one way.
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

fn nonce(realm: &str, now_s: i64) -> String {
    let time = base64_encode(&now_s.to_be_bytes());
    let mut hash = Sha1::new_with_prefix(secret());
    hash.update(&time);
    hash.update(realm);
    hash.update(secret());
    let digest = hash.finalize();
    let mut text = String::from_utf8_lossy(&time).into_owned();
    digest
        .iter()
        .for_each(|byte| text.push_str(&format!("{byte:02x}")));
    text
}

/// `None`: not made here, or not yet.
fn age_s(text: &str, realm: &str, now_s: i64) -> Option<i64> {
    let time = text.get(..12).filter(|_| text.len() == NONCE_BYTES)?;
    let bytes: [u8; 8] = saker_ap_expr::base64_decode(time.as_bytes())
        .try_into()
        .ok()?;
    let made_s = i64::from_be_bytes(bytes);
    let is_ours = is_same(nonce(realm, made_s).as_bytes(), text.as_bytes());
    (is_ours && made_s <= now_s).then_some(now_s.saturating_sub(made_s))
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
        let text = nonce("realm", 1000);
        assert_eq!(text.len(), NONCE_BYTES);
        assert_eq!(
            (
                age_s(&text, "realm", 1100),
                age_s(&text, "other", 1100),
                age_s(&text, "realm", 999)
            ),
            (Some(100), None, None)
        );
        for broken in [
            "",
            "x",
            &text.replace('=', "a"),
            &text[1..],
            &"é".repeat(26),
        ] {
            assert_eq!(age_s(broken, "realm", 1100), None, "{broken}");
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
