//! mod_ssl on the host's side: what a handshake demands. Certificates, versions, ciphers, tickets,
//! certificates of clients.
//!
//! Difficulty: what is not said for a host is the server's, one by one. What can't be had (ciphers
//! or protocols of the last century alone) is no reason not to start: the nearest that is there,
//! which is stronger, is served with a warning.

pub mod engine;
pub mod outdated;
pub mod stapling;

use crate::{
    arguments::{first, set_flag, texts},
    modules::ssl::{self, SectionDemands},
    reading::ServerSet,
    tls::stapling::StaplingDraft,
};
use saker_apache_syntax::Node;
use saker_config::{
    cipher_lists,
    model::{
        Automatic, CertificateFiles, CipherOrder, CipherSuite, ClientCertificates, ClientChecks,
        Group, Origin, Passphrase, PassphraseDialog, Revocation, SiteTls, TlsVersion,
    },
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// SSLVerifyDepth where nothing is said.
const DEPTH: u32 = 1;

/// SSLSessionCacheTimeout where nothing is said, in seconds.
const SESSION_LIFETIME_S: u32 = 300;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsDraft {
    pub engine: Option<bool>,
    pub certificates: Vec<(PathBuf, Origin)>,
    pub keys: Vec<PathBuf>,
    pub chain: Option<PathBuf>,
    pub staples: Option<bool>,
    pub stapling: StaplingDraft,
    /// SSLPassPhraseDialog.
    pub dialog: Option<PassphraseDialog>,
    pub versions: Option<Versions>,
    pub ciphers_12: Option<Vec<CipherSuite>>,
    pub ciphers_13: Option<Vec<CipherSuite>>,
    pub honors_own_order: Option<bool>,
    pub groups: Option<Vec<Group>>,
    pub tickets: Option<bool>,
    pub session_lifetime_s: Option<u32>,
    pub client_certificates: Option<ClientCertificates>,
    pub client_ca: Option<PathBuf>,
    pub client_crl: Option<PathBuf>,
    pub client_ca_folder: Option<PathBuf>,
    pub client_crl_folder: Option<PathBuf>,
    pub hint_file: Option<PathBuf>,
    pub hint_folder: Option<PathBuf>,
    pub revocation: Option<Revocation>,
    pub depth_max: Option<u32>,
    pub strict_names: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub tls12: bool,
    pub tls13: bool,
    /// Only older ones were named; these stand in their place.
    pub is_outdated: bool,
}

impl Versions {
    pub const ALL: Versions = Versions {
        tls12: true,
        tls13: true,
        is_outdated: false,
    };
}

impl TlsDraft {
    /// Certificates go with their keys in order; one without a key has it in its own file. A host
    /// that names none has the server's (mod_ssl).
    fn files(&self, main: &TlsDraft, server: &str) -> Vec<CertificateFiles> {
        let staples = self.staples.or(main.staples) == Some(true);
        let stapling = staples.then(|| Arc::new(self.stapling.over(&main.stapling)));
        let dialog = main.dialog.clone().unwrap_or_default();
        let passphrase = |number| Passphrase {
            dialog: dialog.clone(),
            server: server.to_owned(),
            number,
        };
        let named = if self.certificates.is_empty() {
            main
        } else {
            self
        };
        let key =
            |at: usize, certificate: &PathBuf| named.keys.get(at).unwrap_or(certificate).clone();
        let files = |(at, (certificate, origin)): (usize, &(PathBuf, Origin))| {
            let ocsp = staples.then(|| beside(certificate)).flatten();
            CertificateFiles {
                chain: named.chain.clone().filter(|_| at == 0),
                passphrase: Some(Arc::new(passphrase(at))),
                stapling: stapling.clone().filter(|_| ocsp.is_none()),
                ocsp,
                ..CertificateFiles::new(certificate.clone(), key(at, certificate), origin.clone())
            }
        };
        named.certificates.iter().enumerate().map(files).collect()
    }

    /// SSLVerifyDepth of a host.
    pub fn client_depth_max(&self, main: &TlsDraft) -> u32 {
        self.depth_max.or(main.depth_max).unwrap_or(DEPTH)
    }

    /// The TLS settings of a host's handshake. `sections`: certificates that its sections demand of
    /// clients. `server`: name and port.
    pub fn site(&self, main: &TlsDraft, sections: SectionDemands, server: &str) -> SiteTls {
        fn or<T: Clone>(own: &Option<T>, outer: &Option<T>) -> Option<T> {
            own.as_ref().or(outer.as_ref()).cloned()
        }
        let versions = or(&self.versions, &main.versions).unwrap_or(Versions::ALL);
        let (of_12, of_13) = (
            or(&self.ciphers_12, &main.ciphers_12),
            or(&self.ciphers_13, &main.ciphers_13),
        );
        let demand = or(&self.client_certificates, &main.client_certificates).unwrap_or_default();
        // Where the handshake does not judge for the host, it judges for the section that takes the
        // longest chains; each has its own bound.
        let is_for_sections = demand == ClientCertificates::Off && sections.asks;
        let depth = self.client_depth_max(main);
        let checks = ClientChecks {
            ca_folder: or(&self.client_ca_folder, &main.client_ca_folder),
            quiet_ca: None,
            crl_folder: or(&self.client_crl_folder, &main.client_crl_folder),
            hint_file: or(&self.hint_file, &main.hint_file),
            hint_folder: or(&self.hint_folder, &main.hint_folder),
            revocation: or(&self.revocation, &main.revocation).unwrap_or(Revocation::Off),
            depth_max: Some(if is_for_sections {
                sections.depth_max.unwrap_or(depth).max(depth)
            } else {
                depth
            }),
        };
        let has_clients = sections.asks || demand != ClientCertificates::Off;
        SiteTls {
            certificates: self.files(main, server),
            automatic: Automatic::Off,
            minimum_version: if versions.tls12 {
                TlsVersion::Tls12
            } else {
                TlsVersion::Tls13
            },
            without_tls13: !versions.tls13,
            ciphers: cipher_lists::together(of_12.as_deref(), of_13.as_deref()),
            cipher_order: match or(&self.honors_own_order, &main.honors_own_order) {
                None => CipherOrder::Own,
                Some(true) => CipherOrder::OwnAlways,
                Some(false) => CipherOrder::Client,
            },
            groups: or(&self.groups, &main.groups).unwrap_or_default(),
            client_certificates: match demand {
                ClientCertificates::Off if sections.takes_unknown => {
                    ClientCertificates::OptionalNoAuthority
                }
                ClientCertificates::Off if sections.asks => ClientCertificates::Asked,
                demand => demand,
            },
            client_ca: or(&self.client_ca, &main.client_ca).filter(|_| has_clients),
            client_crl: or(&self.client_crl, &main.client_crl)
                .filter(|_| has_clients)
                .into_iter()
                .collect(),
            client_checks: if has_clients {
                checks
            } else {
                ClientChecks::default()
            },
            rejects_handshakes: false,
            handshake_certificates: Box::default(),
            without_tickets: or(&self.tickets, &main.tickets) == Some(false),
            ticket_lifetime_s: Some(
                or(&self.session_lifetime_s, &main.session_lifetime_s)
                    .unwrap_or(SESSION_LIFETIME_S),
            ),
        }
    }
}

/// The file of a fetched response beside the certificate, under its name and `.ocsp`.
fn beside(certificate: &Path) -> Option<PathBuf> {
    let mut name = certificate.as_os_str().to_owned();
    name.push(".ocsp");
    Some(PathBuf::from(name))
        .filter(|path| saker_net::privileged::metadata(path).is_ok_and(|found| found.is_file()))
}

/// `builtin`, `exec:program`, `|program arguments` (httpd 2.4 manual).
fn dialog(text: &str, root: &Path) -> Result<PassphraseDialog, String> {
    let words = |text: &str| -> Vec<String> {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if let Some(program) = words.first_mut() {
            *program = root.join(&*program).to_string_lossy().into_owned();
        }
        words
    };
    let made = match text {
        text if text.eq_ignore_ascii_case("builtin") => return Ok(PassphraseDialog::Terminal),
        text if text.starts_with('|') => PassphraseDialog::Pipe(words(&text[1..])),
        text => match text.strip_prefix("exec:") {
            Some(program) => PassphraseDialog::Program(words(program)),
            None => PassphraseDialog::Program(words(text)),
        },
    };
    match &made {
        PassphraseDialog::Program(words) | PassphraseDialog::Pipe(words)
            if words
                .first()
                .is_none_or(|program| !Path::new(program).is_file()) =>
        {
            Err(format!(
                "SSLPassPhraseDialog: file '{}' does not exist",
                words.first().map_or("", String::as_str)
            ))
        }
        _ => Ok(made),
    }
}

macro_rules! path {
    ($($name:literal: $field:ident,)*) => {
        &[$(($name, |node, tls, root| {
            tls.$field = first(node).map(|path| root.join(path));
            Ok(())
        }),)*]
    };
}

const PATHS: &[(&str, ServerSet<TlsDraft>)] = path! {
    "SSLCertificateChainFile": chain,
    "SSLCACertificateFile": client_ca,
    "SSLCACertificatePath": client_ca_folder,
    "SSLCARevocationFile": client_crl,
    "SSLCARevocationPath": client_crl_folder,
    "SSLCADNRequestFile": hint_file,
    "SSLCADNRequestPath": hint_folder,
};

const OTHERS: &[(&str, ServerSet<TlsDraft>)] = &[
    ("SSLCertificateFile", |node, tls, root| {
        tls.certificates
            .extend(first(node).map(|path| (root.join(path), node.origin.clone())));
        Ok(())
    }),
    ("SSLCertificateKeyFile", |node, tls, root| {
        tls.keys.extend(first(node).map(|path| root.join(path)));
        Ok(())
    }),
    ("SSLVerifyClient", |node, tls, _| {
        tls.client_certificates = Some(ssl::demand(node)?);
        Ok(())
    }),
    ("SSLVerifyDepth", |node, tls, _| {
        tls.depth_max = Some(ssl::depth(node)?);
        Ok(())
    }),
    ("SSLCARevocationCheck", |node, tls, _| {
        tls.revocation = Some(revocation(node)?);
        Ok(())
    }),
    ("SSLProtocol", set_protocol),
    ("SSLCipherSuite", |node, tls, _| {
        set_ciphers(tls, &texts(node))?;
        Ok(())
    }),
    ("SSLHonorCipherOrder", |node, tls, _| {
        set_flag(node, &mut tls.honors_own_order)
    }),
    ("SSLSessionTickets", |node, tls, _| {
        set_flag(node, &mut tls.tickets)
    }),
    ("SSLPassPhraseDialog", |node, tls, root| {
        tls.dialog = Some(dialog(&first(node).unwrap_or_default(), root)?);
        Ok(())
    }),
    ("SSLUseStapling", |node, tls, _| {
        set_flag(node, &mut tls.staples)
    }),
    ("SSLStrictSNIVHostCheck", |node, tls, _| {
        set_flag(node, &mut tls.strict_names)
    }),
    ("SSLSessionCacheTimeout", |node, tls, _| {
        let word = first(node).unwrap_or_default();
        tls.session_lifetime_s = Some(
            word.parse()
                .map_err(|_| "SSLSessionCacheTimeout: Invalid argument".to_owned())?,
        );
        Ok(())
    }),
    ("SSLOpenSSLConfCmd", |node, tls, _| {
        let words = texts(node);
        let (command, value) = (
            words.first().map(String::as_str).unwrap_or_default(),
            words.get(1).map(String::as_str).unwrap_or_default(),
        );
        openssl_command(tls, command, value)
    }),
];

/// Directives and their setters, without those of stapling.
pub fn setters() -> impl Iterator<Item = &'static (&'static str, ServerSet<TlsDraft>)> {
    PATHS.iter().chain(OTHERS)
}

