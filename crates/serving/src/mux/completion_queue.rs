//! What the tasks of a connection's streams bring back to it: responses, and that an upload wants
//! something.

use super::{answer::Answer, wire::StreamId};
use saker_http::Fields;
use std::{
    cell::RefCell,
    task::{Context, Waker},
};

#[derive(Default)]
pub struct Inbox {
    letters: RefCell<Vec<Letter>>,
    waker: RefCell<Option<Waker>>,
}

pub enum Letter {
    Answer(StreamId, Box<Answer>),
    /// Somebody has begun to read the request's body, or has read on: an interim response or window
    /// may be due.
    Upload(StreamId),
    /// What a server hints at, ahead of the answer.
    Hints(StreamId, Fields),
    /// Both ways of a tunnel have ended, or one end is gone.
    TunnelOver(StreamId),
}

impl Inbox {
    pub fn put(&self, letter: Letter) {
        self.letters.borrow_mut().push(letter);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    pub fn take(&self) -> Vec<Letter> {
        match self.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut *self.letters.borrow_mut()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.letters.borrow().is_empty()
    }

    /// To be called by the connection before it waits.
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
