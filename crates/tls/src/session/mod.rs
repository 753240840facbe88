//! A TLS session of a server, as a function over bytes.
//!
//! Place in the walk: between the worker's reads and the protocol's parser. The ClientHello chooses
//! the configuration (`acceptor`), rustls' unbuffered connection does the handshake, and the keys
//! it agreed on then seal and open records here (`records`), in place and without a buffer of the
//! session's own. Absent on purpose: early data; who waits for what.

mod handshake;
mod info;
mod record_key;
mod records;

pub use info::{Agreed, SessionInfo, Version};

use crate::{
    client_hello::{Peek, peek},
    configurations::{Answer, Configurations},
    error::{TlsError, Whose},
};
use handshake::Handshake;
use records::Records;
use rustls::AlertDescription;
use std::{net::IpAddr, sync::Arc};

/// At most so much of the input is left unused. More in one piece is refused.
pub const INPUT_BYTES_MAX: usize = 40 * 1024;

/// One connection's session. Owns no buffers; everything is lent.
pub struct ServerSession {
    stage: Stage,
    awaits_certificate: bool,
    info: Option<Arc<SessionInfo>>,
}

enum Stage {
    /// The local address, and the client's.
    Hello(Arc<Configurations>, IpAddr, Option<IpAddr>),
    Handshake(Box<Handshake>),
    Open(Box<Records>),
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the input that are done with. The rest is to be given again, with more behind it.
    pub used: usize,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Handshaking,
    Open,
    /// The peer has said that it sends nothing more (close_notify). We still may.
    Closed,
}

impl ServerSession {
    pub(crate) fn new(
        configurations: Arc<Configurations>,
        local: IpAddr,
        client: Option<IpAddr>,
    ) -> ServerSession {
        ServerSession {
            stage: Stage::Hello(configurations, local, client),
            awaits_certificate: false,
            info: None,
        }
    }

    /// Takes in ciphertext: all that has come and is not used yet. It is decrypted in place.
    /// Plaintext is appended to `plain`, what is to be sent (handshake, tickets, alerts) to `out`.
    /// After a fault the session is over; `out` may have an alert then.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        let received = self.step(input, plain, out);
        if received.is_err() {
            self.stage = Stage::Ended;
        }
        received
    }

    fn step(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        if let Stage::Hello(configurations, local, client) = &self.stage {
            let begun = begin(configurations, (*local, *client), input, out)?;
            self.awaits_certificate = matches!(begun, Begun::NotYet);
            match begun {
                Begun::Handshake(handshake) => self.stage = Stage::Handshake(handshake),
                Begun::Incomplete | Begun::NotYet => {
                    return within_bounds(
                        input.len(),
                        Received {
                            used: 0,
                            state: State::Handshaking,
                        },
                        out,
                    );
                }
            }
        }
        let mut used = 0;
        if let Stage::Handshake(handshake) = &mut self.stage {
            let (taken, is_done) = handshake.receive(input, plain, out)?;
            used = taken;
            if !is_done {
                return within_bounds(
                    input.len(),
                    Received {
                        used,
                        state: State::Handshaking,
                    },
                    out,
                );
            }
            self.open()?;
        }
        let Stage::Open(records) = &mut self.stage else {
            return Err(TlsError::Ended);
        };
        used += records.receive(input.get_mut(used..).unwrap_or_default(), plain, out)?;
        let state = if records.is_closed_by_peer() {
            State::Closed
        } else {
            State::Open
        };
        Ok(Received { used, state })
    }

    fn open(&mut self) -> Result<(), TlsError> {
        let Stage::Handshake(mut handshake) = std::mem::replace(&mut self.stage, Stage::Ended)
        else {
            return Err(TlsError::Ended);
        };
        self.info = Some(Arc::new(handshake.info()?));
        self.stage = Stage::Open(Box::new(handshake.into_records()?));
        Ok(())
    }

    /// Encrypts all of `plain` into records behind `out`.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.send_parts(&[plain], out)
    }

    /// Encrypts the parts, one after the other, as if they were one piece.
    pub fn send_parts(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        match &mut self.stage {
            Stage::Open(records) => records.send(parts, out),
            _ => Err(TlsError::Ended),
        }
    }

    /// To be called when the connection has been idle for a second or more: the next response
    /// begins with small records again, which the client can decrypt one TCP segment at a time
    /// while the congestion window is small.
    pub fn after_idle(&mut self) {
        if let Stage::Open(records) = &mut self.stage {
            records.begin_small();
        }
    }

    /// Says that we send nothing more (close_notify). Before the end of the handshake there is
    /// nothing to say.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if let Stage::Open(records) = &mut self.stage {
            // Keys that are used up can't say goodbye either.
            let _ = records.close(out);
        }
    }

    pub fn is_handshaking(&self) -> bool {
        matches!(self.stage, Stage::Hello(..) | Stage::Handshake(_))
    }

    /// A certificate for the client's name is being made: `receive` is to be called again in a
    /// while with the same input.
    pub fn awaits_certificate(&self) -> bool {
        self.awaits_certificate
    }

    /// After the handshake: what was agreed.
    pub fn info(&self) -> Option<&Arc<SessionInfo>> {
        self.info.as_ref()
    }
}

