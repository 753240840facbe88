//! What a TLS handshake settled about the requests of its connection.

use saker_http::{HeadView, KnownField};
use saker_tls::{Identities, SessionInfo};
use std::sync::Arc;

pub struct Secure {
    server_name: Option<String>,
    identities: Arc<Identities>,
}

impl Secure {
    pub fn new(info: &SessionInfo, identities: &Arc<Identities>) -> Secure {
        Secure { server_name: info.server_name.clone(), identities: Arc::clone(identities) }
    }

    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Whether a request is for a host whose site demands something else of a handshake than this one's did, a client certificate above
    /// all: 421 (RFC 9110 section 15.5.20). Costs a comparison where all sites demand the same.
    pub fn is_misdirected(&self, view: HeadView<'_>) -> bool {
        let host = view.known(KnownField::Host).map(without_port).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or_default();
        !self.identities.may_serve(self.server_name.as_deref(), host)
    }
}

fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}
