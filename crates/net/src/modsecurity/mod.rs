//! ModSecurity rules through libmodsecurity: rule sets, and the transactions evaluated against
//! them.
//!
//! The library is loaded by name when the first set is created.
//! Caveat: everything unsafe about a C++ library stays in this folder: a [`RuleSet`] is read-only
//! once created, and shared; a [`Transaction`] has one owner at a time and keeps its rules alive.
//! Out of scope: what the rules check and where they come from (config), and when they are
//! evaluated (pipeline).

mod library;
mod lines;
mod rules;
mod transaction;

#[cfg(test)]
mod tests;

pub use rules::{Part, RuleSet, RulesFault};
pub use transaction::{Intervention, Transaction, transactions_alive};
