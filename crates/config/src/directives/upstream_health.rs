//! Health checks and failure handling of the servers of an `[[upstream]]`.
//!
//! Caveat: checks run only if a path or an interval is set; the other keys don't enable them.

use crate::{
    context::UPSTREAM,
    kind::{Kind, Word},
    model::{HealthCheck, HealthMethod},
    row::{Draft, Row, Rows},
    value::{Value, ValueError},
};

/// Settings of health checks and failures.
#[derive(Debug, Default)]
pub struct HealthDraft {
    path: Option<String>,
    interval_ms: Option<u64>,
    timeout_ms: Option<u64>,
    rise: Option<u32>,
    fall: Option<u32>,
    statuses: Vec<u16>,
    content: Option<String>,
    pub slow_start_ms: u64,
    pub failures_max: Option<u32>,
    pub breaks: bool,
    pub address_ttl_ms: Option<u64>,
}

impl HealthDraft {
    pub fn check(&self) -> Option<HealthCheck> {
        if self.path.is_none() && self.interval_ms.is_none() {
            return None;
        }
        let usual = HealthCheck::default();
        let method = if self.path.is_some() {
            HealthMethod::Get
        } else {
            HealthMethod::Connect
        };
        let statuses: Vec<(u16, u16)> = self
            .statuses
            .iter()
            .map(|status| (*status, *status))
            .collect();
        Some(HealthCheck {
            method,
            target: self.path.as_deref().map_or(usual.target, Into::into),
            interval_ms: self.interval_ms.unwrap_or(usual.interval_ms),
            timeout_ms: self.timeout_ms.unwrap_or(usual.timeout_ms),
            passes: self.rise.unwrap_or(RISE),
            fails: self.fall.unwrap_or(FALL),
            statuses: if statuses.is_empty() {
                usual.statuses
            } else {
                statuses
            },
            content: self.content.as_deref().map(Into::into),
            judge: None,
        })
    }
}

const RISE: u32 = 2;
const FALL: u32 = 3;
const DURATION: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 86_400_000,
};

static TARGET: Word = Word {
    expects: "a path, such as \"/health\"",
    pattern: "^/[^ ]*$",
    read: |text| match text.starts_with('/')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

impl Draft for HealthDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<HealthDraft>] = &[
    Row {
        name: "health_path",
        contexts: UPSTREAM,
        kind: Kind::Word(&TARGET),
        example: Some("\"/health\""),
        summary: "Path for active health checks: each server is checked periodically, and one that \
                  fails is not used. For programs (`fcgi://` and the like) accepting a connection \
                  is enough.",
        apache: Some("hcuri of BalancerMember"),
        aliases: &["health_check", "health_uri", "health"],
        set: |health, given| health.path = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "health_interval",
        contexts: UPSTREAM,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: 86_400_000,
        },
        example: Some("\"5s\""),
        unit: Some("milliseconds"),
        summary: "Interval of health checks; 5 seconds if only `health_path` is set. Without a \
                  path, accepting a connection is enough.",
        apache: Some("hcinterval of BalancerMember"),
        set: |health, given| health.interval_ms = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "health_timeout",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"5s\""),
        unit: Some("milliseconds"),
        summary: "Timeout of one health check.",
        set: |health, given| health.timeout_ms = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "health_rise",
        contexts: UPSTREAM,
        kind: Kind::Integer { min: 1, max: 1000 },
        default: Some("2"),
        unit: Some("checks"),
        summary: "Number of consecutive successful checks before a server is used again.",
        apache: Some("hcpasses of BalancerMember"),
        aliases: &["rise", "passes"],
        set: |health, given| health.rise = Some(given.number() as u32),
        ..Row::BASE
    },
    Row {
        name: "health_fall",
        contexts: UPSTREAM,
        kind: Kind::Integer { min: 1, max: 1000 },
        default: Some("3"),
        unit: Some("checks"),
        summary: "Number of consecutive failed checks before a server is taken out.",
        apache: Some("hcfails of BalancerMember"),
        aliases: &["fall"],
        set: |health, given| health.fall = Some(given.number() as u32),
        ..Row::BASE
    },
    Row {
        name: "health_statuses",
        contexts: UPSTREAM,
        kind: Kind::ListOf(&Kind::Integer { min: 100, max: 599 }),
        example: Some("[200, 204]"),
        summary: "Statuses of a healthy server. Default: 200 to 399.",
        apache: Some("hcexpr of BalancerMember"),
        set: |health, given| {
            health.statuses = given
                .list()
                .into_iter()
                .map(|one| one.number() as u16)
                .collect();
        },
        ..Row::BASE
    },
    Row {
        name: "health_content",
        contexts: UPSTREAM,
        kind: Kind::Text,
        example: Some("\"ok\""),
        summary: "Text that the response must contain (within its first 64 KiB).",
        apache: Some("hcexpr of BalancerMember"),
        aliases: &["health_body"],
        set: |health, given| health.content = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "slow_start",
        contexts: UPSTREAM,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 86_400_000,
        },
        default: Some("\"0s\""),
        unit: Some("milliseconds"),
        summary: "Time over which a recovered server's share grows to its full weight.",
        aliases: &["slowstart"],
        set: |health, given| health.slow_start_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "failures_in_a_row",
        contexts: UPSTREAM,
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Some("1"),
        unit: Some("requests"),
        summary: "Number of consecutive failures after which a server is not used for \
                  `retry_after`.",
        aliases: &["max_fails"],
        set: |health, given| health.failures_max = Some(given.number() as u32),
        ..Row::BASE
    },
    Row {
        name: "circuit_breaker",
        contexts: UPSTREAM,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "While no server is available, answer with 503 and Retry-After at once instead of \
                  trying one anyway.",
        aliases: &["breaker"],
        set: |health, given| health.breaks = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "resolve_every",
        contexts: UPSTREAM,
        kind: DURATION,
        default: Some("\"10s\""),
        unit: Some("milliseconds"),
        summary: "Interval of DNS lookups, while the known addresses stay in use; the addresses of \
                  a name are used in turn.",
        apache: Some("addressttl of ProxyPass"),
        aliases: &["resolver", "dns_ttl"],
        set: |health, given| health.address_ttl_ms = Some(given.number()),
        ..Row::BASE
    },
];
