//! mod_status: what the server does right now (handler `server-status`), as a page and, with
//! `?auto`, for programs.
//!
//! Place in the walk: content, in the place of a file. The numbers are the server's, behind a
//! narrow trait. Difficulty: Apache's page is about threads that each look after one connection;
//! ours look after many. So a busy worker is a request that is being answered, and an idle one a
//! request more that could be. Absent on purpose: the last request of workers that rest; only what
//! is under way is listed.

mod auto;
mod numbers;
mod page;
pub mod report;
mod view;

pub use report::{Counts, Figures, OpenRequest, Report, WorkerReport};

use crate::{origin, signature, status::view::View};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_http::{Method, Status};
use saker_pipeline::{Body, Chunk, Exchange, Response};

/// Apache's ServerLimit times ThreadsPerChild, where nothing else is said (httpd 2.4, event).
const SLOTS: u64 = 400;

/// A page has no room for more.
const SLOTS_MAX: u64 = 20_000;

/// The answer to a GET; `None` for other methods.
pub fn answer(
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    figures: &dyn Figures,
) -> Option<Response> {
    if !matches!(exchange.head.view().method(), Method::Get | Method::Head) {
        return None;
    }
    exchange.depends_on_request();
    let report = figures.report();
    let settings = &host.process;
    let view = View {
        slots: settings
            .request_workers_max
            .unwrap_or(SLOTS)
            .clamp(1, SLOTS_MAX),
        is_extended: settings.extended_status,
        name: origin::name(exchange, host),
        address: exchange.client.local.ip().to_canonical().to_string(),
        software: signature::software(host),
        signature: signature::footer(exchange, host, local),
        report: &report,
    };
    let query = exchange.query.clone().unwrap_or_default();
    let has = |word: &[u8]| query.windows(word.len()).any(|part| part == word);
    let (kind, text) = match has(b"auto") {
        true => (
            "text/plain; charset=ISO-8859-1",
            auto::text(&view).into_bytes(),
        ),
        false => (
            "text/html; charset=ISO-8859-1",
            page::html(&view, !has(b"notable")),
        ),
    };
    let mut response = Response::new(Status::OK);
    response
        .fields_mut()
        .set("Content-Type", kind.as_bytes().to_vec());
    if let Some(seconds) = refresh(&query) {
        response
            .fields_mut()
            .set("Refresh", seconds.to_string().into_bytes());
    }
    response.body = Body::Memory(Chunk::from(text));
    Some(response)
}

/// `refresh=N`; alone, every ten seconds.
fn refresh(query: &[u8]) -> Option<u64> {
    let at = query.windows(7).position(|part| part == b"refresh")?;
    let digits = query.get(at + 7..)?.strip_prefix(b"=").unwrap_or_default();
    let digits = digits
        .split(|byte| !byte.is_ascii_digit())
        .next()
        .unwrap_or_default();
    Some(
        std::str::from_utf8(digits)
            .ok()?
            .parse()
            .ok()
            .filter(|seconds| *seconds > 0)
            .unwrap_or(10),
    )
}

#[cfg(test)]
mod tests;
