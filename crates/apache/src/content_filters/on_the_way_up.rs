//! Sends answers through the filters that are in force for them (pipeline filter, the first of
//! Apache's).
//!
//! Difficulty: a filter that fails can only be answered with an error as long as the head is not on
//! its way. So what comes from files is gathered for a while before it goes out; what comes from a
//! program goes on as it comes. Absent on purpose: ranges of what filters have changed (RFC 9110
//! section 14.2 lets a server ignore them).

use super::{Inside, Passage, Transform, as_stream, find, stage_of};
use crate::{
    facts::Seen,
    host::{Apache, Host},
    local::Local,
    modules::filters::Chosen,
    response::{Way, facts::Answered, way},
    state::{State, peek},
};
use saker_ap_expr::Dependencies;
use saker_config::model::Settings;
use saker_files::{Kind, Watcher};
use saker_http::{Fields, Status};
use saker_pipeline::{
    Body, BodyError, BodyStream, Chunk, Exchange, Filter, LocalFuture, Response,
    respond::built_in_page,
};
use std::{future::poll_fn, sync::Arc, task::Poll};

/// Of what comes from files, this much is gathered before the head goes out.
const GATHERED_BYTES_MAX: usize = 256 << 10;

pub struct ContentFilters {
    apache: Arc<Apache>,
    watcher: Watcher,
    inside: Inside,
}

impl ContentFilters {
    pub fn new(apache: Arc<Apache>, watcher: Watcher, inside: Inside) -> ContentFilters {
        ContentFilters {
            apache,
            watcher,
            inside,
        }
    }

    async fn run(&self, exchange: &mut Exchange, response: &mut Response) {
        let Some(host) = self.apache.hosts.get(exchange.site_index).cloned() else {
            return;
        };
        let Some(own) = peek(exchange).cloned() else {
            return;
        };
        // Before the walk there are no filters, and pages that the server makes of errors go
        // through none.
        let Some(local) = own
            .local
            .clone()
            .filter(|_| way(exchange, response.status, &own) == Way::Content)
        else {
            return;
        };
        if local.filters.is_empty() && own.output_filters.is_empty()
            || response.status.forbids_content()
            || response.body.length() == Some(0)
        {
            return;
        }
        let content_type = response
            .fields()
            .first("Content-Type")
            .map(|kind| String::from_utf8_lossy(kind).into_owned());
        let chosen = self.chosen(
            exchange,
            response,
            &host,
            &own,
            &local,
            content_type.as_deref(),
        );
        let is_stored = !matches!(response.body, Body::Stream(_));
        for one in &chosen {
            let Some(filter) = find(&host, one.name) else {
                continue;
            };
            let mut passage = Passage {
                exchange,
                response,
                host: &host,
                local: &local,
                watcher: &self.watcher,
                inside: &self.inside,
            };
            if let Err(status) = filter.output(&mut passage).await {
                return *response = built_in_page(Response::new(status));
            }
            exchange.trace("respond", None, || format!("content filter {}", one.name));
        }
        let own = peek(exchange).cloned().unwrap_or_default();
        set_codings(
            exchange,
            response.status,
            &own,
            &local,
            &chosen,
            content_type.as_deref(),
        );
        let compression = &exchange.settings.compression;
        let is_large = response
            .body
            .length()
            .is_some_and(|length| length > compression.max_bytes);
        if is_large && !compression.codings.is_empty() {
            // Of unknown length, so that it is encoded while it is sent.
            let mut passage = Passage {
                exchange,
                response,
                host: &host,
                local: &local,
                watcher: &self.watcher,
                inside: &self.inside,
            };
            return passage.transform(AsItIs);
        }
        if is_stored && gather(&mut response.body).await.is_err() {
            return *response = built_in_page(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        if let Some(length) = response.body.length().filter(|_| is_stored) {
            response
                .fields_mut()
                .set("Content-Length", length.to_string().into_bytes());
        }
    }

    fn chosen<'f>(
        &self,
        exchange: &Exchange,
        response: &Response,
        host: &Host,
        own: &'f State,
        local: &'f Local,
        content_type: Option<&str>,
    ) -> Vec<Chosen<'f>> {
        let seen = Seen::new(exchange, own, host, &self.watcher);
        let facts = Answered {
            request: &seen,
            status: response.status,
            fields: response.fields(),
            always: &Fields::new(),
        };
        // Whatever expressions looked at, this outcome is not kept.
        let mut chosen = local.filters.chosen(
            |name| stage_of(host, name),
            &own.output_filters,
            content_type,
            &facts,
            &mut Dependencies::new(),
        );
        let even_errors = exchange.environment.first(b"filter-errordocs").is_some();
        chosen.retain(|one| !one.only_success || response.status == Status::OK || even_errors);
        chosen
    }
}

impl Filter for ContentFilters {
    fn name(&self) -> &'static str {
        "content filters"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        peek(exchange).is_some_and(|state| state.changes_content)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        Box::pin(self.run(exchange, response))
    }
}

/// What the pipeline's own filter, which comes next, encodes it in.
fn set_codings(
    exchange: &mut Exchange,
    status: Status,
    own: &State,
    local: &Local,
    chosen: &[Chosen<'_>],
    content_type: Option<&str>,
) {
    let environment = |name: &str| exchange.environment.first(name.as_bytes()).is_some();
    let mut compression = local.filters.compression(chosen, content_type, environment);
    // Who was to see to successes alone has not been chosen.
    compression.errors = status.is_error();
    // The field of a file that is encoded already comes later.
    if own.kind == Some(Kind::File)
        && own
            .content_lines
            .iter()
            .any(|(name, _)| &**name == "Content-Encoding")
    {
        compression.codings.clear();
    }
    if exchange.settings.compression != compression {
        exchange.settings = Arc::new(Settings {
            compression,
            ..Settings::clone(&exchange.settings)
        });
    }
}

struct AsItIs;

impl Transform for AsItIs {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        output.extend_from_slice(input);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), BodyError> {
        Ok(())
    }
}

/// Runs a stream as far as it comes without waiting. A short one becomes a body in memory, whose
/// length can be told.
async fn gather(body: &mut Body) -> Result<(), BodyError> {
    if !matches!(body, Body::Stream(_)) {
        return Ok(());
    }
    let mut stream = as_stream(std::mem::take(body));
    let mut gathered = Vec::new();
    loop {
        let step = poll_fn(|cx| Poll::Ready(stream.poll_chunk(cx))).await;
        match step {
            Poll::Ready(Some(Ok(chunk))) => gathered.extend_from_slice(chunk.bytes()),
            Poll::Ready(Some(Err(error))) => return Err(error),
            Poll::Ready(None) => {
                *body = Body::Memory(Chunk::from(gathered));
                return Ok(());
            }
            Poll::Pending => break,
        }
        if gathered.len() > GATHERED_BYTES_MAX {
            break;
        }
    }
    *body = Body::Stream(Box::new(Resumed { gathered, stream }));
    Ok(())
}

/// What has been gathered, then the rest.
struct Resumed {
    gathered: Vec<u8>,
    stream: Box<dyn BodyStream>,
}

impl BodyStream for Resumed {
    fn poll_chunk(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Chunk, BodyError>>> {
        if self.gathered.is_empty() {
            return self.stream.poll_chunk(cx);
        }
        Poll::Ready(Some(Ok(Chunk::from(std::mem::take(&mut self.gathered)))))
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.stream.trailers()
    }
}
