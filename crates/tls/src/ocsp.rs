//! OCSP for stapling (RFC 6960): the responder of a certificate, the request for it, and the
//! verification of the response.
//!
//! Caveat: a broken or slow responder must not harm any client. So a response that is not a good
//! one for this very certificate at this time is not stapled, and the previous one is used until it
//! expires.
//!
//! Out of scope: the responder's signature. Clients that get the response verify it, and it has no
//! other use.

use crate::der::{self, Der, INTEGER, OCTET_STRING, OcspFacts, SEQUENCE};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::pki_types::CertificateDer;
use std::fmt::Write as _;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_OCSP,
};

/// SHA-1, which is what responders know: 1.3.14.3.2.26 with NULL.
const SHA1: &[u8] = &[
    0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00,
];
/// OCSP request about one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// URL of the responder.
    pub url: String,
    /// DER, for a POST (RFC 6960 appendix A.1).
    pub request: Vec<u8>,
    /// Fingerprint of the certificate, for a file's name.
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
    pub fn new(chain: &[CertificateDer<'_>], given: Option<&str>) -> Option<Question> {
        let leaf = der::parse(chain.first()?)?;
        let links = chain.iter().skip(1);
        let issuer = links
            .filter_map(|link| der::parse(link))
            .find(|link| link.subject().as_raw() == leaf.issuer().as_raw())?;
        let url = given.map(str::to_owned).or_else(|| responder(&leaf))?;
        let hash = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        let (name_hash, key_hash, serial) = (
            hash(leaf.issuer().as_raw()),
            hash(&issuer.public_key().subject_public_key.data),
            leaf.raw_serial().to_vec(),
        );
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

    /// Verifies that a response is a good one for this certificate at this time.
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

/// Returns the URL of a certificate's OCSP responder (RFC 5280 section 4.2.2.1).
fn responder(certificate: &X509Certificate<'_>) -> Option<String> {
    let accesses =
        certificate
            .iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityInfoAccess(access) => Some(&access.accessdescs),
                _ => None,
            })?;
    let ocsp = accesses
        .iter()
        .find(|access| access.access_method == OID_PKIX_ACCESS_DESCRIPTOR_OCSP)?;
    match &ocsp.access_location {
        GeneralName::URI(url) => Some((*url).to_owned()),
        _ => None,
    }
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
