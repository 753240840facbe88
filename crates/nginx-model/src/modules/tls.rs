//! ngx_http_ssl_module: certificates and policies of servers.
//!
//! Called by: `load`.
//! Caveat: certificates with variables in their names are not read, so such a server cannot start.
//! Out of scope: `listen … ssl` (`listen`).

use crate::{
    reading::Reading,
    values::{flag, number_argument},
};
use saker_config::model::{
    Automatic, CertificateFiles, ClientCertificates, ClientChecks, Origin, SiteTls, Stapling,
    TlsVersion,
};
use saker_nginx_syntax::Directive;
use std::{path::PathBuf, sync::Arc};

/// Settings of the module, at `http` and at servers.
#[derive(Clone, Debug, Default)]
pub struct TlsConf {
    pub certificates: Vec<(PathBuf, Origin)>,
    pub keys: Vec<PathBuf>,
    pub protocols: Option<Vec<Box<str>>>,
    pub client_certificate: Option<PathBuf>,
    pub revoked: Option<PathBuf>,
    pub verify: Option<Box<str>>,
    pub verify_depth: Option<u32>,
    pub has_tickets: Option<bool>,
    pub staples: Option<bool>,
    pub responder: Option<Box<str>>,
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
    pub fn set(&mut self, directive: &Directive, reading: &Reading<'_>) -> Result<(), String> {
        let text = directive.argument(0);
        let path = || reading.conf_prefix.join(text);
        let constant = || match text.contains('$') || text.starts_with("data:") {
            true => Err(format!(
                "\"{}\" with variables is not supported: name a file",
                directive.name()
            )),
            false => Ok(path()),
        };
        match directive.name() {
            "ssl_certificate" => {
                let path = constant()?;
                self.certificates.push((path, directive.origin()));
            }
            "ssl_certificate_key" => self.keys.push(constant()?),
            "ssl_protocols" => self.protocols = Some(directive.texts().map(Into::into).collect()),
            "ssl_client_certificate" => self.client_certificate = Some(path()),
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
            "ssl_reject_handshake" => self.rejects = Some(flag(directive)?),
            "ssl" => self.is_on = Some(flag(directive)?),
            _ => {}
        }
        Ok(())
    }

    /// Takes what is not set from `http`.
    pub fn inherit(&mut self, outer: &TlsConf) {
        if self.certificates.is_empty() {
            self.certificates.clone_from(&outer.certificates);
            self.keys.clone_from(&outer.keys);
        }
        macro_rules! inherit {
            ($($field:ident)*) => {
                $(if self.$field.is_none() {
                    self.$field.clone_from(&outer.$field);
                })*
            };
        }
        inherit!(protocols client_certificate revoked verify verify_depth has_tickets staples
            responder rejects is_on);
    }

    /// Returns the settings of a site.
    pub fn site_tls(&self) -> SiteTls {
        let has = |name: &str| {
            self.protocols
                .as_ref()
                .is_none_or(|all| all.iter().any(|protocol| **protocol == *name))
        };
        let stapling = (self.staples == Some(true)).then(|| {
            Arc::new(Stapling {
                responder: self.responder.as_deref().map(str::to_owned),
                ..Stapling::default()
            })
        });
        let certificates = self.certificates.iter().zip(&self.keys);
        let certificates = certificates.map(|((certificate, origin), key)| CertificateFiles {
            stapling: stapling.clone(),
            ..CertificateFiles::new(certificate.clone(), key.clone(), origin.clone())
        });
        let older = ["TLSv1", "TLSv1.1", "TLSv1.2"];
        let has_older = older.iter().any(|name| has(name));
        SiteTls {
            certificates: certificates.collect(),
            automatic: Automatic::Off,
            minimum_version: match has_older {
                true => TlsVersion::Tls12,
                false => TlsVersion::Tls13,
            },
            without_tls13: has_older && !has("TLSv1.3"),
            client_certificates: match self.verify.as_deref() {
                Some("on") => ClientCertificates::Required,
                Some("optional") => ClientCertificates::Optional,
                Some("optional_no_ca") => ClientCertificates::OptionalNoAuthority,
                _ => ClientCertificates::Off,
            },
            client_ca: self.client_certificate.clone(),
            client_crl: self.revoked.iter().cloned().collect(),
            client_checks: ClientChecks {
                depth_max: self.verify_depth,
                ..ClientChecks::default()
            },
            without_tickets: self.has_tickets == Some(false),
            ..SiteTls::default()
        }
    }
}
