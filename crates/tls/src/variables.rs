//! mod_ssl's variables of a session (`SSL_…`), for rules, logs and programs.
//!
//! Made when they are asked for: most requests ask for none. Names are compared without case, as
//! mod_ssl does. Absent on purpose: `SSL_SESSION_ID`, because sessions live in tickets and have no
//! name of the server's; SRP.

use crate::{
    SessionInfo,
    client_verification::ClientVerification,
    x509::{Certificate, NameForm, pem},
};
use saker_telemetry::access_log::Computed;
use std::borrow::Cow;

/// Variables that programs get with `SSLOptions +StdEnvVars`, in addition to name components and
/// alternative names.
pub const STANDARD: &[&str] = &[
    "SSL_VERSION_INTERFACE",
    "SSL_VERSION_LIBRARY",
    "SSL_PROTOCOL",
    "SSL_SECURE_RENEG",
    "SSL_COMPRESS_METHOD",
    "SSL_CIPHER",
    "SSL_CIPHER_EXPORT",
    "SSL_CIPHER_USEKEYSIZE",
    "SSL_CIPHER_ALGKEYSIZE",
    "SSL_CLIENT_VERIFY",
    "SSL_CLIENT_M_VERSION",
    "SSL_CLIENT_M_SERIAL",
    "SSL_CLIENT_V_START",
    "SSL_CLIENT_V_END",
    "SSL_CLIENT_V_REMAIN",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_A_KEY",
    "SSL_CLIENT_A_SIG",
    "SSL_CLIENT_CERT_RFC4523_CEA",
    "SSL_SERVER_M_VERSION",
    "SSL_SERVER_M_SERIAL",
    "SSL_SERVER_V_START",
    "SSL_SERVER_V_END",
    "SSL_SERVER_S_DN",
    "SSL_SERVER_I_DN",
    "SSL_SERVER_A_KEY",
    "SSL_SERVER_A_SIG",
    "SSL_SESSION_RESUMED",
];

impl SessionInfo {
    /// The value of `SSL_NAME`; `None`: there is none. `now` in seconds since 1970.
    pub fn variable(&self, name: &str, form: NameForm, now: i64) -> Option<Cow<'_, str>> {
        let upper = name.to_ascii_uppercase();
        let rest = upper.strip_prefix("SSL_")?;
        if let Some(part) = rest.strip_prefix("CLIENT_") {
            return self.client_variable(part, form, now);
        }
        if let Some(part) = rest.strip_prefix("SERVER_") {
            return Certificate::parse(self.server_certificate()?)?
                .variable(part, form, now)
                .map(Cow::Owned);
        }
        let bits = || {
            if self.cipher.contains("128") {
                "128"
            } else {
                "256"
            }
        };
        Some(Cow::Borrowed(match rest {
            "PROTOCOL" => self.version.name(),
            "CIPHER" => self.cipher_openssl,
            "CIPHER_EXPORT" => "false",
            "CIPHER_USEKEYSIZE" | "CIPHER_ALGKEYSIZE" => bits(),
            // There is none here, and TLS 1.3 knows none.
            "COMPRESS_METHOD" => "NULL",
            "SECURE_RENEG" => "true",
            "SESSION_RESUMED" if self.resumed => "Resumed",
            "SESSION_RESUMED" => "Initial",
            "TLS_SNI" => return self.server_name.as_deref().map(Cow::Borrowed),
            "VERSION_INTERFACE" => concat!("Saker/", env!("CARGO_PKG_VERSION")),
            "VERSION_LIBRARY" => "rustls",
            _ => return None,
        }))
    }

    fn client_variable(&self, part: &str, form: NameForm, now: i64) -> Option<Cow<'_, str>> {
        if part == "VERIFY" {
            return Some(Cow::Borrowed(match self.client_verification {
                ClientVerification::None => "NONE",
                ClientVerification::Success => "SUCCESS",
                ClientVerification::Generous => self.complaint(),
            }));
        }
        if let Some(index) = part.strip_prefix("CERT_CHAIN_") {
            let at = index.parse::<usize>().ok()?.checked_add(1)?;
            return self
                .client_certificates
                .get(at)
                .map(|der| Cow::Owned(pem(der)));
        }
        Certificate::parse(self.client_certificates.first()?)?
            .variable(part, form, now)
            .map(Cow::Owned)
    }

    /// Reason for which OpenSSL would have rejected the certificate.
    fn complaint(&self) -> &'static str {
        let leaf = self
            .client_certificates
            .first()
            .and_then(|der| Certificate::parse(der));
        match leaf {
            Some(leaf) if leaf.is_self_issued() => "FAILED:self-signed certificate",
            _ => "FAILED:unable to verify the first certificate",
        }
    }

    /// All that programs are told with `StdEnvVars`; empty ones are not.
    pub fn standard_variables(&self, form: NameForm, now: i64) -> Vec<(String, String)> {
        let fixed = STANDARD.iter().filter_map(|name| {
            Some((
                (*name).to_owned(),
                self.variable(name, form, now)?.into_owned(),
            ))
        });
        let parts = |prefix: &str, der: Option<&[u8]>| {
            let parts = der
                .and_then(Certificate::parse)
                .map(|certificate| certificate.parts())
                .unwrap_or_default();
            parts
                .into_iter()
                .map(|(name, value)| (format!("{prefix}{name}"), value))
                .collect::<Vec<_>>()
        };
        let server = parts("SSL_SERVER_", self.server_certificate());
        let client = parts(
            "SSL_CLIENT_",
            self.client_certificates.first().map(AsRef::as_ref),
        );
        fixed
            .chain(server)
            .chain(client)
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// All that programs are told with `ExportCertData`.
    pub fn certificate_variables(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = self
            .server_certificate()
            .map(|der| ("SSL_SERVER_CERT".into(), pem(der)))
            .into_iter()
            .collect();
        let names = std::iter::once("SSL_CLIENT_CERT".to_owned())
            .chain((0..).map(|at| format!("SSL_CLIENT_CERT_CHAIN_{at}")));
        if self.client_certificates.is_empty() {
            all.push(("SSL_CLIENT_CERT".into(), String::new()));
        }
        all.extend(names.zip(self.client_certificates.iter().map(|der| pem(der))));
        all
    }

    /// The name of the client as FakeBasicAuth has it.
    pub fn client_name(&self) -> Option<String> {
        Certificate::parse(self.client_certificates.first()?)?.variable("S_DN", NameForm::Legacy, 0)
    }

    /// Values of the client certificate's extensions with this object id.
    pub fn client_extensions(&self, object_id: &str) -> Vec<String> {
        let certificate = self
            .client_certificates
            .first()
            .and_then(|der| Certificate::parse(der));
        certificate
            .map(|certificate| certificate.extension_values(object_id))
            .unwrap_or_default()
    }
}

/// For access logs (`%{SSL_…}x`).
impl Computed for SessionInfo {
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        self.variable(name, NameForm::Rfc2253, crate::unix_time::now())
    }
}
