//! Sends responses through the filters that are in force for them.
//!
//! Called by: the pipeline, as the first of Apache's response filters.
//! Caveat: a filter that fails can only be answered with an error page while the head has not been
//! sent. So content from files is gathered first; content of programs goes out as it comes.
//! Out of scope: ranges of filtered content (RFC 9110 section 14.2 lets a server ignore them).

use crate::{
    content_filters::{filter::Passage, find, inside::Inside, stage_of},
    facts::RequestFacts,
    response::{facts::Answered, host_of, layers::Way, way},
    state::{State, peek, snapshot},
};
use saker_ap_expr::Dependencies;
use saker_apache_model::{
    dir_config::DirConfig,
    host::{Apache, Host},
    modules::filters::Chosen,
};
use saker_config::model::{CompressionCoding, Settings};
use saker_content_filters::{PassThrough, catalog, gather, transform_response};
use saker_files::{Kind, Watcher};
use saker_http::{Fields, Method, Status};
use saker_pipeline::{Body, Exchange, Filter, LocalFuture, Response, respond::built_in_page};
use std::sync::Arc;

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
        let Some((host, own, local)) = self.in_force(exchange, response) else {
            return;
        };
        let content_type = response
            .fields()
            .first("Content-Type")
            .map(|kind| String::from_utf8_lossy(kind).into_owned());
        let content_type = content_type.as_deref();
        let chosen = self.chosen(exchange, response, &host, &own, &local, content_type);
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
        let own = snapshot(exchange);
        set_codings(
            exchange,
            response.status,
            &own,
            &local,
            &chosen,
            content_type,
        );
        finish_body(exchange, response, is_stored).await;
    }

    /// Returns the settings for this response; `None` if no filter applies to it.
    fn in_force(
        &self,
        exchange: &Exchange,
        response: &Response,
    ) -> Option<(Arc<Host>, State, Arc<DirConfig>)> {
        let host = host_of(&self.apache, exchange)?;
        let own = peek(exchange)?;
        // Settings are known after the directory walk only, and generated error pages are not
        // filtered.
        let local = own
            .local
            .as_ref()
            .filter(|_| way(exchange, response.status, own) == Way::Content)?;
        let has_filters = !local.filters.is_empty() || !own.output_filters.is_empty();
        let has_content = !response.status.forbids_content() && response.body.length() != Some(0);
        (has_filters && has_content).then(|| (Arc::clone(host), own.clone(), Arc::clone(local)))
    }

    fn chosen<'f>(
        &self,
        exchange: &Exchange,
        response: &Response,
        host: &Host,
        own: &'f State,
        local: &'f DirConfig,
        content_type: Option<&str>,
    ) -> Vec<Chosen<'f>> {
        let seen = RequestFacts::new(exchange, own, host, &self.watcher);
        let facts = Answered {
            request: &seen,
            status: response.status,
            fields: response.fields(),
            always: &Fields::new(),
            is_content: true,
        };
        // The dependencies don't matter: this outcome is not cached.
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

/// Gathers stored content for its length, or leaves large content to be encoded while it is sent.
async fn finish_body(exchange: &Exchange, response: &mut Response, is_stored: bool) {
    let compression = &exchange.routing.settings.compression;
    let is_large = response
        .body
        .length()
        .is_some_and(|length| length > compression.max_bytes);
    if is_large && !compression.codings.is_empty() {
        // Of unknown length, so that it is encoded while it is sent.
        return transform_response(response, PassThrough);
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

/// Returns whether a FastCGI application answers, whose content ends in a record of its own
/// (FastCGI 1.0, section 5.3).
fn comes_in_pieces(exchange: &Exchange, own: &State) -> bool {
    let url = own.proxied.as_ref().map(|proxied| proxied.url.as_slice());
    let handler = exchange.routing.handler.as_deref().map(str::as_bytes);
    let is_fastcgi = |name: &[u8]| name.windows(7).any(|part| part == b"fcgi://");
    url.into_iter().chain(handler).any(is_fastcgi)
}

/// Sets the codings for the `compress` filter, which comes next.
fn set_codings(
    exchange: &mut Exchange,
    status: Status,
    own: &State,
    local: &DirConfig,
    chosen: &[Chosen<'_>],
    content_type: Option<&str>,
) {
    let environment = |name: &str| exchange.environment.first(name.as_bytes()).is_some();
    let mut compression = local.filters.compression(chosen, content_type, environment);
    // Filters for successes alone have not been chosen.
    compression.errors = status.is_error();
    // Apache knows only of content that comes in one piece that it is short.
    let is_split = chosen
        .iter()
        .any(|one| one.name.eq_ignore_ascii_case(catalog::SUBSTITUTE.name));
    if is_split {
        compression.min_bytes = compression.min_bytes.min(1);
    }
    if exchange.limits.reflects_content || comes_in_pieces(exchange, own) {
        // An application has no content for HEAD, of which DEFLATE makes nothing.
        let is_head = exchange.head.view().method() == Method::Head;
        if is_head && !compression.codings.contains(&CompressionCoding::Brotli) {
            compression.codings.clear();
        }
        compression.min_bytes = compression.min_bytes.min(1);
    }
    // The Content-Encoding of a file that is already encoded is set later.
    if own.kind == Some(Kind::File)
        && own
            .content_lines
            .iter()
            .any(|(name, _)| &**name == "Content-Encoding")
    {
        compression.codings.clear();
    }
    if exchange.routing.settings.compression != compression {
        exchange.routing.settings = Arc::new(Settings {
            compression,
            ..Settings::clone(&exchange.routing.settings)
        });
    }
}
