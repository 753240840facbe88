//! The table of directives: one file per feature, with its rows, grammars and merge rule.
//!
//! Called by: `load`, which gives the catalog to the reader; the JSON Schema and the reference
//! page. The order of the catalog is the order of the reference page.

pub(crate) mod abuse;
pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod auth;
pub(crate) mod auth_jwt;
pub(crate) mod auth_ldap;
pub(crate) mod auth_oidc;
pub(crate) mod authorize;
pub(crate) mod bot_verification;
pub(crate) mod cache;
pub(crate) mod cache_http;
mod cache_row;
pub(crate) mod cache_use;
pub(crate) mod challenge;
pub(crate) mod cluster;
pub(crate) mod compression;
pub(crate) mod console;
mod console_oidc;
pub(crate) mod content;
pub(crate) mod dynamic_vhosts;
pub(crate) mod error_pages;
pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod files;
mod foreign_variables;
pub(crate) mod hotlink;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod logins;
pub(crate) mod logs;
pub(crate) mod map;
pub(crate) mod matcher;
pub(crate) mod media;
pub(crate) mod metrics;
pub(crate) mod mirror;
pub(crate) mod modsecurity;
pub(crate) mod native_expression;
pub(crate) mod path_pattern;
pub(crate) mod php;
pub(crate) mod proxy;
pub(crate) mod read_route;
pub(crate) mod redirect;
pub(crate) mod refusal;
pub(crate) mod request_edits;
pub(crate) mod rotation;
pub(crate) mod route;
pub(crate) mod route_action;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod signed_urls;
pub(crate) mod site;
pub(crate) mod stream;
pub(crate) mod stream_log;
pub(crate) mod stream_target;
pub(crate) mod template;
pub(crate) mod throttle;
pub(crate) mod tls;
pub(crate) mod tracing;
pub(crate) mod trigger;
pub(crate) mod trusted_proxies;
pub(crate) mod upstream;
pub(crate) mod upstream_fields;
pub(crate) mod upstream_health;
pub(crate) mod upstream_server;
pub(crate) mod upstream_tls;
pub(crate) mod user_directories;
pub(crate) mod webdav;
pub(crate) mod when;

#[cfg(test)]
mod tests;

use crate::row::{Catalog, Directive, directives};
use std::sync::LazyLock;

static DIRECTIVES: LazyLock<Vec<Directive>> = LazyLock::new(|| {
    let mut all = Vec::new();
    all.extend(directives(file::ROWS));
    all.extend(directives(server::ROWS));
    all.extend(directives(trusted_proxies::ROWS));
    all.extend(directives(limits::ROWS));
    all.extend(directives(listener::ROWS));
    all.extend(directives(site::ROWS));
    all.extend(directives(settings::ROWS));
    all.extend(directives(tls::SITE_TLS_ROWS));
    all.extend(directives(tls::CERTIFICATE_ROWS));
    all.extend(directives(tls::TLS_ROWS));
    all.extend(directives(acme::ACME_ROWS));
    all.extend(directives(acme::DIRECTORY_ROWS));
    all.extend(directives(files::ROWS));
    all.extend(directives(content::ROWS));
    all.extend(directives(media::ROWS));
    all.extend(directives(webdav::ROWS));
    all.extend(directives(php::PHP_ROWS));
    all.extend(directives(php::SETTINGS_ROWS));
    all.extend(directives(dynamic_vhosts::ROWS));
    all.extend(directives(route::ROWS));
    all.extend(directives(proxy::ROWS));
    all.extend(directives(mirror::ROWS));
    all.extend(directives(redirect::ROWS));
    all.extend(directives(matcher::ROWS));
    all.extend(directives(when::ROWS));
    all.extend(directives(request_edits::ROWS));
    all.extend(directives(map::ROWS));
    all.extend(directives(auth::ROWS));
    all.extend(directives(auth_ldap::ROWS));
    all.extend(directives(auth_jwt::ROWS));
    all.extend(directives(auth_oidc::ROWS));
    all.extend(directives(authorize::ROWS));
    all.extend(directives(upstream::ROWS));
    all.extend(directives(upstream_health::ROWS));
    all.extend(directives(upstream_server::ROWS));
    all.extend(directives(upstream_tls::ROWS));
    all.extend(directives(stream::ROWS));
    all.extend(directives(stream::WAY_ROWS));
    all.extend(directives(stream::ROUTE_ROWS));
    all.extend(directives(stream::ACCESS_ROWS));
    all.extend(directives(stream_log::ROWS));
    all.extend(directives(compression::ROWS));
    all.extend(directives(cache::ROWS));
    all.extend(directives(cluster::ROWS));
    all.extend(directives(cache_use::SETTINGS_ROWS));
    all.extend(directives(cache_use::USE_ROWS));
    all.extend(directives(cache_http::HTTP_ROWS));
    all.extend(directives(fields::SETTINGS_ROWS));
    all.extend(directives(fields::FIELD_ROWS));
    all.extend(directives(upstream_fields::ROWS));
    all.extend(directives(upstream_fields::EDIT_ROWS));
    all.extend(directives(error_pages::ROWS));
    all.extend(directives(throttle::SETTINGS_ROWS));
    all.extend(directives(throttle::RATE_ROWS));
    all.extend(directives(throttle::REQUEST_RATE_ROWS));
    all.extend(directives(abuse::ABUSE_ROWS));
    all.extend(directives(user_directories::ROWS));
    all.extend(directives(access::ROWS));
    all.extend(directives(hotlink::ROWS));
    all.extend(directives(signed_urls::ROWS));
    all.extend(directives(trigger::ROWS));
    all.extend(directives(hotlink::HOTLINK_ROWS));
    all.extend(directives(signed_urls::SIGNED_ROWS));
    all.extend(directives(trigger::TRIGGER_ROWS));
    all.extend(directives(challenge::ROWS));
    all.extend(directives(logins::ROWS));
    all.extend(directives(bot_verification::ROWS));
    all.extend(directives(challenge::CHALLENGE_ROWS));
    all.extend(directives(logins::LOGIN_ROWS));
    all.extend(directives(bot_verification::BOT_ROWS));
    all.extend(directives(modsecurity::ROWS));
    all.extend(directives(logs::LOG_ROWS));
    all.extend(directives(logs::ROWS));
    all.extend(directives(logs::ACCESS_LOG_ROWS));
    all.extend(directives(rotation::ROWS));
    all.extend(directives(metrics::ROWS));
    all.extend(directives(console::ROWS));
    all.extend(directives(console_oidc::ROWS));
    all.extend(directives(tracing::ROWS));
    all
});

/// Returns all directives.
pub(crate) fn catalog() -> Catalog {
    Catalog(&DIRECTIVES)
}
