//! Requests over every protocol: HTTP/1.1, HTTP/2, and HTTP/3, TLS, files, limits, upstreams, PHP,
//! applications, and the page cache, under the native configuration unless a module says otherwise.
//!
//! Called by: `cargo test -p saker --test serving MODULE::`, one module per subject.
//! Caveat: modules run side by side in one process; whatever is process-wide belongs in `measured`.
//! Out of scope: Apache's configuration (`apache`), commands and life cycle (`operation`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

#[path = "../harness/databases/mod.rs"]
mod databases;
#[path = "../harness/http3_client/mod.rs"]
mod http3_client;
#[path = "../harness/name_server.rs"]
mod name_server;
#[path = "../harness/openid_provider.rs"]
mod openid_provider;
#[path = "../harness/operate.rs"]
mod operate;
#[path = "../harness/origin.rs"]
mod origin;
#[path = "../harness/tls_site.rs"]
mod tls_site;
#[path = "../harness/upgrades.rs"]
mod upgrades;
#[path = "../harness/webdav.rs"]
mod webdav_programs;
#[path = "../harness/wordpress_site.rs"]
mod wordpress_site;

mod applications;
mod auth;
mod authorize;
mod balancing;
mod by_client;
mod cache;
mod counters;
mod databases_tls;
mod discovery;
mod dokuwiki;
mod file_routes;
mod gateway;
mod goaccess;
mod grpc;
mod health;
mod hosts;
mod hosts_outage;
mod htaccess;
mod http1_conformance;
mod http1_connections;
mod http1_limits;
mod http2;
mod http2_conformance;
mod http2_limits;
mod http3;
mod http3_clients;
mod identity;
mod idle_connections;
mod kept_content;
mod kept_decisions;
mod links;
mod listener_settings;
mod listing;
mod media;
mod modsecurity;
mod modsecurity_limits;
mod neighbours;
mod observability;
mod php;
mod php_content;
mod php_messages;
mod php_settings;
mod proxying;
mod quic;
mod route_matchers;
mod scenarios;
mod sendfile;
mod streams;
mod testssl;
mod throttle;
mod tls;
mod tls_bytes;
mod tls_settings;
mod tunnels;
mod upstream_settings;
mod upstream_tls;
mod visitors;
mod webdav;
mod wordpress;
