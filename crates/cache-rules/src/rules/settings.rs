//! What an operator may decide about the rules; every default is the one that is safe without
//! knowing the site.
//!
//! Place in the walk: made once from the configuration, read by every judgement.
//! Absent on purpose: where things are stored and how much of them, which is the store's.

use super::control::DELTA_SECONDS_MAX;
use crate::cookie_names;

/// Section 5.2.1 of RFC 9111: directives of requests are advisory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientControl {
    /// What nginx, Varnish and LSCache do: else any visitor with a reload key, or a script, sends
    /// every request to the backend, and what a browser sends on reload is about the browser's own
    /// copy. `only-if-cached` is honoured all the same: it costs the backend nothing.
    #[default]
    Ignored,
    /// What mod_cache does unless `CacheIgnoreCacheControl` is on.
    Honoured,
}

#[derive(Clone, Debug)]
pub struct RuleSettings {
    /// Names of targeted fields, the most applicable first (RFC 9213 section 2.2).
    pub targets: Vec<String>,
    /// Whether Surrogate-Control is obeyed, before the targets: it is meant for the cache next to
    /// the origin, which we are.
    pub surrogate_control: bool,
    pub client: ClientControl,
    /// For responses that say nothing about how long; without it (and without a Last-Modified) they
    /// are not fresh at all.
    pub default_ttl_s: Option<u64>,
    /// The default counts only for responses with an ETag or a Last-Modified (mod_cache without
    /// `CacheIgnoreNoLastMod`).
    pub default_ttl_needs_validator: bool,
    /// In place of whatever the response says (a rule of the operator's); makes it public.
    pub ttl_override_s: Option<u64>,
    /// Bounds what we guessed, not what the response says (`CacheMinExpire`).
    pub ttl_min_s: u64,
    /// Bounds everything (`CacheMaxExpire`).
    pub ttl_max_s: u64,
    /// Share of the time since Last-Modified, in percent; 0 switches heuristics off (section 4.2.2,
    /// `CacheLastModifiedFactor`).
    pub heuristic_percent: u64,
    pub heuristic_max_s: u64,
    /// Stale windows where the response names none and forbids none (RFC 5861; Varnish's grace).
    pub stale_while_revalidate_s: u64,
    pub stale_if_error_s: u64,
    /// How long an entry that can be validated outlives everything else.
    pub keep_s: u64,
    /// Whether what must be validated before each use is worth storing.
    pub keep_for_validation: bool,
    /// `CacheStorePrivate`, `CacheStoreNoStore`, `CacheStoreExpired`.
    pub store_private: bool,
    pub store_no_store: bool,
    pub store_expired: bool,
    /// A URL with a query is stored only with an explicit lifetime (mod_cache without
    /// `CacheIgnoreQueryString`).
    pub query_needs_expiry: bool,
    /// `no-store` of a request passes by what is stored, too, and no setting makes it storable
    /// (mod_cache).
    pub no_store_bypasses: bool,
    /// Only what says in so many words that it is for a shared cache is stored: public, s-maxage, a
    /// targeted field.
    pub shared_words_only: bool,
    /// Whether a part (206) may become an entry (see [`super::parts`]).
    pub store_parts: bool,
    /// Cookies that make a request personal, by patterns of [`crate::cookie_names`]; `None`: the
    /// usual ones.
    pub session_cookies: Option<Vec<String>>,
    /// Response fields that are not stored (`CacheIgnoreHeaders`).
    pub ignored_fields: Vec<String>,
}

impl Default for RuleSettings {
    fn default() -> Self {
        RuleSettings {
            targets: vec!["CDN-Cache-Control".into()],
            surrogate_control: true,
            client: ClientControl::default(),
            default_ttl_s: None,
            default_ttl_needs_validator: false,
            ttl_override_s: None,
            ttl_min_s: 0,
            ttl_max_s: DELTA_SECONDS_MAX,
            heuristic_percent: 10,
            heuristic_max_s: 86_400,
            stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            keep_s: 3_600,
            keep_for_validation: true,
            store_private: false,
            store_no_store: false,
            store_expired: false,
            query_needs_expiry: false,
            no_store_bypasses: false,
            shared_words_only: false,
            store_parts: false,
            session_cookies: None,
            ignored_fields: Vec::new(),
        }
    }
}

impl RuleSettings {
    pub(super) fn honours_client(&self) -> bool {
        self.client == ClientControl::Honoured
    }

    /// Whether a cookie of that name is one of [`RuleSettings::session_cookies`].
    pub fn is_session_cookie(&self, name: &[u8]) -> bool {
        match &self.session_cookies {
            Some(patterns) => cookie_names::is_session(name, patterns),
            None => cookie_names::is_usual_session(name),
        }
    }
}
