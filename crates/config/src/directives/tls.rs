//! `[site.tls]` (certificates, versions, client certificates), `[[site.tls.certificate]]`, and
//! `[tls]` for the process.
//!
//! What certificates and keys hold is not looked at here: files change while the server runs, and
//! the reader of certificates has to refuse them then anyway. Difficulty: `certificate` is a path
//! with `key` beside it, or tables with both; what stands beside what is judged when the whole
//! table has been read.

use crate::{
    model::{
        Automatic, CertificateFiles, CipherSuite, ClientCertificates, Group, SiteTls, TlsVersion,
    },
    reader::{Reader, Table, is_meant},
    row::{CERTIFICATE, Fault, Kind, ROW, Row, SITE, SITE_TLS, Set, TLS, TableKind, Word},
    source::At,
    suggest,
    value::{Given, Value},
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

/// Suites by their IANA and OpenSSL names, in the order of preference.
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

/// Groups by their names in RFC 8446, at NIST and in OpenSSL.
const GROUPS: [(Group, [&str; 3]); 4] = [
    (
        Group::X25519MlKem768,
        ["X25519MLKEM768", "X25519MLKEM768", "X25519MLKEM768"],
    ),
    (Group::X25519, ["X25519", "X25519", "curve25519"]),
    (Group::Secp256r1, ["secp256r1", "P-256", "prime256v1"]),
    (Group::Secp384r1, ["secp384r1", "P-384", "secp384r1"]),
];

/// `[site.tls]` on its way into the model.
#[derive(Debug, Default)]
pub struct SiteTlsDraft {
    certificate: Vec<Given>,
    key: Option<(PathBuf, At)>,
    ocsp: Option<(PathBuf, At)>,
    pub automatic: Option<(Automatic, At)>,
    client_certificates: Option<(ClientCertificates, At)>,
    client_ca: Option<(PathBuf, At)>,
    client_crl: Option<(Vec<PathBuf>, At)>,
    minimum_version: TlsVersion,
    ciphers: Option<(Vec<CipherSuite>, At)>,
    groups: Vec<Group>,
}

#[derive(Debug, Default)]
pub struct CertificateDraft {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    ocsp: Option<PathBuf>,
}

target!(CertificateDraft Certificate);

pub static ROWS: &[Row] = &[
    Row {
        name: "tls",
        contexts: SITE,
        kind: Kind::Section(SITE_TLS),
        summary: "The site over TLS.",
        ..ROW
    },
    Row {
        name: "certificate",
        contexts: SITE_TLS,
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&ONE_CERTIFICATE)]),
        example: Some("\"/etc/ssl/example.org.pem\""),
        summary: "Certificate chain (PEM, the site's own first). RSA and ECDSA side by side, and other pairs: a list, or tables \
                  `[[site.tls.certificate]]`. Files that change are read again.",
        apache: Some("SSLCertificateFile, SSLCertificateChainFile"),
        aliases: &[
            "ssl_certificate",
            "certificate_file",
            "certificates",
            "cert",
            "ssl.pemfile",
            "pemfile",
        ],
        set: Set::Site(|site, given| {
            site.tls.certificate = match given.value {
                Value::List(list) => list,
                _ => vec![given],
            }
        }),
        ..ROW
    },
    Row {
        name: "key",
        contexts: SITE_TLS,
        kind: Kind::Path,
        example: Some("\"/etc/ssl/example.org.key\""),
        summary: "Private key (PEM) of the one certificate. Without it, the certificate's file holds the key too.",
        apache: Some("SSLCertificateKeyFile"),
        aliases: &[
            "ssl_certificate_key",
            "certificate_key",
            "private_key",
            "key_file",
            "ssl.privkey",
            "privkey",
        ],
        set: Set::Site(|site, given| site.tls.key = Some(path_at(given))),
        ..ROW
    },
    Row {
        name: "ocsp",
        contexts: SITE_TLS,
        kind: Kind::Path,
        example: Some("\"/var/lib/ocsp/example.org.der\""),
        summary: "OCSP response (DER) to staple to the one certificate.",
        apache: Some("SSLUseStapling"),
        aliases: &[
            "ssl_stapling_file",
            "stapling",
            "ssl_stapling",
            "ssl.stapling-file",
        ],
        set: Set::Site(|site, given| site.tls.ocsp = Some(path_at(given))),
        ..ROW
    },
    Row {
        name: "automatic",
        contexts: SITE_TLS,
        kind: Kind::OneOf(&[Kind::Boolean, Kind::Choice(&["on-demand", "local"])]),
        default: Some("false"),
        example: Some("true"),
        summary: "Certificates without files. `true`: from the authority of `[acme]`, for all names of the site, renewed in time; whoever \
                  writes it agrees to the authority's terms. `on-demand`: the same, at the first handshake for a name, if `ask` of `[acme]` \
                  allows it. `local`: signed by an authority of this machine, whose certificate stands in the state folder.",
        apache: Some("MDomain, MDMember"),
        aliases: &["acme", "auto", "letsencrypt", "on_demand"],
        set: Set::Site(|site, given| site.tls.automatic = Some(automatic(given))),
        ..ROW
    },
    Row {
        name: "minimum_version",
        contexts: SITE_TLS,
        kind: Kind::Choice(&["1.2", "1.3"]),
        default: Some("\"1.2\""),
        summary: "The oldest version of TLS that is spoken. Versions before 1.2 never are.",
        apache: Some("SSLProtocol"),
        aliases: &[
            "ssl_protocols",
            "protocols",
            "min_version",
            "tls_min_version",
        ],
        set: Set::Site(|site, given| {
            let word = given.text();
            site.tls.minimum_version = if word == "1.3" {
                TlsVersion::Tls13
            } else {
                TlsVersion::Tls12
            };
        }),
        ..ROW
    },
    Row {
        name: "ciphers",
        contexts: SITE_TLS,
        kind: Kind::ListOf(&Kind::Word(&CIPHER)),
        default: Some("[]"),
        example: Some("[\"TLS_AES_256_GCM_SHA384\", \"ECDHE-ECDSA-AES256-GCM-SHA384\"]"),
        summary: "Cipher suites by their IANA or OpenSSL names, the preferred first. Where none of a version is named, its usual ones are used.",
        apache: Some("SSLCipherSuite"),
        aliases: &["ssl_ciphers", "cipher_suites", "ssl.cipher-list"],
        set: Set::Site(|site, given| {
            let at = given.at.clone();
            site.tls.ciphers = Some((each(given, cipher), at));
        }),
        ..ROW
    },
    Row {
        name: "groups",
        contexts: SITE_TLS,
        kind: Kind::ListOf(&Kind::Word(&GROUP)),
        default: Some("[]"),
        example: Some("[\"X25519MLKEM768\", \"X25519\", \"P-256\"]"),
        summary: "Groups for the key exchange, the preferred first. Empty: X25519MLKEM768, X25519, P-256, P-384.",
        apache: Some("SSLOpenSSLConfCmd"),
        aliases: &["ssl_ecdh_curve", "curves", "ecdh_curve"],
        set: Set::Site(|site, given| site.tls.groups = each(given, group)),
        ..ROW
    },
    Row {
        name: "client_certificates",
        contexts: SITE_TLS,
        kind: Kind::Choice(&["off", "optional", "required"]),
        default: Some("\"off\""),
        summary: "Ask clients for a certificate? `optional`: one that is shown must be good. `required`: without one there is no connection. \
                  Sites that differ in this must not share a connection: a request for another host than the handshake's is answered with 421.",
        apache: Some("SSLVerifyClient"),
        aliases: &[
            "ssl_verify_client",
            "verify_client",
            "client_auth",
            "ssl.verifyclient.activate",
        ],
        set: Set::Site(|site, given| {
            let at = given.at.clone();
            site.tls.client_certificates = Some((client_certificates(&given.text()), at));
        }),
        ..ROW
    },
    Row {
        name: "client_ca",
        contexts: SITE_TLS,
        kind: Kind::Path,
        example: Some("\"/etc/ssl/clients.pem\""),
        summary: "Authorities (PEM) that may have signed the certificates of clients.",
        apache: Some("SSLCACertificateFile, SSLCACertificatePath"),
        aliases: &[
            "ssl_client_certificate",
            "ssl_trusted_certificate",
            "ca_file",
            "ssl.ca-file",
        ],
        set: Set::Site(|site, given| site.tls.client_ca = Some(path_at(given))),
        ..ROW
    },
    Row {
        name: "client_crl",
        contexts: SITE_TLS,
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        default: Some("[]"),
        example: Some("\"/etc/ssl/clients.crl\""),
        summary: "Revocation lists (PEM) of those authorities.",
        apache: Some("SSLCARevocationFile, SSLCARevocationPath"),
        aliases: &["ssl_crl", "crl", "ssl.ca-crl-file"],
        set: Set::Site(|site, given| {
            let at = given.at.clone();
            site.tls.client_crl = Some((paths(given), at)).filter(|(paths, _)| !paths.is_empty());
        }),
        ..ROW
    },
    certificate_row(
        "certificate",
        true,
        "\"rsa.pem\"",
        "Certificate chain (PEM, the site's own first).",
        Set::Certificate(|one, given| one.certificate = Some(given.path())),
    ),
    certificate_row(
        "key",
        false,
        "\"rsa.key\"",
        "Its private key (PEM). Without it, the certificate's file holds the key too.",
        Set::Certificate(|one, given| one.key = Some(given.path())),
    ),
    certificate_row(
        "ocsp",
        false,
        "\"rsa.der\"",
        "OCSP response (DER) to staple to it.",
        Set::Certificate(|one, given| one.ocsp = Some(given.path())),
    ),
    Row {
        name: "ticket_keys",
        contexts: TLS,
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        default: Some("[]"),
        example: Some("[\"/etc/saker/ticket-today.key\", \"/etc/saker/ticket-yesterday.key\"]"),
        summary: "Session ticket keys (files of 48 or 80 random bytes) that several machines share: the first makes tickets, all open them; \
                  files that change are read again. Empty: keys of this process, changed as `ticket_rotation` says.",
        apache: Some("SSLSessionTicketKeyFile"),
        aliases: &["ssl_session_ticket_key", "session_ticket_key", "ticket_key"],
        set: Set::Tls(|tls, given| tls.ticket_keys = paths(given)),
        ..ROW
    },
    Row {
        name: "ticket_rotation",
        contexts: TLS,
        kind: Kind::Duration {
            min_ms: 60_000,
            max_ms: 7 * 86_400_000,
        },
        default: Some("\"12h\""),
        summary: "How often the server's own ticket keys change. The last one is kept as long again to open tickets.",
        apache: Some("SSLSessionCacheTimeout"),
        aliases: &["ssl_session_timeout", "session_timeout"],
        set: Set::Tls(|tls, given| tls.ticket_rotation_ms = given.number()),
        ..ROW
    },
];

