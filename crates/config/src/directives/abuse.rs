//! `[abuse]`: addresses that may not connect, limits per address, and bans.
//!
//! Out of scope: files of addresses and databases, which are read when the whole configuration has
//! been (`resolve/addresses`).

use super::listener::NETWORK;
use crate::{
    context::{ABUSE, Contexts, FILE},
    kind::{Kind, Word},
    model::ServerGuard,
    row::{Draft, Row, Rows},
    value::{Spanned, Value, ValueError},
};
use saker_ipset::{AddressList, GeoDatabase};
use std::sync::Arc;

pub(super) static COUNTRY: Word = Word {
    expects: "a two-letter country code, such as \"DE\"",
    pattern: "^[A-Za-z]{2}$",
    read: |text| match text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        true => Ok(Value::Text(text.to_ascii_uppercase())),
        false => Err(ValueError::plain(None)),
    },
};

const DAY_MS: u64 = 86_400_000;
pub(super) const NETWORKS: Kind = Kind::ListOf(&Kind::Word(&NETWORK));
const FILES: Kind = Kind::ListOf(&Kind::Path);
const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 100_000_000,
};

pub(super) const fn networks<T>(
    name: &'static str,
    contexts: Contexts,
    summary: &'static str,
    set: fn(&mut T, Spanned),
) -> Row<T> {
    Row {
        name,
        contexts,
        kind: NETWORKS,
        example: Some("[\"192.0.2.0/24\", \"2001:db8::/32\"]"),
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

pub(super) const fn files<T>(
    name: &'static str,
    contexts: Contexts,
    summary: &'static str,
    set: fn(&mut T, Spanned),
) -> Row<T> {
    Row {
        name,
        contexts,
        kind: FILES,
        example: Some("[\"lists/bad.txt\"]"),
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

pub(super) const DENIED: &str = "Countries (two-letter codes) whose clients are treated like those \
                                 in `deny`; requires `geoip` in [abuse].";
pub(super) const ALLOWED: &str = "Countries (two-letter codes) whose clients are treated like \
                                  those in `allow`; requires `geoip` in [abuse].";
const COUNTRIES: Kind = Kind::ListOf(&Kind::Word(&COUNTRY));
const NUMBERS: Kind = Kind::ListOf(&Kind::Integer {
    min: 1,
    max: u32::MAX as u64,
});

pub(super) const fn countries<T>(
    name: &'static str,
    contexts: Contexts,
    summary: &'static str,
    set: fn(&mut T, Spanned),
) -> Row<T> {
    Row {
        name,
        contexts,
        kind: COUNTRIES,
        example: Some("[\"XA\", \"XB\"]"),
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

pub(super) const fn autonomous_systems<T>(
    name: &'static str,
    deprecated: &'static [&'static str],
    contexts: Contexts,
    set: fn(&mut T, Spanned),
) -> Row<T> {
    let summary = "The same by autonomous system number (ASN).";
    Row {
        name,
        deprecated,
        contexts,
        kind: NUMBERS,
        example: Some("[64500]"),
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

const fn count(
    name: &'static str,
    summary: &'static str,
    set: fn(&mut ServerGuard, Spanned),
) -> Row<ServerGuard> {
    Row {
        name,
        contexts: ABUSE,
        kind: COUNT,
        default: Some("0"),
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

pub const ABUSE_ROWS: &[Row<ServerGuard>] = &[
    Row {
        name: "abuse",
        deprecated: &["guard"],
        contexts: FILE,
        kind: Kind::Section(ABUSE),
        summary: "Limits on connections, bans, and addresses that may not connect.",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        aliases: &["denied", "blacklist"],
        ..networks(
            "deny",
            ABUSE,
            "Client addresses whose connections are closed at once.",
            |guard, given| guard.admittance.deny.networks = given.parsed_list(),
        )
    },
    files(
        "deny_files",
        ABUSE,
        "Files with addresses to deny: a network, an address or a range (`192.0.2.1-192.0.2.9`) \
         per line; `#` and `;` start comments. Files with a million lines are fine. A changed file \
         takes effect within a second; if it has an invalid line, the previous version stays in \
         force.",
        |guard, given| guard.admittance.deny.lists = lists(given),
    ),
    Row {
        aliases: &["allowed", "whitelist"],
        ..networks(
            "allow",
            ABUSE,
            "Client addresses that may connect; `allow` overrides `deny`. If nothing is denied, no \
             other address may connect.",
            |guard, given| guard.admittance.allow.networks = given.parsed_list(),
        )
    },
    files(
        "allow_files",
        ABUSE,
        "Files with addresses to allow, in the format of `deny_files`.",
        |guard, given| guard.admittance.allow.lists = lists(given),
    ),
    Row {
        aliases: &["trusted"],
        ..networks(
            "exempt",
            ABUSE,
            "Client addresses exempt from all limits: monitoring, your own proxies. Manual bans \
             still apply.",
            |guard, given| guard.exempt.networks = given.parsed_list(),
        )
    },
    files(
        "exempt_files",
        ABUSE,
        "Files with addresses to allow, in the format of `deny_files`.",
        |guard, given| guard.exempt.lists = lists(given),
    ),
    Row {
        aliases: &["softLimit", "connections"],
        ..count(
            "connections_soft",
            "Soft limit on connections per client address. Beyond it, connections are tolerated \
             for `grace`, without keep-alive; then the address is banned for `ban`. \
             `connections_per_address` in [limits] is the hard limit. 0: no limit.",
            |guard, given| guard.connections_soft_max = given.number(),
        )
    },
    count(
        "bad_requests",
        "Maximum number of malformed requests per client address within `grace`; more ban the \
         address for `ban`. 0: no limit.",
        |guard, given| guard.bad_requests_max = given.number(),
    ),
    count(
        "refused_requests",
        "Maximum number of requests refused by rate or concurrency limits per client address \
         within `grace`; more ban the address for `ban`. 0: no limit.",
        |guard, given| guard.refused_requests_max = given.number(),
    ),
    Row {
        name: "grace",
        contexts: ABUSE,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: DAY_MS,
        },
        default: Some("\"15s\""),
        summary: "Time an address may exceed its soft limit, and the window in which malformed and \
                  refused requests are counted.",
        aliases: &["gracePeriod", "grace_period"],
        since: "0.2",
        set: |guard, given| guard.grace_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "ban",
        contexts: ABUSE,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 365 * DAY_MS,
        },
        default: Some("\"5m\""),
        summary: "Duration of automatic bans. `saker bans` lists them.",
        aliases: &["banPeriod", "ban_period", "ban_time"],
        since: "0.2",
        set: |guard, given| guard.ban_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "ipv6_prefix",
        contexts: ABUSE,
        kind: Kind::Integer { min: 32, max: 128 },
        default: Some("64"),
        summary: "Length of the IPv6 prefix that counts as one client: 64 is one subnet, 56 what \
                  many homes are assigned.",
        since: "0.2",
        set: |guard, given| guard.ipv6_prefix = u8::try_from(given.number()).unwrap_or(64),
        ..Row::BASE
    },
    countries("deny_countries", ABUSE, DENIED, |guard, given| {
        guard.admittance.deny.countries = given.texts()
    }),
    autonomous_systems("deny_asns", &["deny_networks"], ABUSE, |guard, given| {
        guard.admittance.deny.autonomous_systems = numbers(given)
    }),
    countries("allow_countries", ABUSE, ALLOWED, |guard, given| {
        guard.admittance.allow.countries = given.texts()
    }),
    autonomous_systems("allow_asns", &["allow_networks"], ABUSE, |guard, given| {
        guard.admittance.allow.autonomous_systems = numbers(given)
    }),
    Row {
        name: "geoip",
        contexts: ABUSE,
        kind: FILES,
        example: Some(
            "[\"/var/lib/GeoIP/GeoLite2-Country.mmdb\", \"/var/lib/GeoIP/GeoLite2-ASN.mmdb\"]",
        ),
        summary: "MaxMind databases (.mmdb) for locating addresses; the first with an answer wins. \
                  Changed files are reloaded.",
        apache: Some("MaxMindDBFile, GeoIPDBFile"),
        since: "0.2",
        set: |guard, given| guard.admittance.databases = databases(given),
        ..Row::BASE
    },
];

pub(super) fn lists(given: Spanned) -> Vec<Arc<AddressList>> {
    given
        .list()
        .into_iter()
        .map(|one| Arc::new(AddressList::new(one.path())))
        .collect()
}

fn databases(given: Spanned) -> Vec<Arc<GeoDatabase>> {
    given
        .list()
        .into_iter()
        .map(|one| Arc::new(GeoDatabase::new(one.path())))
        .collect()
}

pub(super) fn numbers(given: Spanned) -> Vec<u64> {
    given.list().into_iter().map(Spanned::number).collect()
}

impl Draft for ServerGuard {
    fn rows() -> Rows<Self> {
        &[ABUSE_ROWS]
    }
}
