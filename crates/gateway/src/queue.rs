//! Queue for a connection of a pool that may open no more: first come, first served.
//!
//! Caveat: a woken waiter may be gone (its client has left, its time is up). A wake-up is therefore
//! a value: dropped unused, it wakes the next, so that no connection stays idle while others wait.

use crate::failure::Failure;
use std::{cell::RefCell, collections::VecDeque, rc::Rc};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

#[derive(Default)]
pub struct Queue(RefCell<VecDeque<oneshot::Sender<Turn>>>);

/// Turn of a woken waiter.
pub struct Turn(Option<Rc<Queue>>);

impl Queue {
    /// Those who were called and found nothing (`has_been_called`) stand first, and are not too
    /// many for `most`.
    pub async fn wait(
        self: &Rc<Self>,
        most: usize,
        until: Instant,
        has_been_called: bool,
    ) -> Result<Turn, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.join(sender, most, has_been_called)?;
        match timeout_at(until, receiver).await {
            Ok(turn) => Ok(turn.unwrap_or(Turn(None))),
            Err(_) => Err(Failure::QueueTimeout),
        }
    }

    fn join(
        &self,
        sender: oneshot::Sender<Turn>,
        most: usize,
        has_been_called: bool,
    ) -> Result<(), Failure> {
        let mut waiting = self.0.borrow_mut();
        if has_been_called {
            waiting.push_front(sender);
            return Ok(());
        }
        waiting.retain(|waiting| !waiting.is_closed());
        if waiting.len() >= most {
            return Err(Failure::QueueFull);
        }
        waiting.push_back(sender);
        Ok(())
    }

    /// A connection has gone, or lies idle: the first that still waits may have it.
    pub fn call(self: &Rc<Self>) {
        let mut turn = Turn(Some(Rc::clone(self)));
        loop {
            // Not borrowed while a turn may be dropped.
            let Some(first) = self.0.borrow_mut().pop_front() else {
                break;
            };
            match first.send(turn) {
                Ok(()) => return,
                Err(unheard) => turn = unheard,
            }
        }
        turn.take();
    }
}

impl Turn {
    /// Marks the turn as used, so that it isn't passed on.
    pub fn take(mut self) {
        self.0 = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn one_who_has_left_after_the_call_passes_it_on() {
        let queue = Rc::new(Queue::default());
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = pin!(queue.wait(9, later(), false));
        {
            let mut first = pin!(queue.wait(9, later(), false));
            assert!(
                first.as_mut().poll(&mut cx).is_pending()
                    && second.as_mut().poll(&mut cx).is_pending()
            );
            queue.call();
            assert!(
                second.as_mut().poll(&mut cx).is_pending(),
                "one call, one turn"
            );
        }
        let Poll::Ready(Ok(turn)) = second.as_mut().poll(&mut cx) else {
            panic!("the call was lost")
        };
        turn.take();
        assert!(queue.0.borrow().is_empty());
    }

    #[tokio::test]
    async fn who_found_nothing_stands_first_and_a_full_queue_says_so() {
        let queue = Rc::new(Queue::default());
        let mut cx = Context::from_waker(Waker::noop());
        let (mut third, mut refused) = (
            pin!(queue.wait(1, later(), false)),
            pin!(queue.wait(1, later(), false)),
        );
        assert!(third.as_mut().poll(&mut cx).is_pending());
        assert!(matches!(
            refused.as_mut().poll(&mut cx),
            Poll::Ready(Err(Failure::QueueFull))
        ));
        let mut first = pin!(queue.wait(1, later(), true));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        queue.call();
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(Ok(turn)) = first.as_mut().poll(&mut cx) else {
            panic!("whoever was called before is first")
        };
        turn.take();
        let late = queue
            .wait(9, Instant::now() + Duration::from_millis(1), false)
            .await;
        assert!(matches!(late, Err(Failure::QueueTimeout)));
    }
}
