//! The registry: the one list of handlers and the one list of filters, in the order in which they
//! are asked.
//!
//! Called by: each worker, at its start and after a reload; `saker explain`.
//! Caveat: the order is behavior. The page cache looks a page up before the gateway asks for it,
//! and keeps it before it is compressed.
//! Out of scope: what a handler or filter does.

use saker_abuse::{Abuse, AbuseFields, LoginAttempts};
use saker_apache::{Apache, ApacheRules, ContentFilters, Inside, ResponseRules};
use saker_content::coding;
use saker_content_filters::Compress;
use saker_files::Watcher;
use saker_gateway::{ForwardAuth, Gateway};
use saker_handlers::{CgiFiles, FieldFilter, FixedAnswers, PhpFiles};
use saker_modsecurity::ModSecurityInspector;
use saker_native::NativeRules;
use saker_net::jobs::{self, JobKind};
use saker_page_cache::{Explain, LookupHandler, PageCache, StoreFilter};
use saker_pipeline::{
    ContentHandlers, ErrorDocumentCache, Filter, Generation, Handler, Rules, Services, SiteRules,
};
use saker_serving::{
    reverse_dns::ReverseDns,
    services::{CacheAccess, CommonParts, ServiceParts},
};
use saker_static_files::StaticFiles;
use saker_telemetry::Counters;
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
        counters,
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
    let apache = generation
        .front_end
        .clone()
        .and_then(|front_end| front_end.downcast::<Apache>().ok());
    let apache_rules = apache.as_ref().map(|apache| {
        Rc::new(ApacheRules::new(
            Arc::clone(apache),
            watcher.clone(),
            figures,
            generation.model.php_pools.clone(),
        ))
    });
    let content_filters = match (&apache, &apache_rules) {
        (Some(apache), Some(rules)) => Some(Rc::new(ContentFilters::new(
            Arc::clone(apache),
            watcher.clone(),
            Inside::new(inside, Rc::clone(rules)),
        ))),
        _ => None,
    };
    let handlers = handlers(
        &generation,
        watcher,
        Rc::clone(&gateway),
        page_cache.as_ref(),
        is_explained,
    );
    let filters = filters(
        apache.as_ref(),
        watcher,
        content_filters.clone(),
        page_cache.as_ref(),
        &counters,
    );
    let native = Rc::new(NativeRules::new(Some(Rc::new(ForwardAuth(gateway)))));
    let mut rules = SiteRules::new(native);
    if let Some(apache) = apache_rules {
        rules = rules.with_first(apache.sites(), apache as Rc<dyn Rules>);
    }
    let challenges = Arc::clone(challenges);
    Services {
        generation,
        handlers,
        filters,
        content_filters: content_filters
            .into_iter()
            .map(|filter| Box::new(filter) as Box<dyn Filter>)
            .collect(),
        rules,
        abuse: Rc::new(Abuse {
            shared: Arc::clone(guard),
            clients: Arc::clone(neighbours),
            names: match is_explained {
                true => None,
                false => Some(Box::new(ReverseDns::default())),
            },
        }),
        inspector: Rc::new(ModSecurityInspector::new(buffer_files, |work| {
            Box::pin(async move {
                jobs::run(JobKind::Inspection, None, move |_| work())
                    .await
                    .is_ok()
            })
        })),
        error_document_cache: page_cache
            .map(|page_cache| Rc::new(StoreFilter(page_cache)) as Rc<dyn ErrorDocumentCache>),
        counters,
        sleep: |time| Box::pin(tokio::time::sleep(time)),
        now_ns: saker_net::clock::monotonic_ns,
        challenge: Box::new(move |path| challenges.answer(path)),
    }
}

/// The handlers, in the order in which they are asked.
fn handlers(
    generation: &Generation,
    watcher: &Watcher,
    gateway: Rc<Gateway>,
    page_cache: Option<&Rc<PageCache>>,
    is_explained: bool,
) -> ContentHandlers {
    let cache: Option<Box<dyn Handler>> = match page_cache {
        Some(page_cache) => Some(Box::new(LookupHandler(Rc::clone(page_cache)))),
        None if is_explained => Some(Box::new(Explain)),
        None => None,
    };
    ContentHandlers {
        routes: Box::new([
            Box::new(FixedAnswers),
            Box::new(PhpFiles::new(
                watcher.clone(),
                generation.model.php_pools.clone(),
            )),
            Box::new(CgiFiles::new(watcher.clone())),
        ]),
        cache,
        files: Box::new([Box::new(StaticFiles::new(
            watcher.clone(),
            generation.model.server.resource_file_bytes_max,
        ))]),
        gateway,
    }
}

/// The filters, in the order in which they see a response.
fn filters(
    apache: Option<&Arc<Apache>>,
    watcher: &Watcher,
    content_filters: Option<Rc<ContentFilters>>,
    page_cache: Option<&Rc<PageCache>>,
    counters: &Arc<Counters>,
) -> Rc<[Box<dyn Filter>]> {
    let mut filters: Vec<Box<dyn Filter>> = vec![
        Box::new(LoginAttempts {
            decode: coding::decode_up_to,
        }),
        Box::new(FieldFilter),
    ];
    if let Some(content_filters) = content_filters {
        filters.push(Box::new(content_filters));
    }
    if let Some(page_cache) = page_cache {
        filters.push(Box::new(StoreFilter(Rc::clone(page_cache))));
    }
    filters.push(Box::new(Compress {
        counters: Arc::clone(counters),
    }));
    if let Some(apache) = apache {
        filters.push(Box::new(ResponseRules::new(
            Arc::clone(apache),
            watcher.clone(),
        )));
    }
    filters.push(Box::new(AbuseFields));
    Rc::from(filters)
}
