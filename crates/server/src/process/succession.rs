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

use super::upgrade_state::HandedState;
use saker_cache_store::{Forward, Store};
use saker_config::model::Address;
use saker_control::{CLOSED, Forwarded, LISTENING, client};
use saker_net::{BoundSocket, steering};
use serde_json::Value;
use std::{
    cell::{Cell, RefCell},
    io::{self, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncReadExt,
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
};

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
#[derive(Default)]
pub struct Successor {
    /// It has the state directory.
    asked: Cell<bool>,
    listening: Cell<Option<Instant>>,
    failed: Cell<bool>,
    listeners_closed: Cell<bool>,
    changed: Notify,
    /// It has duplicates of the sockets while this server runs.
    offered: Cell<bool>,
    /// It serves from the same sockets.
    upgraded: Cell<bool>,
    forwarding: RefCell<Option<Rc<Forwarding>>>,
    /// File that the state is written to when the successor could serve.
    offered_state: RefCell<Option<OwnedFd>>,
    /// State that it has got.
    handed_state: RefCell<Option<HandedState>>,
}

/// Messages on their way to the server that has the page cache now.
pub struct Forwarding {
    sender: UnboundedSender<Forwarded>,
    messages: tokio::sync::Mutex<UnboundedReceiver<Forwarded>>,
    /// Sent, and not yet on their way.
    waiting: Arc<AtomicUsize>,
    /// Messages that were taken and are being written.
    taken: Cell<usize>,
    /// The store that they go to where the successor has ended.
    own: Arc<OnceLock<Arc<Store>>>,
}

impl Forwarding {
    pub fn new() -> (Forward, Forwarding) {
        let (sender, receiver) = unbounded_channel();
        let (waiting, own) = (
            Arc::<AtomicUsize>::default(),
            Arc::<OnceLock<Arc<Store>>>::default(),
        );
        let (counted, kept) = (Arc::clone(&waiting), Arc::clone(&own));
        let told = UnboundedSender::clone(&sender);
        let forward = Box::new(move |message: Vec<u8>| match kept.get() {
            // A failure has been reported, and the purge holds.
            Some(store) => drop(store.apply(&message)),
            None => {
                counted.fetch_add(1, Ordering::Relaxed);
                // The receiver lives as long as the server.
                let _ = told.send(Forwarded::Store(message));
            }
        });
        let forwarding = Forwarding {
            sender,
            messages: tokio::sync::Mutex::new(receiver),
            waiting,
            taken: Cell::new(0),
            own,
        };
        (forward, forwarding)
    }

    fn tell(&self, message: Forwarded) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The receiver is here.
        let _ = self.sender.send(message);
    }

    /// The next message; the one before is on its way.
    async fn next(&self) -> Forwarded {
        self.waiting
            .fetch_sub(self.taken.replace(0), Ordering::Relaxed);
        match self.messages.lock().await.recv().await {
            Some(message) => {
                self.taken.set(1);
                message
            }
            None => std::future::pending().await,
        }
    }

    /// The store is this server's again: messages go to it, those that wait first.
    pub fn keep_to(&self, store: Option<Arc<Store>>) {
        let Some(store) = store else { return };
        let _ = self.own.set(Arc::clone(&store));
        if let Ok(mut messages) = self.messages.try_lock() {
            while let Ok(message) = messages.try_recv() {
                if let Forwarded::Store(message) = message {
                    let _ = store.apply(&message);
                }
            }
        }
    }
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

    pub fn is_offered(&self) -> bool {
        self.offered.get()
    }

    pub fn set_offered(&self, offered: bool) {
        self.offered.set(offered);
    }

    /// Returns true if the successor serves from the same sockets.
    pub fn is_upgraded(&self) -> bool {
        self.upgraded.get()
    }

    pub fn set_upgraded(&self) {
        self.upgraded.set(true);
    }

    pub fn set_forwarding(&self, forwarding: Option<Forwarding>) {
        *self.forwarding.borrow_mut() = forwarding.map(Rc::new);
    }

    pub fn take_forwarding(&self) -> Option<Rc<Forwarding>> {
        self.forwarding.borrow_mut().take()
    }

    /// Tells the server that serves from the same sockets.
    pub fn tell(&self, message: Forwarded) {
        self.forwarding
            .borrow()
            .iter()
            .for_each(|forwarding| forwarding.tell(message.clone()));
    }

    pub fn set_offered_state(&self, file: Option<OwnedFd>) {
        *self.offered_state.borrow_mut() = file;
    }

    pub fn take_offered_state(&self) -> Option<OwnedFd> {
        self.offered_state.borrow_mut().take()
    }

    pub fn set_handed_state(&self, state: Option<HandedState>) {
        *self.handed_state.borrow_mut() = state;
    }

    pub fn take_handed_state(&self) -> Option<HandedState> {
        self.handed_state.borrow_mut().take()
    }

    /// The next message for the successor.
    pub async fn forwarded(&self) -> Forwarded {
        let forwarding = self.forwarding.borrow().clone();
        match forwarding {
            Some(forwarding) => forwarding.next().await,
            None => std::future::pending().await,
        }
    }

    /// Returns true if the successor has been told everything.
    pub fn is_told(&self) -> bool {
        let forwarding = self.forwarding.borrow();
        forwarding
            .as_ref()
            .is_none_or(|forwarding| forwarding.waiting.load(Ordering::Relaxed) == 0)
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
