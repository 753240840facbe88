//! The life of a request, the same for every protocol: phases down to a handler, filters back up.
//!
//! Floor 4: knows no handler and no socket. `server` drives it (`Exchange` in, `Response` out) and
//! registers handlers and filters; features above implement the traits: [`Handler`], [`Filter`],
//! [`Forwarder`], [`Rules`], [`AbuseControl`], [`Inspector`], [`Reusable`].

pub mod abuse;
mod auth_state;
pub mod body;
pub mod budget;
pub mod call;
pub mod derived;
pub mod exchange;
pub mod extensions;
pub mod field_edits;
pub mod generation;
pub mod handed;
pub mod head_edits;
mod held_policy;
pub mod https_redirect;
pub mod inspection;
pub mod logged;
pub mod methods;
pub mod phases;
pub mod resources;
pub mod respond;
pub mod response;
pub mod rules;
pub mod script_log;
pub mod services;
mod told;
pub mod traits;
pub mod tunnel;

pub use abuse::{AbuseControl, UpstreamGate, UpstreamPermit};
pub use auth_state::AuthState;
pub use body::{Body, BodyError, BodyStream, Chunk, FilePart, NoBody, RequestBody, StillValid};
pub use budget::{Inner, RequestBudget};
pub use call::{
    Adjust, Call, CallManner, CallNames, CallTo, ProcessManner, Reverse, Script, Trust, Via,
};
pub use derived::DerivedSites;
pub use exchange::{Client, Environment, Exchange, Mapped, TellHints, TraceStep};
pub use extensions::Extensions;
pub use generation::{FrontEnd, Generation};
pub use handed::Handed;
pub use head_edits::{HeadEdits, HeadFacts};
pub use held_policy::Holding;
pub use https_redirect::to_https;
pub use inspection::{Inspection, Inspector};
pub use logged::{First, LogFacts, LogRules, StandIn};
pub use resources::{Bounds, Key, Outcome, Resources};
pub use response::{ReadyHead, Response, ResponseHead};
pub use rules::{Rules, SiteRules, Step, TargetPolicy, Verdict};
pub use services::{ContentHandlers, Services};
pub use told::Asker;
pub use traits::{
    Authorizer, ErrorDocumentCache, Filter, Forwarder, Granted, Handled, Handler, LocalFuture,
    Permission, Reusable,
};
pub use tunnel::Tunnel;
