//! The registry: the only list of handlers, the only list of filters, and the only list of loggers,
//! in the order in which they run.
//!
//! Called by: each worker, at its start and after a reload; `saker explain`.
//! Caveat: the order is behavior. The page cache looks a page up before the gateway fetches it, and
//! stores it before it is compressed.
//! Out of scope: the handlers, filters, and loggers themselves.

use saker_abuse::{Abuse, AbuseFields, ClientLimits, LoginAttempts, SharedAbuseState};
use saker_acme::Challenge;
use saker_apache::{
    Apache, ApacheRules, ContentFilters, Inside, ResponseRules, SaveSession, native_configuration,
    status::Figures,
};
use saker_config::model::Site;
use saker_content::{coding, dictionary::DictionaryStore};
use saker_content_filters::{Compress, Dictionaries};
use saker_dav::WebDavFiles;
use saker_files::{BufferFiles, Watcher};
use saker_gateway::{DocumentFetcher, ForwardAuth, Gateway};
use saker_handlers::{CgiFiles, FieldFilter, FixedAnswers, PhpFiles, RequestFieldFilter};
use saker_live::tail::Tail;
use saker_modsecurity::ModSecurityInspector;
use saker_native::{HtaccessRules, IdentityFilter, NativeRules, NativeStreamRules};
use saker_net::jobs::{self, JobKind};
use saker_nginx::{BodyFilter, Count, Filters, FrontEnd, NginxRules, ResponseFilter, ServerCounts};
use saker_page_cache::{
    Explain, LookupHandler, PageCache, RepeatingForwarder, StoreFilter, keyed::KeyedForwarder,
    peers::PeerHandler,
};
use saker_pipeline::{
    Client, ContentHandlers, ErrorDocumentCache, Filter, Forwarder, FoundChallenge, Generation,
    Handler, LocalFuture, Logger, Loggers, Rules, Services, SiteRules,
};
use saker_serving::{
    access_logs::AccessLogs,
    forensic_logs::ForensicLogs,
    latencies::LatencyLogger,
    log_files::LogFiles,
    reverse_dns::ReverseDns,
    services::{CacheAccess, CommonParts, ServiceParts},
    tail_logger::TailLogger,
    trace_logger::TraceLogger,
};
use saker_static_files::StaticFiles;
use saker_stream_proxy::StreamRules;
use saker_telemetry::{Counters, latency::Latencies, trace::TraceQueue};
use saker_tls::ClientVerification;
use std::{
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// Builds the services of a worker. Subrequests of pages use the same services as clients do.
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
        traces,
        latencies,
        tail,
        log_files,
    } = parts;
    let CommonParts {
        watcher,
        challenges,
        guard,
        neighbours,
        dictionaries,
    } = common;
    let is_explained = matches!(cache, CacheAccess::Explain);
    let gateway = gateway.shared(Arc::clone(&counters));
    let page_cache = page_cache(cache, &generation, (&gateway, inside.clone()));
    let state_dir = &generation.model.server.state_dir;
    let webdav = WebDavFiles::new(watcher.clone(), state_dir, inside.clone());
    let count = counts(Rc::clone(&figures));
    let apache = ApacheParts::new(&generation, watcher, figures, inside.clone());
    let (files, pages) = ((watcher, webdav), page_cache.as_ref());
    let handlers = handlers(&generation, files, Rc::clone(&gateway), pages, is_explained);
    let nginx = nginx(&generation);
    let responses = (&counters, dictionaries);
    let front_ends = (&apache, nginx.as_ref());
    let watched = (watcher, inside.clone());
    let filters = filters(front_ends, watched, pages, responses);
    let native = native_rules(&generation, watcher, Rc::clone(&gateway));
    let nginx = nginx.map(|nginx| nginx_rules(&generation, watcher, nginx, (inside, count)));
    let rules = site_rules(&generation, watcher, native, (apache.rules, nginx));
    let challenges = Arc::clone(challenges);
    Services {
        handlers,
        filters,
        content_filters: content_filters(apache.content_filters),
        rules,
        loggers: Rc::new(loggers(
            &generation,
            (latencies, traces, tail),
            log_files,
            &counters,
        )),
        abuse: Rc::new(abuse(
            &generation,
            (guard, neighbours),
            &counters,
            is_explained,
        )),
        generation,
        inspector: Rc::new(inspector(gateway.buffer_files())),
        error_document_cache: page_cache
            .map(|page_cache| Rc::new(StoreFilter(page_cache)) as Rc<dyn ErrorDocumentCache>),
        counters,
        sleep,
        challenge: Box::new(move |path| found_challenge(challenges.find(path))),
    }
}

