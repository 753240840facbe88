//! Which member of an upstream is asked.
//!
//! Apache's order: the session's own member first; then, of the lowest set that has one, a member
//! that may be asked by the balancing method; then those on standby. A member that failed is left
//! alone for its time, unless there is no other: asking it is better than refusing.
//!
//! Difficulty: shares are a worker's own view; they hold per worker, and so overall. Failures are
//! those of all workers, and of this upstream alone: others may have other terms for the server.

use crate::{
    failure::Failure,
    hash::{self, Ring},
    pool::{Pool, share},
};
use saker_config::model::{Backend, BackendAddress, Balance, Member, Sticky, Upstream};
use saker_net::clock;
use saker_pipeline::Exchange;
use std::{
    cell::{Cell, OnceCell, RefCell},
    hash::{BuildHasher, Hasher},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
};

/// Facts about a request, or a session, that the choice of a member may depend on.
pub struct Choice<'a> {
    pub client: IpAddr,
    /// Path and query.
    pub target: &'a [u8],
    /// The key that rules give.
    pub key: &'a [u8],
    /// The member that the client's session names.
    pub route: Option<Vec<u8>>,
}

impl<'a> Choice<'a> {
    /// The facts about a request.
    pub fn of(exchange: &'a Exchange, upstream: &Upstream) -> Choice<'a> {
        let key = exchange.upstream.balance_key.as_deref();
        Choice {
            client: exchange.client.ip(),
            target: exchange.head.view().target(),
            key: key.unwrap_or_default(),
            route: exchange
                .upstream
                .route
                .as_deref()
                .map(Into::into)
                .or_else(|| {
                    let sticky = upstream.sticky.as_ref()?;
                    session_of(exchange, sticky).map(|session| session.route)
                }),
        }
    }
}

/// A worker's view of an upstream. Holds on to it, so that its address stays its own.
pub struct Group {
    pub upstream: Arc<Upstream>,
    pub pools: Vec<Rc<Pool>>,
    /// Weighted round robin: what each member is owed.
    owed: RefCell<Vec<i64>>,
    chance: Cell<u64>,
    /// Made for the first key.
    ring: OnceCell<Ring>,
    pub last_used_ms: Cell<u64>,
    /// Workers that share the limits of connections.
    workers: usize,
}

impl Group {
    pub fn new(upstream: Arc<Upstream>, pools: Vec<Rc<Pool>>, workers: usize) -> Group {
        let owed = RefCell::new(vec![0; pools.len()]);
        let chance = Cell::new(clock::monotonic_precise_ns() | 1);
        Group {
            upstream,
            pools,
            owed,
            chance,
            ring: OnceCell::new(),
            last_used_ms: Cell::new(0),
            workers,
        }
    }

    /// The next to ask, but none of `tried`.
    pub fn choose(&self, choice: &Choice<'_>, tried: &[usize]) -> Result<usize, Failure> {
        if let ([_], []) = (self.pools.as_slice(), tried)
            && self.upstream.sticky.is_none()
            && !self.upstream.members.iter().any(|member| {
                member.is_out() || member.state.is_down() || member.state.is_drained()
            })
            && !self.upstream.breaks
            && !self.is_full(0)
        {
            return Ok(0);
        }
        let now_ms = clock::monotonic_ms();
        if let Some(route) = &choice.route {
            match self.of_session(route, tried, now_ms) {
                Some(member) => return Ok(member),
                None if self.upstream.is_bound => return Err(Failure::MemberGone),
                None => {}
            }
        }
        let candidates = self.candidates(tried, now_ms);
        self.by_method(choice, &candidates, now_ms)
            .ok_or(Failure::NoMember)
    }

    /// It may be asked: neither checks nor requests of late say that it is not there.
    fn is_well(&self, at: usize, now_ms: u64) -> bool {
        let member = self.upstream.members.get(at);
        member.is_some_and(|member| !member.state.is_down() && !member.state.is_failed(now_ms))
            && !self.is_full(at)
    }

    /// Returns true if the member answers as many requests as it may, and none may wait for it.
    fn is_full(&self, at: usize) -> bool {
        let Some(member) = self.upstream.members.get(at) else {
            return false;
        };
        let (most, waiting) = (member.tuning.connections_max, member.tuning.queue_max);
        most > 0
            && waiting == 0
            && self.pool(at, |pool| u64::from(pool.busy.get())) >= share(most, self.workers) as u64
    }

