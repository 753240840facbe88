//! Settings that a site has and a route may override: the rows of all features, and general ones
//! (`trace`, `body_size`, `underscores`).
//!
//! Called by: `site` and `route`, whose drafts contain settings.

use super::{
    access, auth, auth_jwt, auth_ldap, auth_oidc, authorize, bot_verification, cache_use,
    challenge, compression, content, error_pages, fields, files, hotlink, logins, media,
    modsecurity, php, signed_urls, throttle, trigger, upstream_fields, webdav,
};
use crate::{
    context::{AUTH, AUTH_JWT, AUTH_LDAP, AUTH_OIDC, ROUTE, SITE},
    kind::Kind,
    model::{Htaccess, Settings, Underscores},
    row::{Draft, Row, Rows},
    value::Key,
};
use std::sync::Arc;

impl Draft for Settings {
    fn rows() -> Rows<Self> {
        &[
            ROWS,
            files::ROWS,
            content::ROWS,
            media::ROWS,
            php::SETTINGS_ROWS,
            auth::ROWS,
            auth_ldap::ROWS,
            auth_jwt::ROWS,
            auth_oidc::ROWS,
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
            webdav::ROWS,
        ]
    }

    fn note_unread(&mut self, key: Key) {
        let is_auth = [AUTH, AUTH_LDAP, AUTH_JWT, AUTH_OIDC].contains(&key.context);
        if is_auth {
            let rules = Arc::make_mut(self.auth.get_or_insert_default());
            rules.has_unread = true;
        }
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
        name: "htaccess",
        contexts: SITE.or(ROUTE),
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Apply `.htaccess` files, as Apache does with `AllowOverride All`? A route with an                   action of its own (`proxy`, `redirect`, `respond`, `deny`) comes first; all that                   is served from the document root obeys the `.htaccess` files on the way to it,                   over the settings here. A file may not follow links that `symlinks` refuses, show                   what `hidden` hides, raise `body_size`, run CGI programs, or open proxy                   connections.",
        apache: Some("AllowOverride"),
        aliases: &["allow_override", "allowoverride", "override"],
        since: "0.2",
        set: |settings, given| {
            settings.htaccess = match given.boolean() {
                true => Htaccess::On,
                false => Htaccess::Off,
            };
        },
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
        since: "0.2",
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
