//! Parts that a worker's services are made from.
//!
//! Called by: `worker`, at its start and after each reload; `saker explain`, for a request that is
//! never sent.
//! Caveat: the list of handlers, filters, and loggers (the registry) stands above this crate, so the program
//! hands it in as a [`MakeServices`].
//! Out of scope: the services themselves, which are the pipeline's.

use crate::log_files::LogFiles;
use saker_abuse::{ClientLimits, SharedAbuseState};
use saker_acme::Challenges;
use saker_apache::status::Figures;
use saker_content::dictionary::DictionaryStore;
use saker_files::Watcher;
use saker_gateway::Gateway;
use saker_live::tail::Tail;
use saker_page_cache::Share;
use saker_pipeline::{Generation, Services};
use saker_stream_proxy::StreamRules;
use saker_telemetry::{Counters, latency::Latencies, trace::TraceQueue};
use std::{rc::Rc, sync::Arc};

/// Makes services from their parts.
pub type MakeServices = fn(ServiceParts<'_>) -> Rc<Services>;

/// Makes the rules of a generation's streams; `None`: it has no streams.
pub type MakeStreamRules = fn(&Arc<Generation>) -> Option<Rc<dyn StreamRules>>;

/// Everything that services are made from.
pub struct ServiceParts<'a> {
    pub generation: Arc<Generation>,
    pub common: CommonParts<'a>,
    pub gateway: Gateway,
    pub figures: Rc<dyn Figures>,
    pub counters: Arc<Counters>,
    pub cache: CacheAccess,
    /// Spans that wait for the exporter.
    pub traces: &'a Arc<TraceQueue>,
    /// Histograms of latency.
    pub latencies: &'a Arc<Latencies>,
    /// Requests that operators watch.
    pub tail: &'a Arc<Tail>,
    /// Files of the logs; `None`: requests are not logged.
    pub log_files: Option<&'a LogFiles>,
}

/// Parts that all workers share.
#[derive(Clone, Copy)]
pub struct CommonParts<'a> {
    pub watcher: &'a Watcher,
    pub challenges: &'a Arc<Challenges>,
    pub guard: &'a Arc<SharedAbuseState>,
    pub neighbours: &'a Arc<ClientLimits>,
    pub dictionaries: &'a Arc<DictionaryStore>,
}

/// A worker's access to the page cache.
pub enum CacheAccess {
    /// No page cache.
    None,
    /// A worker's share of it.
    Share(Share),
    /// The request is only explained: nothing is looked up, and the trace shows the lookup that
    /// would happen.
    Explain,
}