/// A worker's page cache, which may ask other servers of the cluster through the gateway.
fn page_cache(
    cache: CacheAccess,
    generation: &Generation,
    (gateway, inside): (&Rc<Gateway>, Weak<Services>),
) -> Option<Rc<PageCache>> {
    let CacheAccess::Share(share) = cache else {
        return None;
    };
    let fetcher = Rc::new(DocumentFetcher(Rc::clone(gateway)));
    let purgers = generation.model.cache.purgers.clone();
    Some(PageCache::new(share, purgers, inside, fetcher))
}

fn found_challenge(challenge: Challenge) -> FoundChallenge {
    match challenge {
        Challenge::Unknown => FoundChallenge::None,
        Challenge::Known(found) => FoundChallenge::Known(found),
        Challenge::Look(look) => FoundChallenge::Look(look),
    }
}

/// Filters of content that rules name.
fn content_filters(configured: Option<Rc<ContentFilters>>) -> Rc<[Box<dyn Filter>]> {
    let boxed = |filter| Box::new(filter) as Box<dyn Filter>;
    configured.into_iter().map(boxed).collect()
}

/// The rules of `saker.toml`, which ask other servers through the gateway.
fn native_rules(
    generation: &Generation,
    watcher: &Watcher,
    gateway: Rc<Gateway>,
) -> Rc<NativeRules> {
    Rc::new(NativeRules::new(
        Some(Rc::new(ForwardAuth(Rc::clone(&gateway)))),
        Some(Rc::new(DocumentFetcher(gateway))),
        &generation.model.server.state_dir,
        watcher.clone(),
    ))
}

/// The nginx front end of a configuration.
fn nginx(generation: &Generation) -> Option<Arc<FrontEnd>> {
    let front_end = generation.front_end.clone()?;
    front_end.downcast().ok()
}

/// The rules of a configuration's streams.
pub fn stream_rules(generation: &Arc<Generation>) -> Option<Rc<dyn StreamRules>> {
    if !generation.model.streams.is_empty() {
        return Some(Rc::new(NativeStreamRules::new(Arc::clone(generation))));
    }
    let front_end = nginx(generation)?;
    let rules = front_end.stream_rules()?;
    Some(Rc::new(rules))
}

/// nginx's rules, which are for all sites.
fn nginx_rules(
    generation: &Arc<Generation>,
    watcher: &Watcher,
    nginx: Arc<FrontEnd>,
    (inside, count): (Weak<Services>, Count),
) -> Rc<NginxRules> {
    let generation = Arc::clone(generation);
    let watcher = watcher.clone();
    Rc::new(NginxRules::new(nginx, generation, watcher, inside, count))
}

/// The numbers for `stub_status`.
fn counts(figures: Rc<dyn Figures>) -> Count {
    Rc::new(move || {
        let counts = figures.counts();
        ServerCounts {
            accepted: counts.accepted,
            open: counts.open,
            requests: counts.requests,
            busy: counts.busy,
            reading: counts.reading,
        }
    })
}

/// Limits and bans.
fn abuse(
    generation: &Arc<Generation>,
    (guard, neighbours): (&Arc<SharedAbuseState>, &Arc<ClientLimits>),
    counters: &Arc<Counters>,
    is_explained: bool,
) -> Abuse {
    Abuse {
        generation: Arc::clone(generation),
        shared: Arc::clone(guard),
        clients: Arc::clone(neighbours),
        names: match is_explained {
            true => None,
            false => Some(Box::new(ReverseDns::default())),
        },
        counters: Arc::clone(counters),
        sleep,
        now_ns: saker_net::clock::monotonic_ns,
    }
}

