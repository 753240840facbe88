//! The few fields of certificates and OCSP responses that load-time checks need (RFC 5280, RFC
//! 6960), parsed by x509-parser and asn1-rs.
//!
//! Called by: loading of certificates, OCSP stapling, revocation lists, checks of peers.
//! Caveat: what does not parse is `None`, never a guess.
//! Out of scope: everything that decides about trust; rustls and webpki do that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_parser::{
    asn1_rs::Any, certificate::X509Certificate, extensions::GeneralName, prelude::FromDer,
    revocation_list::CertificateRevocationList, time::ASN1Time, x509::X509Name,
};

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Validity and names of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    /// DER, for comparison.
    pub issuer: Vec<u8>,
    pub subject: Vec<u8>,
    /// In lower case; a wildcard as `*.example.org`.
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

/// Parses a certificate.
pub(crate) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der)
        .ok()
        .map(|(_, parsed)| parsed)
}

/// Returns the validity and names of a certificate.
pub fn certificate(der: &[u8]) -> Option<CertificateFacts> {
    let parsed = parse(der)?;
    let (mut dns_names, mut addresses) = (Vec::new(), Vec::new());
    if let Ok(Some(names)) = parsed.subject_alternative_name() {
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => dns_names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
    }
    Some(CertificateFacts {
        not_before: parsed.validity().not_before.timestamp(),
        not_after: parsed.validity().not_after.timestamp(),
        issuer: parsed.issuer().as_raw().to_vec(),
        subject: parsed.subject().as_raw().to_vec(),
        dns_names,
        addresses,
    })
}

/// True if a certificate is for exactly that host name, which is in lower case.
pub fn is_for_name(der: &[u8], name: &str) -> bool {
    certificate(der).is_some_and(|facts| facts.dns_names.iter().any(|known| known == name))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|bytes| Ipv6Addr::from(bytes).into())
}

/// Returns the first common name of a subject or issuer (DER).
pub fn common_name(name: &[u8]) -> Option<String> {
    let (_, name) = X509Name::from_der(name).ok()?;
    let value = name.iter_common_name().next()?.attr_value().data;
    String::from_utf8(value.to_vec()).ok()
}

/// Status and times of the (first) certificate of an OCSP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspFacts {
    pub is_good: bool,
    pub this_update: i64,
    pub next_update: Option<i64>,
}

/// Parses a successful OCSP response.
pub fn ocsp_response(der: &[u8]) -> Option<OcspFacts> {
    let mut single = single_response(der)?;
    single.expect(SEQUENCE)?;
    let (status, _) = single.next()?;
    let this_update = single.time()?;
    let next_update = single.optional(0xa0).and_then(|field| Der(field).time());
    Some(OcspFacts {
        is_good: status == 0x80,
        this_update,
        next_update,
    })
}

/// Returns the content of the CertID of the (first) certificate of an OCSP response.
pub fn ocsp_identifier(der: &[u8]) -> Option<&[u8]> {
    single_response(der)?.expect(SEQUENCE)
}

/// Returns the content of the first SingleResponse (RFC 6960 section 4.2.1).
fn single_response(der: &[u8]) -> Option<Der<'_>> {
    let mut response = Der(Der(der).expect(SEQUENCE)?);
    if response.expect(ENUMERATED)? != [0] {
        return None;
    }
    let mut bytes = Der(Der(response.expect(0xa0)?).expect(SEQUENCE)?);
    bytes.expect(OBJECT_IDENTIFIER)?;
    let mut basic = Der(Der(bytes.expect(OCTET_STRING)?).expect(SEQUENCE)?);
    let mut data = Der(basic.expect(SEQUENCE)?);
    data.optional(0xa0);
    data.next()?;
    data.expect(GENERALIZED_TIME)?;
    Some(Der(Der(data.expect(SEQUENCE)?).expect(SEQUENCE)?))
}

/// Returns the time by which a revocation list is replaced (RFC 5280 section 5.1.2.5).
pub fn revocation_list_next_update(der: &[u8]) -> Option<i64> {
    let (_, list) = CertificateRevocationList::from_der(der).ok()?;
    list.next_update().map(|time| time.timestamp())
}

/// The values of a DER encoding that are still to be read.
pub(crate) struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    /// Returns the first byte of the next value's tag, and its content.
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let tag = *self.0.first()?;
        let (rest, value) = Any::from_der(self.0).ok()?;
        self.0 = rest;
        Some((tag, value.data))
    }

    /// Returns the next value with its head.
    pub fn raw(&mut self) -> Option<&'a [u8]> {
        let before = self.0;
        self.next()?;
        before.get(..before.len() - self.0.len())
    }

    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(found, content)| (found == tag).then_some(content))
    }

    pub fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) {
            self.expect(tag)
        } else {
            None
        }
    }

    /// Reads a UTCTime or GeneralizedTime, in seconds since 1970.
    pub fn time(&mut self) -> Option<i64> {
        let (rest, time) = ASN1Time::from_der(self.0).ok()?;
        self.0 = rest;
        Some(time.timestamp())
    }
}

/// `YYYY-MM-DD` of seconds since 1970, for messages.
pub fn date(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn a_certificate() {
        let names = ["Www.Example.org", "*.example.net", "127.0.0.1", "::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(2024, 2, 29), date_time_ymd(2061, 3, 1));
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let facts = certificate(made.der()).unwrap();
        assert_eq!(
            (date(facts.not_before), date(facts.not_after)),
            ("2024-02-29".into(), "2061-03-01".into())
        );
        assert_eq!(facts.dns_names, ["www.example.org", "*.example.net"]);
        assert_eq!(
            facts.addresses,
            [
                "127.0.0.1".parse::<IpAddr>().unwrap(),
                "::1".parse().unwrap()
            ]
        );
        assert_eq!(facts.issuer, facts.subject);
        for cut in 0..made.der().len() {
            assert_eq!(certificate(&made.der()[..cut]), None);
        }
    }

    #[test]
    fn times() {
        assert_eq!(Der(b"\x17\x0d991231235959Z").time(), Some(946_684_799));
        assert_eq!(Der(b"\x17\x0d491231235959Z").time(), Some(2_524_607_999));
        assert_eq!(Der(b"\x18\x0f20000229123456Z").time(), Some(951_827_696));
        assert_eq!(Der(b"\x18\x0a2000022912Z").time(), None);
        assert_eq!(
            (date(951_827_696), date(0)),
            ("2000-02-29".into(), "1970-01-01".into())
        );
    }

    #[test]
    fn no_ocsp_response() {
        assert_eq!(ocsp_response(b""), None);
        assert_eq!(ocsp_response(&[SEQUENCE, 3, ENUMERATED, 1, 6]), None);
    }
}
