//! mod_ssl towards the servers that we pass requests on to: SSLProxyEngine, and what the others demand of them.
//!
//! Difficulty: Apache's own values. Nobody has to vouch for a certificate unless SSLProxyVerify says so, but it has to be for the server's name
//! and valid all the same. Absent on purpose: SSLProxyVerifyDepth (webpki has a bound of its own).

use crate::{
    modules::{core::texts, dir::set_flag, ssl_ciphers},
    server::ServerSet,
    tls::{Versions, read_versions, revocation},
};
use saker_config::model::{BackendTls, CipherSuite, Revocation, TlsVersion};
use std::path::PathBuf;

/// What a host says; what it does not say is the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTlsDraft {
    engine: Option<bool>,
    verify: Option<bool>,
    checks_name: Option<bool>,
    checks_common_name: Option<bool>,
    checks_time: Option<bool>,
    authorities: Option<PathBuf>,
    authority_folder: Option<PathBuf>,
    revocation: Option<Revocation>,
    revocation_file: Option<PathBuf>,
    revocation_folder: Option<PathBuf>,
    identity: Option<PathBuf>,
    versions: Option<Versions>,
    ciphers_12: Option<Vec<CipherSuite>>,
    ciphers_13: Option<Vec<CipherSuite>>,
}

impl UpstreamTlsDraft {
    /// `None`: TLS towards servers is off, as it is unless somebody turns it on.
    pub fn settled(&self, main: &UpstreamTlsDraft) -> Option<BackendTls> {
        fn or<T: Clone>(own: &Option<T>, outer: &Option<T>) -> Option<T> {
            own.as_ref().or(outer.as_ref()).cloned()
        }
        or(&self.engine, &main.engine).filter(|on| *on)?;
        let versions = or(&self.versions, &main.versions).unwrap_or(Versions { tls12: true, tls13: true });
        let (of_12, of_13) = (or(&self.ciphers_12, &main.ciphers_12), or(&self.ciphers_13, &main.ciphers_13));
        let (name, common) = (or(&self.checks_name, &main.checks_name), or(&self.checks_common_name, &main.checks_common_name));
        Some(BackendTls {
            verify: or(&self.verify, &main.verify).unwrap_or(false),
            checks_name: is_name_checked(name, common),
            checks_time: or(&self.checks_time, &main.checks_time).unwrap_or(true),
            authorities: [or(&self.authorities, &main.authorities), or(&self.authority_folder, &main.authority_folder)]
                .into_iter()
                .flatten()
                .collect(),
            revocation: or(&self.revocation, &main.revocation).unwrap_or(Revocation::Off),
            revocation_lists: [or(&self.revocation_file, &main.revocation_file), or(&self.revocation_folder, &main.revocation_folder)]
                .into_iter()
                .flatten()
                .collect(),
            // One file has both.
            identity: or(&self.identity, &main.identity).map(|path| (path.clone(), path)),
            name: None,
            ciphers: ssl_ciphers::together(of_12.as_deref(), of_13.as_deref()),
            without_tls12: !versions.tls12,
            without_tls13: !versions.tls13,
        })
    }
}

/// SSLProxyCheckPeerName and SSLProxyCheckPeerCN (httpd 2.4, mod_ssl.html): either may ask for it; the older one alone can also turn it off.
fn is_name_checked(name: Option<bool>, common: Option<bool>) -> bool {
    match (name, common) {
        (Some(true), _) | (_, Some(true)) => true,
        (Some(false), _) | (None, Some(false)) => false,
        (None, None) => true,
    }
}

pub const SETTERS: &[(&str, ServerSet)] = &[
    ("SSLProxyEngine", |node, host, _, _| set_flag(node, &mut host.upstream_tls.engine)),
    ("SSLProxyVerify", |node, host, _, _| {
        let word = texts(node).into_iter().next().unwrap_or_default().to_ascii_lowercase();
        host.upstream_tls.verify = Some(match word.as_str() {
            "none" | "off" | "optional_no_ca" => false,
            // A server always shows its certificate.
            "require" | "on" | "optional" => true,
            _ => return Err("SSLProxyVerify: Invalid argument".into()),
        });
        Ok(())
    }),
    ("SSLProxyCheckPeerName", |node, host, _, _| set_flag(node, &mut host.upstream_tls.checks_name)),
    ("SSLProxyCheckPeerCN", |node, host, _, _| set_flag(node, &mut host.upstream_tls.checks_common_name)),
    ("SSLProxyCheckPeerExpire", |node, host, _, _| set_flag(node, &mut host.upstream_tls.checks_time)),
    ("SSLProxyCACertificateFile", |node, host, _, root| {
        host.upstream_tls.authorities = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyCACertificatePath", |node, host, _, root| {
        host.upstream_tls.authority_folder = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyCARevocationCheck", |node, host, _, _| {
        host.upstream_tls.revocation = Some(revocation(node)?);
        Ok(())
    }),
    ("SSLProxyCARevocationFile", |node, host, _, root| {
        host.upstream_tls.revocation_file = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyCARevocationPath", |node, host, _, root| {
        host.upstream_tls.revocation_folder = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyMachineCertificateFile", |node, host, _, root| {
        host.upstream_tls.identity = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyProtocol", |node, host, _, _| {
        host.upstream_tls.versions = Some(read_versions(node)?);
        Ok(())
    }),
    ("SSLProxyCipherSuite", |node, host, _, _| {
        let tls = &mut host.upstream_tls;
        match ssl_ciphers::read(&texts(node))? {
            Some(read) if read.version == TlsVersion::Tls13 => tls.ciphers_13 = Some(read.suites),
            Some(read) => tls.ciphers_12 = Some(read.suites),
            None => tls.ciphers_12 = None,
        }
        Ok(())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_unless_turned_on_and_the_host_before_the_server() {
        let on = UpstreamTlsDraft { engine: Some(true), verify: Some(true), ..UpstreamTlsDraft::default() };
        let silent = UpstreamTlsDraft::default();
        assert_eq!(silent.settled(&silent), None);
        let usual = UpstreamTlsDraft { engine: Some(true), ..UpstreamTlsDraft::default() }.settled(&silent).unwrap();
        assert_eq!((usual.verify, usual.checks_name, usual.checks_time), (false, true, true));
        assert!(silent.settled(&on).unwrap().verify);
        let off = UpstreamTlsDraft { engine: Some(false), ..UpstreamTlsDraft::default() };
        assert_eq!(off.settled(&on), None);
        let lax = UpstreamTlsDraft { verify: Some(false), ..UpstreamTlsDraft::default() };
        assert!(!lax.settled(&on).unwrap().verify);
    }

    #[test]
    fn names_are_checked_as_the_two_directives_say() {
        let (on, off) = (Some(true), Some(false));
        for (name, common, checked) in
            [(None, None, true), (on, off, true), (off, None, false), (off, off, false), (off, on, true), (None, off, false)]
        {
            assert_eq!(is_name_checked(name, common), checked, "{name:?} {common:?}");
        }
    }
}
