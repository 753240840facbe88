//! The rules of saker.toml's sites: redirect to HTTPS, route selection, forward auth.
//!
//! Floor 5. Called by: the phases, through [`Rules`], for every site without another front end.
//! Caveat: the first matching route decides, and settings are those of the route as a whole.
//! Out of scope: what a route does (`handlers`, `gateway`), and reading the configuration
//! (`saker-config`).

mod forward_auth;
mod routes;

use saker_pipeline::{
    Authorizer, Exchange, Response, Rules, Step,
    respond::{built_in_page, is_redirect},
};
use std::rc::Rc;

/// The rules of saker.toml, on one worker.
pub struct NativeRules {
    /// Asks the authorization server of `authorize`; `None`: nothing passes there.
    authorizer: Option<Rc<dyn Authorizer>>,
}

impl NativeRules {
    pub fn new(authorizer: Option<Rc<dyn Authorizer>>) -> NativeRules {
        NativeRules { authorizer }
    }
}

impl Rules for NativeRules {
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        routes::select(exchange).into()
    }

    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        routes::map(exchange);
        routes::trace_file(exchange);
        Step::PASS
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        forward_auth::authorize(exchange, self.authorizer.as_deref())
    }

    fn own_page(&self, _: &Exchange, response: Response) -> Response {
        match is_redirect(response.status) {
            true => response,
            false => built_in_page(response),
        }
    }
}
