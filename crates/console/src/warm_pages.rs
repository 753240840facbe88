//! Warming the page cache: the form's order, its progress, and its end.
//!
//! Called by: `actions`, and the API, for orders.
//! Caveat: pages and sitemaps are requested from this server's own listeners, whatever host their
//! URLs name, so no other server can be reached this way.
//! Out of scope: fetching (`saker_page_cache::warm`).

use crate::{
    Backend, audit, cache_orders,
    exchange::{Form, Response},
    pages::{Notice, Shell, respond},
    sessions::Identity,
};
use askama::Template;
use saker_control::{CacheVerb, WarmVerb};
use serde_json::{Value, json};
use std::net::IpAddr;

/// URLs of one order.
const URLS_MAX: usize = 2_000;

#[derive(Template)]
#[template(path = "warm.html")]
struct WarmPage<'p> {
    shell: Shell,
    notice: Option<Notice>,
    urls: &'p str,
    sitemaps: &'p str,
    /// A warm-up that goes on.
    job: Option<u64>,
}

/// The form, or the progress of a warm-up.
pub fn page(shell: Shell, query: &Form) -> Response {
    let page = WarmPage {
        shell,
        notice: None,
        urls: "",
        sitemaps: "",
        job: query.get("job").parse().ok(),
    };
    respond(200, &page)
}

/// Begins a warm-up, as a form says.
pub async fn submit(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    form: &Form,
) -> Response {
    let lines = |name: &str| -> Value { form.get(name).split_whitespace().collect() };
    let order = json!({ "urls": lines("urls"), "sitemaps": lines("sitemaps") });
    match begin(backend, who, &order).await {
        Ok(begun) => Response::see_other(&format!("/cache/warm?job={}", begun["job"])),
        Err((_, error)) => {
            let page = WarmPage {
                shell,
                notice: Some(Notice::wrong(&error)),
                urls: form.get("urls"),
                sitemaps: form.get("sitemaps"),
                job: None,
            };
            respond(400, &page)
        }
    }
}

/// Begins a warm-up. Fields of requests are not the operator's to choose here: they could be those
/// of a client who is logged in.
pub async fn begin(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    order: &Value,
) -> Result<Value, (u16, String)> {
    let wrong = |error: &str| Err((400, error.to_owned()));
    let own = json!({
        "urls": order.get("urls"), "sitemaps": order.get("sitemaps"),
        "concurrency": order.get("concurrency"), "rate": order.get("rate"),
    });
    let Some(parsed) = WarmVerb::parse("cache-warm", &own) else {
        return wrong("not an order to warm");
    };
    let verb = parsed.map_err(|error| (400, error))?;
    let WarmVerb::Begin(begun) = &verb else {
        return wrong("not an order to warm");
    };
    match begun.list.urls.len() + begun.list.sitemaps.len() {
        0 => return wrong("name a URL or a sitemap"),
        count if count > URLS_MAX => return wrong("too many URLs: at most 2000"),
        _ => {}
    }
    let detail = json!({ "urls": begun.list.urls.len(), "sitemaps": begun.list.sitemaps });
    audit::write(&backend.state_dir(), who, "warm", detail).map_err(|error| (500, error))?;
    cache_orders::cache(backend, who.0, CacheVerb::Warm(verb)).await
}

/// The progress of a warm-up, with results from a number on.
pub async fn look(
    backend: &dyn Backend,
    identity: &Identity,
    query: &Form,
) -> Result<Value, (u16, String)> {
    let number = |name: &str| query.get(name).parse().ok();
    let job = number("job").ok_or_else(|| (400, "`job` is a number".to_owned()))?;
    let from = number("from").unwrap_or(0);
    let verb = CacheVerb::Warm(WarmVerb::Look { job, from });
    cache_orders::cache(backend, identity, verb).await
}

/// Ends a warm-up.
pub async fn stop(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    order: &Value,
) -> Result<Value, (u16, String)> {
    let job = order.get("job").and_then(Value::as_u64);
    let job = job.ok_or_else(|| (400, "\"job\" must be a number".to_owned()))?;
    audit::write(
        &backend.state_dir(),
        who,
        "stop warming",
        json!({ "job": job }),
    )
    .map_err(|error| (500, error))?;
    cache_orders::cache(backend, who.0, CacheVerb::Warm(WarmVerb::Stop { job })).await
}
