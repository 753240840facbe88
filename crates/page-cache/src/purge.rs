//! Purges: those that responses ask for, those that follow from what was done, and those of
//! requests made for it.
//!
//! Difficulty: whose entries. A purge never goes beyond the site that it was asked of, and a
//! private one never beyond its visitor.

use crate::{
    bans::{self, PurgeRequest},
    cache::PageCache,
    request::CacheRequest,
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
    rules::invalidation,
};
use saker_cache_store::Purge;
use saker_http::{Method, Status};
use saker_pipeline::{Body, Chunk, Exchange, Response};

/// Methods that are for the cache alone.
pub fn is_purge(method: &[u8]) -> bool {
    matches!(method, b"PURGE" | b"REFRESH" | b"BAN")
}

/// What a response purges, by its own words and by what was asked.
pub fn of_response(request: &CacheRequest, exchange: &Exchange, response: &Response) -> Vec<Purge> {
    let mut purges = Vec::new();
    if request.settings.config.obeys_lscache {
        for purge in grammar::purges(response.fields()) {
            purges.extend(meant(request, exchange, &purge));
        }
    }
    purges
}

/// In the store's words. `None`: there is nobody whom it could be about.
pub fn meant(request: &CacheRequest, exchange: &Exchange, purge: &grammar::Purge) -> Option<Purge> {
    let scope = match purge.private {
        true => request.private_scope()?,
        false => request.key_base.scope.clone(),
    };
    let is_soft = purge.soft;
    let tag = match &purge.target {
        Target::All => names::ALL.to_vec(),
        Target::Tag(tag) => names::tag(tag),
        Target::Url(target) => names::url_tag(&request.key_base.url_of(
            exchange,
            target,
            &request.rewrite_env.edits,
        )),
        // By what it begins with: looked at entry by entry.
        Target::TagPrefix(prefix) => return Some(bans::by_prefix(&scope, prefix)),
    };
    Some(Purge::Tag {
        mark: mark(&scope, &tag),
        is_soft,
    })
}

pub fn carry_out(cache: &PageCache, purges: Vec<Purge>) {
    if !purges.is_empty() {
        // An error is in the log, and it holds all the same.
        let _ = cache.store.purge(purges);
    }
}

/// What an answered request that changes things takes away besides: the address (RFC 9111 section
/// 4.4), and the visitor's own pages.
pub fn of_request(
    cache: &PageCache,
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
) -> Vec<Purge> {
    let config = &request.settings.config;
    let method = exchange.head.view().method();
    let mut purges = match config.obeys_http && !method.is_safe() {
        true => invalidated(cache, request, exchange, response),
        false => Vec::new(),
    };
    // A page asks for its parts in its own name, not in the visitor's.
    if config.obeys_lscache && method == Method::Post && request.include.is_none() {
        let mut control = Control::default();
        request.rewrite_env.apply_to(&mut control);
        control.apply_response(response.fields(), &request.settings.lscache);
        if let Some(scope) = request
            .private_scope()
            .filter(|_| flushes_private(method, &control))
        {
            let mark = mark(&scope, names::ALL);
            purges.extend(cache.store.may_get(mark).then_some(Purge::Tag {
                mark,
                is_soft: false,
            }));
        }
    }
    purges
}

/// Addresses that an answered unsafe request makes invalid (RFC 9111 section 4.4), as far as there
/// may be entries of them, now or when what is under way has come.
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
    let marks = targets.iter().map(|target| {
        mark(
            &request.key_base.scope,
            &names::url_tag(
                &request
                    .key_base
                    .url_of(exchange, target, &request.rewrite_env.edits),
            ),
        )
    });
    marks
        .filter(|mark| cache.store.may_get(*mark))
        .map(|mark| Purge::Tag {
            mark,
            is_soft: false,
        })
        .collect()
}

/// A request that purges.
pub fn answer(cache: &PageCache, exchange: &mut Exchange) -> Response {
    let config = exchange.settings.cache.clone();
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
    let (purges, what) = match asked(&request, exchange) {
        Ok((purges, _)) if purges.is_empty() => {
            return text(
                Status::BAD_REQUEST,
                "nothing that could be purged is named\n",
            );
        }
        Ok(asked) => asked,
        Err(why) => return text(Status::BAD_REQUEST, &format!("{why}\n")),
    };
    match cache.store.purge(purges) {
        Ok(_) => text(Status::OK, &format!("purged {what}\n")),
        Err(_) => text(
            Status::INTERNAL_SERVER_ERROR,
            "purged, but it could not be written down; see the error log\n",
        ),
    }
}

/// Tags, as Varnish's xkey, Fastly and others name them in requests.
const TAG_FIELDS: [&str; 6] = [
    "xkey",
    "xkey-purge",
    "surrogate-key",
    "cache-tag",
    "purge-cache-tags",
    "x-litespeed-tag",
];

fn asked(request: &CacheRequest, exchange: &Exchange) -> PurgeRequest {
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
        .filter_map(|purge| meant(request, exchange, purge))
        .collect();
    if !request.is_at(view.target(), path) {
        // The address as keys have it, which may leave parts of the query out.
        meant.push(Purge::Tag {
            mark: mark(scope, &names::url_tag(&request.url())),
            is_soft,
        });
    }
    Ok((meant, String::from_utf8_lossy(view.target()).into_owned()))
}

/// Magento's way of naming tags to Varnish: `((^|,)cat_p_1(,|$))|((^|,)cat_c_2(,|$))`, or `.*` for
/// all.
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
