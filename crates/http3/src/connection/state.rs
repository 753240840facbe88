//! State of a connection that several of its parts read or change.
//!
//! Called by: the connection, which owns these values, and the files beside this one, each of which
//! handles some kinds of streams and frames.

use crate::{
    frame::{FrameHeader, HeaderInParts},
    varint,
};

/// Progress of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// The first GOAWAY is out, without a real identifier.
    Announced,
    /// Requests from this one on are refused.
    Final {
        first_refused: u64,
    },
}

/// Reading position on the control stream.
#[derive(Default)]
pub(super) struct ControlReader {
    pub header: HeaderInParts,
    /// The frame whose payload is to come.
    pub frame: Option<FrameHeader>,
    pub payload: Vec<u8>,
    /// Bytes left of a frame of unknown type.
    pub skipped: u64,
}

/// State of the peer's unidirectional streams.
#[derive(Default)]
pub(super) struct PeerStreams {
    pub control: Option<u64>,
    pub encoder: Option<u64>,
    pub decoder: Option<u64>,
    /// Streams whose type has not come whole.
    untyped: Vec<Untyped>,
}

struct Untyped {
    stream: u64,
    bytes: [u8; 8],
    len: u8,
}

/// Purpose of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Control,
    Encoder,
    Decoder,
    /// We have asked the peer to stop.
    None,
}

impl PeerStreams {
    pub fn opened(&mut self, stream: u64) {
        self.untyped.push(Untyped {
            stream,
            bytes: [0; 8],
            len: 0,
        });
    }

    pub fn use_of(&self, stream: u64) -> Use {
        match Some(stream) {
            known if known == self.control => Use::Control,
            known if known == self.encoder => Use::Encoder,
            known if known == self.decoder => Use::Decoder,
            _ => Use::None,
        }
    }

    /// Takes the type's bytes from the input; `None`: it is not complete.
    pub fn take_type(&mut self, stream: u64, input: &mut &[u8]) -> Option<u64> {
        let at = self
            .untyped
            .iter()
            .position(|untyped| untyped.stream == stream)?;
        let untyped = self.untyped.get_mut(at)?;
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            if let Some(slot) = untyped.bytes.get_mut(usize::from(untyped.len)) {
                *slot = *byte;
                untyped.len += 1;
            }
            if let Some((kind, _)) = varint::parse(
                untyped
                    .bytes
                    .get(..usize::from(untyped.len))
                    .unwrap_or_default(),
            ) {
                self.untyped.swap_remove(at);
                return Some(kind);
            }
        }
        None
    }

    pub fn is_untyped(&self, stream: u64) -> bool {
        self.untyped.iter().any(|untyped| untyped.stream == stream)
    }

    pub fn forget(&mut self, stream: u64) {
        self.untyped.retain(|untyped| untyped.stream != stream);
    }
}
