//! Members of upstreams that an operator has drained or weighted in the running server.
//!
//! Called by: the console; each reload, which has new members.
//! Caveat: a member is known by the name of its upstream and its address, as the status report
//! writes them; changes end with the server.
//! Out of scope: choosing a member (`saker_gateway`).

use saker_config::model::{Member, Upstream};
use saker_console::MemberChange;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// Changes that are kept.
const CHANGES_MAX: usize = 1_000;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    is_drained: bool,
    /// In hundredths.
    weight: Option<u32>,
}

/// All changes, by the name of the upstream and the address of the member.
#[derive(Default)]
pub struct MemberChanges(BTreeMap<(String, String), Kept>);

impl MemberChanges {
    /// Puts the changes into force for the members of a configuration.
    pub fn apply(&self, upstreams: &[Arc<Upstream>]) {
        for ((upstream, address), kept) in &self.0 {
            members(upstreams, (upstream, address)).for_each(|member| put_in_force(member, *kept));
        }
    }

    /// Changes members, and keeps the change for later configurations. Returns the number of
    /// members.
    pub fn add(
        &mut self,
        upstreams: &[Arc<Upstream>],
        (upstream, address): (&str, &str),
        change: MemberChange,
    ) -> usize {
        let count = members(upstreams, (upstream, address)).count();
        let is_full = self.0.len() >= CHANGES_MAX;
        if count == 0 {
            return 0;
        }
        if change == MemberChange::Reconnect {
            members(upstreams, (upstream, address)).for_each(reconnect);
            return count;
        }
        let entry = match self.0.entry((upstream.to_owned(), address.to_owned())) {
            Entry::Vacant(_) if is_full => return 0,
            entry => entry,
        };
        let kept = entry.or_default();
        match change {
            MemberChange::Drain => kept.is_drained = true,
            MemberChange::Resume => kept.is_drained = false,
            MemberChange::Weight(weight) => kept.weight = weight.map(|one| one.saturating_mul(100)),
            MemberChange::Reconnect => {}
        }
        let kept = *kept;
        members(upstreams, (upstream, address)).for_each(|member| put_in_force(member, kept));
        self.0.retain(|_, kept| *kept != Kept::default());
        count
    }
}

fn members<'u>(
    upstreams: &'u [Arc<Upstream>],
    (name, address): (&'u str, &'u str),
) -> impl Iterator<Item = &'u Member> {
    let named = upstreams.iter().filter(move |one| &*one.name == name);
    named
        .flat_map(|upstream| &upstream.members)
        .filter(move |member| format!("{}{}", member.backend, member.path) == address)
}

fn put_in_force(member: &Member, kept: Kept) {
    member.state.set_drained(kept.is_drained);
    member.state.set_weight(kept.weight);
}

fn reconnect(member: &Member) {
    member.tuning.epoch.advance();
    let now_ms = saker_net::clock::monotonic_ms();
    member.state.set_down(false, now_ms);
    // Clears failures of requests.
    member.state.pass_check(now_ms);
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{Backend, BackendAddress, Protocol, Tuning};

    fn upstream(port: u16) -> Arc<Upstream> {
        let address = BackendAddress::Tcp {
            host: "a.test".into(),
            port,
        };
        let member = Member::new(Backend::new(Protocol::Http1, address), Tuning::default());
        Arc::new(Upstream::new("app", vec![member]))
    }

    #[test]
    fn changes_last_over_reloads_and_go_with_their_end() {
        let (first, other) = ([upstream(80)], [upstream(81)]);
        let mut changes = MemberChanges::default();
        let member = ("app", "http://a.test:80");
        assert_eq!(
            changes.add(&first, ("app", "http://a.test:8"), MemberChange::Drain),
            0
        );
        assert_eq!(
            changes.add(&first, ("other", member.1), MemberChange::Drain),
            0
        );
        assert_eq!(changes.add(&first, member, MemberChange::Drain), 1);
        assert_eq!(
            changes.add(&first, member, MemberChange::Weight(Some(3))),
            1
        );
        assert!(first[0].members[0].drains());
        assert_eq!(first[0].members[0].weight_now(), 300);
        let reloaded = [upstream(80)];
        changes.apply(&other);
        changes.apply(&reloaded);
        assert!(reloaded[0].members[0].drains() && !other[0].members[0].drains());
        changes.add(&reloaded, member, MemberChange::Resume);
        changes.add(&reloaded, member, MemberChange::Weight(None));
        assert!(!reloaded[0].members[0].drains() && changes.0.is_empty());
        assert_eq!(
            reloaded[0].members[0].weight_now(),
            reloaded[0].members[0].weight
        );
        let epoch = reloaded[0].members[0].tuning.epoch.now();
        changes.add(&reloaded, member, MemberChange::Reconnect);
        assert_eq!(reloaded[0].members[0].tuning.epoch.now(), epoch + 1);
    }
}
