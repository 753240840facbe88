//! Whether a connection's handshake was held to what a site demands: the one place that decides it.
//!
//! Called by: `select_host` for each request, the access phase for what a request leads to inside
//! of the server, drivers before they answer from a kept outcome. A site may be asked for over any
//! connection that leads to it by its Host; what the handshake was held to (client certificates,
//! authorities, revocation lists, versions, ciphers) was decided by its server name. Where both
//! differ, the answer is 421 (RFC 9110 section 15.5.20), and never content. The difficulty is time:
//! authorities and lists may have changed since the handshake, by a reload or by a file, and then
//! the old session is not good for the site any more, as if its client had to come again. Out of
//! scope: what a part of a site demands beyond its site (rules of a front-end).

use crate::{Client, Exchange, Generation, Response, Services};
use saker_config::{Model, model::ClientCertificates::Required};
use saker_http::Status;
use saker_tls::Identities;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    Held,
    /// The handshake was held to something else.
    Misdirected,
    /// There was none, and the site requires certificates.
    Unencrypted,
}

impl Generation {
    /// With what TLS knows of the same model and hosts.
    pub fn with_identities(mut self, identities: &Arc<Identities>) -> Generation {
        self.identities = Some(Arc::clone(identities));
        self
    }

    /// `site`: index in the model.
    pub fn holding(&self, client: &Client, site: usize) -> Holding {
        let requires = || {
            self.model
                .sites
                .get(site)
                .is_none_or(|site| site.tls.client_certificates == Required)
        };
        let Some(session) = &client.session else {
            // The server's own requests, as if over TLS, have none; whoever gets their pages is
            // judged by his own handshake.
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

    /// Whether [`Generation::holding`] would be [`Holding::Held`] for every site.
    pub fn is_held_everywhere(&self, client: &Client) -> bool {
        match (&client.session, &self.identities) {
            (None, _) => client.tls || !self.requires_certificates,
            (Some(_), None) => true,
            (Some(session), Some(identities)) => {
                session.policy.is_some() && session.policy == identities.common_policy()
            }
        }
    }

    /// Whether the site that the server name of the handshake means still demands what the
    /// handshake was held to.
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

    /// Changes whenever certificates, authorities or revocation lists were read again.
    pub fn certificates_version(&self) -> u64 {
        self.identities
            .as_ref()
            .map_or(0, |identities| identities.version())
    }
}

pub fn requires_certificates(model: &Model) -> bool {
    model
        .sites
        .iter()
        .any(|site| site.tls.client_certificates == Required)
}

/// The answer where the site must not give one.
pub fn refusal(exchange: &mut Exchange, services: &Services) -> Option<Response> {
    let generation = &services.generation;
    let holding = generation.holding(&exchange.client, exchange.site_index);
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
    // Nothing of the site may be told, its error pages included.
    exchange.site = Arc::clone(&generation.no_site);
    exchange.settings = Arc::clone(&exchange.site.settings);
    Some(Response::new(status))
}
