//! All discoveries of a process: one task for each upstream that has a source.
//!
//! Called by: the supervisor.
//! Caveat: tasks end when the configuration is replaced, and begin anew; what they found is carried
//! over if the source is the same ([`carry_over`]).

use crate::{consul, dns_srv, docker, feed::Feed, kept_servers, kubernetes};
use saker_config::{
    Model,
    model::{DiscoverySource, Upstream},
    with_discovered,
};
use saker_dns::Resolver;
use std::{path::Path, rc::Rc, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    task::{JoinHandle, LocalSet},
    time,
};

/// Pause after a failure; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The discoveries of a process.
#[derive(Default)]
pub struct Discoveries {
    feeds: Vec<Rc<Feed>>,
    tasks: Vec<JoinHandle<()>>,
    /// Runs the tasks.
    local: Rc<LocalSet>,
    changes: Rc<Notify>,
    settled: Rc<Notify>,
    resolver: Rc<Resolver>,
}

impl Drop for Discoveries {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Discoveries {
    /// Asks the sources of a configuration from here on, and no others. Must be called within the
    /// runtime.
    pub fn begin(&mut self, model: &Model) {
        self.tasks.drain(..).for_each(|task| task.abort());
        let feeds = model.upstreams.iter();
        let feeds = feeds.filter_map(|one| Feed::new(one, &self.changes, &self.settled));
        self.feeds = feeds.map(Rc::new).collect();
        for feed in &self.feeds {
            let (feed, resolver) = (Rc::clone(feed), Rc::clone(&self.resolver));
            let follow = async move { follow(&feed, &resolver).await };
            let task = self.local.spawn_local(follow);
            self.tasks.push(task);
        }
    }

    /// Returns a future that asks the sources until servers of an upstream have changed.
    pub fn changed(&self) -> impl Future<Output = ()> + use<> {
        let (local, changes) = (Rc::clone(&self.local), Rc::clone(&self.changes));
        async move { local.run_until(changes.notified()).await }
    }

    /// Returns a future that asks the sources until each upstream has servers, or its source was
    /// asked in vain.
    pub fn settled(&self) -> impl Future<Output = ()> + use<> {
        let (feeds, settled) = (self.feeds.clone(), Rc::clone(&self.settled));
        let local = Rc::clone(&self.local);
        async move {
            let all = async {
                while !feeds.iter().all(|feed| feed.is_settled()) {
                    settled.notified().await;
                }
            };
            local.run_until(all).await;
        }
    }

    /// Writes the servers of all upstreams to the state directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, state_dir: &Path) -> std::io::Result<()> {
        let upstreams: Vec<_> = self.feeds.iter().map(|feed| &*feed.upstream).collect();
        kept_servers::write(state_dir, &upstreams)
    }
}

/// Follows a source for good.
async fn follow(feed: &Feed, resolver: &Rc<Resolver>) {
    loop {
        let error = match &feed.discovery.terms.source {
            DiscoverySource::DnsSrv { name, resolvers } => {
                dns_srv::follow(feed, (name, resolvers), resolver).await
            }
            DiscoverySource::Consul { .. } => consul::follow(feed).await,
            DiscoverySource::Kubernetes { .. } => kubernetes::follow(feed).await,
            DiscoverySource::Docker { .. } => docker::follow(feed).await,
        };
        let failures = feed.fail(&error);
        let factor = 1u32 << (failures.saturating_sub(1)).min(5);
        time::sleep((PAUSE_MIN * factor).min(PAUSE_MAX)).await;
    }
}

/// Gives the upstreams of a configuration the servers that those before it have, where name and
/// source are the same. `before`: the configuration before, if there was one; servers that an
/// earlier process found are in `state_dir`.
pub fn carry_over(model: &Model, before: Option<&Model>, state_dir: &Path) {
    let is_wanted = |one: &&Arc<Upstream>| one.discovery.is_some() && one.discovered().is_none();
    let mut kept = None;
    for upstream in model.upstreams.iter().filter(is_wanted) {
        let Some(discovery) = &upstream.discovery else {
            continue;
        };
        let servers = match before {
            Some(before) => {
                let mut all = before.upstreams.iter();
                let same = all.find(|one| is_same(one, upstream));
                same.and_then(|one| {
                    one.discovered()?;
                    let state = one.discovery.as_ref()?.terms.state.lock().clone();
                    let mut own = discovery.terms.state.lock();
                    (own.answered_ms, own.error) = (state.answered_ms, state.error);
                    Some(state.servers)
                })
            }
            None => {
                let kept = kept.get_or_insert_with(|| kept_servers::read(state_dir));
                kept_servers::of(kept, upstream)
            }
        };
        // What the new terms do not permit stays behind.
        let Some(mut servers) = servers else { continue };
        servers.retain(|server| discovery.terms.permits(server.ip));
        let next = with_discovered(upstream, upstream, &servers);
        discovery.terms.state.lock().servers = servers;
        discovery.found.set(Some(Arc::new(next)));
    }
}

fn is_same(one: &Upstream, other: &Upstream) -> bool {
    let source = |upstream: &Upstream| {
        let discovery = upstream.discovery.as_ref()?;
        let api = discovery.api.as_ref().map(|api| Arc::clone(&api.backend));
        Some((discovery.terms.source.clone(), api))
    };
    one.name == other.name && source(one) == source(other)
}
