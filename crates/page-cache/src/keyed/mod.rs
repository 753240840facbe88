//! Pages under keys that the configuration makes (nginx's `proxy_cache` and its kin).
//!
//! The rules of a front end leave a [`CachePlan`] next to the upstream request. [`KeyedForwarder`]
//! stands around the gateway: it looks up the page (`look_up`), asks the upstream (`fetch`), stores
//! the response as the upstream sent it (`store`), and makes the client's response (`answer`). Store,
//! memory, and locks are those of all pages.
//!
//! Called by: the registry of the server, and front ends.
//! Caveat: the key is the operator's; requests that make the same one get the same page. A key is bound
//! to its zone, and to the request fields that a response names in `Vary`.
//! Out of scope: lifetimes and what must not be stored (`saker_cache_rules::keyed`).

mod answer;
mod entry;
mod fetch;
mod forwarder;
mod look_up;
mod part;
mod plan;
mod store;
mod update;

pub use forwarder::KeyedForwarder;
pub use plan::{CachePlan, CacheZone, CachedAge, KeyedResult, StoreJudge};
