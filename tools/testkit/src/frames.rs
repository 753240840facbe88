//! A raw HTTP/2 client: it sends the frames it is given, however wrong, and reads what comes (RFC
//! 9113 section 4.1).
//!
//! Over plain TCP with prior knowledge. Field blocks are literals without indexing (RFC 7541
//! section 6.2.2), which every decoder takes and which need no state. Absent on purpose: streams,
//! windows, decoding of responses: a test that wants those uses a real client.

use crate::wait::{PATIENCE, keep_waiting};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The code of an RST_STREAM or GOAWAY.
    pub fn error_code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(
            self.payload.get(at..at + 4)?.try_into().ok()?,
        ))
    }
}

pub struct Frames {
    stream: TcpStream,
}

impl Frames {
    /// Connects and sends the preface with empty SETTINGS.
    pub fn connect(address: SocketAddr) -> io::Result<Frames> {
        let mut frames = Frames::connect_silently(address)?;
        frames.send_bytes(PREFACE)?;
        frames.send(SETTINGS, 0, 0, &[])?;
        Ok(frames)
    }

    pub fn connect_silently(address: SocketAddr) -> io::Result<Frames> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Frames { stream })
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Does nothing for this long, or until the server closes the connection.
    pub fn pause(&self, time: Duration) -> io::Result<()> {
        keep_waiting(&self.stream, time)
    }

    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.send_bytes(&frame(kind, flags, stream, payload))
    }

    /// A whole GET.
    pub fn get(&mut self, stream: u32, path: &str) -> io::Result<()> {
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &get_block(path))
    }

    /// `None` at the end of the connection, be it by a reset.
    pub fn read(&mut self) -> io::Result<Option<Frame>> {
        let mut head = [0; 9];
        if let Err(error) = self.stream.read_exact(&mut head) {
            let gone = matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            );
            return if gone { Ok(None) } else { Err(error) };
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        Ok(Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        }))
    }

    /// Reads on to the first frame of that kind that is no acknowledgement of ours; `None`: the
    /// connection ended before.
    pub fn read_until(&mut self, kind: u8) -> io::Result<Option<Frame>> {
        loop {
            match self.read()? {
                Some(frame) if frame.kind == kind => return Ok(Some(frame)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A field block of literals.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        string(name, &mut bytes);
        string(value, &mut bytes);
    }
    bytes
}

pub fn get_block(path: &str) -> Vec<u8> {
    block(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
    ])
}

pub fn head_block(path: &str) -> Vec<u8> {
    block(&[
        (":method", "HEAD"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
    ])
}

/// RFC 7541 sections 5.1 and 5.2, not Huffman coded.
fn string(text: &str, out: &mut Vec<u8>) {
    let mut length = text.len();
    if length < 127 {
        out.push(length as u8);
    } else {
        out.push(127);
        length -= 127;
        while length >= 128 {
            out.push((length % 128) as u8 | 128);
            length /= 128;
        }
        out.push(length as u8);
    }
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_blocks_on_the_wire() {
        assert_eq!(
            frame(PING, ACK, 0, &[7; 8]),
            [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &[7; 8]].concat()
        );
        assert_eq!(block(&[("a", "bc")]), [0, 1, b'a', 2, b'b', b'c']);
        // RFC 7541 appendix C.1.2: 1337 is 31 and 1306 in a prefix of 5 bits; of 7 bits: 127, then
        // 1210.
        let long = block(&[("a", &"x".repeat(1337))]);
        assert_eq!(
            &long[..6],
            [
                0,
                1,
                b'a',
                127,
                (1210 % 128) as u8 | 128,
                1210u16.div_euclid(128) as u8
            ]
        );
    }
}
