//! `[site.bot_verification]`: search engine bots, verified by the host names of their addresses.
//!
//! A route's table replaces the site's.

use crate::{
    context::{BOT_VERIFICATION, ROUTE, SITE},
    kind::{Kind, TableKind, Word},
    model::{Robots, Settings},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Value, ValueError},
};
use std::sync::Arc;

static ROBOT: Word = Word {
    expects: "a bot and its domains, such as \"ExampleBot: bots.example.org example.net\"",
    pattern: "^[^:]+:.+$",
    read: |text| match robot(text) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(ValueError::plain(None)),
    },
};

static RESOLVER: Word = Word {
    expects: "an address with a port, such as \"127.0.0.1:53\"",
    pattern: "^.+:[0-9]+$",
    read: |text| match text.parse::<std::net::SocketAddr>() {
        Ok(_) => Ok(Value::Text(text.to_owned())),
        Err(_) => Err(ValueError::plain(None)),
    },
};

const OFF: Kind = Kind::Choice(&["off"]);

impl Draft for Robots {
    fn rows() -> Rows<Self> {
        &[BOT_ROWS]
    }
}

pub const ROWS: &[Row<Settings>] = &[Row {
    name: "bot_verification",
    deprecated: &["robots"],
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        OFF,
        Kind::Table(&TableKind {
            context: BOT_VERIFICATION,
            read: read_robots,
        }),
    ]),
    default: Some("\"off\""),
    summary: "Verification of search engine bots by reverse and forward DNS; verified ones are \
              exempt from limits and challenges.",
    since: "0.2",
    set: |settings, given| settings.visitors.robots = given.parsed_as(),
    ..Row::BASE
}];

pub const BOT_ROWS: &[Row<Robots>] = &[
    Row {
        name: "unverified",
        deprecated: &["liars"],
        contexts: BOT_VERIFICATION,
        kind: Kind::Choice(&["anybody", "refuse"]),
        default: Some("\"anybody\""),
        summary: "Action on clients that claim to be a bot and fail verification: treat them like \
                  any other client (`anybody`), or answer 403 (`refuse`).",
        since: "0.2",
        set: |rule, given| rule.refuses_liars = given.text() == "refuse",
        ..Row::BASE
    },
    Row {
        name: "agents",
        contexts: BOT_VERIFICATION,
        kind: Kind::ListOf(&Kind::Word(&ROBOT)),
        default: Some("[]"),
        example: Some("[\"ExampleBot: bots.example.org\"]"),
        summary: "Further bots: a part of the User-Agent, and the domains that the host names of \
                  their addresses must be in.",
        since: "0.2",
        set: |rule, given| {
            rule.more = given
                .texts()
                .iter()
                .filter_map(|text| robot(text))
                .collect()
        },
        ..Row::BASE
    },
    Row {
        name: "resolver",
        contexts: BOT_VERIFICATION,
        kind: Kind::Word(&RESOLVER),
        example: Some("\"127.0.0.1:53\""),
        summary: "DNS server to query. Default: the first one in /etc/resolv.conf.",
        since: "0.2",
        set: |rule, given| rule.resolver = given.text().parse().ok(),
        ..Row::BASE
    },
];

fn robot(text: &str) -> Option<(String, Vec<String>)> {
    let (agent, domains) = text.split_once(':')?;
    let domains: Vec<String> = domains
        .split_ascii_whitespace()
        .map(|domain| domain.trim_matches('.').to_ascii_lowercase())
        .collect();
    let is_good = !agent.trim().is_empty()
        && !domains.is_empty()
        && domains.iter().all(|domain| domain.contains('.'));
    is_good.then(|| (agent.trim().to_owned(), domains))
}

fn read_robots(_report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut rule = Robots::default();
    rule.fill(fields);
    Some(Value::parsed(Arc::new(rule)))
}
