//! One file per module of Apache: its settings, its directives, and what it does to requests.

pub mod access;
pub mod alias;
pub mod allowmethods;
pub mod autoindex;
pub mod buffer;
pub mod core;
pub mod deflate;
pub mod dir;
pub mod env;
pub mod expires;
pub mod filters;
pub mod gateway;
pub mod headers;
pub mod logio;
pub mod mime;
pub mod negotiation;
pub mod remoteip;
pub mod rewrite;
pub mod sed;
pub mod setenvif;
pub mod ssl;
pub mod ssl_ciphers;
pub mod substitute;
pub mod userdir;
pub mod vhost_alias;
