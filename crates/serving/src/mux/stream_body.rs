//! The handler's end of a request body that arrives on a stream.
//!
//! Called by: handlers, through [`RequestBody`].
//! Caveat: each read returns window, so the connection is notified (`completion_queue`).
//! Out of scope: the body's other end, which the connection fills (`upload`).

use super::{
    completion_queue::{Completion, CompletionQueue},
    upload::Upload,
    wire::StreamId,
};
use crate::request::{Accounts, BodyTime, Direction, Pace};
use saker_config::model::Throttle;
use saker_http::Fields;
use saker_pipeline::{BodyError, Chunk, RequestBody};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;

/// The handler's end.
pub struct StreamBody {
    pub stream: StreamId,
    pub upload: Rc<RefCell<Upload>>,
    pub completions: Rc<CompletionQueue>,
    pub accounts: Accounts,
    pub pace: Option<Box<Pace>>,
    /// `None`: another one's limits hold.
    pub time: Option<BodyTime>,
    pub received: u64,
    pub sleep: Option<Pin<Box<Sleep>>>,
}

impl RequestBody for StreamBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(pace) = &mut self.pace {
            ready!(pace.poll_allowance(cx));
        }
        let mut upload = self.upload.borrow_mut();
        if let Some(error) = upload.failed {
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(chunk) = upload.chunks.pop() {
            self.sleep = None;
            self.received += chunk.len() as u64;
            upload.owed += chunk.len();
            upload.unread_bytes -= chunk.len();
            drop(upload);
            if let Some(pace) = &mut self.pace {
                pace.charge(chunk.len() as u64);
            }
            self.completions.push(Completion::Upload(self.stream));
            return Poll::Ready(Some(Ok(chunk)));
        }
        if upload.ended {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut upload.expects_continue) {
            upload.continue_due = true;
            self.completions.push(Completion::Upload(self.stream));
        }
        upload.reader = Some(cx.waker().clone());
        let now_ms = saker_net::clock::monotonic_ms();
        let Some(time) = &mut self.time else {
            return Poll::Pending;
        };
        let received = self.received;
        let mut wait =
            || Duration::from_millis(time.due_ms(now_ms, received).saturating_sub(now_ms));
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(wait())));
        ready!(sleep.as_mut().poll(cx));
        error_log::log(&message::BODY_TIMEOUT, format_args!(""));
        upload.failed = Some(BodyError::TimedOut);
        Poll::Ready(Some(Err(BodyError::TimedOut)))
    }

    fn length(&self) -> Option<u64> {
        self.upload.borrow().declared
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.upload.borrow_mut().trailers.take()
    }

    fn is_end(&self) -> bool {
        let upload = self.upload.borrow();
        upload.ended && upload.chunks.is_empty() && upload.trailers.is_none()
    }

    fn take_time(&mut self) {
        (self.time, self.sleep) = (None, None);
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.pace = Pace::new(Direction::In, throttle, &self.accounts, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.upload.borrow_mut().limit(bytes_max);
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        // The stream outlives it, and its client chooses for how long.
        if let Ok(mut upload) = self.upload.try_borrow_mut() {
            upload.stop_keeping();
        }
    }
}
