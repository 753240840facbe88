//! Health of upstream members: active checks, and the state of each member.
//!
//! The state ([`MemberState`]) is shared by the whole process: the checker writes it, all workers read
//! it. It belongs to the member of one configuration, so members compare equal whatever their
//! state.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The request that a check sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthMethod {
    /// Nothing: accepting a connection is enough.
    Connect,
    Get,
    Head,
    Options,
}

impl HealthMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            HealthMethod::Connect => "",
            HealthMethod::Get => "GET",
            HealthMethod::Head => "HEAD",
            HealthMethod::Options => "OPTIONS",
        }
    }
}

/// An active health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HealthCheck {
    pub method: HealthMethod,
    /// Path and query.
    pub target: Box<str>,
    pub interval_ms: u64,
    /// Timeout of one check.
    pub timeout_ms: u64,
    /// Consecutive successes that bring a member back, and consecutive failures that take it out.
    pub passes: u32,
    pub fails: u32,
    /// Ranges of healthy statuses.
    pub statuses: Vec<(u16, u16)>,
    /// Text that the response must contain.
    pub content: Option<Box<str>>,
    /// Decides instead of statuses and content.
    pub judge: Option<HealthJudge>,
}

impl Default for HealthCheck {
    fn default() -> HealthCheck {
        HealthCheck {
            method: HealthMethod::Connect,
            target: "/".into(),
            interval_ms: 5_000,
            timeout_ms: 5_000,
            passes: 1,
            fails: 1,
            statuses: vec![(200, 399)],
            content: None,
            judge: None,
        }
    }
}

impl HealthCheck {
    pub fn is_passed(&self, answer: &HealthAnswer) -> bool {
        if let Some(judge) = &self.judge {
            return (judge.0)(answer);
        }
        let has = |text: &str| {
            answer
                .content
                .windows(text.len().max(1))
                .any(|window| window == text.as_bytes())
        };
        self.statuses
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&answer.status))
            && self.content.as_deref().is_none_or(has)
    }
}

/// The response to a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthAnswer {
    pub status: u16,
    pub fields: Vec<(String, Vec<u8>)>,
    /// The beginning of the body.
    pub content: Vec<u8>,
}

/// Result of one test of a member on an operator's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberTest {
    pub is_tls: bool,
    /// Time for a connection, with its TLS handshake.
    pub connected: Option<Duration>,
    /// Method and target; `None`: members of this protocol are only connected to.
    pub request: Option<String>,
    /// Status and time of the answer, on a connection of its own.
    pub answered: Option<(u16, Duration)>,
    /// A health check would take the member for a good one.
    pub is_passed: bool,
    pub error: Option<String>,
}

type Judging = dyn Fn(&HealthAnswer) -> bool + Send + Sync;

/// Decides whether a response is that of a healthy server.
#[derive(Clone)]
pub struct HealthJudge(pub Arc<Judging>);

impl fmt::Debug for HealthJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HealthJudge")
    }
}

impl PartialEq for HealthJudge {
    fn eq(&self, other: &HealthJudge) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HealthJudge {}

impl Hash for HealthJudge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

/// The state of a member.
#[derive(Clone, Debug, Default)]
pub struct MemberState(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    is_down: AtomicBool,
    /// Clock reading of the process; 0: it never was unavailable.
    back_since_ms: AtomicU64,
    /// The last check that it passed while available; 0: none.
    passed_ms: AtomicU64,
    busy: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// Failures since the last response that was none.
    failures_in_row: AtomicU32,
    /// The failure that the member rests for, and the end of the rest; 0: it does not.
    failed_at_ms: AtomicU64,
    failed_until_ms: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Taken out of the choice by an operator.
    is_drained: AtomicBool,
    /// Weight by an operator, in hundredths; 0: the configuration's.
    weight: AtomicU32,
}

impl MemberState {
    /// Returns whether failed checks took the member out.
    pub fn is_down(&self) -> bool {
        self.0.is_down.load(Ordering::Relaxed)
    }

    pub fn set_down(&self, is_down: bool, now_ms: u64) {
        if self.0.is_down.swap(is_down, Ordering::Relaxed) && !is_down {
            self.come_back(now_ms);
        }
    }

