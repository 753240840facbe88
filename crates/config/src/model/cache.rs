//! The page cache: the store of the process (`[cache]`), and caching rules per path
//! (`[site.cache]`, Apache's directives).
//!
//! Out of scope: caching decisions, which are in the crate `cache-rules`.

use saker_net::Network;
use std::path::PathBuf;

/// `[cache]`: location and limits of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStore {
    /// `None`: below the state directory.
    pub folder: Option<PathBuf>,
    /// For all entries; 0: no limit.
    pub bytes_max: u64,
    pub entries_max: u64,
    /// For the entries of one site; 0: no separate limit.
    pub site_bytes_max: u64,
    pub site_entries_max: u64,
    /// Memory shared by all workers.
    pub memory_bytes_max: u64,
    /// Maximum size of an entry.
    pub entry_bytes_max: u64,
    /// Disk space to leave free; `None`: 1 GiB, or a twentieth of a smaller disk.
    pub disk_reserve_bytes: Option<u64>,
    /// Sitemaps to warm the cache with after the start, and the interval in seconds; 0: once.
    pub warmed: Vec<String>,
    pub warmed_every_s: u64,
    /// Client addresses that may purge by request (PURGE, REFRESH, BAN), besides those of a site.
    pub purgers: Vec<Network>,
    /// Set if something outside the model may use the cache, such as a `.htaccess` file.
    pub is_expected: bool,
}

impl Default for CacheStore {
    fn default() -> CacheStore {
        CacheStore {
            folder: None,
            bytes_max: 10 << 30,
            entries_max: 2_000_000,
            site_bytes_max: 0,
            site_entries_max: 0,
            memory_bytes_max: 64 << 20,
            entry_bytes_max: 64 << 20,
            disk_reserve_bytes: None,
            warmed: Vec::new(),
            warmed_every_s: 0,
            purgers: ["127.0.0.0/8", "::1"]
                .iter()
                .filter_map(|network| network.parse().ok())
                .collect(),
            is_expected: false,
        }
    }
}

