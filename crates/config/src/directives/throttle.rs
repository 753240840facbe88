//! `[site.throttle]`: bandwidth limits, request rate limits and concurrency limits.
//!
//! Called by: `settings`, for sites and routes.
//! Out of scope: connection limits (`limits`) and bans (`abuse`).

use super::upstream_fields;
use crate::{
    context::{RATE, REQUEST_RATE, ROUTE, SITE, THROTTLE, WHEN},
    kind::{KeyKind, Kind, TableKind, Word},
    model::{
        Excess, KeyLimit, LimitKind, LimitPlace, Origin, Rate, RequestRate, Settings, Template,
        Throttle, limit_place,
    },
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    units,
    value::{Fields, Spanned, Value, ValueError},
};
use std::sync::Arc;

static BANDWIDTH: Word = Word {
    expects: "a bandwidth, such as \"1MB/s\", or \"off\"",
    pattern: "^([0-9]+ ?([kKmMgGtT][iI]?)?[bB] ?/s|off)$",
    read: |text| {
        read_off(text, Value::parsed::<Option<Rate>>(None), |text| {
            units::parse_bandwidth(text)
                .map(|rate| Value::parsed::<Option<Rate>>(Some(bandwidth(rate))))
        })
    },
};

static REQUESTS: Word = Word {
    expects: "a request rate, such as \"100/s\" or \"30/m\", or \"off\"",
    pattern: "^([0-9]+ ?/ ?[sm]|off)$",
    read: |text| {
        let read = |text: &str| {
            units::parse_request_rate(text)
                .map(|rate| Value::parsed::<Option<RequestRate>>(Some(requests(rate))))
        };
        read_off(text, Value::parsed::<Option<RequestRate>>(None), read)
    },
};

pub(super) static BARE_BANDWIDTH: Word = Word {
    expects: "a bandwidth, such as \"1MB/s\"",
    pattern: "^[0-9]+ ?([kKmMgGtT][iI]?)?[bB] ?/s$",
    read: |text| {
        units::parse_bandwidth(text)
            .map(Value::Number)
            .map_err(ValueError::plain)
    },
};

static BARE_REQUESTS: Word = Word {
    expects: "a request rate, such as \"100/s\" or \"30/m\"",
    pattern: "^[0-9]+ ?/ ?[sm]$",
    read: |text| {
        units::parse_request_rate(text)
            .map(Value::Number)
            .map_err(ValueError::plain)
    },
};

const RATE_KIND: Kind = Kind::OneOf(&[
    Kind::Word(&BANDWIDTH),
    Kind::Table(&TableKind {
        context: RATE,
        read: read_rate,
    }),
]);
const REQUESTS_KIND: Kind = Kind::OneOf(&[
    Kind::Word(&REQUESTS),
    Kind::Table(&TableKind {
        context: REQUEST_RATE,
        read: read_requests,
    }),
]);

#[derive(Debug, Default)]
pub struct RateDraft {
    rate: Option<u64>,
    burst: Option<u64>,
    after: u64,
}

#[derive(Debug, Default)]
pub struct RequestRateDraft {
    rate: Option<u64>,
    burst: Option<u64>,
    delay: bool,
    delay_max_ms: Option<(u64, Location)>,
}

impl Draft for RateDraft {
    fn rows() -> Rows<Self> {
        &[RATE_ROWS]
    }
}

impl Draft for RequestRateDraft {
    fn rows() -> Rows<Self> {
        &[REQUEST_RATE_ROWS]
    }
}

/// A bandwidth row.
const fn bandwidth_row(
    name: &'static str,
    summary: &'static str,
    apache: Option<&'static str>,
    set: fn(&mut Settings, Spanned),
) -> Row<Settings> {
    Row {
        name,
        contexts: THROTTLE,
        kind: RATE_KIND,
        default: Some("\"off\""),
        example: Some("{ rate = \"1MB/s\", burst = \"4MB\", after = \"10MB\" }"),
        summary,
        apache,
        aliases: &["limit_rate", "limit_rate_after"],
        set,
        ..Row::BASE
    }
}

const fn requests_row(
    name: &'static str,
    summary: &'static str,
    set: fn(&mut Settings, Spanned),
) -> Row<Settings> {
    Row {
        name,
        contexts: THROTTLE,
        kind: REQUESTS_KIND,
        default: Some("\"off\""),
        example: Some("{ rate = \"30/m\", burst = 20, excess = \"delay\", delay_max = \"2s\" }"),
        summary,
        aliases: &["limit_req", "rate_limit"],
        set,
        ..Row::BASE
    }
}

