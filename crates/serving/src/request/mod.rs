//! Everything that serving a request takes, whatever the protocol: the session and its limits, the
//! fast path, the response head, the access log.
//!
//! Called by: every driver. A driver owns bytes, frames and order.
//! Out of scope: dispatch, which is the pipeline's.

mod body_time;
mod busy;
mod by_seconds;
mod cause;
pub mod client_lines;
mod comparison;
mod fast_path;
mod held_policy;
mod limits;
pub mod log;
mod outcome;
mod pace;
pub mod rejected;
pub mod response_head;
mod session;

pub use body_time::BodyTime;
pub use busy::Busy;
pub use cause::Cause;
pub use comparison::Sampled;
pub use fast_path::{FastPath, Hit, look_up};
pub use limits::{multiplexed_limits, request_limits};
pub use log::{CLIENT_CLOSED_REQUEST, Facts, Pending, log_facts};
pub use outcome::{refusal, remember, status_of, without_query};
pub use pace::{Accounts, Direction, Pace};
pub use session::{Begun, Http2Terms, Session, Throttled};
