//! The request pipeline, the same for every protocol: phases, content handlers, and response
//! filters.
//!
//! Called by: the server's drivers (`Exchange` in, `Response` out). Features above implement its
//! traits: [`Handler`], [`Filter`], [`Logger`], [`Forwarder`], [`Rules`], [`AbuseControl`],
//! [`Inspector`], [`CachedRoute`].
//! Caveat: floor 4 of the architecture; depends on no handler and no socket.
//! Out of scope: registering handlers, filters, and loggers (`server`), and framing (drivers).

pub mod abuse;
mod auth_state;
pub mod body;
pub mod budget;
mod cached_answer;
pub mod cached_route;
pub mod changed_paths;
pub mod chunk_queue;
pub mod client;
pub mod client_address;
pub mod decision;
pub mod derived;
pub mod environment;
pub mod exchange;
mod exchange_facts;
pub mod exchange_state;
pub mod extensions;
pub mod field_edits;
pub mod file_routes;
pub mod generation;
pub mod head_edits;
mod held_policy;
pub mod https_redirect;
pub mod inspection;
pub mod inspector;
pub mod internal_redirect;
mod internal_requests;
mod kept_rules;
pub mod local_future;
mod log_context;
pub mod log_facts;
pub mod logged;
pub mod logger;
mod mapped;
pub mod methods;
pub mod name_values;
pub mod outcome_lines;
pub mod phases;
pub mod read_buffer;
pub mod request_conditions;
pub mod request_trace;
pub mod respond;
pub mod response;
pub mod route_cache;
mod route_kind;
pub mod rules;
pub mod script_log;
pub mod services;
mod spare;
pub mod template;
pub mod texts;
pub mod traits;
pub mod tunnel;
pub mod upstream_attempts;
mod upstream_request;
pub mod variable_adjustment;

pub use abuse::{AbuseControl, UpstreamGate, UpstreamPermit};
pub use auth_state::{AuthState, Granted};
pub use body::{
    Body, BodyError, BodyStream, Chunk, FilePart, NoBody, RequestBody, StillValid, WholeBody,
};
pub use budget::{Inner, RequestBudget};
pub use cached_route::CachedRoute;
pub use changed_paths::{ChangedPath, ChangedPaths};
pub use chunk_queue::{ChunkPosition, ChunkQueue};
pub use client::{Client, Forwarding, PrefaceAddresses};
pub use decision::{Decision, KeptDecision};
pub use derived::DerivedSites;
pub use environment::Environment;
pub use exchange::Exchange;
pub use exchange_facts::{ExchangeFacts, Noted, link_policy, local_time};
pub use exchange_state::{
    AccessState, CacheState, ClientAbort, InterimSink, InterimWriter, LimitState, LogState,
    RoutingState, TraceStep, UpstreamState, UserClaims,
};
pub use extensions::Extensions;
pub use generation::{FrontEnd, Generation};
pub use head_edits::{HeadEdits, HeadFacts};
pub use held_policy::Holding;
pub use https_redirect::to_https;
pub use inspection::Inspection;
pub use inspector::Inspector;
pub use internal_redirect::InternalRedirect;
pub use kept_rules::{KeptRules, RuleParts};
pub use local_future::{LocalFuture, done};
pub use log_context::RequestLogContext;
pub use log_facts::LogFacts;
pub use logged::{ErrorDocument, LogRules, OriginalRequest, OutcomeLine, log_path_note};
pub use logger::{FinishedRequest, LoggedSite, Logger, Loggers};
pub use mapped::Mapped;
pub use name_values::NameValues;
pub use outcome_lines::OutcomeLines;
pub use read_buffer::ReadBuffer;
pub use request_conditions::Received;
pub use response::{ReadyHead, Response, ResponseHead};
pub use route_cache::{Bounds, Key, Outcome, RouteCache};
pub use route_kind::RouteKind;
pub use rules::{Rules, SiteRules, Step, TargetPolicy, Verdict};
pub use services::{ContentHandlers, FoundChallenge, Services};
pub use traits::{
    Authorizer, ErrorDocumentCache, FetchRequest, FetchedDocument, Fetcher, Filter, Forwarder,
    Handled, Handler, Permission,
};
pub use tunnel::Tunnel;
pub use upstream_attempts::{AttemptAddress, AttemptCounts, AttemptValue, UpstreamAttempts};
pub use upstream_request::{
    CallNames, Parameters, ProcessManner, ProxyOptions, Reverse, Script, Trust, Upgrades,
    UpstreamRequest, UpstreamTarget, Via,
};
pub use variable_adjustment::VariableAdjustment;
