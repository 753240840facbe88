//! One server takes over from another that is stopping: the successor's side, and the state of the
//! stopping one.
//!
//! Called by: start and supervisor. A stopping server accepts connections for as long as it waits
//! for open requests, or until a successor listens. The successor requests the state directory on
//! the control socket and keeps that connection: each side reports its progress over it, and its
//! end means that the predecessor is gone. Both listen for a moment (SO_REUSEPORT); the kernel is
//! told to route new connections to the successor before the predecessor closes its sockets, so
//! that none is lost.
//! Caveat: a page cache has one writer, and so have UDP ports. The successor waits for the
//! predecessor's end, and then begins with an empty cache, since it has missed purges.
//! Out of scope: starting the successor, which is up to the service manager or the administrator.

use saker_config::model::Address;
use saker_control::{CLOSED, LISTENING, client};
use saker_net::{BoundSocket, steering};
use serde_json::Value;
use std::{
    cell::Cell,
    io::{self, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};
use tokio::{io::AsyncReadExt, sync::Notify};

/// Time in which the predecessor listens beside its successor: earlier connections can still send
/// their first bytes.
pub const GRACE: Duration = Duration::from_secs(1);

/// The server that this one takes over from.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
    pub pid: u64,
    workers: usize,
    listeners: Vec<String>,
}

impl Predecessor {
    /// Asks the server that has the lock of the state directory. `None`: no server is stopping.
    pub fn ask(state_dir: &Path) -> Option<Predecessor> {
        let (stream, answer) = client::take_over(state_dir).ok()?;
        let number = |name: &str| answer.get(name).and_then(Value::as_u64);
        let listeners = answer.get("listeners").and_then(Value::as_array)?;
        Some(Predecessor {
            stream,
            pid: number("pid")?,
            workers: usize::try_from(number("workers")?).ok()?,
            listeners: listeners
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Returns true if the predecessor listens there.
    pub fn has(&self, address: &Address) -> bool {
        self.listeners.contains(&address.to_string())
    }

    /// It may close its listeners.
    pub fn say_listening(&self) {
        // One that is gone has closed them.
        let _ = (&self.stream).write_all(LISTENING.as_bytes());
    }

    /// Leads new connections here. `sockets`: the first of each address that both listen on.
    pub fn prefer(&self, sockets: &[BoundSocket]) {
        // Where the kernel can't, some connections go to the predecessor for a moment more.
        sockets
            .iter()
            .for_each(|socket| drop(steering::prefer(socket, self.workers)));
    }

    fn into_stream(self) -> io::Result<tokio::net::UnixStream> {
        self.stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(self.stream)
    }
}

/// Returns once the predecessor has ended. From when it has closed its listeners on, the kernel
/// chooses among the successor's own.
pub async fn until_gone(predecessor: Predecessor, shared: Vec<BoundSocket>) {
    let Ok(mut stream) = predecessor.into_stream() else {
        return;
    };
    let mut said = [0; CLOSED.len()];
    let _ = stream.read_exact(&mut said).await;
    shared
        .iter()
        .for_each(|socket| drop(steering::prefer_none(socket)));
    drop(shared);
    while stream.read(&mut said).await.is_ok_and(|count| count > 0) {}
}

/// A stopping server's knowledge of its successor.
#[derive(Debug, Default)]
pub struct Successor {
    /// It has the state directory.
    asked: Cell<bool>,
    listening: Cell<Option<Instant>>,
    failed: Cell<bool>,
    listeners_closed: Cell<bool>,
    changed: Notify,
}

impl Successor {
    pub fn has_asked(&self) -> bool {
        self.asked.get()
    }

    pub fn set_asked(&self) {
        self.asked.set(true);
    }

    pub fn set_listening(&self) {
        self.listening
            .set(Some(self.listening.get().unwrap_or_else(Instant::now)));
    }

    /// It has ended before it listened.
    pub fn set_failed(&self) {
        self.failed.set(true);
    }

    /// Returns true if the successor is about to listen.
    pub fn is_awaited(&self) -> bool {
        self.asked.get() && !self.failed.get()
    }

    /// Returns true if the successor has listened long enough.
    pub fn is_there(&self) -> bool {
        self.listening
            .get()
            .is_some_and(|since| since.elapsed() >= GRACE)
    }

    pub fn set_listeners_closed(&self) {
        self.listeners_closed.set(true);
        self.changed.notify_waiters();
    }

    pub async fn listeners_closed(&self) {
        while !self.listeners_closed.get() {
            self.changed.notified().await;
        }
    }
}
