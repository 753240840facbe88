//! A worker's side of the access logs: the logs of each site, and the lines gathered for each.
//!
//! Called by: the pipeline, as a logger, for each request of a site with logs.
//! Caveat: each worker gathers lines of its own; a batch of them is written with one lock.
//! Out of scope: collecting the facts of a line (`request::log`).

use crate::{log_files::LogFiles, logged_hosts::LoggedHosts};
use saker_config::model::{AccessLogTarget, LogCondition};
use saker_http::{
    HeadView, KnownField,
    path::{self, EncodedSlashes, Slashes},
};
use saker_pipeline::{FinishedRequest, Generation, Logger};
use saker_telemetry::{
    Counters, Metric,
    access_log::{Flushed, Format, LogBuffer, LogClock, Needs, Record},
    error_log, message,
};
use std::{cell::RefCell, io, rc::Rc, sync::Arc};

struct SiteLog {
    format: Rc<Format>,
    condition: Option<LogCondition>,
    /// Index into the buffers.
    buffer: usize,
    /// Set for logs with one file per host: the hosts that have one.
    hosts: Option<Rc<LoggedHosts>>,
}

/// The access logs of all sites of a generation.
pub struct AccessLogs {
    sites: Vec<Vec<SiteLog>>,
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
            let mut of_site: Vec<SiteLog> = Vec::new();
            for log in &site.access_logs {
                let format = log
                    .parsed_format()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.message))?;
                needs = needs.and(format.needs());
                // A path is known without dispatch.
                needs.walk |= log
                    .condition
                    .as_ref()
                    .is_some_and(|condition| !matches!(condition, LogCondition::Paths { .. }));
                let buffer = match targets.iter().position(|target| *target == log.target) {
                    Some(at) => at,
                    None => {
                        buffers.push(LogBuffer::new(files.open(&log.target)?));
                        targets.push(log.target.clone());
                        targets.len() - 1
                    }
                };
                let hosts = matches!(log.target, AccessLogTarget::ByHost(_))
                    .then(|| Rc::new(LoggedHosts::new(site, generation)));
                of_site.push(SiteLog {
                    format: Rc::new(format),
                    condition: log.condition.clone(),
                    buffer,
                    hosts,
                });
            }
            self.sites.push(of_site);
            self.needs.push(needs);
        }
        Ok(())
    }
}

impl Logger for AccessLogs {
    fn needs(&self, site: usize) -> Option<Needs> {
        let of_site = self.sites.get(site)?;
        (!of_site.is_empty()).then(|| self.needs[site])
    }

    /// Writes a line to each log of the site whose condition holds.
    fn finished(&self, request: &FinishedRequest<'_>) {
        let Some(of_site) = self.sites.get(request.site) else {
            return;
        };
        let Lines { buffers, clock } = &mut *self.lines.borrow_mut();
        for log in of_site
            .iter()
            .filter(|log| holds(log.condition.as_ref(), request))
        {
            let flushed = buffers[log.buffer].append(|line| {
                if let Some(hosts) = &log.hosts {
                    hosts.begin_line(asked_for(request.record), line);
                }
                log.format.write(request.record, clock, line);
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

/// The host, without its port, where dispatch has not set it.
fn asked_for<'r>(record: &Record<'r>) -> &'r [u8] {
    let field = || {
        record
            .head
            .and_then(|head| head.known(KnownField::Host))
            .unwrap_or_default()
    };
    let host = if record.host.is_empty() {
        field()
    } else {
        record.host
    };
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host.get(at) == Some(&b':') => host.get(..at).unwrap_or_default(),
        _ => host,
    }
}

/// The decoded path that the client requested, whatever internal redirects have made of it.
fn requested_path(record: &Record<'_>) -> Vec<u8> {
    let decoding = Slashes {
        encoded: EncodedSlashes::Decode,
        merge: true,
    };
    let mut decoded = Vec::new();
    let target = record.head.map(HeadView::target).unwrap_or_default();
    let end = target.iter().position(|byte| *byte == b'?');
    let raw = &target[..end.unwrap_or(target.len())];
    match path::normalise_with(raw, decoding, &mut decoded) {
        Ok(()) => decoded,
        Err(_) => record.path.to_vec(),
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
