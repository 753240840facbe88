//! Packets of LSAPI: their types and the size of their header.
//!
//! Called by: the dialogue and the code that makes its first packet.
//! Out of scope: what a packet's payload means.

/// Packet types, from the server's side and from the program's.
pub mod kind {
    pub const BEGIN_REQUEST: u8 = 1;
    pub const RESP_HEADER: u8 = 3;
    pub const RESP_STREAM: u8 = 4;
    pub const RESP_END: u8 = 5;
    pub const STDERR_STREAM: u8 = 6;
    pub const REQ_RECEIVED: u8 = 7;
    pub const CONN_CLOSE: u8 = 8;
    pub const INTERNAL_ERROR: u8 = 9;
}

pub const PACKET_HEADER_BYTES: usize = 8;
