//! TLS without sockets: sessions as functions over bytes, certificates by name, tickets, client
//! certificates.
//!
//! Floor 3. A worker hands what it read to [`ServerSession::receive`] and sends what came of it;
//! sessions own no buffers between calls. [`Identities`] holds the certificates of a configuration
//! and swaps them while handshakes run; an [`Acceptor`] per listener makes sessions; [`Tickets`]
//! lets clients resume on any worker, and on any machine that has the same key files. The handshake
//! is rustls', with the cryptography of aws-lc-rs; records after it are sealed and opened here
//! (`records`). Absent on purpose: TLS 1.1 and below, renegotiation, early data over TCP,
//! compression, session ids kept by the server but for QUIC.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod acceptor;
mod chain_depth;
mod client;
mod client_files;
mod client_hello;
mod client_verification;
mod client_verifier;
mod configurations;
mod der;
mod early;
mod encrypted_key;
mod error;
mod identities;
mod local_authority;
mod ocsp;
mod offered;
mod policy;
mod preread;
mod provider;
mod quic;
mod revocation;
mod server_verifier;
mod session;
mod tickets;
mod unfollowed;
mod unix_time;
mod upstream_revocation;
mod variables;
mod version1;
mod x509;

pub use acceptor::Acceptor;
pub use client::{ClientSession, ClientTls};
pub use client_verification::ClientVerification;
pub use configurations::take_shown;
pub use der::is_for_name;
pub use early::EarlySessions;
pub use error::{TlsError, Whose};
pub use identities::{
    Certificate, Identities, Installed, LoadProblem, OnDemand, RunTime, Severity, StapleState,
};
pub use local_authority::{LocalCertificate, certificate_name, local_authority, local_certificate};
pub use ocsp::Question as OcspQuestion;
pub use policy::PolicyDigest;
pub use preread::{HelloFacts, Preread, preread};
pub use quic::{QuicAnswer, QuicConfigurations};
pub use session::{Agreed, INPUT_BYTES_MAX, Received, ServerSession, SessionInfo, State, Version};
pub use tickets::{OwnKeys, Tickets};
pub use x509::NameForm;

/// The protocol name of ACME's challenge over TLS (RFC 8737 section 6.2).
pub const ACME_TLS_ALPN: &[u8] = b"acme-tls/1";

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_tls;
#[cfg(test)]
mod tests;
