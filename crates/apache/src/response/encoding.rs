//! Which filters the content of a file will go through: its codings are its handler's, everything
//! else comes on the way up.

use crate::{
    content_filters::{find, stage_of},
    facts::{RequestFacts, note_dependencies},
    memo::Memo,
    modules::setenvif,
    response::facts::Answered,
    state::{peek, snapshot, state},
};
use saker_ap_expr::{Dependencies, Dependency, Facts};
use saker_apache_model::{dir_config::DirConfig, host::Host, modules::filters::WHOLE_BYTES_MAX};
use saker_config::model::{Compression, CompressionCoding};
use saker_files::{Kind, Watcher};
use saker_http::{
    Fields, Status,
    content_coding::{AcceptedCodings, Coding},
};
use saker_pipeline::Exchange;

/// Dependencies of an expression about a filter that leave the outcome the resource's.
const RESOURCE: &[Dependency] = &[
    Dependency::Path,
    Dependency::Host,
    Dependency::Scheme,
    Dependency::Files,
    Dependency::Environment,
    Dependency::Response,
];

/// Puts the codings into the exchange's settings, or says that the content will be other content.
pub fn choose(
    memo: &mut Memo,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
    content_type: Option<&str>,
) {
    let own = snapshot(exchange);
    if local.filters.is_empty() && own.output_filters.is_empty() {
        return;
    }
    // Listings are pages.
    let content_type = match own.kind {
        Some(Kind::Directory) => Some("text/html"),
        _ => content_type,
    };
    let mut fields = Fields::new();
    if let Some(kind) = content_type {
        fields.append("Content-Type", kind.as_bytes().to_vec());
    }
    let mut dependencies = Dependencies::new();
    let (compression, changes_content, chosen, stamps) = {
        let seen = RequestFacts::new(exchange, &own, host, watcher);
        let facts = Answered {
            request: &seen,
            status: Status::OK,
            fields: &fields,
            always: &Fields::new(),
            is_content: true,
        };
        let chosen = local.filters.chosen(
            |name| stage_of(host, name),
            &own.output_filters,
            content_type,
            &facts,
            &mut dependencies,
        );
        let environment = |name: &str| exchange.environment.first(name.as_bytes()).is_some();
        let changes = chosen
            .iter()
            .any(|one| find(host, one.name).is_some_and(|filter| filter.changes_files()));
        let names: Vec<String> = chosen.iter().map(|one| one.name.to_owned()).collect();
        let compression = local
            .filters
            .compression(&chosen, content_type, environment);
        (compression, changes, names, seen.stamps.take())
    };
    if dependencies.is_within(RESOURCE) {
        exchange.cache.change_tokens.extend(stamps);
    } else {
        note_dependencies(exchange, &dependencies, stamps);
    }
    for name in ["no-gzip", "no-brotli", "gzip-only-text/html"] {
        setenvif::depends_on_variable(exchange, host, local, Some(name.as_bytes()));
    }
    let filters = || chosen.iter().filter_map(|name| find(host, name));
    filters().for_each(|filter| filter.prepare(exchange, host, local));
    if changes_content {
        leave_whole(exchange);
        if !filters().all(|filter| filter.keeps_validators(exchange, watcher, local)) {
            without_fields(exchange, CONDITIONS);
        }
    } else if !compression.codings.is_empty() && is_large(exchange, host, watcher) {
        encode_while_sent(exchange, &compression);
    } else if !compression.codings.is_empty() {
        exchange.routing.settings = memo.compressed(&exchange.routing.settings, compression);
    }
}

/// Returns whether the file is too large to be encoded whole, and kept.
fn is_large(exchange: &mut Exchange, host: &Host, watcher: &Watcher) -> bool {
    let Some(own) = peek(exchange)
        .cloned()
        .filter(|own| own.kind == Some(Kind::File))
    else {
        return false;
    };
    let (bytes, stamps) = {
        let seen = RequestFacts::new(exchange, &own, host, watcher);
        (seen.file_bytes(&own.filename), seen.stamps.take())
    };
    exchange.cache.change_tokens.extend(stamps);
    bytes.is_some_and(|bytes| bytes > WHOLE_BYTES_MAX)
}

/// A client that wants a part of a large file, or no coding, gets it from its handler.
fn encode_while_sent(exchange: &mut Exchange, compression: &Compression) {
    state(exchange).vary.push("Accept-Encoding".into());
    exchange.depends_on_request();
    let codings = compression.codings.iter().map(|coding| match coding {
        CompressionCoding::Gzip => Coding::Gzip,
        CompressionCoding::Brotli => Coding::Brotli,
        CompressionCoding::Zstd => Coding::Zstd,
    });
    let offered: Vec<Coding> = codings.chain([Coding::Identity]).collect();
    let best = AcceptedCodings::of(exchange.head.view()).best(&offered);
    if best.is_some_and(|best| best != Coding::Identity)
        && exchange.head.view().first("range").is_none()
    {
        leave_whole(exchange);
    }
}

/// The handler is to answer with all of the file, uncoded: parts and codings are those of other
/// bytes. What comes of it is not kept.
fn leave_whole(exchange: &mut Exchange) {
    exchange.depends_on_request();
    state(exchange).changes_content = true;
    without_fields(exchange, &["range"]);
}

/// RFC 9110 section 13.1.
const CONDITIONS: &[&str] = &[
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
];

fn without_fields(exchange: &mut Exchange, names: &[&str]) {
    let view = exchange.head.view();
    if names.iter().any(|name| view.first(name).is_some()) {
        let is_kept = |name: &[u8]| {
            !names
                .iter()
                .any(|gone| gone.as_bytes().eq_ignore_ascii_case(name))
        };
        exchange.head = exchange
            .head
            .with_fields(view.fields().filter(|(name, _)| is_kept(name)));
    }
}
