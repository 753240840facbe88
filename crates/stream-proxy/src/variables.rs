//! Values of the variables that every session has.
//!
//! Called by: rules and logs of front ends.
//! Caveat: values that are read before a session has ended are not those of its end.
//! Out of scope: variables that a configuration defines, and those that only nginx has.

use crate::{
    attempt::Attempt,
    session::{Session, SessionProtocol},
};
use saker_config::model::SessionVariable;
use saker_net::clock;
use std::{fmt::Display, net::IpAddr};

impl Session {
    /// Returns the value of a variable; `None`: it has none.
    pub fn value(&self, variable: SessionVariable) -> Option<Vec<u8>> {
        let text = |text: &dyn Display| Some(text.to_string().into_bytes());
        match variable {
            SessionVariable::BinaryRemoteAddr => Some(match self.is_unix() {
                true => b"unix:".to_vec(),
                false => match self.client.ip().to_canonical() {
                    IpAddr::V4(address) => address.octets().to_vec(),
                    IpAddr::V6(address) => address.octets().to_vec(),
                },
            }),
            SessionVariable::RemoteAddr if self.is_unix() => text(&"unix:"),
            SessionVariable::RemoteAddr => text(&self.client.ip().to_canonical()),
            SessionVariable::RemotePort if self.is_unix() => text(&""),
            SessionVariable::RemotePort => text(&self.client.port()),
            SessionVariable::RealipRemoteAddr => text(&self.peer.ip().to_canonical()),
            SessionVariable::RealipRemotePort => text(&self.peer.port()),
            SessionVariable::ServerAddr => text(&self.local.ip().to_canonical()),
            SessionVariable::ServerPort => text(&self.local.port()),
            SessionVariable::Protocol => text(&match self.protocol {
                SessionProtocol::Tcp => "TCP",
                SessionProtocol::Udp => "UDP",
            }),
            SessionVariable::Connection => text(&self.number),
            SessionVariable::BytesReceived => text(&self.bytes_received),
            SessionVariable::BytesSent => text(&self.bytes_sent),
            SessionVariable::Status => text(&format_args!("{:03}", self.status)),
            SessionVariable::SessionTime => text(&seconds(self.age_ms())),
            SessionVariable::Pid => text(&std::process::id()),
            SessionVariable::Msec => text(&seconds(clock::realtime_precise_ns() / 1_000_000)),
            _ => self.of_proxies(variable),
        }
    }

    /// Returns values that proxies, TLS, and upstreams give.
    fn of_proxies(&self, variable: SessionVariable) -> Option<Vec<u8>> {
        let text = |text: &dyn Display| Some(text.to_string().into_bytes());
        let (source, destination) = self.proxied.unzip();
        match variable {
            SessionVariable::ProxyProtocolAddr => text(&source?.ip()),
            SessionVariable::ProxyProtocolPort => text(&source?.port()),
            SessionVariable::ProxyProtocolServerAddr => text(&destination?.ip()),
            SessionVariable::ProxyProtocolServerPort => text(&destination?.port()),
            SessionVariable::SslPrereadServerName => {
                text(self.hello.as_ref()?.server_name.as_ref()?)
            }
            SessionVariable::SslPrereadProtocol => text(&self.hello.as_ref()?.version?),
            SessionVariable::SslPrereadAlpnProtocols => {
                let protocols = &self.hello.as_ref()?.protocols;
                (!protocols.is_empty()).then(|| protocols.join(&b','))
            }
            SessionVariable::SslProtocol => text(&self.tls.as_ref()?.version.name()),
            SessionVariable::SslCipher => text(&self.tls.as_ref()?.cipher_openssl),
            SessionVariable::SslCurve => text(&self.tls.as_ref()?.group?),
            SessionVariable::SslServerName => text(self.tls.as_ref()?.server_name.as_ref()?),
            SessionVariable::SslAlpnProtocol => self.tls.as_ref()?.alpn.clone(),
            SessionVariable::SslSessionReused => {
                let is_resumed = self.tls.as_ref()?.resumed;
                text(&if is_resumed { "r" } else { "." })
            }
            SessionVariable::UpstreamAddr => self.each(|attempt| attempt.address.to_string()),
            SessionVariable::UpstreamBytesSent => {
                self.each(|attempt| attempt.bytes_sent.to_string())
            }
            SessionVariable::UpstreamBytesReceived => {
                self.each(|attempt| attempt.bytes_received.to_string())
            }
            SessionVariable::UpstreamConnectTime => {
                self.each(|attempt| attempt.connect_ms.map_or("-".to_owned(), seconds))
            }
            SessionVariable::UpstreamFirstByteTime => {
                self.each(|attempt| attempt.first_byte_ms.map_or("-".to_owned(), seconds))
            }
            SessionVariable::UpstreamSessionTime => {
                self.each(|attempt| seconds(attempt.session_ms))
            }
            _ => None,
        }
    }

    /// A value of each member that was tried.
    fn each(&self, value: impl Fn(&Attempt) -> String) -> Option<Vec<u8>> {
        let all: Vec<String> = self.attempts.iter().map(value).collect();
        (!all.is_empty()).then(|| all.join(", ").into_bytes())
    }
}

/// Seconds with milliseconds.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
