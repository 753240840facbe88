//! rustls' buffered client and our session, joined in memory.

use super::authority::{Authority, LOCAL};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, SupportedProtocolVersion,
    WantsVerifier,
    client::{Resumption, WantsClientCert},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use saker_tls::{Acceptor, Received, ServerSession, State, TlsError};
use std::{
    io::{Read, Write},
    net::IpAddr,
    sync::Arc,
};

pub static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

pub struct Pair {
    pub client: ClientConnection,
    pub server: ServerSession,
    /// Bytes that the client sent and the server has not used.
    pub to_server: Vec<u8>,
    /// Plaintext that the server received.
    pub plain: Vec<u8>,
    pub state: State,
    /// The server is given so many bytes at a time.
    pub step: usize,
    pub client_error: Option<rustls::Error>,
    /// Plaintext that the client received.
    pub heard: Vec<u8>,
}

pub fn builder(
    versions: &[&'static SupportedProtocolVersion],
) -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
}

pub fn trusting(
    roots: RootCertStore,
    versions: &[&'static SupportedProtocolVersion],
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder(versions).with_root_certificates(roots)
}

pub fn client_config(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut config = resuming_config(authority, versions);
    config.resumption = Resumption::disabled();
    config
}

/// Keeps tickets.
pub fn resuming_config(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    trusting(authority.roots(), versions).with_no_client_auth()
}

impl Pair {
    pub fn new(config: &Arc<ClientConfig>, acceptor: &Acceptor, name: &str) -> Pair {
        Pair::at(config, acceptor, name, LOCAL)
    }

    /// Pair whose client has connected to that address.
    pub fn at(config: &Arc<ClientConfig>, acceptor: &Acceptor, name: &str, local: IpAddr) -> Pair {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
        client.set_buffer_limit(None);
        Pair {
            client,
            server: acceptor.accept(local),
            to_server: Vec::new(),
            plain: Vec::new(),
            state: State::Handshaking,
            step: usize::MAX,
            client_error: None,
            heard: Vec::new(),
        }
    }

    /// Handshakes; the fault if it came to one.
    pub fn shake(&mut self) -> Result<(), TlsError> {
        for _ in 0..20 {
            self.exchange()?;
        }
        assert!(
            self.client_error.is_some()
                || (!self.client.is_handshaking() && !self.server.is_handshaking()),
            "it hangs"
        );
        Ok(())
    }

    pub fn shaken(config: &Arc<ClientConfig>, acceptor: &Acceptor, name: &str) -> Pair {
        let mut pair = Pair::new(config, acceptor, name);
        pair.shake().unwrap();
        assert_eq!(pair.client_error, None);
        pair
    }

    /// Passes the client's output to the server, and the reply back.
    pub fn exchange(&mut self) -> Result<(), TlsError> {
        let mut sent = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut sent).unwrap();
        }
        for piece in sent.chunks(self.step.min(sent.len().max(1))) {
            self.give(piece)?;
        }
        Ok(())
    }

    /// Gives bytes to the server as they are.
    pub fn give(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        self.to_server.extend_from_slice(bytes);
        let mut out = Vec::new();
        let received = self
            .server
            .receive(&mut self.to_server, &mut self.plain, &mut out);
        self.hand_to_client(&out);
        let Received { used, state } = received?;
        self.to_server.drain(..used);
        self.state = state;
        Ok(())
    }

    pub fn hand_to_client(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.client_error.is_none() {
            self.client.read_tls(&mut bytes).unwrap();
            if let Err(error) = self.client.process_new_packets() {
                self.client_error = Some(error);
            }
            // An error here says that there is nothing more for now.
            let _ = self.client.reader().read_to_end(&mut self.heard);
        }
    }

    /// The client says something; what the server understood.
    pub fn say(&mut self, text: &[u8]) -> Vec<u8> {
        self.client.writer().write_all(text).unwrap();
        self.exchange().unwrap();
        std::mem::take(&mut self.plain)
    }

    /// The server says something; what the client understood.
    pub fn answer(&mut self, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        self.server.send_parts(parts, &mut out).unwrap();
        self.hand_to_client(&out);
        std::mem::take(&mut self.heard)
    }

    pub fn leaf(&self) -> CertificateDer<'static> {
        self.client.peer_certificates().unwrap()[0]
            .clone()
            .into_owned()
    }

    pub fn resumed(&self) -> bool {
        let resumed = self.server.info().unwrap().resumed;
        assert_eq!(
            self.client.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
            resumed
        );
        resumed
    }
}
