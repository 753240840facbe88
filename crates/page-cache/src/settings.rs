//! The configuration of the cache in the form that the rules take; made once per set of settings.
//!
//! Called by: `request` and `explain`.
//! Caveat: found by the address of the settings, which each of them keeps alive.
//! Out of scope: parsing the configuration.

use saker_cache_rules::{
    lscache::{query::KeyEdits, settings::LscacheSettings},
    rules::{ClientControl, RuleSettings},
};
use saker_config::model::CacheUse;
use saker_http::{Cookie, HeadView, KnownField};
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

/// Beyond this number, unused ones are dropped (`.htaccess` files come and go).
const KEPT_MAX: usize = 256;

/// Heuristic freshness that the operator has not asked for ends early: a page that was changed is
/// soon seen.
const UNASKED_HEURISTIC_MAX_S: u64 = 600;

pub struct CacheSettings {
    pub config: Arc<CacheUse>,
    pub http: RuleSettings,
    pub lscache: LscacheSettings,
    pub edits: KeyEdits,
}

/// By the address of the settings, which each of them keeps alive.
#[derive(Default)]
pub struct SettingsCache(RefCell<HashMap<usize, Rc<CacheSettings>>>);

impl SettingsCache {
    pub fn of(&self, config: &Arc<CacheUse>) -> Rc<CacheSettings> {
        let mut known = self.0.borrow_mut();
        if known.len() > KEPT_MAX {
            known.retain(|_, settings| Rc::strong_count(settings) > 1);
        }
        Rc::clone(
            known
                .entry(Arc::as_ptr(config) as usize)
                .or_insert_with(|| Rc::new(CacheSettings::new(config))),
        )
    }
}

impl CacheSettings {
    /// True if a cookie counts as not sent.
    pub fn ignores_cookie(&self, name: &[u8]) -> bool {
        self.config
            .ignored_cookies
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start.as_bytes()),
                None => name == known.as_bytes(),
            })
    }

    /// True if the request has a cookie that counts.
    pub fn has_cookie(&self, view: HeadView<'_>) -> bool {
        view.has(KnownField::Cookie)
            && (self.config.ignored_cookies.is_empty()
                || view
                    .cookies()
                    .any(|cookie| !self.ignores_cookie(cookie.name)))
    }

    pub fn new(config: &Arc<CacheUse>) -> CacheSettings {
        CacheSettings {
            config: Arc::clone(config),
            http: http(config),
            lscache: lscache(config),
            edits: edits(config),
        }
    }

    /// True if the request has credentials or a session cookie, so that its page is probably
    /// personal.
    pub fn is_personal(&self, view: HeadView<'_>) -> bool {
        let is_session = |cookie: Cookie<'_>| {
            self.http.is_session_cookie(cookie.name) && !self.ignores_cookie(cookie.name)
        };
        view.has(KnownField::Authorization) || view.cookies().any(is_session)
    }
}

fn http(config: &CacheUse) -> RuleSettings {
    let standard = RuleSettings::default();
    RuleSettings {
        client: if config.honors_client {
            ClientControl::Honored
        } else {
            ClientControl::Ignored
        },
        default_ttl_s: config.ttl_default_s,
        status_ttls_s: config.status_ttls_s.clone(),
        default_ttl_needs_validator: config.default_needs_validator,
        ttl_min_s: config.ttl_min_s,
        ttl_override_s: config.ttl_override_s,
        ttl_max_s: config.ttl_max_s.unwrap_or(standard.ttl_max_s),
        heuristic_percent: match config.is_heuristic_chosen || config.ttl_default_s.is_none() {
            true => config.heuristic_percent,
            false => 0,
        },
        heuristic_max_s: match config.is_heuristic_chosen {
            true => standard.heuristic_max_s,
            false => UNASKED_HEURISTIC_MAX_S,
        },
        heuristic_with_cookies: config.is_heuristic_chosen,
        stale_while_revalidate_s: config.grace_s,
        stated_stale_while_revalidate_s: if config.is_grace_chosen {
            config.grace_s
        } else {
            0
        },
        store_post: config.stores_post,
        store_query: config.stores_query,
        store_cookies: config.stores_cookies,
        store_with_set_cookie: config.with_set_cookie,
        targets: config.targeted_fields.clone(),
        stale_if_error_s: config.stale_if_error_s,
        store_private: config.stores_private,
        store_no_store: config.stores_no_store,
        query_needs_expiry: config.query_needs_expiry,
        no_store_bypasses: config.no_store_bypasses,
        shared_words_only: config.shared_words_only,
        session_cookies: config.session_cookies.clone(),
        key_fields: config.key_fields.clone(),
        ignored_fields: config.ignored_fields.clone(),
        store_parts: true,
        ..RuleSettings::default()
    }
}

fn lscache(config: &CacheUse) -> LscacheSettings {
    let (expire_s, private_expire_s) = config.lscache_ttl_s;
    LscacheSettings {
        enable_private: config.unasked_private,
        no_vary: config.no_vary,
        purge_path: config.purge_path.clone(),
        identity_by_address: config.identity_by_address,
        check_public: config.public,
        check_private: config.private,
        store_with_query: config.with_query,
        store_with_request_cookie: config.with_cookies,
        store_with_response_cookie: config.with_set_cookie,
        ignore_response_control: true,
        expire_s,
        private_expire_s,
        max_stale_s: config.grace_s,
        object_bytes_max: 0,
        session_cookies: config.session_cookies.clone().unwrap_or_default(),
        ignored_cookies: config.ignored_cookies.clone(),
        ..LscacheSettings::default()
    }
}

fn edits(config: &CacheUse) -> KeyEdits {
    let mut edits = KeyEdits::default();
    for name in &config.ignored_parameters {
        // Invalid names were rejected when the configuration was read.
        let _ = edits.add(format!("-qs:{name}").as_bytes());
    }
    for name in &config.ignored_path_parameters {
        edits.remove_from_path(name.as_bytes());
    }
    edits
}
