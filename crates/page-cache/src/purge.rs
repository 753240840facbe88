//! Purges: requested by responses, implied by unsafe requests, and made by PURGE, REFRESH and BAN.
//!
//! Called by: the look-up (purge requests) and `store_response`.
//! Caveat: scope. A purge never goes beyond its site, and a private one never beyond its client.
//! Out of scope: how purges are recorded (`saker_cache_store`).

use crate::{
    bans::{self, PurgeRequest},
    cache::PageCache,
    request::CacheRequest,
    shared_purges as shared,
    tags::mark,
};
use saker_cache_rules::{
    ban::{self, MagentoPurge},
    lscache::{
        control::{Control, flushes_private},
        purge as grammar,
        purge::Target,
    },
    names,
    rules::{groups, invalidation},
};
use saker_cache_store::Purge;
use saker_http::{Method, Status};
use saker_pipeline::{Body, Chunk, Exchange, Response};

/// True for methods addressed to the cache.
pub fn is_purge(method: &[u8]) -> bool {
    matches!(method, b"PURGE" | b"REFRESH" | b"BAN")
}

/// Purges that a response requests by its fields.
pub fn of_response(
    cache: &PageCache,
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
) -> Vec<Purge> {
    let mut purges = Vec::new();
    if request.settings.config.obeys_lscache {
        for purge in grammar::purges(response.fields()) {
            purges.extend(meant(cache, request, exchange, &purge));
        }
    }
    purges
}

/// The purges for the store; none if it is private, and the client has no identity.
fn meant(
    cache: &PageCache,
    request: &CacheRequest,
    exchange: &Exchange,
    purge: &grammar::Purge,
) -> Vec<Purge> {
    let scope = match purge.private {
        true => request.private_scope(),
        false => Some(request.key_base.scope.clone()),
    };
    let Some(scope) = scope else {
        return Vec::new();
    };
    let is_soft = purge.soft;
    let tags = match &purge.target {
        Target::All => vec![names::ALL.to_vec()],
        Target::Tag(tag) => vec![names::tag(tag)],
        Target::Url(target) => {
            let edits = &request.rewrite_env.edits;
            let url = request.key_base.url_of(exchange, target, edits);
            return shared::of_url(&cache.store, &scope, &url, is_soft);
        }
        // By prefix: checked entry by entry.
        Target::TagPrefix(prefix) => return vec![bans::by_prefix(&scope, prefix)],
    };
    tags.iter()
        .map(|tag| Purge::Tag {
            mark: mark(&scope, tag),
            is_soft,
        })
        .collect()
}

pub fn carry_out(cache: &PageCache, purges: Vec<Purge>) {
    if !purges.is_empty() {
        // A failure is logged, and the purge holds anyway.
        let _ = cache.store.purge(purges);
    }
}

/// Purges implied by the request: URLs invalidated by an unsafe method (RFC 9111 section 4.4), and
/// the client's private pages.
pub fn of_request(
    cache: &PageCache,
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
) -> Vec<Purge> {
    let config = &request.settings.config;
    let view = exchange.head.view();
    let method = view.method();
    let mut purges = match config.obeys_http && !view.is_safe() {
        true => {
            let mut purges = invalidated(cache, request, exchange, response);
            purges.extend(invalidated_groups(request, response));
            purges
        }
        false => Vec::new(),
    };
    // A page fetches its fragments on its own behalf, not the client's.
    if config.obeys_lscache && method == Method::Post && request.include.is_none() {
        let mut control = Control::default();
        request.rewrite_env.apply_to(&mut control);
        control.apply_response(response.fields(), &request.settings.lscache);
        if let Some(scope) = request
            .private_scope()
            .filter(|_| flushes_private(method, &control))
        {
            purges.extend(shared::implied_by_tag(
                &cache.store,
                mark(&scope, names::ALL),
            ));
        }
    }
    purges
}

/// URLs that a successful unsafe request invalidates (RFC 9111 section 4.4), as far as they may
/// have entries, now or when a fetch under way completes.
fn invalidated(
    cache: &PageCache,
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
) -> Vec<Purge> {
    let view = exchange.head.view();
    let scheme = if exchange.client.secure {
        "https"
    } else {
        "http"
    };
    let authority = view
        .known(saker_http::KnownField::Host)
        .unwrap_or(&exchange.host);
    let origin = invalidation::Origin { scheme, authority };
    let targets = invalidation::invalidated(
        view.method(),
        origin,
        view.target(),
        response.status,
        response.fields(),
    );
    let edits = &request.rewrite_env.edits;
    targets
        .iter()
        .flat_map(|target| {
            let url = request.key_base.url_of(exchange, target, edits);
            shared::implied_by_url(&cache.store, &request.key_base.scope, &url)
        })
        .collect()
}

/// The cache groups that a successful unsafe request invalidates (RFC 9875 section 3): those of its
/// own origin, whatever the response names.
fn invalidated_groups(request: &CacheRequest, response: &Response) -> Vec<Purge> {
    if response.status.is_error() {
        return Vec::new();
    }
    let origin = request.key_base.origin();
    groups::invalidated(response.fields())
        .iter()
        .map(|name| mark(&request.key_base.scope, &names::group(origin, name)))
        .map(|mark| Purge::Tag {
            mark,
            is_soft: false,
        })
        .collect()
}

