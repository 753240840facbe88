//! Which connection a request goes to, and when another one is made.
//!
//! One that has room is used; where there is none, one is made, and requests that come meanwhile
//! wait for it instead of making their own. Where there may be no more, they wait for a stream that
//! ends. Difficulty: several are woken and may find the room taken again.

use super::{driver::Driver, link::Link};
use crate::{
    conversation::Desk,
    failure::Failure,
    pool::{Pool, share},
};
use saker_config::model::Tuning;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    rc::Rc,
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

/// Connections to one backend.
#[derive(Default)]
pub struct Links {
    all: RefCell<Vec<Rc<Link>>>,
    waiting: Rc<Waiting>,
    is_connecting: Cell<bool>,
}

/// Requests that have no connection yet.
#[derive(Default)]
pub struct Waiting(RefCell<VecDeque<oneshot::Sender<bool>>>);

impl Waiting {
    /// There may be room for so many.
    pub fn wake(&self, count: usize) {
        self.tell(count, true);
    }

    fn tell(&self, count: usize, may_hope: bool) {
        let mut waiting = self.0.borrow_mut();
        let mut left = count;
        while left > 0
            && let Some(first) = waiting.pop_front()
        {
            left -= usize::from(first.send(may_hope).is_ok());
        }
    }

    fn join(&self, most: usize) -> Option<oneshot::Receiver<bool>> {
        let mut waiting = self.0.borrow_mut();
        waiting.retain(|one| !one.is_closed());
        let (sender, receiver) = oneshot::channel();
        (waiting.len() < most).then(|| {
            waiting.push_back(sender);
            receiver
        })
    }
}

impl Links {
    /// One with room for a request, which has to be opened at once. `is_fresh`: none that is there
    /// already.
    pub async fn acquire(
        &self,
        pool: &Rc<Pool>,
        tuning: &Tuning,
        workers: usize,
        is_fresh: bool,
        desk: &Desk,
    ) -> Result<Rc<Link>, Failure> {
        pool.note(tuning);
        let until = Instant::now() + Duration::from_millis(tuning.queue_timeout_ms);
        let shares = tuning.kept_max > 0;
        loop {
            let known = if shares {
                self.with_room(pool.epoch())
            } else {
                None
            };
            let has_room = pool.has_room(tuning, workers);
            if let Some(link) = known.filter(|_| !is_fresh || !has_room) {
                return Ok(link);
            }
            let makes_own = is_fresh || !shares;
            if (makes_own || !self.is_connecting.get()) && has_room {
                return self.connect(pool, tuning, !shares, desk).await;
            }
            let Some(receiver) = self.waiting.join(share(tuning.queue_max, workers)) else {
                return Err(Failure::QueueFull);
            };
            match Box::pin(timeout_at(until, receiver)).await {
                Ok(Ok(false)) => {
                    return Err(Failure::Unreachable(io::ErrorKind::NotConnected.into()));
                }
                Ok(_) => {}
                Err(_) => return Err(Failure::QueueTimeout),
            }
        }
    }

    fn with_room(&self, epoch: u32) -> Option<Rc<Link>> {
        self.all
            .borrow()
            .iter()
            .find(|link| link.epoch == epoch && link.room() > 0)
            .map(Rc::clone)
    }

    async fn connect(
        &self,
        pool: &Rc<Pool>,
        tuning: &Tuning,
        is_single: bool,
        desk: &Desk,
    ) -> Result<Rc<Link>, Failure> {
        let under_way = UnderWay::begin(self);
        let epoch = pool.epoch();
        let connection = match pool.connect(tuning).await {
            Ok(connection) => connection,
            Err(failure) => {
                under_way.fail();
                return Err(failure);
            }
        };
        let link = Rc::new(Link::new(Rc::clone(&self.waiting), epoch, is_single));
        tokio::task::spawn_local(Driver::new(Rc::clone(&link), connection, desk.clone()).run());
        if !is_single {
            self.all.borrow_mut().push(Rc::clone(&link));
        }
        under_way.succeed(link.room().saturating_sub(1));
        Ok(link)
    }

    /// Closes what has been idle too long, and forgets what takes no more requests.
    pub fn sweep(&self, now_ms: u64, kept_ms: u64, epoch: u32) {
        self.all
            .borrow_mut()
            .retain(|link| !link.sweep(now_ms, kept_ms, epoch));
    }
}

/// A connection that is being made, and that others wait for. Given up because its request has
/// gone, another one makes it.
struct UnderWay<'l>(&'l Links);

impl<'l> UnderWay<'l> {
    fn begin(links: &'l Links) -> UnderWay<'l> {
        links.is_connecting.set(true);
        UnderWay(links)
    }

    fn succeed(self, room: usize) {
        self.0.is_connecting.set(false);
        self.0.waiting.wake(room);
        std::mem::forget(self);
    }

    /// Wakes all waiters after a failed connection attempt.
    fn fail(self) {
        self.0.is_connecting.set(false);
        self.0.waiting.tell(usize::MAX, false);
        std::mem::forget(self);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.is_connecting.set(false);
        self.0.waiting.wake(usize::MAX);
    }
}
