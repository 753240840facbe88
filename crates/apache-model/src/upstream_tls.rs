//! mod_ssl towards upstreams: SSLProxyEngine, and the directives that set its demands.
//!
//! Called by: setters of hosts and of `<Proxy>` sections, which may demand something else of their
//! upstreams (`proxy/workers`).
//! Caveat: Apache's own defaults. A certificate needs no known authority unless SSLProxyVerify says
//! so, but it has to be valid and for the upstream's name.
//! Out of scope: SSLProxyVerifyDepth (webpki has a bound of its own).

use crate::{
    arguments::{set_flag, texts},
    tls::{Versions, read_versions, revocation},
};
use saker_apache_syntax::Node;
use saker_config::{
    cipher_lists,
    model::{BackendTls, CipherSuite, Revocation, TlsVersion},
};
use std::path::{Path, PathBuf};

/// The settings of a host; what is not set is the server's.
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
    pub fn is_empty(&self) -> bool {
        *self == UpstreamTlsDraft::default()
    }

    /// The settings of `over`, and these where it sets nothing.
    pub fn merge(&self, over: &UpstreamTlsDraft) -> UpstreamTlsDraft {
        fn or<T: Clone>(own: &Option<T>, outer: &Option<T>) -> Option<T> {
            own.as_ref().or(outer.as_ref()).cloned()
        }
        UpstreamTlsDraft {
            engine: or(&over.engine, &self.engine),
            verify: or(&over.verify, &self.verify),
            checks_name: or(&over.checks_name, &self.checks_name),
            checks_common_name: or(&over.checks_common_name, &self.checks_common_name),
            checks_time: or(&over.checks_time, &self.checks_time),
            authorities: or(&over.authorities, &self.authorities),
            authority_folder: or(&over.authority_folder, &self.authority_folder),
            revocation: or(&over.revocation, &self.revocation),
            revocation_file: or(&over.revocation_file, &self.revocation_file),
            revocation_folder: or(&over.revocation_folder, &self.revocation_folder),
            identity: or(&over.identity, &self.identity),
            versions: or(&over.versions, &self.versions),
            ciphers_12: or(&over.ciphers_12, &self.ciphers_12),
            ciphers_13: or(&over.ciphers_13, &self.ciphers_13),
        }
    }

    /// `None`: TLS towards upstreams is off, which is the default.
    pub fn settled(&self) -> Option<BackendTls> {
        self.engine.filter(|on| *on)?;
        let versions = self.versions.unwrap_or(Versions::ALL);
        let both = |file: &Option<PathBuf>, folder: &Option<PathBuf>| {
            file.iter().chain(folder).cloned().collect()
        };
        Some(BackendTls {
            passphrases: None,
            verify: self.verify.unwrap_or(false),
            checks_name: is_name_checked(self.checks_name, self.checks_common_name),
            checks_time: self.checks_time.unwrap_or(true),
            authorities: both(&self.authorities, &self.authority_folder),
            revocation: self.revocation.unwrap_or(Revocation::Off),
            revocation_lists: both(&self.revocation_file, &self.revocation_folder),
            // One file has both.
            identity: self.identity.clone().map(|path| (path.clone(), path)),
            name: None,
            ciphers: cipher_lists::together(self.ciphers_12.as_deref(), self.ciphers_13.as_deref()),
            without_tls12: !versions.tls12,
            without_tls13: !versions.tls13,
            ..BackendTls::default()
        })
    }
}

/// SSLProxyCheckPeerName and SSLProxyCheckPeerCN (httpd 2.4, mod_ssl.html): either may ask for it;
/// the older one alone can also turn it off.
fn is_name_checked(name: Option<bool>, common: Option<bool>) -> bool {
    match (name, common) {
        (Some(true), _) | (_, Some(true)) => true,
        (Some(false), _) | (None, Some(false)) => false,
        (None, None) => true,
    }
}

/// Puts one directive into its draft.
type Set = fn(&Node, &mut UpstreamTlsDraft, &Path) -> Result<(), String>;

