//! The page cache: the store that the process has (`[cache]`), and what is done with it for a path
//! (`[site.cache]`, Apache's directives).

use saker_net::Network;
use std::path::PathBuf;

/// `[cache]`: where entries are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStore {
    /// `None`: below the state directory.
    pub folder: Option<PathBuf>,
    /// Of all entries; 0: no limit.
    pub bytes_max: u64,
    pub entries_max: u64,
    /// Of one site's; 0: no limit of their own.
    pub site_bytes_max: u64,
    pub site_entries_max: u64,
    /// What workers together keep in memory of it.
    pub memory_bytes_max: u64,
    /// Entries with more content are not kept.
    pub entry_bytes_max: u64,
    /// Room on the disk that is left to others; `None`: 1 GiB, or a twentieth of a smaller disk.
    pub disk_reserve_bytes: Option<u64>,
    /// Sitemaps whose pages are made when the server has started, and again after so many seconds;
    /// 0: once.
    pub warmed: Vec<String>,
    pub warmed_every_s: u64,
    /// Who may purge by request (PURGE, REFRESH, BAN), besides whom a site names.
    pub purgers: Vec<Network>,
    /// Something may come to use it that the model does not show, such as a `.htaccess` file.
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

/// What the cache does for requests to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Requests are answered from it, and responses kept in it.
    pub is_on: bool,
    /// For all, and for one visitor alone (LSCache's private entries).
    pub public: bool,
    pub private: bool,
    /// Responses without a word are kept for the visitor alone (LSCache's `CacheEnable private`);
    /// for all, it is `ttl_default_s` that says so.
    pub unasked_private: bool,
    /// What applications are told about it, be it on here or not: so they know that they may switch
    /// it on.
    pub offer: CacheOffer,
    /// HTTP's own words are heard (RFC 9111: Cache-Control, Expires, CDN-Cache-Control and their
    /// kin).
    pub obeys_http: bool,
    /// Of HTTP's words, only those count that are for shared caches alone: public, s-maxage,
    /// CDN-Cache-Control.
    pub shared_words_only: bool,
    /// LSCache's are (X-LiteSpeed-Cache-Control and its kin), before HTTP's own.
    pub obeys_lscache: bool,
    /// Seconds that a response is fresh for which says nothing about it; `None`: such responses are
    /// not kept.
    pub ttl_default_s: Option<u64>,
    /// In place of whatever the response says.
    pub ttl_override_s: Option<u64>,
    pub ttl_max_s: Option<u64>,
    /// Bounds what was guessed, not what the response says.
    pub ttl_min_s: u64,
    /// `ttl_default_s` is for responses with an ETag or a Last-Modified only (mod_cache).
    pub default_needs_validator: bool,
    /// Of an LSCache entry that says no age: public, private.
    pub lscache_ttl_s: (u64, u64),
    /// A response without a word, but with a Last-Modified, is fresh for that part of its age, in
    /// percent.
    pub heuristic_percent: u64,
    /// How long after its end an entry is served while a new one is made, and while none can be
    /// had.
    pub grace_s: u64,
    pub stale_if_error_s: u64,
    /// What the client says of freshness (reload) is heard, as mod_cache does.
    pub honours_client: bool,
    /// Parameters of the query that make no other page: names, or their beginnings with `*`.
    pub ignored_parameters: Vec<String>,
    /// Names of `;name=value` at the end of a path, which make no other page (session identifiers).
    pub ignored_path_parameters: Vec<String>,
    /// Requests with a query, and those with cookies, are served from it and kept, too.
    pub with_query: bool,
    pub with_cookies: bool,
    /// A request with such a cookie is answered by the application; names, or their beginnings with
    /// `*`. Where the response says that it is for all, it is kept all the same.
    pub session_cookies: Option<Vec<String>>,
    /// Cookies that are as good as not sent (of statistics, say): names, or their beginnings with
    /// `*`. The application gets them all the same.
    pub ignored_cookies: Vec<String>,
    /// Cookies whose values make another page.
    pub vary_cookies: Vec<String>,
    /// Request fields beyond HTTP's own that a response's Vary may name to an LSCache entry, in
    /// lower case.
    pub vary_fields: Vec<String>,
    /// LSCache's vary string is no part of the key.
    pub no_vary: bool,
    /// A visitor with private entries is known by the address as well as by cookies.
    pub identity_by_address: bool,
    /// Hosts of this server that pages may include parts of, though the client's own listener does
    /// not lead to them.
    pub include_hosts: Vec<String>,
    /// Paths that are left alone, by what they contain.
    pub excluded_paths: Vec<String>,
    /// Of the content: smaller and larger ones are not kept. `CacheStore::entry_bytes_max` bounds
    /// all.
    pub entry_bytes_min: u64,
    pub entry_bytes_max: Option<u64>,
    /// The client is told what the cache did: Cache-Status (RFC 9211); X-LiteSpeed-Cache always is
    /// where LSCache's words are heard.
    pub tells_status: bool,
    /// A field that says what the cache did in one word, as `$upstream_cache_status` does.
    pub result_field: Option<String>,
    /// The same in Apache's words: X-Cache, X-Cache-Detail.
    pub apache_field: bool,
    pub apache_detail_field: bool,
    /// Phones, tablets and other browsers get pages of their own.
    pub varies_by_device: bool,
    /// Pages that are fetched again when they were purged, those first that are asked for most.
    pub refetched_max: usize,
    /// Pages in demand are made anew when that part of their life is left, in percent; 0: when it
    /// is over.
    pub refresh_ahead_percent: u64,
    /// Response fields that are not kept.
    pub ignored_fields: Vec<String>,
    /// Kept although the response says otherwise (mod_cache's CacheStorePrivate, -NoStore,
    /// -Expired).
    pub stores_private: bool,
    pub stores_no_store: bool,
    pub stores_expired: bool,
    /// A URL with a query is kept only if the response says how long (mod_cache without
    /// CacheIgnoreQueryString).
    pub query_needs_expiry: bool,
    /// A request with `no-store` is not answered from the cache either (mod_cache without
    /// CacheIgnoreCacheControl).
    pub no_store_bypasses: bool,
    /// Others that may purge this site's entries by request.
    pub purgers: Vec<Network>,
    /// Where a request's own X-LiteSpeed-Purge is carried out, from whoever may purge.
    pub purge_path: Option<String>,
}

