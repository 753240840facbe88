//! The one list of handlers and the one list of filters, in the order in which they are asked.

use crate::names::Names;
use saker_acme::Challenges;
use saker_apache::{Apache, ApacheRules, ContentFilters, Inside, ResponseRules, status::Figures};
use saker_content_filters::Compress;
use saker_files::Watcher;
use saker_gateway::{Doorkeeper, Gateway};
use saker_handlers::{
    CgiFiles, FieldFilter, FixedAnswers, GuardFields, LoginAttempts, PhpFiles, StaticFiles,
    page_cache::{Explain, Keep, LookUp, PageCache, Share},
};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{
    Filter, Generation, GuardState, Handler, Rules, Services, throttle::Neighbours,
};
use std::{
    rc::{Rc, Weak},
    sync::Arc,
};

/// What a worker has of the page cache.
pub enum Cache {
    Nothing,
    Share(Share),
    /// Requests are explained: nothing is looked up, and it is said what would be.
    Explained,
}

/// What all workers share.
pub struct Common<'a> {
    pub watcher: &'a Watcher,
    pub challenges: &'a Arc<Challenges>,
    pub guard: &'a Arc<GuardState>,
    pub neighbours: &'a Arc<Neighbours>,
}

pub fn services(
    generation: Arc<Generation>,
    common: &Common<'_>,
    gateway: Gateway,
    figures: Rc<dyn Figures>,
    cache: Cache,
) -> Rc<Services> {
    // Pages that include pages ask for them as clients would.
    Rc::new_cyclic(|inside| made(generation, common, gateway, figures, cache, inside.clone()))
}

fn made(
    generation: Arc<Generation>,
    common: &Common<'_>,
    gateway: Gateway,
    figures: Rc<dyn Figures>,
    cache: Cache,
    inside: Weak<Services>,
) -> Services {
    let Common {
        watcher,
        challenges,
        guard,
        neighbours,
    } = *common;
    let purgers = &generation.model.cache.purgers;
    let is_explained = matches!(cache, Cache::Explained);
    let page_cache = match cache {
        Cache::Share(share) => Some(PageCache::new(share, purgers.clone(), inside.clone())),
        Cache::Nothing | Cache::Explained => None,
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
