//! Sites whose TLS requirements a connection's handshake is known to meet, so that a request
//! answered from the route cache costs two comparisons.
//!
//! Called by: the fast path of every driver; all other requests are checked after routing, in
//! `select_host`.
//! Caveat: the knowledge holds for one generation and one state of its certificate files.
//! Out of scope: the decision, which is made by [`Generation::holding`].

use saker_pipeline::{Client, Generation, Holding};

#[derive(Clone, Copy, Debug, Default)]
pub struct HeldPolicy {
    /// Generation, and version of its certificates and lists.
    seen: (u64, u64),
    /// All sites have the same requirements, and they are met.
    is_held_everywhere: bool,
    /// The site of the previous request. Each connection has one of these: small.
    site: Option<u16>,
    /// The site that the handshake was for demands something else by now.
    is_outdated: bool,
}

impl HeldPolicy {
    /// Returns true if the site may answer a request over this connection.
    pub fn is_good_for(&mut self, client: &Client, generation: &Generation, site: usize) -> bool {
        self.follow(client, generation);
        // Sites beyond are asked for each time.
        let number = u16::try_from(site).ok();
        if self.is_held_everywhere || number.is_some() && self.site == number {
            return true;
        }
        let is_held = generation.holding(client, site) == Holding::Held;
        if is_held {
            self.site = number;
        }
        is_held
    }

    /// Returns true if the connection should end, because its client has to repeat the handshake.
    pub fn is_outdated(&mut self, client: &Client, generation: &Generation) -> bool {
        self.follow(client, generation);
        self.is_outdated
    }

    fn follow(&mut self, client: &Client, generation: &Generation) {
        let now = (generation.number, generation.certificates_version());
        if self.seen != now {
            *self = HeldPolicy {
                seen: now,
                is_held_everywhere: generation.is_held_everywhere(client),
                site: None,
                is_outdated: client.session.is_some() && !generation.is_held_where_it_began(client),
            };
        }
    }
}
