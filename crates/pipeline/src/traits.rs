//! Roles of features in the processing of a request.
//!
//! Called by: the content phase (handlers, the gateway), `respond` (filters), and the native rules
//! (the authorizer).
//! Caveat: a role never signals through side effects; its result is its return value.
//! Out of scope: rules of front ends (`rules`), abuse control (`abuse`), inspection (`inspector`),
//! loggers (`logger`), cached routes (`cached_route`).

use crate::{Exchange, Granted, LocalFuture, Response, UpstreamRequest};
use saker_config::model::{Authorize, Upstream};
use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// The result of a handler.
pub enum Handled {
    Answered(Response),
    /// The handler does not apply; the next one is tried.
    Declined,
    /// An upstream answers. The content phase tries the page cache first, then the gateway.
    Forward(Box<UpstreamRequest>),
    /// The path or query of the exchange has changed; phases restart after `select_host`.
    Restart,
}

impl Handled {
    /// Returns the future of a handler that has finished. [`Handled::Declined`] does not allocate.
    pub fn ready<'a>(self) -> LocalFuture<'a, Handled> {
        struct Declines;
        impl Future for Declines {
            type Output = Handled;

            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Handled> {
                Poll::Ready(Handled::Declined)
            }
        }
        match self {
            Handled::Declined => Box::pin(Declines),
            handled => Box::pin(std::future::ready(handled)),
        }
    }
}

/// Answers requests. Handlers are called in the content phase, in the order of the registry, until
/// one does not decline. A handler may read the request body; once it returns, the response body
/// belongs to the driver.
pub trait Handler {
    /// For traces and the log.
    fn name(&self) -> &'static str;

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled>;

    /// Drops expired state. Called once a second; `now_ms` is monotonic.
    fn tick(&self, _now_ms: u64) {}
}

impl<T: Handler + ?Sized> Handler for Rc<T> {
    fn name(&self) -> &'static str {
        T::name(self)
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        T::handle(self, exchange)
    }

    fn tick(&self, now_ms: u64) {
        T::tick(self, now_ms);
    }
}

/// Carries out upstream requests from rules and handlers.
pub trait Forwarder {
    /// For traces and the log.
    fn name(&self) -> &'static str;

    /// Returns the upstream request of the site's own routes. Not called if rules have chosen one.
    fn route(&self, exchange: &mut Exchange) -> Option<Box<UpstreamRequest>>;

    /// Returns [`Handled::Declined`] if the program has delegated its response to a file
    /// ([`UpstreamState::internal_redirect`](crate::UpstreamState::internal_redirect)), which the
    /// file handlers then serve; never [`Handled::Forward`].
    fn forward<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        request: Box<UpstreamRequest>,
    ) -> LocalFuture<'a, Handled>;

    /// Same as [`Handler::tick`].
    fn tick(&self, _now_ms: u64) {}
}

/// Queries an authorization server. If the server is unavailable, the request is denied.
pub trait Authorizer {
    fn ask(&self, exchange: &Exchange, wanted: &Arc<Authorize>)
    -> LocalFuture<'static, Permission>;
}

/// The decision of an authorization server.
pub enum Permission {
    Granted(Granted),
    /// The response goes to the client.
    Refused(Response),
}

/// Fetches documents that rules need: keys of token issuers, answers of identity providers.
pub trait Fetcher {
    /// Sends a request of the server's own. `exchange` is the request that needs it; nothing of its
    /// content and fields is sent. The error says why there is no answer.
    fn fetch(
        &self,
        exchange: &Exchange,
        from: &Arc<Upstream>,
        request: FetchRequest,
    ) -> LocalFuture<'static, Result<FetchedDocument, String>>;
}

/// A request of a [`Fetcher`].
#[derive(Clone, Debug, Default)]
pub struct FetchRequest {
    /// Path and query.
    pub target: String,
    pub fields: Vec<(&'static str, String)>,
    /// Media type and content of a POST; `None`: GET.
    pub content: Option<(&'static str, Vec<u8>)>,
    /// Longer answers are errors.
    pub bytes_max: usize,
}

/// The answer to a [`FetchRequest`]. Redirects are not followed.
#[derive(Clone, Debug, Default)]
pub struct FetchedDocument {
    pub status: u16,
    pub content: Vec<u8>,
}

/// Modifies a response. Called in the order of the registry for every built head, and for ready
/// heads on request. The filter owns the body while it runs.
pub trait Filter {
    fn name(&self) -> &'static str;

    /// Returns true if the filter also applies to a ready head of this exchange.
    fn takes_ready(&self, _: &Exchange) -> bool {
        false
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()>;
}

impl<T: Filter + ?Sized> Filter for Rc<T> {
    fn name(&self) -> &'static str {
        T::name(self)
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        T::takes_ready(self, exchange)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        T::apply(self, exchange, response)
    }
}

/// Page cache support for error documents, which are internal requests.
pub trait ErrorDocumentCache {
    /// Passes the include depth on to `page`, the request for the error document of `exchange`.
    /// Called before it enters the phases.
    fn begin(&self, exchange: &mut Exchange, page: &mut Exchange);

    /// Stores the response of `page`. Called before the fields of the error are merged into it.
    fn keep<'a>(
        &'a self,
        page: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()>;
}
