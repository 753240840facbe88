//! mod_md: certificates that come by themselves, mapped onto the server's own manager of them
//! (crate `acme`).
//!
//! A managed domain is a list of names that share a certificate. A host with one of the names takes
//! part: its other names join the list, unless it says `manual`. Difficulty: Apache keeps what it
//! orders in a folder of its own; here it is in the state folder, so after the change-over
//! everything is ordered once more. Absent on purpose: kinds of keys, windows of renewal, messages
//! and monitoring, which the manager decides or does itself.

use crate::{arguments::texts, host_draft::HostDraft, reading::ServerSet};
use saker_ap_expr::base64_decode;
use saker_apache_syntax::Node;
use saker_config::{
    Diagnostic, Severity,
    model::{
        Acme, AcmeChallenge, AcmeDirectory, AcmeProfile, Address, Automatic, CertificateFiles,
        DnsWords, ExternalAccount, HttpsRedirect, Model, Origin, SiteName,
    },
};
use saker_http::Status;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Clone, Debug, Default)]
pub struct Managed {
    domains: Vec<Domain>,
    is_agreed: bool,
    /// MDMembers outside of domains.
    manual_members: bool,
    is_manual: bool,
    email: Option<String>,
    authorities: Vec<String>,
    authority_ca: Option<PathBuf>,
    profile: Option<String>,
    is_profile_mandatory: bool,
    account: Option<(String, String)>,
    challenges: Option<Vec<AcmeChallenge>>,
    dns_command: Option<String>,
    redirect: Option<Status>,
}

#[derive(Clone, Debug)]
struct Domain {
    names: Vec<String>,
    manual_members: Option<bool>,
    /// MDRenewMode manual: nothing is ordered.
    is_manual: Option<bool>,
    certificates: Vec<PathBuf>,
    keys: Vec<PathBuf>,
    redirect: Option<Status>,
    origin: Origin,
}

impl Domain {
    fn new(node: &Node) -> Domain {
        let mut domain = Domain {
            names: Vec::new(),
            manual_members: None,
            is_manual: None,
            certificates: Vec::new(),
            keys: Vec::new(),
            redirect: None,
            origin: node.origin.clone(),
        };
        domain.add(&texts(node));
        domain
    }

    /// Names, and `auto` or `manual` among them.
    fn add(&mut self, words: &[String]) {
        for word in words {
            match word.to_ascii_lowercase().as_str() {
                "auto" => self.manual_members = Some(false),
                "manual" => self.manual_members = Some(true),
                name if !self.names.iter().any(|known| known == name) => {
                    self.names.push(name.to_owned())
                }
                _ => {}
            }
        }
    }

    fn covers(&self, name: &SiteName) -> bool {
        let shown = match name {
            SiteName::Exact(name) => name.clone(),
            SiteName::Wildcard(parent) => format!("*.{parent}"),
            SiteName::Any => return false,
        };
        let parent = shown
            .split_once('.')
            .map(|(_, parent)| format!("*.{parent}"));
        self.names
            .iter()
            .any(|own| *own == shown || Some(own) == parent.as_ref())
    }

    fn files(&self) -> Vec<CertificateFiles> {
        let key =
            |at: usize, certificate: &PathBuf| self.keys.get(at).unwrap_or(certificate).clone();
        let files = |(at, certificate): (usize, &PathBuf)| {
            CertificateFiles::new(
                certificate.clone(),
                key(at, certificate),
                self.origin.clone(),
            )
        };
        self.certificates.iter().enumerate().map(files).collect()
    }
}

impl Managed {
    /// Returns `true` if a domain is managed.
    pub fn is_used(&self) -> bool {
        !self.domains.is_empty()
    }

    /// Gives the hosts of managed domains their certificates, and the manager its work.
    pub fn apply(&self, main: &HostDraft, model: &mut Model, diagnostics: &mut Vec<Diagnostic>) {
        let Some(first) = self.domains.first() else {
            return;
        };
        if !self.is_agreed {
            let text =
                "managed domains get no certificates unless MDCertificateAgreement says accepted"
                    .to_owned();
            diagnostics.push(Diagnostic::with_line(
                Severity::Warning,
                first.origin.clone(),
                0,
                text,
                None,
                "",
            ));
        }
        model.tls.acme = self.manager(main);
        let https = model
            .listeners
            .iter()
            .find(|listener| listener.tls.is_some())
            .map(|listener| listener.address.clone());
        for domain in &self.domains {
            let names = self.take_part(domain, model, https.as_ref());
            if self.is_agreed
                && !domain.is_manual.unwrap_or(self.is_manual)
                && domain.certificates.is_empty()
            {
                model.tls.acme.certificates.push(names);
            }
        }
    }

