//! Apache's rules in the pipeline's phases, for one worker.
//!
//! Called by: the pipeline's phase list, through [`Rules`]; `new` hands the same phases to
//! subrequests.
//! Caveat: the order is Apache's, and users' configurations depend on it: rules of a directory run
//! after access was decided, and what they change starts the list again.
//! Out of scope: the phases themselves (`server_rewrite`, `map_to_storage`, `modules/access`,
//! `fixups`).

use crate::{
    error_document, fixups, kept,
    modules::{self, log_debug},
    origin, own_page,
    proxy::forward,
    response,
    script_uri::script_uri,
    server_rewrite::Translation,
    state::{self, peek, state},
    status::report::Figures,
    verdict::{Verdict, settle},
    worker::{ApacheRules, NativeSettings, Phases},
};
use saker_apache_model::host::Apache;
use saker_config::model::PhpPools;
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{
    Body, Exchange, KeptRules, Response, Rules, Step, TargetPolicy, respond::built_in_page,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

impl ApacheRules {
    pub fn new(
        apache: Arc<Apache>,
        watcher: Watcher,
        figures: Rc<dyn Figures>,
        php: PhpPools,
        native_settings: NativeSettings,
    ) -> ApacheRules {
        ApacheRules {
            apache,
            watcher,
            htaccess: RefCell::default(),
            memo: RefCell::default(),
            maps: RefCell::default(),
            records: RefCell::default(),
            directories: saker_auth::Directories::default(),
            found_workers: RefCell::default(),
            found_at_change: Cell::default(),
            figures,
            php,
            native_settings,
            phases: Phases {
                server_rewrite: ApacheRules::look_up_rewrite,
                map_to_storage: ApacheRules::try_map_to_storage,
                access: ApacheRules::try_access,
                fixups: ApacheRules::try_fixups,
            },
        }
    }
}

impl Rules for ApacheRules {
    fn target_policy(&self) -> TargetPolicy {
        TargetPolicy::LeftToRules
    }

    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let mut at = Translation::Begin;
        settle(exchange, move |exchange| {
            self.try_server_rewrite(exchange, &mut at)
        })
    }

    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        settle(exchange, |exchange| self.try_map_to_storage(exchange))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        settle(exchange, |exchange| self.try_access(exchange))
    }

    fn fixups<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        settle(exchange, |exchange| self.try_fixups(exchange))
    }

    fn kept(&self, exchange: &Exchange) -> Option<Rc<dyn KeptRules>> {
        kept::kept(exchange, &*self.host(exchange)?)
    }

    fn binds_path(&self) -> bool {
        true
    }

    fn keeps_error_document_head(&self) -> bool {
        true
    }

    fn adopt_error_document(&self, exchange: &mut Exchange, page: &mut Exchange) {
        state::adopt(exchange, page);
        state(exchange).answered_as = Some((page.path.clone(), page.query.clone()));
    }

    fn error_document(&self, exchange: &Exchange, page: &mut Exchange, status: Status) {
        if let Some(value) = exchange.head.view().first("authorization") {
            crate::modules::access::credentials::set_authorization(page, value);
        }
        page.access.user.clone_from(&exchange.access.user);
        let local = peek(exchange).and_then(|state| state.local.as_deref());
        let host = self.host(exchange);
        let url = host
            .as_ref()
            .map(|host| origin::of_redirect(exchange, host, local, &exchange.path));
        let mut environment = exchange.environment.clone();
        if let Some(uri) = host.as_ref().and_then(|host| script_uri(exchange, host)) {
            environment.set(b"SCRIPT_URI", &uri);
        }
        environment.set(b"REQUEST_METHOD", exchange.head.view().method_token());
        page.environment = modules::env::redirected(&environment, status.0);
        let own = state(page);
        own.decided_by = peek(exchange).and_then(|state| state.decided_by.clone());
        own.is_error_page = true;
        own.rewrite_ended = peek(exchange).is_some_and(|state| state.rewrite_ended);
        own.session = peek(exchange).and_then(|state| state.session.clone());
        // Fields of errors, and cookies are some, go along (ap_internal_redirect).
        own.cookies = peek(exchange).map_or_else(Vec::new, |state| state.cookies.clone());
        own.led_from = Some((
            url.unwrap_or_else(|| exchange.path.clone()),
            exchange.query.clone(),
        ));
    }

    fn redirects_error(&self, exchange: &mut Exchange, response: &mut Response) -> bool {
        if response.status.is_error()
            && matches!(response.body, Body::Empty)
            && let Some(host) = self.host(exchange)
        {
            if peek(exchange).is_some_and(|own| response::is_unmet(exchange, response.status, own))
            {
                error_document::withdraw(exchange, response.status);
                return false;
            }
            error_document::evaluate(exchange, &host, &self.watcher, response.status);
        }
        false
    }

    fn own_page(&self, exchange: &Exchange, response: Response) -> Response {
        if peek(exchange).is_some_and(|own| response::is_unmet(exchange, response.status, own)) {
            return response;
        }
        match self.host(exchange) {
            Some(host) => own_page::own_page(exchange, &host, response),
            None => built_in_page(response),
        }
    }
}

impl ApacheRules {
    pub(crate) fn try_access(&self, exchange: &mut Exchange) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        let verdict = forward::as_proxy(exchange, |exchange| {
            crate::modules::access::phase::access(
                exchange,
                &host,
                &self.watcher,
                (&mut self.records.borrow_mut(), &self.directories),
            )
        });
        if !matches!(verdict, Verdict::Wait(_)) {
            log_debug::admitted(exchange, &host, &self.watcher, &verdict);
        }
        verdict
    }

    pub(crate) fn try_fixups(&self, exchange: &mut Exchange) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        let verdict = fixups::fixups(self, exchange, &host, &self.watcher);
        if !matches!(verdict, Verdict::Wait(_)) {
            log_debug::fixed_up(exchange, &host, &self.watcher, &verdict);
        }
        verdict
    }
}
