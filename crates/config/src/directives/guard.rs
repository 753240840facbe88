//! `[guard]` and `[site.guard]`: who is let in, and what one address may keep open.
//!
//! Difficulty: lists stand in files of their own. They are read when everything else has been, so that a bad line of a list is reported with the
//! mistakes of the configuration, by the list's name and line.

use super::listener::NETWORK;
use crate::{
    diagnostic::Diagnostic,
    load::Loader,
    model::{Addresses, Admittance, Consequence, Guard, Origin, ServerGuard, Settings},
    row::{FILE, GUARD, Kind, ROUTE, ROW, Row, SITE, SITE_GUARD, Set},
    value::Given,
};
use saker_addresses::AddressList;
use std::{collections::HashMap, path::PathBuf, sync::Arc};

const DAY_MS: u64 = 86_400_000;
const NETWORKS: Kind = Kind::ListOf(&Kind::Word(&NETWORK));
const FILES: Kind = Kind::ListOf(&Kind::Path);
const COUNT: Kind = Kind::Integer { min: 0, max: 100_000_000 };

const fn networks(name: &'static str, contexts: crate::row::Contexts, summary: &'static str, set: Set) -> Row {
    Row { name, contexts, kind: NETWORKS, example: Some("[\"192.0.2.0/24\", \"2001:db8::/32\"]"), summary, since: "0.9", set, ..ROW }
}

const fn files(name: &'static str, contexts: crate::row::Contexts, summary: &'static str, set: Set) -> Row {
    Row { name, contexts, kind: FILES, example: Some("[\"lists/bad.txt\"]"), summary, since: "0.9", set, ..ROW }
}

const fn count(name: &'static str, summary: &'static str, set: Set) -> Row {
    Row { name, contexts: GUARD, kind: COUNT, default: Some("0"), summary, since: "0.9", set, ..ROW }
}

pub static ROWS: &[Row] = &[
    Row {
        name: "guard",
        contexts: FILE,
        kind: Kind::Section(GUARD),
        summary: "Who may connect at all, and what one address may keep open.",
        since: "0.9",
        ..ROW
    },
    Row { name: "guard", contexts: SITE.or(ROUTE), kind: Kind::Section(SITE_GUARD), summary: "Who is answered.", since: "0.9", ..ROW },
    Row {
        aliases: &["denied", "blacklist"],
        ..networks(
            "deny",
            GUARD,
            "Clients whose connections are closed at once.",
            Set::Guard(|guard, given| guard.admittance.deny.networks = given.networks()),
        )
    },
    files(
        "deny_files",
        GUARD,
        "The same by files with a block, an address or a range (`192.0.2.1-192.0.2.9`) per line, `#` and `;` beginning comments. A million \
         lines are no burden. A changed file is in force a second later; one with a bad line is not taken, and the list before stays.",
        Set::Guard(|guard, given| guard.admittance.deny.lists = lists(given)),
    ),
    Row {
        aliases: &["allowed", "whitelist"],
        ..networks(
            "allow",
            GUARD,
            "Clients that may connect though they are denied. Where nobody is denied: nobody else may connect.",
            Set::Guard(|guard, given| guard.admittance.allow.networks = given.networks()),
        )
    },
    files("allow_files", GUARD, "The same by files.", Set::Guard(|guard, given| guard.admittance.allow.lists = lists(given))),
    Row {
        aliases: &["trusted"],
        ..networks(
            "exempt",
            GUARD,
            "Clients that no limit is for: monitoring, proxies of one's own. Bans by hand hold for them, too.",
            Set::Guard(|guard, given| guard.exempt.networks = given.networks()),
        )
    },
    files("exempt_files", GUARD, "The same by files.", Set::Guard(|guard, given| guard.exempt.lists = lists(given))),
    Row {
        aliases: &["softLimit", "connections"],
        ..count(
            "connections_soft",
            "Connections of one client address. More are borne for `grace`, without keep-alive; after that the address is banned for `ban`. \
             `connections_per_address` in [limits] is the number that is never exceeded. 0: no limit.",
            Set::Guard(|guard, given| guard.connections_soft_max = given.number()),
        )
    },
    count(
        "bad_requests",
        "Requests of one client address within `grace` that are no HTTP; with more the address is banned for `ban`. 0: no limit.",
        Set::Guard(|guard, given| guard.bad_requests_max = given.number()),
    ),
    count(
        "refused_requests",
        "Requests of one client address within `grace` that were refused for being too many; with more the address is banned for `ban`. 0: no \
         limit.",
        Set::Guard(|guard, given| guard.refused_requests_max = given.number()),
    ),
    Row {
        name: "grace",
        contexts: GUARD,
        kind: Kind::Duration { min_ms: 1000, max_ms: DAY_MS },
        default: Some("\"15s\""),
        summary: "How long an address may be over its soft limit, and in which time bad and refused requests are counted.",
        aliases: &["gracePeriod", "grace_period"],
        since: "0.9",
        set: Set::Guard(|guard, given| guard.grace_ms = given.number()),
        ..ROW
    },
    Row {
        name: "ban",
        contexts: GUARD,
        kind: Kind::Duration { min_ms: 1000, max_ms: 365 * DAY_MS },
        default: Some("\"5m\""),
        summary: "How long the server itself bans an address. `saker bans` shows who is.",
        aliases: &["banPeriod", "ban_period", "ban_time"],
        since: "0.9",
        set: Set::Guard(|guard, given| guard.ban_ms = given.number()),
        ..ROW
    },
    Row {
        name: "ipv6_prefix",
        contexts: GUARD,
        kind: Kind::Integer { min: 32, max: 128 },
        default: Some("64"),
        summary: "Of an IPv6 address, the bits that stand for one client: 64 is what a connection is given, 56 what many a home is.",
        since: "0.9",
        set: Set::Guard(|guard, given| guard.ipv6_prefix = u8::try_from(given.number()).unwrap_or(64)),
        ..ROW
    },
    networks(
        "deny",
        SITE_GUARD,
        "Clients that are refused. Behind a trusted proxy, the client that it names.",
        Set::Settings(|settings, given| of(settings).admittance.deny.networks = given.networks()),
    ),
    files(
        "deny_files",
        SITE_GUARD,
        "The same by files, as in [guard].",
        Set::Settings(|settings, given| of(settings).admittance.deny.lists = lists(given)),
    ),
    Row {
        apache: Some("Require ip, Allow from"),
        ..networks(
            "allow",
            SITE_GUARD,
            "Clients that are answered though they are denied. Where nobody is denied: nobody else is answered.",
            Set::Settings(|settings, given| of(settings).admittance.allow.networks = given.networks()),
        )
    },
    files(
        "allow_files",
        SITE_GUARD,
        "The same by files.",
        Set::Settings(|settings, given| of(settings).admittance.allow.lists = lists(given)),
    ),
    Row {
        name: "denied",
        contexts: SITE_GUARD,
        kind: Kind::Choice(&["403", "429", "503", "drop"]),
        default: Some("\"403\""),
        summary: "What those meet that are refused: an answer with this status, or the end of the connection without one.",
        since: "0.9",
        set: Set::Settings(|settings, given| of(settings).denied = consequence(&given.text())),
        ..ROW
    },
];

