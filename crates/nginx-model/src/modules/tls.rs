//! ngx_http_ssl_module: certificates and policies of servers.
//!
//! Called by: `load`.
//! Caveat: where a certificate of a server has variables, all of them are found in the handshake.
//! Out of scope: `listen … ssl` (`listen`).

use crate::{
    reading::Reading,
    server_name_text::Tables,
    text::Text,
    values::{flag, number_argument, time_argument},
};
use saker_config::{
    cipher_lists,
    model::{
        Automatic, CertificateFiles, CipherOrder, CipherSuite, ClientCertificates, ClientChecks,
        HandshakeCertificate, Origin, Passphrase, PassphraseDialog, SiteTls, Stapling, TlsVersion,
    },
};
use saker_nginx_syntax::Directive;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Settings of the module, at `http` and at servers.
#[derive(Clone, Debug, Default)]
pub struct TlsConf {
    pub certificates: Vec<(PathBuf, Origin)>,
    pub keys: Vec<PathBuf>,
    /// The same, as texts.
    pub certificate_texts: Vec<Text>,
    pub key_texts: Vec<Text>,
    pub protocols: Option<Vec<Box<str>>>,
    pub client_certificate: Option<PathBuf>,
    pub trusted_certificate: Option<PathBuf>,
    pub ticket_keys: Vec<PathBuf>,
    pub revoked: Option<PathBuf>,
    pub verify: Option<Box<str>>,
    pub verify_depth: Option<u32>,
    pub has_tickets: Option<bool>,
    pub staples: Option<bool>,
    pub responder: Option<Box<str>>,
    pub stapled: Option<PathBuf>,
    pub passphrases: Option<PathBuf>,
    /// OpenSSL's lists of suites for TLS 1.2 and for TLS 1.3.
    pub ciphers: Option<Box<str>>,
    pub ciphers_13: Option<Box<str>>,
    pub groups: Option<Box<str>>,
    /// Bounds of versions, in the order of [`PROTOCOLS`].
    pub version_min: Option<usize>,
    pub version_max: Option<usize>,
    pub prefers_own: Option<bool>,
    pub session_ms: Option<u64>,
    pub rejects: Option<bool>,
    /// `ssl on`, of nginx before 1.25.
    pub is_on: Option<bool>,
}

/// Names of the module's directives.
pub fn is_tls(name: &str) -> bool {
    name == "ssl" || name.starts_with("ssl_")
}

impl TlsConf {
    /// Applies a directive.
    ///
    /// # Errors
    /// nginx's message.
    pub fn set(&mut self, directive: &Directive, reading: &mut Reading<'_>) -> Result<(), String> {
        let text = directive.argument(0);
        let prefix = reading.conf_prefix;
        let path = || prefix.join(text);
        match directive.name() {
            "ssl_certificate" => {
                self.certificates.push((path(), directive.origin()));
                self.certificate_texts.push(reading.text(text)?);
            }
            "ssl_certificate_key" => {
                self.keys.push(path());
                self.key_texts.push(reading.text(text)?);
            }
            "ssl_protocols" => self.protocols = Some(directive.texts().map(Into::into).collect()),
            "ssl_client_certificate" => self.client_certificate = Some(path()),
            "ssl_trusted_certificate" => self.trusted_certificate = Some(path()),
            "ssl_session_ticket_key" => self.ticket_keys.push(path()),
            "ssl_crl" => self.revoked = Some(path()),
            "ssl_verify_client" => match text {
                "on" | "off" | "optional" | "optional_no_ca" => self.verify = Some(text.into()),
                _ => return Err(format!("invalid value \"{text}\"")),
            },
            "ssl_verify_depth" => {
                self.verify_depth = u32::try_from(number_argument(directive)?).ok();
            }
            "ssl_session_tickets" => self.has_tickets = Some(flag(directive)?),
            "ssl_stapling" => self.staples = Some(flag(directive)?),
            "ssl_stapling_responder" => self.responder = Some(text.into()),
            "ssl_stapling_file" => self.stapled = Some(path()),
            "ssl_password_file" => self.passphrases = Some(path()),
            "ssl_ciphers" => self.ciphers = Some(text.into()),
            "ssl_ecdh_curve" => self.groups = Some(text.into()),
            "ssl_prefer_server_ciphers" => self.prefers_own = Some(flag(directive)?),
            "ssl_session_timeout" => self.session_ms = Some(time_argument(directive)?),
            "ssl_conf_command" => self.command(directive, reading),
            "ssl_reject_handshake" => self.rejects = Some(flag(directive)?),
            "ssl" => self.is_on = Some(flag(directive)?),
            _ => {}
        }
        Ok(())
    }

