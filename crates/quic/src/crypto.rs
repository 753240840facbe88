//! TLS 1.3 within QUIC (RFC 9001): rustls behind quinn-proto's traits.
//!
//! quinn-proto has an implementation of its own; this one reports the parameters that servers log
//! and scripts read (suite, resumption, client certificates), and supports QUIC version 2. Sites
//! differ in what they require of clients, so a server's session begins only when the whole
//! ClientHello has arrived and [`ChooseConfig`] has selected a configuration for it.
//!
//! Caveat: rustls does not signal that a ClientHello was read, so the parameters are reported as
//! soon as a name, a protocol, or the end of the handshake is known.

use crate::{VERSION_1, VERSION_2, second_version};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use quinn_proto::{
    ConnectError, ConnectionId, Side, TransportError, TransportErrorCode,
    crypto::{
        self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
    },
    transport_parameters::TransportParameters,
};
use rustls::{
    AlertDescription, CipherSuite, ClientConfig, HandshakeKind, NamedGroup, ServerConfig,
    crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
    pki_types::{CertificateDer, ServerName},
    quic::{self, KeyChange, Secrets, Suite, Version},
    sign::CertifiedKey,
};
use std::{any::Any, fmt, io::Cursor, net::IpAddr, sync::Arc};

const TAG_BYTES: usize = 16;

/// Parameters that a connection's TLS handshake negotiated.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Name from the client's SNI extension; server side only.
    pub server_name: Option<String>,
    pub alpn: Option<Vec<u8>>,
    pub suite: Option<CipherSuite>,
    pub group: Option<NamedGroup>,
    pub kind: Option<HandshakeKind>,
    /// They come with the end of the handshake.
    pub client_certificates: Vec<CertificateDer<'static>>,
    /// Certificate that the server presented.
    pub shown: Option<Arc<CertifiedKey>>,
    /// Label of the server's configuration, as returned by [`ChooseConfig`].
    pub label: Label,
    /// 1 or 2.
    pub quic_version: u8,
}

/// A rustls configuration that can't be used for QUIC; why.
#[derive(Debug)]
pub struct Unusable(pub String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The suite that protects first packets whatever else is agreed on (RFC 9001 section 5.2).
#[derive(Clone, Copy)]
struct Initials(Suite);

/// Identifies a server configuration; opaque to this crate.
pub type Label = [u8; 32];

/// Which configuration answers a ClientHello.
pub trait ChooseConfig: Send + Sync {
    /// `message`: what has come of the first handshake message, in order. `local`: the address that
    /// it came to, as far as the socket tells, where [`ChooseConfig::depends_on_local`]. A
    /// configuration has to be good for QUIC.
    fn choose(&self, message: &[u8], local: Option<IpAddr>) -> Chosen;

    fn depends_on_local(&self) -> bool {
        false
    }
}

pub enum Chosen {
    /// The message is not there whole.
    NotYet,
    Config(Arc<ServerConfig>, Label),
    /// With a TLS alert, and for the log.
    Refused {
        alert: u8,
        reason: String,
    },
}

/// The same for everybody.
impl ChooseConfig for Arc<ServerConfig> {
    fn choose(&self, _: &[u8], _: Option<IpAddr>) -> Chosen {
        Chosen::Config(Arc::clone(self), Label::default())
    }
}

/// Server's side. To be made anew when certificates change.
#[derive(Clone)]
pub struct ServerCrypto {
    configs: Arc<dyn ChooseConfig>,
    local: Option<IpAddr>,
    initials: Initials,
    take_shown: TakeShown,
}

/// The certificate that the step of a handshake just made on this thread has chosen, as far as the
/// configuration's resolver tells.
pub type TakeShown = fn() -> Option<Arc<CertifiedKey>>;

/// Client's side, for tests and load generators.
#[derive(Clone)]
pub struct ClientCrypto {
    config: Arc<ClientConfig>,
    initials: Initials,
}

impl Initials {
    fn new() -> Result<Initials, Unusable> {
        let suite = TLS13_AES_128_GCM_SHA256
            .tls13()
            .and_then(|suite| suite.quic_suite());
        suite
            .map(Initials)
            .ok_or_else(|| Unusable("the cryptography in use knows no QUIC".into()))
    }

    fn keys(self, version: Version, id: &ConnectionId, side: rustls::Side) -> Keys {
        both_ways(version, self.0.keys(id, side, version))
    }
}

impl ServerCrypto {
    pub fn new(
        configs: Arc<dyn ChooseConfig>,
        take_shown: TakeShown,
    ) -> Result<ServerCrypto, Unusable> {
        Ok(ServerCrypto {
            configs,
            local: None,
            initials: Initials::new()?,
            take_shown,
        })
    }

    /// The same for a connection to an address of this machine; `None`: that makes no difference.
    pub(crate) fn at(&self, local: Option<IpAddr>) -> Option<ServerCrypto> {
        self.configs.depends_on_local().then(|| ServerCrypto {
            local,
            ..self.clone()
        })
    }
}

impl ClientCrypto {
    pub fn new(config: Arc<ClientConfig>) -> Result<ClientCrypto, Unusable> {
        Ok(ClientCrypto {
            config,
            initials: Initials::new()?,
        })
    }
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(self
            .initials
            .keys(known(version)?, id, rustls::Side::Server))
    }

    fn retry_tag(&self, version: u32, original: &ConnectionId, packet: &[u8]) -> [u8; TAG_BYTES] {
        let version = known(version).unwrap_or(Version::V1);
        let pseudo = pseudo_packet(version, original, &[packet]);
        let (key, nonce) = retry_secrets(version);
        let sealed = key.and_then(|key| {
            key.seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut [])
                .ok()
        });
        // AES-GCM of nothing under a fixed key does not fail; a tag of zeros would be refused by
        // the client.
        sealed
            .and_then(|tag| tag.as_ref().try_into().ok())
            .unwrap_or_default()
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let version = known(version).unwrap_or(Version::V1);
        let (configs, parameters) = (Arc::clone(&self.configs), encoded(parameters));
        let waiting = Waiting {
            configs,
            local: self.local,
            parameters,
            message: Vec::new(),
        };
        Box::new(Session::new(
            Stage::Waiting(waiting),
            version,
            self.initials,
            self.take_shown,
        ))
    }
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let version = known(version)?;
        let bad_name = || ConnectError::InvalidServerName(server_name.into());
        let name = ServerName::try_from(server_name)
            .map_err(|_| bad_name())?
            .to_owned();
        let session = quic::ClientConnection::new(
            Arc::clone(&self.config),
            version,
            name,
            encoded(parameters),
        );
        let session = session.map_err(|_| bad_name())?;
        Ok(Box::new(Session::new(
            Stage::Begun(Box::new(quic::Connection::Client(session))),
            version,
            self.initials,
            || None,
        )))
    }
}

