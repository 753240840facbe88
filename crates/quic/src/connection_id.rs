//! Connection ids (RFC 9000 section 5.1): which worker they lead to, and whether we gave them out.
//!
//! Two bytes that lead to the worker, four that lead to the process (`saker_net::steering`), half of
//! them at random, two that only the process' secret explains: what other ids people send costs a hash and gets no answer.

use crate::secrets::IdKey;
use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use saker_net::steering::{self, ID_BYTES};
use std::time::Duration;

const SIGNED_BYTES: usize = 6;

pub struct Ids {
    pub worker: usize,
    pub workers: usize,
    pub key: IdKey,
    /// Mark of the process: packets of these ids are led to it while a successor shares its address.
    pub tag: u16,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        // Should it ever fail, ids are no longer hard to guess, which costs privacy and not safety:
        // packets are authenticated.
        let _ = rand::fill(&mut id);
        let random = u16::from_be_bytes([id[0], id[1]]);
        id[..2].copy_from_slice(&steering::mark(self.worker, self.workers, random));
        steering::sign(&mut id, self.tag);
        let signature = self.key.signature(&id[..SIGNED_BYTES]);
        id[SIGNED_BYTES..].copy_from_slice(&signature);
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id.split_at_checked(SIGNED_BYTES) {
            Some((signed, signature)) if signature == self.key.signature(signed) => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
