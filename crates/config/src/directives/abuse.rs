//! `[guard]` and `[site.guard]`: who is let in, and what one address may keep open.
//!
//! Difficulty: lists stand in files of their own. They are read when everything else has been, so
//! that a bad line of a list is reported with the mistakes of the configuration, by the list's name
//! and line.

use super::listener::NETWORK;
use crate::{
    diagnostic::{Diagnostic, Severity},
    load::Loader,
    model::{Addresses, Admittance, Consequence, Guard, Origin, ServerGuard, Settings},
    row::{FILE, Fault, GUARD, Kind, ROUTE, ROW, Row, SITE, SITE_GUARD, Set, Word},
    value::{Given, Value},
};
use saker_ipset::{AddressList, GeoDatabase, ListFault};
use std::{collections::HashMap, path::PathBuf, sync::Arc};

static COUNTRY: Word = Word {
    expects: "the two letters of a country, such as \"DE\"",
    pattern: "^[A-Za-z]{2}$",
    read: |text| match text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        true => Ok(Value::Text(text.to_ascii_uppercase())),
        false => Err(Fault::plain(None)),
    },
};

const DAY_MS: u64 = 86_400_000;
const NETWORKS: Kind = Kind::ListOf(&Kind::Word(&NETWORK));
const FILES: Kind = Kind::ListOf(&Kind::Path);
const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 100_000_000,
};

const fn networks(
    name: &'static str,
    contexts: crate::row::Contexts,
    summary: &'static str,
    set: Set,
) -> Row {
    Row {
        name,
        contexts,
        kind: NETWORKS,
        example: Some("[\"192.0.2.0/24\", \"2001:db8::/32\"]"),
        summary,
        since: "0.9",
        set,
        ..ROW
    }
}

const fn files(
    name: &'static str,
    contexts: crate::row::Contexts,
    summary: &'static str,
    set: Set,
) -> Row {
    Row {
        name,
        contexts,
        kind: FILES,
        example: Some("[\"lists/bad.txt\"]"),
        summary,
        since: "0.9",
        set,
        ..ROW
    }
}

const DENIED: &str = "Clients of these countries are treated as `deny` has it; by two letters, and the databases of `geoip` in [guard].";
const ALLOWED: &str = "Clients of these countries are treated as `allow` has it; by two letters, and the databases of `geoip` in [guard].";
const COUNTRIES: Kind = Kind::ListOf(&Kind::Word(&COUNTRY));
const NUMBERS: Kind = Kind::ListOf(&Kind::Integer {
    min: 1,
    max: u32::MAX as u64,
});

const fn countries(
    name: &'static str,
    contexts: crate::row::Contexts,
    summary: &'static str,
    set: Set,
) -> Row {
    Row {
        name,
        contexts,
        kind: COUNTRIES,
        example: Some("[\"XA\", \"XB\"]"),
        summary,
        since: "0.9",
        set,
        ..ROW
    }
}

const fn numbers_of_networks(name: &'static str, contexts: crate::row::Contexts, set: Set) -> Row {
    let summary = "The same by numbers of autonomous systems.";
    Row {
        name,
        contexts,
        kind: NUMBERS,
        example: Some("[64500]"),
        summary,
        since: "0.9",
        set,
        ..ROW
    }
}

