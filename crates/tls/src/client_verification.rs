//! Result of verifying a client's certificate.
//!
//! Called by: the verifier, which produces it, and the session's info, which reports it to logs and
//! programs.

/// Verification result of the client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientVerification {
    /// There is none.
    #[default]
    None,
    /// An authority of the site's vouches for it.
    Success,
    /// No trusted authority issued it, and the site accepts such certificates.
    Generous,
}

/// Verdict on a client's certificate in a handshake that succeeded.
#[derive(Debug, Default)]
pub struct Judged {
    pub verification: ClientVerification,
    /// Depth of the chain, as OpenSSL counts.
    pub depth: u32,
    /// Why the certificate counts as none.
    pub refusal: Option<Box<str>>,
}
