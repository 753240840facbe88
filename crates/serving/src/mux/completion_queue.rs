//! Completions that tasks of a connection's streams report to it: responses, and uploads that can
//! continue.
//!
//! Called by: those tasks, which push; the driver, which takes them in each turn.

use super::{answer::Answer, wire::StreamId};
use saker_http::{Fields, Status};
use std::{
    cell::RefCell,
    task::{Context, Waker},
};

#[derive(Default)]
pub struct CompletionQueue {
    completions: RefCell<Vec<Completion>>,
    waker: RefCell<Option<Waker>>,
}

pub enum Completion {
    Answer(StreamId, Box<Answer>),
    /// The request's body is being read: an interim response or a window update may be due.
    Upload(StreamId),
    /// An interim response of an upstream.
    Interim(StreamId, Status, Fields),
    /// The task of a request has ended without a response.
    Lost(StreamId),
    /// Both ways of a tunnel have ended, or one end is gone.
    TunnelOver(StreamId),
}

impl CompletionQueue {
    pub fn push(&self, completion: Completion) {
        self.completions.borrow_mut().push(completion);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    pub fn take(&self) -> Vec<Completion> {
        match self.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut *self.completions.borrow_mut()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.completions.borrow().is_empty()
    }

    /// Called by the connection before it waits.
    pub fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }
}
