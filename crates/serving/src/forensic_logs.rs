//! The second line of a request in the forensic log of its site.
//!
//! Called by: the pipeline, as a logger, for each request of a site with a forensic log.
//! Caveat: the first line is written before rules see the request, so the line is missing if the
//! server ends in between; that is the purpose of the log.
//! Out of scope: the first line (the rules of the front end).

use saker_pipeline::{FinishedRequest, Generation, Logger};
use saker_telemetry::{access_log::Needs, forensic_log::ForensicLog};
use std::sync::Arc;

/// The note with the id of a request whose first line has been written.
const ID: &[u8] = b"forensic-id";

/// The forensic logs of all sites of a generation.
pub struct ForensicLogs {
    sites: Vec<Option<Arc<ForensicLog>>>,
}

impl ForensicLogs {
    pub fn new(generation: &Generation) -> ForensicLogs {
        let sites = generation.model.sites.iter();
        ForensicLogs {
            sites: sites.map(|site| site.forensic_log.clone()).collect(),
        }
    }
}

impl Logger for ForensicLogs {
    fn needs(&self, site: usize) -> Option<Needs> {
        self.sites.get(site)?.as_ref()?;
        // The id is a note of dispatch.
        Some(Needs {
            walk: true,
            ..Needs::default()
        })
    }

    fn finished(&self, request: &FinishedRequest<'_>) {
        let id = request.facts.and_then(|facts| facts.notes.first(ID));
        if let (Some(Some(log)), Some(id)) = (self.sites.get(request.site), id) {
            log.end(id);
        }
    }
}
