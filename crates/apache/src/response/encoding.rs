//! Which codings a response is offered in, from the filters that are in force for it.

use super::facts::Answered;
use crate::{
    facts::{Seen, note_dependencies},
    host::Host,
    local::Local,
    memo::Memo,
    modules::setenvif,
    state::peek,
};
use saker_expressions::{Dependencies, Dependency};
use saker_files::{Kind, Watcher};
use saker_http::{Fields, Status};
use saker_pipeline::Exchange;

/// What an expression about a filter may ask for without making the outcome the request's.
const RESOURCE: &[Dependency] =
    &[Dependency::Path, Dependency::Host, Dependency::Scheme, Dependency::Files, Dependency::Environment, Dependency::Response];

/// Puts the codings into the exchange's settings.
pub fn choose(
    memo: &mut Memo,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &Local,
    by_extension: &[Box<str>],
    content_type: Option<&str>,
) {
    if local.filters.is_empty() && by_extension.is_empty() {
        return;
    }
    let own = peek(exchange).cloned().unwrap_or_default();
    // Listings are pages.
    let content_type = if own.kind == Some(Kind::Directory) { Some("text/html") } else { content_type };
    let mut fields = Fields::new();
    content_type.into_iter().for_each(|kind| fields.append("Content-Type", kind.as_bytes().to_vec()));
    let mut dependencies = Dependencies::new();
    let (compression, stamps) = {
        let seen = Seen::new(exchange, &own, host, watcher);
        let facts = Answered { request: &seen, status: Status::OK, fields: &fields, always: &Fields::new() };
        let names = local.filters.names(by_extension, content_type, &facts, &mut dependencies);
        let environment = |name: &str| exchange.environment.first(name.as_bytes()).is_some();
        (local.filters.compression(&names, content_type, environment), seen.stamps.take())
    };
    if dependencies.is_within(RESOURCE) {
        exchange.stamps.extend(stamps);
    } else {
        note_dependencies(exchange, &dependencies, stamps);
    }
    if ["no-gzip", "no-brotli", "gzip-only-text/html"].iter().any(|name| setenvif::may_vary(host, local, Some(name.as_bytes()))) {
        exchange.depends_on_request();
    }
    if !compression.codings.is_empty() {
        exchange.settings = memo.compressed(&exchange.settings, compression);
    }
}
