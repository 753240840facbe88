//! The life of a request, the same for every protocol: phases down to a handler, filters back up,
//! loggers at the end.
//!
//! Floor 4: knows no handler and no socket. `server` drives it (`Exchange` in, `Response` out) and
//! registers handlers, filters and loggers; `handlers` implement [`Handler`] and [`Reusable`].

pub mod body;
pub mod budget;
pub mod call;
pub mod derived;
pub mod exchange;
pub mod field_edits;
pub mod generation;
pub mod guard;
pub mod handed;
pub mod head_edits;
mod held_policy;
pub mod logged;
pub mod modsecurity;
pub mod phases;
pub mod resources;
pub mod respond;
pub mod response;
pub mod rules;
pub mod script_log;
pub mod services;
pub mod throttle;
mod told;
pub mod traits;
pub mod tunnel;

pub use body::{Body, BodyError, BodyStream, Chunk, FilePart, NoBody, RequestBody, StillValid};
pub use budget::{Inner, RequestBudget};
pub use call::{
    Adjust, Call, CallManner, CallNames, CallTo, ProcessManner, Reverse, Script, Trust, Via,
};
pub use derived::DerivedSites;
pub use exchange::{Client, Environment, Exchange, Mapped, TellHints, TraceStep};
pub use generation::{FrontEnd, Generation};
pub use guard::{Confirmed, GuardState, Guarded, NameServer};
pub use handed::Handed;
pub use head_edits::{HeadEdits, HeadFacts};
pub use held_policy::Holding;
pub use logged::{First, LogFacts, LogRules, StandIn};
pub use resources::{Bounds, Key, Outcome, Resources};
pub use response::{ReadyHead, Response, ResponseHead};
pub use rules::{Rules, Verdict};
pub use services::Services;
pub use told::Asker;
pub use traits::{
    Authorizer, Filter, Granted, Handled, Handler, LocalFuture, Permission, Reusable,
};
pub use tunnel::Tunnel;