struct Session {
    stage: Stage,
    version: Version,
    initials: Initials,
    next: Option<Secrets>,
    is_told: bool,
    take_shown: TakeShown,
    shown: Option<Arc<CertifiedKey>>,
    label: Label,
}

enum Stage {
    /// Server's side: for the ClientHello.
    Waiting(Waiting),
    Begun(Box<quic::Connection>),
}

struct Waiting {
    configs: Arc<dyn ChooseConfig>,
    local: Option<IpAddr>,
    parameters: Vec<u8>,
    message: Vec<u8>,
}

impl Session {
    fn new(stage: Stage, version: Version, initials: Initials, take_shown: TakeShown) -> Session {
        Session {
            stage,
            version,
            initials,
            next: None,
            is_told: false,
            take_shown,
            shown: None,
            label: Label::default(),
        }
    }

    fn tls(&self) -> Option<&quic::Connection> {
        match &self.stage {
            Stage::Begun(tls) => Some(tls),
            Stage::Waiting(_) => None,
        }
    }

    fn side(&self) -> Side {
        match self.tls() {
            Some(quic::Connection::Client(_)) => Side::Client,
            _ => Side::Server,
        }
    }

    fn server_name(&self) -> Option<&str> {
        match self.tls()? {
            quic::Connection::Server(session) => session.server_name(),
            quic::Connection::Client(_) => None,
        }
    }

    /// Begins where the ClientHello is there whole; what came of it so far is heard then.
    fn begin(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let Stage::Waiting(waiting) = &mut self.stage else {
            return self.hear(bytes);
        };
        waiting.message.extend_from_slice(bytes);
        let (config, label) = match waiting.configs.choose(&waiting.message, waiting.local) {
            Chosen::NotYet => return Ok(()),
            Chosen::Config(config, label) => (config, label),
            Chosen::Refused { alert, reason } => return Err(refused(alert, reason)),
        };
        let message = std::mem::take(&mut waiting.message);
        let session = quic::ServerConnection::new(
            config,
            self.version,
            std::mem::take(&mut waiting.parameters),
        );
        let session = session
            .map_err(|error| refused(AlertDescription::InternalError.into(), error.to_string()))?;
        self.stage = Stage::Begun(Box::new(quic::Connection::Server(session)));
        self.label = label;
        self.hear(&message)
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let Stage::Begun(tls) = &mut self.stage else {
            return Ok(());
        };
        let read = tls.read_hs(bytes);
        self.shown = (self.take_shown)().or(self.shown.take());
        let alert = tls.alert();
        read.map_err(|error| match alert {
            Some(alert) => refused(alert.into(), format!("TLS: {error}")),
            None => TransportError {
                code: TransportErrorCode::PROTOCOL_VIOLATION,
                frame: None,
                reason: format!("TLS: {error}"),
            },
        })
    }
}

