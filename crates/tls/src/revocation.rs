//! Revocation lists of X.509 version 1, which have no extensions and which webpki does not read:
//! `openssl ca -gencrl` makes them unless a section for extensions is configured.
//!
//! Called by: the verifier of clients, after webpki has judged the chain; of certificates of
//! version 1, which webpki does not judge, all lists count here. Caveat: everything unclear
//! refuses. A list that is out of date, one signed by somebody else than the authority of its name,
//! or one whose critical extensions are not known here makes no certificate good; what stands in it
//! is refused all the same. Out of scope: lists of upstreams' authorities, which have to be of
//! version 2.

use crate::{
    der::{self, Der, INTEGER, SEQUENCE},
    version1::{Signed, public_key, serial, without_zeros},
};
use rustls::{CertificateError, Error, crypto::CryptoProvider, pki_types::CertificateDer};
use saker_config::model::Revocation;
use std::collections::HashSet;

const BOOLEAN: u8 = 0x01;
const OBJECT_IDENTIFIER: u8 = 0x06;
const EXTENSIONS: u8 = 0xa0;
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
        let mut fields = Der(Der(Der(der).expect(SEQUENCE)?).expect(SEQUENCE)?);
        let version = fields.optional(INTEGER);
        fields.expect(SEQUENCE)?;
        let issuer = fields.expect(SEQUENCE)?.to_vec();
        fields.time()?;
        let next_update = fields.optional_time();
        let mut serials = HashSet::new();
        let mut revoked = Der(fields.optional(SEQUENCE).unwrap_or_default());
        let mut has_critical_extensions = false;
        while !revoked.0.is_empty() {
            let mut entry = Der(revoked.expect(SEQUENCE)?);
            serials.insert(without_zeros(entry.expect(INTEGER)?).to_vec());
            entry.time()?;
            has_critical_extensions |= entry.optional(SEQUENCE).is_some_and(has_critical);
        }
        has_critical_extensions |= fields
            .optional(EXTENSIONS)
            .is_some_and(|all| Der(all).expect(SEQUENCE).is_none_or(has_critical));
        let signed = Signed::parse(der)?;
        let is_named = |one: &&CertificateDer<'_>| {
            der::certificate(one).is_some_and(|facts| facts.subject == issuer)
        };
        let mut named = authorities.iter().filter(is_named).peekable();
        let is_signed = named.peek().is_none()
            || named.any(|one| public_key(one).is_some_and(|key| signed.is_by(key, provider)));
        let is_version_1 = version.is_none_or(|version| version == [0]);
        Some(List {
            is_version_1,
            issuer,
            next_update,
            serials,
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

/// The content of `Extensions`; what does not parse counts as critical.
fn has_critical(extensions: &[u8]) -> bool {
    let mut extensions = Der(extensions);
    while !extensions.0.is_empty() {
        let Some(mut extension) = extensions.expect(SEQUENCE).map(Der) else {
            return true;
        };
        if extension.expect(OBJECT_IDENTIFIER).is_none()
            || extension
                .optional(BOOLEAN)
                .is_some_and(|value| value != [0])
        {
            return true;
        }
    }
    false
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
