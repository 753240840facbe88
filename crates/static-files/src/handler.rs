//! The handler `files`: from a path below the document root to a response.
//!
//! Called by: the pipeline's content phase, for requests without another action. `locate` maps the
//! path to a file; `make` builds the representation, which is left in the exchange and answers
//! further requests.
//! Caveat: hidden names behave as if they did not exist, and only regular files are read.
//! Out of scope: write methods, and negotiation by language or media type.

use crate::{
    document_root, file_errors, fixed, listing,
    locate::{self, Located},
    located_file::LocatedFile,
    location,
    make::Maker,
    media::{self, Media},
    names,
    representation::{Outcome, Representation},
};
use saker_config::model::Action;
use saker_files::{ResolveError, Watcher};
use saker_http::{Method, Status};
use saker_pipeline::{
    Exchange, Handled, Handler, LocalFuture, Response, file_routes::follow_file, methods,
};
use std::rc::Rc;

const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// Each coding is made at most once; then the request can be answered.
const ROUNDS_MAX: usize = 4;

pub struct StaticFiles {
    watcher: Watcher,
    maker: Maker,
    media: Media,
}

impl StaticFiles {
    /// One per worker. Files up to `memory_file_bytes_max` are kept in memory.
    pub fn new(watcher: Watcher, memory_file_bytes_max: u64) -> StaticFiles {
        StaticFiles {
            watcher,
            maker: Maker {
                memory_bytes_max: memory_file_bytes_max,
                ..Maker::default()
            },
            media: Media::default(),
        }
    }

    async fn answer(&self, exchange: &mut Exchange) -> Handled {
        match exchange.head.view().method() {
            Method::Get | Method::Head => {}
            Method::Post if exchange.routing.settings.files.takes_post => {}
            Method::Options => return Handled::Answered(with_allow(Status::NO_CONTENT)),
            Method::Extension => return Handled::Answered(methods::unknown_method()),
            _ => return Handled::Answered(with_allow(Status::METHOD_NOT_ALLOWED)),
        }
        if let Some(below) = media::below(exchange)
            && let Located::File(found) = locate::at(&self.watcher, exchange, below.file.clone())
        {
            return match follow_file(exchange, &self.watcher, below.bytes_behind) {
                Ok(false) => Handled::Answered(self.hls(exchange, found, &below).await),
                Ok(true) => Handled::Restart,
                Err(refused) => Handled::Answered(refused),
            };
        }
        Handled::Answered(match locate::locate(&self.watcher, exchange) {
            Located::File(found) => self.file(exchange, found).await,
            Located::Folder { relative, folder } if exchange.routing.settings.files.listing => {
                listing::respond(exchange, &self.watcher, relative, folder).await
            }
            Located::Folder { relative, .. } => {
                exchange.trace("content", None, || {
                    "a folder without an index file, and listings are off (`listing`)".into()
                });
                file_errors::log_no_index(exchange, &relative);
                Response::new(Status::FORBIDDEN)
            }
            Located::SlashMissing => slash_redirect(exchange),
            Located::Restart => return Handled::Restart,
            Located::Answered(refused) => refused,
            Located::Refused(status, why) => {
                if let Some((relative, error)) = why {
                    file_errors::log_unavailable(exchange, &relative, error);
                }
                Response::new(status)
            }
        })
    }

    async fn file(&self, exchange: &mut Exchange, mut found: LocatedFile) -> Response {
        // What a program has passed on (X-Sendfile) is not for other requests.
        let own = exchange
            .upstream
            .internal_redirect
            .as_ref()
            .map(|handed| handed.settings(&exchange.routing.settings));
        if exchange.access.inspection.is_some() {
            // Rules inspect the file, and a precompressed sibling may have other content.
            let files = &own.as_ref().unwrap_or(&exchange.routing.settings).files;
            let content_type = names::content_type(files, &found.relative).unwrap_or_default();
            if exchange.inspects(&content_type) {
                found.siblings.clear();
            }
        }
        let part = self
            .media
            .part(&self.maker, exchange, own.as_ref(), &found)
            .await;
        if let Some(part) = part {
            self.media.pace(exchange, &found).await;
            return self.respond(exchange, found, part).await;
        }
        let representation = match self
            .maker
            .representation(exchange, own.as_ref(), &found)
            .await
        {
            Ok(representation) => representation,
            Err(error) => {
                let why = ResolveError::Io(error.raw_os_error().unwrap_or_default());
                file_errors::log_unavailable(exchange, &found.relative, why);
                return Response::new(Status::INTERNAL_SERVER_ERROR);
            }
        };
        self.media.pace(exchange, &found).await;
        self.respond(exchange, found, Ok(representation)).await
    }

