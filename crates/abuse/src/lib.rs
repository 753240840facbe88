//! Who may have what: referrers, signed URLs, passes, proof of work, guesses of passwords, names of
//! robots; and the bounded memories behind them.
//!
//! Floor 3: pure functions over what a request says, a configuration and the time; what cores share
//! is in [`Remembered`]. The pipeline's guards ask here and turn the answers into responses. Absent
//! on purpose: responses, cookies as fields, clocks, sockets.

pub mod dns;
pub mod login;
pub mod mac;
pub mod pass;
pub mod referrer;
pub mod remembered;
pub mod robots;
pub mod signed;
pub mod work;
pub mod xml_rpc;

pub use pass::KeyRing;
pub use remembered::{Remembered, Who};

/// Random bytes; `false`: the system gives none.
pub fn random(bytes: &mut [u8]) -> bool {
    aws_lc_rs::rand::fill(bytes).is_ok()
}
