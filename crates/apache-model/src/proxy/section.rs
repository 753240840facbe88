//! A `<Proxy>` section: the URLs that it is for, and its settings.
//!
//! Called by: the phases, with the URL of a request; `proxy/workers`, with that of a worker.

use crate::{dir_config::DirConfig, upstream_tls::UpstreamTlsDraft};
use saker_ap_expr::{GlobOptions, Pattern, glob_matches};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Matcher {
    Prefix(Box<[u8]>),
    Wild(Box<[u8]>),
    Pattern(Arc<Pattern>),
}

#[derive(Clone, Debug)]
pub struct ProxySection {
    pub matcher: Matcher,
    pub local: Arc<DirConfig>,
    /// Its demands of upstream TLS.
    pub upstream_tls: UpstreamTlsDraft,
}

impl ProxySection {
    /// A URL, before its path is encoded.
    pub fn is_for(&self, url: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Prefix(prefix) => url.starts_with(prefix),
            Matcher::Wild(glob) => glob_matches(glob, url, GlobOptions::default()),
            // One that is given up is taken to match: its rules may be what refuses.
            Matcher::Pattern(pattern) => pattern.is_match(url).unwrap_or(true),
        }
    }
}