/// The rules of each site: nginx's, Apache's, native ones, or both for native sites with `.htaccess`
/// files.
fn site_rules(
    generation: &Arc<Generation>,
    watcher: &Watcher,
    native: Rc<NativeRules>,
    (apache, nginx): (Option<Rc<ApacheRules>>, Option<Rc<NginxRules>>),
) -> SiteRules {
    let rules = SiteRules::new(Rc::clone(&native) as Rc<dyn Rules>);
    if let Some(nginx) = nginx {
        return rules.with_first(nginx.sites(), nginx as Rc<dyn Rules>);
    }
    match apache {
        Some(apache) if apache.sites() > 0 => {
            rules.with_first(apache.sites(), apache as Rc<dyn Rules>)
        }
        Some(apache) => {
            let sites = generation.model.sites.iter();
            let sites = sites.map(|site| has_directory_rules(site)).collect();
            let files = HtaccessRules::new(native, apache, watcher.clone());
            rules.with_directory_rules(sites, Rc::new(files))
        }
        None => rules,
    }
}

/// True if a path of the site is under the rules of directories.
fn has_directory_rules(site: &Site) -> bool {
    let of_routes = site.routes.iter().map(|route| &route.settings);
    std::iter::once(&site.settings)
        .chain(of_routes)
        .any(|settings| settings.needs_directory_rules())
}

/// The pipeline depends on no runtime, so this is handed in.
fn sleep(time: Duration) -> LocalFuture<'static, ()> {
    Box::pin(tokio::time::sleep(time))
}

/// The Apache front end of a configuration; all parts are `None` for a native one without
/// `.htaccess` files.
struct ApacheParts {
    apache: Option<Arc<Apache>>,
    rules: Option<Rc<ApacheRules>>,
    content_filters: Option<Rc<ContentFilters>>,
}

impl ApacheParts {
    fn new(
        generation: &Generation,
        watcher: &Watcher,
        figures: Rc<dyn Figures>,
        inside: Weak<Services>,
    ) -> ApacheParts {
        let front_end = generation.front_end.clone();
        let apache = front_end.and_then(|front_end| front_end.downcast::<Apache>().ok());
        let model = &generation.model;
        let has_directory_rules = model.sites.iter().any(|site| has_directory_rules(site));
        let of_native = || {
            let body_bytes_max = model.limits.body_bytes_max;
            has_directory_rules.then(|| Arc::new(native_configuration(body_bytes_max)))
        };
        let Some(apache) = apache.or_else(of_native) else {
            return ApacheParts {
                apache: None,
                rules: None,
                content_filters: None,
            };
        };
        let rules = Rc::new(ApacheRules::new(
            Arc::clone(&apache),
            watcher.clone(),
            figures,
            generation.model.php_pools.clone(),
            Box::new(saker_native::settings_of(watcher.clone())),
        ));
        let content_filters = ContentFilters::new(
            Arc::clone(&apache),
            watcher.clone(),
            Inside::new(inside, Rc::clone(&rules)),
        );
        ApacheParts {
            apache: Some(apache),
            rules: Some(rules),
            content_filters: Some(Rc::new(content_filters)),
        }
    }
}

/// ModSecurity; large bodies and many arguments are inspected on the blocking pool, where clients
/// take turns.
fn inspector(buffer_files: Arc<BufferFiles>) -> ModSecurityInspector {
    ModSecurityInspector::new(buffer_files, |client, work| {
        Box::pin(async move {
            let owner = Some(client.number() as usize);
            let done = jobs::run(JobKind::Inspection, owner, move |cancel| {
                // The library can't be stopped once it has begun.
                let is_wanted = !cancel.is_cancelled();
                if is_wanted {
                    work();
                }
                is_wanted
            });
            done.await == Ok(true)
        })
    })
}

