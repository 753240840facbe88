//! The gate before programs: rates of requests that they answer, and how many at a time, with a
//! line of bounded length.
//!
//! Place in the walk: the access phase leaves one in the exchange where a limit is set; whoever is
//! about to ask a program goes through it and keeps the [`Passed`] until the program has said
//! everything. Difficulty: a request may need two places, its client's and its site's. They are
//! taken in this order by everybody, so that nobody who holds one waits for somebody who waits for
//! it.

use super::{
    Admission, Neighbours, Over, Place, Places,
    addresses::{AddressState, Counted},
    meet, requests,
};
use crate::{Exchange, Generation, GuardState, LocalFuture, Response, generation::SiteAccounts};
use saker_config::model::{Consequence, Throttle};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

pub struct ProgramGate {
    pub generation: Arc<Generation>,
    pub neighbours: Arc<Neighbours>,
    pub guard: Arc<GuardState>,
    /// The client's; `None` where no limit is for it.
    pub address: Option<Arc<AddressState>>,
    pub site_index: usize,
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    pub now_ns: fn() -> u64,
}

/// The places of one request.
#[derive(Debug, Default)]
pub struct Passed {
    _places: Vec<Place>,
}

impl Passed {
    /// Nothing that has to be held.
    pub fn is_empty(&self) -> bool {
        self._places.is_empty()
    }
}

/// Why not.
enum Shut {
    Rate(u64),
    /// The line is as long as it may be; whether it is the client's own doing.
    Full(bool),
    TooLong,
}

impl ProgramGate {
    /// Waits where that helps; the error is the answer.
    pub async fn enter(&self, exchange: &mut Exchange) -> Result<Passed, Response> {
        let throttle = exchange.settings.throttle.clone();
        self.pass(&throttle).await.map_err(|shut| {
            let (rule, status, retry_after_s, is_offence) = match shut {
                Shut::Rate(retry_after_s) => ("requests_dynamic", 429, retry_after_s, true),
                Shut::Full(true) => ("dynamic_per_address", 429, 1, true),
                Shut::Full(false) => ("dynamic_per_site", 503, 1, false),
                Shut::TooLong => ("dynamic_queue_time", 503, 1, false),
            };
            let consequence = throttle.over.unwrap_or(Consequence::Refuse(status));
            let over = Over {
                rule,
                consequence,
                retry_after_s,
                is_offence,
            };
            meet(
                exchange,
                &self.generation,
                &self.neighbours,
                &self.guard,
                (self.now_ns)(),
                over,
            )
        })
    }

    async fn pass(&self, throttle: &Throttle) -> Result<Passed, Shut> {
        if let (Some(rate), Some(address)) = (&throttle.dynamic_requests, &self.address) {
            match requests::admit(&address.dynamic_requests, rate, (self.now_ns)()) {
                Admission::Pass => {}
                Admission::Delay(wait_ns) => (self.sleep)(Duration::from_nanos(wait_ns)).await,
                Admission::Refuse { retry_after_s } => return Err(Shut::Rate(retry_after_s)),
            }
        }
        if !throttle.counts_dynamic() {
            return Ok(Passed::default());
        }
        let wait = match throttle.dynamic_queue_ms {
            0 => Throttle::QUEUE_MS,
            given => given,
        };
        let mut until = pin!((self.sleep)(Duration::from_millis(wait)));
        let mut passed = Passed::default();
        let of_address = self
            .address
            .as_ref()
            .map(|address| (address.dynamic(), throttle.dynamic_at_a_time_address, true));
        let of_site = self
            .site()
            .map(|site| (&site.dynamic, throttle.dynamic_at_a_time_site, false));
        for (places, max, is_offence) in of_address
            .into_iter()
            .chain(of_site)
            .filter(|(_, max, _)| *max != 0)
        {
            let place = match places.try_enter(max) {
                Some(place) => place,
                None => {
                    let _in_line = self
                        .join_line(throttle.dynamic_queue_max)
                        .ok_or(Shut::Full(is_offence))?;
                    wait_for(places, max, &mut until)
                        .await
                        .ok_or(Shut::TooLong)?
                }
            };
            passed._places.push(place);
        }
        Ok(passed)
    }

    fn site(&self) -> Option<&SiteAccounts> {
        self.generation.site_accounts.get(self.site_index)
    }

    fn join_line(&self, max: u64) -> Option<Counted> {
        let waiting = Arc::clone(&self.site()?.dynamic_waiting);
        waiting
            .fetch_update(Relaxed, Relaxed, |now| (now < max).then_some(now + 1))
            .ok()?;
        Some(Counted::new(move || {
            waiting.fetch_sub(1, Relaxed);
        }))
    }
}

/// `None`: the time is over.
async fn wait_for(
    places: &Arc<Places>,
    max: u64,
    until: &mut (impl Future<Output = ()> + Unpin),
) -> Option<Place> {
    let mut waiting = pin!(places.enter(max));
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(place) => Poll::Ready(Some(place)),
        Poll::Pending => pin!(&mut *until).poll(cx).map(|()| None),
    })
    .await
}
