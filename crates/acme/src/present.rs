//! A challenge, presented for as long as this value lives.
//!
//! Called by: `order`. Challenges over HTTP or TLS end with the value (an order may be dropped at
//! any `.await`); removing a DNS record takes a command, which [`Presented::withdraw`] runs.
//! Caveat: after a crash the record stays until the same order continues and clears it; the record
//! of an abandoned order stays for good, and does no harm.

use crate::{
    challenges::{Challenges, Installer},
    dns::{self, Action, Helper},
    failure::Failure,
    shared_values::SharedValues,
};
use instant_acme::{ChallengeType, KeyAuthorization};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use saker_config::model::{AcmeChallenge, DnsWords};
use std::sync::Arc;

/// The places at which challenges are presented.
#[derive(Clone)]
pub struct Places {
    pub challenges: Arc<Challenges>,
    pub installer: Arc<dyn Installer>,
    pub dns_command: Option<String>,
    pub dns_words: DnsWords,
    /// The servers that answer challenges over HTTP, too.
    pub together: Option<SharedValues>,
}

pub struct Presented {
    places: Places,
    what: What,
}

enum What {
    Token(String),
    Name(String),
    Record { record: String, value: String },
}

pub fn challenge_type(way: AcmeChallenge) -> ChallengeType {
    match way {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
    }
}

/// `name`: with its `*.`, if it is a wildcard.
pub async fn present(
    places: &Places,
    way: AcmeChallenge,
    name: &str,
    token: &str,
    key: &KeyAuthorization,
) -> Result<Presented, Failure> {
    let what = match way {
        AcmeChallenge::Http01 => {
            places.challenges.set(token, key.as_str());
            let presented = Presented {
                places: places.clone(),
                what: What::Token(token.to_owned()),
            };
            if let Some(together) = &places.together {
                let lent = together.lend_challenge(token, key.as_str()).await;
                lent.map_err(Failure::passing)?;
            }
            return Ok(presented);
        }
        AcmeChallenge::TlsAlpn01 => {
            let (certificate, own_key) = identifying(name, key.digest().as_ref())?;
            places.installer.set_challenge(name, &certificate, &own_key);
            What::Name(name.to_owned())
        }
        AcmeChallenge::Dns01 => {
            let command = places
                .dns_command
                .as_deref()
                .ok_or_else(|| Failure::passing("there is no `dns_command`"))?;
            let (record, value) = (dns::record(name), key.dns_value());
            dns::run(
                Helper {
                    command,
                    words: places.dns_words,
                },
                Action::Set,
                &record,
                &value,
                dns::COMMAND_TIME_MAX,
            )
            .await
            .map_err(Failure::passing)?;
            What::Record { record, value }
        }
    };
    Ok(Presented {
        places: places.clone(),
        what,
    })
}

/// The certificate of RFC 8737 section 3 and its key, in DER.
fn identifying(name: &str, digest: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Failure> {
    let mut params = CertificateParams::new([name.to_owned()]).map_err(Failure::passing)?;
    params.distinguished_name = DistinguishedName::new();
    if digest.len() == 32 {
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Failure::passing)?;
    let certificate = params.self_signed(&key).map_err(Failure::passing)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}

impl Presented {
    /// True if it takes a while until the authority sees it.
    pub fn is_record(&self) -> bool {
        matches!(self.what, What::Record { .. })
    }

    /// Takes it away; the error is the record that may be left, and why.
    pub async fn withdraw(self) -> Result<(), (String, String)> {
        let (What::Record { record, value }, Some(command)) =
            (&self.what, &self.places.dns_command)
        else {
            return Ok(());
        };
        let cleared = dns::run(
            Helper {
                command,
                words: self.places.dns_words,
            },
            Action::Clear,
            record,
            value,
            dns::COMMAND_TIME_MAX,
        )
        .await;
        cleared.map_err(|reason| (record.clone(), reason))
    }
}

impl Drop for Presented {
    fn drop(&mut self) {
        match &self.what {
            What::Token(token) => self.places.challenges.clear(token),
            What::Name(name) => self.places.installer.clear_challenge(name),
            What::Record { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8737 section 3: the extension, critical, with the digest as an OCTET STRING.
    #[test]
    fn the_certificate_of_a_challenge() {
        let digest = [0xa5; 32];
        let (certificate, key) = identifying("a.example", &digest).unwrap();
        let oid_critical_and_head: &[u8] = &[
            6, 8, 0x2b, 6, 1, 5, 5, 7, 1, 0x1f, 1, 1, 0xff, 4, 0x22, 4, 0x20,
        ];
        let at = certificate
            .windows(oid_critical_and_head.len())
            .position(|window| window == oid_critical_and_head)
            .unwrap();
        assert_eq!(
            &certificate[at + oid_critical_and_head.len()..][..32],
            digest
        );
        assert!(KeyPair::try_from(key.as_slice()).is_ok());
    }
}
