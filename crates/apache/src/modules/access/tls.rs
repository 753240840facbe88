//! mod_ssl's rules about access: SSLRequireSSL, SSLRequire, and what sections demand of handshakes.
//!
//! Called by: the access phase.
//! Caveat: Apache would renegotiate; TLS 1.3 and rustls do not, so a section that wants more than
//! the handshake asked for refuses.

use crate::modules::access::request::AccessRequest;
use saker_ap_expr::{Dependency, Expression};
use saker_apache_model::modules::ssl::Ssl;
use saker_auth::AuthRequest;
use saker_config::{
    cipher_lists,
    model::{CipherSuite, ClientCertificates},
};
use saker_tls::{ClientVerification, SessionInfo};
use std::sync::Arc;

pub fn lets_in(ssl: &Ssl, request: &mut AccessRequest<'_>) -> bool {
    let is_encrypted = request.exchange.client.tls;
    if ssl.only_encrypted && !is_encrypted {
        request.log(format_args!(
            "access to {} failed, reason: SSL connection required",
            request.path_text()
        ));
        return false;
    }
    // Apache grants access to every client without TLS, which no author of such a rule means.
    if let Some(reason) = session_lacks(ssl, request) {
        request.log(format_args!(
            "access to {} failed, reason: {reason}",
            request.path_text()
        ));
        return false;
    }
    // As Apache: without TLS there is nothing that these could look at.
    !is_encrypted || ssl.required.iter().all(|required| holds(request, required))
}

/// Why this connection's handshake is not enough for the section.
fn session_lacks(ssl: &Ssl, request: &mut AccessRequest<'_>) -> Option<String> {
    let judges = matches!(
        ssl.demand,
        Some(ClientCertificates::Required | ClientCertificates::Optional)
    );
    if !judges && ssl.ciphers.is_none() {
        return None;
    }
    request.depends_on(Dependency::Transport);
    let session = request.exchange.client.session.as_deref();
    if judges && let Some(reason) = certificate_lacks(ssl, request, session) {
        return Some(reason);
    }
    let is_listed = |ciphers: &Arc<[CipherSuite]>| {
        session.is_none_or(|session| cipher_lists::include(ciphers, session.cipher_openssl))
    };
    let is_other = ssl
        .ciphers
        .as_ref()
        .is_some_and(|ciphers| !is_listed(ciphers));
    is_other.then(|| "the connection's cipher is none of the section's".into())
}

/// Why the client's certificate, or that it has shown none, is not enough.
fn certificate_lacks(
    ssl: &Ssl,
    request: &AccessRequest<'_>,
    session: Option<&SessionInfo>,
) -> Option<String> {
    let depth_max = ssl.depth_max.unwrap_or(request.host.client_depth_max);
    let is_required = ssl.demand == Some(ClientCertificates::Required);
    let none = || {
        match session {
        None => "the connection is not under TLS".to_owned(),
        Some(SessionInfo { client_refusal: Some(why), .. }) => format!("the certificate that was shown is not good: {why}"),
        Some(_) if request.exchange.routing.site.tls.client_certificates == ClientCertificates::Off => {
            "the host asks for no certificates in its handshake: set `SSLVerifyClient optional` in its <VirtualHost>".to_owned()
        }
        Some(_) => "no certificate was shown".to_owned(),
    }
    };
    match session.map_or(ClientVerification::None, |session| {
        session.client_verification
    }) {
        ClientVerification::None => is_required.then(none),
        ClientVerification::Generous => {
            Some("no authority vouches for the certificate that was shown".into())
        }
        ClientVerification::Success => {
            let depth = session.map_or(u32::MAX, |session| session.client_depth);
            (depth > depth_max).then(|| {
                format!(
                    "the chain of certificates has depth {depth}, and SSLVerifyDepth is {depth_max}"
                )
            })
        }
    }
}

fn holds(request: &mut AccessRequest<'_>, required: &Expression) -> bool {
    let holds = request.evaluate(required).unwrap_or(false);
    if !holds {
        request.log(format_args!(
            "access to {} failed, reason: Failed expression of SSLRequire",
            request.path_text()
        ));
    }
    holds
}
