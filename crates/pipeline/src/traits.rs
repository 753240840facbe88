//! What a feature implements to take part in the life of a request.

use crate::{Exchange, Response};
use saker_config::model::Authorize;
use saker_http::HeadView;
use std::{any::Any, future::Future, pin::Pin, rc::Rc, sync::Arc};

/// A future that stays on its worker.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a handler made of a request.
pub enum Handled {
    Answered(Response),
    /// Not mine: the next handler is asked.
    Declined,
    /// The path (or query) of the exchange has been changed: begin again behind the choice of the
    /// host.
    Restart,
}

/// Answers requests. Called in the content phase, in the registry's order, until one answers. The
/// handler may read the exchange's body; the response's body is the driver's once it is returned.
pub trait Handler {
    /// For traces and the log.
    fn name(&self) -> &'static str;

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled>;

    /// Once a second: what has been kept too long is let go. `now_ms` is monotonic.
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

/// Asks somebody else whether a request may pass. Whoever can't be asked lets nothing pass.
pub trait Authorizer {
    fn ask(&self, exchange: &Exchange, wanted: &Arc<Authorize>)
    -> LocalFuture<'static, Permission>;
}

pub enum Permission {
    Granted(Granted),
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

/// Changes a response on its way up. Called for every built head, and for ready ones where it asks
/// for that, in the registry's order.
pub trait Filter {
    fn name(&self) -> &'static str;

    /// Whether it wants this exchange's response even where its head is ready.
    fn takes_ready(&self, _: &Exchange) -> bool {
        false
    }

    /// Whether what it does belongs to the content, wherever that goes: then it is applied to what
    /// pages include, too.
    fn changes_content(&self) -> bool {
        false
    }

    /// Whether it has to see a page that stands in for an error as the program said it, before the
    /// error's own fields are laid over it.
    fn sees_stand_ins(&self) -> bool {
        false
    }

    /// What the request for such a page brings along of the one that went wrong
    /// (`Exchange::page_cache`).
    fn left_to_stand_in(&self, _: &mut Exchange) -> Option<Box<dyn Any>> {
        None
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()>;
}

/// The outcome of a walk that can answer further requests for the same listener, host and path
/// without another walk. A handler leaves one in [`Exchange::reusable`]; the pipeline keeps it as
/// long as everything the walk depended on holds.
pub trait Reusable {
    /// Answers a GET or HEAD at once: no waiting, no file system call. `None`: this one has to walk
    /// (say, because a variant is not made yet). `now` is in seconds since the epoch. The driver
    /// leaves the body out for HEAD.
    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response>;

    /// Bytes of memory that it holds, for the bound on all of them; may grow between calls.
    fn memory_bytes(&self) -> usize;

    /// Open files that it holds; bounded likewise.
    fn descriptors(&self) -> usize {
        0
    }
}
