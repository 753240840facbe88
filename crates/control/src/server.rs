//! The server side of the control socket: accept, read one request, answer, close.
//!
//! Called by: the main loop; never on a worker.
//! Caveat: a peer may send nothing, too much, or stop reading, and must not delay the next one.
//! Every wait on a peer has a deadline, and connections are counted; further ones stay in the
//! backlog.
//! Out of scope: keep-alive; the conversation of an upgrade (`upgrade`).

use crate::{
    handler::Control,
    peers::{NOT_ALLOWED, NOT_TO_REPLACE, Peers},
    protocol::{self, CLOSED, LISTENING, Page, REQUEST_BYTES_MAX, Request, Verb},
};
use saker_telemetry::{error_log, message};
use serde_json::{Value, json};
use std::{
    cell::{Cell, RefCell},
    io,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::{Mutex, Notify, Semaphore},
    task::LocalSet,
    time::{sleep, timeout},
};

const CONNECTIONS_MAX: usize = 16;
const READ_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for reading the rest of a request that was answered early.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_BYTES_MAX: usize = 1 << 20;
/// Out of descriptors: accepting pauses.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers until it is dropped. `peers` may change meanwhile.
pub async fn serve(listener: UnixListener, peers: Rc<RefCell<Peers>>, control: Rc<dyn Control>) {
    LocalSet::new()
        .run_until(accept(listener, peers, control))
        .await;
}