const fn count(name: &'static str, summary: &'static str, set: Set) -> Row {
    Row {
        name,
        contexts: GUARD,
        kind: COUNT,
        default: Some("0"),
        summary,
        since: "0.9",
        set,
        ..ROW
    }
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
    Row {
        name: "guard",
        contexts: SITE.or(ROUTE),
        kind: Kind::Section(SITE_GUARD),
        summary: "Who is answered.",
        since: "0.9",
        ..ROW
    },
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
    files(
        "allow_files",
        GUARD,
        "The same by files.",
        Set::Guard(|guard, given| guard.admittance.allow.lists = lists(given)),
    ),
    Row {
        aliases: &["trusted"],
        ..networks(
            "exempt",
            GUARD,
            "Clients that no limit is for: monitoring, proxies of one's own. Bans by hand hold for them, too.",
            Set::Guard(|guard, given| guard.exempt.networks = given.networks()),
        )
    },
    files(
        "exempt_files",
        GUARD,
        "The same by files.",
        Set::Guard(|guard, given| guard.exempt.lists = lists(given)),
    ),
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
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: DAY_MS,
        },
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
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 365 * DAY_MS,
        },
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
        set: Set::Guard(|guard, given| {
            guard.ipv6_prefix = u8::try_from(given.number()).unwrap_or(64)
        }),
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
            Set::Settings(|settings, given| {
                of(settings).admittance.allow.networks = given.networks()
            }),
        )
    },
    files(
        "allow_files",
        SITE_GUARD,
        "The same by files.",
        Set::Settings(|settings, given| of(settings).admittance.allow.lists = lists(given)),
    ),
    countries(
        "deny_countries",
        GUARD,
        DENIED,
        Set::Guard(|guard, given| guard.admittance.deny.countries = given.texts()),
    ),
    numbers_of_networks(
        "deny_networks",
        GUARD,
        Set::Guard(|guard, given| guard.admittance.deny.autonomous_systems = numbers(given)),
    ),
    countries(
        "allow_countries",
        GUARD,
        ALLOWED,
        Set::Guard(|guard, given| guard.admittance.allow.countries = given.texts()),
    ),
    numbers_of_networks(
        "allow_networks",
        GUARD,
        Set::Guard(|guard, given| guard.admittance.allow.autonomous_systems = numbers(given)),
    ),
    countries(
        "deny_countries",
        SITE_GUARD,
        DENIED,
        Set::Settings(|settings, given| of(settings).admittance.deny.countries = given.texts()),
    ),
    numbers_of_networks(
        "deny_networks",
        SITE_GUARD,
        Set::Settings(|settings, given| {
            of(settings).admittance.deny.autonomous_systems = numbers(given)
        }),
    ),
    countries(
        "allow_countries",
        SITE_GUARD,
        ALLOWED,
        Set::Settings(|settings, given| of(settings).admittance.allow.countries = given.texts()),
    ),
    numbers_of_networks(
        "allow_networks",
        SITE_GUARD,
        Set::Settings(|settings, given| {
            of(settings).admittance.allow.autonomous_systems = numbers(given)
        }),
    ),
    Row {
        name: "geoip",
        contexts: GUARD,
        kind: FILES,
        example: Some(
            "[\"/var/lib/GeoIP/GeoLite2-Country.mmdb\", \"/var/lib/GeoIP/GeoLite2-ASN.mmdb\"]",
        ),
        summary: "MaxMind databases (.mmdb) that say where addresses are; the first that knows a thing has the word. Changed files are read again.",
        apache: Some("MaxMindDBFile, GeoIPDBFile"),
        since: "0.9",
        set: Set::Guard(|guard, given| guard.admittance.databases = databases(given)),
        ..ROW
    },
    Row {
        name: "locate",
        contexts: SITE_GUARD,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Tell programs and logs where the client is: GEOIP_COUNTRY_CODE, GEOIP_COUNTRY_NAME, GEOIP_CONTINENT_CODE, GEOIP_REGION, GEOIP_CITY, \
                  GEOIP_ASN and GEOIP_ORGANIZATION, as far as the databases of `geoip` in [guard] know.",
        apache: Some("MaxMindDBEnable, GeoIPEnable"),
        since: "0.9",
        set: Set::Settings(|settings, given| of(settings).locates = given.boolean()),
        ..ROW
    },
    Row {
        name: "denied",
        contexts: SITE_GUARD,
        kind: Kind::Choice(&["403", "429", "503", "drop", "challenge"]),
        default: Some("\"403\""),
        summary: "What those meet that are refused: an answer with this status, the end of the connection without one, or the page of `challenge`, \
                  whose work lets them in.",
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
    match text {
        "challenge" => Consequence::Challenge,
        _ => text.parse().map_or(Consequence::Drop, Consequence::Refuse),
    }
}

fn lists(given: Given) -> Vec<Arc<AddressList>> {
    given
        .list()
        .into_iter()
        .map(|one| Arc::new(AddressList::new(one.path())))
        .collect()
}

fn databases(given: Given) -> Vec<Arc<GeoDatabase>> {
    given
        .list()
        .into_iter()
        .map(|one| Arc::new(GeoDatabase::new(one.path())))
        .collect()
}

fn numbers(given: Given) -> Vec<u64> {
    given.list().into_iter().map(Given::number).collect()
}

fn report(fault: ListFault) -> Diagnostic {
    let origin = Origin {
        file: fault.path.display().to_string().into(),
        line: fault.line,
        column: u32::from(fault.line != 0),
    };
    Diagnostic::without_source(origin, fault.message)
}

/// Makes sets of networks, and reads the lists; what can't be read is reported.
pub(crate) fn finish(loader: &mut Loader) {
    let mut known: HashMap<PathBuf, Arc<AddressList>> = HashMap::new();
    let mut found = Vec::new();
    let mut guards: Vec<&mut Addresses> = Vec::new();
    let databases = loader
        .guard
        .as_ref()
        .map(|(guard, _)| guard.admittance.databases.clone())
        .unwrap_or_default();
    found.extend(
        databases
            .iter()
            .filter_map(|database| database.refresh().err())
            .map(report),
    );
    if let Some((
        ServerGuard {
            admittance, exempt, ..
        },
        _,
    )) = &mut loader.guard
    {
        guards.extend([&mut admittance.allow, &mut admittance.deny, exempt]);
    }
    for site in &mut loader.sites {
        let routes = site
            .routes
            .iter_mut()
            .map(|route| Arc::make_mut(&mut route.settings));
        for settings in std::iter::once(&mut site.settings).chain(routes) {
            if let Some(guard) = &mut settings.guard {
                let guard = Arc::make_mut(guard);
                let is_by_place = guard.locates
                    || guard.admittance.allow.is_by_place()
                    || guard.admittance.deny.is_by_place();
                if is_by_place && databases.is_empty() {
                    let message =
                        "nobody knows where clients are: `geoip` in [guard] names no database";
                    found.push(Diagnostic::new(
                        Severity::Error,
                        &site.at,
                        message.into(),
                        None,
                    ));
                }
                guard.admittance.databases.clone_from(&databases);
                let Admittance { allow, deny, .. } = &mut guard.admittance;
                guards.extend([allow, deny]);
            }
        }
    }
    for addresses in guards {
        addresses.set = Arc::new(
            addresses
                .networks
                .iter()
                .filter_map(|network| network.to_string().parse().ok())
                .collect(),
        );
        for list in &mut addresses.lists {
            if let Some(known) = known.get(list.path()) {
                *list = Arc::clone(known);
                continue;
            }
            if let Err(fault) = list.refresh() {
                found.push(report(fault));
            }
            known.insert(list.path().to_owned(), Arc::clone(list));
        }
    }
    loader.diagnostics.extend(found);
    loader.lists = known.into_values().collect();
    loader.databases = databases;
}