/// Those of a site or route, for changing.
pub(crate) fn of(settings: &mut Settings) -> &mut Guard {
    Arc::make_mut(settings.guard.get_or_insert_default())
}

pub(crate) fn consequence(text: &str) -> Consequence {
    text.parse().map_or(Consequence::Drop, Consequence::Refuse)
}

fn lists(given: Given) -> Vec<Arc<AddressList>> {
    given.list().into_iter().map(|one| Arc::new(AddressList::new(one.path()))).collect()
}

/// Makes sets of networks, and reads the lists; what can't be read is reported.
pub(crate) fn finish(loader: &mut Loader) {
    let mut known: HashMap<PathBuf, Arc<AddressList>> = HashMap::new();
    let mut found = Vec::new();
    let mut guards: Vec<&mut Addresses> = Vec::new();
    if let Some((ServerGuard { admittance, exempt, .. }, _)) = &mut loader.guard {
        guards.extend([&mut admittance.allow, &mut admittance.deny, exempt]);
    }
    for site in &mut loader.sites {
        let routes = site.routes.iter_mut().map(|route| Arc::make_mut(&mut route.settings));
        for settings in std::iter::once(&mut site.settings).chain(routes) {
            if let Some(guard) = &mut settings.guard {
                let Admittance { allow, deny } = &mut Arc::make_mut(guard).admittance;
                guards.extend([allow, deny]);
            }
        }
    }
    for addresses in guards {
        addresses.set = Arc::new(addresses.networks.iter().filter_map(|network| network.to_string().parse().ok()).collect());
        for list in &mut addresses.lists {
            if let Some(known) = known.get(list.path()) {
                *list = Arc::clone(known);
                continue;
            }
            if let Err(fault) = list.refresh() {
                let origin = Origin { file: fault.path.display().to_string().into(), line: fault.line, column: u32::from(fault.line != 0) };
                found.push(Diagnostic::without_source(origin, fault.message));
            }
            known.insert(list.path().to_owned(), Arc::clone(list));
        }
    }
    loader.diagnostics.extend(found);
    loader.lists = known.into_values().collect();
}
