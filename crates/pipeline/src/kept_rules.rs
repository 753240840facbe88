//! State of a front end's rules that a decision keeps.
//!
//! Called by: `phases::decided`, which gives it to the exchanges of later requests; front ends
//! implement it.
//! Caveat: it has nothing of the request that it comes from.
//! Out of scope: what is kept besides (`decision`).

use crate::Exchange;
use std::any::Any;

/// The part of a decision that rules keep: their state before the phase `fixups`, or at that point of
/// it where they have found the program that answers.
pub trait KeptRules {
    /// Attaches the state to the exchange of another request, as the phases would. Its query is
    /// there: the one that the client sent, or that of the decision.
    fn apply(&self, exchange: &mut Exchange);

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
