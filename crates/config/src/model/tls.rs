//! TLS: what a listener, a site and the whole server say about it.

use super::Origin;
use std::{path::PathBuf, sync::Arc};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    #[default]
    Tls12,
    Tls13,
}

/// Cipher suites by their IANA names' essentials; those of 1.3 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    Tls13Aes128Gcm,
    Tls13Aes256Gcm,
    Tls13ChaCha20,
    EcdheEcdsaAes128Gcm,
    EcdheEcdsaAes256Gcm,
    EcdheEcdsaChaCha20,
    EcdheRsaAes128Gcm,
    EcdheRsaAes256Gcm,
    EcdheRsaChaCha20,
}

impl CipherSuite {
    pub fn version(self) -> TlsVersion {
        match self {
            CipherSuite::Tls13Aes128Gcm
            | CipherSuite::Tls13Aes256Gcm
            | CipherSuite::Tls13ChaCha20 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        }
    }
}

/// Key exchange groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    X25519MlKem768,
    X25519,
    Secp256r1,
    Secp384r1,
}

/// A certificate chain with its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Leaf first. May hold the key too.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// An OCSP response (DER) to staple.
    pub ocsp: Option<PathBuf>,
    /// What follows the certificate in its chain, where that stands in a file of its own; only
    /// Apache's configuration has such.
    pub chain: Option<PathBuf>,
    /// Who knows the passphrase of an encrypted key.
    pub passphrase: Option<Arc<Passphrase>>,
    /// OCSP responses are fetched and stapled.
    pub stapling: Option<Arc<Stapling>>,
    pub origin: Origin,
}

impl CertificateFiles {
    pub fn new(certificate: PathBuf, key: PathBuf, origin: Origin) -> CertificateFiles {
        CertificateFiles {
            certificate,
            key,
            ocsp: None,
            chain: None,
            passphrase: None,
            stapling: None,
            origin,
        }
    }
}

/// Only Apache's configuration has such.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Passphrase {
    pub dialog: PassphraseDialog,
    /// As who is asked is told: `name:port`.
    pub server: String,
    /// Among the server's keys, from 0.
    pub number: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PassphraseDialog {
    #[default]
    Terminal,
    /// A program with its arguments; it is told more of them.
    Program(Vec<String>),
    /// A program that reads prompts.
    Pipe(Vec<String>),
}

/// On which terms responses are fetched; only Apache's configuration has such.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stapling {
    /// In place of the one that the certificate names.
    pub responder: Option<String>,
    pub timeout_ms: u64,
    /// Clocks may differ by so much.
    pub skew_s: u64,
    /// Older responses are not shown.
    pub age_max_s: Option<u64>,
    /// Of responses that don't say how long they hold.
    pub lifetime_s: u64,
    /// Between two attempts that fail.
    pub retry_s: u64,
}

impl Default for Stapling {
    fn default() -> Stapling {
        Stapling {
            responder: None,
            timeout_ms: 10_000,
            skew_s: 300,
            age_max_s: None,
            lifetime_s: 3600,
            retry_s: 600,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    #[default]
    Off,
    /// Asked for; a connection without one is served, one with a bad one is not.
    Optional,
    /// The same, and nobody has to vouch for it; only Apache's configuration has such.
    OptionalNoAuthority,
    /// Asked for, because parts of the site may require one: one that isn't good counts as none;
    /// only Apache's configuration has such.
    Asked,
    Required,
}

/// Whose order of ciphers holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CipherOrder {
    /// The server's, unless the client says by its own that it has no AES in hardware and the
    /// configuration names no ciphers.
    #[default]
    Own,
    OwnAlways,
    Client,
}

/// Which certificates of a chain are looked up in revocation lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Revocation {
    Off,
    /// Those that no list is for pass if `takes_unlisted`.
    Leaf {
        takes_unlisted: bool,
    },
    Chain {
        takes_unlisted: bool,
    },
}

impl Revocation {
    pub fn takes_unlisted(self) -> bool {
        matches!(
            self,
            Revocation::Leaf {
                takes_unlisted: true
            } | Revocation::Chain {
                takes_unlisted: true
            }
        )
    }
}

impl Default for Revocation {
    fn default() -> Revocation {
        Revocation::Chain {
            takes_unlisted: false,
        }
    }
}

/// More about certificates of clients; only Apache's configuration says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientChecks {
    /// Authorities in a folder with names by hash, and revocation lists.
    pub ca_folder: Option<PathBuf>,
    pub crl_folder: Option<PathBuf>,
    /// Authorities whose names clients are told; none: those that are trusted.
    pub hint_file: Option<PathBuf>,
    pub hint_folder: Option<PathBuf>,
    pub revocation: Revocation,
    /// Of the chain: 1 is a certificate that an authority has signed itself.
    pub depth_max: Option<u32>,
}

