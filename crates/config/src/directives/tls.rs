//! `[site.tls]` (certificates, versions, client certificates), `[[site.tls.certificate]]`, and
//! `[tls]` for the process.
//!
//! Caveat: `certificate` is a path with `key` beside it, or tables with both; their combination is
//! checked when the whole table has been read.
//! Out of scope: the contents of certificates and keys. Files change while the server runs, so the
//! TLS layer checks them.

use crate::{
    context::{CERTIFICATE, SITE, SITE_TLS, STREAM_TLS, TLS},
    kind::{Kind, TableKind, Word},
    model::{
        Automatic, CertificateFiles, CipherSuite, ClientCertificates, Group, ServerTls, SiteTls,
        TlsVersion,
    },
    reader::{Reader, Table},
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    suggest,
    value::{Fields, Spanned, Value, ValueError},
};
use std::path::PathBuf;

const CERTIFICATE_TABLE: Kind = Kind::Table(&TableKind {
    context: CERTIFICATE,
    read: read_certificate,
});
const ONE_CERTIFICATE: Kind = Kind::OneOf(&[Kind::Path, CERTIFICATE_TABLE]);

static CIPHER: Word = Word {
    expects: "a cipher suite, such as \"TLS_AES_128_GCM_SHA256\" or \"ECDHE-ECDSA-AES128-GCM-SHA256\"",
    pattern: "^[A-Za-z0-9_-]+$",
    read: read_cipher,
};

static GROUP: Word = Word {
    expects: "a key exchange group (\"X25519MLKEM768\", \"X25519\", \"P-256\" or \"P-384\")",
    pattern: "^[A-Za-z0-9_-]+$",
    read: read_group,
};

/// Suites with their IANA and OpenSSL names, in order of preference.
const CIPHERS: [(CipherSuite, &str, &str); 9] = [
    (
        CipherSuite::Tls13Aes128Gcm,
        "TLS_AES_128_GCM_SHA256",
        "TLS13_AES_128_GCM_SHA256",
    ),
    (
        CipherSuite::Tls13Aes256Gcm,
        "TLS_AES_256_GCM_SHA384",
        "TLS13_AES_256_GCM_SHA384",
    ),
    (
        CipherSuite::Tls13ChaCha20,
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS13_CHACHA20_POLY1305_SHA256",
    ),
    (
        CipherSuite::EcdheEcdsaAes128Gcm,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
    ),
    (
        CipherSuite::EcdheEcdsaAes256Gcm,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
    ),
    (
        CipherSuite::EcdheEcdsaChaCha20,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ),
    (
        CipherSuite::EcdheRsaAes128Gcm,
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
    ),
    (
        CipherSuite::EcdheRsaAes256Gcm,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
    ),
    (
        CipherSuite::EcdheRsaChaCha20,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ),
];

/// Groups with their names in RFC 8446, at NIST and in OpenSSL.
const GROUPS: [(Group, [&str; 3]); 4] = [
    (
        Group::X25519MlKem768,
        ["X25519MLKEM768", "X25519MLKEM768", "X25519MLKEM768"],
    ),
    (Group::X25519, ["X25519", "X25519", "curve25519"]),
    (Group::Secp256r1, ["secp256r1", "P-256", "prime256v1"]),
    (Group::Secp384r1, ["secp384r1", "P-384", "secp384r1"]),
];

/// `[site.tls]` while it is read.
#[derive(Debug, Default)]
pub struct SiteTlsDraft {
    certificate: Vec<Spanned>,
    key: Option<(PathBuf, Location)>,
    ocsp: Option<(PathBuf, Location)>,
    pub automatic: Option<(Automatic, Location)>,
    client_certificates: Option<(ClientCertificates, Location)>,
    client_ca: Option<(PathBuf, Location)>,
    client_crl: Option<(Vec<PathBuf>, Location)>,
    minimum_version: TlsVersion,
    ciphers: Option<(Vec<CipherSuite>, Location)>,
    groups: Vec<Group>,
}

#[derive(Debug, Default)]
pub struct CertificateDraft {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    ocsp: Option<PathBuf>,
}

impl Draft for CertificateDraft {
    fn rows() -> Rows<Self> {
        &[CERTIFICATE_ROWS]
    }
}

impl Draft for SiteTlsDraft {
    fn rows() -> Rows<Self> {
        &[SITE_TLS_ROWS]
    }
}