    /// The member that a session is kept at, or the one that it names for when it is away.
    fn of_session(&self, route: &[u8], tried: &[usize], now_ms: u64) -> Option<usize> {
        let named = |route: &[u8]| {
            let is_it = |member: &Member| {
                member
                    .route
                    .as_ref()
                    .is_some_and(|own| own.as_bytes() == route)
                    && !member.is_out()
            };
            self.upstream.members.iter().position(is_it)
        };
        let can_be_asked = |at: &usize| !tried.contains(at) && self.is_well(*at, now_ms);
        let own = named(route)?;
        Some(own).filter(can_be_asked).or_else(|| {
            let redirect = self.upstream.members.get(own)?.redirect.as_ref()?;
            named(redirect.as_bytes()).filter(can_be_asked)
        })
    }

    fn candidates(&self, tried: &[usize], now_ms: u64) -> Vec<usize> {
        let all = || self.upstream.members.iter().enumerate();
        let members = || {
            all().filter(|(at, member)| !tried.contains(at) && !member.is_out() && !member.drains())
        };
        let is_well = |at: usize| self.is_well(at, now_ms);
        for is_standby in [false, true] {
            let well: Vec<(usize, &Member)> = members()
                .filter(|(at, member)| {
                    member.is_standby == is_standby && !member.is_spare && is_well(*at)
                })
                .collect();
            // Apache: a hot spare stands in for each member that can't be asked, as long as there
            // are some.
            let regular = all()
                .filter(|(_, member)| member.is_standby == is_standby && !member.is_spare)
                .count();
            let spares = members().filter(|(at, member)| {
                member.is_spare && member.is_standby == is_standby && is_well(*at)
            });
            let well: Vec<(usize, &Member)> =
                spares.take(regular - well.len()).chain(well).collect();
            if let Some(set) = well.iter().map(|(_, member)| member.set).min() {
                return well
                    .into_iter()
                    .filter(|(_, member)| member.set == set)
                    .map(|(at, _)| at)
                    .collect();
            }
        }
        // All have failed lately. What checks have found to be away is not tried all the same.
        let may_be_tried = |at: usize, member: &Member| {
            !member.state.is_down() && !self.upstream.breaks && !self.is_full(at)
        };
        members()
            .filter(|(at, member)| may_be_tried(*at, member))
            .map(|(at, _)| at)
            .collect()
    }

    /// In hundredths; of one that has come back a moment ago a part of it (at least a hundredth
    /// part).
    fn weight(&self, at: usize, now_ms: u64) -> u32 {
        let Some(member) = self.upstream.members.get(at) else {
            return 1;
        };
        let weight = member.weight_now().max(1);
        let (whole, ramp_ms) = (u64::from(weight), self.upstream.slow_start_ms);
        match member.state.back_for_ms(now_ms) {
            Some(ms) if ms < ramp_ms => {
                u32::try_from((whole * ms / ramp_ms).max(whole.div_ceil(100))).unwrap_or(1)
            }
            _ => weight,
        }
    }

    fn by_method(&self, choice: &Choice<'_>, candidates: &[usize], now_ms: u64) -> Option<usize> {
        let weight = |at: usize| u128::from(self.weight(at, now_ms));
        match self.upstream.balance {
            Balance::Requests => self.owed_most(candidates, now_ms),
            Balance::Traffic => self.least(candidates, now_ms, &|at| {
                u128::from(self.pool(at, |pool| pool.bytes.get())) * 1000 / weight(at)
            }),
            Balance::Busyness => self.least(candidates, now_ms, &|at| {
                u128::from(self.pool(at, |pool| {
                    u64::from(pool.busy.get()) + u64::from(self.upstream.slow_start_ms > 0)
                })) * 100_000
                    / weight(at)
            }),
            Balance::RandomTwo => {
                let (one, other) = (self.any(candidates)?, self.any(candidates)?);
                let busy = |at: usize| self.pool(at, |pool| u64::from(pool.busy.get()));
                Some(if busy(other) < busy(one) { other } else { one })
            }
            Balance::ClientAddress => candidates
                .iter()
                .copied()
                .max_by_key(|at| self.rank(*at, &address_bytes(choice.client))),
            Balance::Target => candidates
                .iter()
                .copied()
                .max_by_key(|at| self.rank(*at, choice.target)),
            // One member would get all that have no key.
            Balance::Key | Balance::KeyRing if choice.key.is_empty() => {
                self.owed_most(candidates, now_ms)
            }
            Balance::Random | Balance::Key | Balance::KeyRing | Balance::ClientNetwork => self
                .by_share(choice, candidates)
                .or_else(|| self.owed_most(candidates, now_ms)),
        }
    }

