//! The conversation with a successor that takes over from a running server, on both sides.
//!
//! Called by: `server`, for the verb `upgrade`; the successor's start ([`ask`]).
//! Caveat: nothing is given away before the successor listens: it gets duplicates of the sockets,
//! and this server accepts connections all along. If the successor's end of the connection closes
//! before it has said that it listens, this server takes back what it has let go.
//! Out of scope: what is handed over (`Control`); starting the successor (`saker_cli`).

use crate::{
    client::{self, ClientError},
    handler::{Forwarded, Offer},
    protocol::{self, CLOSED, DESCRIPTORS, FIGURES, LISTENING, READY, RELEASED, STORE},
    server::{ControlExchange, WRITE_TIMEOUT},
};
use saker_net::wire;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
    time::timeout,
};

/// Environment variable that tells a new process what it is for.
pub const VARIABLE: &str = "SAKER_UPGRADE";
/// Its value for a server that takes over from the running one.
pub const TAKE_OVER: &str = "take over";
/// Its value for a process that reads the configuration and ends.
pub const CHECK: &str = "check";

/// Time for a successor to read its configuration and its certificates.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for it to open the page cache and to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

impl ControlExchange {
    /// Goes on until this server ends, which its successor sees by the end of the connection; or
    /// until the successor has ended.
    pub(crate) async fn upgrade(&self, mut stream: UnixStream) {
        let alone = self.reloading.lock().await;
        let offered = match self.control.offer() {
            Ok(offer) => self.send_offer(&mut stream, offer).await,
            Err(reason) => {
                let refusal = protocol::json_line(&protocol::refusal(&reason));
                let _ = timeout(WRITE_TIMEOUT, stream.write_all(&refusal)).await;
                return;
            }
        };
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        let (Some(pid), true) = (pid, offered.is_ok() && self.is_taken(&mut stream).await) else {
            return self.control.withdraw().await;
        };
        self.handed_over.notify_one();
        self.control.upgraded(pid);
        drop(alone);
        self.accompany(stream).await;
    }

    /// The answer, and behind it the descriptors, the control socket's first.
    async fn send_offer(&self, stream: &mut UnixStream, offer: Offer) -> io::Result<()> {
        let listener = self.listener.upgrade().ok_or(io::ErrorKind::NotFound)?;
        let mut descriptors = vec![listener.as_fd().try_clone_to_owned()?];
        descriptors.extend(offer.descriptors);
        let mut answer = offer.answer;
        answer["descriptors"] = json!(descriptors.len());
        let sent = async {
            stream.write_all(&protocol::json_line(&answer)).await?;
            let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
            for some in borrowed.chunks(wire::DESCRIPTORS_MAX) {
                stream
                    .async_io(Interest::WRITABLE, || {
                        wire::send_packet(&*stream, DESCRIPTORS, some)
                    })
                    .await?;
            }
            Ok(())
        };
        timeout(WRITE_TIMEOUT, sent).await?
    }

    /// Returns true once the successor listens.
    async fn is_taken(&self, stream: &mut UnixStream) -> bool {
        if !is_said(stream, READY, READY_TIMEOUT).await || !self.control.release() {
            return false;
        }
        let told = timeout(WRITE_TIMEOUT, stream.write_all(RELEASED.as_bytes())).await;
        matches!(told, Ok(Ok(()))) && is_said(stream, LISTENING, LISTEN_TIMEOUT).await
    }

    /// Passes on what this server still learns about the page cache, and what it still counts.
    async fn accompany(&self, mut stream: UnixStream) {
        let mut closed = self.control.listeners_closed();
        let mut is_closed = false;
        loop {
            let line = tokio::select! {
                () = &mut closed, if !is_closed => {
                    is_closed = true;
                    CLOSED.to_owned()
                }
                message = self.control.forwarded() => forwarded_line(&message),
            };
            // A successor that is gone has no use for it; a slow one gets it late.
            let _ = stream.write_all(line.as_bytes()).await;
        }
    }
}

async fn is_said(stream: &mut UnixStream, word: &str, patience: Duration) -> bool {
    let mut said = vec![0; word.len()];
    let read = timeout(patience, stream.read_exact(&mut said)).await;
    matches!(read, Ok(Ok(_))) && said == word.as_bytes()
}

fn forwarded_line(message: &Forwarded) -> String {
    let (mut line, bytes) = match message {
        Forwarded::Store(bytes) => (STORE.to_owned(), bytes),
        Forwarded::Figures(bytes) => (FIGURES.to_owned(), bytes),
    };
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    line
}

/// The message of a predecessor's line. `None`: it is about something else.
pub fn forwarded(line: &str) -> Option<Forwarded> {
    let line = line.trim_end();
    match line.strip_prefix(STORE) {
        Some(digits) => Some(Forwarded::Store(bytes_of(digits)?)),
        None => Some(Forwarded::Figures(bytes_of(line.strip_prefix(FIGURES)?)?)),
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// Returns true in a process that `saker upgrade` has started, whatever its task.
pub fn is_upgrade() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Asks the running server of a state directory for what it has: the connection, the answer, and
/// the descriptors.
///
/// # Errors
/// No server runs there, or it refuses.
pub fn ask(
    state_dir: &Path,
) -> Result<(std::os::unix::net::UnixStream, Value, Vec<OwnedFd>), ClientError> {
    let (stream, answer) = client::begin(state_dir, "upgrade")?;
    let count = answer["descriptors"].as_u64().unwrap_or(0);
    let mut descriptors = Vec::new();
    while (descriptors.len() as u64) < count {
        match wire::receive_packet(&stream) {
            Ok(Some((DESCRIPTORS, some))) if !some.is_empty() => descriptors.extend(some),
            Ok(_) => return Err(ClientError::Garbled("descriptors are missing".into())),
            Err(error) => return Err(ClientError::Io(state_dir.to_owned(), error)),
        }
    }
    Ok((stream, answer, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_to_the_successor() {
        let bytes = vec![0, 15, 255, b'\n'];
        for (message, want) in [
            (Forwarded::Store(bytes.clone()), "store 000fff0a\n"),
            (Forwarded::Figures(bytes), "figures 000fff0a\n"),
        ] {
            assert_eq!(forwarded_line(&message), want);
            assert_eq!(forwarded(want), Some(message));
        }
        for odd in [CLOSED, "store 0g", "store \u{e4}", "figures 0g", ""] {
            assert_eq!(forwarded(odd), None, "{odd}");
        }
    }
}