    /// Gives the hosts of a domain their part. Returns all names of the certificate.
    fn take_part(
        &self,
        domain: &Domain,
        model: &mut Model,
        https: Option<&Address>,
    ) -> Vec<String> {
        let mut names = domain.names.clone();
        let is_ordered = self.is_agreed && !domain.is_manual.unwrap_or(self.is_manual);
        let joins = !domain.manual_members.unwrap_or(self.manual_members);
        let encrypted: Vec<Address> = model
            .listeners
            .iter()
            .filter(|listener| listener.tls.is_some())
            .map(|listener| listener.address.clone())
            .collect();
        for site in model
            .sites
            .iter_mut()
            .filter(|site| site.names.iter().any(|name| domain.covers(name)))
        {
            let others = site
                .names
                .iter()
                .filter(|name| joins && !domain.covers(name))
                .filter_map(|name| match name {
                    SiteName::Exact(name) => Some(name.clone()),
                    _ => None,
                });
            names.extend(others.collect::<Vec<_>>());
            // No other reference to a site exists while the model is made.
            let Some(site) = Arc::get_mut(site) else {
                continue;
            };
            let is_encrypted = site
                .listeners
                .iter()
                .any(|address| encrypted.contains(address));
            if is_encrypted && site.tls.certificates.is_empty() {
                let tls = Arc::make_mut(&mut site.tls);
                tls.certificates = domain.files();
                tls.automatic = if tls.certificates.is_empty() && is_ordered {
                    Automatic::On
                } else {
                    Automatic::Off
                };
            }
            if let (false, Some(status), Some(Address::Tcp(https))) =
                (is_encrypted, domain.redirect.or(self.redirect), https)
            {
                site.https_redirect = Some(HttpsRedirect {
                    status,
                    port: https.port(),
                });
            }
        }
        names.sort();
        names.dedup();
        names
    }

    fn manager(&self, main: &HostDraft) -> Acme {
        let account = self.account.as_ref().map(|(key_id, key)| ExternalAccount {
            key_id: key_id.clone(),
            hmac_key: base64_decode(key.replace('-', "+").replace('_', "/").as_bytes()),
        });
        let profile = self.profile.clone().map(|name| AcmeProfile {
            name,
            is_mandatory: self.is_profile_mandatory,
        });
        let directory = |url: &String| AcmeDirectory {
            url: url.clone(),
            external_account: account.clone(),
            profile: profile.clone(),
        };
        let mut defaults = Acme::default();
        for directory in &mut defaults.directories {
            directory.profile.clone_from(&profile);
        }
        let mail = |admin: &str| {
            admin
                .contains('@')
                .then(|| admin.trim_start_matches("mailto:").to_owned())
        };
        let mut challenges = self.challenges.clone().unwrap_or(defaults.challenges);
        if self.dns_command.is_some() && self.challenges.is_none() {
            challenges.push(AcmeChallenge::Dns01);
        }
        Acme {
            directories: if self.authorities.is_empty() {
                defaults.directories
            } else {
                self.authorities.iter().map(directory).collect()
            },
            email: self
                .email
                .clone()
                .or_else(|| main.server_admin.as_deref().and_then(mail)),
            challenges,
            dns_command: self.dns_command.clone(),
            dns_words: DnsWords::ModMd,
            directory_ca: self.authority_ca.clone(),
            ..Acme::default()
        }
    }

    /// `<MDomainSet name…>`, and `<MDomain>` of old.
    pub fn section(&mut self, node: &Node, root: &Path) -> Result<(), String> {
        let mut domain = Domain::new(node);
        for child in &node.children {
            let words = texts(child);
            match child.canonical_name() {
                "MDMember" | "MDMembers" => domain.add(&words),
                "MDRenewMode" | "MDDriveMode" => domain.is_manual = Some(is_manual(&words)?),
                "MDCertificateFile" => domain
                    .certificates
                    .extend(words.first().map(|path| root.join(path))),
                "MDCertificateKeyFile" => domain
                    .keys
                    .extend(words.first().map(|path| root.join(path))),
                "MDRequireHttps" => domain.redirect = redirect(&words)?,
                // The process has one manager with one set of authorities.
                _ => {}
            }
        }
        if domain.names.is_empty() {
            return Err("<MDomainSet> needs at least one name".into());
        }
        self.domains.push(domain);
        Ok(())
    }
}

