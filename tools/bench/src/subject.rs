//! The subjects of measurements: Saker in several forms, and its peers.
//!
//! Called by: rows, reports, and the runner.
//! Caveat: the name that a subject is displayed by is its identity in reports and on the stage.
//! Out of scope: starting one (`launch`).

use crate::{conditions::Feature, outside::Outside};
use saker_testkit::Peer;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// As `saker serve` runs, without a log.
    Saker,
    /// The same, asked over HTTP/2 where the row is about HTTP/3.
    SakerHttp2,
    /// The same as [`Saker`](Subject::Saker), to see what the machine's noise is.
    SakerAgain,
    /// From a configuration file that is the same but for the feature.
    SakerWithout(Feature),
    SakerWith(Feature),
    /// By the file that the peer runs by.
    SakerByFileOf(Peer),
    Peer(Peer),
    /// One that the user brings.
    Outside(Outside),
    Floor,
}

impl Subject {
    pub fn is_saker(self) -> bool {
        matches!(
            self,
            Subject::Saker
                | Subject::SakerAgain
                | Subject::SakerHttp2
                | Subject::SakerWith(_)
                | Subject::SakerWithout(_)
                | Subject::SakerByFileOf(_)
        )
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Saker => f.write_str("saker"),
            Subject::SakerAgain => f.write_str("saker again"),
            Subject::SakerHttp2 => f.write_str("saker, HTTP/2"),
            Subject::SakerWithout(feature) => write!(f, "saker, {feature} off"),
            Subject::SakerWith(feature) => write!(f, "saker, {feature} on"),
            Subject::SakerByFileOf(peer) => write!(f, "saker by {peer}'s file"),
            Subject::Peer(peer) => peer.fmt(f),
            Subject::Outside(outside) => outside.fmt(f),
            Subject::Floor => f.write_str("bare tokio loop"),
        }
    }
}
