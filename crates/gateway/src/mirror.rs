//! Copies of requests for another upstream (`mirror`).
//!
//! Called by: the gateway, before it asks the upstream of a request.
//! Caveat: a copy is a task of its own that begins when the request's content has been read, and
//! keeps nothing of the request waiting. Copies are bounded in number and memory per worker; beyond
//! a bound they are dropped and counted.
//! Out of scope: responses of the copies, which are discarded.

use crate::native;
use saker_config::model::{Mirror, Throttle, Upstream};
use saker_http::{Fields, KnownField, Method, field_name::is_alike_any};
use saker_pipeline::{
    BodyError, CallNames, Chunk, ChunkQueue, Exchange, LocalFuture, NoBody, ProxyOptions,
    RequestBody, Upgrades, UpstreamRequest, UpstreamTarget,
};
use saker_telemetry::{Counters, Metric};
use std::{
    cell::Cell,
    collections::hash_map::RandomState,
    hash::BuildHasher,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Copies of a worker at a time, those included whose content is still being read.
const COPIES_MAX: usize = 256;
/// Content of one copy.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Content of all copies of a worker.
const BYTES_MAX: usize = 16 << 20;
/// Fields that frame the content, which a copy without content does not have.
const FRAMING: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "trailer",
    "expect",
    "content-encoding",
];

/// The copies of a worker.
#[derive(Default)]
pub struct Mirrors {
    copies: Rc<Cell<usize>>,
    bytes: Rc<Cell<usize>>,
    /// Chance, for samples.
    chance: RandomState,
    asked: Cell<u64>,
}

/// One more copy, until it is dropped.
struct Counted {
    copies: Rc<Cell<usize>>,
    bytes: Rc<Cell<usize>>,
    own_bytes: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.copies.set(self.copies.get().saturating_sub(1));
        let left = self.bytes.get().saturating_sub(self.own_bytes);
        self.bytes.set(left);
    }
}

impl Counted {
    /// Reserves memory for content; false: there is none.
    fn grow(&mut self, bytes: usize) -> bool {
        let fits =
            self.own_bytes + bytes <= BODY_BYTES_MAX && self.bytes.get() + bytes <= BYTES_MAX;
        if fits {
            self.own_bytes += bytes;
            self.bytes.set(self.bytes.get() + bytes);
        }
        fits
    }
}

impl Mirrors {
    fn is_sampled(&self, sample_ppm: u64) -> bool {
        let count = self.asked.get().wrapping_add(1);
        self.asked.set(count);
        self.chance.hash_one(count) % 1_000_000 < sample_ppm
    }

    fn count(&self) -> Option<Counted> {
        let copies = self.copies.get();
        (copies < COPIES_MAX).then(|| {
            self.copies.set(copies + 1);
            Counted {
                copies: Rc::clone(&self.copies),
                bytes: Rc::clone(&self.bytes),
                own_bytes: 0,
            }
        })
    }
}

/// Sends a copy, and tells whether it was answered.
pub type Send =
    Box<dyn FnOnce(Exchange, UpstreamRequest, Arc<Upstream>) -> LocalFuture<'static, bool>>;

/// A copy that is ready to be sent, but for its content.
struct Copy {
    send: Send,
    counters: Arc<Counters>,
    exchange: Exchange,
    call: UpstreamRequest,
    upstream: Arc<Upstream>,
    timeout: Duration,
    counted: Counted,
}

impl Mirrors {
    /// Makes a copy of the request, unless it is left out.
    pub fn begin(
        &self,
        counters: &Arc<Counters>,
        exchange: &mut Exchange,
        (call, mirror): (&UpstreamRequest, &Mirror),
        send: Send,
    ) {
        let view = exchange.head.view();
        let is_plain = view.method() != Method::Connect && !view.has(KnownField::Upgrade);
        let Some(upstream) = mirror
            .upstream
            .as_ref()
            .filter(|_| is_plain && self.is_sampled(mirror.sample_ppm))
        else {
            return;
        };
        let length = exchange.body.length();
        let has_body = length != Some(0) && !(length.is_none() && exchange.body.is_end());
        let is_too_long =
            mirror.copies_body && length.is_some_and(|length| length > BODY_BYTES_MAX as u64);
        let Some(counted) = self.count().filter(|_| !is_too_long) else {
            return counters.increment(Metric::MirrorRequestsDropped);
        };
        let copies_body = has_body && mirror.copies_body;
        let inner = inner(exchange, copies_body);
        let copy = Copy {
            send,
            counters: Arc::clone(counters),
            call: copied_call(&inner, call, mirror, upstream),
            exchange: inner,
            upstream: Arc::clone(upstream),
            timeout: Duration::from_millis(mirror.timeout_ms),
            counted,
        };
        if !copies_body {
            return copy.start();
        }
        let body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        exchange.body = Box::new(CopiedBody {
            body,
            copy: Some(Box::new(copy)),
            content: ChunkQueue::default(),
        });
    }
}

