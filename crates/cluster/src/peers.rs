//! The servers that hand each other pages, and what a page's maker must have in force.
//!
//! Called by: `follow`, which tells where this server is in the log, and workers, which choose the
//! server to ask and judge who asks.
//! A page from another server is right if that server has every purge in force that is in force
//! here. So the one who asks names its own place in the log ([`RequiredPlace`]), and the other one
//! answers only when it has been there.
//! Caveat: the order. The place that is named is set before purges are carried out, the places
//! that are claimed afterwards; so neither a purge that is half in force here nor one that is half
//! in force there is missed.
//! Out of scope: asking and answering (`saker_page_cache::peers`).

use crate::{
    clock::Clock,
    log::{Entry, EntryId},
    outbox::Outbox,
    position::Position,
};
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::watch, time::timeout};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Records whose places are remembered: a server that is further behind is not answered.
const PLACES_MAX: usize = 4096;

/// Time for which purges that were found missing are named. By then, each server that lives has
/// looked itself.
const LOST_FOR: Duration = Duration::from_secs(60);
const LOST_MAX: usize = 32;

/// A server that has not looked at the log for longer hands out no pages.
const LOOKED_WITHIN: Duration = Duration::from_secs(10);

/// Time for which a server that could not be reached is not asked.
const PAUSE: Duration = Duration::from_secs(3);

/// Servers that are asked for a page, at most, one after the other.
const ASKED_MAX: usize = 2;

/// The place in the log that another server must have reached, and purges that it must have seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPlace {
    id: EntryId,
    hash: u64,
    /// Servers and numbers of their purges.
    purges: Vec<(u64, u64)>,
}

impl RequiredPlace {
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        for number in [self.id.major, self.id.minor, self.hash] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(self.purges.len() as u8);
        for number in self.purges.iter().flat_map(|(origin, seq)| [*origin, *seq]) {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Takes what `encode_into` writes from the front of `rest`.
    pub fn decode_from(rest: &mut &[u8]) -> Option<RequiredPlace> {
        let (major, minor, hash) = (number(rest)?, number(rest)?, number(rest)?);
        let (count, behind) = rest.split_first()?;
        *rest = behind;
        let mut purges = Vec::new();
        for _ in 0..*count {
            purges.push((number(rest)?, number(rest)?));
        }
        let id = EntryId { major, minor };
        Some(RequiredPlace { id, hash, purges })
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_le_bytes(*number))
}

/// A server that hands out pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: u64,
    pub address: SocketAddr,
}

#[derive(Default)]
struct Places {
    /// Up to here, purges are in force or about to be.
    ahead: Option<(EntryId, u64)>,
    /// Records whose purges are in force, in their order.
    behind: VecDeque<(EntryId, u64)>,
    seen: HashMap<u64, u64>,
    /// Purges that are not in the log, for which this server has cleared its cache.
    lost: Vec<(u64, u64, Instant)>,
    is_serving: bool,
    is_connected: bool,
    looked: Option<Instant>,
}

/// The servers that hand each other pages, as this one knows them.
pub struct PeerTable {
    outbox: Arc<Outbox>,
    clock: Clock,
    peers: Mutex<Arc<[Peer]>>,
    paused: Mutex<HashMap<SocketAddr, Instant>>,
    places: Mutex<Places>,
    moved: watch::Sender<()>,
}

impl PeerTable {
    pub(crate) fn new(outbox: Arc<Outbox>, clock: Clock) -> PeerTable {
        PeerTable {
            outbox,
            clock,
            peers: Mutex::new(Arc::from([])),
            paused: Mutex::default(),
            places: Mutex::default(),
            moved: watch::channel(()).0,
        }
    }

    /// Servers to ask for a page, the best first; none: this server is the one to make it. Each
    /// server chooses alike by rendezvous hashing, so a server that goes takes no other pages along
    /// than its own.
    pub fn chosen(&self, url: &[u8]) -> Vec<Peer> {
        let peers = Arc::clone(&self.peers.lock().unwrap_or_else(PoisonError::into_inner));
        let own = xxh3_64_with_seed(url, self.outbox.origin());
        let now = self.clock.now();
        let paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_paused = |peer: &&Peer| paused.get(&peer.address).is_some_and(|until| now < *until);
        let mut better: Vec<(u64, Peer)> = peers
            .iter()
            .filter(|peer| !is_paused(peer))
            .map(|peer| (xxh3_64_with_seed(url, peer.id), *peer))
            .filter(|(score, _)| *score > own)
            .collect();
        better.sort_unstable_by_key(|(score, _)| std::cmp::Reverse(*score));
        better.truncate(ASKED_MAX);
        better.into_iter().map(|(_, peer)| peer).collect()
    }