async fn accept(listener: UnixListener, peers: Rc<RefCell<Peers>>, control: Rc<dyn Control>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (reloading, handed_over) = (Rc::new(Mutex::new(())), Rc::new(Notify::new()));
    let upgrading = Rc::new((Mutex::new(()), Cell::new(0)));
    let listener = Rc::new(listener);
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = handed_over.notified() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let conversation = ControlExchange {
                    peers: Rc::clone(&peers),
                    control: Rc::clone(&control),
                    reloading: Rc::clone(&reloading),
                    upgrading: Rc::clone(&upgrading),
                    handed_over: Rc::clone(&handed_over),
                    listener: Rc::downgrade(&listener),
                };
                tokio::task::spawn_local(async move {
                    conversation.hold(stream).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
    // The exchange with the successor continues; no other client is answered.
    drop(listener);
    std::future::pending::<()>().await;
}

pub(crate) struct ControlExchange {
    peers: Rc<RefCell<Peers>>,
    pub(crate) control: Rc<dyn Control>,
    /// One reload at a time, and none during an upgrade; the next one sees the files as they are by
    /// then.
    pub(crate) reloading: Rc<Mutex<()>>,
    /// Held for the process that takes over, whose number stands behind it.
    pub(crate) upgrading: Rc<(Mutex<()>, Cell<u32>)>,
    pub(crate) handed_over: Rc<Notify>,
    pub(crate) listener: Weak<UnixListener>,
}

impl ControlExchange {
    async fn hold(&self, mut stream: UnixStream) {
        let request = match self.refusal(&stream) {
            None => read_request(&mut stream).await,
            Some(refusal) => Request::Refused(refusal),
        };
        let request = match request {
            Request::Verb(Verb::Upgrade | Verb::Origin) if !self.may_replace(&stream) => {
                Request::Refused(NOT_TO_REPLACE.into())
            }
            request => request,
        };
        if request == Request::Verb(Verb::HandOver) {
            return self.hand_over(stream).await;
        }
        if request == Request::Verb(Verb::Upgrade) {
            return self.upgrade(stream).await;
        }
        let answer = self.answer(&request).await;
        // The client may be gone; its command has been carried out.
        let _ = timeout(WRITE_TIMEOUT, write_answer(&mut stream, &answer)).await;
        if let Request::Verb(Verb::Stop { graceful }) = request {
            self.control.stop(graceful);
        }
        let _ = timeout(DRAIN_TIMEOUT, drain(&mut stream)).await;
    }

    /// Goes on until this server ends, which its successor sees by the end of the connection.
    async fn hand_over(&self, mut stream: UnixStream) {
        let (answer, is_done) = match self.control.hand_over() {
            Ok(answer) => (answer, true),
            Err(reason) => (protocol::refusal(&reason), false),
        };
        let _ = timeout(
            WRITE_TIMEOUT,
            stream.write_all(&protocol::json_line(&answer)),
        )
        .await;
        if !is_done {
            return;
        }
        self.handed_over.notify_one();
        let mut said = [0; LISTENING.len()];
        let listens = stream.read_exact(&mut said).await.is_ok() && said == *LISTENING.as_bytes();
        self.control.successor_listens(listens);
        self.control.listeners_closed().await;
        let _ = timeout(WRITE_TIMEOUT, stream.write_all(CLOSED.as_bytes())).await;
        std::future::pending::<()>().await;
    }

    /// Checks the credentials that the kernel recorded when the peer connected (unix(7),
    /// SO_PEERCRED). The socket's mode admits no other users; this check holds even if the mode was
    /// changed.
    fn refusal(&self, stream: &UnixStream) -> Option<String> {
        let shown = match stream.peer_cred() {
            Ok(peer) if self.peers.borrow().may_ask(peer.uid()) => return None,
            Ok(peer) => format!("user {}", peer.uid()),
            Err(error) => format!("a peer without credentials ({error})"),
        };
        error_log::log(&message::CONTROL_REFUSED, format_args!("{shown}"));
        Some(format!("{NOT_ALLOWED} ({shown})"))
    }

    fn may_replace(&self, stream: &UnixStream) -> bool {
        stream
            .peer_cred()
            .is_ok_and(|peer| self.peers.borrow().may_replace(peer.uid()))
    }

    async fn answer(&self, request: &Request) -> Vec<u8> {
        match request {
            Request::Verb(verb) => protocol::json_line(&self.obey(verb).await),
            Request::Scrape { page, head_only } => self.page(*page, *head_only),
            Request::RefusedScrape { status, text } => {
                protocol::http_response(status, "text/plain; charset=utf-8", text, false)
            }
            Request::Refused(reason) => protocol::json_line(&protocol::refusal(reason)),
        }
    }

    async fn obey(&self, verb: &Verb) -> Value {
        match verb {
            Verb::Status => self.control.status().to_json(),
            Verb::Metrics => json!({ "ok": true, "text": self.control.prometheus() }),
            Verb::Reload => {
                let _alone = self.reloading.lock().await;
                self.control.reload().await.map_or_else(
                    |diagnostics| protocol::refused_configuration(&diagnostics),
                    |report| report.to_json(),
                )
            }
            Verb::ReopenLogs => self.control.reopen_logs().map_or_else(
                |error| protocol::refusal(&error),
                |()| json!({ "ok": true }),
            ),
            Verb::Bans(verb) => self
                .control
                .bans(verb)
                .unwrap_or_else(|error| protocol::refusal(&error)),
            Verb::Live { seconds } => self.control.live(*seconds),
            Verb::Console => self
                .control
                .console_link()
                .unwrap_or_else(|error| protocol::refusal(&error)),
            Verb::Hosts(verb) => self
                .control
                .hosts(verb)
                .unwrap_or_else(|error| protocol::refusal(&error)),
            Verb::ClusterStatus => self
                .control
                .cluster_status()
                .unwrap_or_else(|error| protocol::refusal(&error)),
            Verb::Cache(verb) => self
                .control
                .cache(verb)
                .await
                .unwrap_or_else(|error| protocol::refusal(&error)),
            // Not answered here: `hand_over`.
            Verb::HandOver | Verb::Upgrade => protocol::refusal("asked twice"),
            Verb::Origin => self.control.origin(),
            Verb::Stop { .. } => json!({ "ok": true, "pid": std::process::id() }),
        }
    }

    fn page(&self, page: Page, head_only: bool) -> Vec<u8> {
        let (content_type, body) = match page {
            Page::Metrics => (
                "text/plain; version=0.0.4; charset=utf-8",
                self.control.prometheus(),
            ),
            Page::Status => (
                "application/json",
                self.control.status().to_json().to_string() + "\n",
            ),
        };
        protocol::http_response("200 OK", content_type, &body, head_only)
    }
}

async fn read_request(stream: &mut UnixStream) -> Request {
    match timeout(READ_TIMEOUT, read_bytes(stream)).await {
        Ok(Ok(Some(bytes))) => protocol::parse(&bytes),
        Ok(Ok(None)) => {
            Request::Refused(format!("a request has at most {REQUEST_BYTES_MAX} bytes"))
        }
        Ok(Err(error)) => Request::Refused(error.to_string()),
        Err(_) => Request::Refused(format!(
            "no whole request within {} s",
            READ_TIMEOUT.as_secs()
        )),
    }
}

/// `None`: too long.
async fn read_bytes(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(512);
    loop {
        let eof = stream.read_buf(&mut bytes).await? == 0;
        match protocol::request_end(&bytes, eof) {
            Some(end) if end <= REQUEST_BYTES_MAX => {
                bytes.truncate(end);
                return Ok(Some(bytes));
            }
            None if bytes.len() <= REQUEST_BYTES_MAX => {}
            _ => return Ok(None),
        }
    }
}

async fn write_answer(stream: &mut UnixStream, answer: &[u8]) -> io::Result<()> {
    stream.write_all(answer).await?;
    stream.shutdown().await
}

/// A socket closed with unread bytes in it resets the peer, which may not have read its answer yet.
async fn drain(stream: &mut UnixStream) -> io::Result<()> {
    let mut scratch = [0; 4096];
    let mut drained = 0;
    while drained < DRAIN_BYTES_MAX {
        match stream.read(&mut scratch).await? {
            0 => break,
            count => drained += count,
        }
    }
    Ok(())
}
