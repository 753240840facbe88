//! `ErrorDocument` with variables: the text, the path, or the URL as the request makes it.
//!
//! Called by: `rules`, for errors without content, before their page is made.
//! Caveat: values come from clients, so in a text they are no markup (apache2 sends them as they are), and
//! no path may lead up.
//! Out of scope: pages themselves, which the pipeline makes.

use crate::{
    facts::RequestFacts,
    state::{peek, snapshot},
};
use saker_ap_expr::Evaluation;
use saker_apache_model::{host::Host, modules::core::is_known_status};
use saker_config::model::{ErrorPage, Settings};
use saker_files::Watcher;
use saker_http::{Status, escape};
use saker_pipeline::Exchange;
use std::sync::Arc;

/// Puts the page of the status as it is for this request into the exchange's settings.
pub fn evaluate(exchange: &mut Exchange, host: &Host, watcher: &Watcher, status: Status) {
    let named = name_page(exchange, status);
    let local = peek(exchange).and_then(|own| own.local_or_url());
    let local = local.map_or(&*host.defaults, |local| &**local);
    let Some(expression) = local.core.error_expressions.get(&named.0).cloned() else {
        return;
    };
    let settings = &exchange.routing.settings;
    let Some(page) = settings.error_page(status).cloned() else {
        return;
    };
    exchange.depends_on_request();
    let own = snapshot(exchange);
    let seen = RequestFacts::new(exchange, &own, host, watcher);
    let mut evaluation = Evaluation::new(&seen);
    let made = match page {
        ErrorPage::Text(_) => expression.evaluate_escaped(&mut evaluation, escape::html),
        _ => expression.evaluate(&mut evaluation),
    };
    let made = made.ok().and_then(|made| String::from_utf8(made).ok());
    let page = made.and_then(|made| match page {
        ErrorPage::Text(_) => Some(ErrorPage::Text(made)),
        ErrorPage::Path(_) => is_inside(&made).then_some(ErrorPage::Path(made)),
        ErrorPage::Redirect(_) => is_field(&made).then_some(ErrorPage::Redirect(made)),
        ErrorPage::Route(name) => Some(ErrorPage::Route(name)),
    });
    let mut settings = Settings::clone(&exchange.routing.settings);
    match page {
        Some(page) => settings.error_pages.insert(status.0, page),
        None => settings.error_pages.remove(&status.0),
    };
    exchange.routing.settings = Arc::new(settings);
}

/// The status whose page is for an error: as in Apache, errors whose status it does not know have the
/// page of 500.
fn name_page(exchange: &mut Exchange, status: Status) -> Status {
    if is_known_status(status.0) || exchange.routing.settings.error_page(status).is_some() {
        return status;
    }
    let page = exchange
        .routing
        .settings
        .error_page(Status::INTERNAL_SERVER_ERROR);
    let Some(page) = page.cloned() else {
        return status;
    };
    let mut settings = Settings::clone(&exchange.routing.settings);
    settings.error_pages.insert(status.0, page);
    exchange.routing.settings = Arc::new(settings);
    Status::INTERNAL_SERVER_ERROR
}

/// Leaves the error without a page.
pub fn withdraw(exchange: &mut Exchange, status: Status) {
    if exchange.routing.settings.error_page(status).is_some() {
        let mut settings = Settings::clone(&exchange.routing.settings);
        settings.error_pages.remove(&status.0);
        exchange.routing.settings = Arc::new(settings);
    }
}

fn is_inside(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    path.starts_with('/') && !path.contains('\0') && !path.split('/').any(|part| part == "..")
}

fn is_field(url: &str) -> bool {
    !url.chars().any(char::is_control)
}
