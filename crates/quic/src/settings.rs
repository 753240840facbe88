//! Settings of a listener for QUIC, and their translation for quinn-proto.
//!
//! The difficulty is memory: flow-control windows promise it to clients. What a client may send
//! unread is bounded per stream, per connection and for all connections together, and grows to
//! these bounds as it is used (`receive_window`); what we keep for a client that reads slowly
//! follows its congestion window (`Connection::adapt`), because that is what the path can carry.

use crate::{
    Secrets, ServerCrypto, VERSION_1, VERSION_2,
    congestion::{BbrConfig, CubicConfig},
    connection_id::Ids,
    id::Place,
    secrets::TOKEN_LIFETIME,
};
use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
    congestion::{ControllerFactory, NewRenoConfig},
};
use std::{sync::Arc, time::Duration};

/// Method by which a sender estimates what the path carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 9438, with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// By measured bandwidth and delay instead of by loss.
    Bbr,
    /// RFC 9002 section 7.
    NewReno,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub congestion: Congestion,
    /// Without a packet for so long a connection is over, and nothing is said.
    pub idle_timeout_ms: u64,
    /// A handshake that takes longer is forgotten.
    pub handshake_timeout_ms: u64,
    /// Handshakes at a time; what comes beyond is dropped, and comes again.
    pub handshakes_max: usize,
    /// Handshakes in progress from addresses that are not validated; beyond this number, clients
    /// have to validate theirs first (Retry, RFC 9000 section 8.1.2).
    pub handshakes_unproved_max: usize,
    /// Requests at a time. quinn-proto keeps memory for each once it has been used, and a place in
    /// a table from the beginning: up to 112, those of both kinds together, the table has half the
    /// size. RFC 9114 section 6.1 recommends at least 100.
    pub streams_max: u32,
    /// Unidirectional streams that a client may open; HTTP/3 needs three, and clients test that
    /// unknown ones are ignored.
    pub unidirectional_streams_max: u32,
    /// Bytes that a client may send on a stream before they are read.
    pub stream_window_bytes: u32,
    /// On all streams of a connection: at first, and at last.
    pub connection_window_bytes: u32,
    pub connection_window_bytes_max: u32,
    /// On all connections, beyond what each has at first.
    pub promised_bytes_max: u64,
    /// Maximum of unsent and unacknowledged bytes held for a client.
    pub send_buffer_bytes_max: u64,
    /// The first congestion window, in packets (RFC 9002 section 7.2 recommends 10).
    pub initial_window_packets: u32,
    /// Clients may change their address (RFC 9000 section 9).
    pub migration: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            congestion: Congestion::Cubic,
            idle_timeout_ms: 30_000,
            handshake_timeout_ms: 10_000,
            handshakes_max: 1000,
            handshakes_unproved_max: 64,
            streams_max: 100,
            unidirectional_streams_max: 8,
            stream_window_bytes: 4 << 20,
            connection_window_bytes: 512 << 10,
            connection_window_bytes_max: 16 << 20,
            promised_bytes_max: 256 << 20,
            send_buffer_bytes_max: 8 << 20,
            initial_window_packets: 10,
            migration: true,
        }
    }
}

/// Send buffer for a client before anything is known of its path.
pub(crate) const SEND_BUFFER_BYTES_FIRST: u64 = 128 << 10;
/// A packet as congestion controllers count them before the path's limit is known.
const PACKET_BYTES: u64 = 1200;
/// HTTP/3 clients send frames of HANDSHAKE space that fit in a few packets; certificates of clients
/// need more.
const CRYPTO_BUFFER_BYTES: usize = 16 << 10;
/// Bytes buffered for a client before its connection is accepted; we accept or refuse at once.
const WAITING_BYTES_MAX: u64 = 64 << 10;

/// Packets by which a packet may be overtaken before it counts as lost; only a bound for windows of
/// many thousands of packets. By time, half a round trip is allowed, where RFC 9002 section 6.1
/// recommends an eighth of a round trip and three packets, and TCP begins with a quarter and adapts
/// (RFC 8985 section 6.2), which quinn-proto cannot do. Three packets are nothing on a fast path,
/// and a path that delays some packets by more than the limit never leaves the smallest window.
/// If packets are lost at random, the longer wait costs less than can be measured (simulated: 10
/// MB over 100 Mbit/s, 20 ms, 1 and 3 %).
const REORDERED_PACKETS: u32 = 1000;
const REORDERED_TIME: f32 = 1.5;