fn set_ciphers(tls: &mut TlsDraft, words: &[String]) -> Result<(), String> {
    match cipher_lists::read(words)? {
        Some(read) if read.version == TlsVersion::Tls13 => tls.ciphers_13 = read.suites,
        Some(read) => tls.ciphers_12 = read.suites,
        None => tls.ciphers_12 = None,
    }
    Ok(())
}

/// `none|leaf|chain [no_crl_for_cert_ok]`
pub fn revocation(node: &Node) -> Result<Revocation, String> {
    let text = String::from_utf8_lossy(node.argument_text()).to_ascii_lowercase();
    let mut words = text.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let takes_unlisted = match words.next() {
        None => false,
        Some("no_crl_for_cert_ok") => true,
        Some(word) => {
            return Err(format!(
                "{}: unrecognized flag '{word}'",
                node.canonical_name()
            ));
        }
    };
    match kind {
        "none" => Ok(Revocation::Off),
        "leaf" => Ok(Revocation::Leaf { takes_unlisted }),
        "chain" => Ok(Revocation::Chain { takes_unlisted }),
        _ => Err(format!("{}: Invalid argument", node.canonical_name())),
    }
}

/// As Apache reads it: a word without a sign forgets what stands before it.
pub fn read_versions(node: &Node) -> Result<Versions, String> {
    let (mut tls12, mut tls13, mut older) = (false, false, 0u8);
    for word in String::from_utf8_lossy(node.argument_text()).split_whitespace() {
        let lower = word.to_ascii_lowercase();
        let (sign, name) = match lower.as_bytes().first() {
            Some(sign @ (b'+' | b'-')) => (Some(*sign == b'+'), lower.get(1..).unwrap_or_default()),
            _ => (None, lower.as_str()),
        };
        let (is_12, is_13, named) = match name {
            "all" => (true, true, 0b111),
            "tlsv1.2" => (true, false, 0),
            "tlsv1.3" => (false, true, 0),
            "sslv3" => (false, false, 0b1),
            "tlsv1" => (false, false, 0b10),
            "tlsv1.1" => (false, false, 0b100),
            "sslv2" if sign == Some(false) => (false, false, 0),
            _ => {
                return Err(format!(
                    "{}: Illegal protocol '{word}'",
                    node.canonical_name()
                ));
            }
        };
        match sign {
            Some(true) => (tls12, tls13, older) = (tls12 || is_12, tls13 || is_13, older | named),
            Some(false) => {
                (tls12, tls13, older) = (tls12 && !is_12, tls13 && !is_13, older & !named)
            }
            None => (tls12, tls13, older) = (is_12, is_13, named),
        }
    }
    match tls12 || tls13 || older == 0 {
        true => possible(Versions {
            tls12,
            tls13,
            is_outdated: false,
        }),
        false => Ok(Versions {
            is_outdated: true,
            ..Versions::ALL
        }),
    }
}

