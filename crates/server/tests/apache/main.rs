//! Apache's configuration language on a running server, alone and beside the real apache2.
//!
//! Called by: `cargo test -p saker --test apache MODULE::`, one module per subject.
//! Caveat: `differential` and `apache_debian` need Debian's packages (tools/install-test-programs).
//! Out of scope: parsing (crates/apache-syntax), attacks (`adversarial`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

#[path = "../harness/databases/mod.rs"]
mod databases;
#[path = "../harness/http3_client/mod.rs"]
mod http3_client;
#[path = "../harness/operate.rs"]
mod operate;
#[path = "../harness/tls_site.rs"]
mod tls_site;
#[path = "../harness/webdav.rs"]
mod webdav_programs;

mod apache_access;
mod apache_addresses;
mod apache_balancer_manager;
mod apache_cache;
mod apache_connections;
mod apache_databases;
mod apache_debian;
mod apache_filters;
mod apache_heads;
mod apache_htaccess;
mod apache_includes;
mod apache_instances;
mod apache_ldap;
mod apache_limits;
mod apache_logs;
mod apache_name;
mod apache_patterns;
mod apache_status;
mod apache_tls;
mod apache_tls_start;
mod apache_webdav;
mod differential;
mod panels;
mod request_rules;
