//! The adversarial suite: attacks on a running server, a module per topic, over every protocol and
//! configuration language that they reach.
//!
//! A test replays an attack in all spellings known and expects what the real Apache or nginx
//! answers, or a refusal; each fails on a server that has the hole. Out of scope: floods that take
//! minutes (`make soak`), codecs (their crates' own tests and fuzz targets).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod full_disk;
mod harness;
#[path = "../harness/http3_client/mod.rs"]
mod http3_client;
#[path = "../harness/operate.rs"]
mod operate;
#[path = "../harness/scripted.rs"]
mod scripted;
#[path = "../harness/tls_site.rs"]
mod tls_site;

mod cache_origin;
mod cache_poisoning;
mod client_certificates;
mod clients_apart;
mod document_recursion;
mod early_answers;
mod effective_host;
mod field_names;
mod form_sessions;
mod hostile_files;
mod http2_floods;
mod http3_floods;
mod kept_pages;
mod login_guesses;
mod native_log_in;
mod nginx_caches;
mod paths;
mod privileges;
mod proxied_pages;
mod request_limits;
mod shared_pages;
mod smuggling;
mod soak;
mod stalled_readers;
mod text_growth;
mod upstream_heads;
mod webdav_locks;
