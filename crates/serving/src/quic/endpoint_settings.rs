//! Settings of a QUIC endpoint: the model's limits, the process's secrets, and the current
//! certificates.
//!
//! Called by: `endpoint_loop`, at its start and whenever the configuration or a certificate has
//! changed.

use super::driver::Driver;
use crate::{quic_secrets::QuicShared, worker::Worker};
use saker_config::model::{Address, Congestion, Http3, Limits, Listener, Model};
use saker_quic::{ChooseConfig, Chosen, ServerCrypto, Settings, Unusable};
use saker_tls::{Acceptor, QuicAnswer, QuicConfigurations, take_shown};
use std::{
    collections::BTreeSet,
    iter,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

/// Settings of a listener's endpoint; rebuilt after a reload.
pub struct EndpointSettings {
    pub acceptor: Acceptor,
    /// Address of the listener: another one than the socket's after a reload that has moved it.
    pub address: Address,
    pub http3: Http3,
    pub settings: Settings,
    /// The settings that clients remember for early data.
    promises: String,
    /// Versions of the configuration and of the certificates.
    pub generation: u64,
    pub certificates: u64,
}

impl EndpointSettings {
    /// `None`: the listener is no longer in the configuration, or has HTTP/3 disabled.
    pub fn of<D: Driver>(worker: &Worker, address: &Address) -> Option<EndpointSettings> {
        let services = worker.services();
        let model = &services.generation.model;
        let Address::Tcp(local) = address else {
            return None;
        };
        let listener = model.listener_of(address, *local)?;
        let http3 = listener.http3.clone()?;
        let acceptor = worker.tls.borrow().acceptor(&listener.address)?.clone();
        let certificates = acceptor.identities().version();
        let settings = settings(&http3, &model.limits);
        let promises = promises::<D>(&settings, listener, model);
        Some(EndpointSettings {
            acceptor,
            address: listener.address.clone(),
            http3,
            settings,
            promises,
            generation: services.generation.number,
            certificates,
        })
    }

    /// Costs two comparisons while nothing has changed.
    pub fn is_current(&self, worker: &Worker) -> bool {
        worker.services.borrow().generation.number == self.generation
            && self.acceptor.identities().version() == self.certificates
    }

    pub fn crypto(&self, shared: &QuicShared) -> Result<ServerCrypto, Unusable> {
        let sessions = self
            .http3
            .early_data
            .then_some((&shared.sessions, self.promises.as_bytes()));
        let configurations = self
            .acceptor
            .for_quic(sessions)
            .map_err(|error| Unusable(error.to_string()))?;
        let address = match &self.address {
            Address::Tcp(address) => address.ip(),
            Address::Unix(_) => Ipv4Addr::UNSPECIFIED.into(),
        };
        ServerCrypto::new(
            Arc::new(BySite {
                configurations,
                address,
            }),
            take_shown,
        )
    }
}

/// Set if sites have different requirements for a handshake.
struct BySite {
    configurations: QuicConfigurations,
    /// The listener's; as routing has it where the socket does not tell.
    address: IpAddr,
}

impl ChooseConfig for BySite {
    fn choose(&self, message: &[u8], local: Option<IpAddr>) -> Chosen {
        match self
            .configurations
            .answer(message, local.unwrap_or(self.address))
        {
            QuicAnswer::NotYet => Chosen::NotYet,
            QuicAnswer::Configuration(config, policy) => Chosen::Config(config, *policy.as_bytes()),
            QuicAnswer::Refused { alert, reason } => Chosen::Refused { alert, reason },
        }
    }

    fn depends_on_local(&self) -> bool {
        self.configurations.depends_on_local()
    }
}

/// Transport parameters and SETTINGS that a client may go by in 0-RTT (RFC 9000 section 7.4.1, RFC
/// 9114 section 7.2.4.2), of all sites, since the handshake's name decides. Sessions from before a
/// change of these are not taken up again.
fn promises<D: Driver>(settings: &Settings, listener: &Listener, model: &Model) -> String {
    let Settings {
        streams_max,
        unidirectional_streams_max,
        stream_window_bytes,
        connection_window_bytes,
        ..
    } = settings;
    let of_sites = model.sites.iter().filter_map(|site| site.limits.as_deref());
    let heads: BTreeSet<[u32; 3]> = iter::once(&model.limits)
        .chain(of_sites)
        .map(D::promised)
        .collect();
    let websockets = listener.http2_websockets;
    format!(
        "{streams_max} {unidirectional_streams_max} {stream_window_bytes} {connection_window_bytes} {websockets} {heads:?}"
    )
}

/// HTTP/2's limits that have the same meaning here. The driver ends connections by timeouts of its
/// own; QUIC's idle timeout is for vanished clients, and slightly longer, so that the driver's
/// comes first.
fn settings(http3: &Http3, limits: &Limits) -> Settings {
    const LONGER_MS: u64 = 5_000;
    Settings {
        congestion: match http3.congestion {
            Congestion::Cubic => saker_quic::Congestion::Cubic,
            Congestion::Bbr => saker_quic::Congestion::Bbr,
            Congestion::NewReno => saker_quic::Congestion::NewReno,
        },
        idle_timeout_ms: limits
            .keep_alive_timeout_ms
            .max(limits.body_timeout_ms)
            .saturating_add(LONGER_MS),
        handshake_timeout_ms: limits.tls_handshake_timeout_ms,
        streams_max: http3
            .streams_max
            .unwrap_or_else(|| u32::try_from(limits.http2_streams_max).unwrap_or(u32::MAX)),
        stream_window_bytes: http3.stream_window_bytes.unwrap_or_else(|| {
            u32::try_from(limits.http2_window_bytes)
                .unwrap_or(u32::MAX)
                .max(Settings::default().stream_window_bytes)
        }),
        handshakes_unproved_max: match http3.always_validates {
            true => 0,
            false => Settings::default().handshakes_unproved_max,
        },
        ..Settings::default()
    }
}
