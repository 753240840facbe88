//! One file per module of Apache: its settings, how they merge, and the setters of its directives.
//!
//! Called by: `dir_config`, which lists them all.
//! Caveat: a module's file imports no aggregate of settings; a setter gets its own settings alone.

pub mod access;
pub mod actions;
pub mod alias;
pub mod allowmethods;
pub mod auth_token;
pub mod autoindex;
pub mod buffer;
pub mod cache;
pub mod cgi;
pub mod core;
pub mod dav;
pub mod deflate;
pub mod dir;
pub mod env;
pub mod expires;
pub mod ext_filter;
pub mod filters;
pub mod geo;
pub mod headers;
pub mod http2;
pub mod include;
pub mod limitipconn;
pub mod log_debug;
pub mod logio;
pub mod loglevel;
pub mod mime;
pub mod negotiation;
pub mod php;
pub mod proxy;
pub mod proxy_html;
pub mod reflector;
pub mod remoteip;
pub mod reqtimeout;
pub mod rewrite;
pub mod security;
pub mod sed;
pub mod setenvif;
pub mod speling;
pub mod ssl;
pub mod substitute;
pub mod userdir;
pub mod usertrack;
pub mod vhost_alias;
pub mod wordpress_protect;
pub mod xsendfile;
