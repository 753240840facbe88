//! TLS settings of a listener, a site and the whole server.
//!
//! Called by: the crates `tls` and `acme`.
//! Out of scope: reading certificates and keys.

use super::Origin;
use std::{fmt, path::PathBuf, sync::Arc};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    #[default]
    Tls12,
    Tls13,
}

/// Cipher suites, by the essential parts of their IANA names; those of TLS 1.3 first.
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

/// A certificate chain with its private key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Leaf first. May hold the key too.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// An OCSP response (DER) to staple.
    pub ocsp: Option<PathBuf>,
    /// Rest of the chain, if in a separate file; set by Apache's configuration only.
    pub chain: Option<PathBuf>,
    /// Source of the passphrase of an encrypted key.
    pub passphrase: Option<Arc<Passphrase>>,
    /// Fetch and staple OCSP responses.
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

/// Function of a server name.
pub type ServerNameValue = dyn Fn(&str) -> Vec<u8> + Send + Sync;

/// A value that depends on the server name of a handshake (empty: the client sent none).
#[derive(Clone)]
pub struct OfServerName {
    /// As the configuration has it.
    pub source: Box<str>,
    pub value: Arc<ServerNameValue>,
}

impl fmt::Debug for OfServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// Values of another configuration are others: tables that they look into may differ.
impl PartialEq for OfServerName {
    fn eq(&self, other: &OfServerName) -> bool {
        Arc::ptr_eq(&self.value, &other.value)
    }
}

impl Eq for OfServerName {}

/// A certificate that is found in the handshake: the path of a file, or `data:` and PEM. Its files are
/// read with the rights of the server's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeCertificate {
    pub certificate: OfServerName,
    pub key: OfServerName,
    /// The directory of relative paths.
    pub base: PathBuf,
    /// Directories in which the files can be.
    pub folders: Vec<PathBuf>,
}

/// Passphrase of an encrypted key. Set by Apache's and nginx's configurations only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Passphrase {
    pub dialog: PassphraseDialog,
    /// Name passed to the dialog: `name:port`.
    pub server: String,
    /// Among the server's keys, from 0.
    pub number: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PassphraseDialog {
    #[default]
    Terminal,
    /// A program with its arguments; more are appended.
    Program(Vec<String>),
    /// A program that reads prompts.
    Pipe(Vec<String>),
    /// A file with passphrases, one a line, that are tried in turn.
    File(PathBuf),
}

/// Settings of OCSP stapling; set by Apache's configuration only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stapling {
    /// Overrides the URL in the certificate.
    pub responder: Option<String>,
    pub timeout_ms: u64,
    /// Tolerated clock difference.
    pub skew_s: u64,
    /// Maximum age of a stapled response.
    pub age_max_s: Option<u64>,
    /// Lifetime of responses without one.
    pub lifetime_s: u64,
    /// Interval between attempts after a failure.
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
    /// Requested; a client without one is served, one with an invalid certificate is not.
    Optional,
    /// The same, but without verification of the issuer; set by Apache's and nginx's configurations only.
    OptionalNoAuthority,
    /// Requested, because rules may require one: an invalid one counts as none; set by Apache's and
    /// nginx's configurations only.
    Asked,
    Required,
}

/// Whose cipher preference wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CipherOrder {
    /// The server's, unless the client's order shows that it has no AES hardware and the
    /// configuration lists no ciphers.
    #[default]
    Own,
    OwnAlways,
    Client,
}

/// Which certificates of a chain are checked against revocation lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Revocation {
    Off,
    /// Those without a list pass if `takes_unlisted`.
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

/// Further checks of client certificates; set by Apache's configuration only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientChecks {
    /// Directories of CA certificates (by hash) and of revocation lists.
    pub ca_folder: Option<PathBuf>,
    /// A file of further CA certificates, whose names are not sent to clients.
    pub quiet_ca: Option<PathBuf>,
    pub crl_folder: Option<PathBuf>,
    /// CA names sent to clients; empty: those of the trusted CAs.
    pub hint_file: Option<PathBuf>,
    pub hint_folder: Option<PathBuf>,
    pub revocation: Revocation,
    /// Maximum depth of the chain: 1 is a certificate issued directly by a CA.
    pub depth_max: Option<u32>,
}

