//! The one list of handlers and the one list of filters, in the order in which they are asked.

use saker_apache::{Apache, ApacheRules, ContentFilters, Inside, ResponseRules};
use saker_gateway::Doorkeeper;
use saker_handlers::{
    CgiFiles, Compress, FieldFilter, FixedAnswers, GuardFields, LoginAttempts, PhpFiles,
    StaticFiles,
    page_cache::{Explain, Keep, LookUp, PageCache},
};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Filter, Handler, Rules, Services};
use saker_serving::reverse_dns::Names;
use saker_serving::services::{CacheAccess, CommonParts, ServiceParts};
use std::{
    rc::{Rc, Weak},
    sync::Arc,
};

/// Makes the services of a worker. Pages that include others ask the same services as clients would.
pub fn services(parts: ServiceParts<'_>) -> Rc<Services> {
    Rc::new_cyclic(|inside| made(parts, inside.clone()))
}

fn made(parts: ServiceParts<'_>, inside: Weak<Services>) -> Services {
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
    let purgers = &generation.model.cache.purgers;
    let is_explained = matches!(cache, CacheAccess::Explain);
    let page_cache = match cache {
        CacheAccess::Share(share) => Some(PageCache::new(share, purgers.clone(), inside.clone())),
        CacheAccess::None | CacheAccess::Explain => None,
    };
    let mut handlers: Vec<Box<dyn Handler>> = vec![
        Box::new(FixedAnswers),
        Box::new(PhpFiles::new(
            watcher.clone(),
            generation.model.php_pools.clone(),
        )),
        Box::new(CgiFiles::new(watcher.clone())),
    ];
    if let Some(page_cache) = &page_cache {
        handlers.push(Box::new(LookUp(Rc::clone(page_cache))));
    }
    if is_explained {
        handlers.push(Box::new(Explain));
    }
    let gateway = Rc::new(gateway);
    handlers.push(Box::new(Rc::clone(&gateway)));
    handlers.push(Box::new(StaticFiles::new(
        watcher.clone(),
        generation.model.server.resource_file_bytes_max,
    )));
    let mut filters: Vec<Box<dyn Filter>> = vec![Box::new(LoginAttempts), Box::new(FieldFilter)];
    let challenges = Arc::clone(challenges);
    let rules = generation
        .front_end
        .clone()
        .and_then(|front_end| front_end.downcast::<Apache>().ok());
    let buffer_files = gateway.buffer_files();
    let pools = generation.model.php_pools.clone();
    let apache_rules = rules.as_ref().map(|apache| {
        Rc::new(ApacheRules::new(
            Arc::clone(apache),
            watcher.clone(),
            figures,
            pools.clone(),
        ))
    });
    if let (Some(apache), Some(apache_rules)) = (&rules, &apache_rules) {
        let inside = Inside::new(inside, Rc::clone(apache_rules));
        filters.push(Box::new(ContentFilters::new(
            Arc::clone(apache),
            watcher.clone(),
            inside,
        )));
    }
    if let Some(page_cache) = page_cache {
        filters.push(Box::new(Keep(page_cache)));
    }
    filters.push(Box::new(Compress));
    if let Some(apache) = &rules {
        filters.push(Box::new(ResponseRules::new(
            Arc::clone(apache),
            watcher.clone(),
        )));
    }
    filters.push(Box::new(GuardFields));
    let rules = apache_rules.map(|rules| rules as Rc<dyn Rules>);
    Services {
        generation,
        handlers: Rc::from(handlers),
        filters: Rc::from(filters),
        rules,
        authorizer: Some(Rc::new(Doorkeeper(gateway))),
        guard: Arc::clone(guard),
        names: if is_explained {
            None
        } else {
            Some(Box::new(Names::default()))
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