    /// A command of OpenSSL's configuration (SSL_CONF_cmd(3)).
    fn command(&mut self, directive: &Directive, reading: &mut Reading<'_>) {
        let value = directive.argument(1);
        match directive.argument(0).to_ascii_lowercase().as_str() {
            "ciphersuites" => self.ciphers_13 = Some(value.into()),
            "cipherstring" => self.ciphers = Some(value.into()),
            "curves" | "groups" => self.groups = Some(value.into()),
            "minprotocol" | "maxprotocol" => match protocol(value) {
                Some(version) if directive.argument(0).eq_ignore_ascii_case("minprotocol") => {
                    self.version_min = Some(version);
                }
                Some(version) => self.version_max = Some(version),
                None => unknown_command(directive, reading),
            },
            "options" => value.split(',').for_each(|option| {
                let (is_on, name) = match option.strip_prefix('-') {
                    Some(name) => (false, name),
                    None => (true, option.trim_start_matches('+')),
                };
                match name.to_ascii_lowercase().as_str() {
                    "sessionticket" => self.has_tickets = Some(is_on),
                    "serverpreference" => self.prefers_own = Some(is_on),
                    // Done anyway where suites are not listed.
                    "prioritizechacha" => {}
                    _ => unknown_command(directive, reading),
                }
            }),
            _ => unknown_command(directive, reading),
        }
    }

    /// Takes what is not set from `http`.
    pub fn inherit(&mut self, outer: &TlsConf) {
        if self.certificates.is_empty() {
            self.certificates.clone_from(&outer.certificates);
            self.keys.clone_from(&outer.keys);
            self.certificate_texts.clone_from(&outer.certificate_texts);
            self.key_texts.clone_from(&outer.key_texts);
        }
        macro_rules! inherit {
            ($($field:ident)*) => {
                $(if self.$field.is_none() {
                    self.$field.clone_from(&outer.$field);
                })*
            };
        }
        if self.ticket_keys.is_empty() {
            self.ticket_keys.clone_from(&outer.ticket_keys);
        }
        inherit!(protocols client_certificate trusted_certificate revoked verify verify_depth has_tickets staples
            responder stapled passphrases ciphers ciphers_13 groups version_min version_max prefers_own
            session_ms rejects is_on);
    }

    /// Returns true if certificates are found in the handshake.
    pub fn is_of_handshake(&self) -> bool {
        let mut texts = self.certificate_texts.iter().chain(&self.key_texts);
        texts.any(|text| text.plain().is_none_or(|plain| plain.starts_with("data:")))
    }

    /// Returns the certificates that are found in the handshake.
    ///
    /// # Errors
    /// A message for a variable that has no value then.
    pub fn handshake_certificates(
        &self,
        tables: &Tables,
        base: &Path,
    ) -> Result<Vec<HandshakeCertificate>, String> {
        if !self.is_of_handshake() {
            return Ok(Vec::new());
        }
        let pairs = self.certificate_texts.iter().zip(&self.key_texts);
        pairs
            .map(|(certificate, key)| {
                let folders = [certificate, key].map(|text| tables.folders(text));
                let folders = folders.into_iter().flatten();
                Ok(HandshakeCertificate {
                    folders: folders.map(|folder| base.join(folder)).collect(),
                    certificate: tables.compile(certificate)?,
                    key: tables.compile(key)?,
                    base: base.to_path_buf(),
                })
            })
            .collect()
    }

    /// Returns true if requests need a good certificate; false if they must not have a bad one.
    /// `None`: neither.
    pub fn demands_certificate(&self) -> Option<bool> {
        match self.verify.as_deref() {
            Some("on") => Some(true),
            Some("optional") => Some(false),
            _ => None,
        }
    }

    /// Returns true if certificates of clients are verified by no authority.
    pub fn lacks_authorities(&self) -> bool {
        let has = self.client_certificate.is_some() || self.trusted_certificate.is_some();
        self.demands_certificate().is_some() && !has
    }