/// What `X-LSCACHE` and `X-LITEMAGE` tell applications that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOffer {
    /// `on`; without it, nothing is told.
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
    /// Names of parameters that follow visitors about and make no other page, which `tracking`
    /// stands for.
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
    /// Off; and when it is on, what is safe without knowing the site.
    fn default() -> CacheUse {
        CacheUse {
            is_on: false,
            public: true,
            private: true,
            unasked_private: false,
            offer: CacheOffer::NOTHING,
            obeys_http: true,
            shared_words_only: false,
            obeys_lscache: true,
            ttl_default_s: None,
            ttl_override_s: None,
            ttl_max_s: None,
            ttl_min_s: 0,
            default_needs_validator: false,
            lscache_ttl_s: (3600, 3600),
            heuristic_percent: 0,
            grace_s: 10,
            stale_if_error_s: 0,
            honours_client: false,
            ignored_parameters: Vec::new(),
            ignored_path_parameters: Vec::new(),
            with_query: true,
            with_cookies: true,
            session_cookies: None,
            ignored_cookies: Vec::new(),
            vary_cookies: Vec::new(),
            vary_fields: Vec::new(),
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
            stores_expired: false,
            query_needs_expiry: false,
            no_store_bypasses: false,
            purgers: Vec::new(),
            purge_path: None,
        }
    }
}
