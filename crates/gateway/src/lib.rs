//! The gateway: requests that programs and other servers answer.
//!
//! Floor 5, a handler. What rules left in [`Exchange::call`](saker_pipeline::Exchange::call) is
//! carried out here: a member of the upstream is chosen (`choice`), a connection taken or made
//! (`pool`, `connect`) or a program started (`programs`), the request told and the answer heard
//! (`connection_exchange`, with a codec per protocol; `http2`, where requests share a connection), and the
//! answer made a response (`answer`) that is as far ahead of a slow client as it may be (`spool`),
//! so that the program is free again. The difficulty is everything that a program can do wrong at
//! any moment, and that nothing of it may cost more than its request: each wait has a limit, each
//! buffer a bound, each failure a reason (`failure`) that says whether another member may be asked.
//!
//! Absent on purpose: what the protocols look like (crates `cgi`, `http1`); which requests are for
//! the gateway (the rules' business).

mod accel_redirect;
mod answer;
mod authorize;
mod balancer;
mod balancer_variables;
mod bodies;
mod cgi;
mod codecs;
mod connect;
mod connect_dialogue;
mod connection_exchange;
mod exchange_context;
mod failure;
mod fetch;
mod field_names;
mod forward;
mod gateway;
mod groups;
mod hash;
mod health;
mod hints;
mod http1_dialogue;
mod http2;
mod input;
mod log_lines;
mod mirror;
mod native;
mod nginx_words;
mod own_request;
mod ping;
mod pool;
mod process_room;
mod programs;
mod public_urls;
mod queue;
mod read_rate;
mod replay;
mod request_buffering;
mod resolver;
mod retry;
mod script_log_tee;
mod spool;
mod stream_members;
mod tls_stream;
mod traces;
mod transport;
mod tunnel;
mod unanswered;
mod upstream_exchange;
mod upstream_fields;
mod upstream_path;
mod variables;

pub use authorize::ForwardAuth;
pub use balancer::Choice;
pub use connect::close_folder;
pub use failure::Failure;
pub use fetch::DocumentFetcher;
pub use gateway::{Busy, Gateway};
pub use health::{HealthChecks, test_member};
pub use own_request::{OwnAnswer, ask_member};
pub use stream_members::{StreamConnection, StreamMember, StreamMembers};
pub use traces::TraceExport;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_gateway;
#[cfg(test)]
mod tests;
