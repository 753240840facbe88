//! The depth of a chain of certificates, as OpenSSL counts it.
//!
//! Called by: the verifiers of clients and of upstreams, which limit it.
//! Caveat: webpki does not report the path that it took from the certificate to the authority. The
//! depth is that of the longest path by names, so that additional certificates can only make it
//! worse.

use crate::der;
use rustls::pki_types::CertificateDer;
use std::collections::HashSet;

/// Longer chains are not followed; webpki's own bound is below it.
const DEPTH_MAX: u32 = 16;

/// Names in a certificate, in DER.
#[derive(Debug)]
pub struct Names {
    pub subject: Vec<u8>,
    pub issuer: Vec<u8>,
}

impl Names {
    pub fn of(certificate: &[u8]) -> Option<Names> {
        der::certificate(certificate).map(|facts| Names {
            subject: facts.subject,
            issuer: facts.issuer,
        })
    }
}

/// Depth of the longest path to an authority: a certificate that an authority signed itself has 1.
pub fn depth(
    authorities: &[Names],
    first: &CertificateDer<'_>,
    rest: &[CertificateDer<'_>],
) -> u32 {
    let between: Vec<Names> = rest
        .iter()
        .filter_map(|certificate| Names::of(certificate))
        .collect();
    let Some(leaf) = Names::of(first) else {
        return u32::MAX;
    };
    if authorities
        .iter()
        .any(|authority| authority.subject == leaf.subject)
        && leaf.subject == leaf.issuer
    {
        return 0;
    }
    let mut wanted: HashSet<&[u8]> = HashSet::from([leaf.issuer.as_slice()]);
    let mut deepest = 0;
    for depth in 1..=DEPTH_MAX {
        let found = authorities
            .iter()
            .filter(|authority| wanted.contains(authority.subject.as_slice()));
        if found.clone().next().is_some() {
            deepest = depth;
        }
        let next = found.chain(
            between
                .iter()
                .filter(|one| wanted.contains(one.subject.as_slice())),
        );
        wanted = next
            .filter(|one| one.issuer != one.subject)
            .map(|one| one.issuer.as_slice())
            .collect();
    }
    if deepest == 0 { u32::MAX } else { deepest }
}
