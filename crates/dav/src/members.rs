//! Access rules of the collections inside of a collection, for requests about a whole tree.
//!
//! Called by: the handler, before DELETE, COPY, MOVE, and before LOCK and PROPFIND with infinite depth.
//! Caveat: each collection passes the phases as a request of its own with the same method, so what
//! its rules refuse is neither copied nor listed with a collection above it. Rules about single files
//! are not asked.
//! Out of scope: the request's own collection, whose rules have decided.

use crate::destination::{decided, derived};
use saker_pipeline::{Exchange, Services};
use std::{future::poll_fn, task::Poll};

/// Larger trees are refused with 507.
pub const COLLECTIONS_MAX: usize = 20_000;

/// Requests between two turns of other tasks.
const TURN: usize = 16;

/// Returns those collections that the rules refuse to the client.
pub async fn refused(
    exchange: &Exchange,
    services: &Services,
    collections: Vec<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut refused: Vec<Vec<u8>> = Vec::new();
    for (at, url) in collections.into_iter().enumerate() {
        if at % TURN == TURN - 1 {
            yield_now().await;
        }
        if refused.iter().any(|above| url.starts_with(above)) {
            continue;
        }
        let mut inner = derived(exchange, url.clone());
        if decided(&mut inner, services).await.is_err() {
            refused.push(url);
        }
    }
    refused
}

/// Lets other tasks of the worker run.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
