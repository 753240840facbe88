//! Requests in progress: counted, timed, and listed for the status page where it is enabled.
//!
//! Called by: the drivers, for each request that is not answered within its turn.

use super::session::Session;
use crate::{shared::OpenRequest, worker::Worker};
use saker_config::model::ShownRequests;
use saker_http::{HeadView, KnownField, Version};
use saker_telemetry::Metric;
use std::rc::Rc;

/// Held while a request is answered.
pub struct Busy {
    worker: Rc<Worker>,
    /// Slot in the list of running requests.
    slot: Option<usize>,
    began_ns: u64,
}

/// Maximum length of a shown first line (core, SeeRequestTail).
const SHOWN_BYTES: usize = 63;

impl Busy {
    pub fn begin(session: &Session, view: HeadView<'_>) -> Busy {
        let (worker, began_ns) = (Rc::clone(&session.worker), saker_net::clock::monotonic_ns());
        worker.counters.add(Metric::RequestsOpen, 1);
        let shown = worker
            .services
            .borrow()
            .generation
            .model
            .server
            .shown_requests;
        let slot = (shown != ShownRequests::None).then(|| {
            worker
                .shared
                .open_requests
                .enter(worker.index, open(session, view, shown, began_ns))
        });
        Busy {
            worker,
            slot,
            began_ns,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let worker = &self.worker;
        worker.counters.subtract(Metric::RequestsOpen, 1);
        worker.counters.add(
            Metric::RequestMicroseconds,
            saker_net::clock::monotonic_ns().saturating_sub(self.began_ns) / 1000,
        );
        if let Some(slot) = self.slot {
            worker.shared.open_requests.leave(worker.index, slot);
        }
    }
}

fn open(session: &Session, view: HeadView<'_>, shown: ShownRequests, began_ns: u64) -> OpenRequest {
    let line = view.start_line();
    let at = match shown {
        ShownRequests::Ends => line.len().saturating_sub(SHOWN_BYTES)..line.len(),
        _ => 0..line.len().min(SHOWN_BYTES),
    };
    let host = view.known(KnownField::Host).unwrap_or_default();
    OpenRequest {
        client: session.client.text().into(),
        host: host.get(..SHOWN_BYTES).unwrap_or(host).into(),
        request: line.get(at).unwrap_or_default().into(),
        protocol: match view.version() {
            Version::Http3 => "h3",
            Version::Http2 => "h2",
            Version::Http10 | Version::Http11 => "http/1.1",
        },
        began_ns,
    }
}
