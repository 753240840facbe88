//! A thread that exchanges bans and charges with the other servers.
//!
//! Called by: the server process.
//! Caveat: workers never wait for the thread; they add to tables that it empties.
//! Out of scope: configuration.

use super::{
    exchange::{Changes, ClientFacts, ClientTarget, Exchange, ExchangeParts},
    feeds::FeedsEngine,
};
use crate::{
    own_thread::{OwnThread, Stopped},
    secret::Secret,
};
use saker_ipset::BanObserver;
use saker_telemetry::Counters;
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

/// Parts that are exchanged.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub secret: Secret,
    pub shares_bans: bool,
    pub shares_charges: bool,
}

/// State of the exchange.
#[derive(Clone, Debug)]
pub struct ClientReport {
    pub is_connected: bool,
    pub error: Option<String>,
    pub is_in_sync: bool,
    /// Bans that the engine does not have yet.
    pub waiting: u64,
}

/// This server's exchange with the others.
pub struct ClientNode {
    facts: Arc<Mutex<ClientFacts>>,
    changes: Arc<Changes>,
    _thread: OwnThread,
}

impl ClientNode {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is no thread left, or the system gives no random bytes.
    pub fn start<E: FeedsEngine>(
        engine: E,
        options: &ClientOptions,
        target: Arc<dyn ClientTarget>,
        counters: Arc<Counters>,
    ) -> io::Result<ClientNode> {
        let mut run = [0; 8];
        aws_lc_rs::rand::fill(&mut run).map_err(|_| io::Error::other("no random bytes"))?;
        let (facts, changes) = (Arc::default(), Arc::<Changes>::default());
        let parts = ExchangeParts {
            engine: Arc::new(engine),
            target,
            changes: Arc::clone(&changes),
            facts: Arc::clone(&facts),
            counters,
            signers: ["bans", "charges"].map(|purpose| options.secret.signer(purpose)),
            shares_bans: options.shares_bans,
            shares_charges: options.shares_charges,
            run: u64::from_le_bytes(run),
        };
        let thread = OwnThread::start("cluster-clients", move |stopped| live(parts, stopped))?;
        Ok(ClientNode {
            facts,
            changes,
            _thread: thread,
        })
    }

    /// Takes changes of the bans of this server.
    pub fn observer(&self) -> Arc<dyn BanObserver> {
        Arc::clone(&self.changes) as Arc<dyn BanObserver>
    }

    pub fn report(&self) -> ClientReport {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        ClientReport {
            is_connected: facts.is_connected,
            error: facts.error.clone(),
            is_in_sync: facts.is_in_sync,
            waiting: facts.waiting,
        }
    }
}

async fn live<E: FeedsEngine>(parts: ExchangeParts<E>, stopped: Stopped) {
    let exchange = Exchange::new(parts);
    tokio::select! {
        // The sender is dropped with the node.
        _ = stopped => {}
        () = exchange.receive() => {}
        () = exchange.send() => {}
    }
}
