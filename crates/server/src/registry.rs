//! The registry: the one list of handlers and the one list of filters, in the order in which they
//! are asked.
//!
//! Called by: each worker, at its start and after a reload; `saker explain`.
//! Caveat: the order is behavior. The page cache looks a page up before the gateway asks for it,
//! and keeps it before it is compressed.
//! Out of scope: what a handler or filter does.

use saker_apache::{Apache, ApacheRules, ContentFilters, Inside, ResponseRules, status::Figures};
use saker_content_filters::Compress;
use saker_files::Watcher;
use saker_gateway::{Doorkeeper, Gateway};
use saker_handlers::{CgiFiles, FieldFilter, FixedAnswers, GuardFields, LoginAttempts, PhpFiles};
use saker_net::jobs::{self, JobKind};
use saker_page_cache::{Explain, LookupHandler, PageCache, StoreFilter};
use saker_pipeline::{Filter, Generation, Handler, Rules, Services};
use saker_serving::{
    reverse_dns::ReverseDns,
    services::{CacheAccess, CommonParts, ServiceParts},
};
use saker_static_files::StaticFiles;
use std::{
    rc::{Rc, Weak},
    sync::Arc,
};

/// Makes the services of a worker. Pages that include others ask the same services as clients
/// would.
pub fn services(parts: ServiceParts<'_>) -> Rc<Services> {
    Rc::new_cyclic(|inside| assemble(parts, inside.clone()))
}

fn assemble(parts: ServiceParts<'_>, inside: Weak<Services>) -> Services {
    let ServiceParts {
        generation,
        common,
        gateway,
        figures,
        cache,
    } = parts;
    let CommonParts {
        watcher,
        challenges,
        guard,
        neighbours,
    } = common;
    let is_explained = matches!(cache, CacheAccess::Explain);
    let purgers = &generation.model.cache.purgers;
    let page_cache = match cache {
        CacheAccess::Share(share) => Some(PageCache::new(share, purgers.clone(), inside.clone())),
        CacheAccess::None | CacheAccess::Explain => None,
    };
    let gateway = Rc::new(gateway);
    let buffer_files = gateway.buffer_files();
    let challenges = Arc::clone(challenges);
    let apache = ApacheParts::of(&generation, watcher, figures);
    let handlers = handlers(
        &generation,
        watcher,
        page_cache.as_ref(),
        is_explained,
        &gateway,
    );
    let filters = filters(watcher, page_cache, apache.as_ref(), inside);
    Services {
        generation,
        handlers: Rc::from(handlers),
        filters: Rc::from(filters),
        rules: apache.map(|apache| apache.rules as Rc<dyn Rules>),
        authorizer: Some(Rc::new(Doorkeeper(gateway))),
        guard: Arc::clone(guard),
        names: if is_explained {
            None
        } else {
            Some(Box::new(ReverseDns::default()))
        },
        sleep: |time| Box::pin(tokio::time::sleep(time)),
        offload: |work| {
            Box::pin(async move {
                jobs::run(JobKind::Inspection, None, move |_| work())
                    .await
                    .is_ok()
            })
        },
        buffer_files,
        neighbours: Arc::clone(neighbours),
        now_ns: saker_net::clock::monotonic_ns,
        challenge: Box::new(move |path| challenges.answer(path)),
    }
}

/// The handlers, in the order in which they are asked.
fn handlers(
    generation: &Generation,
    watcher: &Watcher,
    page_cache: Option<&Rc<PageCache>>,
    is_explained: bool,
    gateway: &Rc<Gateway>,
) -> Vec<Box<dyn Handler>> {
    let mut handlers: Vec<Box<dyn Handler>> = vec![
        Box::new(FixedAnswers),
        Box::new(PhpFiles::new(
            watcher.clone(),
            generation.model.php_pools.clone(),
        )),
        Box::new(CgiFiles::new(watcher.clone())),
    ];
    if let Some(page_cache) = page_cache {
        handlers.push(Box::new(LookupHandler(Rc::clone(page_cache))));
    }
    if is_explained {
        handlers.push(Box::new(Explain));
    }
    handlers.push(Box::new(Rc::clone(gateway)));
    handlers.push(Box::new(StaticFiles::new(
        watcher.clone(),
        generation.model.server.resource_file_bytes_max,
    )));
    handlers
}

/// The filters, in the order in which they see a response.
fn filters(
    watcher: &Watcher,
    page_cache: Option<Rc<PageCache>>,
    apache: Option<&ApacheParts>,
    inside: Weak<Services>,
) -> Vec<Box<dyn Filter>> {
    let mut filters: Vec<Box<dyn Filter>> = vec![Box::new(LoginAttempts), Box::new(FieldFilter)];
    if let Some(apache) = apache {
        let inside = Inside::new(inside, Rc::clone(&apache.rules));
        filters.push(Box::new(ContentFilters::new(
            Arc::clone(&apache.configuration),
            watcher.clone(),
            inside,
        )));
    }
    if let Some(page_cache) = page_cache {
        filters.push(Box::new(StoreFilter(page_cache)));
    }
    filters.push(Box::new(Compress));
    if let Some(apache) = apache {
        filters.push(Box::new(ResponseRules::new(
            Arc::clone(&apache.configuration),
            watcher.clone(),
        )));
    }
    filters.push(Box::new(GuardFields));
    filters
}

/// The front end of an Apache configuration.
struct ApacheParts {
    configuration: Arc<Apache>,
    rules: Rc<ApacheRules>,
}

impl ApacheParts {
    /// `None`: the configuration is native.
    fn of(
        generation: &Generation,
        watcher: &Watcher,
        figures: Rc<dyn Figures>,
    ) -> Option<ApacheParts> {
        let configuration = generation.front_end.clone()?.downcast::<Apache>().ok()?;
        let rules = Rc::new(ApacheRules::new(
            Arc::clone(&configuration),
            watcher.clone(),
            figures,
            generation.model.php_pools.clone(),
        ));
        Some(ApacheParts {
            configuration,
            rules,
        })
    }
}
