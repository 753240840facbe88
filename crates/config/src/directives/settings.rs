//! Settings that a site has and a route may override: the rows of all features, and general ones
//! (`trace`, `body_size`, `underscores`).
//!
//! Called by: `site` and `route`, whose drafts contain settings.

use super::{
    access, authorize, bot_verification, cache_use, challenge, compression, error_pages, fields,
    files, hotlink, logins, media, modsecurity, php, signed_urls, throttle, trigger,
    upstream_fields,
};
use crate::{
    context::{ROUTE, SITE},
    kind::Kind,
    model::{Settings, Underscores},
    row::{Draft, Row, Rows},
};

impl Draft for Settings {
    fn rows() -> Rows<Self> {
        &[
            ROWS,
            files::ROWS,
            media::ROWS,
            php::SETTINGS_ROWS,
            authorize::ROWS,
            compression::ROWS,
            cache_use::SETTINGS_ROWS,
            fields::SETTINGS_ROWS,
            upstream_fields::ROWS,
            error_pages::ROWS,
            throttle::SETTINGS_ROWS,
            access::ROWS,
            hotlink::ROWS,
            signed_urls::ROWS,
            trigger::ROWS,
            challenge::ROWS,
            logins::ROWS,
            bot_verification::ROWS,
            modsecurity::ROWS,
        ]
    }
}

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "trace",
        contexts: SITE.or(ROUTE),
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Answer TRACE requests with the request as received?",
        apache: Some("TraceEnable"),
        set: |settings, given| settings.trace = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "body_size",
        contexts: SITE.or(ROUTE),
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 50,
        },
        example: Some("\"20MB\""),
        unit: Some("bytes"),
        summary: "Overrides `body_size` of [limits]. 0: no limit.",
        apache: Some("LimitRequestBody"),
        aliases: &["client_max_body_size"],
        set: |settings, given| settings.body_bytes_max = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "underscores",
        contexts: SITE.or(ROUTE),
        kind: Kind::Choice(&["drop", "pass"]),
        default: Some("\"drop\""),
        summary: "Request fields whose names contain characters other than letters, digits and \
                  hyphens, such as `X_User`: programs can't tell them from `X-User`, so they are \
                  dropped before the request goes to programs, upstreams and `authorize`. `pass` \
                  forwards them, unless the request has the regular name as well; for applications \
                  and gRPC services that use such names.",
        aliases: &["underscores_in_headers", "ignore_invalid_headers"],
        since: "0.10",
        set: |settings, given| {
            settings.underscores = if given.text() == "pass" {
                Underscores::Pass
            } else {
                Underscores::Drop
            };
        },
        ..Row::BASE
    },
];
