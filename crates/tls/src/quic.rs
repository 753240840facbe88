//! Answers to a ClientHello over QUIC: the same requirements of the named site as over TCP, with
//! TLS 1.3 and ALPN `h3`.
//!
//! Called by: the `quic` crate, with QUIC's first bytes put in order.
//! [`QuicConfigurations::answer`] selects a configuration, and rustls starts a session with it,
//! which reads the same bytes again.
//!
//! Caveat: rustls takes a configuration before it has seen any input, so the caller waits for the
//! whole message.
//!
//! Out of scope: waiting for a certificate that is being issued (the client comes over TCP
//! meanwhile), ACME challenges, which are for TCP (RFC 8737 section 3).

use crate::{
    client_hello::{ClientHello, Peek, peek_message},
    configurations::{Answer, Configurations},
    early::EarlySessions,
    policy::{PolicyDigest, Variant},
};
use rustls::{
    AlertDescription, Error, ServerConfig,
    quic::{ServerConnection, Version},
};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, OnceLock},
};

/// One state of the certificates, for a listener's QUIC. Configurations are made when they are
/// first asked for.
pub struct QuicConfigurations {
    current: Arc<Configurations>,
    early: Option<(EarlySessions, Vec<u8>)>,
    made: Vec<[Made; Variant::COUNT]>,
}

/// Configuration built on first use; an error is kept, too.
type Made = OnceLock<Result<Arc<ServerConfig>, String>>;

/// Answer to a ClientHello.
#[derive(Debug)]
pub enum QuicAnswer {
    /// The message is not there whole.
    NotYet,
    /// With what the handshake is held to.
    Configuration(Arc<ServerConfig>, PolicyDigest),
    /// With a TLS alert, and for the log.
    Refused { alert: u8, reason: String },
}

impl QuicConfigurations {
    /// With `early` clients may come back by 0-RTT, but not where certificates are asked of them,
    /// which come later than that, nor when what they were promised has changed. An error where no
    /// site could be served by QUIC at all.
    pub(crate) fn new(
        current: Arc<Configurations>,
        early: Option<(&EarlySessions, &[u8])>,
    ) -> Result<QuicConfigurations, Error> {
        let made = current.policies().map(|_| Default::default()).collect();
        let early = early.map(|(sessions, promises)| (sessions.clone(), promises.to_vec()));
        let configurations = QuicConfigurations {
            current,
            early,
            made,
        };
        let mut problem = "there is no site".to_owned();
        for policy in 0..configurations.made.len() {
            match configurations.configuration(
                policy,
                Variant::default(),
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            ) {
                Ok(_) => return Ok(configurations),
                Err(error) => problem = error,
            }
        }
        Err(Error::General(problem))
    }

    /// True if the address that a client has connected to counts for the answer.
    pub fn depends_on_local(&self) -> bool {
        self.current.depends_on_local()
    }

    /// `message`: what has come of the first handshake message. `local`: the address that it came
    /// to.
    pub fn answer(&self, message: &[u8], local: IpAddr) -> QuicAnswer {
        match peek_message(message) {
            Peek::Incomplete => QuicAnswer::NotYet,
            Peek::Hello(hello) => self.answer_hello(
                &ClientHello {
                    acme_challenge: false,
                    ..hello
                },
                local,
            ),
            _ => refused(
                AlertDescription::IllegalParameter,
                "the client's first message is too long",
            ),
        }
    }

    fn answer_hello(&self, hello: &ClientHello, local: IpAddr) -> QuicAnswer {
        // The address of the client is not proven yet.
        let (policy, variant) = match self.current.choose(hello, local, None) {
            Ok(chosen) => chosen,
            Err(Answer::UnrecognisedName) => {
                return refused(
                    AlertDescription::UnrecognisedName,
                    "no site has the name, and strict SNI",
                );
            }
            Err(Answer::NotYet | Answer::NoCertificate) => {
                return refused(
                    AlertDescription::UnrecognisedName,
                    "there is no certificate for the name yet",
                );
            }
            Err(_) => {
                return refused(
                    AlertDescription::InternalError,
                    "the site's TLS settings can't be used",
                );
            }
        };
        let Some(digest) = self
            .current
            .policies()
            .nth(policy)
            .map(|policy| policy.digest)
        else {
            return refused(
                AlertDescription::InternalError,
                "the site's demands are not known",
            );
        };
        match self.configuration(policy, variant, local) {
            Ok(config) => QuicAnswer::Configuration(config, digest),
            // A site without TLS 1.3: QUIC has no other (RFC 9001 section 4.2).
            Err(reason) => refused(AlertDescription::ProtocolVersion, &reason),
        }
    }

    fn configuration(
        &self,
        policy: usize,
        variant: Variant,
        local: IpAddr,
    ) -> Result<Arc<ServerConfig>, String> {
        if self.depends_on_local() {
            return self.make(policy, variant, local);
        }
        let slot = self
            .made
            .get(policy)
            .and_then(|variants| variants.get(variant.index()));
        slot.map_or_else(
            || Err("the site's demands are not known".into()),
            |slot| {
                slot.get_or_init(|| self.make(policy, variant, local))
                    .clone()
            },
        )
    }

    fn make(
        &self,
        index: usize,
        variant: Variant,
        local: IpAddr,
    ) -> Result<Arc<ServerConfig>, String> {
        let mut config = self
            .current
            .configuration(index, variant, local)
            .map_err(|error| error.to_string())?
            .as_ref()
            .clone();
        config.alpn_protocols = vec![b"h3".to_vec()];
        config.enable_secret_extraction = false;
        let policy = self
            .current
            .policies()
            .nth(index)
            .filter(|policy| policy.allows_early_data());
        if let (Some((sessions, promises)), Some(policy)) = (&self.early, policy) {
            sessions.apply(policy.digest, promises, &mut config);
        }
        let config = Arc::new(config);
        // A session that is thrown away: what rustls may find wrong with a configuration it says
        // here and not to a client.
        ServerConnection::new(Arc::clone(&config), Version::V1, Vec::new())
            .map_err(|error| error.to_string())?;
        Ok(config)
    }
}

fn refused(alert: AlertDescription, reason: &str) -> QuicAnswer {
    QuicAnswer::Refused {
        alert: alert.into(),
        reason: reason.into(),
    }
}
