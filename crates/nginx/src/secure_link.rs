//! `$secure_link`: checks the hash of a link.
//!
//! Called by: `builtin`.
//! Caveat: a link without a hash has no value, one with a wrong hash an empty value, an outdated one
//! `0`, a good one `1`; the configuration refuses what it does not want.

use crate::request::Request;
use saker_ap_expr::md5_hex;
use saker_nginx_model::variables::Builtin;
use std::sync::Arc;

impl Request<'_> {
    pub(crate) fn secure_link(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        let location = Arc::clone(&self.state.location);
        let conf = &location.conf.secure_link;
        if let Some(secret) = &conf.secret {
            return (builtin == Builtin::SecureLink).then(|| self.by_secret(secret))?;
        }
        let (link, expression) = (conf.link.as_ref()?, conf.md5.as_ref()?);
        let link = self.text(link);
        let at = link.iter().position(|byte| *byte == b',');
        let (hash, expires) = match at {
            Some(at) => (link.get(..at)?, link.get(at + 1..)),
            None => (link.as_slice(), None),
        };
        if builtin == Builtin::SecureLinkExpires {
            return expires
                .filter(|text| time(text).is_some())
                .map(<[u8]>::to_vec);
        }
        // One that is no time is that of no link.
        let until = match expires.map(time) {
            Some(None) => return None,
            until => until.flatten(),
        };
        if hash.is_empty() || hash.len() > 24 {
            return None;
        }
        let wanted = self.text(expression);
        if decoded(hash)? != raw_md5(&wanted) {
            return None;
        }
        let is_over = until.is_some_and(|until| until < self.exchange.now);
        Some(if is_over { b"0" } else { b"1" }.to_vec())
    }

    /// `/prefix/HASH/link` as the client wrote it: the link, if its hash is that of the link and the
    /// secret. A prefix is one segment.
    fn by_secret(&mut self, secret: &str) -> Option<Vec<u8>> {
        self.depends_on_request();
        let target = self.exchange.head.view().target().to_vec();
        let behind = target.get(1..)?;
        let rest = behind.get(behind.iter().position(|byte| *byte == b'/')? + 1..)?;
        let at = rest.iter().position(|byte| *byte == b'/')?;
        let (hash, link) = (rest.get(..at)?, rest.get(at + 1..)?);
        let made = md5_hex(&[link, secret.as_bytes()].concat());
        hash.eq_ignore_ascii_case(&made).then(|| link.to_vec())
    }
}

/// A time of the epoch; none begins with the epoch itself.
fn time(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok().filter(|time| *time > 0)
}

/// The bytes of a hash in base64url (RFC 4648 section 5), with or without padding.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let plain: Vec<u8> = text
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    let bytes = saker_ap_expr::base64_decode(&plain);
    (bytes.len() == 16).then_some(bytes)
}

fn raw_md5(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    md5_hex(text)
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => digit(*high) << 4 | digit(*low),
            _ => 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_in_base64url() {
        let made = saker_ap_expr::base64_encode(&raw_md5(b"2147483647/s/link127.0.0.1 secret"));
        let text: String = String::from_utf8(made)
            .unwrap()
            .replace('+', "-")
            .replace('/', "_");
        assert_eq!(text, "_e4Nc3iduzkWRm01TBBNYw==");
        let bare = text.trim_end_matches('=');
        assert_eq!(decoded(bare.as_bytes()), decoded(text.as_bytes()));
        assert_eq!(decoded(b"short"), None);
    }
}
