//! Cache warming on the main thread: jobs of the control socket, and scheduled ones.
//!
//! Called by: the supervisor. The workers fetch the pages (`saker_page_cache::warm`);
//! nothing here waits.

use super::{listeners::Listeners, workers::Workers};
use saker_cache_rules::names;
use saker_config::{
    HostTable, Model,
    model::{Address, Listener},
};
use saker_control::{WARM_LINES_MAX, WarmList, WarmOrder, WarmVerb};
use saker_page_cache::{
    background_fetch::FetchOutcome,
    endpoint::ListenerEndpoint,
    key,
    warm::{UrlLimit, WarmJob, WarmJobs, WarmOptions, WarmResult, url::PageUrl},
};
use saker_serving::worker_thread::Command;
use saker_telemetry::{error_log, message};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

/// Concurrent requests of a scheduled warm-up.
const CONFIGURED_CONCURRENCY: usize = 2;

/// Answers a warm-up command.
pub fn answer(
    verb: &WarmVerb,
    jobs: &WarmJobs,
    model: &Model,
    listeners: &Listeners,
    workers: &Workers,
) -> Result<Value, String> {
    let find = |job: u64| {
        jobs.find(job)
            .ok_or_else(|| format!("no such warm-up: {job}"))
    };
    match verb {
        WarmVerb::Begin(WarmOrder {
            list,
            variations,
            concurrency,
            rate,
            site,
        }) => {
            let order = WarmOptions {
                variations: variations.clone(),
                concurrency: *concurrency,
                rate: *rate,
                is_watched: true,
            };
            let limit = site.as_deref().map(|site| limit(model, site));
            let is_limited = limit.is_some();
            let job = WarmJob::limited(order, doors(model, listeners), true, limit);
            if is_limited {
                of_limit(&job, list)?;
            }
            add(&job, list)?;
            let number = begin(&job, jobs, workers).ok_or("too many warm-ups are running")?;
            Ok(json!({ "ok": true, "job": number }))
        }
        WarmVerb::Add { job, list } => {
            let job = find(*job)?;
            add(&job, list)?;
            Ok(json!({ "ok": true }))
        }
        WarmVerb::Look { job, from } => Ok(looked(&*find(*job)?, *from)),
        WarmVerb::Stop { job } => {
            find(*job)?.stop();
            Ok(json!({ "ok": true }))
        }
    }
}

/// Pages of the site of this name, as the page cache has it. The site is the one that would
/// answer the request.
fn limit(model: &Model, site: &str) -> UrlLimit {
    let hosts = HostTable::new(model);
    let sites = model.sites.iter().enumerate();
    let scopes: Vec<(Vec<u8>, bool)> = sites
        .map(|(index, one)| (key::scope(one, index), one.by_host.is_some()))
        .collect();
    let wanted = site.to_owned().into_bytes();
    Box::new(move |url, endpoint| {
        let host = url.host();
        let found = hosts.select(&endpoint.listener, endpoint.local.ip(), host.as_bytes());
        let Some((index, _)) = found else {
            return false;
        };
        match scopes.get(index) {
            // One that stands for many hosts has pages of each.
            Some((_, true)) => names::scope(Some(host), index) == wanted,
            Some((scope, false)) => *scope == wanted,
            None => false,
        }
    })
}

/// Refuses URLs that the job would not fetch.
fn of_limit(job: &WarmJob, list: &WarmList) -> Result<(), String> {
    let mut all = list.urls.iter().chain(&list.sitemaps);
    let is_own = |text: &&String| {
        let url = PageUrl::parse(text);
        url.is_some_and(|url| job.endpoint(&url).is_some())
    };
    match all.find(|text| !is_own(text)) {
        None => Ok(()),
        Some(text) => Err(format!(
            "{text} is no URL of a page of the site (http://HOST/PATH or https://HOST/PATH)"
        )),
    }
}

/// Starts the configured warm-up.
pub fn by_configuration(jobs: &WarmJobs, model: &Model, listeners: &Listeners, workers: &Workers) {
    let order = WarmOptions {
        concurrency: CONFIGURED_CONCURRENCY,
        ..WarmOptions::default()
    };
    let job = WarmJob::new(order, doors(model, listeners), true);
    let list = WarmList {
        sitemaps: model.cache.warmed.clone(),
        ..WarmList::default()
    };
    let begun = add(&job, &list).and_then(|()| {
        begin(&job, jobs, workers).ok_or_else(|| "too many warm-ups are running".into())
    });
    if let Err(why) = begun {
        error_log::log(&message::CONFIG_WARNING, format_args!("cache.warm: {why}"));
    }
}

/// Starts a job and returns its number; `None`: too many are running.
pub fn begin(job: &Arc<WarmJob>, jobs: &WarmJobs, workers: &Workers) -> Option<u64> {
    let number = jobs.begin(job)?;
    let (all, count) = (job.concurrency(), workers.len().max(1));
    for index in 0..count {
        let share = all / count + usize::from(index < all % count);
        if share > 0 {
            workers.tell(index, Command::Warm(Arc::clone(job), share));
        }
    }
    Some(number)
}

/// Adds URLs, all or none: a mistyped one is reported before any is fetched.
pub fn add(job: &WarmJob, list: &WarmList) -> Result<(), String> {
    let parse = |text: &String| {
        PageUrl::parse(text)
            .ok_or_else(|| format!("{text} is no URL (http://HOST/PATH or https://HOST/PATH)"))
    };
    let pages = list.urls.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let sitemaps = list
        .sitemaps
        .iter()
        .map(parse)
        .collect::<Result<Vec<_>, _>>()?;
    job.add(&pages, &sitemaps);
    if !list.more {
        job.close();
    }
    Ok(())
}

/// Ways in, as clients of this machine would come.
pub fn doors(model: &Model, listeners: &Listeners) -> Vec<ListenerEndpoint> {
    let of = |(listener, actual): (Arc<Address>, &Address)| {
        let Address::Tcp(actual) = actual else {
            return None;
        };
        let is_tls = |known: &Listener| known.address == *listener && known.tls.is_some();
        let tls = model.listeners.iter().any(is_tls);
        Some(ListenerEndpoint {
            listener,
            local: local(*actual),
            tls,
            secure: tls,
        })
    };
    listeners.ways().filter_map(of).collect()
}

/// A client of this machine that connects to all addresses connects to the loopback.
fn local(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn looked(job: &WarmJob, from: u64) -> Value {
    let report = job.look(from, WARM_LINES_MAX);
    let figures = report.progress;
    json!({
        "ok": true,
        "known": figures.known,
        "fetched": figures.kept,
        "already_there": figures.there,
        "not_cacheable": figures.not_kept,
        "failed": figures.failed,
        "lines": report.lines.iter().map(line).collect::<Vec<_>>(),
        "next": report.next_line,
        "is_over": report.is_over,
    })
}

fn line(line: &WarmResult) -> Value {
    let (outcome, why, sentence) = match &line.outcome {
        FetchOutcome::Stored => ("fetched", None, None),
        FetchOutcome::AlreadyCached => ("already-there", None, None),
        FetchOutcome::NotStored(why) => ("not-cacheable", Some(why.word), Some(&*why.sentence)),
        FetchOutcome::Failed(why) => ("failed", None, Some(why.as_str())),
    };
    json!({ "url": line.url, "variation": line.variation, "outcome": outcome, "reason": why, "text": sentence })
}