/// The rows of `[[site.tls.certificate]]`, all of them paths.
const fn certificate_row(
    name: &'static str,
    required: bool,
    example: &'static str,
    summary: &'static str,
    set: Set,
) -> Row {
    Row {
        name,
        contexts: CERTIFICATE,
        kind: Kind::Path,
        required,
        example: Some(example),
        summary,
        set,
        ..ROW
    }
}

fn read_certificate(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut draft = CertificateDraft::default();
    reader.fill(table, CERTIFICATE, &at, &mut draft);
    let certificate = draft.certificate?;
    let key = draft.key.unwrap_or_else(|| certificate.clone());
    Some(Value::Certificate(CertificateFiles {
        ocsp: draft.ocsp,
        ..CertificateFiles::new(certificate, key, at.origin())
    }))
}

/// What the whole table says; complaints about what doesn't fit together.
pub fn finish(reader: &mut Reader<'_>, draft: &SiteTlsDraft, table: Option<&Table<'_>>) -> SiteTls {
    let is_given = |key: &str| table.is_some_and(|table| is_meant(table, key, SITE_TLS));
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
    /// Where it says that there are certificates.
    pub fn material(&self) -> Option<&At> {
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
        let help = "keep one: files, or certificates without files";
        reader.error(
            at,
            "`automatic` and `certificate` exclude each other",
            Some(help.into()),
        );
    }
}

