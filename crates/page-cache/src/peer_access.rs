//! Ways to the other servers of a cluster that hand out pages.
//!
//! Called by: `cache`, which holds them, and `peers`, which uses them.
//! Caveat: an upstream per server, so that all requests of a worker share its connections. What the
//! engine says of servers decides whom a connection is made to; the certificate decides whether it
//! is one of them.
//! Out of scope: what is asked (`peers`).

use crate::recent_pages::Recent;
use saker_cache_store::KeyHash;
use saker_cluster::{Peer, PeerTable};
use saker_config::model::{
    Backend, BackendAddress, BackendTls, Member, Peers, Protocol, Tuning, Upstream,
};
use saker_pipeline::Fetcher;
use std::{
    collections::HashMap,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

/// Time in which a connection to another server has to be made.
const CONNECT_TIMEOUT_MS: u64 = 500;

/// Settings and state for handing out pages, and for asking for them. One for all workers.
pub struct PeerPages {
    pub table: Arc<PeerTable>,
    pub settings: Peers,
    /// One upstream per server, so that its connections are used again.
    upstreams: Mutex<HashMap<SocketAddr, Arc<Upstream>>>,
    /// Pages that were asked for.
    recent: Mutex<Recent>,
}

impl PeerPages {
    pub fn new(table: Arc<PeerTable>, settings: Peers) -> PeerPages {
        PeerPages {
            table,
            settings,
            upstreams: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    pub fn upstream(&self, peer: Peer) -> Arc<Upstream> {
        let mut upstreams = self
            .upstreams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !upstreams.contains_key(&peer.address) && upstreams.len() >= saker_cluster::MEMBERS_MAX {
            upstreams.clear();
        }
        let made = || Arc::new(self.make_upstream(peer.address));
        Arc::clone(upstreams.entry(peer.address).or_insert_with(made))
    }

    fn make_upstream(&self, address: SocketAddr) -> Upstream {
        let Peers {
            certificate,
            key,
            ca_file,
            name,
            timeout_ms,
            ..
        } = &self.settings;
        let tls = BackendTls {
            authorities: vec![ca_file.clone()],
            identity: Some((certificate.clone(), key.clone())),
            name: Some(name.as_str().into()),
            ..BackendTls::default()
        };
        let (host, port) = (address.ip().to_string().into(), address.port());
        let backend = Backend {
            tls: Some(tls),
            ..Backend::new(Protocol::Http2, BackendAddress::Tcp { host, port })
        };
        let tuning = Tuning {
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            timeout_ms: *timeout_ms,
            queue_timeout_ms: *timeout_ms,
            retry_ms: 0,
            ..Tuning::default()
        };
        let member = Member {
            authority: name.as_str().into(),
            ..Member::new(backend, tuning)
        };
        Upstream::new(&format!("server {address} of the cluster"), vec![member])
    }

    /// True if a page is asked for so often that it is kept here.
    pub fn is_kept(&self, key: KeyHash) -> bool {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.count(key) >= self.settings.copied_after
    }
}

/// A worker's way to the other servers.
pub struct PeerAccess {
    pub pages: Arc<PeerPages>,
    pub fetcher: Rc<dyn Fetcher>,
}