/// Automatic certificates of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Automatic {
    #[default]
    Off,
    /// For the site's exact names (and its wildcards, where a DNS command is set).
    On,
    /// Ordered at the first handshake for a name, if `ask` allows it.
    OnDemand,
    /// Signed by a CA of this machine, which is stored in the state directory.
    Local,
}

/// TLS settings of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTls {
    /// May have RSA and ECDSA side by side.
    pub certificates: Vec<CertificateFiles>,
    /// Found in each handshake, and never those of other sites; set by nginx's configuration only.
    pub handshake_certificates: Box<[HandshakeCertificate]>,
    pub automatic: Automatic,
    pub minimum_version: TlsVersion,
    /// TLS 1.2 only; set by Apache's configuration only.
    pub without_tls13: bool,
    pub cipher_order: CipherOrder,
    /// In order of preference; empty: the defaults. If not empty, it has suites of each allowed
    /// version.
    pub ciphers: Vec<CipherSuite>,
    /// In order of preference; empty: the defaults.
    pub groups: Vec<Group>,
    pub client_certificates: ClientCertificates,
    /// CA certificates (PEM) that client certificates are verified with.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists (PEM) for client certificates.
    pub client_crl: Vec<PathBuf>,
    pub client_checks: ClientChecks,
    pub without_tickets: bool,
    /// Handshakes for the site are refused; set by nginx's configuration only.
    pub rejects_handshakes: bool,
    /// Maximum lifetime of a session ticket, if shorter than that of the server's keys.
    pub ticket_lifetime_s: Option<u32>,
}

/// TLS settings of a listener; present if it uses TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerTls {
    /// Refuse handshakes with no or an unknown server name instead of using the first certificate.
    pub strict_sni: bool,
}

/// An ACME directory (RFC 8555 section 7.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeDirectory {
    pub url: String,
    pub external_account: Option<ExternalAccount>,
    /// Profile to order certificates by; `None`: the authority's own, and `shortlived` for IP
    /// addresses where that is offered.
    pub profile: Option<AcmeProfile>,
}

/// Profile of certificates (draft-ietf-acme-profiles).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeProfile {
    pub name: String,
    /// Without it nothing is ordered; otherwise the authority's own takes its place.
    pub is_mandatory: bool,
}

/// External account binding (RFC 8555 section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub key_id: String,
    /// The MAC key, decoded.
    pub hmac_key: Vec<u8>,
}

/// Omits the secret.
impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A file served over plain HTTP (RFC 8555 section 8.3).
    Http01,
    /// A certificate over TLS (RFC 8737).
    TlsAlpn01,
    /// A DNS record (RFC 8555 section 8.4); the only type for wildcards.
    Dns01,
}

/// Arguments of the command for DNS-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsWords {
    /// `set` or `clear`, the record's name, its value.
    #[default]
    Own,
    /// `setup` or `teardown`, the domain name, the record's value: as in mod_md.
    ModMd,
}

/// `[acme]`: automatic certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Tried in order.
    pub directories: Vec<AcmeDirectory>,
    pub email: Option<String>,
    /// In order of preference. Without a DNS command, DNS-01 is not included.
    pub challenges: Vec<AcmeChallenge>,
    /// Command for DNS-01: called with `set` or `clear`, the record's name and its value.
    pub dns_command: Option<String>,
    /// Form of its arguments.
    pub dns_words: DnsWords,
    /// Names of further certificates besides those of sites, whose sites then need no separate
    /// ones. Set by Apache's configuration only.
    pub certificates: Vec<Vec<String>>,
    /// Time for a record to propagate.
    pub dns_wait_ms: u64,
    /// URL requested, with `?domain=NAME`, before a certificate is ordered on demand; 200 allows.
    pub ask: Option<String>,
    /// CA certificates (PEM) to trust for the directory, in addition to the system's.
    pub directory_ca: Option<PathBuf>,
    /// Directory of accounts and certificates; `None`: in the state directory. Set by `saker serve`
    /// only.
    pub folder: Option<PathBuf>,
}

impl Acme {
    pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
    pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
    pub const ZERO_SSL: &str = "https://acme.zerossl.com/v2/DV90";

    /// The directory of an authority with a short name.
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
                profile: None,
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

/// `[tls]` and `[acme]`: TLS settings of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// Session ticket keys (48 or 80 random bytes each) shared between machines; the first encrypts
    /// tickets, all decrypt them. Empty: own keys.
    pub ticket_keys: Vec<PathBuf>,
    /// Rotation interval of own ticket keys; the previous key is kept for one more interval.
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
