//! This server in a cluster: joined with the page cache, and shown on the control socket.
//!
//! Called by: `page_cache`, when the cache is opened; the supervisor, for status and metrics.
//! Caveat: entries are suspended before a worker sees the store; the cluster ends the suspension
//! when it has caught up. Purges that were queued when an earlier process ended may not be in force
//! here, so they are carried out again.
//! Out of scope: replication (`saker_cluster`) and the engines (`saker_cluster_redis`,
//! `saker_cluster_postgres`, `saker_cluster_nats`).

use saker_cache_store::{Purge, Store};
use saker_cluster::{
    Acknowledged, ClientReport, Clock, MemberReport, Node, NodeOptions, NodeQueue, Report, Target,
};
use saker_cluster_nats::NatsEngine;
use saker_cluster_postgres::PostgresEngine;
use saker_cluster_redis::RedisEngine;
use saker_config::model::{Cluster, ClusterDatabase, ClusterUrl};
use saker_page_cache::{PeerPages, shared_purges};
use saker_serving::shared::PageCache;
use saker_telemetry::{Counters, metrics::ExtraGauge};
use serde_json::{Value, json};
use std::{
    io,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// The page cache's store, as the cluster changes it.
struct CacheTarget(Weak<Store>);

impl Target for CacheTarget {
    // Errors have been logged, and what was asked for holds.
    fn purge(&self, purges: Vec<Purge>) {
        if let Some(store) = self.0.upgrade() {
            let _ = store.purge_received(shared_purges::received(&store, purges));
        }
    }

    fn clear(&self) {
        if let Some(store) = self.0.upgrade() {
            let _ = store.clear();
        }
    }

    fn set_serving(&self, serves: bool) {
        if let Some(store) = self.0.upgrade() {
            store.set_serving(serves);
        }
    }
}

/// Joins the cluster of the configuration. `None`: this server is alone.
///
/// # Errors
/// The queue of purges cannot be opened.
pub fn join(
    cluster: &Cluster,
    cache: &PageCache,
    counters: &Arc<Counters>,
) -> io::Result<Option<Arc<Node>>> {
    let Some(url) = cluster.url.as_ref().filter(|_| cluster.share.purges) else {
        return Ok(None);
    };
    let store = &cache.store;
    let (queue, waiting) = NodeQueue::open(&cache.folder)?;
    for purges in waiting {
        match purges {
            Some(purges) => store.purge_received(shared_purges::received(store, purges))?,
            None => store.clear()?,
        };
    }
    store.share(queue.outgoing());
    store.set_serving(false);
    let options = NodeOptions {
        folder: cache.folder.to_path_buf(),
        name: match cluster.node.as_str() {
            "auto" => automatic_name(queue.id()),
            name => name.to_owned(),
        },
        version: env!("CARGO_PKG_VERSION").into(),
        max_staleness: Duration::from_millis(cluster.max_staleness_ms),
        started: Instant::now(),
        clock: Clock::default(),
        peer: cluster.peers.address(),
    };
    let target = Arc::new(CacheTarget(Arc::downgrade(store)));
    let counters = Arc::clone(counters);
    let node = match engine(cluster, url) {
        AnyEngine::Redis(engine) => Node::start(&queue, options, engine, target, counters),
        AnyEngine::Postgres(engine) => Node::start(&queue, options, engine, target, counters),
        AnyEngine::Nats(engine) => Node::start(&queue, options, engine, target, counters),
    };
    node.map(|node| Some(Arc::new(node)))
}

/// Pages that the servers hand each other. `None`: each makes its own.
pub fn peers(cluster: &Cluster, node: &Node) -> Option<Arc<PeerPages>> {
    cluster.peers.listen?;
    let pages = PeerPages::new(node.peers(), cluster.peers.clone());
    Some(Arc::new(pages))
}

/// The engine of a configuration.
pub enum AnyEngine {
    Redis(RedisEngine),
    Postgres(PostgresEngine),
    Nats(NatsEngine),
}

pub fn engine(cluster: &Cluster, url: &ClusterUrl) -> AnyEngine {
    let (host, port) = (url.host.clone(), url.port);
    let (user, password) = (url.user.clone(), url.password.clone());
    let (authorities, prefix) = (cluster.ca_file.clone(), cluster.stream.clone());
    let retention = cluster.retention;
    match &url.database {
        ClusterDatabase::Redis(number) => AnyEngine::Redis(RedisEngine {
            host,
            port,
            is_tls: url.is_tls,
            user,
            password,
            database: i64::from(*number),
            authorities,
            prefix,
            retention,
        }),
        ClusterDatabase::Postgres(name) => AnyEngine::Postgres(PostgresEngine {
            host,
            port,
            user,
            password,
            database: name.clone(),
            authorities,
            prefix,
            retention,
        }),
        ClusterDatabase::Nats => AnyEngine::Nats(NatsEngine {
            host,
            port,
            is_tls: url.is_tls,
            user,
            password,
            authorities,
            prefix,
            retention,
        }),
    }
}

/// The host's name with the begin of the server's id: several servers may run on a host.
fn automatic_name(id: u64) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(50).collect();
    format!("{host}-{:08x}", id >> 32)
}

