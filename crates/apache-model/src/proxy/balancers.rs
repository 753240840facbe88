//! Balancers of a host, which the balancer-manager changes while they are in use.
//!
//! Called by: `workers`, which makes them and finds them; the handler `balancer-manager`.
//! Caveat: an upstream in use is never written to: a change puts a new one in its place, whose members
//! keep their state. Code that remembers an upstream looks at [`changes`] before using it again.
//! Out of scope: what may be changed by whom (the handler).

use saker_config::model::{Member, Upstream};
use saker_identity::random_id;
use saker_pipeline::Upgrades;
use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

/// Changes of all balancers so far.
static CHANGES: AtomicU64 = AtomicU64::new(0);

pub fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// A secret that a change has to come with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nonce {
    /// Made at the start.
    Text(Box<str>),
    /// The system gives no random numbers: nothing can be changed.
    None,
    /// `nonce=None`.
    Unwanted,
}

/// A balancer.
#[derive(Debug)]
pub struct Balancer {
    /// `balancer://name`, in small letters.
    pub name: Box<str>,
    pub nonce: Nonce,
    /// Protocols that clients may upgrade to, by any of the configured members.
    pub upgrades: Upgrades,
    /// Members that may be added.
    growth: usize,
    configured: usize,
    current: RwLock<Arc<Upstream>>,
}

impl Balancer {
    /// `nonce`: as configured.
    pub fn new(upstream: Upstream, nonce: Option<&str>, growth: usize) -> Balancer {
        let nonce = match nonce {
            Some(word) if word.eq_ignore_ascii_case("none") => Nonce::Unwanted,
            Some(word) => Nonce::Text(word.into()),
            None => random_id().map_or(Nonce::None, |id| Nonce::Text(id.into())),
        };
        Balancer {
            name: upstream.name.clone(),
            nonce,
            upgrades: Upgrades::None,
            growth,
            configured: upstream.members.len(),
            current: RwLock::new(Arc::new(upstream)),
        }
    }

    /// The upstream as it is now.
    pub fn current(&self) -> Arc<Upstream> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Members that there may be.
    pub fn members_max(&self) -> usize {
        self.configured + self.growth
    }

    /// Puts a changed upstream in the place of the current one.
    pub fn change(&self, edit: impl FnOnce(&mut Upstream)) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = (**current).clone();
        edit(&mut changed);
        *current = Arc::new(changed);
        CHANGES.fetch_add(1, Ordering::Release);
    }
}

/// The URL of a member, by which it is known.
pub fn url(member: &Member) -> String {
    let (scheme, authority) = (member.backend.scheme(), &member.authority);
    format!("{scheme}://{authority}{}", member.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{Backend, BackendAddress, Protocol, Tuning};

    #[test]
    fn a_change_is_a_new_upstream_with_the_same_members() {
        let address = BackendAddress::Tcp {
            host: "a.test".into(),
            port: 1,
        };
        let member = Member::new(Backend::new(Protocol::Http1, address), Tuning::default());
        let balancer = Balancer::new(Upstream::new("balancer://a", vec![member]), None, 2);
        let (before, seen) = (balancer.current(), changes());
        balancer.change(|upstream| upstream.members[0].weight = 300);
        let after = balancer.current();
        assert_eq!(
            (before.members[0].weight, after.members[0].weight),
            (100, 300)
        );
        before.members[0].state.begin_request();
        assert_eq!(
            after.members[0].state.figures().0,
            1,
            "it is the same server"
        );
        assert!(changes() > seen && balancer.members_max() == 3);
    }

    #[test]
    fn nonces_differ_or_are_as_configured() {
        let made = |nonce| Balancer::new(Upstream::new("balancer://a", Vec::new()), nonce, 0).nonce;
        let (one, two) = (made(None), made(None));
        assert!(matches!(&one, Nonce::Text(text) if text.len() == 36) && one != two);
        assert_eq!(made(Some("None")), Nonce::Unwanted);
        assert_eq!(made(Some("x")), Nonce::Text("x".into()));
    }
}
