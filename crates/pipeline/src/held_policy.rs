//! Check that a TLS handshake satisfied the policy of the requested site.
//!
//! Called by: `select_host` for each request, the access phase for internal requests, and drivers
//! before they answer from the route cache.
//! Caveat: a request can reach any site over an existing connection by its Host, but the server
//! name of the handshake determined the policy (client certificates, authorities, revocation lists,
//! versions, ciphers). If the policies differ, the answer is 421 (RFC 9110 section 15.5.20), never
//! content. Authorities and lists may also change after the handshake, by a reload or in a file;
//! old sessions are then no longer valid for the site, and the client has to reconnect.
//! Out of scope: requirements of a part of a site (rules of a front end).

use crate::{Client, Exchange, Generation, Response};
use saker_config::model::ClientCertificates::Required;
use saker_http::Status;
use saker_tls::Identities;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    Held,
    /// The handshake was subject to a different policy.
    Misdirected,
    /// There was no handshake, and the site requires client certificates.
    Unencrypted,
}

impl Generation {
    /// Sets the TLS policies of the same model and hosts.
    pub fn with_identities(mut self, identities: &Arc<Identities>) -> Generation {
        self.identities = Some(Arc::clone(identities));
        self
    }

    /// Checks the connection against the policy of a site, by its index in the model.
    pub fn holding(&self, client: &Client, site: usize) -> Holding {
        let requires = || {
            self.model
                .sites
                .get(site)
                .is_none_or(|site| site.tls.client_certificates == Required)
        };
        let Some(session) = &client.session else {
            // The server's internal requests count as TLS without a session; clients that receive
            // their pages are checked by their own handshake.
            return if !client.tls && requires() {
                Holding::Unencrypted
            } else {
                Holding::Held
            };
        };
        let Some(identities) = &self.identities else {
            return Holding::Held;
        };
        let is_held = session.policy.is_some() && session.policy == identities.site_policy(site);
        if is_held {
            Holding::Held
        } else {
            Holding::Misdirected
        }
    }

    /// Returns true if [`Generation::holding`] is [`Holding::Held`] for every site.
    pub fn is_held_everywhere(&self, client: &Client) -> bool {
        match (&client.session, &self.identities) {
            (None, _) => client.tls || !self.requires_certificates,
            (Some(_), None) => true,
            (Some(session), Some(identities)) => {
                session.policy.is_some() && session.policy == identities.common_policy()
            }
        }
    }

    /// Returns true if the site selected by the server name of the handshake still has the policy
    /// that the handshake was subject to.
    pub fn is_held_where_it_began(&self, client: &Client) -> bool {
        let name = client
            .session
            .as_ref()
            .and_then(|session| session.server_name.as_deref());
        let site = self
            .hosts
            .select_by_server_name(&client.listener, client.local.ip(), name);
        site.is_some_and(|(site, _)| self.holding(client, site) == Holding::Held)
    }

    /// Returns a version that changes whenever certificates, authorities, or revocation lists are
    /// reloaded.
    pub fn certificates_version(&self) -> u64 {
        self.identities
            .as_ref()
            .map_or(0, |identities| identities.version())
    }
}

/// Returns the error response if the connection does not satisfy the policy of the site.
pub fn refusal(exchange: &mut Exchange, generation: &Generation) -> Option<Response> {
    let holding = generation.holding(&exchange.client, exchange.routing.site_index);
    let (status, why) = match holding {
        Holding::Held => return None,
        Holding::Misdirected => (
            Status::MISDIRECTED_REQUEST,
            "the connection's handshake was held to what another site demands",
        ),
        Holding::Unencrypted => (
            Status::FORBIDDEN,
            "the site requires a client certificate, and this connection is not under TLS",
        ),
    };
    exchange.trace("select_host", None, || why.into());
    // Reveal nothing about the site, not even its error pages.
    exchange.routing.site = Arc::clone(&generation.no_site);
    exchange.routing.settings = Arc::clone(&exchange.routing.site.settings);
    Some(Response::new(status))
}
