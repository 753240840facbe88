//! Who may: authentication, authorization, and the older Allow and Deny, in Apache's order.
//!
//! Place in the walk: the `access` step of the rules. The sequence of its steps is in `decide`, one
//! file per module of Apache below it. Difficulty: what nobody has to ask for (`Require all
//! granted`) must leave no mark on the exchange, so that its outcome may be kept; everything that
//! looks at the client, its user or its environment says so.

pub mod authn;
pub mod authz;
pub mod compat;
mod decide;
mod digest;
mod fake;
mod hosts;
mod identify;
mod passwords;
mod records;
mod requirement;
pub mod sql;

pub use decide::{Inquiry, access};
pub use fake::{fake_credentials, set_authorization};
pub use hosts::look_up;
pub use records::{RecordFiles, Records};
pub use requirement::method_number;

#[cfg(test)]
mod tests;
