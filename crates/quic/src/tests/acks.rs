//! Clients that acknowledge what they never got, to be sent more than their path carries (RFC 9000
//! section 21.4).
//!
//! The client is an honest one whose packets are written over just before they are encrypted.

use super::pair::{Pair, client_crypto};
use crate::{ClientCrypto, Event, Id, Lost, Settings};
use bytes::BytesMut;
use quinn_proto::{
    ConnectError, ConnectionId, Side, TransportError,
    crypto::{
        self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    },
    transport_parameters::TransportParameters,
};
use std::{
    any::Any,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The frames that take the place of others; `None`: the truth.
pub type Lie = Arc<Mutex<Option<Vec<u8>>>>;

struct Lying {
    honest: ClientCrypto,
    lie: Lie,
}

impl crypto::ClientConfig for Lying {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let honest =
            Arc::new(self.honest.clone()).start_session(version, server_name, parameters)?;
        Ok(Box::new(LyingSession {
            honest,
            lie: Arc::clone(&self.lie),
            keys_seen: 0,
        }))
    }
}

struct LyingSession {
    honest: Box<dyn Session>,
    lie: Lie,
    keys_seen: usize,
}

impl LyingSession {
    fn lying(&self, honest: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(LyingKey {
            honest,
            lie: Arc::clone(&self.lie),
        })
    }
}

impl Session for LyingSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.honest.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.honest.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.honest.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.honest.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.honest.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.honest.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.honest.read_handshake(bytes)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.honest.transport_parameters()
    }

    /// The second keys are those of the established connection.
    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.honest.write_handshake(out)?;
        self.keys_seen += 1;
        if self.keys_seen == 2 {
            keys.packet.local = self.lying(keys.packet.local);
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.honest.next_1rtt_keys()?;
        Some(KeyPair {
            local: self.lying(keys.local),
            remote: keys.remote,
        })
    }

    fn is_valid_retry(&self, original: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.honest.is_valid_retry(original, header, payload)
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.honest.export_keying_material(out, label, context)
    }
}

struct LyingKey {
    honest: Box<dyn PacketKey>,
    lie: Lie,
}

impl PacketKey for LyingKey {
    fn encrypt(&self, packet: u64, bytes: &mut [u8], header_bytes: usize) {
        let end = bytes.len() - self.honest.tag_len();
        if let (Some(lie), Some(payload)) =
            (&*self.lie.lock().unwrap(), bytes.get_mut(header_bytes..end))
            && let Some(place) = payload.get_mut(..lie.len())
        {
            place.copy_from_slice(lie);
            // PADDING.
            payload[lie.len()..].fill(0);
        }
        self.honest.encrypt(packet, bytes, header_bytes);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.honest.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.honest.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.honest.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.honest.integrity_limit()
    }
}

/// ACK of all packets up to that one (RFC 9000 section 19.3).
fn ack_of_all(largest: u32) -> Vec<u8> {
    let largest = (largest | 0x8000_0000).to_be_bytes();
    [&[2], &largest[..], &[0, 0], &largest[..]].concat()
}

/// In mid-download, with a client that may lie.
pub fn downloading() -> (Pair, Id, Lie) {
    let lie = Lie::default();
    let mut pair = Pair::new(Settings::default());
    let config = Arc::new(Lying {
        honest: client_crypto(),
        lie: Arc::clone(&lie),
    });
    pair.client_config = super::pair::client_config_with(config);
    let id = pair.connect();
    pair.run(Duration::from_millis(200));
    assert!(pair.client(id).1.has(&Event::Established));
    pair.server().1.echoes = false;
    let stream = pair.send(id, "please");
    pair.run(Duration::from_millis(30));
    pair.server().1.send(stream, vec![7; 20_000_000]);
    let server = pair.server.ids().next().unwrap();
    pair.server.wake(server);
    pair.run(Duration::from_millis(100));
    assert!(pair.server().0.figures().packets_sent > 100);
    (pair, id, lie)
}

/// With content beside it, so that its packet has room for the lie.
pub fn tell(pair: &mut Pair, id: Id, lie: &Lie, frame: Vec<u8>) {
    *lie.lock().unwrap() = Some(frame);
    pair.send(id, vec![0; 500]);
    pair.run(Duration::from_millis(15));
}

/// PROTOCOL_VIOLATION (RFC 9000 section 20.1); whether the client understands the answer is its own
/// matter.
pub fn is_found_out(pair: &mut Pair) -> bool {
    matches!(pair.server().1.lost(), Some(Lost::Fault { code: 0xa, .. }))
}

#[test]
fn packets_that_were_never_sent() {
    let (mut pair, id, lie) = downloading();
    tell(&mut pair, id, &lie, ack_of_all(0x10_0000));
    assert!(is_found_out(&mut pair), "{:?}", pair.server().1.lost());
}

/// Packet numbers are skipped at random; a client that acknowledges a skipped one is lying.
#[test]
fn everything_before_it_has_come() {
    let (mut pair, id, lie) = downloading();
    let found_out = (0..50).any(|_| {
        // Less than what was sent, handshake packets aside, and more than what has come.
        let sent = pair.server().0.figures().packets_sent;
        tell(
            &mut pair,
            id,
            &lie,
            ack_of_all(u32::try_from(sent).unwrap() - 20),
        );
        is_found_out(&mut pair)
    });
    assert!(found_out, "{:?}", pair.server().1.lost());
}
