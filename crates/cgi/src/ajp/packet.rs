//! Size of AJP packets.
//!
//! Called by: the dialogue and the code that makes its first packet.
//! Out of scope: packet types, which only the dialogue reads.

/// A packet of ours, its 4 bytes of head included. Containers may be set to take more; ours stay
/// with what each takes.
pub const PACKET_BYTES_MAX: usize = 8192;
