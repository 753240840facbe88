//! The roles that a feature can take in the life of a request.
//!
//! Called by: the content phase (handlers, the gateway), `respond` (filters), the rules of
//! saker.toml (the authorizer) and workers (kept outcomes).
//! Caveat: a role never signals through side effects; what it has to say is in its return value.
//! Out of scope: rules of front ends (`rules`), abuse control (`abuse`), inspection (`inspection`).

use crate::{Call, Exchange, Response};
use saker_config::model::Authorize;
use saker_http::HeadView;
use std::{future::Future, pin::Pin, rc::Rc, sync::Arc};

/// A future that stays on its worker.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a handler made of a request.
pub enum Handled {
    Answered(Response),
    /// Nothing happened: the next handler is asked.
    Declined,
    /// An upstream answers. The content phase asks the page cache for its response first, and the
    /// gateway then.
    Forward(Box<Call>),
    /// The path (or query) of the exchange has changed: begin again behind the choice of the host.
    Restart,
}

/// Answers requests. Called in the content phase, in the registry's order, until one does not
/// decline. The handler may read the exchange's body; the response's body is the driver's once it
/// is returned.
pub trait Handler {
    /// For traces and the log.
    fn name(&self) -> &'static str;

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled>;

    /// Called once a second, to drop what has been kept too long. `now_ms` is monotonic.
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

/// Carries out upstream requests, whoever has chosen them.
pub trait Forwarder {
    /// For traces and the log.
    fn name(&self) -> &'static str;

    /// Returns the upstream request of the site's own routes. Not asked where rules have chosen one.
    fn route(&self, exchange: &mut Exchange) -> Option<Box<Call>>;

    /// Returns [`Handled::Declined`] where the program has left its response to a file
    /// ([`Exchange::handed`]), which the handlers of files then serve; never [`Handled::Forward`].
    fn forward<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        request: Box<Call>,
    ) -> LocalFuture<'a, Handled>;

    /// As [`Handler::tick`].
    fn tick(&self, _now_ms: u64) {}
}

/// Asks an authorization server whether a request may pass. If it can't be asked, nothing passes.
pub trait Authorizer {
    fn ask(&self, exchange: &Exchange, wanted: &Arc<Authorize>)
    -> LocalFuture<'static, Permission>;
}

/// The answer of an authorization server.
pub enum Permission {
    Granted(Granted),
    /// The response goes to the client.
    Refused(Response),
}

/// What came along with a permission.
#[derive(Debug, Default)]
pub struct Granted {
    /// Those of the answer that the configuration names.
    pub fields: Vec<(Box<str>, Vec<u8>)>,
    /// For programs and logs.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Alters a response on its way up. Called for every built head, and for ready ones where it asks
/// for that, in the registry's order. It owns the body while it runs.
pub trait Filter {
    fn name(&self) -> &'static str;

    /// It wants this exchange's response even where its head is ready.
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

/// The page cache's part in error documents, which are requests of their own.
pub trait ErrorDocumentCache {
    /// Called before `page` enters the phases as the error document of `exchange`: hands over how
    /// deep it is nested in pages.
    fn begin(&self, exchange: &mut Exchange, page: &mut Exchange);

    /// Called with the response of `page` as it was made, before the error's own fields are laid
    /// over it.
    fn keep<'a>(
        &'a self,
        page: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()>;
}

/// The outcome of the phases that can answer further requests for the same listener, host and path
/// without running them again. A handler leaves one in [`Exchange::reusable`]; the pipeline keeps
/// it as long as everything that it depends on holds.
pub trait Reusable {
    /// Answers a GET or HEAD at once: no waiting, no file system call. `None`: this request has to
    /// go through the phases (for example because a variant is not made yet). `now` is in seconds
    /// since the epoch. The driver leaves the body out for HEAD.
    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response>;

    /// Bytes of memory that it holds, for the bound on all of them; may grow between calls.
    fn memory_bytes(&self) -> usize;

    /// Open files that it holds; bounded likewise.
    fn descriptors(&self) -> usize {
        0
    }
}