fn inner(exchange: &Exchange, has_body: bool) -> Exchange {
    let view = exchange.head.view();
    let head = match has_body {
        true => exchange.head.clone(),
        false => exchange.head.with_fields(
            view.fields()
                .filter(|(name, _)| !is_alike_any(name, &FRAMING)),
        ),
    };
    exchange.upstream_copy(head)
}

fn copied_call(
    inner: &Exchange,
    call: &UpstreamRequest,
    mirror: &Mirror,
    upstream: &Arc<Upstream>,
) -> UpstreamRequest {
    let takes_variables = upstream
        .members
        .first()
        .is_some_and(|member| member.backend.protocol.takes_variables());
    let manner = ProxyOptions {
        preserves_host: call.manner.preserves_host,
        tells_scheme: call.manner.tells_scheme,
        server_name: call.manner.server_name.clone(),
        timeout: Some(Duration::from_millis(mirror.timeout_ms)),
        follows_locations: false,
        upgrades: Upgrades::None,
        ..ProxyOptions::default()
    };
    UpstreamRequest {
        to: UpstreamTarget::Upstream(Arc::clone(upstream)),
        target: call.target.clone(),
        script: takes_variables.then(|| Box::new(native::told(inner, upstream))),
        manner: Arc::new(manner),
        names: CallNames::default(),
    }
}

impl Copy {
    /// Sends the copy, on a task of its own.
    fn start(self) {
        tokio::task::spawn_local(self.run());
    }

    async fn run(self) {
        let Copy {
            send,
            counters,
            exchange,
            call,
            upstream,
            timeout,
            counted,
        } = self;
        let answered = tokio::time::timeout(timeout, send(exchange, call, upstream));
        counters.increment(match answered.await {
            Ok(true) => Metric::MirrorRequestsAnswered,
            Ok(false) | Err(_) => Metric::MirrorRequestsFailed,
        });
        drop(counted);
    }
}

/// Content of a request that is copied while it is read.
struct CopiedBody {
    body: Box<dyn RequestBody>,
    /// `None`: the copy has begun, or was dropped.
    copy: Option<Box<Copy>>,
    content: ChunkQueue,
}

impl CopiedBody {
    fn give_up(&mut self) {
        if let Some(copy) = self.copy.take() {
            copy.counters.increment(Metric::MirrorRequestsDropped);
        }
        self.content.clear();
    }
}

impl RequestBody for CopiedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let polled = self.body.poll_chunk(cx);
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => {
                let fits = |copy: &mut Box<Copy>| copy.counted.grow(chunk.len());
                match self.copy.as_mut().map(fits) {
                    Some(true) => self.content.push(chunk.clone()),
                    Some(false) => self.give_up(),
                    None => {}
                }
            }
            Poll::Ready(Some(Err(_))) => self.give_up(),
            Poll::Ready(None) => {
                if let Some(mut copy) = self.copy.take() {
                    let content = std::mem::take(&mut self.content);
                    copy.exchange.body = Box::new(ReadBody {
                        bytes: content.bytes() as u64,
                        content,
                    });
                    copy.start();
                }
            }
            Poll::Pending => {}
        }
        polled
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn is_end(&self) -> bool {
        // The end has to be seen, so that the copy begins.
        self.body.is_end() && self.copy.is_none()
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.body.trailers()
    }

    fn take_time(&mut self) {
        self.body.take_time();
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.body.throttle(throttle, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.body.limit(bytes_max);
    }
}

impl Drop for CopiedBody {
    /// The upstream has answered before it has read everything, or the client has gone.
    fn drop(&mut self) {
        match self.body.is_end() && self.copy.is_some() {
            true => {
                let mut noop = Context::from_waker(std::task::Waker::noop());
                let _ = self.poll_chunk(&mut noop);
                self.give_up();
            }
            false => self.give_up(),
        }
    }
}

/// Content that has been read.
struct ReadBody {
    content: ChunkQueue,
    bytes: u64,
}

impl RequestBody for ReadBody {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(self.content.pop().map(Ok))
    }

    fn length(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn is_end(&self) -> bool {
        self.content.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_a_part_of_requests() {
        let mirrors = Mirrors::default();
        let count = |ppm| (0..10_000).filter(|_| mirrors.is_sampled(ppm)).count();
        assert_eq!((count(0), count(1_000_000)), (0, 10_000));
        let tenth = count(100_000);
        assert!((700..1300).contains(&tenth), "{tenth}");
    }

    #[test]
    fn copies_are_bounded() {
        let mirrors = Mirrors::default();
        let mut counted: Vec<Counted> = (0..COPIES_MAX).filter_map(|_| mirrors.count()).collect();
        assert!(mirrors.count().is_none());
        let one = counted.last_mut().expect("a copy");
        assert!(one.grow(BODY_BYTES_MAX) && !one.grow(1));
        let full = BYTES_MAX / BODY_BYTES_MAX - 1;
        assert!(
            counted
                .iter_mut()
                .take(full)
                .all(|one| one.grow(BODY_BYTES_MAX))
        );
        assert!(!counted[full].grow(1), "the memory of all copies");
        drop(counted);
        assert_eq!((mirrors.copies.get(), mirrors.bytes.get()), (0, 0));
    }
}
