//! The few fields of a certificate that renewal goes by, out of its DER (RFC 5280).
//!
//! Only certificates that an authority gave us are read; whether they are any good is rustls'
//! judgement when they are installed.

use rustls::pki_types::{CertificateDer, pem::PemObject};

const INTEGER: u8 = 0x02;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;

/// `id-ce-authorityKeyIdentifier`, 2.5.29.35.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Seconds since 1970.
    pub not_before: u64,
    pub not_after: u64,
    /// As encoded, with the leading zero where there is one.
    pub serial: Vec<u8>,
    /// Without it the authority can't be asked when to renew (RFC 9773 section 4.1).
    pub authority_key: Option<Vec<u8>>,
}

/// Of the first certificate of a chain.
pub fn facts(chain_pem: &str) -> Option<Facts> {
    let certificate = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .next()?
        .ok()?;
    of_der(&certificate)
}

fn of_der(der: &[u8]) -> Option<Facts> {
    let mut fields = Der(Der(Der(der).expect(SEQUENCE)?).expect(SEQUENCE)?);
    fields.optional(0xa0);
    let serial = fields.expect(INTEGER)?.to_vec();
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    let mut validity = Der(fields.expect(SEQUENCE)?);
    let (not_before, not_after) = (validity.time()?, validity.time()?);
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    fields.optional(0x81);
    fields.optional(0x82);
    let authority_key = fields.optional(0xa3).and_then(authority_key);
    Some(Facts {
        not_before,
        not_after,
        serial,
        authority_key,
    })
}

fn authority_key(extensions: &[u8]) -> Option<Vec<u8>> {
    let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.expect(SEQUENCE)?);
        let kind = extension.expect(OBJECT_IDENTIFIER)?;
        extension.optional(BOOLEAN);
        if kind == AUTHORITY_KEY_IDENTIFIER {
            let mut parts = Der(Der(extension.expect(OCTET_STRING)?).expect(SEQUENCE)?);
            return parts.optional(0x80).map(<[u8]>::to_vec);
        }
    }
    None
}

/// What is left of an encoding.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match usize::from(length) {
            short @ 0..0x80 => (short, rest),
            long => {
                let (digits, rest) = rest
                    .split_at_checked(long & 0x7f)
                    .filter(|(digits, _)| digits.len() <= 4)?;
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

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(found, content)| (found == tag).then_some(content))
    }

    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) {
            self.expect(tag)
        } else {
            None
        }
    }

    /// RFC 5280 section 4.1.2.5.
    fn time(&mut self) -> Option<u64> {
        let (tag, text) = self.next()?;
        let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        match tag {
            UTC_TIME if text.get(..2)? < "50" => seconds(&format!("20{text}")),
            UTC_TIME => seconds(&format!("19{text}")),
            GENERALIZED_TIME => seconds(text),
            _ => None,
        }
    }
}

/// `YYYYMMDDHHMMSS`, from 1970 on.
fn seconds(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let time = number(8, 10)? * 3600 + number(10, 12)? * 60 + number(12, 14)?;
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(days.checked_sub(719_468)? * 86_400 + time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, Issuer, KeyPair, SerialNumber, date_time_ymd};

    #[test]
    fn what_a_certificate_says() {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.key_identifier_method = rcgen::KeyIdMethod::PreSpecified(vec![1, 2, 3]);
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from_slice(&[0x81, 2]));
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) =
            (date_time_ymd(2024, 2, 29), date_time_ymd(2061, 3, 1));
        let made = params
            .signed_by(&key, &Issuer::from_params(&authority, &key))
            .unwrap();
        let facts = facts(&made.pem()).unwrap();
        assert_eq!(
            (facts.not_before, facts.not_after),
            (1_709_164_800, 2_876_860_800)
        );
        assert_eq!(
            (facts.serial, facts.authority_key),
            (vec![0, 0x81, 2], Some(vec![1, 2, 3]))
        );
        for cut in 0..made.der().len() {
            assert_eq!(of_der(&made.der()[..cut]), None);
        }
    }

    #[test]
    fn no_certificate() {
        assert_eq!(facts(""), None);
        assert_eq!(
            facts("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            None
        );
        assert_eq!(seconds("19691231235959"), None);
        assert_eq!(seconds("20000229123456"), Some(951_827_696));
    }
}
