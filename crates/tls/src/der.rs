//! The few fields of certificates and OCSP responses that load-time checks need, out of DER (RFC
//! 5280, RFC 6960).
//!
//! Only files that the operator configured are read here; what peers sent is looked at in `x509`,
//! with the same reader. What does not parse is `None`. Absent on purpose: everything that decides
//! about trust.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;

/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// What a certificate says about itself.
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

pub fn certificate(der: &[u8]) -> Option<CertificateFacts> {
    let mut fields = Der(Der(Der(der).expect(SEQUENCE)?).expect(SEQUENCE)?);
    fields.optional(0xa0);
    fields.expect(INTEGER)?;
    fields.expect(SEQUENCE)?;
    let issuer = fields.expect(SEQUENCE)?.to_vec();
    let (not_before, not_after) = general_times(fields.expect(SEQUENCE)?)?;
    let subject = fields.expect(SEQUENCE)?.to_vec();
    fields.expect(SEQUENCE)?;
    fields.optional(0x81);
    fields.optional(0x82);
    let (dns_names, addresses) = fields
        .optional(0xa3)
        .and_then(alternative_names)
        .unwrap_or_default();
    Some(CertificateFacts {
        not_before,
        not_after,
        issuer,
        subject,
        dns_names,
        addresses,
    })
}

fn alternative_names(extensions: &[u8]) -> Option<(Vec<String>, Vec<IpAddr>)> {
    let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.expect(SEQUENCE)?);
        let kind = extension.expect(OBJECT_IDENTIFIER)?;
        extension.optional(BOOLEAN);
        if kind == SUBJECT_ALT_NAME {
            return general_names(Der(extension.expect(OCTET_STRING)?).expect(SEQUENCE)?);
        }
    }
    None
}

/// RFC 5280 section 4.2.1.6: `[2]` is a DNS name, `[7]` an address.
fn general_names(names: &[u8]) -> Option<(Vec<String>, Vec<IpAddr>)> {
    let (mut names, mut dns_names, mut addresses) = (Der(names), Vec::new(), Vec::new());
    while !names.0.is_empty() {
        match names.next()? {
            (0x82, name) => dns_names.push(String::from_utf8_lossy(name).to_ascii_lowercase()),
            (0x87, bytes) => addresses.extend(address(bytes)),
            _ => {}
        }
    }
    Some((dns_names, addresses))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|bytes| Ipv6Addr::from(bytes).into())
}

/// The common name of a subject or issuer.
pub fn common_name(name: &[u8]) -> Option<String> {
    /// `id-at-commonName`, 2.5.4.3.
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    const SET: u8 = 0x31;
    let mut parts = Der(name);
    while !parts.0.is_empty() {
        let mut part = Der(Der(parts.expect(SET)?).expect(SEQUENCE)?);
        if part.expect(OBJECT_IDENTIFIER)? == COMMON_NAME {
            return String::from_utf8(part.next()?.1.to_vec()).ok();
        }
    }
    None
}

/// What an OCSP response says of its (first) certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspFacts {
    pub is_good: bool,
    pub this_update: i64,
    pub next_update: Option<i64>,
}

/// `None`: no successful OCSP response.
pub fn ocsp_response(der: &[u8]) -> Option<OcspFacts> {
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
    let mut single = Der(Der(data.expect(SEQUENCE)?).expect(SEQUENCE)?);
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

/// Which certificate the (first) response is about: the content of its CertID.
pub fn ocsp_identifier(der: &[u8]) -> Option<&[u8]> {
    let mut response = Der(Der(der).expect(SEQUENCE)?);
    response.expect(ENUMERATED)?;
    let mut bytes = Der(Der(response.expect(0xa0)?).expect(SEQUENCE)?);
    bytes.expect(OBJECT_IDENTIFIER)?;
    let mut basic = Der(Der(bytes.expect(OCTET_STRING)?).expect(SEQUENCE)?);
    let mut data = Der(basic.expect(SEQUENCE)?);
    data.optional(0xa0);
    data.next()?;
    data.expect(GENERALIZED_TIME)?;
    Der(Der(data.expect(SEQUENCE)?).expect(SEQUENCE)?).expect(SEQUENCE)
}

/// When a revocation list is to be replaced (RFC 5280 section 5.1.2.5).
pub fn revocation_list_next_update(der: &[u8]) -> Option<i64> {
    let mut fields = Der(Der(Der(der).expect(SEQUENCE)?).expect(SEQUENCE)?);
    fields.optional(INTEGER);
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    fields.time()?;
    fields.optional_time()
}

/// What is left of an encoding.
pub(crate) struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match usize::from(length) {
            short @ 0..0x80 => (short, rest),
            long => {
                let (digits, rest) = rest.split_at_checked(long & 0x7f)?;
                if digits.len() > 4 {
                    return None;
                }
                (
                    digits
                        .iter()
                        .fold(0, |length, digit| length << 8 | usize::from(*digit)),
                    rest,
                )
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The next value with its head.
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

    pub fn optional_time(&mut self) -> Option<i64> {
        if matches!(self.0.first(), Some(&(UTC_TIME | GENERALIZED_TIME))) {
            self.time()
        } else {
            None
        }
    }

    pub fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.next()?;
        let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        match tag {
            // RFC 5280 section 4.1.2.5.1: 50 and later are of the last century.
            UTC_TIME => {
                let century = if text.get(..2)? < "50" { "20" } else { "19" };
                seconds(&format!("{century}{text}"))
            }
            GENERALIZED_TIME => seconds(text),
            _ => None,
        }
    }
}

/// Both ends of a certificate's validity.
pub fn general_times(validity: &[u8]) -> Option<(i64, i64)> {
    let mut validity = Der(validity);
    Some((validity.time()?, validity.time()?))
}

/// `YYYYMMDDHHMMSS` in seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let time = number(8, 10)? * 3600 + number(10, 12)? * 60 + number(12, 14)?;
    Some(days(year, month, day) * 86_400 + time)
}

/// Days from 1970-01-01 in the Gregorian calendar: years are counted from March, so that a leap day
/// comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// `YYYY-MM-DD` of seconds since 1970, for messages.
pub fn date(seconds: i64) -> String {
    let day = seconds.div_euclid(86_400) + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (
        era * 400 + year_of_era,
        if month < 10 { month + 3 } else { month - 9 },
    );
    format!(
        "{:04}-{month:02}-{day:02}",
        if month <= 2 { year + 1 } else { year }
    )
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
        assert_eq!(seconds("19700101000000"), Some(0));
        assert_eq!(seconds("20000229123456"), Some(951_827_696));
        assert_eq!(seconds("2000022912"), None);
        assert_eq!(
            Der(b"\x17\x0d991231235959Z").time(),
            seconds("19991231235959")
        );
        assert_eq!(
            Der(b"\x17\x0d491231235959Z").time(),
            seconds("20491231235959")
        );
        for day in (-700_000..800_000).step_by(977) {
            let text = date(day * 86_400);
            let part = |from, to| text[from..to].parse::<i64>().unwrap();
            if text.len() == 10 {
                assert_eq!(days(part(0, 4), part(5, 7), part(8, 10)), day, "{text}");
            }
        }
    }

    #[test]
    fn no_ocsp_response() {
        assert_eq!(ocsp_response(b""), None);
        assert_eq!(ocsp_response(&[SEQUENCE, 3, ENUMERATED, 1, 6]), None);
    }
}