/// Answers a purge request.
pub fn answer(cache: &PageCache, exchange: &mut Exchange) -> Response {
    let config = exchange.routing.settings.cache.clone();
    let ip = exchange.client.ip();
    if !cache
        .purgers
        .iter()
        .chain(&config.purgers)
        .any(|network| network.contains(ip))
    {
        exchange.trace("cache", None, || {
            format!("{ip} may not purge (`purge_from`)")
        });
        let mut response = Response::new(Status::METHOD_NOT_ALLOWED);
        response
            .fields_mut()
            .append("Allow", &b"GET, HEAD, POST, OPTIONS"[..]);
        return response;
    }
    let settings = cache.settings.of(&config);
    let Some(request) = CacheRequest::of(exchange, settings, cache.store.purge_seq()) else {
        return Response::new(Status::BAD_REQUEST);
    };
    let (purges, what) = match asked(cache, &request, exchange) {
        Ok((purges, _)) if purges.is_empty() => {
            return text(Status::BAD_REQUEST, "nothing to purge is named\n");
        }
        Ok(asked) => asked,
        Err(why) => return text(Status::BAD_REQUEST, &format!("{why}\n")),
    };
    match cache.store.purge(purges) {
        Ok(_) => text(Status::OK, &format!("purged {what}\n")),
        Err(_) => text(
            Status::INTERNAL_SERVER_ERROR,
            "purged, but the purge could not be saved; see the error log\n",
        ),
    }
}

/// Fields that name tags in requests, as Varnish's xkey, Fastly and others have them.
const TAG_FIELDS: [&str; 6] = [
    "xkey",
    "xkey-purge",
    "surrogate-key",
    "cache-tag",
    "purge-cache-tags",
    "x-litespeed-tag",
];

fn asked(cache: &PageCache, request: &CacheRequest, exchange: &Exchange) -> PurgeRequest {
    let view = exchange.head.view();
    let scope = &request.key_base.scope;
    let method = view.method_token();
    if let Some(pattern) = view.first("x-magento-tags-pattern") {
        return magento(request, pattern);
    }
    if method == b"BAN"
        && let Some(asked) = bans::of_request(scope, view)
    {
        return asked;
    }
    let is_soft = method == b"REFRESH"
        || view
            .first("x-purge-soft")
            .or(view.first("surrogate-purge-soft"))
            .is_some();
    let by_tag: Vec<&[u8]> = TAG_FIELDS
        .iter()
        .flat_map(|name| view.all(name))
        .flat_map(|line| line.split(|byte| matches!(byte, b',' | b' ')))
        .filter(|tag| !tag.is_empty())
        .collect();
    if !by_tag.is_empty() {
        let purge = |tag: &&[u8]| Purge::Tag {
            mark: mark(scope, &names::tag(tag)),
            is_soft,
        };
        return Ok((
            by_tag.iter().map(purge).collect(),
            format!("{} tags", by_tag.len()),
        ));
    }
    let as_purge: &[u8] = if is_soft { b"REFRESH" } else { b"PURGE" };
    let path = request.settings.lscache.purge_path.as_deref();
    let purges = grammar::of_request(as_purge, view.target(), path, view.all("x-litespeed-purge"))
        .unwrap_or_default();
    let mut meant: Vec<Purge> = purges
        .iter()
        .flat_map(|purge| meant(cache, request, exchange, purge))
        .collect();
    if !request.is_at(view.target(), path) {
        // The URL as in keys, which may leave out parts of the query.
        meant.extend(shared::of_url(&cache.store, scope, &request.url(), is_soft));
    }
    Ok((meant, String::from_utf8_lossy(view.target()).into_owned()))
}

/// Magento's tag pattern for Varnish: `((^
/// ,)cat_p_1(,
/// $))
/// ((^
/// ,)cat_c_2(,
/// $))`, or `.*` for all.
fn magento(request: &CacheRequest, pattern: &[u8]) -> PurgeRequest {
    let scope = &request.key_base.scope;
    let tag_purge = |tag: &[u8]| Purge::Tag {
        mark: mark(scope, tag),
        is_soft: false,
    };
    match ban::magento_purge(pattern) {
        MagentoPurge::All => Ok((vec![tag_purge(names::ALL)], "everything".into())),
        MagentoPurge::Tags(tags) => {
            let what = format!("{} tags", tags.len());
            Ok((
                tags.iter().map(|tag| tag_purge(&names::tag(tag))).collect(),
                what,
            ))
        }
        MagentoPurge::Pattern => bans::by_expression(
            scope,
            &format!("obj.http.X-Magento-Tags ~ {}", bans::quoted(pattern)),
        ),
    }
}

fn text(status: Status, words: &str) -> Response {
    let mut response = Response::new(status);
    response
        .fields_mut()
        .append("Content-Type", &b"text/plain; charset=utf-8"[..]);
    response.body = Body::Memory(Chunk::from(words.as_bytes().to_vec()));
    response
}
