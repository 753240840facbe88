//! Warming the page cache: the form's order, its progress, and its end.
//!
//! Called by: `actions`, and the API, for orders.
//! Caveat: pages and sitemaps are requested from this server's own listeners, whatever host their
//! URLs name, so no other server can be reached this way.
//! Out of scope: fetching (`saker_page_cache::warm`).

use crate::{
    Backend, audit,
    exchange::{Form, Response},
    pages::{Notice, Shell, respond},
    sessions::Identity,
    site_scope,
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
    if let Some(site) = site_scope::site(who.0) {
        stop_earlier(backend, who.0, site).await;
    }
    let detail = json!({ "urls": begun.list.urls.len(), "sitemaps": begun.list.sitemaps });
    audit::write(&backend.state_dir(), who, "warm", detail).map_err(|error| (500, error))?;
    let answer = backend_answer(backend, who.0, verb).await?;
    if let (Some(site), Some(job)) = (site_scope::site(who.0), answer["job"].as_u64()) {
        let mut jobs = backend.state().site_jobs.borrow_mut();
        jobs.insert(site.to_owned(), job);
    }
    Ok(answer)
}

/// Ends the warm-up of a site that goes on: owners have one at a time.
async fn stop_earlier(backend: &dyn Backend, identity: &Identity, site: &str) {
    let earlier = backend.state().site_jobs.borrow_mut().remove(site);
    if let Some(job) = earlier {
        // It may have ended by itself.
        let _ = backend_answer(backend, identity, WarmVerb::Stop { job }).await;
    }
}

async fn backend_answer(
    backend: &dyn Backend,
    identity: &Identity,
    verb: WarmVerb,
) -> Result<Value, (u16, String)> {
    let verb = site_scope::limited(identity, CacheVerb::Warm(verb));
    let verb = verb.map_err(|error| (403, error))?;
    let answer = backend.control().cache(&verb).await;
    answer.map_err(|error| (400, error))
}

/// Refuses an owner's look at a job that is not the one of the site.
fn of_owner(backend: &dyn Backend, identity: &Identity, job: u64) -> Result<(), (u16, String)> {
    let Some(site) = site_scope::site(identity) else {
        return Ok(());
    };
    let jobs = backend.state().site_jobs.borrow();
    match jobs.get(site) == Some(&job) {
        true => Ok(()),
        false => Err((400, format!("no such warm-up: {job}"))),
    }
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
    of_owner(backend, identity, job)?;
    backend_answer(backend, identity, WarmVerb::Look { job, from }).await
}

/// Ends a warm-up.
pub async fn stop(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    order: &Value,
) -> Result<Value, (u16, String)> {
    let job = order.get("job").and_then(Value::as_u64);
    let job = job.ok_or_else(|| (400, "\"job\" must be a number".to_owned()))?;
    of_owner(backend, who.0, job)?;
    audit::write(
        &backend.state_dir(),
        who,
        "stop warming",
        json!({ "job": job }),
    )
    .map_err(|error| (500, error))?;
    backend_answer(backend, who.0, WarmVerb::Stop { job }).await
}