fn refused(alert: u8, reason: String) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(alert),
        frame: None,
        reason,
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        let side = if side.is_client() {
            rustls::Side::Client
        } else {
            rustls::Side::Server
        };
        self.initials.keys(self.version, id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let tls = self.tls().filter(|_| self.is_told)?;
        let certificates = tls
            .peer_certificates()
            .filter(|_| self.side().is_server())
            .unwrap_or_default();
        Some(Box::new(Hello {
            server_name: self.server_name().map(str::to_owned),
            alpn: tls.alpn_protocol().map(<[u8]>::to_vec),
            suite: tls.negotiated_cipher_suite().map(|suite| suite.suite()),
            group: tls
                .negotiated_key_exchange_group()
                .map(|group| group.name()),
            kind: tls.handshake_kind(),
            client_certificates: certificates
                .iter()
                .map(|one| one.clone().into_owned())
                .collect(),
            shown: self.shown.clone(),
            label: self.label,
            quic_version: if matches!(self.version, Version::V2) {
                2
            } else {
                1
            },
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), packet_key(self.version, keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match self.tls()? {
            quic::Connection::Client(session) => Some(session.is_early_data_accepted()),
            quic::Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls().is_none_or(|tls| tls.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.begin(bytes)?;
        let Some(tls) = self.tls() else {
            return Ok(false);
        };
        let known =
            tls.alpn_protocol().is_some() || self.server_name().is_some() || !tls.is_handshaking();
        Ok(known && !std::mem::replace(&mut self.is_told, known))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.tls().and_then(|tls| tls.quic_transport_parameters()) else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(
            self.side(),
            &mut Cursor::new(bytes),
        )?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let Stage::Begun(tls) = &mut self.stage else {
            return None;
        };
        match tls.write_hs(out)? {
            KeyChange::Handshake { keys } => Some(both_ways(self.version, keys)),
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                Some(both_ways(self.version, keys))
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, original: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<TAG_BYTES>() else {
            return false;
        };
        let pseudo = pseudo_packet(self.version, original, &[header, token]);
        let (key, nonce) = retry_secrets(self.version);
        key.is_some_and(|key| {
            key.open_in_place(nonce, Aad::from(pseudo), &mut tag.to_vec())
                .is_ok()
        })
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let tls = self.tls().ok_or(ExportKeyingMaterialError)?;
        tls.export_keying_material(out, label, Some(context))
            .map(drop)
            .map_err(|_| ExportKeyingMaterialError)
    }
}

fn known(version: u32) -> Result<Version, UnsupportedVersion> {
    match version {
        VERSION_1 => Ok(Version::V1),
        VERSION_2 => Ok(Version::V2),
        _ => Err(UnsupportedVersion),
    }
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    bytes
}

fn both_ways(version: Version, keys: quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: packet_key(version, keys.local.packet),
            remote: packet_key(version, keys.remote.packet),
        },
    }
}

fn packet_key(version: Version, key: Box<dyn quic::PacketKey>) -> Box<dyn PacketKey> {
    match version {
        Version::V2 => Box::new(second_version::Key(key)),
        _ => Box::new(key),
    }
}

/// RFC 9001 section 5.8.
fn pseudo_packet(version: Version, original: &ConnectionId, parts: &[&[u8]]) -> Vec<u8> {
    let length = u8::try_from(original.len()).unwrap_or(u8::MAX);
    let mut packet = [&[length], &original[..], &parts.concat()].concat();
    if let (Version::V2, Some(first)) = (version, packet.get_mut(1 + original.len())) {
        *first = second_version::to_wire(*first);
    }
    packet
}

/// Keys that everybody knows: RFC 9001 section 5.8, RFC 9369 section 3.3.3.
fn retry_secrets(version: Version) -> (Option<LessSafeKey>, Nonce) {
    let (key, nonce) = match version {
        Version::V2 => (
            0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128,
            0xd869_69bc_2d7c_6d99_90ef_b04a_u128,
        ),
        _ => (
            0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e,
            0x4615_99d3_5d63_2bf2_2398_25bb,
        ),
    };
    let mut nonce_bytes = [0; 12];
    nonce_bytes.copy_from_slice(&nonce.to_be_bytes()[4..]);
    let key = UnboundKey::new(&AES_128_GCM, &key.to_be_bytes())
        .ok()
        .map(LessSafeKey::new);
    (key, Nonce::assume_unique_for_key(nonce_bytes))
}