    /// Goes on with what another process knew of the member: requests, failures, and bytes sent
    /// and received.
    pub fn continue_with(&self, is_down: bool, counts: [u64; 4]) {
        let known = &self.0;
        known.is_down.fetch_or(is_down, Ordering::Relaxed);
        let cells = [
            &known.requests,
            &known.failures,
            &known.sent_bytes,
            &known.received_bytes,
        ];
        for (cell, count) in cells.into_iter().zip(counts) {
            cell.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Records a successful check.
    pub fn pass_check(&self, now_ms: u64) {
        self.0.passed_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Records a failure of a request. After `most` in a row, in whichever workers, the member rests
    /// for `rest_ms`.
    pub fn fail(&self, most: u32, rest_ms: u64, now_ms: u64) {
        let known = &self.0;
        known.failures.fetch_add(1, Ordering::Relaxed);
        let before = known.failures_in_row.fetch_add(1, Ordering::Relaxed);
        if before.saturating_add(1) >= most {
            known.failed_at_ms.store(now_ms, Ordering::Relaxed);
            let until_ms = now_ms.saturating_add(rest_ms);
            known.failed_until_ms.store(until_ms, Ordering::Relaxed);
        }
    }

    /// Records that a request has succeeded. Returns true if the member was said to have failed.
    pub fn succeed(&self) -> bool {
        // Workers share the line of memory: it is written to only where that changes something.
        let known = &self.0;
        if known.failures_in_row.load(Ordering::Relaxed) == 0 {
            return false;
        }
        known.failures_in_row.store(0, Ordering::Relaxed);
        known.failed_until_ms.swap(0, Ordering::Relaxed) > 0
    }

    /// Returns true while the member rests after failures, unless a check has found it well since.
    pub fn is_failed(&self, now_ms: u64) -> bool {
        let known = &self.0;
        now_ms < known.failed_until_ms.load(Ordering::Relaxed)
            && known.passed_ms.load(Ordering::Relaxed) <= known.failed_at_ms.load(Ordering::Relaxed)
    }

    /// Goes on with the failures of the same member in an earlier configuration.
    pub fn continue_failures(&self, before: &MemberState) {
        let (own, before) = (&self.0, &before.0);
        let failures = before.failures_in_row.load(Ordering::Relaxed);
        own.failures_in_row.store(failures, Ordering::Relaxed);
        for (own, before) in [
            (&own.failed_at_ms, &before.failed_at_ms),
            (&own.failed_until_ms, &before.failed_until_ms),
            (&own.passed_ms, &before.passed_ms),
        ] {
            own.store(before.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Records that the member is available again.
    pub fn come_back(&self, now_ms: u64) {
        self.0.back_since_ms.store(now_ms.max(1), Ordering::Relaxed);
    }

    /// Time since the member became available again, if it was not.
    pub fn back_for_ms(&self, now_ms: u64) -> Option<u64> {
        let since = self.0.back_since_ms.load(Ordering::Relaxed);
        (since > 0).then(|| now_ms.saturating_sub(since))
    }

    /// Returns whether an operator of the running server drains the member: sessions that are
    /// bound to it go on, and nothing else is sent to it.
    pub fn is_drained(&self) -> bool {
        self.0.is_drained.load(Ordering::Relaxed)
    }

    pub fn set_drained(&self, is_drained: bool) {
        self.0.is_drained.store(is_drained, Ordering::Relaxed);
    }

    /// Weight by an operator of the running server, in hundredths.
    pub fn weight(&self) -> Option<u32> {
        Some(self.0.weight.load(Ordering::Relaxed)).filter(|weight| *weight > 0)
    }

    /// `None`: the configuration's.
    pub fn set_weight(&self, weight: Option<u32>) {
        self.0.weight.store(weight.unwrap_or(0), Ordering::Relaxed);
    }

    pub fn begin_request(&self) {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end_request(&self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn count_sent(&self, bytes: usize) {
        self.0.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn count_received(&self, bytes: usize) {
        self.0
            .received_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes to and from the member, where they are counted.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.0.sent_bytes.load(Ordering::Relaxed),
            self.0.received_bytes.load(Ordering::Relaxed),
        )
    }

    /// Active requests, all requests so far, and failures among them.
    pub fn figures(&self) -> (u32, u64, u64) {
        (
            self.0.busy.load(Ordering::Relaxed),
            self.0.requests.load(Ordering::Relaxed),
            self.0.failures.load(Ordering::Relaxed),
        )
    }
}

/// The state of a member is not part of its identity.
impl PartialEq for MemberState {
    fn eq(&self, _: &MemberState) -> bool {
        true
    }
}

impl Eq for MemberState {}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, content: &str) -> HealthAnswer {
        HealthAnswer {
            status,
            content: content.into(),
            ..HealthAnswer::default()
        }
    }

    #[test]
    fn statuses_content_and_judges() {
        let usual = HealthCheck::default();
        let passed = [
            (200, true),
            (302, true),
            (404, false),
            (500, false),
            (101, false),
        ];
        passed.iter().for_each(|(status, expected)| {
            assert_eq!(usual.is_passed(&answer(*status, "")), *expected, "{status}")
        });
        let strict = HealthCheck {
            statuses: vec![(204, 204), (500, 599)],
            content: Some("well".into()),
            ..HealthCheck::default()
        };
        assert!(
            strict.is_passed(&answer(204, "all well")) && strict.is_passed(&answer(503, "well"))
        );
        assert!(!strict.is_passed(&answer(204, "wel")) && !strict.is_passed(&answer(200, "well")));
        let judge = HealthJudge(Arc::new(|answer| answer.status == 500));
        assert!(
            HealthCheck {
                judge: Some(judge),
                ..strict
            }
            .is_passed(&answer(500, ""))
        );
    }

    #[test]
    fn failures_in_a_row_are_a_rest_that_a_success_or_a_check_ends() {
        let state = MemberState::default();
        // Of whichever worker.
        let of_other_worker = state.clone();
        state.fail(3, 100, 10);
        of_other_worker.fail(3, 100, 11);
        assert!(!state.is_failed(11));
        assert!(!state.succeed(), "it has not rested");
        state.fail(3, 100, 12);
        state.fail(3, 100, 13);
        assert!(!state.is_failed(13), "two since the success");
        of_other_worker.fail(3, 100, 14);
        assert!(state.is_failed(14) && state.is_failed(113) && !state.is_failed(114));
        assert_eq!(state.figures().2, 5);
        let next = MemberState::default();
        next.continue_failures(&state);
        assert!(next.is_failed(14));
        assert!(state.succeed() && !state.is_failed(14));
        assert!(next.is_failed(14), "another configuration's");
        next.pass_check(15);
        assert!(!next.is_failed(15));
    }

    #[test]
    fn who_comes_back_is_known_to() {
        let state = MemberState::default();
        state.set_down(false, 5);
        assert_eq!((state.is_down(), state.back_for_ms(9)), (false, None));
        state.set_down(true, 10);
        assert!(state.clone().is_down());
        state.set_down(false, 20);
        assert_eq!((state.is_down(), state.back_for_ms(25)), (false, Some(5)));
    }
}