    /// The methods that look at the shares of all members that do not stand by, whichever may be
    /// asked now: what a key leads to does not depend on others.
    fn by_share(&self, choice: &Choice<'_>, candidates: &[usize]) -> Option<usize> {
        let members = || self.upstream.members.iter();
        let share = |member: &Member| match member.is_standby {
            true => 0,
            false => u64::from(member.weight_now() / 100).max(1),
        };
        let weights: Vec<u64> = members().map(share).collect();
        let may_be = |at: usize| candidates.contains(&at);
        match self.upstream.balance {
            Balance::Key => hash::by_share(choice.key, &weights, &may_be),
            Balance::ClientNetwork => hash::by_address(choice.client, &weights, &may_be),
            Balance::KeyRing => {
                let place = |member: &'_ Member| place_of(&member.backend);
                let ring = self.ring.get_or_init(|| {
                    let places: Vec<(String, String)> = members().map(place).collect();
                    let all = places.iter().zip(&weights);
                    Ring::new(all.map(|((host, port), weight)| (&**host, port.clone(), *weight)))
                });
                ring.member(choice.key, &may_be)
            }
            _ => hash::by_share(&self.dice().to_le_bytes(), &weights, &may_be),
        }
    }

    /// The one with the least; equals take turns by their weights, as in Apache.
    fn least(
        &self,
        candidates: &[usize],
        now_ms: u64,
        key: &dyn Fn(usize) -> u128,
    ) -> Option<usize> {
        let least = candidates.iter().map(|at| key(*at)).min()?;
        let equals: Vec<usize> = candidates
            .iter()
            .copied()
            .filter(|at| key(*at) == least)
            .collect();
        self.owed_most(&equals, now_ms)
    }

    fn pool(&self, at: usize, look: impl Fn(&Pool) -> u64) -> u64 {
        self.pools.get(at).map_or(0, |pool| look(pool))
    }

    /// Smooth weighted round robin: each is owed its weight, and who is owed most pays for all.
    fn owed_most(&self, candidates: &[usize], now_ms: u64) -> Option<usize> {
        let mut owed = self.owed.borrow_mut();
        let weight = |at: usize| i64::from(self.weight(at, now_ms));
        let total: i64 = candidates.iter().map(|at| weight(*at)).sum();
        candidates.iter().for_each(|at| owed[*at] += weight(*at));
        let chosen = candidates
            .iter()
            .copied()
            .reduce(|best, at| if owed[at] > owed[best] { at } else { best })?;
        owed[chosen] -= total;
        Some(chosen)
    }

    /// xorshift: chance enough for spreading.
    fn dice(&self) -> u64 {
        let mut state = self.chance.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.chance.set(state);
        state
    }

    fn any(&self, candidates: &[usize]) -> Option<usize> {
        candidates
            .get((self.dice() % candidates.len().max(1) as u64) as usize)
            .copied()
    }

    /// Rendezvous hashing: when a member goes, only its own clients move.
    fn rank(&self, at: usize, key: &[u8]) -> u64 {
        let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
        if let Some(member) = self.upstream.members.get(at) {
            hasher.write(member.backend.to_string().as_bytes());
        }
        hasher.write(key);
        hasher.finish()
    }
}

/// Host and port, as points on a ring are made of.
fn place_of(backend: &Backend) -> (String, String) {
    match &backend.address {
        BackendAddress::Unix(path) => (path.display().to_string(), String::new()),
        BackendAddress::Tcp { host, port } => (host.to_string(), port.to_string()),
    }
}

/// IPv6 clients change their lower half at will.
fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets()[..8].to_vec(),
    }
}

/// The session that a request belongs to.
pub struct Session<'s> {
    /// Name of the cookie or the parameter.
    pub name: &'s str,
    pub route: Vec<u8>,
}

