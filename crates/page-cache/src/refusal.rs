//! Reasons why a response is not stored.
//!
//! Called by: everything that decides about storing; the words appear in statistics.
//! Caveat: words are counted and documented; don't rename them.
//! Out of scope: reasons why a stored page is not used (`saker_cache_rules::rules::reuse`).

use saker_cache_rules::{lscache::control::NotStored, rules::Pass};
use saker_cache_store::Superseded;
use std::borrow::Cow;

/// Why a response is not stored: a word for statistics, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub word: &'static str,
    pub sentence: Cow<'static, str>,
}

impl Refusal {
    pub fn new(word: &'static str, sentence: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            word,
            sentence: sentence.into(),
        }
    }
}

impl From<Pass> for Refusal {
    fn from(pass: Pass) -> Refusal {
        Refusal::new(pass.name(), pass.sentence())
    }
}

impl From<NotStored> for Refusal {
    fn from(why: NotStored) -> Refusal {
        Refusal::new(why.name(), why.sentence())
    }
}

impl From<Superseded> for Refusal {
    fn from(_: Superseded) -> Refusal {
        Refusal::new(SUPERSEDED, "a response to a later request has been stored")
    }
}

/// No space on the disk.
pub const NO_ROOM: &str = "disk-full";

/// A response to a later request has been stored.
pub const SUPERSEDED: &str = "superseded";