pub const SITE_TLS_ROWS: &[Row<SiteTlsDraft>] = &[
    Row {
        name: "tls",
        contexts: SITE,
        kind: Kind::Section(SITE_TLS),
        summary: "TLS settings of the site.",
        ..Row::BASE
    },
    Row {
        name: "certificate",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&ONE_CERTIFICATE)]),
        example: Some("\"/etc/ssl/example.org.pem\""),
        summary: "Certificate chain (PEM, the site's own certificate first). For several, such as \
                  RSA and ECDSA: a list, or tables `[[site.tls.certificate]]`. Changed files are \
                  reloaded.",
        apache: Some("SSLCertificateFile, SSLCertificateChainFile"),
        aliases: &[
            "ssl_certificate",
            "certificate_file",
            "certificates",
            "cert",
            "ssl.pemfile",
            "pemfile",
        ],
        set: |tls, given| {
            tls.certificate = match given.value {
                Value::List(list) => list,
                _ => vec![given],
            }
        },
        ..Row::BASE
    },
    Row {
        name: "key",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::Path,
        example: Some("\"/etc/ssl/example.org.key\""),
        summary: "Private key (PEM) of the only certificate. Default: in the certificate file.",
        apache: Some("SSLCertificateKeyFile"),
        aliases: &[
            "ssl_certificate_key",
            "certificate_key",
            "private_key",
            "key_file",
            "ssl.privkey",
            "privkey",
        ],
        set: |tls, given| tls.key = Some(given.located_path()),
        ..Row::BASE
    },
    Row {
        name: "ocsp",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::Path,
        example: Some("\"/var/lib/ocsp/example.org.der\""),
        summary: "OCSP response (DER) to staple to the only certificate.",
        apache: Some("SSLUseStapling"),
        aliases: &[
            "ssl_stapling_file",
            "stapling",
            "ssl_stapling",
            "ssl.stapling-file",
        ],
        set: |tls, given| tls.ocsp = Some(given.located_path()),
        ..Row::BASE
    },
    Row {
        name: "automatic",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::OneOf(&[Kind::Boolean, Kind::Choice(&["on-demand", "local"])]),
        default: Some("false"),
        example: Some("true"),
        summary: "Certificates without files. `true`: from the authority of `[acme]`, for all \
                  names of the site (of a stream: its `names`), renewed in time; by setting it you \
                  agree to the authority's terms of service. `on-demand`: the same, at the first handshake for a name, if \
                  `ask` of `[acme]` allows it. `local`: signed by a CA of this machine, whose \
                  certificate is in `state_dir`.",
        apache: Some("MDomain, MDMember"),
        aliases: &[
            "acme",
            "auto",
            "letsencrypt",
            "on_demand",
            "local_certs",
            "tls_internal",
            "self_signed",
            "mkcert",
        ],
        set: |tls, given| tls.automatic = Some(automatic(given)),
        ..Row::BASE
    },
    Row {
        name: "minimum_version",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::Choice(&["1.2", "1.3"]),
        default: Some("\"1.2\""),
        summary: "Minimum TLS version. Versions before 1.2 are not supported.",
        apache: Some("SSLProtocol"),
        aliases: &[
            "ssl_protocols",
            "protocols",
            "min_version",
            "tls_min_version",
        ],
        set: |tls, given| {
            let word = given.text();
            tls.minimum_version = if word == "1.3" {
                TlsVersion::Tls13
            } else {
                TlsVersion::Tls12
            };
        },
        ..Row::BASE
    },
    Row {
        name: "ciphers",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::ListOf(&Kind::Word(&CIPHER)),
        default: Some("[]"),
        example: Some("[\"TLS_AES_256_GCM_SHA384\", \"ECDHE-ECDSA-AES256-GCM-SHA384\"]"),
        summary: "Cipher suites by IANA or OpenSSL name, in order of preference. A version without \
                  any suite in the list keeps its defaults.",
        apache: Some("SSLCipherSuite"),
        aliases: &["ssl_ciphers", "cipher_suites", "ssl.cipher-list"],
        set: |tls, given| {
            let at = given.at.clone();
            tls.ciphers = Some((given.parsed_list(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "groups",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::ListOf(&Kind::Word(&GROUP)),
        default: Some("[]"),
        example: Some("[\"X25519MLKEM768\", \"X25519\", \"P-256\"]"),
        summary: "Key exchange groups, in order of preference. Empty: X25519MLKEM768, X25519, \
                  P-256, P-384.",
        apache: Some("SSLOpenSSLConfCmd"),
        aliases: &["ssl_ecdh_curve", "curves", "ecdh_curve"],
        set: |tls, given| tls.groups = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "client_certificates",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::Choice(&["off", "optional", "required"]),
        default: Some("\"off\""),
        summary: "Request a certificate from clients? `optional`: a certificate is verified if \
                  sent. `required`: the handshake fails without one. Sites with different policies \
                  must not share a connection: a request for another host than the handshake's \
                  gets 421.",
        apache: Some("SSLVerifyClient"),
        aliases: &[
            "ssl_verify_client",
            "verify_client",
            "client_auth",
            "ssl.verifyclient.activate",
        ],
        set: |tls, given| {
            let at = given.at.clone();
            tls.client_certificates = Some((client_certificates(&given.text()), at));
        },
        ..Row::BASE
    },
    Row {
        name: "client_ca",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::Path,
        example: Some("\"/etc/ssl/clients.pem\""),
        summary: "CA certificates (PEM) that client certificates are verified with.",
        apache: Some("SSLCACertificateFile, SSLCACertificatePath"),
        aliases: &[
            "ssl_client_certificate",
            "ssl_trusted_certificate",
            "ca_file",
            "ssl.ca-file",
        ],
        set: |tls, given| tls.client_ca = Some(given.located_path()),
        ..Row::BASE
    },
    Row {
        name: "client_crl",
        contexts: SITE_TLS.or(STREAM_TLS),
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        default: Some("[]"),
        example: Some("\"/etc/ssl/clients.crl\""),
        summary: "Certificate revocation lists (PEM) of those CAs.",
        apache: Some("SSLCARevocationFile, SSLCARevocationPath"),
        aliases: &["ssl_crl", "crl", "ssl.ca-crl-file"],
        set: |tls, given| {
            let at = given.at.clone();
            tls.client_crl = Some((given.paths(), at)).filter(|(paths, _)| !paths.is_empty());
        },
        ..Row::BASE
    },
];

pub const CERTIFICATE_ROWS: &[Row<CertificateDraft>] = &[
    certificate_row(
        "certificate",
        true,
        "\"rsa.pem\"",
        "Certificate chain (PEM, the site's own certificate first).",
        |one, given| one.certificate = Some(given.path()),
    ),
    certificate_row(
        "key",
        false,
        "\"rsa.key\"",
        "Private key (PEM). Default: in the certificate file.",
        |one, given| one.key = Some(given.path()),
    ),
    certificate_row(
        "ocsp",
        false,
        "\"rsa.der\"",
        "OCSP response (DER) to staple.",
        |one, given| one.ocsp = Some(given.path()),
    ),
];

impl Draft for ServerTls {
    fn rows() -> Rows<Self> {
        &[TLS_ROWS]
    }
}

pub const TLS_ROWS: &[Row<ServerTls>] = &[
    Row {
        name: "ticket_keys",
        contexts: TLS,
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        default: Some("[]"),
        example: Some("[\"/etc/saker/ticket-today.key\", \"/etc/saker/ticket-yesterday.key\"]"),
        summary: "Files with session ticket keys (48 or 80 random bytes each) shared by several \
                  machines: the first encrypts tickets, all decrypt them; changed files are \
                  reloaded. Empty: random keys of this process, rotated every `ticket_rotation`.",
        apache: Some("SSLSessionTicketKeyFile"),
        aliases: &["ssl_session_ticket_key", "session_ticket_key", "ticket_key"],
        set: |tls, given| tls.ticket_keys = given.paths(),
        ..Row::BASE
    },
    Row {
        name: "ticket_rotation",
        contexts: TLS,
        kind: Kind::Duration {
            min_ms: 60_000,
            max_ms: 7 * 86_400_000,
        },
        default: Some("\"12h\""),
        summary: "Rotation interval of the process's own ticket keys. The previous key still \
                  decrypts tickets for one more interval.",
        apache: Some("SSLSessionCacheTimeout"),
        aliases: &["ssl_session_timeout", "session_timeout"],
        set: |tls, given| tls.ticket_rotation_ms = given.number(),
        ..Row::BASE
    },
];

/// The rows of `[[site.tls.certificate]]`, all of them paths.
const fn certificate_row(
    name: &'static str,
    required: bool,
    example: &'static str,
    summary: &'static str,
    set: fn(&mut CertificateDraft, Spanned),
) -> Row<CertificateDraft> {
    Row {
        name,
        contexts: CERTIFICATE,
        kind: Kind::Path,
        required,
        example: Some(example),
        summary,
        set,
        ..Row::BASE
    }
}

fn read_certificate(_report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = CertificateDraft::default();
    draft.fill(fields);
    let certificate = draft.certificate?;
    let key = draft.key.unwrap_or_else(|| certificate.clone());
    Some(Value::parsed(CertificateFiles {
        ocsp: draft.ocsp,
        ..CertificateFiles::new(certificate, key, fields.at.origin())
    }))
}

/// Builds the settings of the whole table, and reports keys that don't fit together.
pub fn finish(reader: &mut Reader<'_>, draft: &SiteTlsDraft, table: Option<&Table<'_>>) -> SiteTls {
    let mut given = vec!["certificate", "client_ca", "client_certificates"];
    given.retain(|key| table.is_some_and(|table| reader.is_mentioned(table, key, SITE_TLS)));
    let is_given = |key: &str| given.contains(&key);
    material_once(reader, draft);
    client_side(reader, draft, is_given);
    beside_certificate(reader, draft, is_given);
    SiteTls {
        certificates: draft
            .certificate
            .iter()
            .filter_map(|given| certificate(draft, given))
            .collect(),
        automatic: draft
            .automatic
            .as_ref()
            .map_or(Automatic::Off, |(automatic, _)| *automatic),
        minimum_version: draft.minimum_version,
        ciphers: ciphers(reader, draft),
        groups: draft.groups.clone(),
        client_certificates: draft
            .client_certificates
            .as_ref()
            .map_or(ClientCertificates::Off, |(when, _)| *when),
        client_ca: draft.client_ca.as_ref().map(|(path, _)| path.clone()),
        client_crl: draft
            .client_crl
            .as_ref()
            .map(|(paths, _)| paths.clone())
            .unwrap_or_default(),
        ..SiteTls::default()
    }
}

impl SiteTlsDraft {
    /// Returns the location of its certificates, if any.
    pub fn material(&self) -> Option<&Location> {
        let automatic = self
            .automatic
            .as_ref()
            .filter(|(automatic, _)| *automatic != Automatic::Off)
            .map(|(_, at)| at);
        self.certificate
            .first()
            .map(|given| &given.at)
            .or(automatic)
    }
}

fn material_once(reader: &mut Reader<'_>, draft: &SiteTlsDraft) {
    let automatic = draft
        .automatic
        .as_ref()
        .filter(|(automatic, _)| *automatic != Automatic::Off);
    if let (Some((_, at)), true) = (automatic, !draft.certificate.is_empty()) {
        let help = "keep one of them";
        reader.error(
            at,
            "`automatic` and `certificate` exclude each other",
            Some(help.into()),
        );
    }
}

/// Reports `key` and `ocsp` without a certificate that they belong to.
fn beside_certificate(
    reader: &mut Reader<'_>,
    draft: &SiteTlsDraft,
    is_given: impl Fn(&str) -> bool,
) {
    let beside = [("key", &draft.key), ("ocsp", &draft.ocsp)]
        .into_iter()
        .filter_map(|(name, path)| path.as_ref().map(|(_, at)| (name, at)));
    match draft.certificate.as_slice() {
        [
            Spanned {
                value: Value::Path(_),
                ..
            },
        ] => {}
        [] if is_given("certificate") => {}
        [] => beside.for_each(|(name, at)| {
            reader.error(
                at,
                format!("`{name}` without `certificate`"),
                Some("add certificate = \"chain.pem\"".into()),
            );
        }),
        _ => beside.for_each(|(name, at)| {
            let help = "write one [[site.tls.certificate]] for each, with its own `certificate`, \
                        `key` and `ocsp`";
            reader.error(
                at,
                format!(
                    "`{name}` is for a single `certificate`, but there are \
                                      several"
                ),
                Some(help.into()),
            );
        }),
    }
}

fn certificate(draft: &SiteTlsDraft, given: &Spanned) -> Option<CertificateFiles> {
    let beside = |path: &Option<(PathBuf, Location)>| path.as_ref().map(|(path, _)| path.clone());
    match &given.value {
        Value::Path(path) => {
            let key = beside(&draft.key).unwrap_or_else(|| path.clone());
            Some(CertificateFiles {
                ocsp: beside(&draft.ocsp),
                ..CertificateFiles::new(path.clone(), key, given.origin())
            })
        }
        value => value.parsed_as(),
    }
}

fn client_side(reader: &mut Reader<'_>, draft: &SiteTlsDraft, is_given: impl Fn(&str) -> bool) {
    let asked = draft
        .client_certificates
        .as_ref()
        .filter(|(when, _)| *when != ClientCertificates::Off);
    if let (Some((_, at)), false) = (asked, is_given("client_ca")) {
        let help = "add client_ca = \"authorities.pem\", the CAs that client certificates are verified \
             with";
        reader.error(
            at,
            "`client_certificates` without `client_ca`",
            Some(help.into()),
        );
    }
    let is_broken = draft.client_certificates.is_none() && is_given("client_certificates");
    let idle = [
        ("client_ca", draft.client_ca.as_ref().map(|(_, at)| at)),
        ("client_crl", draft.client_crl.as_ref().map(|(_, at)| at)),
    ];
    for (name, at) in idle.into_iter().filter(|_| asked.is_none() && !is_broken) {
        if let Some(at) = at {
            let help = "add client_certificates = \"required\" (or \"optional\"), or remove it";
            reader.error(
                at,
                format!("`{name}` without `client_certificates`"),
                Some(help.into()),
            );
        }
    }
}

/// The listed suites, and the defaults of a version without any in the list.
fn ciphers(reader: &mut Reader<'_>, draft: &SiteTlsDraft) -> Vec<CipherSuite> {
    let Some((named, at)) = draft
        .ciphers
        .as_ref()
        .filter(|(named, _)| !named.is_empty())
    else {
        return Vec::new();
    };
    let is_named = |version| named.iter().any(|suite| suite.version() == version);
    if draft.minimum_version == TlsVersion::Tls13 && !is_named(TlsVersion::Tls13) {
        let help = "add a TLS 1.3 suite, or remove `ciphers`";
        reader.warning(
            at,
            "all of these suites are for TLS 1.2, which `minimum_version` disables",
            Some(help.into()),
        );
    }
    let usual = CIPHERS
        .iter()
        .map(|(suite, ..)| *suite)
        .filter(|suite| !is_named(suite.version()));
    let all = named.iter().copied().chain(usual);
    all.filter(|suite| suite.version() >= draft.minimum_version)
        .collect()
}

fn automatic(given: Spanned) -> (Automatic, Location) {
    let automatic = match given.value {
        Value::Boolean(true) => Automatic::On,
        Value::Text(word) if word == "on-demand" => Automatic::OnDemand,
        Value::Text(word) if word == "local" => Automatic::Local,
        _ => Automatic::Off,
    };
    (automatic, given.at)
}

fn client_certificates(word: &str) -> ClientCertificates {
    match word {
        "optional" => ClientCertificates::Optional,
        "required" => ClientCertificates::Required,
        _ => ClientCertificates::Off,
    }
}

fn read_cipher(text: &str) -> Result<Value, ValueError> {
    let found = CIPHERS.iter().find(|(_, iana, openssl)| {
        iana.eq_ignore_ascii_case(text) || openssl.eq_ignore_ascii_case(text)
    });
    if let Some((suite, ..)) = found {
        return Ok(Value::parsed(*suite));
    }
    if text.contains([':', '!', '+', '@'])
        || ["HIGH", "MEDIUM", "LOW", "ALL", "DEFAULT"].contains(&text)
    {
        return Err(ValueError::with_help(
            "cipher strings are not supported: list suites one by one",
            "the defaults, used without `ciphers`, are all secure",
        ));
    }
    let near = suggest::nearest(
        text,
        CIPHERS
            .iter()
            .flat_map(|(_, iana, openssl)| [*iana, *openssl]),
    );
    let help = near.map_or_else(
        || "supported: AES-128-GCM, AES-256-GCM and ChaCha20-Poly1305, with ECDHE".to_owned(),
        |name| format!("did you mean \"{name}\"?"),
    );
    Err(ValueError::with_help("unsupported cipher suite", help))
}

fn read_group(text: &str) -> Result<Value, ValueError> {
    let found = GROUPS
        .iter()
        .find(|(_, names)| names.iter().any(|name| suggest::same_word(name, text)));
    found
        .map(|(group, _)| Value::parsed(*group))
        .ok_or_else(|| ValueError::plain(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_by_either_name() {
        for (suite, iana, openssl) in CIPHERS {
            for name in [iana, openssl] {
                assert!(
                    read_cipher(name).is_ok_and(|value| value.parsed_as() == Some(suite)),
                    "{name}"
                );
            }
        }
        for bad in [
            "",
            "HIGH",
            "HIGH:!aNULL",
            "TLS_RSA_WITH_AES_128_CBC_SHA",
            "TLS_AES_128_GCM_SHA257",
        ] {
            assert!(
                read_cipher(bad).is_err_and(|fault| fault.help.is_some()),
                "{bad}"
            );
        }
    }

    #[test]
    fn groups_by_any_name() {
        for (name, group) in [
            ("x25519", Group::X25519),
            ("P256", Group::Secp256r1),
            ("secp384r1", Group::Secp384r1),
            ("x25519mlkem768", Group::X25519MlKem768),
        ] {
            assert!(
                read_group(name).is_ok_and(|value| value.parsed_as() == Some(group)),
                "{name}"
            );
        }
        assert!(read_group("P-521").is_err());
    }
}
