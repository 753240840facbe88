//! The few fields of a certificate that renewal depends on (RFC 5280), parsed by x509-parser.
//!
//! Called by: the manager, for certificates that an authority issued to us.
//! Out of scope: trust; rustls judges certificates when they are installed.

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{certificate::X509Certificate, extensions::ParsedExtension, prelude::FromDer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Seconds since 1970.
    pub not_before: u64,
    pub not_after: u64,
    /// DER bytes, including the leading zero if there is one.
    pub serial: Vec<u8>,
    /// Required for asking the authority about renewal (RFC 9773 section 4.1).
    pub authority_key: Option<Vec<u8>>,
}

/// Returns the facts of the first certificate of a chain.
pub fn facts(chain_pem: &str) -> Option<Facts> {
    let certificate = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .next()?
        .ok()?;
    of_der(&certificate)
}

fn of_der(der: &[u8]) -> Option<Facts> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let validity = parsed.validity();
    Some(Facts {
        not_before: u64::try_from(validity.not_before.timestamp()).ok()?,
        not_after: u64::try_from(validity.not_after.timestamp()).ok()?,
        serial: parsed.raw_serial().to_vec(),
        authority_key: authority_key(&parsed),
    })
}

fn authority_key(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.iter_extensions().find_map(|extension| {
        let ParsedExtension::AuthorityKeyIdentifier(identifier) = extension.parsed_extension()
        else {
            return None;
        };
        identifier.key_identifier.as_ref().map(|key| key.0.to_vec())
    })
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
    }
}
