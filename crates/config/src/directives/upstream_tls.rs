//! `[upstream.tls]`: who the servers of an upstream have to be, and who we are to them.
//!
//! Called by: `upstream`, whose draft contains this one.
//! Caveat: it is about servers with TLS; where there is none, that is reported.

use super::upstream_server::ParsedServer;
use crate::{
    context::{UPSTREAM, UPSTREAM_TLS},
    kind::{Kind, Word},
    model::BackendTls,
    reader::{Reader, Table},
    row::{Draft, Row, Rows},
    source::Location,
    value::{Value, ValueError},
};
use std::path::PathBuf;

/// The table while it is read.
#[derive(Debug)]
pub struct UpstreamTlsDraft {
    authorities: Option<(Vec<PathBuf>, Location)>,
    verifies: bool,
    name: Option<String>,
    certificate: Option<(PathBuf, Location)>,
    key: Option<(PathBuf, Location)>,
}

impl Default for UpstreamTlsDraft {
    fn default() -> UpstreamTlsDraft {
        UpstreamTlsDraft {
            authorities: None,
            verifies: true,
            name: None,
            certificate: None,
            key: None,
        }
    }
}

impl Draft for UpstreamTlsDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

static SERVER_NAME: Word = Word {
    expects: "a host name, such as \"db.example.org\"",
    pattern: "^[A-Za-z0-9._-]+$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match !text.is_empty() && text.bytes().all(is_plain) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

pub const ROWS: &[Row<UpstreamTlsDraft>] = &[
    Row {
        name: "tls",
        contexts: UPSTREAM,
        kind: Kind::Section(UPSTREAM_TLS),
        summary: "TLS to the servers (`https://`, `h2://`, `grpcs://`, `tls://`).",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "ca_file",
        contexts: UPSTREAM_TLS,
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        example: Some("\"/etc/saker/internal-ca.pem\""),
        summary: "Certificates (PEM) of the authorities that may have issued those of the servers. \
                  Default: those that the system trusts.",
        apache: Some("SSLProxyCACertificateFile"),
        aliases: &[
            "ca",
            "proxy_ssl_trusted_certificate",
            "tls_trust_pool",
            "root_ca",
            "rootCAs",
            "ca-file",
        ],
        since: "0.2",
        set: |tls, given| {
            let at = given.at.clone();
            tls.authorities = Some((given.paths(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "verify",
        contexts: UPSTREAM_TLS,
        kind: Kind::Boolean,
        default: Some("true"),
        example: Some("false"),
        summary: "Verify the certificates of the servers? Without it, everything can be read and changed \
                  on the way.",
        apache: Some("SSLProxyVerify"),
        aliases: &[
            "proxy_ssl_verify",
            "tls_insecure_skip_verify",
            "insecureSkipVerify",
        ],
        since: "0.2",
        set: |tls, given| tls.verifies = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "server_name",
        contexts: UPSTREAM_TLS,
        kind: Kind::Word(&SERVER_NAME),
        example: Some("\"app.internal\""),
        summary: "Name that is sent in the handshake (SNI), and that the certificates have to be \
                  valid for. Default: the host of each server's address.",
        aliases: &["proxy_ssl_name", "sni", "tls_server_name"],
        since: "0.2",
        set: |tls, given| tls.name = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "certificate",
        contexts: UPSTREAM_TLS,
        kind: Kind::Path,
        example: Some("\"/etc/saker/client.pem\""),
        summary: "Certificate chain (PEM) that is shown to servers that ask for one.",
        apache: Some("SSLProxyMachineCertificateFile"),
        aliases: &[
            "proxy_ssl_certificate",
            "tls_client_auth",
            "client_certificate",
            "crt",
        ],
        since: "0.2",
        set: |tls, given| tls.certificate = Some(given.located_path()),
        ..Row::BASE
    },
    Row {
        name: "key",
        contexts: UPSTREAM_TLS,
        kind: Kind::Path,
        example: Some("\"/etc/saker/client.key\""),
        summary: "Private key (PEM) of `certificate`. Default: in the file of the certificate.",
        aliases: &["proxy_ssl_certificate_key", "client_key"],
        since: "0.2",
        set: |tls, given| tls.key = Some(given.located_path()),
        ..Row::BASE
    },
];

impl UpstreamTlsDraft {
    /// Gives the settings to all servers with TLS, and reports those that have no use. `table`: of
    /// the upstream.
    pub fn apply(self, reader: &mut Reader<'_>, table: &Table<'_>, servers: &mut [ParsedServer]) {
        let Some(node) = table.get("tls") else {
            return;
        };
        let at = reader.at(node.span());
        if !servers.iter().any(|server| server.backend.tls.is_some()) {
            let help = "write the servers with https://, h2:// or tls://, or remove [upstream.tls]";
            reader.error(
                &at,
                "[upstream.tls] for servers without TLS",
                Some(help.into()),
            );
        }
        if let Some((_, at)) = self.authorities.as_ref().filter(|_| !self.verifies) {
            let help = "remove `verify`, so that the certificates are verified, or `ca_file`";
            reader.error(
                at,
                "`ca_file` and `verify = false` exclude each other",
                Some(help.into()),
            );
        }
        if let (Some((_, at)), None) = (&self.key, &self.certificate) {
            let help = "add certificate = \"client.pem\"";
            reader.error(at, "`key` without `certificate`", Some(help.into()));
        }
        let certificate = self.certificate.map(|(path, _)| path);
        let identity = certificate.map(|certificate| {
            let key = self
                .key
                .map_or_else(|| certificate.clone(), |(path, _)| path);
            (certificate, key)
        });
        let authorities = self.authorities.map_or_else(Vec::new, |(paths, _)| paths);
        let tls = BackendTls {
            verify: self.verifies,
            checks_name: self.verifies,
            checks_time: self.verifies,
            authorities,
            identity,
            name: self.name.map(Into::into),
            ..BackendTls::default()
        };
        for server in servers
            .iter_mut()
            .filter(|server| server.backend.tls.is_some())
        {
            server.backend.tls = Some(tls.clone());
        }
    }
}