enum Begun {
    Handshake(Box<Handshake>),
    /// The hello is not there whole.
    Incomplete,
    NotYet,
}

/// Reads the ClientHello and chooses what answers it.
fn begin(
    configurations: &Configurations,
    (local, client): (IpAddr, Option<IpAddr>),
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<Begun, TlsError> {
    let hello = match peek(input) {
        Peek::Incomplete => return Ok(Begun::Incomplete),
        Peek::Hello(hello) => hello,
        Peek::PlainHttp => return Err(TlsError::PlainHttp),
        Peek::PlainHttp2Preface => return Err(TlsError::PlainHttp2Preface),
        Peek::NotTls => return Err(TlsError::NotTls),
        Peek::TooLong => {
            return Err(refuse(
                AlertDescription::IllegalParameter,
                Whose::Peer,
                "the ClientHello is too long",
                out,
            ));
        }
    };
    match configurations.answer(&hello, local, client) {
        Answer::Configuration(config, policy) => Ok(Begun::Handshake(Box::new(Handshake::new(
            config, policy, hello,
        )?))),
        Answer::NotYet => Ok(Begun::NotYet),
        Answer::NoCertificate => {
            let reason = format!(
                "there is no certificate for {} yet",
                hello.server_name.unwrap_or_default()
            );
            Err(refuse(
                AlertDescription::UnrecognisedName,
                Whose::Ours,
                reason,
                out,
            ))
        }
        Answer::UnrecognisedName => {
            let reason = hello
                .server_name
                .map_or("no server name, and strict SNI".into(), |name| {
                    format!("no site has the name {name}")
                });
            Err(refuse(
                AlertDescription::UnrecognisedName,
                Whose::Neither,
                reason,
                out,
            ))
        }
        Answer::Unusable(reason) => Err(refuse(
            AlertDescription::InternalError,
            Whose::Ours,
            reason,
            out,
        )),
    }
}

fn within_bounds(
    given: usize,
    received: Received,
    out: &mut Vec<u8>,
) -> Result<Received, TlsError> {
    if given - received.used.min(given) > INPUT_BYTES_MAX {
        return Err(refuse(
            AlertDescription::IllegalParameter,
            Whose::Peer,
            "a handshake message is too long",
            out,
        ));
    }
    Ok(received)
}

/// A fatal alert before there are keys (RFC 8446 section 6).
fn refuse(
    alert: AlertDescription,
    whose: Whose,
    reason: impl Into<std::borrow::Cow<'static, str>>,
    out: &mut Vec<u8>,
) -> TlsError {
    out.extend_from_slice(&[21, 3, 3, 0, 2, 2, u8::from(alert)]);
    TlsError::refused(whose, reason)
}
