//! Sends the purges made here to the log, in order.
//!
//! Called by: `node`, as a task of the cluster's thread.
//! Caveat: an append that failed may have arrived; it is sent again, and the servers that read it
//! twice know it by its number.
//! Out of scope: the queue (`outbox`).

use crate::{
    log::{Engine, Log, LogError},
    outbox::{Batch, Outbox},
    shared::Shared,
};
use saker_telemetry::{Counters, Metric};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

const RECORDS_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Limit on connecting and on an append.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pauses between attempts double from the first to the last.
pub const PAUSE_MIN: Duration = Duration::from_millis(100);
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

pub struct Publisher<E> {
    pub engine: Arc<E>,
    pub outbox: Arc<Outbox>,
    pub shared: Arc<Shared>,
    pub counters: Arc<Counters>,
}

impl<E: Engine> Publisher<E> {
    /// Sends for as long as the server runs.
    pub async fn run(&self) {
        let (mut log, mut pause) = (None, PAUSE_MIN);
        loop {
            match self.send_waiting(&mut log).await {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    self.outbox.filled().await;
                }
                Err(_) => {
                    // The follower, which is never idle, reports that the engine is unreachable.
                    log = None;
                    self.outbox.maintain();
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Sends what waits, and returns when nothing does.
    pub async fn send_waiting(&self, log: &mut Option<E::Log>) -> Result<(), LogError> {
        loop {
            let failed = |error: std::io::Error| LogError::Failed(error.to_string());
            let batch = self
                .outbox
                .batch(RECORDS_MAX, BATCH_BYTES_MAX)
                .map_err(failed)?;
            if batch.records.is_empty() {
                return Ok(());
            }
            let log = match log {
                Some(log) => log,
                None => log.insert(in_time(self.engine.connect()).await?),
            };
            self.send(log, &batch).await?;
            self.outbox.sent(&batch).map_err(failed)?;
        }
    }

    async fn send(&self, log: &mut E::Log, batch: &Batch) -> Result<(), LogError> {
        let place = in_time(log.append(&batch.records)).await?;
        self.counters
            .add_from_any_thread(Metric::ClusterSent, batch.records.len() as u64);
        if let Some(place) = place {
            self.shared.facts().sent = (batch.last_seq, place);
        }
        Ok(())
    }
}

/// Bounds the wait for an answer.
pub async fn in_time<T>(answer: impl Future<Output = Result<T, LogError>>) -> Result<T, LogError> {
    match timeout(ANSWER_TIMEOUT, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(LogError::Failed(format!(
            "no answer within {} s",
            ANSWER_TIMEOUT.as_secs()
        ))),
    }
}
