//! The process: configuration, listeners, workers, signals, reload, end.
//!
//! Called by: `main`, through the command line, for `saker serve`, `saker run` and `apache2`.
//! Caveat: runs on the main thread, which serves no request. `start` builds everything in the
//! order that privileges demand; the supervisor (`supervisor`) owns it from then on.

mod abuse_keys;
mod access_logs;
mod acme;
mod bans;
mod broker;
mod cache_body;
mod cache_control;
mod cache_count;
mod cache_entry;
mod cluster;
mod cluster_clients;
mod configuration_watch;
mod console;
mod console_parts;
mod control_answers;
mod discovery;
mod document_roots;
mod error_log_settings;
mod hand_on;
mod inheritance;
mod launcher;
mod listener_sockets;
mod listeners;
mod log_programs;
mod metrics_endpoint;
mod model_paths;
mod nginx_lines;
mod ocsp_stapling;
mod page_cache;
mod pid_file;
mod privileges;
mod reload;
mod sandbox;
mod signals;
mod start;
mod startup_summary;
mod state_transfer;
mod succession;
mod supervisor;
mod systemd;
mod upgrade;
mod upgrade_state;
mod virtual_hosts;
mod warming;
mod workers;

pub use start::run;