/// A concurrency row.
const fn concurrency_row(
    name: &'static str,
    summary: &'static str,
    apache: Option<&'static str>,
    set: fn(&mut Settings, Spanned),
) -> Row<Settings> {
    Row {
        name,
        contexts: THROTTLE,
        kind: Kind::Integer {
            min: 0,
            max: 1_000_000,
        },
        default: Some("0"),
        summary,
        apache,
        aliases: &["limit_conn"],
        since: "0.2",
        set,
        ..Row::BASE
    }
}

const RATE_LIMIT: Option<&str> = Some("SetOutputFilter RATE_LIMIT");

pub const SETTINGS_ROWS: &[Row<Settings>] = &[
    Row {
        name: "throttle",
        contexts: SITE.or(ROUTE).or(WHEN),
        kind: Kind::Section(THROTTLE),
        summary: "Bandwidth limits and request rate limits.",
        ..Row::BASE
    },
    bandwidth_row(
        "out_per_connection",
        "Bandwidth of responses per connection.",
        RATE_LIMIT,
        |s, given| s.throttle.out_connection = given.parsed(),
    ),
    bandwidth_row(
        "out_per_address",
        "Bandwidth of responses per client address.",
        None,
        |s, given| {
            set_limit(s, LimitKind::OutAddress, given, |limits| {
                &mut limits.out_address
            })
        },
    ),
    bandwidth_row(
        "out_per_site",
        "Bandwidth of responses of the whole site.",
        None,
        |s, given| s.throttle.out_site = given.parsed(),
    ),
    bandwidth_row(
        "in_per_connection",
        "Bandwidth of request bodies per connection.",
        None,
        |s, given| s.throttle.in_connection = given.parsed(),
    ),
    bandwidth_row(
        "in_per_address",
        "Bandwidth of request bodies per client address.",
        None,
        |s, given| {
            set_limit(s, LimitKind::InAddress, given, |limits| {
                &mut limits.in_address
            })
        },
    ),
    bandwidth_row(
        "in_per_site",
        "Bandwidth of request bodies to the whole site.",
        None,
        |s, given| s.throttle.in_site = given.parsed(),
    ),
    requests_row(
        "requests_static",
        "Rate of requests per client address, whatever answers them: files, fixed rules, programs, or \
         upstreams.",
        |s, given| {
            set_limit(s, LimitKind::StaticRequests, given, |limits| {
                &mut limits.static_requests
            })
        },
    ),
    requests_row(
        "requests_dynamic",
        "Rate of requests per client address that a program or upstream answers. They count for \
         `requests_static`, too.",
        |s, given| {
            set_limit(s, LimitKind::DynamicRequests, given, |limits| {
                &mut limits.dynamic_requests
            })
        },
    ),
    requests_row(
        "requests_per_site",
        "Rate of requests of all clients together. Excess requests get 503.",
        |s, given| {
            set_limit(s, LimitKind::SiteRequests, given, |limits| {
                &mut limits.site_requests
            })
        },
    ),
    Row {
        deprecated: &["at_a_time_per_address"],
        ..concurrency_row(
            "concurrent_per_address",
            "Maximum number of concurrent requests per client address, including downloads. 0: no \
             limit.",
            Some("MaxConnPerIP"),
            |s, given| {
                set_count(s, LimitKind::AtATimeAddress, given, |limits| {
                    &mut limits.at_a_time_address
                })
            },
        )
    },
    Row {
        deprecated: &["at_a_time_per_site"],
        ..concurrency_row(
            "concurrent_per_site",
            "Maximum number of concurrent requests of all clients; more get 503. 0: no limit.",
            None,
            |s, given| {
                set_count(s, LimitKind::AtATimeSite, given, |limits| {
                    &mut limits.at_a_time_site
                })
            },
        )
    },
    concurrency_row(
        "dynamic_per_address",
        "Maximum number of concurrent requests per client address that programs (PHP, upstreams) \
         answer. 0: no limit.",
        None,
        |s, given| {
            set_count(s, LimitKind::ProgramsAddress, given, |limits| {
                &mut limits.dynamic_at_a_time_address
            })
        },
    ),
    concurrency_row(
        "dynamic_per_site",
        "Maximum number of concurrent requests of all clients that programs answer. 0: no limit.",
        None,
        |s, given| {
            set_count(s, LimitKind::ProgramsSite, given, |limits| {
                &mut limits.dynamic_at_a_time_site
            })
        },
    ),
    concurrency_row(
        "dynamic_queue",
        "Maximum number of requests beyond `dynamic_per_address` or `dynamic_per_site` that wait; \
         more get 429 or 503 at once. 0: none wait.",
        None,
        |s, given| s.throttle.dynamic_queue_max = given.number(),
    ),
    Row {
        name: "dynamic_queue_time",
        contexts: THROTTLE,
        kind: Kind::Duration {
            min_ms: 1,
            max_ms: 3_600_000,
        },
        example: Some("\"10s\""),
        summary: "Maximum time a request waits in the queue; then 503. Default: 10 seconds.",
        since: "0.2",
        set: |s, given| s.throttle.dynamic_queue_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "over",
        contexts: THROTTLE,
        kind: Kind::Choice(&["403", "429", "503", "drop", "challenge"]),
        example: Some("\"503\""),
        summary: "Action on requests that exceed a limit: respond with this status (with \
                  `Retry-After`), close the connection without a response (`drop`), or send the \
                  page of `challenge`. Default: 429 if the client exceeds its limit, 503 if the \
                  site does.",
        aliases: &["limit_req_status", "limit_conn_status"],
        since: "0.2",
        set: |s, given| s.throttle.over = Some(super::access::consequence(&given.text())),
        ..Row::BASE
    },
    Row {
        name: "requests_by_key",
        contexts: THROTTLE,
        kind: Kind::MapOf(&KEY, &REQUESTS_KIND),
        default: Some("{}"),
        example: Some(
            "{ \"$http_x_api_key\" = \"100/s\", \"$cookie_session\" = { rate = \"30/m\", burst = 10 } }",
        ),
        summary: "Request rate of the requests that have the same value of a key, from all \
                  addresses: a text with variables (docs/routes.md), such as a field, a cookie or a \
                  query parameter. Requests without a value are not limited by it. \
                  Clients may make keys up, so limit by address as well.",
        aliases: &["limit_req_zone"],
        since: "0.2",
        set: |settings, given| {
            for (said, one) in given.map() {
                let origin = origin_of_key(&said, &one.at);
                let rate = one.parsed::<Option<RequestRate>>();
                change_key(settings, &said, origin, |limit| limit.requests = rate);
            }
        },
        ..Row::BASE
    },
    Row {
        name: "concurrent_by_key",
        contexts: THROTTLE,
        kind: Kind::MapOf(
            &KEY,
            &Kind::Integer {
                min: 0,
                max: 1_000_000,
            },
        ),
        default: Some("{}"),
        example: Some("{ \"$http_x_api_key\" = 10 }"),
        summary: "Maximum number of concurrent requests with the same value of a key; see \
                  `requests_by_key`. 0: no limit.",
        aliases: &["limit_conn_zone"],
        since: "0.2",
        set: |settings, given| {
            for (said, one) in given.map() {
                let origin = origin_of_key(&said, &one.at);
                let max = one.number();
                change_key(settings, &said, origin, |limit| limit.at_a_time = max);
            }
        },
        ..Row::BASE
    },
];

