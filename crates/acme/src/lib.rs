//! Automatic certificates (RFC 8555): orders, proofs of control over names, renewal, and the state
//! that survives a restart.
//!
//! Called by: the server, which creates a [`Manager`] and runs it on the main thread. Workers
//! answer HTTP-01 from [`Challenges`]; a [`Handle`] requests certificates on demand; issued
//! certificates are handed to the server through [`Installer`]. instant-acme speaks the protocol;
//! connections, timing, persistence, and rate limiting are ours.
//! Caveat: authorities count orders and failed validations, and lock out clients that forget a
//! recent failure over a restart (`schedule`). Certificates that no site uses any more stay in the
//! state directory until an operator deletes them.
//! Out of scope: revocation, key rollover, and certificates ordered by other programs.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod account;
mod blocking;
mod certificate;
mod challenges;
mod client;
mod dns;
mod event;
mod failure;
mod manager;
mod on_demand;
mod order;
mod plan;
mod present;
mod record;
mod schedule;
mod shared_values;
mod store;
mod tend;
mod together;

pub use challenges::{Challenge, Challenges, HTTP01_PREFIX, Installer};
pub use client::Client;
pub use event::Event;
pub use manager::{Handle, Manager};
pub use on_demand::Denied;
pub use plan::Plan;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_acme;
#[cfg(test)]
mod tests;
