//! State that all workers share: counts by client address, bans, and the memories of the client
//! rules.
//!
//! Called by: every rule of this crate; the server's listener and its control socket.
//! Caveat: everything is bounded, because an attacker may have any number of addresses.
//! Out of scope: keeping bans and keys over a restart (`server`).

use crate::{KeyRing, Remembered, SharedCounts, evasive::Repeats, login::Attempts};
use saker_ipset::{Bans, ClientNetwork};
use saker_rate_limits::{Account, AddressTable, Usage};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

/// Clients that have requested a page that comes before downloads.
const TRIGGERS_MAX: usize = 1 << 18;
/// Clients that have tried to log in.
const LOGINS_MAX: usize = 1 << 17;
/// Addresses that claimed to be bots.
const NAMES_MAX: usize = 1 << 15;
/// Clearances under a request rate.
const CLEARANCES_MAX: usize = 1 << 16;

/// Values of keys under a limit.
const KEYED_MAX: usize = 1 << 16;

/// Generation, site, limit, and value of a key.
pub type KeyHash = [u64; 2];

/// Limits and bans by client address.
#[derive(Debug)]
pub struct ClientLimits {
    pub addresses: Arc<AddressTable>,
    pub bans: Arc<Bans>,
    pub repeats: Repeats,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            addresses: Arc::new(AddressTable::new(0)),
            bans: Arc::default(),
            repeats: Repeats::default(),
        }
    }
}

/// Login attempts by client and site.
pub type LoginTable = Remembered<(ClientNetwork, usize), Attempts>;

/// The result of a reverse lookup, each name confirmed by a forward lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    Names(Vec<String>),
    /// The name server did not answer.
    Unknown,
}

/// Results by address and name server, with the time until which they are good.
pub type NameTable = Remembered<(IpAddr, Option<SocketAddr>), (Arc<Confirmed>, i64)>;

/// State kept for the client rules.
#[derive(Debug)]
pub struct SharedAbuseState {
    /// Sign the tokens that clients carry.
    pub keys: KeyRing,
    /// Times until which a client may have the files of a rule.
    pub triggers: Remembered<(ClientNetwork, u64), i64>,
    pub logins: LoginTable,
    pub names: NameTable,
    /// Usage of the limits by key, for each value of a key.
    pub keyed: Remembered<KeyHash, Arc<Usage>>,
    /// Request rate used by holders of clearances.
    pub clearances: Remembered<Vec<u8>, Arc<Account>>,
    /// Counts together with the other servers of a cluster that shares limits.
    pub counts: OnceLock<Arc<SharedCounts>>,
}

impl Default for SharedAbuseState {
    fn default() -> Self {
        SharedAbuseState {
            keys: KeyRing::default(),
            triggers: Remembered::new(TRIGGERS_MAX),
            logins: Remembered::new(LOGINS_MAX),
            names: Remembered::new(NAMES_MAX),
            keyed: Remembered::new(KEYED_MAX),
            clearances: Remembered::new(CLEARANCES_MAX),
            counts: OnceLock::new(),
        }
    }
}