pub const SETTERS: &[(&str, ServerSet<Managed>)] = &[
    ("MDomain", |node, managed, _| {
        let domain = Domain::new(node);
        if domain.names.is_empty() {
            return Err("MDomain needs at least one name".into());
        }
        managed.domains.push(domain);
        Ok(())
    }),
    ("MDMembers", |node, managed, _| {
        managed.manual_members = texts(node)
            .first()
            .is_some_and(|word| word.eq_ignore_ascii_case("manual"));
        Ok(())
    }),
    ("MDCertificateAgreement", |node, managed, _| {
        managed.is_agreed =
            first(node).eq_ignore_ascii_case("accepted") || first(node).starts_with("https://");
        Ok(())
    }),
    ("MDContactEmail", |node, managed, _| {
        managed.email = Some(first(node).trim_start_matches("mailto:").to_owned());
        Ok(())
    }),
    ("MDCertificateAuthority", |node, managed, _| {
        managed.authorities = texts(node)
            .iter()
            .map(|word| authority(word))
            .collect::<Result<_, _>>()?;
        Ok(())
    }),
    ("MDCACertificateFile", |node, managed, root| {
        managed.authority_ca = Some(first(node))
            .filter(|word| !word.eq_ignore_ascii_case("none"))
            .map(|path| root.join(path));
        Ok(())
    }),
    ("MDProfile", |node, managed, _| {
        managed.profile = Some(first(node));
        Ok(())
    }),
    ("MDProfileMandatory", |node, managed, _| {
        managed.is_profile_mandatory = match first(node).to_ascii_lowercase().as_str() {
            "on" => true,
            "off" => false,
            other => {
                return Err(format!(
                    "MDProfileMandatory supported values are 'on' and 'off', not {other}"
                ));
            }
        };
        Ok(())
    }),
    ("MDExternalAccountBinding", |node, managed, root| {
        managed.account = account(&texts(node), root)?;
        Ok(())
    }),
    ("MDCAChallenges", |node, managed, _| {
        managed.challenges = Some(
            texts(node)
                .iter()
                .map(|word| challenge(word))
                .collect::<Result<_, _>>()?,
        );
        Ok(())
    }),
    ("MDChallengeDns01", |node, managed, _| {
        managed.dns_command = Some(
            String::from_utf8_lossy(node.argument_text())
                .trim()
                .to_owned(),
        );
        Ok(())
    }),
    ("MDRenewMode", |node, managed, _| {
        managed.is_manual = is_manual(&texts(node))?;
        Ok(())
    }),
    ("MDRequireHttps", |node, managed, _| {
        managed.redirect = redirect(&texts(node))?;
        Ok(())
    }),
];

fn first(node: &Node) -> String {
    texts(node).into_iter().next().unwrap_or_default()
}

fn is_manual(words: &[String]) -> Result<bool, String> {
    match words
        .first()
        .map(|word| word.to_ascii_lowercase())
        .as_deref()
    {
        Some("auto" | "always") => Ok(false),
        Some("manual") => Ok(true),
        word => Err(format!("unknown MDRenewMode {}", word.unwrap_or_default())),
    }
}

fn redirect(words: &[String]) -> Result<Option<Status>, String> {
    match words
        .first()
        .map(|word| word.to_ascii_lowercase())
        .as_deref()
    {
        Some("off") => Ok(None),
        Some("temporary") => Ok(Some(Status::FOUND)),
        Some("permanent") => Ok(Some(Status::MOVED_PERMANENTLY)),
        _ => Err("MDRequireHttps supported values are 'off', 'temporary' and 'permanent'".into()),
    }
}

/// A URL, or one of mod_md's names.
fn authority(word: &str) -> Result<String, String> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "letsencrypt" => Acme::LETS_ENCRYPT.into(),
        "letsencrypt-test" => Acme::LETS_ENCRYPT_STAGING.into(),
        "buypass" => "https://api.buypass.com/acme/directory".into(),
        "buypass-test" => "https://api.test4.buypass.no/acme/directory".into(),
        lower if lower.starts_with("https://") || lower.starts_with("http://") => word.to_owned(),
        _ => {
            return Err(format!(
                "MDCertificateAuthority: {word} is neither a URL nor a name that is known"
            ));
        }
    })
}

fn challenge(word: &str) -> Result<AcmeChallenge, String> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "http-01" => AcmeChallenge::Http01,
        "tls-alpn-01" => AcmeChallenge::TlsAlpn01,
        "dns-01" => AcmeChallenge::Dns01,
        _ => {
            return Err(format!(
                "MDCAChallenges: {word} is no challenge that is known"
            ));
        }
    })
}

/// `none`, `key-id hmac`, or a file with `{"kid": …, "hmac": …}`.
fn account(words: &[String], root: &Path) -> Result<Option<(String, String)>, String> {
    match words {
        [none] if none.eq_ignore_ascii_case("none") => Ok(None),
        [key_id, hmac] => Ok(Some((key_id.clone(), hmac.clone()))),
        [file] => {
            let text = saker_net::privileged::read_to_string(&root.join(file))
                .map_err(|error| format!("MDExternalAccountBinding: {file}: {error}"))?;
            let value = |name: &str| {
                let (_, rest) = text.split_once(&format!("\"{name}\""))?;
                Some(rest.split('"').nth(1)?.to_owned())
            };
            let pair = value("kid").zip(value("hmac"));
            pair.map(Some).ok_or_else(|| {
                format!("MDExternalAccountBinding: {file} has no \"kid\" and \"hmac\"")
            })
        }
        _ => Err("MDExternalAccountBinding takes a file, or a key id and its key".into()),
    }
}
