//! nginx's rules in the pipeline's phases, for one worker.
//!
//! Called by: the pipeline's phase list, through [`Rules`].
//! Caveat: the order is nginx's: rewriting before limits, limits before access, access before
//! `try_files` and content.

use crate::{
    access::{self, Access},
    auth_request,
    content::{self, Content},
    dispatch, errors,
    limits::{self, Zones},
    pages,
    request::Request,
    stream::{NginxStreamRules, StreamFrontEnd},
};
use saker_auth::RecordFiles;
use saker_files::Watcher;
use saker_http::Status;
use saker_nginx_model::Nginx;
use saker_pipeline::{Exchange, Generation, Response, Rules, Services, Step, Verdict};
use std::{cell::RefCell, rc::Weak, sync::Arc};

/// The front end of a generation: the configuration, and what all workers share.
#[derive(Debug)]
pub struct FrontEnd {
    pub nginx: Arc<Nginx>,
    zones: Zones,
    streams: Arc<StreamFrontEnd>,
}

impl FrontEnd {
    pub fn new(nginx: Nginx) -> FrontEnd {
        FrontEnd {
            zones: Zones::new(&nginx.zones),
            streams: Arc::new(StreamFrontEnd::new(Arc::clone(&nginx.streams))),
            nginx: Arc::new(nginx),
        }
    }

    /// The rules of streams; `None`: there are none.
    pub fn stream_rules(&self) -> Option<NginxStreamRules> {
        let streams = Arc::clone(&self.streams);
        (!streams.is_empty()).then_some(NginxStreamRules(streams))
    }
}

/// The rules of nginx configurations, on one worker.
pub struct NginxRules {
    front_end: Arc<FrontEnd>,
    generation: Arc<Generation>,
    watcher: Watcher,
    password_files: RefCell<RecordFiles>,
    /// For subrequests.
    inside: Weak<Services>,
}

impl NginxRules {
    pub fn new(
        front_end: Arc<FrontEnd>,
        generation: Arc<Generation>,
        watcher: Watcher,
        inside: Weak<Services>,
    ) -> NginxRules {
        NginxRules {
            front_end,
            generation,
            watcher,
            password_files: RefCell::default(),
            inside,
        }
    }

    /// Returns the number of sites that the rules are for.
    pub fn sites(&self) -> usize {
        self.front_end.nginx.servers.len()
    }

    fn run<R>(
        &self,
        exchange: &mut Exchange,
        step: impl FnOnce(&mut Request<'_>) -> R,
    ) -> Option<R> {
        Request::run(exchange, &self.front_end.nginx, &self.watcher, step)
    }

    fn try_access(&self, exchange: &mut Exchange) -> Access {
        let mut files = self.password_files.borrow_mut();
        self.run(exchange, |request| access::access(request, &mut files))
            .unwrap_or_else(|| {
                Access::Decided(Verdict::Answer(Response::new(
                    Status::INTERNAL_SERVER_ERROR,
                )))
            })
    }
}

impl NginxRules {
    /// Waits for what a decision needs, and decides again.
    async fn decide(&self, exchange: &mut Exchange, mut access: Access) -> Verdict {
        loop {
            match access {
                Access::Decided(verdict) => return verdict,
                Access::Wait(pause) => pause.await,
                Access::Ask(path) => {
                    let Some(services) = self.inside.upgrade() else {
                        return lost();
                    };
                    let response = auth_request::ask(exchange, &services, path).await;
                    let nginx = &self.front_end.nginx;
                    auth_request::answered(exchange, nginx, &self.watcher, &response);
                }
            }
            access = self.try_access(exchange);
        }
    }
}

/// The answer to a request without a state, which no phase should meet.
fn lost() -> Verdict {
    Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR))
}

impl Rules for NginxRules {
    fn server_rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let nginx = &self.front_end.nginx;
        if let Some(response) = dispatch::begin(exchange, nginx, &self.generation, &self.watcher) {
            return Verdict::Answer(response).into();
        }
        self.run(exchange, dispatch::dispatch)
            .unwrap_or_else(lost)
            .into()
    }

    /// Limits. Files are mapped when it is known that one answers.
    fn map_to_storage<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let zones = &self.front_end.zones;
        match self.run(exchange, |request| limits::check(request, zones)) {
            None => lost().into(),
            Some(Err(status)) => Verdict::Answer(Response::new(status)).into(),
            Some(Ok(None)) => Step::PASS,
            Some(Ok(Some(delay))) => Step::Pending(Box::pin(async move {
                tokio::time::sleep(delay).await;
                Verdict::Pass
            })),
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match self.try_access(exchange) {
            Access::Decided(verdict) => verdict.into(),
            waiting => Step::Pending(Box::pin(self.decide(exchange, waiting))),
        }
    }

    fn fixups<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match self.run(exchange, content::content) {
            None => lost().into(),
            Some(Content::Verdict(verdict)) => verdict.into(),
            Some(Content::Listing(listing)) => {
                Step::Pending(Box::pin(
                    async move { Verdict::Answer(listing.respond().await) },
                ))
            }
        }
    }

    fn binds_path(&self) -> bool {
        true
    }

    fn own_page(&self, _: &Exchange, response: Response) -> Response {
        pages::page(response)
    }

    fn redirects_error(&self, exchange: &mut Exchange, response: &mut Response) -> bool {
        self.run(exchange, |request| errors::error_page(request, response))
            .unwrap_or(false)
    }
}
