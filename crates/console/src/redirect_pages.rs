//! The page of redirects that were added to the running server, and its forms.
//!
//! Called by: `actions`, and the API, for orders.
//! Caveat: owners see and change the redirects of their site alone.
//! Out of scope: redirects of the configuration, which wizards and forms change.

use crate::{
    Backend, LiveChange, SiteRedirect, audit,
    exchange::{Form, Response},
    pages::{Notice, Shell, respond},
    sessions::Identity,
    site_scope,
};
use askama::Template;
use serde_json::{Value, json};
use std::net::IpAddr;

/// A redirect, as the page shows it.
struct Row {
    site: String,
    from: String,
    to: String,
    status: u16,
}

#[derive(Template)]
#[template(path = "redirects.html")]
struct RedirectsPage {
    shell: Shell,
    notice: Option<Notice>,
    rows: Vec<Row>,
    /// The site of an owner, or empty.
    site: String,
    may_change: bool,
}

/// The list of redirects.
pub fn page(
    backend: &dyn Backend,
    shell: Shell,
    identity: &Identity,
    notice: Option<Notice>,
) -> Response {
    let live = backend.live_changes();
    let own = site_scope::site(identity);
    let rows = live.redirects(own).into_iter().map(|one| Row {
        site: one.site.clone(),
        from: one.redirect.from.to_string(),
        to: one.redirect.to.to_string(),
        status: one.redirect.status.0,
    });
    let page = RedirectsPage {
        notice,
        rows: rows.collect(),
        site: own.unwrap_or_default().to_owned(),
        may_change: shell.is_administrator || shell.is_owner,
        shell,
    };
    respond(200, &page)
}

/// Redirects that the client may see.
pub fn redirects(backend: &dyn Backend, identity: &Identity) -> Value {
    let live = backend.live_changes();
    let redirects = live.redirects(site_scope::site(identity)).into_iter();
    redirects.map(SiteRedirect::to_json).collect()
}

/// Adds or removes a redirect, as a form says.
pub fn submit(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    form: &Form,
) -> Response {
    let mut order = json!({
        "site": form.get("site").trim(), "from": form.get("from").trim(),
        "to": form.get("to").trim(),
    });
    // What is no number is refused below.
    match form.get("status") {
        "" => {}
        status => {
            order["status"] = status
                .parse::<u16>()
                .map_or_else(|_| status.into(), Value::from)
        }
    }
    let is_added = form.get("action") != "remove";
    let notice = match change(backend, who, is_added, &order) {
        Ok(_) if is_added => Notice::good("The redirect is in force."),
        Ok(_) => Notice::good("The redirect is removed."),
        Err((_, error)) => Notice::wrong(&error),
    };
    page(backend, shell, who.0, Some(notice))
}

/// Adds or removes a redirect, as an order says.
pub fn change(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    is_added: bool,
    order: &Value,
) -> Result<Value, (u16, String)> {
    let wrong = |error| (400, error);
    let text = |name: &str| {
        let given = order.get(name).and_then(Value::as_str);
        given.ok_or_else(|| wrong(format!("\"{name}\" must be a string")))
    };
    let site = text("site")?;
    if site_scope::site(who.0).is_some_and(|own| !own.eq_ignore_ascii_case(site)) {
        return Err((
            403,
            "owners change redirects of their site alone".to_owned(),
        ));
    }
    let (verb, change) = match is_added {
        true => {
            let redirect = SiteRedirect::parse(order).map_err(wrong)?;
            ("add redirect", LiveChange::AddRedirect(redirect))
        }
        false => {
            let (site, from) = (site.to_owned(), text("from")?.to_owned());
            ("remove redirect", LiveChange::RemoveRedirect { site, from })
        }
    };
    audit::write(&backend.state_dir(), who, verb, order.clone()).map_err(|error| (500, error))?;
    let count = backend.change_live(&change).map_err(wrong)?;
    Ok(json!({ "ok": true, "count": count }))
}
