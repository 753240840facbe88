//! The rules of saker.toml's sites: redirect to HTTPS, route selection, log-in, forward auth,
//! rewriting, and `.htaccess` files.
//!
//! Floor 5. Called by: the phases, through [`Rules`], for every site without another front end.
//! Caveat: the first matching route decides, and settings are those of the route as a whole.
//! Out of scope: what a route does (`handlers`, `gateway`), and reading the configuration
//! (`saker-config`).

mod auth;
mod auth_database;
mod forward_auth;
mod htaccess;
mod request_edits;
mod rewriting;
mod routes;
mod variable_fields;

pub use htaccess::{HtaccessRules, settings_of};

use saker_files::Watcher;
use saker_pipeline::{
    Authorizer, Exchange, Response, Rules, Step, Verdict,
    respond::{built_in_page, is_redirect},
};
use std::rc::Rc;

/// The rules of saker.toml, on one worker.
pub struct NativeRules {
    /// Asks the authorization server of `authorize`; `None`: nothing passes there.
    authorizer: Option<Rc<dyn Authorizer>>,
    /// Decides about log-ins (`auth`).
    auth: auth::Auth,
    watcher: Watcher,
}

impl NativeRules {
    pub fn new(authorizer: Option<Rc<dyn Authorizer>>, watcher: Watcher) -> NativeRules {
        NativeRules {
            authorizer,
            auth: auth::Auth::new(watcher.clone()),
            watcher,
        }
    }

    /// True if `access` has something to decide about the request.
    fn decides_access(&self, exchange: &Exchange) -> bool {
        auth::in_force(exchange).is_some() || forward_auth::is_wanted(exchange)
    }
}

impl Rules for NativeRules {
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        routes::select(exchange, &self.watcher).into()
    }

    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        routes::map(exchange);
        routes::trace_file(exchange);
        Step::PASS
    }

    /// Log-in, then the authorization server: both have to let the request pass.
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        if auth::in_force(exchange).is_none() {
            return forward_auth::authorize(exchange, self.authorizer.as_deref());
        }
        if !forward_auth::is_wanted(exchange) {
            return self.auth.access(exchange);
        }
        Step::Pending(Box::pin(async move {
            match self.auth.access(exchange).verdict().await {
                Verdict::Pass => {
                    forward_auth::authorize(exchange, self.authorizer.as_deref())
                        .verdict()
                        .await
                }
                decided => decided,
            }
        }))
    }

    fn fixups<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match rewriting::rewrite(exchange, &self.watcher) {
            Verdict::Pass => match request_edits::apply(exchange, &self.watcher) {
                Ok(()) => Step::PASS,
                Err(error) => Verdict::Answer(routes::failed(exchange, &error)).into(),
            },
            verdict => verdict.into(),
        }
    }

    fn own_page(&self, _: &Exchange, response: Response) -> Response {
        match is_redirect(response.status) {
            true => response,
            false => built_in_page(response),
        }
    }
}
