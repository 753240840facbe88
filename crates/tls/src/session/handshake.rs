//! The handshake, driven through rustls' unbuffered connection up to the point where records begin.

use super::{SessionInfo, records::Records};
use crate::{
    client_hello::ClientHello,
    configurations::take_shown,
    error::{TlsError, Whose},
    offered::Offered,
    policy::Policy,
};
use rustls::{
    ServerConfig,
    server::UnbufferedServerConnection,
    sign::CertifiedKey,
    unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus},
};
use std::sync::Arc;

pub struct Handshake {
    connection: UnbufferedServerConnection,
    server_name: Option<String>,
    offered: Offered,
    /// Requirements of the site; ACME challenge handshakes have none.
    policy: Option<Arc<Policy>>,
    shown: Option<Arc<CertifiedKey>>,
    is_closed_by_peer: bool,
}

impl Handshake {
    pub fn new(
        config: Arc<ServerConfig>,
        policy: Option<Arc<Policy>>,
        hello: ClientHello,
    ) -> Result<Handshake, TlsError> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Handshake {
            connection,
            server_name: hello.server_name,
            offered: hello.offered,
            policy,
            shown: None,
            is_closed_by_peer: false,
        })
    }

    /// Number of bytes of the input were used, and whether the handshake is over. rustls is shown one
    /// record after the other: what comes behind the last of the handshake is ours to read. (An update
    /// of keys that it had read itself would be answered by it, but for the answer being dropped
    /// when its keys are taken over.)
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, bool), TlsError> {
        let mut used = 0;
        let mut shown = record_end(input, 0);
        loop {
            let UnbufferedStatus { discard, state } = self
                .connection
                .process_tls_records(input.get_mut(used..shown).unwrap_or_default());
            let mut is_over = None;
            self.shown = take_shown().or(self.shown.take());
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        plain.extend_from_slice(record?.payload);
                    }
                }
                Ok(ConnectionState::PeerClosed) => self.is_closed_by_peer = true,
                Ok(ConnectionState::WriteTraffic(_)) => is_over = Some(true),
                Ok(ConnectionState::BlockedHandshake) => is_over = Some(false),
                // Early data is off, and we have not closed.
                Ok(_) => {
                    return Err(TlsError::refused(
                        Whose::Ours,
                        "the handshake came to where it can't be",
                    ));
                }
                Err(error) => {
                    self.alert(out);
                    return Err(error.into());
                }
            }
            used += discard;
            match is_over {
                Some(false) if shown < input.len() => shown = record_end(input, shown),
                Some(is_over) => return Ok((used, is_over)),
                None => {}
            }
        }
    }

    /// Appends the alert that rustls has ready after an error. Called only while there is one:
    /// rustls would otherwise read the broken input again, which is no longer its input.
    fn alert(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.connection.process_tls_records(&mut []).state
            else {
                return;
            };
            if encode(&mut data, out).is_err() {
                return;
            }
        }
    }

    pub fn info(&mut self) -> Result<SessionInfo, TlsError> {
        SessionInfo::new(
            &self.connection,
            (
                self.server_name.as_deref(),
                std::mem::take(&mut self.offered),
            ),
            self.shown.take(),
            self.policy.as_deref(),
        )
        .ok_or_else(|| TlsError::refused(Whose::Ours, "the handshake is not over"))
    }

    pub fn into_records(self) -> Result<Records, TlsError> {
        let (secrets, keys) = self.connection.dangerous_into_kernel_connection()?;
        Records::new(secrets, keys, self.is_closed_by_peer)
    }
}

/// The end of the record that begins there, as far as it is in the input.
fn record_end(input: &[u8], start: usize) -> usize {
    let rest = input.get(start..).unwrap_or_default();
    match *rest {
        [_, _, _, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            input.len().min(start + 5 + length)
        }
        _ => input.len(),
    }
}

fn encode(
    data: &mut EncodeTlsData<'_, rustls::server::ServerConnectionData>,
    out: &mut Vec<u8>,
) -> Result<(), TlsError> {
    let failed = || TlsError::refused(Whose::Ours, "a handshake message could not be written");
    let start = out.len();
    // It says how much room it needs.
    let Err(EncodeError::InsufficientSize(room)) = data.encode(&mut []) else {
        return Err(failed());
    };
    out.resize(start + room.required_size, 0);
    data.encode(&mut out[start..])
        .map(drop)
        .map_err(|_| failed())
}
