//! A worker's side of the access logs: the logs of each site, and the lines gathered for each.
//!
//! Called by: the pipeline, as a logger, for each request of a site with logs.
//! Caveat: each worker gathers lines of its own; a batch of them is written with one lock.
//! Out of scope: collecting the facts of a line (`request::log`).

use crate::{
    log_conditions::{self, asked_for, requested_path},
    log_files::LogFiles,
    logged_hosts::LoggedHosts,
};
use saker_config::model::{AccessLogTarget, LogCondition, Site};
use saker_pipeline::{FinishedRequest, Generation, Logger, log_path_note};
use saker_telemetry::{
    Counters, Metric,
    access_log::{Flushed, Format, LogBuffer, LogClock, Mask, Needs, by_host},
    error_log, message,
};
use std::{cell::RefCell, io, rc::Rc, sync::Arc};

struct SiteLog {
    format: Rc<Format>,
    condition: Option<LogCondition>,
    mask: Option<Arc<Mask>>,
    /// Index into the buffers.
    buffer: usize,
    /// Set for logs with one file per host: the hosts that have one.
    hosts: Option<Rc<LoggedHosts>>,
    /// Set for logs at paths that rules make: the note that has it.
    path_note: Option<Box<str>>,
}

/// The logs of a site.
#[derive(Default)]
struct SiteLogs {
    logs: Vec<SiteLog>,
    /// By route: positions in `logs`, if it has logs of its own. Empty if no route has.
    of_routes: Vec<Option<Arc<[usize]>>>,
    /// Position of the first log of a route; those before are the site's.
    first_of_routes: usize,
}

/// The access logs of all sites of a generation.
pub struct AccessLogs {
    sites: Vec<SiteLogs>,
    /// The parts of a record that the logs of each site use.
    needs: Vec<Needs>,
    lines: RefCell<Lines>,
    counters: Arc<Counters>,
}

/// Lines that have not been written yet.
#[derive(Default)]
struct Lines {
    /// One per log.
    buffers: Vec<LogBuffer>,
    clock: LogClock,
}

impl AccessLogs {
    /// Opens the logs of the generation. If one cannot be opened, reports that and logs nothing.
    pub fn new(generation: &Generation, files: &LogFiles, counters: &Arc<Counters>) -> AccessLogs {
        let mut logs = AccessLogs {
            sites: Vec::new(),
            needs: Vec::new(),
            lines: RefCell::default(),
            counters: Arc::clone(counters),
        };
        if let Err(error) = logs.open(generation, files) {
            error_log::log(&message::LOG_WRITE_FAILED, format_args!("{error}"));
            (logs.sites, logs.needs) = (Vec::new(), Vec::new());
        }
        logs
    }

    /// The formats were checked when the configuration was loaded.
    fn open(&mut self, generation: &Generation, files: &LogFiles) -> io::Result<()> {
        let mut targets = Vec::new();
        let Lines { buffers, .. } = self.lines.get_mut();
        for site in &generation.model.sites {
            let mut needs = Needs::default();
            let mut of_site = SiteLogs::new(site);
            // The route is a fact of dispatch.
            needs.walk |= !of_site.of_routes.is_empty();
            for log in &site.access_logs {
                let format = log
                    .parsed_format()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.message))?;
                needs = needs.and(format.needs());
                // A path is known without dispatch.
                needs.walk |= log.condition.as_ref().is_some_and(|condition| {
                    !matches!(
                        condition,
                        LogCondition::Paths { .. } | LogCondition::Matches { .. }
                    )
                });
                let buffer = match targets.iter().position(|target| *target == log.target) {
                    Some(at) => at,
                    None => {
                        let file = files.open(&log.target)?;
                        file.set_rotation(generation.model.rotation_of(&log.target));
                        buffers.push(LogBuffer::new(file));
                        targets.push(log.target.clone());
                        targets.len() - 1
                    }
                };
                let hosts = matches!(log.target, AccessLogTarget::ByHost(_))
                    .then(|| Rc::new(LoggedHosts::new(site, generation)));
                let path_note = match (&log.target, &log.condition) {
                    (AccessLogTarget::Below(_), Some(LogCondition::Decided(number))) => {
                        Some(log_path_note(*number))
                    }
                    _ => None,
                };
                of_site.logs.push(SiteLog {
                    format: Rc::new(format),
                    condition: log.condition.clone(),
                    mask: (!log.mask.is_empty()).then(|| Arc::clone(&log.mask)),
                    buffer,
                    hosts,
                    path_note,
                });
            }
            self.sites.push(of_site);
            self.needs.push(needs);
        }
        Ok(())
    }
}