    /// Does not ask a server for a while, since it could not be reached.
    pub fn pause(&self, peer: Peer) {
        let until = self.clock.now() + PAUSE;
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        paused.insert(peer.address, until);
    }

    pub(crate) fn set_peers(&self, peers: Vec<Peer>) {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        paused.retain(|address, _| peers.iter().any(|peer| peer.address == *address));
        drop(paused);
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers.into();
    }

    /// The place that another server must have reached so that its pages are right here. `None`:
    /// this server cannot tell. To be asked for after the number of purges was read that a copied
    /// page will have.
    pub fn required(&self) -> Option<RequiredPlace> {
        let (own, last_seq) = (self.outbox.origin(), self.outbox.last_seq());
        let mut places = self.places();
        let now = self.clock.now();
        places
            .lost
            .retain(|(.., at)| now.duration_since(*at) < LOST_FOR);
        // Its purges wait here, so no other server can have them.
        let is_behind =
            self.outbox.is_incomplete() || !places.is_connected && self.outbox.waiting().0 > 0;
        if !places.is_serving || is_behind || places.lost.len() > LOST_MAX {
            return None;
        }
        let (id, hash) = places.ahead?;
        let lost = places.lost.iter().map(|(origin, seq, _)| (*origin, *seq));
        let own = (last_seq > 0).then_some((own, last_seq));
        let purges = own.into_iter().chain(lost).collect();
        Some(RequiredPlace { id, hash, purges })
    }

    /// True if everything is in force here that a server with that place has in force.
    pub fn has(&self, required: &RequiredPlace) -> bool {
        let places = self.places();
        let now = self.clock.now();
        let looked = places.looked.map(|at| now.saturating_duration_since(at));
        places.is_serving
            && looked.is_some_and(|age| age < LOOKED_WITHIN)
            && places.has_read((required.id, required.hash))
            && required.purges.iter().all(|(origin, seq)| {
                let seen = match *origin == self.outbox.origin() {
                    true => Some(self.outbox.last_seq()),
                    false => places.seen.get(origin).copied(),
                };
                seen.is_some_and(|seen| seen >= *seq)
            })
    }

    /// Waits until [`PeerTable::has`] holds; false: the time is over.
    pub async fn wait_for(&self, required: &RequiredPlace, time: Duration) -> bool {
        let mut moved = self.moved.subscribe();
        let comes = async {
            while !self.has(required) {
                if moved.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        timeout(time, comes).await.unwrap_or(false)
    }

    /// Called before the purges of these records are carried out.
    pub(crate) fn begin(&self, new: &[Entry]) {
        if let Some(last) = new.last() {
            self.places().ahead = Some(place(last));
        }
    }

    /// Called when they are in force.
    pub(crate) fn finish(&self, new: &[Entry], seen: &HashMap<u64, u64>) {
        let mut places = self.places();
        places.behind.extend(new.iter().map(place));
        let surplus = places.behind.len().saturating_sub(PLACES_MAX);
        places.behind.drain(..surplus);
        places.seen.clone_from(seen);
        drop(places);
        self.moved.send_replace(());
    }

    /// Called before the cache is cleared to go on from a place.
    pub(crate) fn begin_at(&self, position: &Position) {
        self.places().ahead = Some((position.id, position.hash));
    }

    /// Called when reading goes on from a place: nothing is known of what was before.
    pub(crate) fn finish_at(&self, position: &Position) {
        let mut places = self.places();
        places.ahead = Some((position.id, position.hash));
        places.behind.clear();
        places.behind.push_back((position.id, position.hash));
        places.seen.clone_from(&position.seen);
        drop(places);
        self.moved.send_replace(());
    }

    /// Called before the cache is cleared because a server's purges are not in the log.
    pub(crate) fn lose(&self, origin: u64, seq: u64) {
        let mut places = self.places();
        places.lost.retain(|(other, ..)| *other != origin);
        places.lost.push((origin, seq, self.clock.now()));
    }

    pub(crate) fn set_serving(&self, is_serving: bool) {
        self.places().is_serving = is_serving;
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.places().is_connected = is_connected;
    }

    /// Called when everything has been read that was in the log at that time.
    pub(crate) fn looked(&self, at: Instant) {
        self.places().looked = Some(at);
        self.moved.send_replace(());
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn has_read(&self, place: (EntryId, u64)) -> bool {
        let found = self.behind.binary_search_by_key(&place.0, |(id, _)| *id);
        found.is_ok_and(|at| self.behind.get(at) == Some(&place))
    }
}

fn place(entry: &Entry) -> (EntryId, u64) {
    let position = Position::at(entry);
    (position.id, position.hash)
}

#[cfg(test)]
mod tests;
