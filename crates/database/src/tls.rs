//! TLS to databases: the words of it in URLs, the authorities that are trusted, and what a failure
//! means.
//!
//! The words are those that each database's own clients have. Difficulty: a word that is not known
//! must not be passed over, since what is then sent in the clear was meant to be encrypted.

use crate::Failure;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{CertificateError, RootCertStore, pki_types::CertificateDer};
use std::{io, path::PathBuf, sync::OnceLock};
use url::Url;

/// The meaning of a word, whatever the database calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Mode,
    Authority,
    Certificate,
    Key,
    StartTls,
}

pub type Known = &'static [(&'static str, Word)];

/// TLS parameters of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    pub mode: Option<String>,
    pub starts: Option<String>,
    pub authority: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// All files, with the words that named them.
    pub files: Vec<(String, PathBuf)>,
}

impl Wishes {
    /// `known`: the words that this kind of database has.
    pub fn of(url: &str, known: Known) -> Result<Wishes, Failure> {
        let url = Url::parse(url).map_err(|error| Failure(error.to_string()))?;
        let mut wishes = Wishes::default();
        for (name, value) in url.query_pairs() {
            match known.iter().find(|(one, _)| *one == name) {
                Some((_, word)) => wishes.add(*word, &name, value.into_owned()),
                None if is_of_tls(&name) => {
                    let known = known
                        .iter()
                        .map(|(name, _)| *name)
                        .collect::<Vec<_>>()
                        .join(", ");
                    return Err(Failure(format!(
                        "`{name}` is no word of {}: URLs; {known} are",
                        url.scheme()
                    )));
                }
                None => {}
            }
        }
        Ok(wishes)
    }

    fn add(&mut self, word: Word, name: &str, value: String) {
        let slot = match word {
            Word::Mode => return self.mode = Some(value),
            Word::StartTls => return self.starts = Some(value),
            Word::Authority => &mut self.authority,
            Word::Certificate => &mut self.certificate,
            Word::Key => &mut self.key,
        };
        let path = PathBuf::from(value);
        self.files.push((name.into(), path.clone()));
        *slot = Some(path);
    }
}

fn is_of_tls(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("ssl") || name.contains("tls")
}

fn system() -> &'static [CertificateDer<'static>] {
    static SYSTEM: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let all = rustls_native_certs::load_native_certs().certs;
        // What is none of an authority that rustls can use would make drivers refuse all of them.
        all.into_iter()
            .filter(|one| RootCertStore::empty().add(one.clone()).is_ok())
            .collect()
    })
}

/// The authorities that the system trusts.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system().iter().cloned());
    roots
}

/// The same as text, for drivers (RFC 7468).
pub fn system_pem() -> Vec<u8> {
    let mut pem = String::new();
    for one in system() {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(one);
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().copied().map(char::from));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem.into_bytes()
}

/// Advice for a failed handshake. `None` if the error speaks for itself, or is not about TLS.
pub fn help(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(fault) = error else {
        return None;
    };
    Some(match fault {
        CertificateError::UnknownIssuer => {
            "its certificate is of no authority that is trusted here; `ssl-ca` (PostgreSQL: `sslrootcert`) names the file of the right one"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the host of the URL has to be a name that the certificate has"
        }
        fault if format!("{fault:?}").contains("CaUsedAsEndEntity") => {
            "it shows the certificate of an authority as its own; it needs one that the authority signed, without CA:TRUE"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject;

    const KNOWN: Known = &[("ssl-mode", Word::Mode), ("ssl-ca", Word::Authority)];

    #[test]
    fn words_of_a_url() {
        let of = |url: &str| Wishes::of(url, KNOWN);
        let wishes =
            of("mysql://u:p@h/d?charset=utf8&ssl-mode=REQUIRED&ssl-ca=%2Fetc%2Fca%201.pem")
                .unwrap();
        assert_eq!(
            (wishes.mode.as_deref(), wishes.authority),
            (Some("REQUIRED"), Some("/etc/ca 1.pem".into()))
        );
        assert_eq!(
            wishes.files,
            [("ssl-ca".to_owned(), PathBuf::from("/etc/ca 1.pem"))]
        );
        assert_eq!(of("mysql://h/?charset=utf8"), Ok(Wishes::default()));
        for word in ["ssl_mode", "useSSL", "tls"] {
            let said = of(&format!("mysql://u:secret@h/?{word}=true"))
                .unwrap_err()
                .to_string();
            assert_eq!(
                said,
                format!("`{word}` is no word of mysql: URLs; ssl-mode, ssl-ca are")
            );
        }
    }

    #[test]
    fn authorities_of_the_system_as_text() {
        let pem = system_pem();
        let read: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(read, system());
        assert_eq!(system_roots().len(), read.len());
    }
}
