//! SSLStapling*: on which terms OCSP responses are fetched. SSLUseStapling says whether.
//!
//! Absent on purpose: passing a responder's errors on to visitors
//! (SSLStaplingReturnResponderErrors, SSLStaplingFakeTryLater): a response that is no good one is
//! not shown.

use crate::{arguments::first, reading::ServerSet};
use saker_apache_syntax::Node;
use saker_config::model::Stapling;

/// `None`: not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaplingDraft {
    responder: Option<String>,
    timeout_s: Option<u64>,
    skew_s: Option<u64>,
    /// The inner `None`: any age will do.
    age_max_s: Option<Option<u64>>,
    lifetime_s: Option<u64>,
    retry_s: Option<u64>,
}

impl StaplingDraft {
    /// A host's, with the server's where it says nothing.
    pub fn over(&self, server: &StaplingDraft) -> Stapling {
        let default = Stapling::default();
        let seconds = |own: Option<u64>, outer: Option<u64>| own.or(outer);
        Stapling {
            responder: self.responder.clone().or_else(|| server.responder.clone()),
            timeout_ms: seconds(self.timeout_s, server.timeout_s)
                .map_or(default.timeout_ms, |timeout_s| {
                    timeout_s.saturating_mul(1000)
                }),
            skew_s: seconds(self.skew_s, server.skew_s).unwrap_or(default.skew_s),
            age_max_s: self.age_max_s.or(server.age_max_s).flatten(),
            lifetime_s: seconds(self.lifetime_s, server.lifetime_s).unwrap_or(default.lifetime_s),
            retry_s: seconds(self.retry_s, server.retry_s).unwrap_or(default.retry_s),
        }
    }
}

pub const SETTERS: &[(&str, ServerSet<StaplingDraft>)] = &[
    ("SSLStaplingForceURL", |node, stapling, _| {
        stapling.responder = first(node);
        Ok(())
    }),
    ("SSLStaplingResponderTimeout", |node, stapling, _| {
        set(node, &mut stapling.timeout_s)
    }),
    ("SSLStaplingResponseTimeSkew", |node, stapling, _| {
        set(node, &mut stapling.skew_s)
    }),
    ("SSLStaplingStandardCacheTimeout", |node, stapling, _| {
        set(node, &mut stapling.lifetime_s)
    }),
    ("SSLStaplingErrorCacheTimeout", |node, stapling, _| {
        set(node, &mut stapling.retry_s)
    }),
    ("SSLStaplingResponseMaxAge", |node, stapling, _| {
        // -1, the default: no limit.
        let word = first(node).unwrap_or_default();
        let age: i64 = word
            .parse()
            .map_err(|_| "SSLStaplingResponseMaxAge: invalid argument".to_owned())?;
        stapling.age_max_s = Some(u64::try_from(age).ok());
        Ok(())
    }),
];

fn set(node: &Node, slot: &mut Option<u64>) -> Result<(), String> {
    let word = first(node).unwrap_or_default();
    *slot = Some(
        word.parse()
            .map_err(|_| format!("{}: invalid argument", node.canonical_name()))?,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_the_servers() {
        let server = StaplingDraft {
            timeout_s: Some(3),
            age_max_s: Some(Some(60)),
            ..StaplingDraft::default()
        };
        let own = StaplingDraft {
            age_max_s: Some(None),
            retry_s: Some(1),
            ..StaplingDraft::default()
        };
        let expected = Stapling {
            timeout_ms: 3000,
            retry_s: 1,
            ..Stapling::default()
        };
        assert_eq!(own.over(&server), expected);
    }
}
