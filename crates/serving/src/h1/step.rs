//! Steps of an HTTP/1 connection: the response being sent, and the next step.
//!
//! Called by: everything in this module; the types own the data of their state.

use super::{outgoing::Outgoing, request_body::BodyState};
use crate::{
    h2::Beginning,
    request::{Busy, Cause, Pace, Pending, Session},
};
use saker_http::{RequestHead, Status};
use saker_http1::BodyFraming;
use saker_pipeline::{Body, ClientAbort, Decision, Tunnel};
use saker_rate_limits::Admission;
use saker_telemetry::access_log::ConnectionStatus;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// A request to dispatch.
pub struct DispatchRequest {
    pub head: RequestHead,
    pub framing: BodyFraming,
    /// The connection may serve another request as far as limits go.
    pub may_stay: bool,
    /// The status that its head was refused with; the head is a stand-in then.
    pub refused: Option<Status>,
    /// The decision of throttling, if it has been made.
    pub admission: Option<Admission>,
    /// The outcome of the phases, if the route cache knows it.
    pub decision: Option<Rc<Decision>>,
}

/// The next step after a response.
pub enum Then {
    Continue,
    Dispatch(Box<DispatchRequest>),
    Http2(Beginning),
    Tunnel(Box<TunnelStart>),
    Close(Cause),
}

/// Clients that leave while the source of a response is waited for.
pub enum AbortWatch {
    /// Seen when the response goes on.
    Never,
    /// The end of their stream ends the response.
    Always,
    /// The same, while a part of the response says so.
    Shared(Rc<Cell<ClientAbort>>),
}

impl AbortWatch {
    pub fn ends_with_stream(&self) -> bool {
        match self {
            AbortWatch::Never => false,
            AbortWatch::Always => true,
            AbortWatch::Shared(abort) => abort.get() == ClientAbort::EndOfStream,
        }
    }
}

/// Content of a request that is received while the response to it is sent.
pub struct Incoming {
    state: Rc<RefCell<BodyState>>,
    seen_bytes: u64,
}

impl Incoming {
    pub fn new(state: &Rc<RefCell<BodyState>>) -> Incoming {
        Incoming {
            state: Rc::clone(state),
            seen_bytes: state.borrow().received(),
        }
    }

    /// True if any has come since the last call.
    pub fn has_come(&mut self) -> bool {
        let bytes = self.state.borrow().received();
        std::mem::replace(&mut self.seen_bytes, bytes) < bytes
    }

    /// Records for the log what has come since the response began.
    pub fn note(&self, log: &Pending) {
        let mut state = self.state.borrow_mut();
        log.received(state.received());
        if let Some(trailers) = state.take_trailers_to_log() {
            log.request_trailers(Some(trailers));
        }
    }
}

/// A response being sent, and the next step.
pub struct Sending {
    pub outgoing: Outgoing,
    pub then: Then,
    pub log: Option<Pending>,
    pub pace: Option<Box<Pace>>,
    /// Tells whether the end of the client's stream ends the response where its source is waited
    /// for.
    pub abort: AbortWatch,
    /// Content of the request that may still be told while the response goes out.
    pub incoming: Option<Incoming>,
    /// Set where the request was not dispatched.
    pub _busy: Option<Busy>,
}

impl Sending {
    pub fn bytes(bytes: Vec<u8>, then: Then) -> Box<Sending> {
        Box::new(Sending {
            outgoing: Outgoing::new(bytes, Body::Empty, false),
            then,
            log: None,
            pace: None,
            abort: AbortWatch::Never,
            incoming: None,
            _busy: None,
        })
    }

    /// Writes the line of a response that will not be sent further.
    pub fn log_cut(&self, session: &Session) {
        if let Some(log) = &self.log {
            log.write(
                session,
                self.outgoing.body_bytes(),
                self.outgoing.bytes(),
                ConnectionStatus::Aborted,
            );
        }
    }
}

/// Result of a turn.
pub enum Step {
    Dispatch(Box<DispatchRequest>),
    /// The client switches to HTTP/2.
    Http2(Beginning),
    /// The client switches to a protocol that only it and the other end know.
    Tunnel(Box<TunnelStart>),
    Close(Cause),
    /// The connection waits without a task, until a time.
    Idle(u64),
}

impl From<Step> for Then {
    fn from(step: Step) -> Then {
        match step {
            Step::Dispatch(request) => Then::Dispatch(request),
            Step::Http2(beginning) => Then::Http2(beginning),
            Step::Tunnel(beginning) => Then::Tunnel(beginning),
            Step::Close(cause) => Then::Close(cause),
            Step::Idle(_) => Then::Continue,
        }
    }
}

/// The tunnel that follows a head with 101.
pub struct TunnelStart {
    pub program: Box<dyn Tunnel>,
    pub log: Option<Pending>,
    /// Length of the head.
    pub bytes: u64,
    /// The tunnel counts as a request in progress.
    pub _busy: Option<Busy>,
}
