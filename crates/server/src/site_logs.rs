//! A worker's side of the access logs: which logs a site has, and the lines gathered for each.

use crate::log_files::LogFiles;
use saker_config::model::{Site, SiteName};
use saker_pipeline::Generation;
use saker_telemetry::{
    Counters, Metric,
    access_log::{Flushed, Format, LogBuffer, LogClock, Needs, Record},
};
use std::{io, rc::Rc};

struct SiteLog {
    format: Rc<Format>,
    /// Index into `buffers`.
    buffer: usize,
}

#[derive(Default)]
pub struct SiteLogs {
    sites: Vec<Vec<SiteLog>>,
    buffers: Vec<LogBuffer>,
    needs: Vec<Needs>,
    /// `%v` of each site: its first name that is one.
    names: Vec<Rc<str>>,
    clock: LogClock,
}

impl SiteLogs {
    /// Opens what the generation names. The formats were checked when the configuration was loaded.
    pub fn open(generation: &Generation, files: &LogFiles) -> io::Result<SiteLogs> {
        let mut logs = SiteLogs::default();
        let mut targets = Vec::new();
        for site in &generation.model.sites {
            let mut needs = Needs::default();
            let mut of_site = Vec::new();
            for log in &site.access_logs {
                let format = Format::parse(&log.format).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.message))?;
                join(&mut needs, format.needs());
                let buffer = match targets.iter().position(|target| *target == log.target) {
                    Some(at) => at,
                    None => {
                        logs.buffers.push(LogBuffer::new(files.open(&log.target)?));
                        targets.push(log.target.clone());
                        targets.len() - 1
                    }
                };
                of_site.push(SiteLog { format: Rc::new(format), buffer });
            }
            logs.names.push(name_of(site).into());
            logs.sites.push(of_site);
            logs.needs.push(needs);
        }
        Ok(logs)
    }

    /// What the site's formats look at; `None` where the site keeps no log.
    pub fn needs(&self, site: usize) -> Option<Needs> {
        self.sites.get(site).is_some_and(|logs| !logs.is_empty()).then(|| self.needs[site])
    }

    /// The site's name for records; empty where it has none.
    pub fn name(&self, site: usize) -> Rc<str> {
        self.names.get(site).map_or_else(|| Rc::from(""), Rc::clone)
    }

    pub fn write(&mut self, site: usize, record: &Record<'_>, counters: &Counters) {
        let Some(of_site) = self.sites.get(site) else { return };
        for log in of_site {
            let clock = &mut self.clock;
            let flushed = self.buffers[log.buffer].append(|line| log.format.write(record, clock, line));
            count(counters, flushed);
        }
    }

    pub fn flush(&mut self, counters: &Counters) {
        for buffer in &mut self.buffers {
            count(counters, buffer.flush());
        }
    }
}

/// Empty for a site that only answers what nobody else does.
fn name_of(site: &Site) -> &str {
    let exact = site.names.iter().find_map(|name| if let SiteName::Exact(text) = name { Some(text.as_str()) } else { None });
    let wildcard = || site.names.iter().find_map(|name| if let SiteName::Wildcard(text) = name { Some(text.as_str()) } else { None });
    exact.or_else(wildcard).unwrap_or_default()
}

fn count(counters: &Counters, flushed: Flushed) {
    if flushed.written + flushed.dropped > 0 {
        counters.add(Metric::LogLinesWritten, flushed.written);
        counters.add(Metric::LogLinesDropped, flushed.dropped);
    }
}

fn join(all: &mut Needs, more: Needs) {
    all.duration |= more.duration;
    all.first_byte |= more.first_byte;
    all.bytes_in |= more.bytes_in;
    all.bytes_out |= more.bytes_out;
    all.response_fields |= more.response_fields;
}
