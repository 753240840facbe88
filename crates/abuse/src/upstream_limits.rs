//! Limits on requests that upstreams answer: their rate, and how many at a time, with a bounded
//! queue.
//!
//! Called by: the gateway, before it asks an upstream; `limits` leaves a gate in the exchange where
//! a limit is set. Caveat: a request may need two places, its client's and its site's. Every
//! request takes them in this order, so that none waits for a place while it holds the other's. Out
//! of scope: static requests, which `limits` counts at once.

use crate::{ClientLimits, SharedAbuseState, Violation, together, violation::enforce};
use saker_config::model::{Consequence, LimitKind, LimitName, Throttle};
use saker_pipeline::{Exchange, Generation, LocalFuture, Response, UpstreamGate, UpstreamPermit};
use saker_rate_limits::{
    Admission, ClientAccount, Counted, Limit, Place, Places, SiteAccounts, requests,
};
use std::{
    future::{Future, poll_fn},
    net::IpAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

/// The limits that one request is held against.
pub struct UpstreamLimits {
    pub generation: Arc<Generation>,
    pub clients: Arc<ClientLimits>,
    pub shared: Arc<SharedAbuseState>,
    pub client: IpAddr,
    /// The client's; `None`: the client is exempt.
    pub address: Option<ClientAccount>,
    pub site_index: usize,
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    pub now_ns: fn() -> u64,
}

/// The limit that a request met.
enum Shut {
    Rate(u64),
    /// The queue is full; `true`: by the client's own requests.
    Full(bool),
    TooLong,
}

impl UpstreamGate for UpstreamLimits {
    fn enter<'a>(
        &'a self,
        exchange: &'a mut Exchange,
    ) -> LocalFuture<'a, Result<UpstreamPermit, Response>> {
        Box::pin(self.wait(exchange))
    }
}

impl UpstreamLimits {
    async fn wait(&self, exchange: &mut Exchange) -> Result<UpstreamPermit, Response> {
        let throttle = exchange.routing.settings.throttle.clone();
        self.pass(&throttle).await.map_err(|shut| {
            let (rule, status, retry_after_s, is_offense) = match shut {
                Shut::Rate(retry_after_s) => ("requests_dynamic", 429, retry_after_s, true),
                Shut::Full(true) => ("dynamic_per_address", 429, 1, true),
                Shut::Full(false) => ("dynamic_per_site", 503, 1, false),
                Shut::TooLong => ("dynamic_queue_time", 503, 1, false),
            };
            let consequence = throttle.over.unwrap_or(Consequence::Refuse(status));
            let violation = Violation {
                rule,
                consequence,
                retry_after_s,
                is_offense,
            };
            enforce(
                exchange,
                &self.generation,
                &self.clients,
                &self.shared,
                (self.now_ns)(),
                violation,
            )
        })
    }

    async fn pass(&self, throttle: &Throttle) -> Result<UpstreamPermit, Shut> {
        if let (Some(rate), Some(address)) = (&throttle.dynamic_requests, &self.address) {
            let name = self.limit_name(throttle, LimitKind::DynamicRequests);
            let now_ns = (self.now_ns)();
            let admission =
                address.with_usage(name, |usage| requests::admit(&usage.account, rate, now_ns));
            together::of_address(
                &self.shared,
                &self.clients,
                (Limit::Dynamic, name, self.client),
                rate,
                admission,
            );
            match admission {
                Admission::Pass => {}
                Admission::Delay(wait_ns) => (self.sleep)(Duration::from_nanos(wait_ns)).await,
                Admission::Refuse { retry_after_s } => return Err(Shut::Rate(retry_after_s)),
            }
        }
        if !throttle.counts_dynamic() {
            return Ok(UpstreamPermit::default());
        }
        let wait = match throttle.dynamic_queue_ms {
            0 => Throttle::QUEUE_MS,
            given => given,
        };
        let mut until = pin!((self.sleep)(Duration::from_millis(wait)));
        let mut permit = UpstreamPermit::default();
        let of_address = self
            .address
            .as_ref()
            .filter(|_| throttle.dynamic_at_a_time_address != 0)
            .map(|address| {
                let name = self.limit_name(throttle, LimitKind::ProgramsAddress);
                let places = address.with_usage(name, |usage| Arc::clone(usage.places()));
                (places, throttle.dynamic_at_a_time_address, true)
            });
        let of_site = self
            .site()
            .filter(|_| throttle.dynamic_at_a_time_site != 0)
            .map(|site| {
                let name = self.limit_name(throttle, LimitKind::ProgramsSite);
                let places = Arc::clone(site.usage(name).places());
                (places, throttle.dynamic_at_a_time_site, false)
            });
        for (places, max, is_offense) in of_address.into_iter().chain(of_site) {
            let places = &places;
            let place = match places.try_enter(max) {
                Some(place) => place,
                None => {
                    let _queued = self
                        .join_queue(throttle.dynamic_queue_max)
                        .ok_or(Shut::Full(is_offense))?;
                    wait_for(places, max, &mut until)
                        .await
                        .ok_or(Shut::TooLong)?
                }
            };
            permit.add(place);
        }
        Ok(permit)
    }

    fn limit_name(&self, throttle: &Throttle, kind: LimitKind) -> LimitName {
        throttle.limit_name(kind, self.site().map_or(0, |site| site.number))
    }

    fn site(&self) -> Option<&SiteAccounts> {
        self.generation.site_accounts.get(self.site_index)
    }

    fn join_queue(&self, max: u64) -> Option<Counted> {
        let waiting = Arc::clone(&self.site()?.dynamic_waiting);
        waiting
            .fetch_update(Relaxed, Relaxed, |now| (now < max).then_some(now + 1))
            .ok()?;
        Some(Counted::new(move || {
            waiting.fetch_sub(1, Relaxed);
        }))
    }
}

/// `None`: the time is up.
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