pub const RATE_ROWS: &[Row<RateDraft>] = &[
    Row {
        name: "rate",
        contexts: RATE,
        kind: Kind::Word(&BARE_BANDWIDTH),
        example: Some("\"1MB/s\""),
        required: true,
        summary: "Bytes per second.",
        set: |draft, given| draft.rate = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "burst",
        contexts: RATE,
        kind: Kind::Bytes {
            min: 1,
            max: 1 << 40,
        },
        example: Some("\"4MB\""),
        unit: Some("bytes"),
        summary: "Bytes that may pass at once after a pause. Default: what the rate allows in one \
                  second.",
        set: |draft, given| draft.burst = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "after",
        contexts: RATE,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        default: Some("0"),
        example: Some("\"10MB\""),
        unit: Some("bytes"),
        summary: "Bytes at the start of each response or request body that are not limited.",
        set: |draft, given| draft.after = given.number(),
        ..Row::BASE
    },
];

pub const REQUEST_RATE_ROWS: &[Row<RequestRateDraft>] = &[
    Row {
        name: "rate",
        contexts: REQUEST_RATE,
        kind: Kind::Word(&BARE_REQUESTS),
        example: Some("\"30/m\""),
        required: true,
        summary: "Requests per second (`/s`) or minute (`/m`).",
        set: |draft, given| draft.rate = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "burst",
        contexts: REQUEST_RATE,
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000_000,
        },
        example: Some("20"),
        summary: "Requests that may arrive at once after a pause. Default: what the rate allows in \
                  one second, at least 1.",
        set: |draft, given| draft.burst = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "excess",
        contexts: REQUEST_RATE,
        kind: Kind::Choice(&["refuse", "delay"]),
        default: Some("\"refuse\""),
        summary: "Refuse excess requests (429 with Retry-After), or delay them.",
        set: |draft, given| draft.delay = given.text() == "delay",
        ..Row::BASE
    },
    Row {
        name: "delay_max",
        contexts: REQUEST_RATE,
        kind: Kind::Duration {
            min_ms: 1,
            max_ms: 3_600_000,
        },
        default: Some("\"5s\""),
        summary: "With `excess = \"delay\"`: requests that would have to wait longer are refused.",
        set: |draft, given| {
            let at = given.at.clone();
            draft.delay_max_ms = Some((given.number(), at));
        },
        ..Row::BASE
    },
];