/// `key` and `ocsp` without something that they belong to.
fn beside_certificate(
    reader: &mut Reader<'_>,
    draft: &SiteTlsDraft,
    is_given: impl Fn(&str) -> bool,
) {
    let beside = [("key", &draft.key), ("ocsp", &draft.ocsp)]
        .into_iter()
        .filter_map(|(name, path)| path.as_ref().map(|(_, at)| (name, at)));
    match draft.certificate.as_slice() {
        [Given { value: Value::Path(_), .. }] => {}
        [] if is_given("certificate") => {}
        [] => beside.for_each(|(name, at)| {
            reader.error(at, format!("`{name}` without `certificate`"), Some("add certificate = \"chain.pem\"".into()));
        }),
        _ => beside.for_each(|(name, at)| {
            let help = "write [[site.tls.certificate]] for each, with `certificate`, `key` and `ocsp` of its own";
            reader.error(at, format!("`{name}` goes with one `certificate`, and there are several"), Some(help.into()));
        }),
    }
}

fn certificate(draft: &SiteTlsDraft, given: &Given) -> Option<CertificateFiles> {
    let beside = |path: &Option<(PathBuf, At)>| path.as_ref().map(|(path, _)| path.clone());
    match &given.value {
        Value::Certificate(files) => Some(files.clone()),
        Value::Path(path) => {
            let key = beside(&draft.key).unwrap_or_else(|| path.clone());
            Some(CertificateFiles {
                ocsp: beside(&draft.ocsp),
                ..CertificateFiles::new(path.clone(), key, given.origin())
            })
        }
        _ => None,
    }
}

