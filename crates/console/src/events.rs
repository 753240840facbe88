//! Event streams: figures of each second, and requests as they finish (HTML, section 9.2).
//!
//! Called by: `serve`, for routes of this kind.
//! Caveat: streams are bounded in number; one ends when its client goes, does not read, or loses
//! its credentials. It is checked each second, and does not keep its session alive.
//! Out of scope: sampling, which the supervisor does.

use crate::{
    Backend, api,
    connection::Connection,
    exchange::{Form, Request, Response},
    gate,
    routes::{Action, Route},
    sessions::Identity,
    site_scope,
};
use saker_live::tail::{Filter, Watching};
use serde_json::{Value, json};
use std::{io, rc::Rc, time::Duration};
use tokio::time::{MissedTickBehavior, interval, timeout};

const INTERVAL: Duration = Duration::from_secs(1);
/// A client that does not read for that long is gone.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);
/// Interval of the parts that change slowly, in seconds.
const SLOW_S: u64 = 5;

/// Sends events until the stream ends.
pub async fn stream(
    backend: &Rc<dyn Backend>,
    connection: &mut Connection,
    request: &Request,
    (route, identity): (&Route, &Identity),
) -> io::Result<()> {
    let busy = || Response::error(503, "there are too many event streams; close another page");
    let Some(_place) = backend.state().enter_stream() else {
        return send_whole(connection, &busy()).await;
    };
    let source = match route.action {
        Action::RequestEvents => match backend
            .tail()
            .watch(site_scope::filter(identity, filter(&request.query)))
        {
            Some(watching) => Source::Requests(watching),
            None => return send_whole(connection, &busy()).await,
        },
        _ => Source::Live(backend.tail().interest()),
    };
    backend.tell_watched();
    let result = run(backend, connection, (request, identity), &source).await;
    drop(source);
    backend.tell_watched();
    result
}

enum Source {
    /// Latencies are measured while it is there.
    Live(#[expect(dead_code, reason = "held, not read")] saker_live::tail::Interest),
    Requests(Watching),
}

async fn run(
    backend: &Rc<dyn Backend>,
    connection: &mut Connection,
    (request, identity): (&Request, &Identity),
    source: &Source,
) -> io::Result<()> {
    let head = Response::new(200, "text/event-stream", "").head(None, false);
    timeout(SEND_TIME_MAX, connection.send(head.as_bytes())).await??;
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = 0u64;
    loop {
        tokio::select! {
            // Clients of a stream send nothing; the end is what is waited for.
            received = connection.receive() => return received.map(drop),
            _ = ticks.tick() => {}
        }
        // Log-in tells about errors; there are no users then.
        let _ = backend.state().refresh_users(&backend.users_file());
        let now_s = saker_net::clock::realtime_s();
        let is_closed = backend.socket().address().is_none();
        if is_closed || !gate::is_still_admitted(request, identity, backend.state(), now_s) {
            return Ok(());
        }
        let event = match source {
            Source::Live(_) => live(&**backend, count.is_multiple_of(SLOW_S)),
            Source::Requests(watching) => requests(watching),
        };
        count += 1;
        // JSON has no line breaks in it.
        let text = format!("data: {event}\n\n");
        timeout(SEND_TIME_MAX, connection.send(text.as_bytes())).await??;
    }
}

fn live(backend: &dyn Backend, has_slow: bool) -> Value {
    let sample = backend
        .history()
        .borrow()
        .latest()
        .map(|sample| sample.to_json());
    let health = has_slow.then(|| api::health(backend));
    json!({ "sample": sample, "health": health })
}

fn requests(watching: &Watching) -> Value {
    let taken = watching.take();
    let lines: Vec<Value> = taken.lines.iter().map(|line| line.to_json()).collect();
    json!({ "lines": lines, "missed": taken.missed })
}

/// The filter that a query describes.
pub fn filter(query: &Form) -> Filter {
    Filter {
        host: query.get("host").to_owned(),
        path: query.get("path").to_owned(),
        client: query.get("client").to_owned(),
        status: query
            .get("status")
            .parse()
            .ok()
            .filter(|status| *status > 0),
        duration_us_min: query
            .get("duration_ms")
            .parse::<u64>()
            .unwrap_or(0)
            .saturating_mul(1000),
        cache: query.get("cache").to_owned(),
        site: None,
    }
}

async fn send_whole(connection: &mut Connection, response: &Response) -> io::Result<()> {
    let mut bytes = response
        .head(Some(response.content.len()), false)
        .into_bytes();
    bytes.extend_from_slice(&response.content);
    timeout(SEND_TIME_MAX, connection.send(&bytes)).await?
}