/// Caching rules for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Requests are served from the cache, and responses stored.
    pub is_on: bool,
    /// Responses are stored.
    pub stores: bool,
    /// Shared entries, and private entries of one client (LSCache).
    pub public: bool,
    pub private: bool,
    /// Responses without directives are stored as private (LSCache's `CacheEnable private`); for
    /// shared ones, see `ttl_default_s`.
    pub unasked_private: bool,
    /// Announced to applications even if the cache is off here, so that they know they may enable
    /// it.
    pub offer: CacheOffer,
    /// Follows HTTP's directives (RFC 9111: Cache-Control, Expires, CDN-Cache-Control and the
    /// like).
    pub obeys_http: bool,
    /// Follows only those HTTP directives that are for shared caches: public, s-maxage,
    /// CDN-Cache-Control.
    pub shared_words_only: bool,
    /// Follows LSCache's directives (X-LiteSpeed-Cache-Control and the like), which take precedence
    /// over HTTP's.
    pub obeys_lscache: bool,
    /// Freshness lifetime, in seconds, of responses without directives; `None`: they are not
    /// stored.
    pub ttl_default_s: Option<u64>,
    /// The same by status, instead of `ttl_default_s` and `heuristic_percent`; 0: not stored.
    pub status_ttls_s: Vec<(u16, u64)>,
    /// Overrides the response's directives.
    pub ttl_override_s: Option<u64>,
    pub ttl_max_s: Option<u64>,
    /// Lower limit of heuristic freshness, not of the response's directives.
    pub ttl_min_s: u64,
    /// `ttl_default_s` applies only to responses with an ETag or Last-Modified (mod_cache).
    pub default_needs_validator: bool,
    /// Lifetimes of LSCache entries without one of their own: public, private.
    pub lscache_ttl_s: (u64, u64),
    /// Heuristic freshness of responses with Last-Modified and no directives, in percent of their
    /// age.
    pub heuristic_percent: u64,
    /// `heuristic_percent` is the operator's choice. Otherwise it counts for requests without
    /// cookies and credentials only, for a short time, and not beside `ttl_default_s`.
    pub is_heuristic_chosen: bool,
    /// Time that an expired entry is served while it is refreshed, and while refreshing fails.
    pub grace_s: u64,
    /// `grace_s` also applies to lifetimes that HTTP's fields state (RFC 9111 section 4.2.4 permits
    /// that by explicit configuration only); set where the operator has chosen it.
    pub is_grace_chosen: bool,
    pub stale_if_error_s: u64,
    /// Sends 103 Early Hints with what the stored page linked, to clients that navigate.
    pub sends_early_hints: bool,
    /// Stores responses to POST that are about the requested URL, for later GET requests (RFC 9110
    /// section 9.3.3).
    pub stores_post: bool,
    /// Stores responses to QUERY, by the content of the request.
    pub stores_query: bool,
    /// Maximum content of a QUERY request that is part of the key.
    pub query_bytes_max: u64,
    /// Stores Set-Cookie, and sends it to all clients (RFC 9111 section 7.3).
    pub stores_cookies: bool,
    /// Stores responses with Set-Cookie that are explicitly for all clients, without the field.
    pub with_set_cookie: bool,
    /// Targeted fields (RFC 9213) to follow, the most applicable first.
    pub targeted_fields: Vec<String>,
    /// Honors the client's reload directives, as mod_cache does.
    pub honors_client: bool,
    /// Query parameters that are not part of the key: names, or prefixes with `*`.
    pub ignored_parameters: Vec<String>,
    /// Names of `;name=value` at the end of a path that are not part of the key (session
    /// identifiers).
    pub ignored_path_parameters: Vec<String>,
    /// Requests with a query, and those with cookies, use the cache too.
    pub with_query: bool,
    pub with_cookies: bool,
    /// Requests with such a cookie (name, or prefix with `*`) go to the application. Responses
    /// marked as shared are stored nevertheless.
    pub session_cookies: Option<Vec<String>>,
    /// Cookies that the cache ignores (of analytics services, for example): names, or prefixes with
    /// `*`. The application still receives them.
    pub ignored_cookies: Vec<String>,
    /// Cookies whose values are part of the key.
    pub vary_cookies: Vec<String>,
    /// Request fields that are part of the key of every response.
    pub key_fields: Vec<String>,
    /// LSCache's vary string is not part of the key.
    pub no_vary: bool,
    /// A client with private entries is identified by its address as well as by cookies.
    pub identity_by_address: bool,
    /// Hosts of this server that ESI includes may refer to although the client's listener does not
    /// serve them.
    pub include_hosts: Vec<String>,
    /// Paths to bypass, by substrings.
    pub excluded_paths: Vec<String>,
    /// Limits on the body size of entries. `CacheStore::entry_bytes_max` applies to all.
    pub entry_bytes_min: u64,
    pub entry_bytes_max: Option<u64>,
    /// Sends Cache-Status (RFC 9211) to the client; X-LiteSpeed-Cache is always sent where
    /// LSCache's directives are followed.
    pub tells_status: bool,
    /// Name of a response field with the result in one word, like `$upstream_cache_status`.
    pub result_field: Option<String>,
    /// The same in Apache's form: X-Cache, X-Cache-Detail.
    pub apache_field: bool,
    pub apache_detail_field: bool,
    /// Stores separate pages for phones, tablets and other browsers.
    pub varies_by_device: bool,
    /// Number of purged pages to refetch, the most requested first.
    pub refetched_max: usize,
    /// Refreshes requested pages when this percentage of their lifetime is left; 0: off.
    pub refresh_ahead_percent: u64,
    /// Response fields that are not stored.
    pub ignored_fields: Vec<String>,
    /// Stores despite the response's directives (mod_cache's CacheStorePrivate, -NoStore).
    pub stores_private: bool,
    pub stores_no_store: bool,
    /// Stores a URL with a query only if the response sets a lifetime (mod_cache without
    /// CacheIgnoreQueryString).
    pub query_needs_expiry: bool,
    /// Does not serve requests with `no-store` from the cache (mod_cache without
    /// CacheIgnoreCacheControl).
    pub no_store_bypasses: bool,
    /// Further addresses that may purge this site's entries by request.
    pub purgers: Vec<Network>,
    /// Path at which X-LiteSpeed-Purge of a request is honored, from addresses that may purge.
    pub purge_path: Option<String>,
}

