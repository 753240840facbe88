//! Revocation lists of X.509 version 1 for upstreams: `openssl ca -gencrl` makes them unless a section
//! for extensions is configured.
//!
//! Called by: the client, which reads the files, and the policy for upstreams, after webpki has
//! judged the chain.
//! Caveat: a certificate of version 1 is judged by no list, because webpki accepts none from an
//! upstream.
//! Out of scope: lists of version 2 alone, which webpki reads.

use crate::revocation::{List, Lists};
use rustls::{
    Error,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, CertificateRevocationListDer},
};
use saker_config::model::Revocation;
use saker_tls_verifier::Presented;

/// Revocation lists where one is of X.509 version 1, which webpki does not read.
#[derive(Debug)]
pub struct OldLists {
    lists: Lists,
    authorities: Vec<CertificateDer<'static>>,
    /// Those of version 1.
    old: Vec<CertificateRevocationListDer<'static>>,
}

impl OldLists {
    /// # Errors
    /// A list is unusable, or was not made by the authority that it names.
    pub fn of(
        authorities: Vec<CertificateDer<'static>>,
        revocation: Revocation,
        ders: &[CertificateRevocationListDer<'static>],
        provider: &CryptoProvider,
    ) -> Result<OldLists, String> {
        let (mut lists, mut old) = (Vec::new(), Vec::new());
        for der in ders {
            let list = List::parse(der, &authorities, provider)
                .ok_or("a revocation list is not understood")?;
            if list.is_version_1() {
                if !list.is_signed() {
                    return Err(
                        "a revocation list is not signed by the authority that it names".into(),
                    );
                }
                old.push(der.clone());
            }
            lists.push(list);
        }
        let lists = Lists { lists, revocation };
        Ok(OldLists {
            lists,
            authorities,
            old,
        })
    }

    pub fn has_version_1(&self) -> bool {
        !self.old.is_empty()
    }

    pub fn is_version_1(&self, list: &CertificateRevocationListDer<'_>) -> bool {
        self.old.iter().any(|old| old == list)
    }

    /// # Errors
    /// The certificate is revoked, or the lists do not tell.
    pub fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
        let now_s = i64::try_from(presented.now.as_secs()).unwrap_or(i64::MAX);
        self.lists.check(
            presented.certificate,
            presented.intermediates,
            &self.authorities,
            now_s,
        )
    }
}