/// A text with at least one variable.
static KEY: KeyKind = KeyKind {
    expects: "texts with variables, such as \"$http_x_api_key\"",
    pattern: "[$]",
    is_case_sensitive: true,
    read: |text| match upstream_fields::read_template(text)?.constant() {
        None => Ok(text.to_owned()),
        Some(_) => Err(ValueError::with_help(
            "a key without a variable is the same for all requests",
            "write $http_NAME, $cookie_NAME, $arg_NAME or another variable",
        )),
    },
};

/// The place of a key, which stands before its value.
fn origin_of_key(said: &str, value: &Location) -> Origin {
    let before = value.source.text.get(..value.span.start);
    match before.and_then(|before| before.rfind(said)) {
        Some(start) => Location {
            source: Arc::clone(&value.source),
            span: start..start + said.len(),
        }
        .origin(),
        None => value.origin(),
    }
}

/// Sets a limit and its place: what is under a limit of the same place shares accounts.
fn set_limit<T: Clone + 'static>(
    settings: &mut Settings,
    kind: LimitKind,
    given: Spanned,
    limit: fn(&mut Throttle) -> &mut Option<T>,
) {
    let place = limit_place(&given.at.origin());
    let value = given.parsed::<Option<T>>();
    let place = value.as_ref().map_or_else(LimitPlace::default, |_| place);
    settings.throttle.places.set(kind, place);
    *limit(&mut settings.throttle) = value;
}

/// The same for a number of requests at a time; 0: no limit.
fn set_count(
    settings: &mut Settings,
    kind: LimitKind,
    given: Spanned,
    limit: fn(&mut Throttle) -> &mut u64,
) {
    let place = limit_place(&given.at.origin());
    let max = given.number();
    let place = match max {
        0 => LimitPlace::default(),
        _ => place,
    };
    settings.throttle.places.set(kind, place);
    *limit(&mut settings.throttle) = max;
}

/// Changes the limit by a key, whose names are linked later.
fn change_key(
    settings: &mut Settings,
    said: &str,
    origin: Origin,
    change: impl FnOnce(&mut KeyLimit),
) {
    let limits = &mut settings.throttle.by_key;
    let at = limits.iter().position(|limit| &*limit.said == said);
    let at = at.unwrap_or_else(|| {
        limits.push(KeyLimit {
            said: said.into(),
            key: Template::parse(said).unwrap_or_default(),
            place: LimitPlace::default(),
            origin: origin.clone(),
            requests: None,
            at_a_time: 0,
        });
        limits.len() - 1
    });
    let limit = &mut limits[at];
    (limit.place, limit.origin) = (limit_place(&origin), origin);
    change(limit);
}

fn read_off(
    text: &str,
    off: Value,
    read: impl Fn(&str) -> Result<Value, Option<String>>,
) -> Result<Value, ValueError> {
    if text == "off" {
        Ok(off)
    } else {
        read(text).map_err(ValueError::plain)
    }
}

fn bandwidth(bytes_per_s: u64) -> Rate {
    Rate {
        bytes_per_s,
        burst_bytes: bytes_per_s,
        after_bytes: 0,
    }
}

fn requests(per_1000_s: u64) -> RequestRate {
    RequestRate {
        per_1000_s,
        burst: (per_1000_s / 1000).max(1),
        excess: Excess::Refuse,
    }
}

fn read_rate(_report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = RateDraft::default();
    draft.fill(fields);
    let mut rate = bandwidth(draft.rate?);
    rate.burst_bytes = draft.burst.unwrap_or(rate.burst_bytes);
    rate.after_bytes = draft.after;
    Some(Value::parsed(Some(rate)))
}

fn read_requests(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = RequestRateDraft::default();
    draft.fill(fields);
    let mut rate = requests(draft.rate?);
    rate.burst = draft.burst.unwrap_or(rate.burst);
    match (draft.delay, draft.delay_max_ms) {
        (true, given) => {
            rate.excess = Excess::Delay {
                at_most_ms: given.map_or(5000, |(ms, _)| ms),
            }
        }
        (false, Some((_, at))) => {
            report.warning(
                &at,
                "`delay_max` without `excess = \"delay\"` does nothing",
                Some("add excess = \"delay\"".into()),
            );
        }
        (false, None) => {}
    }
    Some(Value::parsed(Some(rate)))
}
