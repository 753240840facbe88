//! A connection of the console: bytes in and out, with or without TLS.
//!
//! Called by: `serve` and `events`.
//! Caveat: the TLS session owns no buffers, so ciphertext that is not used yet is kept here. Time
//! limits are the caller's.

use saker_tls::{ServerSession, State};
use std::io;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Duration, sleep},
};

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Unused ciphertext: a record and a part of the next.
const CIPHER_BYTES_MAX: usize = 40 << 10;
/// Interval of questions for a certificate that is being made.
const CERTIFICATE_PAUSE: Duration = Duration::from_millis(100);

pub struct Connection {
    stream: TcpStream,
    session: Option<ServerSession>,
    cipher: Vec<u8>,
    /// Content that has come and is not used yet.
    pub received: Vec<u8>,
}

impl Connection {
    pub fn new(stream: TcpStream, session: Option<ServerSession>) -> Connection {
        Connection {
            stream,
            session,
            cipher: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Waits for more content, which is appended to `received`. Returns `false` at its end.
    pub async fn receive(&mut self) -> io::Result<bool> {
        let Connection {
            stream,
            session,
            cipher,
            received,
        } = self;
        let Some(session) = session else {
            received.reserve(READ_BYTES);
            return Ok(stream.read_buf(received).await? > 0);
        };
        loop {
            if cipher.len() > CIPHER_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            cipher.reserve(READ_BYTES);
            if stream.read_buf(cipher).await? == 0 {
                return Ok(false);
            }
            let before = received.len();
            loop {
                let mut out = Vec::new();
                let step = session.receive(cipher, received, &mut out);
                // An alert, too.
                if !out.is_empty() {
                    stream.write_all(&out).await?;
                }
                let step = step.map_err(|fault| io::Error::other(fault.to_string()))?;
                cipher.drain(..step.used);
                if step.state == State::Closed {
                    return Ok(received.len() > before);
                }
                if !session.awaits_certificate() {
                    break;
                }
                sleep(CERTIFICATE_PAUSE).await;
            }
            if received.len() > before {
                return Ok(true);
            }
        }
    }

    pub async fn send(&mut self, content: &[u8]) -> io::Result<()> {
        match &mut self.session {
            None => self.stream.write_all(content).await,
            Some(session) => {
                let mut out = Vec::with_capacity(content.len() + 256);
                session
                    .send(content, &mut out)
                    .map_err(|fault| io::Error::other(fault.to_string()))?;
                self.stream.write_all(&out).await
            }
        }
    }

    /// Says that nothing more is sent, and reads what is still on its way: unread bytes would reset
    /// the connection, and the response with it.
    pub async fn finish(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            let mut out = Vec::new();
            session.close(&mut out);
            self.stream.write_all(&out).await?;
        }
        self.stream.shutdown().await?;
        let mut rest = [0; 4096];
        let mut drained = 0;
        while drained < 4 << 20 {
            match self.stream.read(&mut rest).await? {
                0 => break,
                count => drained += count,
            }
        }
        Ok(())
    }
}