/// The longest datagrams that are looked for (RFC 8899): what an Ethernet frame of 1,500 bytes
/// leaves beside UDP's header and that of IPv4 or IPv6.
const DATAGRAM_BYTES_IPV4: u16 = 1472;
const DATAGRAM_BYTES_IPV6: u16 = 1452;
/// The search ends when it would go on by less. quinn-proto's 20 would leave paths with PPPoE's
/// header (8 bytes shorter) 26 below what they take.
const DATAGRAM_STEP: u16 = 16;

fn discovery(longest: u16) -> MtuDiscoveryConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(longest).minimum_change(DATAGRAM_STEP);
    discovery
}

impl Settings {
    pub(crate) fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let idle = IdleTimeout::try_from(Duration::from_millis(self.idle_timeout_ms)).ok();
        transport
            .max_idle_timeout(idle)
            .max_concurrent_bidi_streams(self.streams_max.into())
            .max_concurrent_uni_streams(self.unidirectional_streams_max.into())
            .stream_receive_window(self.stream_window_bytes.into())
            .receive_window(self.connection_window_bytes.into())
            .send_window(SEND_BUFFER_BYTES_FIRST)
            .packet_threshold(REORDERED_PACKETS)
            .time_threshold(REORDERED_TIME)
            .mtu_discovery_config(Some(discovery(DATAGRAM_BYTES_IPV6)))
            .crypto_buffer_size(CRYPTO_BUFFER_BYTES)
            .datagram_receive_buffer_size(None)
            .congestion_controller_factory(self.controller());
        transport
    }

    /// The same for clients whose packets have IPv4's shorter header.
    pub(crate) fn over_ipv4(&self, server: &ServerConfig) -> ServerConfig {
        let (mut server, mut transport) = (server.clone(), self.transport());
        transport.mtu_discovery_config(Some(discovery(DATAGRAM_BYTES_IPV4)));
        server.transport_config(Arc::new(transport));
        server
    }

    /// Endpoint configuration of a server: connection ids and resets.
    pub(crate) fn endpoint(secrets: &Secrets, place: Place) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::clone(&secrets.reset) as _);
        let (key, tag) = (secrets.ids.clone(), secrets.tag);
        config.cid_generator(move || {
            Box::new(Ids {
                worker: place.worker,
                workers: place.workers,
                key: key.clone(),
                tag,
            })
        });
        config.supported_versions(vec![VERSION_1, VERSION_2]);
        config
    }

    pub(crate) fn server(&self, secrets: &Secrets, crypto: ServerCrypto) -> ServerConfig {
        let mut tokens = ValidationTokenConfig::default();
        tokens
            .sent(1)
            .lifetime(TOKEN_LIFETIME)
            .log(Arc::clone(&secrets.used) as _);
        let mut config = ServerConfig::new(Arc::new(crypto), Arc::clone(&secrets.tokens) as _);
        config
            .transport_config(Arc::new(self.transport()))
            .validation_token_config(tokens)
            .migration(self.migration)
            .max_incoming(self.handshakes_max)
            .incoming_buffer_size(WAITING_BYTES_MAX)
            .incoming_buffer_size_total(WAITING_BYTES_MAX * 16);
        config
    }

    fn controller(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        let window = u64::from(self.initial_window_packets.max(2)) * PACKET_BYTES;
        match self.congestion {
            Congestion::Cubic => Arc::new(CubicConfig {
                initial_window_bytes: window,
            }),
            Congestion::Bbr => Arc::new(BbrConfig {
                initial_window_bytes: window,
            }),
            Congestion::NewReno => {
                let mut config = NewRenoConfig::default();
                config.initial_window(window);
                Arc::new(config)
            }
        }
    }
}

/// An application error code as the wire has it; codes are 62 bits wide (RFC 9000 section 16).
pub(crate) fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