/// Answers `cluster-status`. `clients`: the exchange of bans and limits.
pub fn status(
    node: Option<Arc<Node>>,
    clients: Option<ClientReport>,
    cluster: &Cluster,
) -> Result<Value, String> {
    if !cluster.is_configured() {
        return Err(
            "this server is in no cluster: there is no [cluster] in its configuration".into(),
        );
    }
    let mut status = match node {
        Some(node) => of_purges(&node.report()),
        None if cluster.share.purges => {
            return Err(
                "there is no page cache whose purges could be shared: no site uses it, or \
                        it could not be opened (see the error log)"
                    .into(),
            );
        }
        // Servers that share no purges are in sync if the rest is.
        None => json!({
            "ok": true,
            "node": cluster.node,
            "is_connected": clients.as_ref().is_none_or(|clients| clients.is_connected),
            "is_in_sync": clients.as_ref().is_none_or(|clients| clients.is_in_sync),
        }),
    };
    if let Some(clients) = clients {
        status["clients"] = json!({
            "is_connected": clients.is_connected,
            "is_in_sync": clients.is_in_sync,
            "error": clients.error,
            "waiting": clients.waiting,
        });
    }
    Ok(status)
}

fn of_purges(report: &Report) -> Value {
    let members: Vec<Value> = report
        .members
        .iter()
        .map(|member| shown(member, report.id))
        .collect();
    json!({
        "ok": true,
        "node": report.name,
        "id": format!("{:016x}", report.id),
        "engine": report.engine,
        "is_connected": report.is_connected,
        "error": report.error,
        "reconnects": report.reconnects,
        "is_in_sync": report.is_in_sync,
        "staleness_ms": report.staleness_ms,
        "position": report.position.to_string(),
        "sent": report.sent_seq,
        "received": report.received,
        "queue_records": report.waiting,
        "queue_bytes": report.waiting_bytes,
        "cache_clears": report.clears,
        "last_clear": report.last_clear,
        "nodes": members,
    })
}

fn shown(member: &MemberReport, own: u64) -> Value {
    json!({
        "name": member.name,
        "id": format!("{:016x}", member.id),
        "version": member.version,
        "state": member.state.word(),
        "is_this": member.id == own,
        "is_in_sync": member.is_serving,
        "position": member.position.to_string(),
        "queue_records": member.waiting,
        "pages_from": member.peer.map(|address| address.to_string()),
        "heard_ms_ago": member.heard_ms_ago,
        "lag_ms": member.lag_ms,
    })
}

/// The outcome of waiting for a purge, as parts of the answer to it.
pub async fn wait(node: Option<Arc<Node>>, wait_ms: u64) -> Result<Value, String> {
    let node = node.ok_or("the purge is in force here; there is no cluster to wait for")?;
    let seq = node.last_seq();
    let Acknowledged {
        is_sent,
        by,
        missing,
    } = node.wait_for(seq, Duration::from_millis(wait_ms)).await;
    Ok(json!({ "is_sent": is_sent, "by": by, "missing": missing }))
}

pub fn gauges(node: Option<Arc<Node>>) -> Vec<ExtraGauge<'static>> {
    let Some(node) = node else {
        return Vec::new();
    };
    let report = node.report();
    let alive = report
        .members
        .iter()
        .filter(|member| member.state == saker_cluster::MemberState::Alive)
        .count();
    let gauge = |name, help, value| ExtraGauge {
        name,
        label: String::new(),
        help,
        value,
    };
    let lags = report.members.iter().map(|member| ExtraGauge {
        name: "cluster_node_lag_seconds",
        label: format!("node=\"{}\",id=\"{:016x}\"", member.name, member.id),
        help: "Time since a server of the cluster last had read all purges, at most; -1 if it never had.",
        value: member.lag_ms.map_or(-1.0, |ms| ms as f64 / 1000.0),
    });
    let own = [
        gauge(
            "cluster_in_sync",
            "Whether the page cache is used because this server is in sync with its cluster.",
            f64::from(u8::from(report.is_in_sync)),
        ),
        gauge(
            "cluster_lag_seconds",
            "Time since this server last knew that it had read all purges; -1 before the first time.",
            report.staleness_ms.map_or(-1.0, |ms| ms as f64 / 1000.0),
        ),
        gauge(
            "cluster_queue_records",
            "Purges made here that the cluster's log does not have yet.",
            report.waiting as f64,
        ),
        gauge(
            "cluster_queue_bytes",
            "Size of the queue of these purges.",
            report.waiting_bytes as f64,
        ),
        gauge(
            "cluster_nodes_alive",
            "Servers of the cluster that live, with this one.",
            alive as f64,
        ),
    ];
    own.into_iter().chain(lags).collect()
}