const SETTERS: &[(&str, Set)] = &[
    ("SSLProxyEngine", |node, tls, _| {
        set_flag(node, &mut tls.engine)
    }),
    ("SSLProxyVerify", |node, tls, _| {
        let word = texts(node)
            .into_iter()
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        tls.verify = Some(match word.as_str() {
            "none" | "off" | "optional_no_ca" => false,
            // A server always shows its certificate.
            "require" | "on" | "optional" => true,
            _ => return Err("SSLProxyVerify: Invalid argument".into()),
        });
        Ok(())
    }),
    ("SSLProxyCheckPeerName", |node, tls, _| {
        set_flag(node, &mut tls.checks_name)
    }),
    ("SSLProxyCheckPeerCN", |node, tls, _| {
        set_flag(node, &mut tls.checks_common_name)
    }),
    ("SSLProxyCheckPeerExpire", |node, tls, _| {
        set_flag(node, &mut tls.checks_time)
    }),
    ("SSLProxyCACertificateFile", |node, tls, root| {
        tls.authorities = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyCACertificatePath", |node, tls, root| {
        tls.authority_folder = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyCARevocationCheck", |node, tls, _| {
        tls.revocation = Some(revocation(node)?);
        Ok(())
    }),
    ("SSLProxyCARevocationFile", |node, tls, root| {
        tls.revocation_file = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyCARevocationPath", |node, tls, root| {
        tls.revocation_folder = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyMachineCertificateFile", |node, tls, root| {
        tls.identity = texts(node).first().map(|path| root.join(path));
        Ok(())
    }),
    ("SSLProxyProtocol", |node, tls, _| {
        tls.versions = Some(read_versions(node)?);
        Ok(())
    }),
    ("SSLProxyCipherSuite", |node, tls, _| {
        match cipher_lists::read(&texts(node))? {
            Some(read) if read.version == TlsVersion::Tls13 => tls.ciphers_13 = read.suites,
            Some(read) => tls.ciphers_12 = read.suites,
            None => tls.ciphers_12 = None,
        }
        Ok(())
    }),
];

/// The names, for tests of tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTERS.iter().map(|(name, _)| *name)
}

/// `None`: it is another matter.
pub fn set(node: &Node, draft: &mut UpstreamTlsDraft, root: &Path) -> Option<Result<(), String>> {
    let (_, set) = SETTERS
        .iter()
        .find(|(name, _)| *name == node.canonical_name())?;
    Some(set(node, draft, root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_unless_turned_on_and_the_host_before_the_server() {
        let on = UpstreamTlsDraft {
            engine: Some(true),
            verify: Some(true),
            ..UpstreamTlsDraft::default()
        };
        let silent = UpstreamTlsDraft::default();
        assert_eq!(silent.merge(&silent).settled(), None);
        let usual = silent
            .merge(&UpstreamTlsDraft {
                engine: Some(true),
                ..UpstreamTlsDraft::default()
            })
            .settled()
            .unwrap();
        assert_eq!(
            (usual.verify, usual.checks_name, usual.checks_time),
            (false, true, true)
        );
        assert!(on.merge(&silent).settled().unwrap().verify);
        let off = UpstreamTlsDraft {
            engine: Some(false),
            ..UpstreamTlsDraft::default()
        };
        assert_eq!(on.merge(&off).settled(), None);
        let lax = UpstreamTlsDraft {
            verify: Some(false),
            ..UpstreamTlsDraft::default()
        };
        assert!(!on.merge(&lax).settled().unwrap().verify);
    }

    #[test]
    fn names_are_checked_as_the_two_directives_say() {
        let (on, off) = (Some(true), Some(false));
        for (name, common, checked) in [
            (None, None, true),
            (on, off, true),
            (off, None, false),
            (off, off, false),
            (off, on, true),
            (None, off, false),
        ] {
            assert_eq!(
                is_name_checked(name, common),
                checked,
                "{name:?} {common:?}"
            );
        }
    }
}