fn client_side(reader: &mut Reader<'_>, draft: &SiteTlsDraft, is_given: impl Fn(&str) -> bool) {
    let asked = draft
        .client_certificates
        .as_ref()
        .filter(|(when, _)| *when != ClientCertificates::Off);
    if let (Some((_, at)), false) = (asked, is_given("client_ca")) {
        let help =
            "add client_ca = \"authorities.pem\", with the authorities that may have signed them";
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
            let help = "nobody would be asked: add client_certificates = \"required\" (or \"optional\"), or take it away";
            reader.error(
                at,
                format!("`{name}` without `client_certificates`"),
                Some(help.into()),
            );
        }
    }
}

/// The named suites, with the usual ones of a version of which none is named.
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
        let help = "name a suite of TLS 1.3, or take `ciphers` away";
        reader.warning(
            at,
            "these are suites of TLS 1.2, which `minimum_version` rules out",
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

fn path_at(given: Given) -> (PathBuf, At) {
    let at = given.at.clone();
    (given.path(), at)
}

fn paths(given: Given) -> Vec<PathBuf> {
    match given.value {
        Value::List(list) => list.into_iter().map(Given::path).collect(),
        _ => vec![given.path()],
    }
}

fn each<T>(given: Given, one: fn(&Value) -> Option<T>) -> Vec<T> {
    given
        .list()
        .iter()
        .filter_map(|given| one(&given.value))
        .collect()
}

fn cipher(value: &Value) -> Option<CipherSuite> {
    match value {
        Value::Cipher(suite) => Some(*suite),
        _ => None,
    }
}

fn group(value: &Value) -> Option<Group> {
    match value {
        Value::Group(group) => Some(*group),
        _ => None,
    }
}

fn automatic(given: Given) -> (Automatic, At) {
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

fn read_cipher(text: &str) -> Result<Value, Fault> {
    let found = CIPHERS.iter().find(|(_, iana, openssl)| {
        iana.eq_ignore_ascii_case(text) || openssl.eq_ignore_ascii_case(text)
    });
    if let Some((suite, ..)) = found {
        return Ok(Value::Cipher(*suite));
    }
    if text.contains([':', '!', '+', '@'])
        || ["HIGH", "MEDIUM", "LOW", "ALL", "DEFAULT"].contains(&text)
    {
        return Err(Fault::with_help(
            "suites are named one by one",
            "without `ciphers`, only good ones are used",
        ));
    }
    let near = suggest::nearest(
        text,
        CIPHERS
            .iter()
            .flat_map(|(_, iana, openssl)| [*iana, *openssl]),
    );
    let help = near.map_or_else(
        || "there are AES-128-GCM, AES-256-GCM and ChaCha20-Poly1305, over ECDHE".to_owned(),
        |name| format!("did you mean \"{name}\"?"),
    );
    Err(Fault::with_help(
        "it is not a suite that is spoken here",
        help,
    ))
}

fn read_group(text: &str) -> Result<Value, Fault> {
    let found = GROUPS
        .iter()
        .find(|(_, names)| names.iter().any(|name| suggest::same_word(name, text)));
    found
        .map(|(group, _)| Value::Group(*group))
        .ok_or_else(|| Fault::plain(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_by_either_name() {
        for (suite, iana, openssl) in CIPHERS {
            for name in [iana, openssl] {
                assert!(
                    matches!(read_cipher(name), Ok(Value::Cipher(found)) if found == suite),
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
                matches!(read_group(name), Ok(Value::Group(found)) if found == group),
                "{name}"
            );
        }
        assert!(read_group("P-521").is_err());
    }
}
