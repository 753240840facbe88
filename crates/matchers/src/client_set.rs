//! Sets of client addresses: networks, list files, and countries.
//!
//! Called by: matchers.
//! Caveat: list files and databases are attached after all files of a configuration have been read
//! ([`ClientSet::attach`]); they may change while the server runs, so outcomes that depend on them
//! are not cached.
//! Out of scope: reading the files.

use crate::evaluation::Evaluation;
use saker_ap_expr::{Dependency, Predicate, RequestPart, Subnet, TextPredicate};
use saker_ipset::{AddressList, AddressSet, GeoDatabase, place_of};
use std::{
    net::IpAddr,
    path::PathBuf,
    rc::Rc,
    sync::{Arc, OnceLock},
};

/// Networks up to this number are recorded one by one, which is faster than a lookup of the text.
const SINGLE_TESTS_MAX: usize = 8;

/// Client addresses.
#[derive(Debug, Default)]
pub struct ClientSet {
    pub subnets: Box<[Subnet]>,
    /// Made from the same networks as `subnets`.
    pub set: AddressSet,
    /// List files.
    pub files: Box<[PathBuf]>,
    /// Two-letter codes (ISO 3166-1).
    pub countries: Box<[String]>,
    attached: OnceLock<Attached>,
}

/// Lists and databases that files hold.
#[derive(Debug)]
struct Attached {
    lists: Vec<Arc<AddressList>>,
    databases: Vec<Arc<GeoDatabase>>,
}

impl ClientSet {
    /// Makes a set of networks as text (valid ones only), list files, and countries.
    pub fn new(networks: &[String], files: Vec<PathBuf>, countries: Vec<String>) -> ClientSet {
        ClientSet {
            subnets: networks
                .iter()
                .filter_map(|text| Subnet::parse_block(text))
                .collect(),
            set: networks
                .iter()
                .filter_map(|text| text.parse().ok())
                .collect(),
            files: files.into(),
            countries: countries.into(),
            attached: OnceLock::new(),
        }
    }

    /// Attaches the lists of `files` and the databases that locate addresses, once.
    pub fn attach(&self, lists: Vec<Arc<AddressList>>, databases: Vec<Arc<GeoDatabase>>) {
        self.attached.get_or_init(|| Attached { lists, databases });
    }

    fn is_constant(&self) -> bool {
        self.files.is_empty() && self.countries.is_empty()
    }

    fn contains(&self, address: IpAddr) -> bool {
        if self.set.contains(address) {
            return true;
        }
        let Some(attached) = self.attached.get() else {
            return false;
        };
        if attached.lists.iter().any(|list| list.contains(address)) {
            return true;
        }
        if self.countries.is_empty() {
            return false;
        }
        let place = place_of(&attached.databases, address);
        place.country.as_deref().is_some_and(|known| {
            self.countries
                .iter()
                .any(|country| country.eq_ignore_ascii_case(known))
        })
    }
}

/// Returns whether the client is in the set, and records that.
pub(crate) fn matches(set: &Arc<ClientSet>, evaluation: &mut Evaluation<'_>) -> bool {
    let Some(address) = evaluation.facts.client_address() else {
        evaluation.dependencies.add(Dependency::Client);
        return false;
    };
    if !set.is_constant() {
        evaluation.dependencies.add(Dependency::Client);
        return set.contains(address);
    }
    if set.subnets.len() <= SINGLE_TESTS_MAX {
        for subnet in &set.subnets {
            let result = subnet.contains(address);
            let part = RequestPart::ClientAddress;
            evaluation.record(part, Predicate::Within(*subnet), result);
            if result {
                return true;
            }
        }
        return false;
    }
    let result = set.contains(address);
    let test = Predicate::Other(Rc::new(RecordedSet(Arc::clone(set))));
    evaluation.record(RequestPart::ClientAddress, test, result);
    result
}

#[derive(Debug)]
struct RecordedSet(Arc<ClientSet>);

impl TextPredicate for RecordedSet {
    fn holds(&self, text: Option<&[u8]>) -> Option<bool> {
        let address = std::str::from_utf8(text?).ok()?.parse().ok()?;
        Some(self.0.contains(address))
    }

    fn identify(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"clients\0");
        out.extend((Arc::as_ptr(&self.0) as usize).to_ne_bytes());
    }
}
