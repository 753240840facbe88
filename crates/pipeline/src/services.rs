//! What a worker has at hand for every request. One per worker and generation; never crosses threads.

use crate::{Filter, Generation, Handler, LocalFuture};
use std::{rc::Rc, sync::Arc, time::Duration};

pub struct Services {
    pub generation: Arc<Generation>,
    /// In the order in which they are asked.
    pub handlers: Rc<[Box<dyn Handler>]>,
    /// In the order in which they are applied.
    pub filters: Rc<[Box<dyn Filter>]>,
    /// Waits; the pipeline knows no runtime.
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    /// Monotonic nanoseconds, for throttling.
    pub now_ns: fn() -> u64,
}
