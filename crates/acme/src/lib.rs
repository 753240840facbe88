//! Automatic certificates (RFC 8555): who orders what, how control over names is proved, when
//! certificates are renewed, and what of all that survives a restart.
//!
//! Floor 4. The server makes a [`Manager`] and runs it on the main thread. Workers answer HTTP-01
//! out of [`Challenges`]; a [`Handle`] brings certificates on demand. What is issued goes to the
//! server's certificates through [`Installer`]. The protocol's messages are instant-acme's;
//! connections, waiting, memory and restraint are ours. The difficulty is restraint: authorities
//! count orders and failed validations, and lock out whoever forgets over a restart that he has
//! just failed (`schedule`). Absent on purpose: revocation, key rollover, and certificates that
//! somebody else orders. Certificates that no site wants any more stay in the state folder until
//! someone deletes them.

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
mod store;
mod tend;

pub use challenges::{Challenges, HTTP01_PREFIX, Installer};
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
