//! One check of one server: a connection, and where it is a server of HTTP, a request and its
//! answer.

use crate::{
    codecs::Codec,
    connection_exchange::{ConnectionExchange, Terms},
    exchange_context::{ExchangeContext, UpstreamEvent},
    failure::Failure,
    forward::{self, Address},
    http1_dialogue::{Http1Dialogue, RequestTerms},
    http2::{self, StreamExchange},
    pool::Pool,
    upstream_exchange::UpstreamExchange,
};
use saker_cgi::{ProgramRequest, Variables};
use saker_config::model::{HealthAnswer, HealthCheck, HealthMethod, Member, Protocol, Tuning};
use saker_http::{RequestHead, Version};
use saker_net::proxy_preface;
use saker_pipeline::{NoBody, RequestLogContext};
use std::{future::poll_fn, rc::Rc, time::Duration};
use tokio::time::timeout;

/// As much content as is looked at.
const CONTENT_BYTES_MAX: usize = 64 << 10;

const LATE: &str = "does not answer in time";

/// The error is why it is not well.
pub async fn ask(pool: &Rc<Pool>, member: &Member, check: &HealthCheck) -> Result<(), String> {
    match answer(pool, member, check).await? {
        None => Ok(()),
        Some(answer) if check.is_passed(&answer) => Ok(()),
        Some(answer) => Err(format!(
            "{} {} is answered by {}",
            check.method.as_str(),
            check.target,
            answer.status
        )),
    }
}

/// One connection for one check, within the check's own time limit.
fn once(member: &Member, check: &HealthCheck) -> Tuning {
    Tuning {
        kept_max: 0,
        connections_max: 0,
        connect_timeout_ms: check.timeout_ms,
        ..(*member.tuning).clone()
    }
}

/// Only connects: under TLS, up to the end of the handshake.
pub async fn connect(pool: &Rc<Pool>, member: &Member, check: &HealthCheck) -> Result<(), String> {
    let tuning = once(member, check);
    let connecting = pool.acquire(&tuning, 1, true, None);
    match timeout(Duration::from_millis(check.timeout_ms), connecting).await {
        Err(_) => Err(LATE.to_owned()),
        Ok(Err(failure)) => Err(failure.to_string()),
        Ok(Ok(_)) => Ok(()),
    }
}

/// The answer to one check; `None`: it takes connections, and nothing more is asked.
pub async fn answer(
    pool: &Rc<Pool>,
    member: &Member,
    check: &HealthCheck,
) -> Result<Option<HealthAnswer>, String> {
    match timeout(
        Duration::from_millis(check.timeout_ms),
        attempt(pool, member, check),
    )
    .await
    {
        Err(_) => Err(LATE.to_owned()),
        Ok(Err(failure)) => Err(failure.to_string()),
        Ok(Ok(answer)) => Ok(answer),
    }
}

/// `None`: it takes connections, and nothing more is asked.
async fn attempt(
    pool: &Rc<Pool>,
    member: &Member,
    check: &HealthCheck,
) -> Result<Option<HealthAnswer>, Failure> {
    let tuning = once(member, check);
    let context = ExchangeContext::new(Rc::default());
    let protocol = member.backend.protocol;
    if check.method == HealthMethod::Connect
        || !matches!(protocol, Protocol::Http1 | Protocol::Http2)
    {
        return pool.acquire(&tuning, 1, true, None).await.map(|_| None);
    }
    let fields = [
        ("Host", "health"),
        ("User-Agent", "Saker (health check)"),
        ("Accept", "*/*"),
    ];
    let head = RequestHead::build(
        check.method.as_str(),
        &check.target,
        Version::Http11,
        &fields,
    );
    let address = Address {
        target: check.target.as_bytes(),
        host: forward::authority(member),
        lines: forward::Lines::new(),
        blocks_via: false,
        upgrade: None,
    };
    let upstream = match protocol {
        Protocol::Http2 => over_http2(pool, &tuning, &head, &address, &context).await?,
        _ => over_http1(pool, &tuning, &head, address, &context).await?,
    };
    listen(upstream).await.map(Some)
}

/// Begins a GET request over a connection of its own.
///
/// # Errors
/// No connection, or a request that HTTP/1.1 has no words for.
pub(crate) async fn over_http1(
    pool: &Rc<Pool>,
    tuning: &Tuning,
    head: &RequestHead,
    address: Address<'_>,
    context: &ExchangeContext,
) -> Result<UpstreamExchange, Failure> {
    let connection = pool.acquire(tuning, 1, true, None).await?;
    let variables = Variables::new();
    let request = ProgramRequest {
        variables: &variables,
        content_length: Some(0),
        head: head.view(),
        path: &[],
        settings: &[],
    };
    let mut out = context.out_buffer();
    if let Some(version) = tuning.proxy_preface {
        // The check is this server's own, not a client's.
        proxy_preface::encode(version, None, &mut out);
    }
    let dialogue = Http1Dialogue::begin(address, &request, RequestTerms::default(), &mut out);
    let dialogue = dialogue.map_err(Failure::Refused)?;
    let terms = Terms::once(tuning.timeout_ms, RequestLogContext::without_request());
    let begun = ConnectionExchange::begin(
        connection,
        terms,
        (Codec::Http1(dialogue), out),
        &request,
        Box::new(NoBody),
        context,
    );
    begun
        .map(UpstreamExchange::Connection)
        .map_err(|(failure, _)| failure)
}

async fn over_http2(
    pool: &Rc<Pool>,
    tuning: &Tuning,
    head: &RequestHead,
    address: &Address<'_>,
    context: &ExchangeContext,
) -> Result<UpstreamExchange, Failure> {
    let link = http2::acquire(pool, tuning, 1, true, context).await?;
    let is_secure = pool.backend.tls.is_some();
    let stream = link.open(true, |to| {
        http2::encode(head.view(), address, is_secure, Some(0), to)
    });
    let stream = stream.map_err(|_| Failure::Unprocessed)?;
    Ok(UpstreamExchange::Stream(Box::new(StreamExchange::new(
        stream,
        Box::new(NoBody),
        false,
        tuning.timeout_ms,
        (context, None),
    ))))
}

async fn listen(mut upstream: UpstreamExchange) -> Result<HealthAnswer, Failure> {
    let mut answer = HealthAnswer::default();
    while answer.content.len() < CONTENT_BYTES_MAX {
        match poll_fn(|cx| upstream.poll_event(cx)).await? {
            UpstreamEvent::Head(head) | UpstreamEvent::Switched(head) => {
                answer.status = head.status.0;
                answer.fields = head
                    .fields
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.to_vec()))
                    .collect();
            }
            UpstreamEvent::Content(content) => answer.content.extend_from_slice(content.bytes()),
            UpstreamEvent::Trailers(_) => {}
            UpstreamEvent::End => break,
        }
    }
    Ok(answer)
}
