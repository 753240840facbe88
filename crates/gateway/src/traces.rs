//! Spans of requests to upstreams, and the export of all spans to a collector.
//!
//! Called by: the gateway, when an upstream has answered or failed; the main thread, which starts
//! the exporter.
//! Caveat: the exporter has a thread of its own and takes spans from a bounded queue. A collector
//! that is down or slow costs spans, never requests: while it fails, batches are dropped, and the
//! next attempt waits.
//! Out of scope: spans of requests, which a logger makes.

use crate::{
    codecs::Codec,
    connection_exchange::{ConnectionExchange, Terms},
    exchange_context::{ExchangeContext, UpstreamEvent},
    failure::Failure,
    forward::{self, Address},
    http1_dialogue::{Http1Dialogue, RequestTerms},
    pool::Pool,
    upstream_exchange::UpstreamExchange,
};
use saker_cgi::{ProgramRequest, Variables};
use saker_config::model::{Member, Tracing, Tuning};
use saker_http::{RequestHead, Status, Version};
use saker_pipeline::{BodyError, Chunk, RequestBody, RequestLogContext};
use saker_telemetry::{
    Counters, Metric, error_log, message,
    trace::{AttributeValue, RequestTrace, Span, SpanKind, TraceQueue, encode},
};
use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// Spans of one request to the collector.
const BATCH_MAX: usize = 512;
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between attempts while the collector fails: doubled up to the maximum.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Notes the end of waiting for an upstream's response. `name`: the server that has answered.
pub fn upstream(trace: &RequestTrace, begun_ns: u64, status: Status, name: Option<&str>) {
    let mut attributes = vec![(
        "http.response.status_code",
        AttributeValue::Number(status.0.into()),
    )];
    if let Some(name) = name {
        attributes.push(("server.address", AttributeValue::Text(name.into())));
    }
    trace.add(
        trace.upstream_id,
        ("upstream", SpanKind::Client),
        begun_ns,
        attributes,
        status.0 >= 500,
    );
}

/// The main thread's end of the exporter.
pub struct TraceExport {
    tracing: Arc<Mutex<Arc<Tracing>>>,
    queue: Arc<TraceQueue>,
    counters: Arc<Counters>,
    is_busy: Arc<AtomicBool>,
    is_started: bool,
}

impl TraceExport {
    pub fn new(queue: &Arc<TraceQueue>, counters: &Arc<Counters>) -> TraceExport {
        TraceExport {
            tracing: Arc::default(),
            queue: Arc::clone(queue),
            counters: Arc::clone(counters),
            is_busy: Arc::default(),
            is_started: false,
        }
    }

    /// Sends to the collector of a configuration from here on. The thread starts with the first
    /// one.
    pub fn apply(&mut self, tracing: &Arc<Tracing>) -> io::Result<()> {
        *self.tracing.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(tracing);
        if self.is_started || tracing.endpoint.is_none() {
            return Ok(());
        }
        let exporter = Exporter {
            tracing: Arc::clone(&self.tracing),
            queue: Arc::clone(&self.queue),
            counters: Arc::clone(&self.counters),
            is_busy: Arc::clone(&self.is_busy),
        };
        thread::Builder::new()
            .name("traces".into())
            .spawn(move || exporter.run())?;
        self.is_started = true;
        Ok(())
    }

    /// Waits until all spans are sent, or the time is over.
    pub async fn finish(&self, limit: Duration) {
        let is_idle = || self.queue.is_empty() && !self.is_busy.load(Ordering::Acquire);
        let wait = async {
            while self.is_started && !is_idle() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        // What is left is lost.
        let _ = timeout(limit, wait).await;
    }
}

struct Exporter {
    tracing: Arc<Mutex<Arc<Tracing>>>,
    queue: Arc<TraceQueue>,
    counters: Arc<Counters>,
    is_busy: Arc<AtomicBool>,
}

impl Exporter {
    fn run(self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
        else {
            return;
        };
        runtime.block_on(self.export());
    }