/// Which automatic certificates a site gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Automatic {
    #[default]
    Off,
    /// For the site's exact names (and its wildcards, where a DNS command is set).
    On,
    /// Made at the first handshake for a name, if the ask rule allows it.
    OnDemand,
    /// Signed by this machine's own authority, which is kept in the state folder.
    Local,
}

/// What one site says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTls {
    /// RSA and ECDSA may stand side by side.
    pub certificates: Vec<CertificateFiles>,
    pub automatic: Automatic,
    pub minimum_version: TlsVersion,
    /// TLS 1.2 alone; only Apache's configuration says it.
    pub without_tls13: bool,
    pub cipher_order: CipherOrder,
    /// In order of preference; empty: the default ones. Where it is not empty it has some of each
    /// version that is allowed.
    pub ciphers: Vec<CipherSuite>,
    /// In order of preference; empty: the default ones.
    pub groups: Vec<Group>,
    pub client_certificates: ClientCertificates,
    /// Authorities (PEM) that client certificates are checked against.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists (PEM) for client certificates.
    pub client_crl: Vec<PathBuf>,
    pub client_checks: ClientChecks,
    pub without_tickets: bool,
    /// How long a session may go on by a ticket, where that is shorter than the life of the
    /// server's keys.
    pub ticket_lifetime_s: Option<u32>,
}

/// What a listener says; present where it speaks TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerTls {
    /// Refuse handshakes without, or with an unknown, server name instead of showing the first
    /// certificate.
    pub strict_sni: bool,
}

/// An authority's directory (RFC 8555 section 7.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeDirectory {
    pub url: String,
    pub external_account: Option<ExternalAccount>,
}

/// A binding to an account that the authority knows already (RFC 8555 section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub key_id: String,
    /// The MAC key, decoded.
    pub hmac_key: Vec<u8>,
}

/// Without the secret.
impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A file over plain HTTP (RFC 8555 section 8.3).
    Http01,
    /// A certificate over TLS (RFC 8737).
    TlsAlpn01,
    /// A record in the zone (RFC 8555 section 8.4); the only one for wildcards.
    Dns01,
}

/// How the command for DNS-01 is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsWords {
    /// `set` or `clear`, the record's name, its value.
    #[default]
    Own,
    /// `setup` or `teardown`, the domain's name, the record's value: as mod_md calls it.
    ModMd,
}

/// `[acme]`: automatic certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Tried in order.
    pub directories: Vec<AcmeDirectory>,
    pub email: Option<String>,
    /// In order of preference. Without a DNS command, DNS-01 is not among them.
    pub challenges: Vec<AcmeChallenge>,
    /// Command for DNS-01: called with `set` or `clear`, the record's name and its value.
    pub dns_command: Option<String>,
    /// What else it is told.
    pub dns_words: DnsWords,
    /// Certificates for these names besides those of sites, which then are not ordered for their
    /// sites alone. Only Apache's configuration has such.
    pub certificates: Vec<Vec<String>>,
    /// How long a record may take to reach the zone's servers.
    pub dns_wait_ms: u64,
    /// URL asked, with `?domain=NAME`, before a certificate is made on demand; 200 allows.
    pub ask: Option<String>,
    /// Authorities (PEM) that the directory's own certificate is checked against, besides the
    /// system's.
    pub directory_ca: Option<PathBuf>,
    /// Where accounts and certificates are kept; `None`: in the state directory. Only `saker serve`
    /// sets it.
    pub folder: Option<PathBuf>,
}

impl Acme {
    pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
    pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
    pub const ZERO_SSL: &str = "https://acme.zerossl.com/v2/DV90";

    /// The directory of an authority that has a name here.
    pub fn directory_of(name: &str) -> Option<&'static str> {
        match name {
            "letsencrypt" => Some(Acme::LETS_ENCRYPT),
            "letsencrypt-staging" => Some(Acme::LETS_ENCRYPT_STAGING),
            "zerossl" => Some(Acme::ZERO_SSL),
            _ => None,
        }
    }
}

impl Default for Acme {
    fn default() -> Self {
        Acme {
            directories: vec![AcmeDirectory {
                url: Acme::LETS_ENCRYPT.into(),
                external_account: None,
            }],
            email: None,
            challenges: vec![AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01],
            dns_command: None,
            dns_words: DnsWords::default(),
            certificates: Vec::new(),
            dns_wait_ms: 30_000,
            ask: None,
            directory_ca: None,
            folder: None,
        }
    }
}

/// `[tls]` and `[acme]`: what holds for the whole process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// Session ticket keys (48 or 80 random bytes each) shared between machines; the first makes
    /// tickets, all open them. Empty: own keys.
    pub ticket_keys: Vec<PathBuf>,
    /// Own ticket keys change this often; the last is kept as long again.
    pub ticket_rotation_ms: u64,
    pub acme: Acme,
}

impl Default for ServerTls {
    fn default() -> Self {
        ServerTls {
            ticket_keys: Vec::new(),
            ticket_rotation_ms: 12 * 3_600_000,
            acme: Acme::default(),
        }
    }
}
