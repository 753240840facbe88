//! State of a front end's rules that a decision keeps.
//!
//! Called by: `phases::decided`, which gives it to the exchanges of later requests; front ends
//! implement it.
//! Caveat: it has nothing of the request that it comes from.
//! Out of scope: what is kept besides (`decision`).

use crate::{Environment, Extensions, LogRules, OriginalRequest};
use std::any::Any;

/// The parts of an exchange that rules leave something in.
pub struct RuleParts<'e> {
    /// The query of the request: the one that the client sent, or that of the decision.
    pub query: Option<&'e [u8]>,
    pub extensions: &'e mut Extensions,
    pub environment: &'e mut Environment,
    /// Name of the handler that rules have chosen.
    pub handler: &'e mut Option<Box<str>>,
    pub path_info: &'e mut Vec<u8>,
    /// The request before the first internal redirect.
    pub original: &'e mut Option<Box<OriginalRequest>>,
    pub log_rules: &'e mut LogRules,
}

/// The part of a decision that rules keep: their state before the phase `fixups`, or at that point of
/// it where they have found the program that answers.
pub trait KeptRules {
    /// Gives the state to another request, as the phases would.
    fn apply(&self, parts: RuleParts<'_>);

    /// Returns true if another one says the same.
    fn is_same(&self, other: &dyn KeptRules) -> bool;

    /// Returns true if the rules make their calls in the memory of earlier ones
    /// ([`Decision::take_request`](crate::Decision::take_request)).
    fn takes_calls(&self) -> bool {
        false
    }

    fn memory_bytes(&self) -> usize;

    fn as_any(&self) -> &dyn Any;
}
