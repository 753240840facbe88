//! Who may have what: referrers, signed URLs, passes, and the bounded memories behind them.
//!
//! Floor 3: pure functions over what a request says, a configuration and the time; what cores share is in [`Remembered`]. The pipeline's
//! guards ask here and turn the answers into responses.
//! Absent on purpose: responses, cookies as fields, clocks, sockets.

pub mod mac;
pub mod pass;
pub mod referrer;
pub mod remembered;
pub mod signed;

pub use pass::KeyRing;
pub use remembered::{Remembered, Who};
