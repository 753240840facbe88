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
    protocol::{
        self, CLOSED, DESCRIPTORS, FIGURES, LEFT, LISTENING, READY, RELEASED, SERVES, STORE,
    },
    server::{ControlExchange, WRITE_TIMEOUT},
    state_dir::SOCKET,
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

/// Environment variable with the process that it takes over from: no other one, which may have
/// replaced that meanwhile. Absent: whichever runs.
pub const FROM: &str = "SAKER_UPGRADE_FROM";

/// Exit status of a process that was to take over while another one does so.
pub const UNDER_WAY: u8 = 4;

/// Time for a successor to read its configuration and its certificates.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for a successor that has just been killed to be known as gone. One that lives keeps the next
/// one out.
const TURN_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for it to say on which addresses: it writes both at once, if at all. Pages are still read
/// meanwhile.
const SERVED_TIMEOUT: Duration = Duration::from_millis(50);
/// Bytes of that line.
const SERVED_BYTES_MAX: usize = 1 << 20;
/// Time for it to open the page cache and to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

impl ControlExchange {
    /// Goes on until this server ends, which its successor sees by the end of the connection; or
    /// until the successor has ended.
    pub(crate) async fn upgrade(&self, mut stream: UnixStream) {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let pid = pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let (turn, holder) = &*self.upgrading;
        let Ok(turn) = timeout(TURN_TIMEOUT, turn.lock()).await else {
            let refusal = protocol::json_line(&protocol::refused_upgrade(holder.get()));
            let _ = timeout(WRITE_TIMEOUT, stream.write_all(&refusal)).await;
            return;
        };
        holder.set(pid);
        let alone = self.reloading.lock().await;
        let offered = match self.control.offer() {
            Ok(offer) => self.send_offer(&mut stream, offer).await,
            Err(reason) => {
                let refusal = protocol::json_line(&protocol::refusal(&reason));
                let _ = timeout(WRITE_TIMEOUT, stream.write_all(&refusal)).await;
                return;
            }
        };
        // Without a number, systemd could not be told which process it is.
        if pid == 0 || offered.is_err() || !self.is_taken(&mut stream).await {
            // The next one waits for the end of this.
            drop(turn);
            return self.control.withdraw().await;
        }
        self.handed_over.notify_one();
        let addresses = served(&mut stream).await;
        if let Some(addresses) = &addresses {
            self.control.leave(addresses).await;
        }
        self.control.upgraded(pid);
        if addresses.is_some() {
            // Where it can't be told, it waits for a moment.
            let _ = timeout(WRITE_TIMEOUT, stream.write_all(LEFT.as_bytes())).await;
        }
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
        matches!(told, Ok(Ok(()))) && is_listening(stream, LISTEN_TIMEOUT).await
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

/// The addresses that the successor listens on. `None`: it is of a version that doesn't say so.
async fn served(stream: &mut UnixStream) -> Option<Vec<String>> {
    let line = async {
        let mut line = Vec::new();
        // Byte by byte: what follows is not for this.
        while line.last() != Some(&b'\n') && line.len() < SERVED_BYTES_MAX {
            line.push(stream.read_u8().await.ok()?);
        }
        Some(line)
    };
    let line = timeout(SERVED_TIMEOUT, line).await.ok()??;
    serde_json::from_slice(line.strip_prefix(SERVES.as_bytes())?).ok()
}

/// Returns true once the successor says that it listens. Where it says nothing in time (it may have
/// been stopped), it can't say it later either: it fails to, and ends.
async fn is_listening(stream: &mut UnixStream, patience: Duration) -> bool {
    if is_said(stream, LISTENING, patience).await {
        return true;
    }
    let _ = rustix::net::shutdown(&*stream, rustix::net::Shutdown::Read);
    // It may have been said since.
    let mut said = [0; LISTENING.len()];
    let read = rustix::io::read(&*stream, &mut said);
    read.is_ok_and(|count| &said[..count] == LISTENING.as_bytes())
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
/// No server runs there, it refuses, or it is of a user that is not trusted with this server's
/// sockets.
pub fn ask(
    state_dir: &Path,
) -> Result<(std::os::unix::net::UnixStream, Value, Vec<OwnedFd>), ClientError> {
    let (stream, answer) = client::begin(state_dir, "upgrade")?;
    let socket = || state_dir.join(SOCKET);
    let uid = client::listening_uid(&stream).map_err(|error| ClientError::Io(socket(), error))?;
    if !client::is_trusted(uid) {
        return Err(ClientError::Stranger(socket(), uid));
    }
    if let Some(other) = another_server(&answer) {
        return Err(ClientError::UpgradeUnderWay(other));
    }
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

/// `Some`: the server that answers is not the one that was to be replaced.
fn another_server(answer: &Value) -> Option<String> {
    let from = std::env::var(FROM).ok()?;
    let pid = answer["pid"].as_u64()?.to_string();
    (from != pid).then(|| format!("pid {pid} has replaced pid {from} meanwhile"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Exactly one of both servers goes on.
    #[test]
    fn a_successor_that_is_late_cannot_say_that_it_listens() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let pair = || {
                let (own, other) = std::os::unix::net::UnixStream::pair().unwrap();
                own.set_nonblocking(true).unwrap();
                (UnixStream::from_std(own).unwrap(), other)
            };
            let (mut own, mut late) = pair();
            assert!(!is_listening(&mut own, Duration::ZERO).await);
            let error = late.write_all(LISTENING.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            let (mut own, mut just_in_time) = pair();
            just_in_time.write_all(LISTENING.as_bytes()).unwrap();
            assert!(is_listening(&mut own, Duration::ZERO).await);
            let (mut own, gone) = pair();
            drop(gone);
            assert!(!is_listening(&mut own, Duration::from_secs(60)).await);
        });
    }

    #[test]
    fn addresses_of_the_successor() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let heard = |text: &str| {
            runtime.block_on(async {
                let (own, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
                own.set_nonblocking(true).unwrap();
                let mut own = UnixStream::from_std(own).unwrap();
                other.write_all(text.as_bytes()).unwrap();
                drop(other);
                served(&mut own).await
            })
        };
        assert_eq!(
            heard("serves [\"127.0.0.1:80\",\"unix:/a b\"]\nmore"),
            Some(vec!["127.0.0.1:80".to_owned(), "unix:/a b".to_owned()])
        );
        assert_eq!(heard("serves []\n"), Some(Vec::new()));
        for odd in ["", "serves [", "serves {}\n", "[]\n", "serves [1]\n"] {
            assert_eq!(heard(odd), None, "{odd}");
        }
    }

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
