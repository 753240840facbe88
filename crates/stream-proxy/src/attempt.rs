//! One attempt at a member of an upstream, for the log.
//!
//! Called by: `tcp` and `datagrams`, which make one per member that they try.

/// An attempt at a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Address of the member.
    pub address: Box<str>,
    /// Time until the connection stood; `None`: it never did.
    pub connect_ms: Option<u64>,
    /// Time until the first byte of the member.
    pub first_byte_ms: Option<u64>,
    /// Time until the end.
    pub session_ms: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}
