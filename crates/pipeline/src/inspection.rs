//! An inspection of a request and its response by content rules, in progress.
//!
//! Called by: handlers that send ranges or codings of a representation, through
//! [`Exchange::show_whole`](crate::Exchange::show_whole). Implemented by `saker-modsecurity`.
//! Caveat: a range or coding must be inspected as a whole; otherwise clients evade the rules by
//! requesting it in pieces.
//! Out of scope: starting inspections (`inspector`).

use crate::Body;

/// An inspection in progress, as seen by handlers.
pub trait Inspection {
    /// Returns true if the rules inspect responses of this type.
    fn wants_response_content(&self, content_type: &[u8]) -> bool;

    /// Inspects the whole representation that the response is selected from (RFC 9110 sections 12
    /// and 14), in the identity coding.
    fn show_whole(&self, content_type: &[u8], body: Body);
}
