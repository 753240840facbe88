//! HTTP caching (RFC 9111) for a shared cache, one file per subject.
//!
//! Called by: the page cache, on look-up (may this entry answer this request?) and before storing
//! (may this response be stored, and for how long?).
//! Caveat: defaults are safe for applications that know nothing of shared caches, and stricter than
//! the standard.
//! Out of scope: LSCache ([`crate::lscache`]).

pub mod cache_status;
pub mod control;
pub mod fields;
pub mod freshness;
pub mod groups;
pub mod invalidation;
pub mod judge;
pub mod life;
pub mod no_vary_search;
pub mod parts;
pub mod pass;
pub mod personal;
pub mod preload_links;
pub mod reuse;
pub mod settings;
pub mod structured;
pub mod tags;
pub mod targeted;
pub mod validation;
pub mod vary;

pub use cache_status::{CacheStatus, Forward};
pub use judge::judge_response;
pub use life::Life;
pub use no_vary_search::SearchVariance;
pub use pass::Pass;
pub use reuse::{Use, age_s, judge_use, may_serve_after_error};
pub use settings::{ClientControl, RuleSettings, is_query};
pub use vary::Vary;
