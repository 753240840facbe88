//! The page cache: answers requests from stored responses, and stores responses of programs and
//! upstreams.
//!
//! Called by: the server's registry. [`LookupHandler`] runs before the gateway; [`StoreFilter`]
//! runs after the filters that change content and before compression. A hit that depends on nothing
//! but the request head is answered from then on without a full dispatch (`cached_route`). Upstream
//! requests with a key of the configuration have pages of their own (`keyed`). Caveat:
//! a key contains everything that led to a page, and an entry carries the purge sequence number at
//! which its making began, because purges may arrive while it is made. Out of scope: the caching
//! rules (`saker_cache_rules`) and the files (`saker_cache_store`).

mod announce;
pub mod background_fetch;
pub mod bans;
mod body_bytes;
mod cache;
mod cached_route;
mod changed_paths;
mod client_identity;
mod clock;
mod complete;
mod conditions;
mod decide;
mod early_hints;
mod encode;
pub mod endpoint;
mod error_fallback;
mod esi;
mod explain;
mod filter;
mod handler;
pub mod key;
pub mod keyed;
mod lookup;
mod memory_cache;
mod override_fields;
mod pacing;
mod page;
mod page_links;
mod partial;
mod pass_cause;
pub mod path_stats;
mod peer_access;
pub mod peers;
mod prepare;
mod purge;
mod query_content;
mod recent_pages;
pub mod record;
mod refetch;
mod refetch_queue;
mod refresh;
mod refusal;
mod repeat;
mod replay_request;
pub mod request;
mod result_fields;
mod search_variance;
mod settings;
pub mod shared_purges;
pub mod stats;
mod store_response;
mod storing_body;
pub mod tags;
pub mod url_tags;
pub mod warm;
mod write;

pub use cache::{PageCache, Share};
pub use explain::Explain;
pub use filter::StoreFilter;
pub use handler::LookupHandler;
pub use peer_access::PeerPages;
pub use repeat::RepeatingForwarder;
pub use result_fields::CacheResult;
