//! OCSP for staples (RFC 6960): whom to ask about a certificate, with which words, and what to make
//! of the answer.
//!
//! Difficulty: a responder that is broken or slow must cost nobody anything. So an answer that is
//! not a good one for this very certificate, of now, is not shown, and the one before is shown as
//! long as it lasts. Absent on purpose: the check of the responder's signature; whoever is shown
//! the answer checks it, and nobody else has a use for it.

use crate::der::{self, Der, OcspFacts, SEQUENCE};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::pki_types::CertificateDer;
use std::fmt::Write as _;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// SHA-1, which is what responders know: 1.3.14.3.2.26 with NULL.
const SHA1: &[u8] = &[
    0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00,
];
/// `id-pe-authorityInfoAccess` and `id-ad-ocsp`.
const AUTHORITY_INFORMATION: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x01];
const OCSP: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01];

/// What is asked about one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Of the responder.
    pub url: String,
    /// DER, for a POST (RFC 6960 appendix A.1).
    pub request: Vec<u8>,
    /// Of the certificate, for a file's name.
    pub fingerprint: String,
    name_hash: Vec<u8>,
    key_hash: Vec<u8>,
    serial: Vec<u8>,
}

/// Which answers are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Clocks may differ by so much.
    pub skew_s: i64,
    /// Older ones are not shown.
    pub age_max_s: Option<i64>,
}

impl Question {
    /// `None`: the certificate names no responder (and none is given), or its issuer is not in the
    /// chain.
    pub fn new(chain: &[CertificateDer<'_>], responder: Option<&str>) -> Option<Question> {
        let leaf = Parts::of(chain.first()?)?;
        let issuer = chain
            .iter()
            .skip(1)
            .filter_map(|link| Parts::of(link))
            .find(|link| link.subject == leaf.issuer)?;
        let url = responder.map(str::to_owned).or_else(|| leaf.responder())?;
        let hash = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        let (name_hash, key_hash, serial) =
            (hash(leaf.issuer), hash(issuer.key), leaf.serial.to_vec());
        let identifier = [
            SHA1.to_vec(),
            wrap(OCTET_STRING, &name_hash),
            wrap(OCTET_STRING, &key_hash),
            wrap(INTEGER, &serial),
        ]
        .concat();
        let mut request = wrap(SEQUENCE, &identifier);
        // CertID, Request, requestList, TBSRequest, OCSPRequest (RFC 6960 section 4.1.1).
        for _ in 0..4 {
            request = wrap(SEQUENCE, &request);
        }
        let mut fingerprint = String::with_capacity(64);
        for byte in digest(&SHA256, chain.first()?).as_ref() {
            let _ = write!(fingerprint, "{byte:02x}");
        }
        Some(Question {
            url,
            request,
            fingerprint,
            name_hash,
            key_hash,
            serial,
        })
    }

    /// What an answer says, if it is a good one for this certificate, at this time.
    pub fn judge(&self, answer: &[u8], belief: Belief, now: i64) -> Result<OcspFacts, String> {
        let facts = der::ocsp_response(answer).ok_or("it is no successful OCSP response")?;
        if !self.is_of_this(answer) {
            return Err("it is about another certificate".into());
        }
        if !facts.is_good {
            return Err("it does not call the certificate good".into());
        }
        if facts.this_update > now + belief.skew_s {
            return Err("it is of the future".into());
        }
        if facts.next_update.is_some_and(|until| until < now) {
            return Err("it has run out".into());
        }
        if belief
            .age_max_s
            .is_some_and(|age| now - facts.this_update > age)
        {
            return Err("it is too old".into());
        }
        Ok(facts)
    }

    fn is_of_this(&self, answer: &[u8]) -> bool {
        der::ocsp_identifier(answer).is_some_and(|identifier| {
            let mut fields = Der(identifier);
            fields.expect(SEQUENCE).is_some()
                && fields.expect(OCTET_STRING) == Some(&self.name_hash)
                && fields.expect(OCTET_STRING) == Some(&self.key_hash)
                && fields.expect(INTEGER) == Some(&self.serial)
        })
    }
}

/// The parts of a certificate that OCSP is about (RFC 5280 section 4.1), names with their heads.
struct Parts<'c> {
    serial: &'c [u8],
    issuer: &'c [u8],
    subject: &'c [u8],
    /// Content of the BIT STRING, without the count of unused bits.
    key: &'c [u8],
    extensions: Option<&'c [u8]>,
}

impl<'c> Parts<'c> {
    fn of(der: &'c [u8]) -> Option<Parts<'c>> {
        let mut fields = Der(Der(Der(der).expect(SEQUENCE)?).expect(SEQUENCE)?);
        fields.optional(0xa0);
        let serial = fields.expect(INTEGER)?;
        fields.expect(SEQUENCE)?;
        let issuer = whole(&mut fields)?;
        fields.expect(SEQUENCE)?;
        let subject = whole(&mut fields)?;
        let mut key = Der(fields.expect(SEQUENCE)?);
        key.expect(SEQUENCE)?;
        let key = key.expect(BIT_STRING)?.get(1..)?;
        fields.optional(0x81);
        fields.optional(0x82);
        Some(Parts {
            serial,
            issuer,
            subject,
            key,
            extensions: fields.optional(0xa3),
        })
    }

    /// RFC 5280 section 4.2.2.1.
    fn responder(&self) -> Option<String> {
        let mut extensions = Der(Der(self.extensions?).expect(SEQUENCE)?);
        while let Some(extension) = extensions.expect(SEQUENCE) {
            let mut extension = Der(extension);
            let kind = extension.expect(OBJECT_IDENTIFIER)?;
            extension.optional(0x01);
            if kind == AUTHORITY_INFORMATION {
                return ocsp_url(Der(extension.expect(OCTET_STRING)?).expect(SEQUENCE)?);
            }
        }
        None
    }
}

fn ocsp_url(access: &[u8]) -> Option<String> {
    let mut access = Der(access);
    while let Some(description) = access.expect(SEQUENCE) {
        let mut description = Der(description);
        if description.expect(OBJECT_IDENTIFIER)? == OCSP {
            return String::from_utf8(description.expect(0x86)?.to_vec()).ok();
        }
    }
    None
}

/// The next value with its head.
fn whole<'c>(fields: &mut Der<'c>) -> Option<&'c [u8]> {
    let before = fields.0;
    fields.next()?;
    before.get(..before.len() - fields.0.len())
}

/// A value of less than 64 KiB.
fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut value = vec![tag];
    match u16::try_from(content.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes()
    {
        [0, short @ 0..0x80] => value.push(short),
        [0, length] => value.extend([0x81, length]),
        [high, low] => value.extend([0x82, high, low]),
    }
    value.extend_from_slice(content);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(wrap(4, &[7; 2]), [4, 2, 7, 7]);
        assert_eq!(wrap(4, &[7; 200])[..3], [4, 0x81, 200]);
        assert_eq!(wrap(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn what_is_broken_is_not_asked_about() {
        assert_eq!(Question::new(&[], None), None);
        let broken = CertificateDer::from(vec![0x30, 0x03, 0x30, 0x01, 0x02]);
        assert_eq!(
            Question::new(&[broken.clone(), broken], Some("http://a/")),
            None
        );
    }
}
