//! mod_proxy: paths that other servers and programs answer for, and whom they are given to.
//!
//! Read: `draft` (directives of the server, `<Proxy>`), `parameters` (`key=value`),
//! `modules/proxy.rs` (what sections may have). Put together once: `workers` (who is known by which
//! URL). Request: `translate` (before aliases and files; `pass` says for which paths), settings of
//! `<Proxy>` in place of the folders' (`settings`), and among the fixups the call that the gateway
//! carries out (`call`, with the URL as Apache writes it, `canonical`; other proxies on the way,
//! `remote`). Absent on purpose: everything that happens on a connection; that is the gateway's.

pub mod call;
pub mod canonical;
pub mod draft;
pub mod forward;
pub mod health;
pub mod manner;
pub mod parameters;
pub mod pass;
pub mod remote;
pub mod sections;
pub mod sockets;
pub mod told;
pub mod translate;
pub mod unhonoured;
pub mod workers;
