//! Which connection a request goes to, and when another one is made.
//!
//! One that has room is used; where there is none, one is made, and requests that come meanwhile
//! wait for it instead of making their own. Where there may be no more, they wait for a stream that
//! ends.
//! Called by: the first attempt of a request at a member, and health checks.
//! Caveat: several are woken and may find the room taken again.

use super::{driver::Driver, link::Link, links::Links};
use crate::{
    exchange_context::ExchangeContext,
    failure::Failure,
    pool::{Pool, share},
};
use saker_config::model::Tuning;
use std::{io, rc::Rc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// One with room for a request, which has to be opened at once. `is_fresh`: none that is there
/// already.
pub async fn acquire(
    pool: &Rc<Pool>,
    tuning: &Tuning,
    workers: usize,
    is_fresh: bool,
    context: &ExchangeContext,
) -> Result<Rc<Link>, Failure> {
    let links = &pool.links;
    pool.note(tuning);
    let until = Instant::now() + Duration::from_millis(tuning.queue_timeout_ms);
    let shares = tuning.kept_max > 0;
    loop {
        let known = if shares {
            links.with_room(pool.epoch())
        } else {
            None
        };
        let has_room = pool.has_room(tuning, workers);
        if let Some(link) = known.filter(|_| !is_fresh || !has_room) {
            return Ok(link);
        }
        let makes_own = is_fresh || !shares;
        if (makes_own || !links.is_connecting.get()) && has_room {
            return connect(pool, tuning, !shares, context).await;
        }
        let Some(receiver) = links.waiting.join(share(tuning.queue_max, workers)) else {
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

async fn connect(
    pool: &Rc<Pool>,
    tuning: &Tuning,
    is_single: bool,
    context: &ExchangeContext,
) -> Result<Rc<Link>, Failure> {
    let links = &pool.links;
    let under_way = UnderWay::begin(links);
    let epoch = pool.epoch();
    let connection = match pool.connect(tuning).await {
        Ok(connection) => connection,
        Err(failure) => {
            under_way.fail();
            return Err(failure);
        }
    };
    let link = Rc::new(Link::new(Rc::clone(&links.waiting), epoch, is_single));
    tokio::task::spawn_local(Driver::new(Rc::clone(&link), connection, context.clone()).run());
    if !is_single {
        links.all.borrow_mut().push(Rc::clone(&link));
    }
    under_way.succeed(link.room().saturating_sub(1));
    Ok(link)
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
