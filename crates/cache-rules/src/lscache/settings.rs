//! The parameters of an LSCache site (LSCache protocol 12), with the protocol's defaults.
//!
//! Called by: the page cache, which fills them from the configuration.
//! Caveat: names follow the protocol, in its order.
//! Out of scope: HTTP's rules (`rules::settings`).

/// The parameters of a site.
#[derive(Clone, Debug)]
pub struct LscacheSettings {
    /// `enableCache`, `enablePrivateCache`: store without the application's request.
    pub enable_public: bool,
    pub enable_private: bool,
    /// `checkPublicCache`, `checkPrivateCache` (`CacheLookup`).
    pub check_public: bool,
    pub check_private: bool,
    /// `qsCache`.
    pub store_with_query: bool,
    /// `reqCookieCache`.
    pub store_with_request_cookie: bool,
    /// `respCookieCache`.
    pub store_with_response_cookie: bool,
    /// `ignoreReqCacheCtrl`.
    pub ignore_request_control: bool,
    /// `ignoreRespCacheCtrl`.
    pub ignore_response_control: bool,
    /// `expireInSeconds`, `privateExpireInSeconds`.
    pub expire_s: u64,
    pub private_expire_s: u64,
    /// `maxStaleAge`.
    pub max_stale_s: u64,
    /// `maxCacheObjSize`; 0 is no limit.
    pub object_bytes_max: u64,
    /// `noCacheDomain`, `noCacheUrl`: hosts, and substrings of URLs.
    pub off_hosts: Vec<String>,
    pub off_urls: Vec<String>,
    /// `no-vary`.
    pub no_vary: bool,
    /// `purgeUri`.
    pub purge_path: Option<String>,
    /// Session cookies in addition to the default ones ([`crate::cookie_names`]).
    pub session_cookies: Vec<String>,
    /// Cookies that count as not sent.
    pub ignored_cookies: Vec<String>,
    /// The address is part of a client's identity.
    pub identity_by_address: bool,
}

impl Default for LscacheSettings {
    fn default() -> Self {
        LscacheSettings {
            enable_public: false,
            enable_private: false,
            check_public: true,
            check_private: true,
            store_with_query: true,
            store_with_request_cookie: true,
            store_with_response_cookie: true,
            ignore_request_control: true,
            ignore_response_control: false,
            expire_s: 3_600,
            private_expire_s: 3_600,
            max_stale_s: 200,
            object_bytes_max: 10_000_000,
            off_hosts: Vec::new(),
            off_urls: Vec::new(),
            no_vary: false,
            purge_path: None,
            session_cookies: Vec::new(),
            ignored_cookies: Vec::new(),
            identity_by_address: false,
        }
    }
}

impl LscacheSettings {
    /// 3.3: true if this host or URL is never cached.
    pub fn is_off(&self, host: &[u8], url: &[u8]) -> bool {
        self.off_hosts
            .iter()
            .any(|off| off.as_bytes().eq_ignore_ascii_case(host))
            || self
                .off_urls
                .iter()
                .any(|off| memchr::memmem::find(url, off.as_bytes()).is_some())
    }
}
