//! Applications under native configurations of a few lines, compared with the configuration for
//! nginx or Apache that their documentation gives, and the pairs of configurations in `docs/`;
//! nginx's configurations that both nginx and Saker read (`nginx`).
//!
//! Called by: `cargo test -p saker --test applications NAME`; one test per folder of `cases`,
//! `conversions`, and `converted`.
//! Caveat: both servers have the same port at two loopback addresses, so that neither shows in
//! responses.
//! Out of scope: Apache's configuration read by Saker (`apache`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

#[path = "../harness/operate.rs"]
mod operate;

mod compare;
mod docs;
mod nginx_caches;
mod nginx_cases;
mod nginx_chains;
mod nginx_clients;
mod nginx_commands;
mod nginx_convert;
mod nginx_convert_rules;
mod nginx_cookies;
mod nginx_core;
mod nginx_edges;
mod nginx_error_log;
mod nginx_films;
mod nginx_handshakes;
mod nginx_http;
mod nginx_http2;
mod nginx_name;
mod nginx_pair;
mod nginx_programs;
mod nginx_protocol;
mod nginx_resolver;
mod nginx_sticky;
mod nginx_stream;
mod nginx_stream_names;
mod nginx_stream_steps;
mod nginx_upstreams;
mod requests;
mod run;
mod servers;

use run::Subject;
use std::{collections::BTreeSet, fs, path::PathBuf};

/// One test per folder.
macro_rules! subjects {
    ($list:ident, $folder:literal: $($name:ident)*) => {
        $(#[test]
        fn $name() {
            run::compare_servers(Subject { folder: $folder, name: stringify!($name) });
        })*
        const $list: &[&str] = &[$(stringify!($name)),*];
    };
}

subjects!(CASES, "cases":
    adminer awstats blog cgit dokuwiki drupal gitweb go_websocket gunicorn hgweb joomla laravel
    mailman matomo mediawiki nextcloud node_websocket npm_registry phpbb phpmyadmin prestashop
    roundcube spa symfony uwsgi webdav wordpress
);

subjects!(CONVERSIONS, "conversions":
    caddy_app caddy_php haproxy haproxy_tcp lighttpd litespeed magento_vcl nginx_proxy
    nginx_redirects nginx_wordpress traefik traefik_tcp
);

subjects!(CONVERTED, "converted": magento);

/// Applications whose configuration for nginx Saker reads as it is, one test each.
macro_rules! as_nginx {
    ($($name:ident)*) => {
        mod as_nginx {
            $(#[test]
            fn $name() {
                crate::run::compare_with_nginx(crate::Subject {
                    folder: "cases",
                    name: stringify!($name),
                });
            })*
        }
    };
}

as_nginx!(dokuwiki drupal go_websocket joomla laravel nextcloud npm_registry prestashop spa symfony uwsgi);

/// A folder that no test runs proves nothing.
#[test]
fn every_folder_has_its_test() {
    for (folder, listed) in [
        ("cases", CASES),
        ("conversions", CONVERSIONS),
        ("converted", CONVERTED),
    ] {
        let found: BTreeSet<String> = fs::read_dir(here().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        let listed: BTreeSet<String> = listed.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(found, listed, "{folder}");
    }
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/applications")
}