/// The route in a session's name: what follows the last dot (or the separator) in the cookie, or in
/// the path parameter.
pub fn session_of<'s>(exchange: &Exchange, sticky: &'s Sticky) -> Option<Session<'s>> {
    let by_parameter = parameter(exchange.head.view().target(), sticky);
    let by_parameter = by_parameter.map(|session| (&*sticky.parameter, session));
    let (name, session) = by_parameter.or_else(|| {
        let cookie = exchange.head.view().cookie(sticky.cookie.as_bytes());
        cookie.map(|cookie| (&*sticky.cookie, cookie.to_vec()))
    })?;
    // Without a separator the whole is the route.
    let Some(separator) = sticky.separator else {
        return Some(Session {
            name,
            route: session,
        });
    };
    let at = session.iter().position(|byte| *byte == separator)?;
    let route = session.get(at + 1..)?.to_vec();
    Some(Session { name, route })
}

/// `;name=value` in the path, or `name=value` in the query.
fn parameter(target: &[u8], sticky: &Sticky) -> Option<Vec<u8>> {
    let starts = target
        .iter()
        .enumerate()
        .filter(|(_, byte)| matches!(byte, b';' | b'?' | b'&'))
        .map(|(at, _)| at + 1);
    let value = |start: usize| {
        target
            .get(start..)?
            .strip_prefix(sticky.parameter.as_bytes())?
            .strip_prefix(b"=")
    };
    let ends =
        |byte: &u8| matches!(byte, b'?' | b'&') || (*byte == b';' && sticky.semicolon_delimits);
    let value = starts.into_iter().find_map(value)?;
    Some(value.split(ends).next().unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{Backend, BackendAddress, Protocol, Tuning};

    fn member() -> Member {
        Member::new(
            Backend::new(Protocol::Http1, BackendAddress::Unix("/nowhere".into())),
            Tuning::default(),
        )
    }

    #[test]
    fn equals_take_turns_by_their_weights() {
        let members: Vec<Member> = [100, 100, 200]
            .map(|weight| Member { weight, ..member() })
            .into();
        let pools: Vec<_> = members
            .iter()
            .map(|member| Rc::new(Pool::new(Arc::clone(&member.backend))))
            .collect();
        let group = Group::new(Arc::new(Upstream::new("test", members)), pools, 1);
        let mut counts = [0; 3];
        (0..40).for_each(|_| counts[group.least(&[0, 1, 2], 0, &|_| 0).unwrap()] += 1);
        assert_eq!(counts, [10, 10, 20]);
        // One that is busier is none of them.
        let mut counts = [0; 3];
        (0..40).for_each(|_| {
            counts[group
                .least(&[0, 1, 2], 0, &|at| u128::from(at == 0))
                .unwrap()] += 1
        });
        assert_eq!(counts[0], 0);
    }

    #[test]
    fn a_check_that_is_passed_ends_the_time_of_rest() {
        let (member, now_ms) = (member(), clock::monotonic_ms());
        let pools = vec![Rc::new(Pool::new(Arc::clone(&member.backend)))];
        let standing = member.state.clone();
        let group = Group::new(Arc::new(Upstream::new("test", vec![member])), pools, 1);
        standing.pass_check(now_ms);
        standing.fail(1, 60_000, now_ms);
        assert!(!group.is_well(0, now_ms), "it has failed after the check");
        standing.pass_check(clock::monotonic_ms() + 1);
        assert!(group.is_well(0, now_ms));
        standing.set_down(true, now_ms);
        assert!(!group.is_well(0, now_ms));
    }

    #[test]
    fn who_comes_back_gets_its_share_little_by_little() {
        let member = Member::new(
            Backend::new(Protocol::Http1, BackendAddress::Unix("/nowhere".into())),
            Tuning::default(),
        );
        let standing = member.state.clone();
        let pools = vec![Rc::new(Pool::new(Arc::clone(&member.backend)))];
        let upstream = Upstream {
            slow_start_ms: 1000,
            ..Upstream::new("test", vec![member])
        };
        let group = Group::new(Arc::new(upstream), pools, 1);
        assert_eq!(group.weight(0, 5000), 100, "it was never away");
        standing.come_back(5000);
        let shares: Vec<u32> = [5000, 5010, 5500, 5999, 6000, 9000]
            .iter()
            .map(|now_ms| group.weight(0, *now_ms))
            .collect();
        assert_eq!(shares, [1, 1, 50, 99, 100, 100]);
    }
}
