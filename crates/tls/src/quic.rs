//! What answers a ClientHello that came over QUIC: the same demands of the site that it names as over TCP, under TLS 1.3 and ALPN `h3`.
//!
//! Place in the walk: QUIC's first bytes, put in order -> [`QuicConfigurations::answer`] -> a session of rustls' with that configuration,
//! which reads the same bytes again. The difficulty is that rustls takes a configuration before it has seen anything: so whoever makes the
//! session waits for the whole message. Absent on purpose: waiting for a certificate that is being made (the client comes over TCP
//! meanwhile), challenges of ACME, which are for TCP (RFC 8737 section 3).

use crate::{
    acceptor::{Answer, Configurations},
    client_hello::{ClientHello, Peek, peek_message},
    early::EarlySessions,
    policy::Variant,
};
use rustls::{
    AlertDescription, Error, ServerConfig,
    quic::{ServerConnection, Version},
};
use std::sync::{Arc, OnceLock};

/// One state of the certificates, for a listener's QUIC. Configurations are made when they are first asked for.
pub struct QuicConfigurations {
    current: Arc<Configurations>,
    early: Option<(EarlySessions, Vec<u8>)>,
    made: Vec<[Made; Variant::COUNT]>,
}

/// What is wrong with it is found out once, too.
type Made = OnceLock<Result<Arc<ServerConfig>, String>>;

/// What answers a ClientHello.
#[derive(Debug)]
pub enum QuicAnswer {
    /// The message is not there whole.
    NotYet,
    Configuration(Arc<ServerConfig>),
    /// With a TLS alert, and for the log.
    Refused {
        alert: u8,
        reason: String,
    },
}

impl QuicConfigurations {
    /// With `early` clients may come back by 0-RTT, but not where certificates are asked of them, which come later than that, nor when what
    /// they were promised has changed. An error where no site could be served by QUIC at all.
    pub(crate) fn new(current: Arc<Configurations>, early: Option<(&EarlySessions, &[u8])>) -> Result<QuicConfigurations, Error> {
        let made = current.policies().map(|_| Default::default()).collect();
        let early = early.map(|(sessions, promises)| (sessions.clone(), promises.to_vec()));
        let configurations = QuicConfigurations { current, early, made };
        let mut problem = "there is no site".to_owned();
        for policy in 0..configurations.made.len() {
            match configurations.configuration(policy, Variant::default()) {
                Ok(_) => return Ok(configurations),
                Err(error) => problem = error,
            }
        }
        Err(Error::General(problem))
    }

    /// `message`: what has come of the first handshake message.
    pub fn answer(&self, message: &[u8]) -> QuicAnswer {
        match peek_message(message) {
            Peek::Incomplete => QuicAnswer::NotYet,
            Peek::Hello(hello) => self.answer_hello(&ClientHello { acme_challenge: false, ..hello }),
            _ => refused(AlertDescription::IllegalParameter, "the client's first message is too long"),
        }
    }

    fn answer_hello(&self, hello: &ClientHello) -> QuicAnswer {
        let (policy, variant) = match self.current.choose(hello) {
            Ok(chosen) => chosen,
            Err(Answer::UnrecognizedName) => return refused(AlertDescription::UnrecognisedName, "no site has the name, and strict SNI"),
            Err(Answer::NotYet | Answer::NoCertificate) => {
                return refused(AlertDescription::UnrecognisedName, "there is no certificate for the name yet");
            }
            Err(_) => return refused(AlertDescription::InternalError, "the site's TLS settings can't be used"),
        };
        match self.configuration(policy, variant) {
            Ok(config) => QuicAnswer::Configuration(config),
            // A site without TLS 1.3: QUIC has no other (RFC 9001 section 4.2).
            Err(reason) => refused(AlertDescription::ProtocolVersion, &reason),
        }
    }

    fn configuration(&self, policy: usize, variant: Variant) -> Result<Arc<ServerConfig>, String> {
        let slot = self.made.get(policy).and_then(|variants| variants.get(variant.index()));
        slot.map_or_else(|| Err("the site's demands are not known".into()), |slot| slot.get_or_init(|| self.make(policy, variant)).clone())
    }

    fn make(&self, index: usize, variant: Variant) -> Result<Arc<ServerConfig>, String> {
        let mut config = self.current.configuration(index, variant).map_err(|error| error.to_string())?.as_ref().clone();
        config.alpn_protocols = vec![b"h3".to_vec()];
        config.enable_secret_extraction = false;
        let policy = self.current.policies().nth(index).filter(|policy| policy.allows_early_data());
        if let (Some((sessions, promises)), Some(policy)) = (&self.early, policy) {
            sessions.apply(policy.digest, promises, &mut config);
        }
        let config = Arc::new(config);
        // A session that is thrown away: what rustls may find wrong with a configuration it says here and not to a client.
        ServerConnection::new(Arc::clone(&config), Version::V1, Vec::new()).map_err(|error| error.to_string())?;
        Ok(config)
    }
}

fn refused(alert: AlertDescription, reason: &str) -> QuicAnswer {
    QuicAnswer::Refused { alert: alert.into(), reason: reason.into() }
}
