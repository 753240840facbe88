//! Revocation lists of X.509 version 1, which have no extensions and which webpki does not read:
//! `openssl ca -gencrl` makes them unless a section for extensions is configured.
//!
//! Called by: the verifiers of clients and of upstreams, after webpki has judged the chain; for certificates of
//! version 1, which webpki does not judge, all lists count here.
//!
//! Caveat: anything unclear refuses. A list that is out of date, is not signed by the authority it
//! names, or has critical extensions unknown here validates no certificate; its entries are refused
//! all the same.
//!
//! Out of scope: reading lists; `upstream_revocation` has those of upstreams.

use crate::{
    der,
    version1::{Signed, public_key, serial, without_zeros},
};
use rustls::{CertificateError, Error, crypto::CryptoProvider, pki_types::CertificateDer};
use saker_config::model::Revocation;
use std::collections::HashSet;
use x509_parser::{prelude::FromDer, revocation_list::CertificateRevocationList};

/// Longer chains are not followed.
const DEPTH_MAX: usize = 16;

/// A list of an authority.
#[derive(Debug)]
pub struct List {
    is_version_1: bool,
    /// DER.
    issuer: Vec<u8>,
    /// Seconds since 1970.
    next_update: Option<i64>,
    /// Without zeros before them.
    serials: HashSet<Vec<u8>>,
    has_critical_extensions: bool,
    /// The authority of that name has signed it, where it is known.
    is_signed: bool,
}

impl List {
    /// RFC 5280 section 5.1. `None`: it does not parse.
    pub fn parse(
        der: &[u8],
        authorities: &[CertificateDer<'_>],
        provider: &CryptoProvider,
    ) -> Option<List> {
        let (_, list) = CertificateRevocationList::from_der(der).ok()?;
        let issuer = list.issuer().as_raw().to_vec();
        let entries = || list.iter_revoked_certificates();
        let serials = entries().map(|entry| without_zeros(entry.raw_serial()).to_vec());
        let entry_extensions = entries().flat_map(|entry| entry.extensions());
        let has_critical_extensions = list
            .extensions()
            .iter()
            .chain(entry_extensions)
            .any(|extension| extension.critical);
        let signed = Signed::parse(der)?;
        let is_named = |one: &&CertificateDer<'_>| {
            der::certificate(one).is_some_and(|facts| facts.subject == issuer)
        };
        let mut named = authorities.iter().filter(is_named).peekable();
        let is_signed = named.peek().is_none()
            || named.any(|one| public_key(one).is_some_and(|key| signed.is_by(key, provider)));
        let is_version_1 = list.version().is_none_or(|version| version.0 == 0);
        Some(List {
            is_version_1,
            next_update: list.next_update().map(|time| time.timestamp()),
            serials: serials.collect(),
            issuer,
            has_critical_extensions,
            is_signed,
        })
    }

    pub fn is_version_1(&self) -> bool {
        self.is_version_1
    }

    pub fn is_signed(&self) -> bool {
        self.is_signed
    }
}

/// All lists of a policy, and what is asked of them.
#[derive(Debug)]
pub struct Lists {
    pub lists: Vec<List>,
    pub revocation: Revocation,
}

/// A certificate, as lists see it.
struct Listed {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    serial: Vec<u8>,
}

impl Listed {
    fn of(certificate: &[u8]) -> Option<Listed> {
        let facts = der::certificate(certificate)?;
        Some(Listed {
            subject: facts.subject,
            issuer: facts.issuer,
            serial: serial(certificate)?.to_vec(),
        })
    }
}

impl Lists {
    pub fn has_version_1(&self) -> bool {
        self.lists.iter().any(List::is_version_1)
    }

    /// Checks the client's certificate, and with `chain` every certificate that its chain may go
    /// through.
    ///
    /// # Errors
    /// A certificate is revoked, its list is out of date, or no list is there that could name it.
    pub fn check(
        &self,
        first: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        authorities: &[CertificateDer<'_>],
        now_s: i64,
    ) -> Result<(), Error> {
        let leaf =
            Listed::of(first).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let others: Vec<Listed> = rest
            .iter()
            .chain(authorities)
            .filter_map(|one| Listed::of(one))
            .collect();
        self.check_one(&leaf, now_s)?;
        if !matches!(self.revocation, Revocation::Chain { .. }) {
            return Ok(());
        }
        let mut wanted: HashSet<&[u8]> = HashSet::from([leaf.issuer.as_slice()]);
        for _ in 0..DEPTH_MAX {
            let found: Vec<&Listed> = others
                .iter()
                .filter(|one| wanted.contains(one.subject.as_slice()) && one.issuer != one.subject)
                .collect();
            found
                .iter()
                .try_for_each(|one| self.check_one(one, now_s))?;
            wanted = found.iter().map(|one| one.issuer.as_slice()).collect();
        }
        Ok(())
    }

    fn check_one(&self, certificate: &Listed, now_s: i64) -> Result<(), Error> {
        let own = || {
            self.lists
                .iter()
                .filter(|list| list.issuer == certificate.issuer)
        };
        if own().any(|list| list.serials.contains(&certificate.serial)) {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        let covering = || own().filter(|list| list.is_signed && !list.has_critical_extensions);
        if covering().any(|list| list.next_update.is_some_and(|until| until < now_s)) {
            return Err(Error::InvalidCertificate(
                CertificateError::ExpiredRevocationList,
            ));
        }
        match covering().next().is_some() || self.revocation.takes_unlisted() {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(
                CertificateError::UnknownRevocationStatus,
            )),
        }
    }
}