    async fn export(self) {
        let mut pause = Duration::ZERO;
        loop {
            sleep(INTERVAL.max(pause)).await;
            self.is_busy.store(true, Ordering::Release);
            loop {
                let batch = self.queue.take(BATCH_MAX);
                if batch.is_empty() {
                    break;
                }
                let tracing =
                    Arc::clone(&self.tracing.lock().unwrap_or_else(PoisonError::into_inner));
                match send(&tracing, &batch).await {
                    Ok(()) => {
                        self.count(Metric::TraceSpansSent, batch.len());
                        if !pause.is_zero() {
                            error_log::log(&message::TRACES_RESUMED, format_args!(""));
                        }
                        pause = Duration::ZERO;
                    }
                    Err(reason) => {
                        self.count(Metric::TraceSpansDropped, batch.len());
                        if pause.is_zero() {
                            let endpoint = tracing.endpoint.as_deref().unwrap_or_default();
                            error_log::log(
                                &message::TRACES_DROPPED,
                                format_args!("{endpoint}: {reason}"),
                            );
                        }
                        pause = (pause * 2).clamp(PAUSE, PAUSE_MAX);
                        break;
                    }
                }
            }
            self.is_busy.store(false, Ordering::Release);
        }
    }

    fn count(&self, metric: Metric, spans: usize) {
        self.counters.add_from_any_thread(metric, spans as u64);
    }
}

/// Sends a batch. The error is the reason why the collector has not taken it.
async fn send(tracing: &Tracing, batch: &[Span]) -> Result<(), String> {
    let member = tracing
        .upstream
        .as_ref()
        .and_then(|upstream| upstream.members.first());
    let Some(member) = member else {
        return Err("there is no collector".into());
    };
    let content = encode(&tracing.service, batch);
    match timeout(
        Duration::from_millis(tracing.timeout_ms),
        attempt(tracing, member, content),
    )
    .await
    {
        Err(_) => Err("the collector does not answer in time".into()),
        Ok(Err(failure)) => Err(failure.to_string()),
        Ok(Ok(200..=299)) => Ok(()),
        Ok(Ok(status)) => Err(format!("the collector answers {status}")),
    }
}

/// One request on a connection of its own. Returns the status.
async fn attempt(tracing: &Tracing, member: &Member, content: Vec<u8>) -> Result<u16, Failure> {
    let pool = Rc::new(Pool::new(Arc::clone(&member.backend)));
    let tuning = Tuning {
        kept_max: 0,
        connections_max: 0,
        connect_timeout_ms: tracing.timeout_ms,
        ..(*member.tuning).clone()
    };
    let context = ExchangeContext::new(Rc::default());
    let length = content.len().to_string();
    let mut fields = vec![
        ("Host", "collector"),
        ("User-Agent", "Saker"),
        ("Content-Type", "application/x-protobuf"),
        ("Content-Length", &length),
    ];
    let own = tracing.headers.iter();
    fields.extend(own.map(|(name, value)| (&**name, &**value)));
    let head = RequestHead::build("POST", &tracing.target, Version::Http11, &fields);
    let address = Address {
        target: tracing.target.as_bytes(),
        host: forward::authority(member),
        lines: forward::Lines::new(),
        blocks_via: false,
        upgrade: None,
    };
    let connection = pool.acquire(&tuning, 1, true, None).await?;
    let variables = Variables::new();
    let request = ProgramRequest {
        variables: &variables,
        content_length: Some(content.len() as u64),
        head: head.view(),
        path: &[],
        settings: &[],
    };
    let mut out = context.out_buffer();
    let dialogue = Http1Dialogue::begin(address, &request, RequestTerms::default(), &mut out);
    let dialogue = dialogue.map_err(Failure::Refused)?;
    let terms = Terms::once(tracing.timeout_ms, RequestLogContext::without_request());
    let begun = ConnectionExchange::begin(
        connection,
        terms,
        (Codec::Http1(dialogue), out),
        &request,
        Box::new(Batch(Some(content))),
        &context,
    );
    let mut upstream = UpstreamExchange::Connection(begun.map_err(|(failure, _)| failure)?);
    match poll_fn(|cx| upstream.poll_event(cx)).await? {
        UpstreamEvent::Head(head) | UpstreamEvent::Switched(head) => Ok(head.status.0),
        _ => Err(Failure::Broken(saker_cgi::Fault::Premature.into())),
    }
}

/// The content of a request.
struct Batch(Option<Vec<u8>>);

impl RequestBody for Batch {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Chunk::from(bytes))))
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }

    fn is_end(&self) -> bool {
        self.0.is_none()
    }
}
