//! `[site.access]`: access control by address, country and autonomous system.
//!
//! A route's keys override the site's. See [`combine`] for keys of both.
//! Out of scope: files of addresses and databases, which are read when the whole configuration has
//! been (`resolve/addresses`).

use super::abuse::{
    ALLOWED, DENIED, autonomous_systems, countries, files, lists, networks, numbers,
};
use crate::{
    context::{ACCESS, ROUTE, SITE},
    kind::Kind,
    model::{AccessControl, Consequence, Settings},
    row::Row,
    value::Fields,
};
use std::sync::Arc;

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "access",
        deprecated: &["guard"],
        contexts: SITE.or(ROUTE),
        kind: Kind::Section(ACCESS),
        summary: "Access control by client address.",
        since: "0.2",
        ..Row::BASE
    },
    networks(
        "deny",
        ACCESS,
        "Client addresses that are refused. Behind a trusted proxy: the address that the proxy \
         names.",
        |settings, given| access_control(settings).admittance.deny.networks = given.parsed_list(),
    ),
    files(
        "deny_files",
        ACCESS,
        "Files with addresses to deny, as in [abuse].",
        |settings, given| access_control(settings).admittance.deny.lists = lists(given),
    ),
    Row {
        apache: Some("Require ip, Allow from"),
        ..networks(
            "allow",
            ACCESS,
            "Client addresses that are served; `allow` overrides `deny`. If nothing is denied, no \
             other address is served. A route that has no `deny` key of its own serves no other \
             address, whatever the site denies.",
            |settings, given| {
                access_control(settings).admittance.allow.networks = given.parsed_list()
            },
        )
    },
    files(
        "allow_files",
        ACCESS,
        "Files with addresses to allow, in the format of `deny_files`.",
        |settings, given| access_control(settings).admittance.allow.lists = lists(given),
    ),
    countries("deny_countries", ACCESS, DENIED, |settings, given| {
        access_control(settings).admittance.deny.countries = given.texts()
    }),
    autonomous_systems(
        "deny_asns",
        &["deny_networks"],
        ACCESS,
        |settings, given| {
            access_control(settings).admittance.deny.autonomous_systems = numbers(given)
        },
    ),
    countries("allow_countries", ACCESS, ALLOWED, |settings, given| {
        access_control(settings).admittance.allow.countries = given.texts()
    }),
    autonomous_systems(
        "allow_asns",
        &["allow_networks"],
        ACCESS,
        |settings, given| {
            access_control(settings).admittance.allow.autonomous_systems = numbers(given)
        },
    ),
    Row {
        name: "locate",
        contexts: ACCESS,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Provide the client's location to programs and logs: GEOIP_COUNTRY_CODE, \
                  GEOIP_COUNTRY_NAME, GEOIP_CONTINENT_CODE, GEOIP_REGION, GEOIP_CITY, GEOIP_ASN \
                  and GEOIP_ORGANIZATION, as far as the databases of `geoip` in [abuse] have it?",
        apache: Some("MaxMindDBEnable, GeoIPEnable"),
        since: "0.2",
        set: |settings, given| access_control(settings).locates = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "denied",
        contexts: ACCESS,
        kind: Kind::Choice(&["403", "429", "503", "drop", "challenge"]),
        default: Some("\"403\""),
        summary: "Action on refused clients: respond with this status, close the connection \
                  without a response (`drop`), or send the page of `challenge`; solving it grants \
                  access.",
        since: "0.2",
        set: |settings, given| access_control(settings).denied = consequence(&given.text()),
        ..Row::BASE
    },
];

/// Returns true if only allowed addresses have access.
pub(super) fn is_closed(settings: &Settings) -> bool {
    let access = settings.guard.as_ref();
    access.is_some_and(|access| access.admittance.is_closed())
}

/// Keeps the keys of a route and those of its site, which it doesn't have itself, from opening what the
/// others close: a route that only allows is closed to all others, whatever the site denies; what a
/// route only denies stays denied, and closed (`was_closed`) to those whom the site doesn't allow.
pub(super) fn combine(settings: &mut Settings, fields: &Fields, was_closed: bool) {
    let has = |what: &str| {
        fields.values.iter().any(|(key, _)| {
            key.context == ACCESS && key.name != "denied" && key.name.starts_with(what)
        })
    };
    let (allows, denies) = (has("allow"), has("deny"));
    if !allows && !denies {
        return;
    }
    let admittance = &mut access_control(settings).admittance;
    let allows_some = !admittance.allow.is_empty();
    // With both, a route has rules of its own alone. An empty list allows no one more.
    admittance.refuses_others = allows != denies && (allows && allows_some || was_closed);
    admittance.denies_first = denies && !allows && allows_some;
}

/// Returns the access rules of a site or route for modification.
pub(crate) fn access_control(settings: &mut Settings) -> &mut AccessControl {
    Arc::make_mut(settings.guard.get_or_insert_default())
}

pub(crate) fn consequence(text: &str) -> Consequence {
    match text {
        "challenge" => Consequence::Challenge,
        _ => text.parse().map_or(Consequence::Drop, Consequence::Refuse),
    }
}
