//! What a worker has at hand for every request. One per worker and generation; never crosses
//! threads.

use crate::{
    Authorizer, Filter, Generation, GuardState, Handler, LocalFuture, NameServer, Rules,
    modsecurity::Offload, throttle::Neighbours,
};
use saker_files::BufferFiles;
use std::{rc::Rc, sync::Arc, time::Duration};

/// From a path to the key authorization that waits there.
pub type FindChallenge = dyn Fn(&[u8]) -> Option<String>;

pub struct Services {
    pub generation: Arc<Generation>,
    /// In the order in which they are asked.
    pub handlers: Rc<[Box<dyn Handler>]>,
    /// In the order in which they are applied.
    pub filters: Rc<[Box<dyn Filter>]>,
    /// Those of another front-end, for the sites that it brought.
    pub rules: Option<Rc<dyn Rules>>,
    /// Of the gateway, for `authorize`.
    pub authorizer: Option<Rc<dyn Authorizer>>,
    /// What guards of all cores know.
    pub guard: Arc<GuardState>,
    /// For robots that say who they are.
    pub names: Option<Box<dyn NameServer>>,
    /// Waits; the pipeline knows no runtime.
    pub sleep: fn(Duration) -> LocalFuture<'static, ()>,
    /// Does work on another thread.
    pub offload: Offload,
    /// What is kept on disk for slow clients.
    pub buffer_files: Arc<BufferFiles>,
    /// What clients have used up, and who is banned.
    pub neighbours: Arc<Neighbours>,
    /// Monotonic nanoseconds, for throttling.
    pub now_ns: fn() -> u64,
    /// What an authority that looks at this path (of [`CHALLENGES`](crate::phases::CHALLENGES)) is
    /// to find there now; `None`: what the site has.
    pub challenge: Box<FindChallenge>,
}
