//! What the configuration says of the cache, as the rules want it; made once per set of settings.

use saker_cache_rules::{
    lscache::{query::KeyEdits, settings::LscacheSettings},
    rules::{ClientControl, RuleSettings},
};
use saker_config::model::CacheUse;
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

/// Beyond that many, those that nobody uses are forgotten (`.htaccess` files come and go).
const KEPT_MAX: usize = 256;

pub struct Terms {
    pub given: Arc<CacheUse>,
    pub http: RuleSettings,
    pub lscache: LscacheSettings,
    pub edits: KeyEdits,
}

/// By the address of the settings, which each of them holds.
#[derive(Default)]
pub struct AllTerms(RefCell<HashMap<usize, Rc<Terms>>>);

impl AllTerms {
    pub fn of(&self, given: &Arc<CacheUse>) -> Rc<Terms> {
        let mut known = self.0.borrow_mut();
        if known.len() > KEPT_MAX {
            known.retain(|_, terms| Rc::strong_count(terms) > 1);
        }
        Rc::clone(
            known
                .entry(Arc::as_ptr(given) as usize)
                .or_insert_with(|| Rc::new(Terms::new(given))),
        )
    }
}

impl Terms {
    /// Whether a cookie is as good as not sent.
    pub fn ignores_cookie(&self, name: &[u8]) -> bool {
        self.given
            .ignored_cookies
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start.as_bytes()),
                None => name == known.as_bytes(),
            })
    }

    pub fn new(given: &Arc<CacheUse>) -> Terms {
        Terms {
            given: Arc::clone(given),
            http: http(given),
            lscache: lscache(given),
            edits: edits(given),
        }
    }
}

fn http(given: &CacheUse) -> RuleSettings {
    let standard = RuleSettings::default();
    RuleSettings {
        client: if given.honours_client {
            ClientControl::Honoured
        } else {
            ClientControl::Ignored
        },
        default_ttl_s: given.ttl_default_s,
        default_ttl_needs_validator: given.default_needs_validator,
        ttl_min_s: given.ttl_min_s,
        ttl_override_s: given.ttl_override_s,
        ttl_max_s: given.ttl_max_s.unwrap_or(standard.ttl_max_s),
        heuristic_percent: given.heuristic_percent,
        stale_while_revalidate_s: given.grace_s,
        stale_if_error_s: given.stale_if_error_s,
        store_private: given.stores_private,
        store_no_store: given.stores_no_store,
        store_expired: given.stores_expired,
        query_needs_expiry: given.query_needs_expiry,
        no_store_bypasses: given.no_store_bypasses,
        shared_words_only: given.shared_words_only,
        session_cookies: given.session_cookies.clone(),
        ignored_fields: given.ignored_fields.clone(),
        store_parts: true,
        ..RuleSettings::default()
    }
}

fn lscache(given: &CacheUse) -> LscacheSettings {
    let (expire_s, private_expire_s) = given.lscache_ttl_s;
    LscacheSettings {
        enable_private: given.unasked_private,
        no_vary: given.no_vary,
        purge_path: given.purge_path.clone(),
        vary_fields: given.vary_fields.clone(),
        identity_by_address: given.identity_by_address,
        check_public: given.public,
        check_private: given.private,
        store_with_query: given.with_query,
        store_with_request_cookie: given.with_cookies,
        ignore_response_control: true,
        expire_s,
        private_expire_s,
        max_stale_s: given.grace_s,
        object_bytes_max: 0,
        session_cookies: given.session_cookies.clone().unwrap_or_default(),
        ignored_cookies: given.ignored_cookies.clone(),
        ..LscacheSettings::default()
    }
}

fn edits(given: &CacheUse) -> KeyEdits {
    let mut edits = KeyEdits::default();
    for name in &given.ignored_parameters {
        // Names that are none were refused while the configuration was read.
        let _ = edits.add(format!("-qs:{name}").as_bytes());
    }
    edits
}