/// The handlers, in the order in which they run.
fn handlers(
    generation: &Generation,
    (watcher, webdav): (&Watcher, WebDavFiles),
    gateway: Rc<Gateway>,
    page_cache: Option<&Rc<PageCache>>,
    is_explained: bool,
) -> ContentHandlers {
    let cache: Option<Box<dyn Handler>> = match page_cache {
        Some(page_cache) => Some(Box::new(LookupHandler(Rc::clone(page_cache)))),
        None if is_explained => Some(Box::new(Explain)),
        None => None,
    };
    let mut routes: Vec<Box<dyn Handler>> = Vec::new();
    let peers = page_cache.and_then(|page_cache| PeerHandler::new(page_cache, is_peer));
    if let Some(peers) = peers {
        routes.push(Box::new(peers));
    }
    routes.push(Box::new(FixedAnswers));
    routes.push(Box::new(webdav));
    let pools = generation.model.php_pools.clone();
    routes.push(Box::new(PhpFiles::new(watcher.clone(), pools)));
    routes.push(Box::new(CgiFiles::new(watcher.clone())));
    let gateway: Rc<dyn Forwarder> = match page_cache {
        Some(page_cache) => Rc::new(RepeatingForwarder::new(gateway, Rc::clone(page_cache))),
        None => gateway,
    };
    ContentHandlers {
        routes: routes.into(),
        cache,
        files: Box::new([Box::new(StaticFiles::new(
            watcher.clone(),
            generation.model.server.resource_file_bytes_max,
        ))]),
        gateway: Rc::new(KeyedForwarder::new(gateway, page_cache.cloned())),
    }
}

/// True if a client has shown a certificate of another server of the cluster.
fn is_peer(client: &Client, name: &str) -> bool {
    client.session.as_ref().is_some_and(|session| {
        session.client_verification == ClientVerification::Success
            && session
                .client_certificates
                .first()
                .is_some_and(|certificate| saker_tls::is_for_name(certificate, name))
    })
}

/// The filters, in the order in which they see a response.
fn filters(
    (apache, nginx): (&ApacheParts, Option<&Arc<FrontEnd>>),
    (watcher, inside): (&Watcher, Weak<Services>),
    page_cache: Option<&Rc<PageCache>>,
    (counters, dictionaries): (&Arc<Counters>, &Arc<DictionaryStore>),
) -> Rc<[Box<dyn Filter>]> {
    let mut filters: Vec<Box<dyn Filter>> = vec![Box::new(FieldFilter)];
    if let Some(front_end) = nginx {
        let nginx = Arc::clone(&front_end.nginx);
        filters.push(Box::new(ResponseFilter::new(
            Arc::clone(&nginx),
            watcher.clone(),
        )));
        filters.push(Box::new(BodyFilter(Filters {
            nginx,
            watcher: watcher.clone(),
            inside,
        })));
    }
    if apache.apache.is_some() {
        filters.push(Box::new(SaveSession));
    }
    if let Some(content_filters) = &apache.content_filters {
        filters.push(Box::new(Rc::clone(content_filters)));
    }
    if let Some(page_cache) = page_cache {
        filters.push(Box::new(StoreFilter(Rc::clone(page_cache))));
    }
    filters.push(Box::new(RequestFieldFilter));
    filters.push(Box::new(Compress {
        counters: Arc::clone(counters),
    }));
    if let Some(rules) = &apache.rules {
        filters.push(Box::new(ResponseRules::new(Rc::clone(rules))));
    }
    filters.push(Box::new(IdentityFilter));
    filters.push(Box::new(AbuseFields));
    filters.push(Box::new(Dictionaries(Arc::clone(dictionaries))));
    Rc::from(filters)
}

/// The loggers, in the order in which they see a request.
fn loggers(
    generation: &Arc<Generation>,
    (latencies, traces, tail): (&Arc<Latencies>, &Arc<TraceQueue>, &Arc<Tail>),
    log_files: Option<&LogFiles>,
    counters: &Arc<Counters>,
) -> Loggers {
    let mut loggers: Vec<Rc<dyn Logger>> = vec![Rc::new(LoginAttempts {
        decode: coding::decode_up_to,
    })];
    if let Some(files) = log_files {
        loggers.push(Rc::new(ForensicLogs::new(generation)));
        loggers.push(Rc::new(AccessLogs::new(generation, files, counters)));
        let metrics = &generation.model.metrics;
        if metrics.address.is_some() && metrics.latencies {
            loggers.push(Rc::new(LatencyLogger::new(latencies, generation)));
        }
        if generation.model.tracing.endpoint.is_some() {
            loggers.push(Rc::new(TraceLogger::new(traces, generation, counters)));
        }
    }
    let watchers: Vec<Rc<dyn Logger>> = match log_files {
        Some(_) => vec![Rc::new(TailLogger::new(tail))],
        None => Vec::new(),
    };
    Loggers::new(&generation.model.sites, loggers, watchers)
}
