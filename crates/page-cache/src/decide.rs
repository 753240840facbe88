//! Decides whether a response is stored, for whom, by which rules and for how long; or why not.
//!
//! Called by: `store_response`.
//! Caveat: LSCache's fields come first; HTTP's rules apply where they say nothing.
//! Out of scope: writing; the rules themselves (`saker_cache_rules`).

use crate::{
    clock::now_ms,
    page::wanted_range,
    record::{By, StoredRange},
    refusal::Refusal,
    request::CacheRequest,
};
use saker_cache_rules::{
    lscache::{
        self,
        control::{Audience, Control},
    },
    rules::{
        Life, Pass, RuleSettings, fields as rule_fields,
        invalidation::{self, Origin},
        judge_response,
    },
};
use saker_http::{KnownField, Method, Status};
use saker_pipeline::{Exchange, Response};

/// Decision on storing a response.
pub struct Decision {
    pub by: By,
    pub life: Life,
    pub is_private: bool,
    /// Cookies and rules select no other variant.
    pub is_one: bool,
    pub is_template: bool,
}

/// Decides whether a response is stored. LSCache's own fields come first; without them, HTTP's
/// rules apply.
///
/// # Errors
/// The reason why the response is not stored.
pub fn decide(
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
) -> Result<Decision, Refusal> {
    let (config, fields) = (&request.settings.config, response.fields());
    if !config.stores {
        return Err(Refusal::new(
            "rules",
            "the rules store nothing for this request (`store`)",
        ));
    }
    let length = response.body.length();
    if length.is_some_and(|length| {
        length < config.entry_bytes_min || config.entry_bytes_max.is_some_and(|max| length > max)
    }) {
        return Err(Refusal::new("size", "its size is outside the limits"));
    }
    if config.obeys_lscache {
        let mut control = Control::from_settings(&request.settings.lscache);
        let before = control.clone();
        request.rewrite_env.apply_to(&mut control);
        if let Some(list) = request
            .include
            .as_ref()
            .and_then(|include| include.hints.control_for(fields))
        {
            control.apply(&list);
        }
        let is_set = control != before;
        let explicit = control.apply_response(fields, &request.settings.lscache);
        if explicit || is_set {
            return by_lscache(request, exchange, response, &control, explicit, length);
        }
    }
    by_http(request, exchange, response)
}

fn by_http(
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
) -> Result<Decision, Refusal> {
    if response.status == Status::PARTIAL_CONTENT {
        StoredRange::of(response, wanted_range(exchange.head.view()))?;
    }
    if changes_variant(exchange, response, &request.settings.config.vary_cookies) {
        return Err(Refusal::new(
            "vary-cookie",
            "it sets a cookie by which pages vary (`vary_cookies`), and may be for clients who have it",
        ));
    }
    if !request.settings.config.obeys_http {
        return Err(Refusal::new(
            "not-asked",
            "there is no X-LiteSpeed-Cache-Control",
        ));
    }
    let view = exchange.head.view();
    if view.method() == Method::Post && !is_about_target(exchange, response) {
        return Err(Refusal::new(
            "method",
            "a response to POST is stored only if Content-Location names the requested URL",
        ));
    }
    // `with_query` and `with_cookies` are about requests, whatever the rules for responses.
    lscache::control::judge_request(
        request.asked_query.is_some(),
        request.settings.has_cookie(exchange.head.view()),
        &request.settings.lscache,
    )?;
    let with_ttl = request
        .include
        .as_ref()
        .and_then(|include| include.hints.ttl_s)
        .map(|ttl_s| RuleSettings {
            default_ttl_s: Some(ttl_s),
            default_ttl_needs_validator: false,
            // As where an operator has set a lifetime.
            heuristic_percent: match request.settings.config.is_heuristic_chosen {
                true => request.settings.http.heuristic_percent,
                false => 0,
            },
            ..request.settings.http.clone()
        });
    let life = judge_response(
        exchange.head.view(),
        response.status,
        response.fields(),
        with_ttl.as_ref().unwrap_or(&request.settings.http),
        request.began_ms,
        now_ms(),
    )?;
    if !request.may_use(&life) {
        return Err(Pass::Authorization.into());
    }
    Ok(Decision {
        by: By::Http,
        life,
        is_private: false,
        is_one: false,
        is_template: false,
    })
}

/// True if a response sets a cookie that selects variants to another value than the request's: the page
/// may be the variant of that value already.
fn changes_variant(exchange: &Exchange, response: &Response, names: &[String]) -> bool {
    let view = exchange.head.view();
    if names.is_empty() {
        return false;
    }
    let fields = response.fields().iter();
    let mut lines = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, line)| line);
    lines.any(|line| {
        let pair = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let mut set = saker_http::cookies::cookies(std::iter::once(pair));
        let Some(set) = set.next() else {
            return false;
        };
        let is_known = names.iter().any(|name| name.as_bytes() == set.name);
        is_known
            && view
                .cookies()
                .find(|own| own.name == set.name)
                .and_then(|own| own.value)
                != set.value
    })
}

/// True if Content-Location names the requested URL.
fn is_about_target(exchange: &Exchange, response: &Response) -> bool {
    let view = exchange.head.view();
    let origin = Origin {
        scheme: if exchange.client.secure {
            "https"
        } else {
            "http"
        },
        authority: view.known(KnownField::Host).unwrap_or(&exchange.host),
    };
    invalidation::is_about_target(origin, view.target(), response.fields())
}

fn by_lscache(
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
    control: &Control,
    explicit: bool,
    length: Option<u64>,
) -> Result<Decision, Refusal> {
    let settings = &request.settings.lscache;
    let target = exchange.head.view();
    lscache::control::judge_request(
        request.asked_query.is_some(),
        request.settings.has_cookie(target),
        settings,
    )?;
    let outcome = lscache::control::Outcome {
        method: target.method(),
        status: response.status,
        explicit,
        sets_cookie: rule_fields::sets_cookies(response.fields()),
        content_bytes: length,
        failed: false,
        static_file: false,
    };
    let audience = control.judge(outcome, settings)?;
    let is_private = matches!(audience, Audience::Private { .. });
    if is_private && request.client_identity.is_none() {
        return Err(Refusal::new(
            "visitor-unknown",
            "it is private, and nothing identifies the client (no session cookie, no credentials)",
        ));
    }
    Ok(Decision {
        by: By::Lscache,
        life: control.life(settings, now_ms()),
        is_private,
        is_one: control.no_vary,
        is_template: false,
    })
}
