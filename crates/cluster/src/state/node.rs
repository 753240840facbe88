//! A thread that reads and writes the values of the cluster for the rest of the server.
//!
//! Called by: the server process, which starts it; holders of a [`SharedState`], from any thread.
//! Caveat: requests are answered one after the other, and their number is bounded: a caller that
//! meets a full queue gets an error at once.
//! Out of scope: configuration.

use super::store::{Lock, NAME_BYTES_MAX, StateEngine, Store};
use crate::{
    log::LogError,
    own_thread::{OwnThread, Stopped},
    publish::in_time,
    secret::{Sealer, Secret},
};
use std::io;
use tokio::sync::{mpsc, oneshot};

/// Requests that wait.
const QUEUE_MAX: usize = 64;

/// Time that a lock lives without a renewal.
const LOCK_MS: u64 = 15_000;

/// A lock that this server holds until it lets it go, or dies.
#[derive(Debug)]
pub struct Held {
    name: String,
    token: u64,
}

enum Question {
    Get(String),
    Put(String, Vec<u8>, u64),
    Lend(String, Vec<u8>, u64),
    Acquire(String),
    Renew(String, u64),
    Release(String, u64),
}

enum Answer {
    Value(Option<Vec<u8>>),
    Token(Option<u64>),
    Done(bool),
}

type Request = (Question, oneshot::Sender<Result<Answer, LogError>>);

/// Access to the values of the cluster.
#[derive(Clone, Debug)]
pub struct SharedState {
    requests: mpsc::Sender<Request>,
    sealer: Sealer,
}

/// The thread.
pub struct StateNode {
    state: SharedState,
    _thread: OwnThread,
}

impl StateNode {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn start<E: StateEngine>(engine: E, secret: &Secret) -> io::Result<StateNode> {
        let (requests, inbox) = mpsc::channel(QUEUE_MAX);
        let work = async move |stopped: Stopped| {
            tokio::select! {
                // The sender is dropped with the node.
                _ = stopped => {}
                () = answer_all(engine, inbox) => {}
            }
        };
        let thread = OwnThread::start("cluster-state", work)?;
        let state = SharedState {
            requests,
            sealer: secret.sealer("state"),
        };
        Ok(StateNode {
            state,
            _thread: thread,
        })
    }

    pub fn state(&self) -> SharedState {
        self.state.clone()
    }
}

impl SharedState {
    /// A value that a server of this cluster has written; a value that was damaged, moved, or
    /// written without the secret is an error.
    ///
    /// # Errors
    /// The engine does not answer, or the value does not open.
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Answer::Value(sealed) = self.ask(Question::Get(checked(name)?)).await? else {
            return Err(UNEXPECTED.into());
        };
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let opened = self.sealer.open(name, &sealed);
        opened.map(Some).ok_or_else(|| {
            format!("`{name}` was not written with this cluster's secret (the same `secret_file` everywhere?)")
        })
    }

    /// Sets the value of a lock that this server holds. `false`: it holds it no longer.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn put(&self, held: &Held, value: &[u8]) -> Result<bool, String> {
        let sealed = self.sealed(&held.name, value)?;
        self.done(Question::Put(held.name.clone(), sealed, held.token))
            .await
    }

    /// Sets a value that is of use for a while, without a lock.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn lend(&self, name: &str, value: &[u8], life_ms: u64) -> Result<(), String> {
        let sealed = self.sealed(name, value)?;
        self.done(Question::Lend(checked(name)?, sealed, life_ms))
            .await
            .map(drop)
    }

    /// Takes the lock of a value. `None`: another server holds it.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn acquire(&self, name: &str) -> Result<Option<Held>, String> {
        let name = checked(name)?;
        match self.ask(Question::Acquire(name.clone())).await? {
            Answer::Token(token) => Ok(token.map(|token| Held { name, token })),
            _ => Err(UNEXPECTED.into()),
        }
    }

    /// Prolongs a lock; to be called every few seconds. `false`: this server holds it no longer.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn renew(&self, held: &Held) -> Result<bool, String> {
        self.done(Question::Renew(held.name.clone(), held.token))
            .await
    }

    /// Lets a lock go. If the engine does not answer, it ends by itself.
    pub async fn release(&self, held: Held) {
        let _ = self.done(Question::Release(held.name, held.token)).await;
    }

    fn sealed(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, String> {
        let sealed = self.sealer.seal(name, value);
        sealed.ok_or_else(|| "the system gives no random bytes".into())
    }

    async fn done(&self, question: Question) -> Result<bool, String> {
        match self.ask(question).await? {
            Answer::Done(is_done) => Ok(is_done),
            _ => Err(UNEXPECTED.into()),
        }
    }

    async fn ask(&self, question: Question) -> Result<Answer, String> {
        let (answer, answered) = oneshot::channel();
        self.requests
            .try_send((question, answer))
            .map_err(|_| "too many requests to the cluster's engine wait, or the server stops")?;
        let answer = answered.await.map_err(|_| "the server stops")?;
        answer.map_err(|error| error.to_string())
    }
}