impl SiteLogs {
    fn new(site: &Site) -> SiteLogs {
        let of_routes = || site.routes.iter().map(|route| route.access_logs.clone());
        let first = of_routes()
            .flatten()
            .flat_map(|places| places.first().copied());
        SiteLogs {
            logs: Vec::new(),
            first_of_routes: first.min().unwrap_or(site.access_logs.len()),
            of_routes: match of_routes().any(|places| places.is_some()) {
                true => of_routes().collect(),
                false => Vec::new(),
            },
        }
    }

    /// Iterates over the logs of requests that this route has answered.
    fn of_route(&self, route: Option<usize>) -> impl Iterator<Item = &SiteLog> {
        let own = route.and_then(|at| self.of_routes.get(at)?.as_deref());
        let of_site = own.is_none().then_some(0..self.first_of_routes);
        let places = own.into_iter().flatten().copied();
        of_site
            .into_iter()
            .flatten()
            .chain(places)
            .filter_map(|at| self.logs.get(at))
    }
}

impl Logger for AccessLogs {
    fn needs(&self, site: usize) -> Option<Needs> {
        let of_site = self.sites.get(site)?;
        (!of_site.logs.is_empty()).then(|| self.needs[site])
    }

    /// Writes a line to each log of the site or route whose condition holds.
    fn finished(&self, request: &FinishedRequest<'_>) {
        let Some(of_site) = self.sites.get(request.site) else {
            return;
        };
        let Lines { buffers, clock } = &mut *self.lines.borrow_mut();
        let route = request.facts.and_then(|facts| facts.route);
        for log in of_site
            .of_route(route)
            .filter(|log| holds(log.condition.as_ref(), request))
        {
            let path = match &log.path_note {
                None => None,
                Some(note) => {
                    let facts = request.facts;
                    let Some(path) = facts.and_then(|facts| facts.notes.first(note.as_bytes()))
                    else {
                        continue;
                    };
                    Some(String::from_utf8_lossy(path))
                }
            };
            let flushed = buffers[log.buffer].append(|line| {
                if let Some(path) = &path {
                    by_host::begin_line(path, line);
                }
                if let Some(hosts) = &log.hosts {
                    hosts.begin_line(asked_for(request.record), line);
                }
                match &log.mask {
                    Some(mask) => mask.apply(request.record, |record| {
                        log.format.write(record, clock, line);
                    }),
                    None => log.format.write(request.record, clock, line),
                }
            });
            count(&self.counters, flushed);
        }
    }

    fn flush(&self) {
        for buffer in &mut self.lines.borrow_mut().buffers {
            count(&self.counters, buffer.flush());
        }
    }
}

/// Requests that were not dispatched have no variables, and no rule suppresses their line.
fn holds(condition: Option<&LogCondition>, request: &FinishedRequest<'_>) -> bool {
    let log_facts = request.facts;
    match condition {
        None => true,
        Some(LogCondition::Paths { only, except }) => {
            LogCondition::logs_path(only, except, &requested_path(request.record))
        }
        Some(LogCondition::Matches {
            only,
            except,
            paths,
        }) => {
            holds(paths.as_deref(), request)
                && log_conditions::holds(only.as_ref(), except.as_ref(), request)
        }
        Some(LogCondition::Variable { name, is_set }) => {
            log_facts.is_some_and(|log_facts| log_facts.has_variable(name)) == *is_set
        }
        Some(LogCondition::Decided(number)) => log_facts
            .and_then(|log_facts| log_facts.rules.decisions.get(*number))
            .copied()
            .unwrap_or(true),
    }
}

fn count(counters: &Counters, flushed: Flushed) {
    if flushed.written + flushed.dropped > 0 {
        counters.add(Metric::LogLinesWritten, flushed.written);
        counters.add(Metric::LogLinesDropped, flushed.dropped);
    }
}
