//! ModSecurity's rules, by libmodsecurity: sets of rules, and transactions that are put to them.
//!
//! Loaded by its name when the first set is made. What is unsafe about a library in C++ stays in
//! this folder: a [`RuleSet`] is read only once it is there, and shared; a [`Transaction`] belongs
//! to one at a time, and holds its rules alive. Absent on purpose: what the rules are about and
//! where they come from (config), and when they are asked (pipeline).

mod library;
mod rules;
mod transaction;

#[cfg(test)]
mod tests;

pub use rules::{Part, RuleSet, RulesFault};
pub use transaction::{Intervention, Transaction, transactions_alive};