    /// Returns the settings of a site.
    pub fn site_tls(&self) -> SiteTls {
        let has = |name: &str| {
            let at = protocol(name).unwrap_or_default();
            let is_within = self.version_min.is_none_or(|min| at >= min)
                && self.version_max.is_none_or(|max| at <= max);
            let is_listed = |all: &Vec<Box<str>>| all.iter().any(|protocol| **protocol == *name);
            is_within && self.protocols.as_ref().is_none_or(is_listed)
        };
        let stapling = (self.staples == Some(true)).then(|| {
            Arc::new(Stapling {
                responder: self.responder.as_deref().map(str::to_owned),
                ..Stapling::default()
            })
        });
        let is_of_handshake = self.is_of_handshake();
        let certificates = self.certificates.iter().zip(&self.keys);
        let certificates = certificates.filter(|_| !is_of_handshake);
        let certificates = certificates.map(|((certificate, origin), key)| CertificateFiles {
            stapling: stapling.clone(),
            ocsp: self.stapled.clone(),
            passphrase: self.passphrases.clone().map(|path| {
                Arc::new(Passphrase {
                    dialog: PassphraseDialog::File(path),
                    server: String::new(),
                    number: 0,
                })
            }),
            ..CertificateFiles::new(certificate.clone(), key.clone(), origin.clone())
        });
        let older = ["TLSv1", "TLSv1.1", "TLSv1.2"];
        let has_older = older.iter().any(|name| has(name));
        SiteTls {
            certificates: certificates.collect(),
            handshake_certificates: Box::default(),
            automatic: Automatic::Off,
            minimum_version: match has_older {
                true => TlsVersion::Tls12,
                false => TlsVersion::Tls13,
            },
            without_tls13: has_older && !has("TLSv1.3"),
            client_certificates: match self.verify.as_deref() {
                // Handshakes are completed; requests without a good one get 400, as in nginx.
                Some("on" | "optional") => ClientCertificates::Asked,
                Some("optional_no_ca") => ClientCertificates::OptionalNoAuthority,
                _ => ClientCertificates::Off,
            },
            client_ca: self.client_certificate.clone(),
            client_crl: self.revoked.iter().cloned().collect(),
            client_checks: ClientChecks {
                // Certificates between the client's and an authority's, as OpenSSL counts.
                depth_max: Some(self.verify_depth.unwrap_or(1).saturating_add(1)),
                quiet_ca: self.trusted_certificate.clone(),
                ..ClientChecks::default()
            },
            ciphers: self.suites(),
            groups: cipher_lists::groups(self.groups.as_deref().unwrap_or_default()),
            cipher_order: match self.prefers_own {
                None => CipherOrder::Own,
                Some(true) => CipherOrder::OwnAlways,
                Some(false) => CipherOrder::Client,
            },
            ticket_lifetime_s: self
                .session_ms
                .map(|ms| u32::try_from(ms / 1000).unwrap_or(u32::MAX)),
            without_tickets: self.has_tickets == Some(false),
            rejects_handshakes: self.rejects == Some(true),
        }
    }

    /// The suites that the lists choose; empty: the engine's. Of a list of outdated suites alone,
    /// nothing remains.
    fn suites(&self) -> Vec<CipherSuite> {
        chosen_suites(self.ciphers.as_deref(), self.ciphers_13.as_deref())
    }
}

/// Versions in their order, as OpenSSL's configuration names them.
const PROTOCOLS: [&str; 5] = ["SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

fn protocol(name: &str) -> Option<usize> {
    PROTOCOLS
        .iter()
        .position(|known| known.eq_ignore_ascii_case(name))
}

/// The suites that lists for TLS 1.2 and 1.3 choose; empty: the engine's own.
pub fn chosen_suites(of_12: Option<&str>, of_13: Option<&str>) -> Vec<CipherSuite> {
    let of_12 = of_12.filter(|list| !list.eq_ignore_ascii_case("DEFAULT"));
    let of_12 = of_12
        .map(cipher_lists::list_12)
        .filter(|suites| !suites.is_empty());
    let of_13 = of_13
        .map(cipher_lists::list_13)
        .filter(|suites| !suites.is_empty());
    cipher_lists::together(of_12.as_deref(), of_13.as_deref())
}

/// Reports a command that has no effect here.
pub fn unknown_command(directive: &Directive, reading: &mut Reading<'_>) {
    let message = format!(
        "`{} {}` has no effect",
        directive.name(),
        directive.argument(0)
    );
    let help =
        "Ciphersuites, CipherString, Groups, MinProtocol, MaxProtocol, and Options are honored";
    reading.report.warn(directive, message, Some(help.into()));
}
