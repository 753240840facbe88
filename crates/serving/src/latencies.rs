//! A worker's side of the histograms of latency.
//!
//! Called by: the pipeline, as a logger, for each request if `[metrics]` wants latencies.
//! Caveat: the route is a fact of dispatch, which cached routes keep.
//! Out of scope: the histograms (`saker_telemetry::latency`).

use saker_config::model::Route;
use saker_pipeline::{FinishedRequest, Generation, Logger};
use saker_telemetry::{
    access_log::Needs,
    latency::{Histogram, Latencies},
};
use std::{cell::RefCell, collections::HashMap, sync::Arc};

/// Longest name of a route: patterns may be long.
const NAME_BYTES_MAX: usize = 100;

/// Site and route, by their numbers.
type Place = (usize, Option<usize>);

/// Measures the latency of requests.
pub struct LatencyLogger {
    latencies: Arc<Latencies>,
    generation: Arc<Generation>,
    /// By site and route.
    known: RefCell<HashMap<Place, Arc<Histogram>>>,
}

impl LatencyLogger {
    pub fn new(latencies: &Arc<Latencies>, generation: &Arc<Generation>) -> LatencyLogger {
        LatencyLogger {
            latencies: Arc::clone(latencies),
            generation: Arc::clone(generation),
            known: RefCell::default(),
        }
    }

    fn histogram(&self, request: &FinishedRequest<'_>) -> Arc<Histogram> {
        let route = request.facts.and_then(|facts| facts.route);
        let mut known = self.known.borrow_mut();
        let make = || {
            let sites = &self.generation.model.sites;
            let site = sites.get(request.site);
            let route = route.and_then(|at| site?.routes.get(at));
            let site = match request.record.site_name {
                "" => "*",
                name => name,
            };
            let route = route.map_or_else(String::new, route_name);
            self.latencies.histogram(site, &route)
        };
        Arc::clone(known.entry((request.site, route)).or_insert_with(make))
    }
}

/// The name of a route, or the pattern of its path.
pub fn route_name(route: &Route) -> String {
    let mut name = match &route.name {
        Some(name) => name.to_string(),
        None => route.pattern.to_string(),
    };
    if name.len() > NAME_BYTES_MAX {
        let mut end = NAME_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}

impl Logger for LatencyLogger {
    fn needs(&self, _: usize) -> Option<Needs> {
        Some(Needs {
            duration: true,
            walk: true,
            ..Needs::default()
        })
    }

    fn finished(&self, request: &FinishedRequest<'_>) {
        if let Some(us) = request.record.duration_us {
            self.histogram(request).observe(us);
        }
    }
}
