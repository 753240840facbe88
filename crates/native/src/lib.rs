//! The rules of saker.toml's sites: redirect to HTTPS, route selection, log-in, forward auth,
//! rewriting, and `.htaccess` files.
//!
//! Floor 5. Called by: the phases, through [`Rules`], for every site without another front end.
//! Caveat: the first matching route decides, and settings are those of the route as a whole.
//! Out of scope: what a route does (`handlers`, `gateway`), and reading the configuration
//! (`saker-config`).

mod ambiguous_credentials;
mod auth;
mod auth_database;
mod conditional_settings;
mod forward_auth;
mod htaccess;
mod identity;
mod request_edits;
mod rewriting;
mod routes;
mod script_in_front;
mod stream;
mod trusted_fields;
mod user_directories;
mod variable_fields;

pub use htaccess::{HtaccessRules, settings_of};
pub use identity::{IdentityFilter, SESSION_KEY_FILE};
pub use stream::NativeStreamRules;

use crate::variable_fields::Stage;
use saker_files::Watcher;
use saker_pipeline::{
    Authorizer, Exchange, Fetcher, Response, Rules, Step, Verdict,
    respond::{built_in_page, is_redirect},
};
use std::{path::Path, rc::Rc};

/// The rules of saker.toml, on one worker.
pub struct NativeRules {
    /// Asks the authorization server of `authorize`; `None`: nothing passes there.
    authorizer: Option<Rc<dyn Authorizer>>,
    /// Decides about log-ins (`auth`).
    auth: auth::Auth,
    watcher: Watcher,
    variants: conditional_settings::Variants,
}

impl NativeRules {
    /// `fetcher`: of documents of token issuers and identity providers; `state_dir`: has the key of
    /// their sessions.
    pub fn new(
        authorizer: Option<Rc<dyn Authorizer>>,
        fetcher: Option<Rc<dyn Fetcher>>,
        state_dir: &Path,
        watcher: Watcher,
    ) -> NativeRules {
        NativeRules {
            authorizer,
            auth: auth::Auth::new(fetcher, state_dir, watcher.clone()),
            watcher,
            variants: conditional_settings::Variants::default(),
        }
    }

    /// True if `access` has something to decide about the request.
    fn decides_access(&self, exchange: &Exchange) -> bool {
        auth::in_force(exchange).is_some() || forward_auth::is_wanted(exchange)
    }
}

impl Rules for NativeRules {
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        routes::select(exchange, &self.watcher, &self.variants).into()
    }

    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match exchange.routing.settings.user_directories.clone() {
            None => routes::map(exchange),
            Some(rules) => {
                if let Some(answer) = user_directories::map(exchange, &rules, &self.watcher) {
                    return Verdict::Answer(answer).into();
                }
            }
        }
        if let Some(decided) = script_in_front::follow(exchange, &self.watcher) {
            return decided.into();
        }
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
        if let Err(error) = variable_fields::replace(exchange, &self.watcher, Stage::Decided) {
            return Verdict::Answer(routes::failed(exchange, &error)).into();
        }
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