/// Features that `X-LSCACHE` and `X-LITEMAGE` announce to applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOffer {
    /// `on`; without it, nothing is announced.
    pub pages: bool,
    /// Crawlers of applications may run.
    pub crawler: bool,
    pub esi: bool,
    /// Magento's flavour.
    pub litemage: bool,
}

impl CacheOffer {
    pub const NOTHING: CacheOffer = CacheOffer {
        pages: false,
        crawler: false,
        esi: false,
        litemage: false,
    };
    pub const ALL: CacheOffer = CacheOffer {
        pages: true,
        crawler: true,
        esi: true,
        litemage: true,
    };
}

impl CacheUse {
    /// Names of tracking parameters, which `tracking` stands for.
    pub const TRACKING: &[&str] = &[
        "utm_*",
        "gclid",
        "gclsrc",
        "gbraid",
        "wbraid",
        "gad_source",
        "gad_campaignid",
        "dclid",
        "fbclid",
        "msclkid",
        "yclid",
        "ysclid",
        "twclid",
        "ttclid",
        "li_fat_id",
        "igshid",
        "srsltid",
        "mc_cid",
        "mc_eid",
        "_ga",
        "_gl",
        "_gac",
        "_hsenc",
        "_hsmi",
        "__hssc",
        "__hstc",
        "__hsfp",
        "hsCtaTracking",
        "mkt_tok",
        "vero_id",
        "vero_conv",
        "wickedid",
        "oly_anon_id",
        "oly_enc_id",
        "_openstat",
        "s_cid",
        "mtm_*",
        "pk_*",
        "piwik_*",
        "matomo_*",
        "epik",
        "zanpid",
        "_kx",
        "_branch_match_id",
        "rb_clickid",
        "irclickid",
        "ScCid",
        "sscid",
    ];
}

impl Default for CacheUse {
    /// Off; when enabled, settings that are safe without knowledge of the site.
    fn default() -> CacheUse {
        CacheUse {
            is_on: false,
            stores: true,
            public: true,
            private: true,
            unasked_private: false,
            offer: CacheOffer::NOTHING,
            obeys_http: true,
            shared_words_only: false,
            obeys_lscache: true,
            ttl_default_s: None,
            status_ttls_s: Vec::new(),
            ttl_override_s: None,
            ttl_max_s: None,
            ttl_min_s: 0,
            default_needs_validator: false,
            lscache_ttl_s: (3600, 3600),
            heuristic_percent: 10,
            is_heuristic_chosen: false,
            grace_s: 10,
            is_grace_chosen: false,
            stale_if_error_s: 10,
            sends_early_hints: false,
            stores_post: false,
            stores_query: false,
            query_bytes_max: 64 << 10,
            stores_cookies: false,
            with_set_cookie: true,
            targeted_fields: vec!["CDN-Cache-Control".to_owned()],
            honors_client: false,
            ignored_parameters: Vec::new(),
            ignored_path_parameters: Vec::new(),
            with_query: true,
            with_cookies: true,
            session_cookies: None,
            ignored_cookies: Vec::new(),
            vary_cookies: Vec::new(),
            key_fields: Vec::new(),
            no_vary: false,
            identity_by_address: false,
            include_hosts: Vec::new(),
            excluded_paths: Vec::new(),
            entry_bytes_min: 0,
            entry_bytes_max: None,
            tells_status: false,
            result_field: None,
            apache_field: false,
            apache_detail_field: false,
            varies_by_device: false,
            refetched_max: 0,
            refresh_ahead_percent: 0,
            ignored_fields: Vec::new(),
            stores_private: false,
            stores_no_store: false,
            query_needs_expiry: false,
            no_store_bypasses: false,
            purgers: Vec::new(),
            purge_path: None,
        }
    }
}
