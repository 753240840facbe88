//! Decisions of the page cache about a request (`saker explain`): the settings, rules, fields and
//! cookies that decide.
//!
//! Called by: the pipeline, in place of the look-up.
//! Caveat: only the response decides in the end whether it is stored, and there is none here; so
//! the output names the response fields that would count.
//! Out of scope: the store, which belongs to the running server (`saker cache show`).

use crate::{announce::is_made, purge, request::CacheRequest, settings::CacheSettings};
use saker_cache_rules::{
    lscache::{
        control::{Control, judge_request},
        identity,
        rewrite_env::RewriteEnv,
        vary::VaryRules,
    },
    rules::ClientControl,
};
use saker_config::model::CacheUse;
use saker_http::{KnownField, Method};
use saker_pipeline::{Exchange, Handled, Handler, LocalFuture};
use std::{rc::Rc, sync::Arc};

/// Takes the look-up's place when requests are explained.
pub struct Explain;

impl Handler for Explain {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        let steps = if exchange.routing.settings.cache.is_on {
            steps(exchange)
        } else {
            vec![off(exchange)]
        };
        steps
            .into_iter()
            .for_each(|step| exchange.trace("cache", None, || step));
        Box::pin(std::future::ready(Handled::Declined))
    }
}

fn off(exchange: &Exchange) -> String {
    let offer = match exchange.routing.settings.cache.offer.pages && is_made(exchange) {
        true => "; X-LSCACHE tells applications that they may switch it on",
        false => "",
    };
    format!(
        "off: neither `cache` in saker.toml nor CacheLookup or CacheEnable applies to this path{offer}"
    )
}

fn steps(exchange: &Exchange) -> Vec<String> {
    let view = exchange.head.view();
    if purge::is_purge(view.method_token()) {
        return vec!["a purge request: carried out for permitted clients".into()];
    }
    if !is_made(exchange) {
        return vec!["not used: static files are served directly".into()];
    }
    let settings = Rc::new(CacheSettings::new(&Arc::clone(
        &exchange.routing.settings.cache,
    )));
    let Some(request) = CacheRequest::of(exchange, Rc::clone(&settings), 0) else {
        let part = settings
            .config
            .excluded_paths
            .iter()
            .find(|part| memchr::memmem::find(view.target(), part.as_bytes()).is_some());
        return vec![match part {
            Some(part) => {
                format!("neither looked up nor stored: targets with `{part}` are excluded")
            }
            None => "neither looked up nor stored: its target is not a path".into(),
        }];
    };
    let mut steps = rules(exchange, &request);
    if request.rewrite_env.off {
        steps.push("neither looked up nor stored: a rule has set modcache=0".into());
        return steps;
    }
    steps.push(looked_up(exchange, &request));
    steps.extend(request_facts(exchange, &request));
    steps.push(kept(&request));
    steps
}

/// Settings made by rewrite rules, if any.
fn rules(exchange: &Exchange, request: &CacheRequest) -> Vec<String> {
    let set = exchange
        .environment
        .iter()
        .filter(|(name, _)| RewriteEnv::is_ours(name));
    let mut steps: Vec<String> = set
        .map(|(name, value)| format!("rules set {}={}", text(name), text(value)))
        .collect();
    if request.rewrite_env.vary != VaryRules::default() {
        steps.push(format!(
            "variant by rules and settings: {}",
            text(&request.rewrite_env.vary.string(exchange.head.view()))
        ));
    }
    steps
}

fn looked_up(exchange: &Exchange, request: &CacheRequest) -> String {
    let view = exchange.head.view();
    if !matches!(view.method(), Method::Get | Method::Head) {
        return format!(
            "not looked up: {} is an unsafe method; a successful response invalidates the URL",
            text(view.method_token())
        );
    }
    let Some(key) = request.make_first_key(view) else {
        return "not looked up: its key is too long".into();
    };
    let key: Vec<String> = key.split(|byte| *byte == 0).map(text).collect();
    let whose = match (
        request.private_key(view).is_some(),
        request.settings.config.public,
    ) {
        (true, true) => ", the client's private page first",
        (true, false) => ", the client's private page only",
        (false, true) => "",
        (false, false) => " for identified clients only; this one is not identified",
    };
    format!("looked up{whose}, by {}", key.join(" | "))
}

/// Facts decided by the request itself.
fn request_facts(exchange: &Exchange, request: &CacheRequest) -> Vec<String> {
    let (view, settings) = (exchange.head.view(), &request.settings);
    let mut steps = Vec::new();
    let no_word = "the response is shared only if it is explicitly `public`";
    if view.has(KnownField::Authorization) {
        steps.push(format!("the request has Authorization: {no_word}"));
    }
    if let Some(name) = session_cookie(exchange, settings) {
        steps.push(format!(
            "the request has the session cookie `{name}`: {no_word}"
        ));
    }
    if settings.config.obeys_lscache
        && let Err(why) = judge_request(
            request.query.is_some(),
            settings.has_cookie(view),
            &settings.lscache,
        )
    {
        steps.push(format!("not stored by LSCache's rules: {}", why.sentence()));
    }
    if let Some(asked) = view.known(KnownField::CacheControl) {
        steps.push(match settings.http.client {
            ClientControl::Ignored => {
                format!("the request's Cache-Control `{}` is ignored", text(asked))
            }
            _ => format!("the request's Cache-Control `{}` is honored", text(asked)),
        });
    }
    steps
}

fn session_cookie(exchange: &Exchange, settings: &CacheSettings) -> Option<String> {
    let view = exchange.head.view();
    let mut names = view.cookies().map(|cookie| cookie.name);
    let named = names.find(|name| settings.http.is_session_cookie(name));
    named
        .or_else(|| identity::session(view, &settings.lscache))
        .map(text)
}

/// The response fields that decide.
fn kept(request: &CacheRequest) -> String {
    let config: &CacheUse = &request.settings.config;
    let mut control = Control::from_settings(&request.settings.lscache);
    let before = control.clone();
    request.rewrite_env.apply_to(&mut control);
    let mut words = Vec::new();
    if config.obeys_lscache {
        words.push("X-LiteSpeed-Cache-Control".to_owned());
    }
    if config.obeys_lscache && control != before {
        words.push("what rules set, if that is missing".into());
    } else if config.obeys_http {
        words.push(match config.shared_words_only {
            true => "Cache-Control for shared caches (public, s-maxage), CDN-Cache-Control".into(),
            false => "Cache-Control, Expires and CDN-Cache-Control".into(),
        });
        words.extend(
            config
                .ttl_default_s
                .map(|seconds| match config.default_needs_validator {
                    true => format!("{seconds} s by default, if it has an ETag or Last-Modified"),
                    false => format!("{seconds} s by default"),
                }),
        );
    }
    format!("storing is decided by: {}", words.join("; "))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
