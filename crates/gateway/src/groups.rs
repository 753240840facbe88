//! A worker's pools of connections by backend, and its view of each upstream.
//!
//! Called by: the gateway for requests, and `stream_members` for streams.
//! Caveat: upstreams are known by their address in memory, which a group holds on to.
//! Out of scope: choosing (`balancer`) and connecting (`pool`).

use crate::{balancer::Group, pool::Pool};
use foldhash::fast::RandomState;
use saker_config::model::{Backend, Upstream};
use saker_net::clock;
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

/// Time after which unused groups (of changed `.htaccess` files) are dropped.
const FORGOTTEN_MS: u64 = 600_000;
/// Groups above which those that nothing uses are dropped at once: addresses may be made of what
/// clients send.
const GROUPS_MAX: usize = 4096;

/// The pools and groups of a worker.
#[derive(Default)]
pub struct Groups {
    /// Workers that share the limits of connections.
    workers: usize,
    pools: RefCell<HashMap<Arc<Backend>, Rc<Pool>, RandomState>>,
    groups: RefCell<HashMap<usize, Rc<Group>, RandomState>>,
}

impl Groups {
    /// `workers`: those that share the limits of connections.
    pub fn new(workers: usize) -> Groups {
        Groups {
            workers,
            ..Groups::default()
        }
    }

    /// Returns the group of an upstream, with the servers that it has now.
    pub fn group(&self, upstream: &Arc<Upstream>) -> Rc<Group> {
        match upstream.revision.get() {
            Some(revised) => self.own_group(&revised),
            None => self.own_group(upstream),
        }
    }

    fn own_group(&self, upstream: &Arc<Upstream>) -> Rc<Group> {
        let key = Arc::as_ptr(upstream) as usize;
        if self.groups.borrow().len() >= GROUPS_MAX {
            self.drop_unused();
        }
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(key).or_insert_with(|| {
            let pools = upstream
                .members
                .iter()
                .map(|member| self.pool(&member.backend))
                .collect();
            Rc::new(Group::new(Arc::clone(upstream), pools, self.workers))
        });
        group.last_used_ms.set(clock::monotonic_ms());
        Rc::clone(group)
    }

    fn pool(&self, backend: &Arc<Backend>) -> Rc<Pool> {
        let mut pools = self.pools.borrow_mut();
        Rc::clone(
            pools
                .entry(Arc::clone(backend))
                .or_insert_with(|| Rc::new(Pool::new(Arc::clone(backend)))),
        )
    }

    fn drop_unused(&self) {
        let mut groups = self.groups.borrow_mut();
        groups.retain(|_, group| Rc::strong_count(group) > 1);
        let mut pools = self.pools.borrow_mut();
        pools.retain(|_, pool| Rc::strong_count(pool) > 1 || !pool.is_unused());
    }

    /// Drops what has not been used for long.
    pub fn sweep(&self, now_ms: u64) {
        self.groups
            .borrow_mut()
            .retain(|_, group| now_ms.saturating_sub(group.last_used_ms.get()) < FORGOTTEN_MS);
        self.pools.borrow_mut().retain(|_, pool| {
            pool.sweep(now_ms);
            Rc::strong_count(pool) > 1 || !pool.is_unused()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{BackendAddress, Member, Protocol, Tuning};

    fn upstream(port: u16) -> Arc<Upstream> {
        let host = "127.0.0.1".into();
        let backend = Backend::new(Protocol::Bytes, BackendAddress::Tcp { host, port });
        let members = vec![Member::new(backend, Tuning::default())];
        Arc::new(Upstream::new("one", members))
    }

    #[test]
    fn a_revised_upstream_has_another_group_and_the_same_connections() {
        let (groups, configured) = (Groups::default(), upstream(1));
        let before = groups.group(&configured);
        let mut members = configured.members.clone();
        members.extend(upstream(2).members.clone());
        let revised = Arc::new(Upstream::new("one", members));
        configured.revision.set(Some(revised));
        let after = groups.group(&configured);
        assert_eq!((before.pools.len(), after.pools.len()), (1, 2));
        assert!(Rc::ptr_eq(&before.pools[0], &after.pools[0]));
        configured.revision.set(None);
        assert!(Rc::ptr_eq(&groups.group(&configured), &before));
    }

    #[test]
    fn groups_are_bounded() {
        let groups = Groups::default();
        let held = groups.group(&upstream(1));
        for port in 2..GROUPS_MAX + 10 {
            let port = u16::try_from(port).unwrap();
            drop(groups.group(&upstream(port)));
            assert!(groups.groups.borrow().len() <= GROUPS_MAX);
            assert!(groups.pools.borrow().len() <= GROUPS_MAX);
        }
        let again = groups.group(&held.upstream);
        assert!(Rc::ptr_eq(&again, &held), "one in use stays");
    }
}
