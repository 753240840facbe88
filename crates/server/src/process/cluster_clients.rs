//! Bans, limits, and passes of clients, shared with the other servers of a cluster.
//!
//! Called by: the supervisor, when it begins, at each reload, and for status.
//! Caveat: `[cluster]` is read when the server starts; the sites are those of the configuration in
//! force. Without `[cluster]`, nothing of this is made, and rules find no counts to tell.
//! Out of scope: the exchange (`saker_cluster`), and counting (`saker_abuse`).

use super::cluster::{self, AnyEngine};
use saker_abuse::{ClientLimits, SharedAbuseState, SharedCounts};
use saker_cluster::{ClientNode, ClientOptions, ClientReport, ClientTarget, Secret};
use saker_config::model::Cluster;
use saker_ipset::{Ban, Block};
use saker_pipeline::Generation;
use saker_serving::shared::Shared;
use saker_telemetry::{error_log, message, metrics::ExtraGauge};
use std::sync::Arc;

/// Purpose of the keys that sign passes, with the time of each.
const PASSES: &str = "passes";
/// Purpose of the key that hashes values of keys.
const KEYS: &str = "keys of limits";

/// This server's part of the exchange.
#[derive(Default)]
pub struct ClusterClients {
    counts: Option<Arc<SharedCounts>>,
    node: Option<ClientNode>,
}

impl ClusterClients {
    /// Begins to share what `[cluster]` says.
    pub fn begin(shared: &Shared, generation: &Arc<Generation>) -> ClusterClients {
        let cluster = &generation.model.cluster;
        let share = cluster.share;
        let Some(secret) = cluster
            .secret
            .as_ref()
            .and_then(|secret| Secret::from_file(&secret.0))
        else {
            return ClusterClients::default();
        };
        if share.passes {
            let secret = secret.clone();
            let derive = move |since| secret.key(&format!("{PASSES} {since}"));
            let now_s = saker_net::clock::realtime_s();
            shared.guard.keys.derive(Box::new(derive), now_s);
        }
        let counts = share.limits.then(|| {
            let counts = Arc::new(SharedCounts::new(secret.key(KEYS)));
            counts.set_generation(generation);
            Arc::clone(shared.guard.counts.get_or_init(|| counts))
        });
        let node = start(cluster, secret, shared, counts.clone());
        ClusterClients { counts, node }
    }

    /// Charges of the others go to the sites of this configuration from now on.
    pub fn set_generation(&self, generation: &Arc<Generation>) {
        if let Some(counts) = &self.counts {
            counts.set_generation(generation);
        }
    }

    pub fn report(&self) -> Option<ClientReport> {
        self.node.as_ref().map(ClientNode::report)
    }

    pub fn gauges(&self) -> Vec<ExtraGauge<'static>> {
        let Some(report) = self.report() else {
            return Vec::new();
        };
        vec![
            ExtraGauge {
                name: "cluster_clients_in_sync",
                label: String::new(),
                help: "Whether bans and limits are exchanged with the other servers.",
                value: f64::from(u8::from(report.is_in_sync)),
            },
            ExtraGauge {
                name: "cluster_bans_waiting",
                label: String::new(),
                help: "Bans made here that the cluster's engine does not have yet.",
                value: report.waiting as f64,
            },
        ]
    }
}

fn start(
    cluster: &Cluster,
    secret: Secret,
    shared: &Shared,
    counts: Option<Arc<SharedCounts>>,
) -> Option<ClientNode> {
    let share = cluster.share;
    let url = cluster
        .url
        .as_ref()
        .filter(|_| share.bans || share.limits)?;
    let target = Arc::new(Tables {
        clients: Arc::clone(&shared.abuse),
        state: Arc::clone(&shared.guard),
        counts,
    });
    let options = ClientOptions {
        secret,
        shares_bans: share.bans,
        shares_charges: share.limits,
    };
    let counters = Arc::clone(&shared.main_counters);
    let node = match cluster::engine(cluster, url) {
        AnyEngine::Redis(engine) => ClientNode::start(engine, &options, target, counters),
        AnyEngine::Postgres(engine) => ClientNode::start(engine, &options, target, counters),
        AnyEngine::Nats(engine) => ClientNode::start(engine, &options, target, counters),
    };
    match node {
        Ok(node) => {
            if share.bans {
                shared.abuse.bans.observe(node.observer());
            }
            Some(node)
        }
        Err(error) => {
            error_log::log(&message::CLUSTER_CLIENTS_AWAY, format_args!("{error}"));
            None
        }
    }
}

/// The tables that workers use.
struct Tables {
    clients: Arc<ClientLimits>,
    state: Arc<SharedAbuseState>,
    counts: Option<Arc<SharedCounts>>,
}

impl ClientTarget for Tables {
    fn bans(&self) -> Vec<Ban> {
        self.clients.bans.all(saker_net::clock::realtime_s())
    }

    fn ban(&self, ban: Ban) {
        let now_s = saker_net::clock::realtime_s();
        if ban.until_s.is_some_and(|until_s| until_s <= now_s) {
            return;
        }
        let (block, reason) = (ban.block, ban.reason.clone());
        if self.clients.bans.insert_received(ban, now_s).is_ok() {
            error_log::log(
                &message::CLIENT_BANNED,
                format_args!("address={block} rule=cluster reason={reason}"),
            );
        }
    }

    fn unban(&self, block: Block) {
        if self.clients.bans.remove_received(block) {
            error_log::log(
                &message::CLIENT_UNBANNED,
                format_args!("address={block} rule=cluster"),
            );
        }
    }

    fn take_charges(&self) -> Option<Vec<u8>> {
        self.counts.as_ref()?.take()
    }

    fn receive_charges(&self, batch: &[u8], age_ns: u64) {
        if let Some(counts) = &self.counts {
            let now = (
                saker_net::clock::monotonic_ns(),
                saker_net::clock::realtime_s(),
            );
            let tables = (&*self.clients, &*self.state);
            saker_abuse::receive_charges(counts, (batch, age_ns), tables, now);
        }
    }

    fn forget_charges(&self) {
        if let Some(counts) = &self.counts {
            counts.clear();
        }
    }
}
