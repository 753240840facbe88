//! Settings of the rules; every default is safe without knowledge of the site.
//!
//! Called by: the page cache, which makes them from the configuration.
//! Caveat: names of Apache's directives are given where they exist.
//! Out of scope: storage and its limits.

use super::control::DELTA_SECONDS_MAX;
use crate::cookie_names;
use saker_http::{HeadView, Method};

/// Section 5.2.1 of RFC 9111: directives of requests are advisory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientControl {
    /// As in nginx, Varnish and LSCache: otherwise any client with a reload key, or a script, sends
    /// every request to the backend, and a browser's reload is about its own copy. `only-if-cached`
    /// is honored anyway: it costs the backend nothing.
    #[default]
    Ignored,
    /// The behavior of mod_cache, unless `CacheIgnoreCacheControl` is on.
    Honored,
}

#[derive(Clone, Debug)]
pub struct RuleSettings {
    /// Names of targeted fields, the most applicable first (RFC 9213 section 2.2).
    pub targets: Vec<String>,
    /// Obey Surrogate-Control, before the targets: it is meant for the cache next to the origin.
    pub surrogate_control: bool,
    pub client: ClientControl,
    /// For responses without a lifetime; otherwise (and without Last-Modified) they are not fresh
    /// at all.
    pub default_ttl_s: Option<u64>,
    /// Lifetimes of responses without one, by status, before heuristics and the default; 0: they
    /// are not fresh at all.
    pub status_ttls_s: Vec<(u16, u64)>,
    /// The default counts only for responses with an ETag or a Last-Modified (mod_cache without
    /// `CacheIgnoreNoLastMod`).
    pub default_ttl_needs_validator: bool,
    /// Replaces the response's lifetime (an operator's rule); makes it public.
    pub ttl_override_s: Option<u64>,
    /// Lower bound of heuristic lifetimes, not of explicit ones (`CacheMinExpire`).
    pub ttl_min_s: u64,
    /// Upper bound of all lifetimes (`CacheMaxExpire`).
    pub ttl_max_s: u64,
    /// Share of the time since Last-Modified, in percent; 0 switches heuristics off (section 4.2.2,
    /// `CacheLastModifiedFactor`).
    pub heuristic_percent: u64,
    pub heuristic_max_s: u64,
    /// Heuristic lifetimes count for requests with cookies, too, and for those with fields that look
    /// like credentials. Otherwise such requests are neither answered by a page whose freshness is only
    /// heuristic, nor do their responses become one.
    pub heuristic_with_cookies: bool,
    /// Stale windows if the response has none and forbids none (RFC 5861; Varnish's grace).
    pub stale_while_revalidate_s: u64,
    /// The same where HTTP's own fields state the lifetime: section 4.2.4 permits stale responses
    /// then only if the operator has chosen so.
    pub stated_stale_while_revalidate_s: u64,
    pub stale_if_error_s: u64,
    /// Time that an entry that can be validated is kept beyond its other times.
    pub keep_s: u64,
    /// Store responses that must be validated before each use.
    pub keep_for_validation: bool,
    /// `CacheStorePrivate`, `CacheStoreNoStore`.
    pub store_private: bool,
    pub store_no_store: bool,
    /// A URL with a query is stored only with an explicit lifetime (mod_cache without
    /// `CacheIgnoreQueryString`).
    pub query_needs_expiry: bool,
    /// `no-store` of a request bypasses stored pages, too, and no setting makes the response
    /// storable (mod_cache).
    pub no_store_bypasses: bool,
    /// Store only responses that are explicitly for shared caches: public, s-maxage, a targeted
    /// field.
    pub shared_words_only: bool,
    /// Store responses to POST with an explicit lifetime; the caller has compared Content-Location
    /// (RFC 9110 section 9.3.3).
    pub store_post: bool,
    /// Store responses to QUERY and use them; the caller makes the content part of the key.
    pub store_query: bool,
    /// Store Set-Cookie for all clients (section 7.3).
    pub store_cookies: bool,
    /// Store responses with Set-Cookie at all, where they are explicitly public.
    pub store_with_set_cookie: bool,
    /// Store partial content (206); see [`super::parts`].
    pub store_parts: bool,
    /// Cookies that make a request personal, by patterns of [`crate::cookie_names`]; `None`: the
    /// default ones.
    pub session_cookies: Option<Vec<String>>,
    /// Request fields that select among stored responses, whatever their `Vary` says.
    pub key_fields: Vec<String>,
    /// Response fields that are not stored (`CacheIgnoreHeaders`).
    pub ignored_fields: Vec<String>,
}

/// True for the method QUERY, a safe method with content.
pub fn is_query(request: HeadView<'_>) -> bool {
    request.method() == Method::Extension && request.method_token() == b"QUERY"
}

impl Default for RuleSettings {
    fn default() -> Self {
        RuleSettings {
            targets: vec!["CDN-Cache-Control".into()],
            surrogate_control: true,
            client: ClientControl::default(),
            default_ttl_s: None,
            status_ttls_s: Vec::new(),
            default_ttl_needs_validator: false,
            ttl_override_s: None,
            ttl_min_s: 0,
            ttl_max_s: DELTA_SECONDS_MAX,
            heuristic_percent: 10,
            heuristic_max_s: 86_400,
            heuristic_with_cookies: true,
            stale_while_revalidate_s: 0,
            stated_stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            keep_s: 3_600,
            keep_for_validation: true,
            store_private: false,
            store_no_store: false,
            query_needs_expiry: false,
            no_store_bypasses: false,
            shared_words_only: false,
            store_post: false,
            store_query: false,
            store_cookies: false,
            store_with_set_cookie: true,
            store_parts: false,
            session_cookies: None,
            key_fields: Vec::new(),
            ignored_fields: Vec::new(),
        }
    }
}

impl RuleSettings {
    pub(super) fn honors_client(&self) -> bool {
        self.client == ClientControl::Honored
    }

    /// True if stored responses may answer a request with that method.
    pub fn answers_method(&self, request: HeadView<'_>) -> bool {
        matches!(request.method(), Method::Get | Method::Head)
            || self.store_query && is_query(request)
    }

    /// True if the name matches [`RuleSettings::session_cookies`].
    pub fn is_session_cookie(&self, name: &[u8]) -> bool {
        match &self.session_cookies {
            Some(patterns) => cookie_names::is_session(name, patterns),
            None => cookie_names::is_usual_session(name),
        }
    }
}
