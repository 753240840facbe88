//! Certificates by ACME: the manager on the main thread, and its connections to the rest of the
//! server.
//!
//! Called by: the start and each reload. Certificates go to the run-time store that all
//! generations share; events go to the error log and the counters.
//! Caveat: a handshake for a name on demand runs on a worker and must not wait there, so its
//! question goes to the main thread, and the handshake polls until the answer is known.
//! Out of scope: the protocol and its schedule (crate `acme`).

use super::cluster::{self, AnyEngine};
use saker_acme::{Challenges, Event, Handle, Installer, Manager, Plan};
use saker_cluster::{FolderEngine, Secret, StateNode};
use saker_config::model::Cluster;
use saker_pipeline::Generation;
use saker_serving::shared::Shared;
use saker_telemetry::{Counters, Metric, error_log, message};
use saker_tls::RunTime;
use std::{
    cell::RefCell,
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{runtime, time::timeout};

/// Time from the first handshake for a name to the end of waiting for its certificate.
const OBTAIN_TIME_MAX: Duration = Duration::from_secs(120);
/// Time for which a refusal is repeated without asking: long enough for every waiting handshake to
/// receive it. The manager remembers refusals for longer.
const DENIAL_TIME: Duration = Duration::from_secs(2);
/// Maximum number of names that are being requested, or were refused a moment ago.
const NAMES_MAX: usize = 1024;
/// The same for the clients of one network: it must not take the place of all others.
const NETWORK_NAMES_MAX: usize = 16;

pub struct Acme {
    challenges: Arc<Challenges>,
    run_time: Arc<RunTime>,
    counters: Arc<Counters>,
    handle: RefCell<Option<Handle>>,
    /// The state of the cluster whose servers share certificates.
    state: RefCell<Option<StateNode>>,
}

/// Settings ready to be put into force by [`Acme::apply`].
pub enum Prepared {
    Nothing,
    Begin(Box<Manager>, Handle),
    Change(Box<Plan>),
}

impl Acme {
    pub fn new(shared: &Shared, run_time: &Arc<RunTime>) -> Acme {
        let (challenges, counters) = (
            Arc::clone(&shared.challenges),
            Arc::clone(&shared.main_counters),
        );
        Acme {
            challenges,
            run_time: Arc::clone(run_time),
            counters,
            handle: RefCell::new(None),
            state: RefCell::new(None),
        }
    }

    /// Everything that can fail. Where there was no manager yet, certificates that were issued
    /// before are shown from here on.
    pub fn prepare(&self, generation: &Generation) -> Result<Prepared, String> {
        let plan = Plan::new(&generation.model).with_known_hosts(generation.known_hosts.clone());
        if self.handle.borrow().is_some() {
            return Ok(Prepared::Change(Box::new(plan)));
        }
        if plan.is_empty() {
            return Ok(Prepared::Nothing);
        }
        let (installer, counters) = (
            Arc::new(Certificates(Arc::clone(&self.run_time))),
            Arc::clone(&self.counters),
        );
        let state_dir = plan.state_dir.clone();
        let (manager, handle) = Manager::new(
            plan,
            Arc::clone(&self.challenges),
            installer,
            move |event| hear(&event, &counters),
        )
        .map_err(|error| format!("automatic certificates in {}: {error}", state_dir.display()))?;
        Ok(Prepared::Begin(Box::new(manager), handle))
    }

    /// Renews the certificate of a name soon. Returns `false` if there is none that is automatic.
    pub fn renew(&self, name: &str) -> bool {
        let handle = self.handle.borrow();
        handle.as_ref().is_some_and(|handle| handle.renew(name))
    }

    /// Orders certificates together with the other servers of the cluster, if it is to share them.
    /// To be called once, before certificates are ordered.
    pub fn share(&self, cluster: &Cluster) {
        let secret = cluster
            .secret
            .as_ref()
            .and_then(|secret| Secret::from_file(&secret.0));
        let Some(secret) = secret.filter(|_| cluster.share.certificates) else {
            return;
        };
        let started = match (&cluster.folder, &cluster.url) {
            (Some(folder), _) => {
                let folder = folder.clone();
                StateNode::start(FolderEngine { folder }, &secret)
            }
            (None, Some(url)) => match cluster::engine(cluster, url) {
                AnyEngine::Redis(engine) => StateNode::start(engine, &secret),
                AnyEngine::Postgres(engine) => StateNode::start(engine, &secret),
                AnyEngine::Nats(engine) => StateNode::start(engine, &secret),
            },
            (None, None) => return,
        };
        match started {
            Ok(node) => {
                self.challenges.share(node.state());
                *self.state.borrow_mut() = Some(node);
            }
            Err(error) => error_log::log(&message::CERTIFICATE_STATE, format_args!("{error}")),
        }
    }

    /// Must be called within the main thread's runtime.
    pub fn apply(&self, prepared: Prepared) {
        match (prepared, &mut *self.handle.borrow_mut()) {
            (Prepared::Begin(manager, handle), slot) => {
                let state = self.state.borrow();
                let manager = match &*state {
                    Some(node) => manager.sharing(node.state()),
                    None => *manager,
                };
                tokio::spawn(manager.run());
                let demand = Arc::new(Demand {
                    handle: handle.clone(),
                    runtime: runtime::Handle::current(),
                    asked: Mutex::default(),
                });
                self.run_time
                    .set_on_demand(Some(Arc::new(move |name, client| {
                        demand.is_under_way(name, network(client))
                    })));
                *slot = Some(handle);
            }
            (Prepared::Change(plan), Some(handle)) => handle.set_plan(*plan),
            (Prepared::Change(_) | Prepared::Nothing, _) => {}
        }
    }
}

/// Says it, and counts it.
fn hear(event: &Event, counters: &Counters) {
    let kind = match event {
        Event::Issued { .. } => {
            counters.increment(Metric::CertificatesIssued);
            &message::CERTIFICATE_ISSUED
        }
        Event::Failed { .. } => {
            counters.increment(Metric::CertificatesFailed);
            &message::CERTIFICATE_NOT_ISSUED
        }
        Event::DirectoryFailed { .. } => &message::CERTIFICATE_AUTHORITY_FAILED,
        Event::Forbidden { .. } => &message::CERTIFICATE_FORBIDDEN,
        Event::State { .. } => &message::CERTIFICATE_STATE,
        Event::TakenOver { .. } => &message::CLUSTER_CERTIFICATE,
        Event::ClusterAway { .. } => &message::CLUSTER_CERTIFICATES_AWAY,
        Event::RecordLeft { .. } => &message::CERTIFICATE_RECORD_LEFT,
    };
    error_log::log(kind, format_args!("{event}"));
}

/// Destination of issued certificates.
struct Certificates(Arc<RunTime>);

impl Installer for Certificates {
    fn install(&self, names: &[String], chain_pem: &str, key_pem: &str) -> Result<(), String> {
        self.0
            .install(names, chain_pem.as_bytes(), key_pem.as_bytes())
    }

    fn uninstall(&self, names: &[String]) {
        self.0.uninstall(names);
    }

    fn set_challenge(&self, name: &str, certificate_der: &[u8], key_der: &[u8]) {
        if let Err(reason) = self.0.set_challenge(name, certificate_der, key_der) {
            error_log::log(
                &message::CERTIFICATE_STATE,
                format_args!("the challenge for {name}: {reason}"),
            );
        }
    }

    fn clear_challenge(&self, name: &str) {
        self.0.clear_challenge(name);
    }
}

/// Names that handshakes wait for.
struct Demand {
    handle: Handle,
    /// The main thread's.
    runtime: runtime::Handle,
    asked: Mutex<HashMap<String, Asked>>,
}

/// A name that was asked for, and the network of the first client that did so.
struct Asked {
    network: IpAddr,
    /// `None`: the certificate is being requested.
    denied_until: Option<Instant>,
}

impl Asked {
    fn is_over(&self, now: Instant) -> bool {
        self.denied_until.is_some_and(|until| until <= now)
    }
}

/// The network of a client: a /24 of IPv4, a /48 of IPv6. Clients without an address share one.
fn network(client: Option<IpAddr>) -> IpAddr {
    match client.map(|client| client.to_canonical()) {
        Some(IpAddr::V4(address)) => Ipv4Addr::from_bits(address.to_bits() >> 8 << 8).into(),
        Some(IpAddr::V6(address)) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Returns true if another name of the network may be asked for.
fn has_room(asked: &mut HashMap<String, Asked>, network: IpAddr, now: Instant) -> bool {
    let of_network = |asked: &HashMap<String, Asked>| {
        asked.values().filter(|one| one.network == network).count()
    };
    if asked.len() >= NAMES_MAX || of_network(asked) >= NETWORK_NAMES_MAX {
        asked.retain(|_, one| !one.is_over(now));
    }
    asked.len() < NAMES_MAX && of_network(asked) < NETWORK_NAMES_MAX
}

impl Demand {
    /// Returns whether a certificate for the name is being obtained; requests one if not. Called
    /// on workers.
    fn is_under_way(self: &Arc<Self>, name: &str, network: IpAddr) -> bool {
        if !self.handle.is_on_demand(name) {
            return false;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match asked.get(name) {
            Some(one) if one.denied_until.is_none() => return true,
            Some(one) if !one.is_over(now) => return false,
            _ => drop(asked.remove(name)),
        }
        if !has_room(&mut asked, network, now) {
            return false;
        }
        let denied_until = None;
        asked.insert(
            name.to_owned(),
            Asked {
                network,
                denied_until,
            },
        );
        self.runtime.spawn(Arc::clone(self).obtain(name.to_owned()));
        true
    }

    async fn obtain(self: Arc<Self>, name: String) {
        let obtained = timeout(OBTAIN_TIME_MAX, self.handle.obtain(&name)).await;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match obtained {
            Ok(Ok(())) => drop(asked.remove(&name)),
            Ok(Err(_)) | Err(_) => {
                if let Some(one) = asked.get_mut(&name) {
                    one.denied_until = Some(Instant::now() + DENIAL_TIME);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_does_not_take_the_place_of_others() {
        let (mut asked, now) = (HashMap::new(), Instant::now());
        let of = |address: &str| network(Some(address.parse().unwrap()));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.200"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:ff::2"));
        assert!(of("192.0.2.1") != of("192.0.3.1") && of("2001:db8:1::1") != of("2001:db8:2::1"));
        let ask = |asked: &mut HashMap<String, Asked>, number: usize, denied_until| {
            let network = of("192.0.2.1");
            let one = Asked {
                network,
                denied_until,
            };
            asked.insert(format!("h{number}.example"), one);
        };
        for number in 0..NETWORK_NAMES_MAX {
            assert!(has_room(&mut asked, of("192.0.2.1"), now), "{number}");
            let is_denied = number == 3;
            ask(&mut asked, number, is_denied.then(|| now + DENIAL_TIME));
        }
        assert!(!has_room(&mut asked, of("192.0.2.99"), now));
        assert!(has_room(&mut asked, of("198.51.100.1"), now));
        assert!(
            has_room(&mut asked, of("192.0.2.99"), now + DENIAL_TIME),
            "a refusal is over"
        );
    }
}
