//! TLS to directories: from the first byte (`ldaps:`), or begun within LDAP (StartTLS, RFC 4511
//! section 4.14).
//!
//! `ldaps://host`, or `ldap://host?starttls=yes`. As other clients of LDAP do, the directory's
//! certificate is looked at in any case, unless the URL says that it is not to be.

use crate::{
    Failure,
    tls::{self, Known, Wishes, Word},
};
use rustls::{
    ClientConfig, Error, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
};
use saker_tls_verifier::{CertificatePolicy, Presented, ServerVerifier};
use std::{fmt::Display, path::Path, sync::Arc};

const LDAP: Known = &[
    ("starttls", Word::StartTls),
    ("ssl-mode", Word::Mode),
    ("sslmode", Word::Mode),
    ("ssl-ca", Word::Authority),
    ("sslca", Word::Authority),
    ("ssl-cert", Word::Certificate),
    ("sslcert", Word::Certificate),
    ("ssl-key", Word::Key),
    ("sslkey", Word::Key),
];

/// Checks made on a directory's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Not at all.
    Away,
    Chain,
    ChainAndName,
}

#[derive(Debug)]
pub struct LdapTls {
    pub starts_later: bool,
    look: Look,
    wishes: Wishes,
}

impl LdapTls {
    /// `None`: in the clear.
    pub fn of(url: &str) -> Result<Option<LdapTls>, Failure> {
        let wishes = Wishes::of(url, LDAP)?;
        let refused = |what: String| Err(Failure(what));
        let look = match wishes
            .mode
            .as_deref()
            .map(str::to_ascii_uppercase)
            .as_deref()
        {
            None => Some(Look::ChainAndName),
            Some("DISABLED") => None,
            Some("REQUIRED") => Some(Look::Away),
            Some("VERIFY_CA") => Some(Look::Chain),
            Some("VERIFY_IDENTITY") => Some(Look::ChainAndName),
            Some(_) => {
                return refused(
                    "`ssl-mode` is DISABLED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY".into(),
                );
            }
        };
        let starts = match wishes.starts.as_deref() {
            None => None,
            Some("yes" | "true" | "1" | "") => Some(true),
            Some("no" | "false" | "0") => Some(false),
            Some(_) => return refused("`starttls` is yes or no".into()),
        };
        let scheme = url.split(':').next().unwrap_or_default();
        // Who says how a certificate is looked at wants one.
        let is_wanted = starts
            .unwrap_or(scheme == "ldaps" || wishes.mode.is_some() || !wishes.files.is_empty());
        match (scheme, look) {
            ("ldaps", None) => {
                refused("ldaps: is TLS, and `ssl-mode` says that there is none".into())
            }
            ("ldaps", _) if starts == Some(true) => {
                refused("ldaps: is TLS from the first byte on; `starttls` belongs to ldap:".into())
            }
            ("ldaps", Some(look)) => Ok(Some(LdapTls {
                starts_later: false,
                look,
                wishes,
            })),
            ("ldap", None) if starts == Some(true) => {
                refused("`starttls`, and `ssl-mode` says that there is no TLS".into())
            }
            ("ldap", Some(_))
                if starts == Some(false)
                    && wishes
                        != (Wishes {
                            starts: wishes.starts.clone(),
                            ..Wishes::default()
                        }) =>
            {
                refused("without `starttls` there is no certificate to look at".into())
            }
            ("ldap", Some(look)) if is_wanted => Ok(Some(LdapTls {
                starts_later: true,
                look,
                wishes,
            })),
            ("ldap", _) => Ok(None),
            (_, Some(_)) if is_wanted => refused("over a Unix socket there is no TLS".into()),
            _ => Ok(None),
        }
    }

    /// Files are read anew each time, since certificates are renewed.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let chain = match self.look {
            Look::Away => None,
            _ => {
                let roots = Arc::new(self.roots()?);
                Some(
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                        .build()
                        .map_err(failed)?,
                )
            }
        };
        let policy = DirectoryPolicy {
            chain,
            checks_name: self.look == Look::ChainAndName,
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(ServerVerifier::new(policy, provider));
        let config = match (&self.wishes.certificate, &self.wishes.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let key =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
                builder.with_client_auth_cert(chain, key).map_err(failed)?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(Failure("`ssl-cert` and `ssl-key` belong together".into())),
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, Failure> {
        let Some(path) = &self.wishes.authority else {
            return Ok(tls::system_roots());
        };
        let mut roots = RootCertStore::empty();
        for one in certificates(path)? {
            roots.add(one).map_err(|error| unreadable(path, &error))?;
        }
        Ok(roots)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let all: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match all.map_err(|error| unreadable(path, &error))? {
        all if all.is_empty() => Err(unreadable(path, &"there is no certificate in it")),
        all => Ok(all),
    }
}

fn unreadable(path: &Path, why: &dyn Display) -> Failure {
    Failure(format!("{}: {why}", path.display()))
}

fn failed(error: impl Display) -> Failure {
    Failure(error.to_string())
}

/// Policy for the certificates of directories.
#[derive(Debug)]
struct DirectoryPolicy {
    /// `None` if any certificate is accepted.
    chain: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
}

impl CertificatePolicy for DirectoryPolicy {
    fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
        let Some(chain) = &self.chain else {
            return Ok(());
        };
        match presented.verify_chain(chain, presented.now)?.name_error {
            Some(error) if self.checks_name => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_asks_for() {
        let of =
            |url: &str| LdapTls::of(url).map(|tls| tls.map(|tls| (tls.starts_later, tls.look)));
        for url in [
            "ldap://h",
            "ldap://h:389/dc=test?cn?sub",
            "ldapi://%2Fs",
            "ldap://h?starttls=no",
            "ldap://h?ssl-mode=DISABLED",
        ] {
            assert_eq!(of(url), Ok(None), "{url}");
        }
        for (url, starts_later, look) in [
            ("ldaps://h", false, Look::ChainAndName),
            ("ldaps://h:1636/?ssl-mode=required", false, Look::Away),
            (
                "ldaps://h?sslca=/ca.pem&sslmode=VERIFY_CA",
                false,
                Look::Chain,
            ),
            ("ldap://h?starttls=yes", true, Look::ChainAndName),
            ("ldap://h?starttls", true, Look::ChainAndName),
            ("ldap://h/?ssl-mode=REQUIRED", true, Look::Away),
            ("ldap://h?ssl-ca=/ca.pem", true, Look::ChainAndName),
        ] {
            assert_eq!(of(url), Ok(Some((starts_later, look))), "{url}");
        }
        for url in [
            "ldaps://h?ssl-mode=DISABLED",
            "ldaps://h?starttls=yes",
            "ldap://h?starttls=perhaps",
            "ldap://h?starttls=yes&ssl-mode=DISABLED",
            "ldap://h?starttls=no&ssl-ca=/ca.pem",
            "ldap://h?ssl-mode=PREFERRED",
            "ldap://h?start_tls=yes",
            "ldapi://%2Fs?starttls=yes",
            "ldapi://%2Fs?ssl-mode=REQUIRED",
        ] {
            assert!(of(url).is_err(), "{url}");
        }
    }
}
