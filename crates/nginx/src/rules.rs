//! nginx's rules in the pipeline's phases, for one worker.
//!
//! Called by: the pipeline's phase list, through [`Rules`].
//! Caveat: the order is nginx's: rewriting before limits, limits before access, access before
//! `try_files` and content.

use crate::{
    access::{self, Access},
    auth_request, body_file,
    cache::{self, Caches, Judge},
    clients,
    content::{self, Content},
    dispatch, errors, kept,
    limits::{self, Zones},
    made_upstreams::MadeUpstreams,
    mirror::{self, Copies},
    pages, proxy, random_index,
    request::Request,
    request_body,
    resolve::{self, Names},
    state::State,
    stream::{NginxStreamRules, StreamFrontEnd},
    stub_status::{self, Count},
    subrequest::Filters,
};
use saker_auth::RecordFiles;
use saker_files::Watcher;
use saker_http::Status;
use saker_nginx_model::Nginx;
use saker_page_cache::keyed::CacheZone;
use saker_pipeline::{
    ClientAbort, Exchange, Generation, KeptRules, Response, Rules, Services, Step, Verdict,
};
use std::{
    cell::RefCell,
    path::PathBuf,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// The front end of a generation: the configuration, and what all workers share.
#[derive(Debug)]
pub struct FrontEnd {
    pub nginx: Arc<Nginx>,
    zones: Zones,
    cache_zones: Vec<Arc<CacheZone>>,
    streams: Arc<StreamFrontEnd>,
}

impl FrontEnd {
    pub fn new(nginx: Nginx) -> FrontEnd {
        FrontEnd {
            zones: Zones::new(&nginx.zones),
            cache_zones: cache::zones(&nginx.cache_zones),
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

/// Holds a request back, unless its client leaves.
async fn hold(exchange: &Exchange, delay: Duration) {
    let abort = Rc::clone(&exchange.upstream.client_abort);
    let before = abort.replace(ClientAbort::EndOfStreamInDelay);
    tokio::time::sleep(delay).await;
    abort.set(before);
}

/// The rules of nginx configurations, on one worker.
pub struct NginxRules {
    front_end: Arc<FrontEnd>,
    generation: Arc<Generation>,
    watcher: Watcher,
    password_files: RefCell<RecordFiles>,
    caches: Caches,
    filters: Filters,
    copies: Copies,
    count: Count,
    /// For subrequests.
    inside: Weak<Services>,
}

impl NginxRules {
    pub fn new(
        front_end: Arc<FrontEnd>,
        generation: Arc<Generation>,
        watcher: Watcher,
        inside: Weak<Services>,
        count: Count,
    ) -> NginxRules {
        let judge = Judge {
            nginx: Arc::clone(&front_end.nginx),
            watcher: watcher.clone(),
        };
        NginxRules {
            caches: Caches {
                upstreams: MadeUpstreams::default(),
                zones: front_end.cache_zones.clone(),
                judge: Rc::new(judge),
            },
            filters: Filters {
                nginx: Arc::clone(&front_end.nginx),
                watcher: watcher.clone(),
                inside: Weak::clone(&inside),
            },
            copies: Copies::default(),
            count,
            front_end,
            generation,
            watcher,
            password_files: RefCell::new(RecordFiles::keeping_blanks()),
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
        if self.front_end.nginx.reads_counts
            && let Some(state) = exchange.extensions.get_mut::<State>()
        {
            state.count = Some(Rc::clone(&self.count));
        }
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
    fn content<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match self.run(exchange, |request| content::content(request, &self.caches)) {
            None => lost().into(),
            Some(content) => self.answer(exchange, content),
        }
    }

    fn answer<'a>(&'a self, exchange: &'a mut Exchange, content: Content) -> Step<'a> {
        match content {
            Content::Upload(folders) => Step::Pending(Box::pin(folders.make())),
            Content::Random(folder) => Step::Pending(Box::pin(self.random(exchange, folder))),
            Content::Names(names) => Step::Pending(Box::pin(self.look_up(exchange, names))),
            content => self.settle(content),
        }
    }

    /// Asks an upstream when its names are resolved.
    async fn look_up(&self, exchange: &mut Exchange, names: Names) -> Verdict {
        let outcome = names.look_up().await;
        self.run(exchange, |request| match resolve::take(request, outcome) {
            Ok(()) => proxy::forward(request, &self.caches),
            Err(verdict) => verdict,
        })
        .unwrap_or_else(lost)
    }

    fn settle<'a>(&'a self, content: Content) -> Step<'a> {
        match content {
            Content::Verdict(verdict) => verdict.into(),
            Content::Counts => Verdict::Answer(stub_status::respond((self.count)())).into(),
            Content::Listing(listing) => {
                Step::Pending(Box::pin(
                    async move { Verdict::Answer(listing.respond().await) },
                ))
            }
            // Its file has been looked for.
            Content::Random(_) | Content::Upload(_) | Content::Names(_) => lost().into(),
        }
    }

    async fn random(&self, exchange: &mut Exchange, folder: PathBuf) -> Verdict {
        let name = random_index::pick(folder, exchange.routing.site_index).await;
        match self.run(exchange, |request| content::chosen(request, name)) {
            Some(content) => self.settle(content).verdict().await,
            None => lost(),
        }
    }

    /// Waits for what a decision needs, and decides again.
    async fn decide(&self, exchange: &mut Exchange, mut access: Access) -> Verdict {
        loop {
            match access {
                Access::Decided(verdict) => {
                    if let Some(delay) = access::delay(exchange, &verdict) {
                        hold(exchange, delay).await;
                    }
                    return verdict;
                }
                Access::Wait(pause) => pause.await,
                Access::Ask(path) => {
                    let Some(services) = self.inside.upgrade() else {
                        return lost();
                    };
                    let answer = auth_request::ask(exchange, &services, path).await;
                    let nginx = &self.front_end.nginx;
                    auth_request::answered(exchange, nginx, &self.watcher, answer);
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
                hold(exchange, delay).await;
                Verdict::Pass
            })),
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        match self.try_access(exchange) {
            Access::Decided(verdict) => match access::delay(exchange, &verdict) {
                None => verdict.into(),
                Some(delay) => Step::Pending(Box::pin(async move {
                    hold(exchange, delay).await;
                    verdict
                })),
            },
            waiting => Step::Pending(Box::pin(self.decide(exchange, waiting))),
        }
    }

    fn fixups<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let wanted = self.run(exchange, |request| {
            let kept_bytes = request_body::wanted(request);
            let copies = mirror::wanted(request);
            let file = body_file::wanted(request);
            match (&kept_bytes, &copies, &file) {
                (None, None, None) => Err(content::content(request, &self.caches)),
                _ => Ok((kept_bytes, copies, file)),
            }
        });
        let (kept_bytes, copies, file) = match wanted {
            None => return lost().into(),
            Some(Err(content)) => return self.answer(exchange, content),
            Some(Ok(wanted)) => wanted,
        };
        Step::Pending(Box::pin(async move {
            if let Some(bytes_max) = kept_bytes {
                request_body::keep(exchange, bytes_max).await;
            }
            if let Some(wanted) = file
                && let Some(verdict) = body_file::keep(exchange, wanted).await
            {
                return verdict;
            }
            if let Some(wanted) = copies {
                mirror::begin(exchange, &self.filters, &self.copies, wanted).await;
            }
            self.content(exchange).verdict().await
        }))
    }

    fn kept(&self, exchange: &Exchange) -> Option<Rc<dyn KeptRules>> {
        kept::kept(exchange)
    }

    fn binds_path(&self) -> bool {
        true
    }

    fn own_page(&self, exchange: &Exchange, response: Response) -> Response {
        let state = exchange.extensions.get::<State>();
        let location = state.map(|state| &*state.location);
        let mut response = pages::page(response, location, self.front_end.nginx.product);
        if let Some(state) = state {
            clients::pad(exchange, &state.location, &mut response);
        }
        response
    }

    fn redirects_error(&self, exchange: &mut Exchange, response: &mut Response) -> bool {
        // It may have been refused before a server was chosen.
        if response.status.is_error() && exchange.extensions.get::<State>().is_none() {
            let nginx = &self.front_end.nginx;
            let _ = dispatch::begin(exchange, nginx, &self.generation, &self.watcher);
            // Its line goes to the logs of the server, not to those of all locations.
            let _ = self.run(exchange, dispatch::take_settings);
        }
        let is_refused = exchange.limits.refused.take().is_some();
        self.run(exchange, |request| {
            // The page of what was going to be answered is none of the refusal.
            request.state.has_error_page &= !is_refused;
            errors::error_page(request, response)
        })
        .unwrap_or(false)
    }
}