    async fn hls(
        &self,
        exchange: &mut Exchange,
        mut found: LocatedFile,
        below: &media::Below,
    ) -> Response {
        let own = exchange
            .upstream
            .internal_redirect
            .as_ref()
            .map(|handed| handed.settings(&exchange.routing.settings));
        let part = self
            .media
            .hls(&self.maker, exchange, own.as_ref(), &found, below)
            .await;
        // Siblings belong to the file itself, not to what is made from it.
        found.siblings.clear();
        self.respond(exchange, found, part).await
    }

    async fn respond(
        &self,
        exchange: &mut Exchange,
        mut found: LocatedFile,
        representation: Result<Rc<Representation>, Status>,
    ) -> Response {
        let representation = match representation {
            Ok(representation) => representation,
            Err(status) => return Response::new(status),
        };
        for _ in 0..ROUNDS_MAX {
            let outcome = representation.respond(exchange.head.view(), exchange.now);
            if let Outcome::Make(coding) = outcome {
                self.maker.make(&representation, coding, &mut found).await;
                continue;
            }
            if matches!(outcome, Outcome::Answer(_)) {
                let content_type = representation
                    .facts
                    .content_type
                    .as_deref()
                    .unwrap_or_default();
                exchange.show_whole(content_type, || representation.identity.content.whole());
            }
            if !exchange.cache.request_dependent && !representation.unsettled.get() {
                exchange.cache.cached_route =
                    Some(media::reusable(exchange, &found.relative, &representation));
            }
            return response(outcome, representation.facts.varies);
        }
        Response::new(Status::INTERNAL_SERVER_ERROR)
    }
}

impl Handler for StaticFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        Box::pin(async move {
            if document_root::root(exchange).is_none() || *exchange.action() != Action::Files {
                return Handled::Declined;
            }
            self.answer(exchange).await
        })
    }
}

fn response(outcome: Outcome, varies: bool) -> Response {
    let mut response = match outcome {
        Outcome::Answer(response) => return response,
        Outcome::Failed => Response::new(Status::PRECONDITION_FAILED),
        Outcome::Unsatisfiable(length) => {
            let mut response = Response::new(Status::RANGE_NOT_SATISFIABLE);
            // RFC 9110 section 15.5.17.
            response
                .fields_mut()
                .append("Content-Range", format!("bytes */{length}").into_bytes());
            response
        }
        Outcome::Make(_) => Response::new(Status::INTERNAL_SERVER_ERROR),
    };
    if varies {
        response.fields_mut().add_token("Vary", "Accept-Encoding");
    }
    response
}

/// RFC 9110 sections 9.3.7 and 15.5.6.
fn with_allow(status: Status) -> Response {
    let mut response = Response::new(status);
    response.fields_mut().append("Allow", ALLOW);
    response
}

/// Redirects to the directory's own URL, so that relative links in it work.
fn slash_redirect(exchange: &mut Exchange) -> Response {
    let mut location = location::path(&exchange.path);
    location.push(b'/');
    if let Some(query) = exchange.query.clone() {
        exchange.depends_on_request();
        location.push(b'?');
        location::push_query(&query, &mut location);
    }
    exchange.trace("content", None, || {
        "a folder: redirected to its address with a slash".into()
    });
    fixed::redirect(
        exchange,
        Status::MOVED_PERMANENTLY,
        location,
        fixed::Queries::Decline,
    )
}
