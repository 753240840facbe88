//! What an operator may decide about the rules; every default is the one that is safe without knowing the site.
//!
//! Place in the walk: made once from the configuration, read by every judgement.
//! Absent on purpose: where things are stored and how much of them, which is the store's.

use super::control::DELTA_SECONDS_MAX;

/// Section 5.2.1 of RFC 9111: directives of requests are advisory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientControl {
    /// What nginx, Varnish and LSCache do: else any visitor with a reload key, or a script, sends every request to the backend, and what
    /// a browser sends on reload is about the browser's own copy. `only-if-cached` is honoured all the same: it costs the backend nothing.
    #[default]
    Ignored,
    /// What mod_cache does unless `CacheIgnoreCacheControl` is on.
    Honoured,
}

#[derive(Clone, Debug)]
pub struct RuleSettings {
    /// Names of targeted fields, the most applicable first (RFC 9213 section 2.2).
    pub targets: Vec<String>,
    /// Whether Surrogate-Control is obeyed, before the targets: it is meant for the cache next to the origin, which we are.
    pub surrogate_control: bool,
    pub client: ClientControl,
    /// For responses that say nothing about how long; without it (and without a Last-Modified) they are not fresh at all.
    pub default_ttl_s: Option<u64>,
    /// The default counts only for responses with an ETag or a Last-Modified (mod_cache without `CacheIgnoreNoLastMod`).
    pub default_ttl_needs_validator: bool,
    /// In place of whatever the response says (a rule of the operator's); makes it public.
    pub ttl_override_s: Option<u64>,
    /// Bounds what we guessed, not what the response says (`CacheMinExpire`).
    pub ttl_min_s: u64,
    /// Bounds everything (`CacheMaxExpire`).
    pub ttl_max_s: u64,
    /// Share of the time since Last-Modified, in percent; 0 switches heuristics off (section 4.2.2, `CacheLastModifiedFactor`).
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
    /// Only what says in so many words that it is for a shared cache is stored: public, s-maxage, a targeted field.
    pub shared_words_only: bool,
    /// Whether a part (206) may become an entry (see [`super::parts`]).
    pub store_parts: bool,
    /// Cookies that make a request somebody's own; a `*` at the end stands for any ending. Compared without regard to case.
    pub session_cookies: Vec<String>,
    /// Response fields that are not stored (`CacheIgnoreHeaders`).
    pub ignored_fields: Vec<String>,
}

/// Of the applications that stand behind most sites.
const SESSION_COOKIES: &[&str] = &[
    "PHPSESSID",
    "JSESSIONID",
    "ASP.NET_SessionId",
    "ASPSESSIONID*",
    "connect.sid",
    "sessionid",
    "_session_id",
    "session",
    "session_id",
    "laravel_session",
    "ci_session",
    "CAKEPHP",
    "CGISESSID",
    "frontend",
    "adminhtml",
    "admin",
    "xf_session",
    "xf_user",
    "lsc_private",
    "wordpress_logged_in_*",
    "wordpress_sec_*",
    "wp-postpass_*",
    "comment_author_*",
    "wp_woocommerce_session_*",
    "woocommerce_items_in_cart",
    "woocommerce_cart_hash",
    "edd_items_in_cart",
    "SESS*",
    "SSESS*",
    "PrestaShop-*",
    "joomla_user_state",
    "phpbb3_*",
    "MoodleSession*",
    "fe_typo_user",
    "be_typo_user",
    "OCSESSID",
    "mw_session",
];

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
            shared_words_only: false,
            store_parts: false,
            session_cookies: SESSION_COOKIES.iter().map(|name| name.to_string()).collect(),
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
        self.session_cookies.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes())),
            None => name.eq_ignore_ascii_case(pattern.as_bytes()),
        })
    }
}
