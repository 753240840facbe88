//! `SSLEngine`: which listeners speak TLS.
//!
//! Called by: `Process::finish`, once all hosts are read. Caveat: TLS begins before a host is
//! named, so the first host of an address decides for all that share it (mod_ssl as it behaves).
//! Out of scope: which certificate is shown; `TlsDraft::site` says that for each host.

use crate::{
    host_draft::HostDraft,
    listen::{Listen, is_for, local_address},
};
use saker_config::{Diagnostic, Severity, model::Address};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

pub struct Engines<'a> {
    listens: &'a [Listen],
    main: &'a HostDraft,
    drafts: &'a [HostDraft],
    /// A managed domain may give certificates to hosts that name none.
    is_managed: bool,
    /// By address, as [`key`] writes it.
    first: HashMap<String, &'a HostDraft>,
}

impl<'a> Engines<'a> {
    pub fn new(
        listens: &'a [Listen],
        main: &'a HostDraft,
        drafts: &'a [HostDraft],
        is_managed: bool,
    ) -> Engines<'a> {
        let mut first = HashMap::new();
        for draft in drafts {
            for text in &draft.addresses {
                first.entry(key(text)).or_insert(draft);
            }
        }
        Engines {
            listens,
            main,
            drafts,
            is_managed,
            first,
        }
    }

    /// Returns `true` if connections to `listener` begin with TLS. `is_unclaimed`: the server's own
    /// host is on it.
    pub fn is_on_at(&self, listener: &Address, is_unclaimed: bool) -> bool {
        let Address::Tcp(address) = listener else {
            return false;
        };
        let own = is_unclaimed && self.main.tls.engine == Some(true);
        own || self
            .deciding(address)
            .into_iter()
            .any(|draft| self.is_on(draft))
    }

    /// Hosts whose `SSLEngine on` another host of the same address, read before them, has made
    /// void.
    pub fn overruled(&self) -> Vec<Diagnostic> {
        let on = self
            .drafts
            .iter()
            .filter(|draft| draft.tls.engine == Some(true));
        let of_draft = |draft: &HostDraft| {
            let text = draft.addresses.first()?;
            let first = self
                .first
                .get(&key(text))
                .filter(|first| !self.is_on(first))?;
            let name = first.server_name.as_deref().unwrap_or("without ServerName");
            let message = format!(
                "SSLEngine on has no effect: the first virtual host of {text} ({name}) does not speak TLS"
            );
            Some(Diagnostic::with_line(
                Severity::Warning,
                draft.origin.clone(),
                0,
                message,
                None,
                "",
            ))
        };
        on.filter_map(of_draft).collect()
    }

    /// The first host of each address that takes connections of this listener. An address of its
    /// own comes before `*`.
    fn deciding(&self, listener: &SocketAddr) -> Vec<&HostDraft> {
        let is_own =
            |text: &str| local_address(text).is_some_and(|local| !local.ip().is_unspecified());
        let taking: Vec<_> = self
            .first
            .iter()
            .filter(|(text, _)| is_for(text, listener))
            .collect();
        let only_own =
            !listener.ip().is_unspecified() && taking.iter().any(|(text, _)| is_own(text));
        taking
            .into_iter()
            .filter(|(text, _)| !only_own || is_own(text))
            .map(|(_, draft)| *draft)
            .collect()
    }

    /// Returns whether TLS is on: by the host, then by the server; then by a `Listen` line of just
    /// that address whose protocol is https, if there is a certificate.
    fn is_on(&self, draft: &HostDraft) -> bool {
        let has_certificate = self.is_managed
            || [draft, self.main]
                .iter()
                .any(|draft| !draft.tls.certificates.is_empty());
        draft
            .tls
            .engine
            .or(self.main.tls.engine)
            .unwrap_or_else(|| has_certificate && self.is_https(draft))
    }

    fn is_https(&self, draft: &HostDraft) -> bool {
        let is_same = |listen: &Listen, local: SocketAddr| {
            listen.port == local.port()
                && listen.address.map_or(local.ip().is_unspecified(), |ip| {
                    ip == local.ip() || (ip.is_unspecified() && local.ip().is_unspecified())
                })
        };
        let locals = || {
            draft
                .addresses
                .iter()
                .filter_map(|text| local_address(text))
        };
        self.listens
            .iter()
            .any(|listen| listen.is_https && locals().any(|local| is_same(listen, local)))
    }
}

/// Different spellings of one address are one.
fn key(text: &str) -> String {
    let Some(address) = local_address(text) else {
        return text.to_owned();
    };
    let host = match address.ip() {
        ip if ip.is_unspecified() => "*".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    if address.port() == 0 {
        format!("{host}:*")
    } else {
        format!("{host}:{}", address.port())
    }
}

#[cfg(test)]
mod tests {
    use crate::load::load;
    use saker_apache_syntax::{OnDisk, Setup};
    use saker_config::model::Address;

    /// Ports on which the server begins with TLS.
    fn encrypted(text: &str) -> Vec<u16> {
        let dir = saker_testkit::TempDir::new("engines").unwrap();
        let file = dir
            .write(
                "httpd.conf",
                format!("LoadModule ssl_module modules/mod_ssl.so\nServerName x\n{text}"),
            )
            .unwrap();
        let loaded = load(&Setup::new(&*dir, file), &OnDisk);
        let with_tls = loaded
            .model
            .listeners
            .iter()
            .filter(|listener| listener.tls.is_some());
        let mut ports: Vec<u16> = with_tls
            .filter_map(|listener| match &listener.address {
                Address::Tcp(address) => Some(address.port()),
                _ => None,
            })
            .collect();
        ports.dedup();
        ports
    }

    #[test]
    fn port_443_is_https_unless_something_else_is_said() {
        let certificate = "SSLCertificateFile /none.pem\n";
        let host = "<VirtualHost *:443>\nServerName a\n</VirtualHost>\n";
        assert_eq!(
            encrypted(&format!("Listen 443\n{certificate}{host}")),
            [443]
        );
        for plain in [
            format!("Listen 443 http\n{certificate}{host}"),
            format!("Listen 443\n{host}"),
            format!("Listen 443\n{certificate}"),
            format!("Listen 443\nSSLEngine off\n{certificate}{host}"),
            format!("Listen 127.0.0.1:443\n{certificate}{host}"),
        ] {
            assert!(encrypted(&plain).is_empty(), "{plain}");
        }
    }
}
