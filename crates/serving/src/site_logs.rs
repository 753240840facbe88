//! A worker's side of the access logs: the logs of each site, and the lines gathered for each.
//!
//! Called by: `request::log`, for each line; `worker_thread`, which flushes once a second.

use crate::{log_files::LogFiles, logged_hosts::LoggedHosts};
use saker_config::model::{AccessLogTarget, CanonicalPort, LogCondition, Site, SiteName};
use saker_http::{
    HeadView, KnownField,
    path::{self, EncodedSlashes, Slashes},
};
use saker_pipeline::{Generation, LogFacts};
use saker_telemetry::{
    Counters, Metric,
    access_log::{Flushed, Format, LogBuffer, LogClock, Needs, Record},
    forensic_log::ForensicLog,
};
use std::{io, rc::Rc, sync::Arc};

struct SiteLog {
    format: Rc<Format>,
    condition: Option<LogCondition>,
    /// Index into `buffers`.
    buffer: usize,
    /// Set for logs with one file per host: the hosts that have one.
    hosts: Option<Rc<LoggedHosts>>,
}

#[derive(Default)]
pub struct SiteLogs {
    sites: Vec<Vec<SiteLog>>,
    buffers: Vec<LogBuffer>,
    needs: Vec<Needs>,
    forensic: Vec<Option<Arc<ForensicLog>>>,
    /// `%v` of each site: its first name that is one.
    names: Vec<Rc<str>>,
    ports: Vec<CanonicalPort>,
    clock: LogClock,
}

impl SiteLogs {
    /// Opens the logs of the generation. The formats were checked when the configuration was
    /// loaded.
    pub fn open(generation: &Generation, files: &LogFiles) -> io::Result<SiteLogs> {
        let mut logs = SiteLogs::default();
        let mut targets = Vec::new();
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
                        logs.buffers.push(LogBuffer::new(files.open(&log.target)?));
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
            // Its conditions use facts of dispatch.
            needs.walk |= site.forensic_log.is_some();
            logs.forensic.push(site.forensic_log.clone());
            logs.names.push(name_of(site).into());
            logs.ports.push(site.canonical_port);
            logs.sites.push(of_site);
            logs.needs.push(needs);
        }
        Ok(logs)
    }

    /// Facts that the site's formats need; `None` if the site keeps no log.
    pub fn needs(&self, site: usize) -> Option<Needs> {
        let is_kept = |logs: &Vec<SiteLog>| {
            !logs.is_empty() || self.forensic.get(site).is_some_and(Option::is_some)
        };
        self.sites
            .get(site)
            .is_some_and(is_kept)
            .then(|| self.needs[site])
    }

    /// The site's name for records; empty where it has none.
    pub fn name(&self, site: usize) -> Rc<str> {
        self.names.get(site).map_or_else(|| Rc::from(""), Rc::clone)
    }

    /// Returns whether a log of the site needs facts of dispatch.
    pub fn wants_log_facts(&self, site: usize) -> bool {
        self.needs(site).is_some_and(Needs::walk_facts)
    }

    /// The port of the site's canonical name, if it differs from the connection's.
    pub fn port(&self, site: usize, is_secure: bool) -> Option<u16> {
        match self.ports.get(site)? {
            CanonicalPort::Local => None,
            CanonicalPort::Scheme => Some(if is_secure { 443 } else { 80 }),
            CanonicalPort::Named(port) => Some(*port),
        }
    }

    /// Writes a line to each log of the site whose condition holds; `log_facts` is set if the
    /// request was dispatched and a log needs them.
    pub fn write(
        &mut self,
        site: usize,
        record: &Record<'_>,
        log_facts: Option<&LogFacts>,
        counters: &Counters,
    ) {
        let Some(of_site) = self.sites.get(site) else {
            return;
        };
        if let Some(Some(log)) = self.forensic.get(site)
            && let Some(id) = log_facts.and_then(|log_facts| log_facts.notes.first(b"forensic-id"))
        {
            log.end(id);
        }
        for log in of_site
            .iter()
            .filter(|log| holds(log.condition.as_ref(), record, log_facts))
        {
            let clock = &mut self.clock;
            let flushed = self.buffers[log.buffer].append(|line| {
                if let Some(hosts) = &log.hosts {
                    hosts.begin_line(asked_for(record), line);
                }
                log.format.write(record, clock, line);
            });
            count(counters, flushed);
        }
    }

    pub fn flush(&mut self, counters: &Counters) {
        for buffer in &mut self.buffers {
            count(counters, buffer.flush());
        }
    }
}

/// Name of a site; empty without names of its own.
fn name_of(site: &Site) -> &str {
    if let Some(name) = &site.canonical_name {
        return name;
    }
    let exact = site.names.iter().find_map(|name| {
        if let SiteName::Exact(text) = name {
            Some(text.as_str())
        } else {
            None
        }
    });
    let wildcard = || {
        site.names.iter().find_map(|name| {
            if let SiteName::Wildcard(text) = name {
                Some(text.as_str())
            } else {
                None
            }
        })
    };
    exact.or_else(wildcard).unwrap_or_default()
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
fn holds(
    condition: Option<&LogCondition>,
    record: &Record<'_>,
    log_facts: Option<&LogFacts>,
) -> bool {
    match condition {
        None => true,
        Some(LogCondition::Paths { only, except }) => {
            LogCondition::logs_path(only, except, &requested_path(record))
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
