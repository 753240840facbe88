//! Operating a server: start, stop, reload, signals, users, logs, certificates, and commands.
//!
//! Called by: `cargo test -p saker --test operation MODULE::`, one module per subject.
//! Caveat: tests that change users, mounts, or the network run in namespaces of their own and need
//! root; without it they check what can be checked.
//! Out of scope: what requests are answered (`serving`, `apache`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

#[path = "../harness/databases/mod.rs"]
mod databases;
#[path = "../harness/http3_client/mod.rs"]
mod http3_client;
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
#[path = "../harness/wordpress_site.rs"]
mod wordpress_site;

mod acme;
mod acme_streams;
mod broker;
mod cluster;
mod command_line;
mod configuration_commands;
mod configuration_watch;
mod console;
mod debian_root;
mod deploy;
mod docs_blocks;
mod docs_run;
mod fail2ban;
mod log_programs;
mod logs;
mod newcomer;
mod preflight;
mod reload;
mod sandbox;
mod signals;
mod start;
mod stop;
mod streams;
mod takeover;
mod tenant_logs;
mod trust;
mod units;
mod upgrade;
mod upgrade_load;
mod upgrade_programs;
mod upgrade_state;
mod upgrade_trouble;
mod users;
mod vcl;