const UNEXPECTED: &str = "an answer to another question";

fn checked(name: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte);
    match name.len() <= NAME_BYTES_MAX && !name.is_empty() && name.bytes().all(is_plain) {
        true => Ok(name.to_owned()),
        false => Err(format!("`{name}` is no name of a value")),
    }
}

async fn answer_all<E: StateEngine>(engine: E, mut inbox: mpsc::Receiver<Request>) {
    let mut state = None;
    while let Some((question, answer)) = inbox.recv().await {
        let answered = match connected(&engine, &mut state).await {
            Ok(state) => in_time(answer_one(state, &question)).await,
            Err(error) => Err(error),
        };
        if answered.is_err() {
            state = None;
        }
        // The caller may be gone.
        let _ = answer.send(answered);
    }
    std::future::pending().await
}

async fn connected<'s, E: StateEngine>(
    engine: &E,
    state: &'s mut Option<E::State>,
) -> Result<&'s mut E::State, LogError> {
    match state {
        Some(state) => Ok(state),
        None => Ok(state.insert(in_time(engine.connect_state()).await?)),
    }
}

async fn answer_one<S: Store + Lock>(
    state: &mut S,
    question: &Question,
) -> Result<Answer, LogError> {
    match question {
        Question::Get(name) => state.get(name).await.map(Answer::Value),
        Question::Put(name, value, token) => state.put(name, value, *token).await.map(Answer::Done),
        Question::Lend(name, value, life_ms) => {
            let lent = state.lend(name, value, *life_ms).await;
            lent.map(|()| Answer::Done(true))
        }
        Question::Acquire(name) => state.acquire(name, LOCK_MS).await.map(Answer::Token),
        Question::Renew(name, token) => state.renew(name, *token, LOCK_MS).await.map(Answer::Done),
        Question::Release(name, token) => {
            let released = state.release(name, *token).await;
            released.map(|()| Answer::Done(true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::FolderEngine;
    use saker_testkit::TempDir;

    fn node(folder: &std::path::Path, secret: u8) -> StateNode {
        let secret = Secret::from_file(&[secret; 32]).unwrap();
        let engine = FolderEngine {
            folder: folder.to_owned(),
        };
        StateNode::start(engine, &secret).unwrap()
    }

    #[test]
    fn values_are_encrypted_and_belong_to_their_names() {
        let dir = TempDir::new("cluster-state").unwrap();
        let (one, stranger) = (node(&dir, b'a'), node(&dir, b'b'));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let state = one.state();
            let held = state.acquire("certificate-a").await.unwrap().unwrap();
            assert_eq!(state.put(&held, b"-----PRIVATE KEY-----").await, Ok(true));
            let value = state.get("certificate-a").await.unwrap().unwrap();
            assert_eq!(value, b"-----PRIVATE KEY-----");
            assert!(stranger.state().get("certificate-a").await.is_err());
            let file = dir.join("values/certificate-a.1");
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(7).any(|part| part == b"PRIVATE"));
            std::fs::write(dir.join("values/certificate-b.1"), bytes).unwrap();
            assert!(state.get("certificate-b").await.is_err(), "another's value");
            assert_eq!(state.renew(&held).await, Ok(true));
            state.release(held).await;
            for bad in ["", "a/b", "..\0", &"a".repeat(NAME_BYTES_MAX + 1)] {
                assert!(state.get(bad).await.is_err(), "{bad}");
            }
            assert_eq!(state.get(&"a".repeat(NAME_BYTES_MAX)).await, Ok(None));
        });
        drop(one);
    }
}
