//! One request and what has been found out about it. Goes down through the phases and comes back with the response.

use crate::{RequestBody, Reusable};
use saker_config::model::{Address, Origin, Settings, Site};
use saker_files::Stamp;
use saker_http::RequestHead;
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

/// Who asks, over what. One per connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's address, after a trusted PROXY preface. Unspecified (`0.0.0.0`) for a Unix socket.
    pub address: SocketAddr,
    /// The address that it connected to.
    pub local: SocketAddr,
    pub listener: Arc<Address>,
    /// TLS, or a trusted preface says so.
    pub secure: bool,
}

impl Client {
    pub fn ip(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }
}

/// One line of `saker explain`.
#[derive(Clone, Debug)]
pub struct TraceStep {
    pub phase: &'static str,
    pub text: String,
    /// What decided it.
    pub origin: Option<Origin>,
}

pub struct Exchange {
    pub client: Rc<Client>,
    pub head: RequestHead,
    pub body: Box<dyn RequestBody>,
    /// Host in canonical form, without port; empty where an HTTP/1.0 request had none.
    pub host: Vec<u8>,
    /// Path decoded and normalised; starts with `/`. Changed by internal redirects.
    pub path: Vec<u8>,
    /// Query as sent, without the question mark.
    pub query: Option<Vec<u8>>,
    pub site: Arc<Site>,
    /// The site's, or the matching route's.
    pub settings: Arc<Settings>,
    /// Index into `site.routes`.
    pub route: Option<usize>,
    /// Seconds since the epoch when the head was complete.
    pub now: i64,
    /// What the outcome depends on besides listener, host and path; see [`Exchange::depends_on_request`].
    pub stamps: Vec<Stamp>,
    pub request_dependent: bool,
    /// Left by the handler, see [`Reusable`].
    pub reusable: Option<Rc<dyn Reusable>>,
    /// Present when each step is to be recorded.
    pub trace: Option<Vec<TraceStep>>,
    /// Internal redirects so far (index files, error pages); bounded.
    pub redirects: u8,
}

impl Exchange {
    /// To be called by whatever looks at anything but listener, host and path (a field, the query, the client's address, the time) and
    /// lets the outcome depend on it: such an outcome is not kept.
    pub fn depends_on_request(&mut self) {
        self.request_dependent = true;
    }

    /// Records a step; `text` is only made when someone looks.
    pub fn trace(&mut self, phase: &'static str, origin: Option<&Origin>, text: impl FnOnce() -> String) {
        if let Some(steps) = &mut self.trace {
            steps.push(TraceStep { phase, text: text(), origin: origin.cloned() });
        }
    }
}
