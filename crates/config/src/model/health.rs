//! How members of an upstream are looked after: checks that are made of them without a request, and
//! what is known of each.
//!
//! What is known ([`Standing`]) is one for the whole process: whoever looks after members writes
//! it, all workers read it. It belongs to the member of one configuration, which is why two members
//! are equal whatever is known of them.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

/// What a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthMethod {
    /// Nothing: that it takes a connection is enough.
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

/// A check that is made again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HealthCheck {
    pub method: HealthMethod,
    /// Path and query.
    pub target: Box<str>,
    pub interval_ms: u64,
    /// For the whole of one check.
    pub timeout_ms: u64,
    /// So many in a row that went well bring a member back; so many that failed take it away.
    pub passes: u32,
    pub fails: u32,
    /// From and to; what is in none of them fails.
    pub statuses: Vec<(u16, u16)>,
    /// The content has this in it.
    pub content: Option<Box<str>>,
    /// Decides in the place of statuses and content.
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

/// What a server said to a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthAnswer {
    pub status: u16,
    pub fields: Vec<(String, Vec<u8>)>,
    /// As much of it as is looked at.
    pub content: Vec<u8>,
}

type Judging = dyn Fn(&HealthAnswer) -> bool + Send + Sync;

/// Says whether an answer is that of a server that is well.
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

/// What is known of a member.
#[derive(Clone, Debug, Default)]
pub struct Standing(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    is_down: AtomicBool,
    /// Of the process's clock; 0: it never was away.
    back_since_ms: AtomicU64,
    /// The last check that it passed while it was not away; 0: none.
    passed_ms: AtomicU64,
    busy: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
}

impl Standing {
    /// Checks say that it is not to be asked.
    pub fn is_down(&self) -> bool {
        self.0.is_down.load(Ordering::Relaxed)
    }

    pub fn set_down(&self, is_down: bool, now_ms: u64) {
        if self.0.is_down.swap(is_down, Ordering::Relaxed) && !is_down {
            self.come_back(now_ms);
        }
    }

    /// A check has found it well.
    pub fn pass_check(&self, now_ms: u64) {
        self.0.passed_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns `true` if a check has found it well after that moment: what failed before is over.
    pub fn has_passed_since(&self, ms: u64) -> bool {
        self.0.passed_ms.load(Ordering::Relaxed) > ms
    }

    /// It is asked again after it was not.
    pub fn come_back(&self, now_ms: u64) {
        self.0.back_since_ms.store(now_ms.max(1), Ordering::Relaxed);
    }

    /// How long it has been there, if it was away before.
    pub fn back_for_ms(&self, now_ms: u64) -> Option<u64> {
        let since = self.0.back_since_ms.load(Ordering::Relaxed);
        (since > 0).then(|| now_ms.saturating_sub(since))
    }

    pub fn begin_request(&self) {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end_request(&self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn count_failure(&self) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests under way, requests so far, and failures among them.
    pub fn figures(&self) -> (u32, u64, u64) {
        (
            self.0.busy.load(Ordering::Relaxed),
            self.0.requests.load(Ordering::Relaxed),
            self.0.failures.load(Ordering::Relaxed),
        )
    }
}

/// What becomes of a member is no part of what it is.
impl PartialEq for Standing {
    fn eq(&self, _: &Standing) -> bool {
        true
    }
}

impl Eq for Standing {}

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
    fn who_comes_back_is_known_to() {
        let standing = Standing::default();
        standing.set_down(false, 5);
        assert_eq!((standing.is_down(), standing.back_for_ms(9)), (false, None));
        standing.set_down(true, 10);
        assert!(standing.clone().is_down());
        standing.set_down(false, 20);
        assert_eq!(
            (standing.is_down(), standing.back_for_ms(25)),
            (false, Some(5))
        );
    }
}