fn set_protocol(node: &Node, tls: &mut TlsDraft, _: &Path) -> Result<(), String> {
    tls.versions = Some(read_versions(node)?);
    Ok(())
}

fn set_versions(tls: &mut TlsDraft, versions: Versions) -> Result<(), String> {
    tls.versions = Some(possible(versions)?);
    Ok(())
}

fn possible(versions: Versions) -> Result<Versions, String> {
    if !versions.tls12 && !versions.tls13 {
        return Err("SSLProtocol: No SSL protocols available [hint: SSLProtocol]: Saker speaks TLSv1.2 and TLSv1.3".into());
    }
    Ok(versions)
}

/// Commands of SSL_CONF_cmd(3) that have a counterpart here; the others are about what is not
/// there, or decided already.
fn openssl_command(tls: &mut TlsDraft, command: &str, value: &str) -> Result<(), String> {
    let versions = tls.versions.unwrap_or(Versions::ALL);
    let is_13 = value.eq_ignore_ascii_case("TLSv1.3");
    match command.to_ascii_lowercase().as_str() {
        "groups" | "curves" => {
            tls.groups = Some(cipher_lists::groups(value)).filter(|groups| !groups.is_empty())
        }
        "cipherstring" => set_ciphers(tls, &[value.to_owned()])?,
        "ciphersuites" => set_ciphers(tls, &["TLSv1.3".to_owned(), value.to_owned()])?,
        "minprotocol" if is_13 => {
            return set_versions(
                tls,
                Versions {
                    tls12: false,
                    ..versions
                },
            );
        }
        "maxprotocol" if value.eq_ignore_ascii_case("TLSv1.2") => {
            return set_versions(
                tls,
                Versions {
                    tls13: false,
                    ..versions
                },
            );
        }
        "maxprotocol" if is_outdated(value) => {
            tls.versions = Some(Versions {
                is_outdated: true,
                ..Versions::ALL
            })
        }
        "options" => value
            .split([',', ' '])
            .for_each(|option| option_word(tls, option)),
        "minprotocol"
        | "maxprotocol"
        | "protocol"
        | "signaturealgorithms"
        | "clientsignaturealgorithms"
        | "dhparameters"
        | "ecdhparameters"
        | "encryptthenmac"
        | "recordpadding"
        | "numtickets" => {}
        _ => {
            return Err(format!(
                "SSLOpenSSLConfCmd: '{command}' has no counterpart in Saker: leave it out"
            ));
        }
    }
    Ok(())
}

/// A version that Saker does not speak.
fn is_outdated(value: &str) -> bool {
    ["SSLv3", "TLSv1", "TLSv1.0", "TLSv1.1"]
        .iter()
        .any(|known| value.eq_ignore_ascii_case(known))
}

fn option_word(tls: &mut TlsDraft, option: &str) {
    let (on, name) = option
        .strip_prefix('-')
        .map_or((true, option.trim_start_matches('+')), |name| (false, name));
    match name.to_ascii_lowercase().as_str() {
        "sessionticket" => tls.tickets = Some(on),
        "serverpreference" => tls.honors_own_order = Some(on),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
