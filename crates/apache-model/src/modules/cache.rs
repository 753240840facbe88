//! The page cache's directives: LiteSpeed's, and those of mod_cache, mod_cache_disk and
//! mod_cache_socache.
//!
//! Two families with one vocabulary: `CacheEnable public /shop` is LiteSpeed's, `CacheEnable disk
//! /shop` Apache's, and what they make of a response that says nothing differs. The difficulty is
//! that enabling goes by the beginning of the URL, while settings are kept by place: so the words
//! are kept here, and [`Cache::verdict`] says what they come to for a path, which is the same for
//! most paths. Absent on purpose: storing, looking up, and where the folder is (`process.rs`).

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_apache_syntax::{Node, Tree};
use saker_config::model::{CacheOffer, CacheUse};
use std::sync::{Arc, LazyLock};

/// mod_cache's CacheDefaultExpire, and LSCache's expireInSeconds.
const TTL_DEFAULT_S: u64 = 3600;

/// mod_cache's CacheMaxExpire.
const TTL_MAX_S: u64 = 86_400;

/// mod_cache's CacheLastModifiedFactor.
const HEURISTIC_PERCENT: u64 = 10;

/// mod_cache's CacheLockMaxAge: for as long as one client fetches, others get what is stale.
const LOCK_MAX_AGE_S: u64 = 5;

/// LSCache's maxStaleAge.
const STALE_S: u64 = 200;

/// mod_cache knows no end of it but its cleaner.
const STALE_ON_ERROR_S: u64 = 86_400;

/// Small where nothing was said, as with thousands of hosts.
#[derive(Clone, Debug, Default)]
pub struct Cache(Option<Box<Said>>);

#[derive(Clone, Debug, Default)]
struct Said {
    /// CacheLookup: entries for all, entries for one client.
    lookup: (Option<bool>, Option<bool>),
    enabling: Vec<Enabling>,
    engine: Option<CacheOffer>,
    litemage: Option<bool>,
    ttl_default_s: Option<u64>,
    ttl_max_s: Option<u64>,
    ttl_min_s: Option<u64>,
    max_stale_s: Option<u64>,
    heuristic_percent: Option<u64>,
    ignores_no_validator: Option<bool>,
    ignores_client: Option<bool>,
    store_private: Option<bool>,
    store_no_store: Option<bool>,
    stale_on_error: Option<bool>,
    lock: Option<bool>,
    lock_max_age_s: Option<u64>,
    ignored_fields: Option<Vec<String>>,
    ignores_query: Option<bool>,
    session_identifiers: Option<Vec<String>>,
    parameters: Parameters,
    vary_fields: Option<Vec<String>>,
    entry_bytes_min: Option<u64>,
    entry_bytes_max: Option<u64>,
    header: Option<bool>,
    detail_header: Option<bool>,
}

/// One CacheEnable or CacheDisable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Enabling {
    enables: bool,
    whose: Whose,
    /// Beginning of the URL's path.
    prefix: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Public,
    Private,
    /// mod_cache's.
    Httpd,
}

/// CacheKeyModify.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parameters {
    /// The parameters that were set outside do not count.
    is_cleared: bool,
    ignored: Vec<String>,
}

/// The result of the directives for a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verdict {
    public: bool,
    private: bool,
    /// Responses are kept that say nothing: LiteSpeed's CacheEnable.
    unasked_public: bool,
    unasked_private: bool,
    /// mod_cache's CacheEnable.
    by_httpd: bool,
}

impl Cache {
    pub const DIRECTIVES: &'static [(&'static str, Set<Cache>)] = &[
        ("CacheLookup", set_lookup),
        ("CacheEnable", set_enable),
        ("CacheDisable", set_disable),
        ("CacheEngine", set_engine),
        ("LiteMage", |node, cache, _| {
            set_flag(node, &mut cache.say().litemage)
        }),
        ("CacheDefaultExpire", |node, cache, _| {
            set_number(node, &mut cache.say().ttl_default_s)
        }),
        ("CacheMaxExpire", |node, cache, _| {
            set_number(node, &mut cache.say().ttl_max_s)
        }),
        ("CacheMinExpire", |node, cache, _| {
            set_number(node, &mut cache.say().ttl_min_s)
        }),
        ("CacheMaxStaleAge", |node, cache, _| {
            set_number(node, &mut cache.say().max_stale_s)
        }),
        ("CacheLastModifiedFactor", set_factor),
        ("CacheIgnoreNoLastMod", |node, cache, _| {
            set_flag(node, &mut cache.say().ignores_no_validator)
        }),
        ("CacheIgnoreCacheControl", |node, cache, _| {
            set_flag(node, &mut cache.say().ignores_client)
        }),
        ("CacheStorePrivate", |node, cache, _| {
            set_flag(node, &mut cache.say().store_private)
        }),
        ("CacheStoreNoStore", |node, cache, _| {
            set_flag(node, &mut cache.say().store_no_store)
        }),
        ("CacheStaleOnError", |node, cache, _| {
            set_flag(node, &mut cache.say().stale_on_error)
        }),
        ("CacheLock", |node, cache, _| {
            set_flag(node, &mut cache.say().lock)
        }),
        ("CacheLockMaxAge", |node, cache, _| {
            set_number(node, &mut cache.say().lock_max_age_s)
        }),
        ("CacheIgnoreHeaders", |node, cache, _| {
            set_names(node, &mut cache.say().ignored_fields)
        }),
        ("CacheIgnoreQueryString", |node, cache, _| {
            set_flag(node, &mut cache.say().ignores_query)
        }),
        ("CacheIgnoreURLSessionIdentifiers", |node, cache, _| {
            set_names(node, &mut cache.say().session_identifiers)
        }),
        ("CacheKeyModify", set_parameters),
        ("ReqHeaderVary", |node, cache, _| {
            set_names(node, &mut cache.say().vary_fields)
        }),
        ("CacheMinFileSize", |node, cache, _| {
            set_number(node, &mut cache.say().entry_bytes_min)
        }),
        ("CacheMaxFileSize", |node, cache, _| {
            set_number(node, &mut cache.say().entry_bytes_max)
        }),
        ("CacheSocacheMaxSize", |node, cache, _| {
            set_number(node, &mut cache.say().entry_bytes_max)
        }),
        ("CacheSocacheMaxTime", |node, cache, _| {
            set_number(node, &mut cache.say().ttl_max_s)
        }),
        ("CacheHeader", |node, cache, _| {
            set_flag(node, &mut cache.say().header)
        }),
        ("CacheDetailHeader", |node, cache, _| {
            set_flag(node, &mut cache.say().detail_header)
        }),
    ];

    pub fn merge(&self, over: &Cache) -> Cache {
        Cache(match (&self.0, &over.0) {
            (Some(outside), Some(over)) => Some(Box::new(outside.merge(over))),
            (outside, over) => said(outside, over),
        })
    }

    pub fn verdict(&self, path: &[u8]) -> Verdict {
        self.0
            .as_ref()
            .map_or_else(Verdict::default, |said| said.verdict(path))
    }

    /// True if a directive about the cache is in force.
    pub fn is_said(&self) -> bool {
        self.0.is_some()
    }

    /// Shared by all that say nothing.
    pub fn in_use(&self, verdict: Verdict) -> Arc<CacheUse> {
        static NOTHING_SAID: LazyLock<Arc<CacheUse>> =
            LazyLock::new(|| Arc::new(Said::default().in_use(Verdict::default())));
        self.0.as_ref().map_or_else(
            || Arc::clone(&NOTHING_SAID),
            |said| Arc::new(said.in_use(verdict)),
        )
    }

    fn say(&mut self) -> &mut Said {
        self.0.get_or_insert_default()
    }
}

/// Returns whether caching is switched on, or may be in an `.htaccess` file.
pub fn is_expected(tree: &Tree) -> bool {
    let mut is_expected = false;
    tree.walk(&mut |node| {
        is_expected |= match node.canonical_name() {
            "CacheEnable" | "CacheLookup" => true,
            "AllowOverride" | "AllowOverrideList" => node
                .arguments()
                .iter()
                .any(|word| !word.eq_ignore_ascii_case(b"none")),
            _ => false,
        };
    });
    is_expected
}

impl Verdict {
    fn is_on(self) -> bool {
        self.public || self.private
    }
}

impl Said {
    fn merge(&self, over: &Said) -> Said {
        Said {
            lookup: (
                over.lookup.0.or(self.lookup.0),
                over.lookup.1.or(self.lookup.1),
            ),
            enabling: self
                .enabling
                .iter()
                .chain(&over.enabling)
                .cloned()
                .collect(),
            engine: over.engine.or(self.engine),
            litemage: over.litemage.or(self.litemage),
            ttl_default_s: over.ttl_default_s.or(self.ttl_default_s),
            ttl_max_s: over.ttl_max_s.or(self.ttl_max_s),
            ttl_min_s: over.ttl_min_s.or(self.ttl_min_s),
            max_stale_s: over.max_stale_s.or(self.max_stale_s),
            heuristic_percent: over.heuristic_percent.or(self.heuristic_percent),
            ignores_no_validator: over.ignores_no_validator.or(self.ignores_no_validator),
            ignores_client: over.ignores_client.or(self.ignores_client),
            store_private: over.store_private.or(self.store_private),
            store_no_store: over.store_no_store.or(self.store_no_store),
            stale_on_error: over.stale_on_error.or(self.stale_on_error),
            lock: over.lock.or(self.lock),
            lock_max_age_s: over.lock_max_age_s.or(self.lock_max_age_s),
            ignored_fields: said(&self.ignored_fields, &over.ignored_fields),
            ignores_query: over.ignores_query.or(self.ignores_query),
            session_identifiers: said(&self.session_identifiers, &over.session_identifiers),
            parameters: self.parameters.merge(&over.parameters),
            vary_fields: said(&self.vary_fields, &over.vary_fields),
            entry_bytes_min: over.entry_bytes_min.or(self.entry_bytes_min),
            entry_bytes_max: over.entry_bytes_max.or(self.entry_bytes_max),
            header: over.header.or(self.header),
            detail_header: over.detail_header.or(self.detail_header),
        }
    }

    /// Evaluates the directives for a path. CacheDisable overrides CacheEnable (httpd 2.4,
    /// mod_cache; LSCache likewise).
    fn verdict(&self, path: &[u8]) -> Verdict {
        let says = |enables: bool, whose: Whose| {
            let fits = |one: &&Enabling| {
                one.enables == enables
                    && one.whose == whose
                    && path.starts_with(one.prefix.as_bytes())
            };
            self.enabling.iter().any(|one| fits(&one))
        };
        let is_off = self.engine.is_some_and(|engine| !engine.pages) || says(false, Whose::Httpd);
        let can_public = !is_off && self.lookup.0 != Some(false) && !says(false, Whose::Public);
        let can_private = !is_off && self.lookup.1 != Some(false) && !says(false, Whose::Private);
        let unasked_public = can_public && says(true, Whose::Public);
        let unasked_private = can_private && says(true, Whose::Private);
        let by_httpd = can_public && says(true, Whose::Httpd);
        Verdict {
            public: unasked_public || by_httpd || can_public && self.lookup.0 == Some(true),
            private: unasked_private || can_private && self.lookup.1 == Some(true),
            unasked_public,
            unasked_private,
            by_httpd,
        }
    }

    fn in_use(&self, verdict: Verdict) -> CacheUse {
        let defaults = CacheUse {
            is_on: verdict.is_on(),
            public: verdict.public,
            private: verdict.private,
            unasked_private: verdict.unasked_private,
            offer: self.offer(),
            // LSCache protocol 6.2: where only the application's words count, HTTP's are not among
            // them.
            obeys_http: verdict.by_httpd || verdict.unasked_public || verdict.unasked_private,
            obeys_lscache: true,
            entry_bytes_min: self.entry_bytes_min.unwrap_or(0),
            entry_bytes_max: self.entry_bytes_max.filter(|bytes| *bytes > 0),
            stores_private: self.store_private == Some(true),
            stores_no_store: self.store_no_store == Some(true),
            query_needs_expiry: verdict.by_httpd && self.ignores_query != Some(true),
            no_store_bypasses: verdict.by_httpd && self.ignores_client != Some(true),
            apache_field: self.header == Some(true),
            apache_detail_field: self.detail_header == Some(true),
            ignored_fields: self.ignored_fields.clone().unwrap_or_default(),
            key_fields: self.vary_fields.clone().unwrap_or_default(),
            ..CacheUse::default()
        };
        self.with_parameters(self.with_lives(defaults, verdict))
    }

    fn with_lives(&self, cache: CacheUse, verdict: Verdict) -> CacheUse {
        let is_unasked = verdict.by_httpd || verdict.unasked_public;
        let ttl_s = self.ttl_default_s.unwrap_or(TTL_DEFAULT_S);
        let of_lock = if self.lock == Some(true) {
            self.lock_max_age_s.unwrap_or(LOCK_MAX_AGE_S)
        } else {
            0
        };
        let on_error = verdict.by_httpd && self.stale_on_error != Some(false)
            || self.stale_on_error == Some(true);
        CacheUse {
            ttl_default_s: is_unasked.then_some(ttl_s),
            ttl_max_s: self.ttl_max_s.or(verdict.by_httpd.then_some(TTL_MAX_S)),
            ttl_min_s: self.ttl_min_s.unwrap_or(0),
            lscache_ttl_s: (ttl_s, ttl_s),
            heuristic_percent: if verdict.by_httpd {
                self.heuristic_percent.unwrap_or(HEURISTIC_PERCENT)
            } else {
                0
            },
            is_heuristic_chosen: true,
            default_needs_validator: verdict.by_httpd && self.ignores_no_validator != Some(true),
            honors_client: verdict.by_httpd && self.ignores_client != Some(true)
                || self.ignores_client == Some(false),
            grace_s: self
                .max_stale_s
                .unwrap_or(if verdict.by_httpd { of_lock } else { STALE_S }),
            is_grace_chosen: true,
            stale_if_error_s: if on_error { STALE_ON_ERROR_S } else { 0 },
            ..cache
        }
    }

    fn with_parameters(&self, cache: CacheUse) -> CacheUse {
        let identifiers = self.session_identifiers.clone().unwrap_or_default();
        let all = (self.ignores_query == Some(true)).then(|| "*".to_owned());
        let ignored = self
            .parameters
            .ignored
            .iter()
            .chain(&identifiers)
            .cloned()
            .chain(all);
        CacheUse {
            ignored_parameters: ignored.collect(),
            ignored_path_parameters: identifiers,
            ..cache
        }
    }

    /// Told even where nothing is kept yet: it is by this that applications know to write
    /// `CacheLookup on`.
    fn offer(&self) -> CacheOffer {
        let offer = self.engine.unwrap_or(CacheOffer::ALL);
        CacheOffer {
            litemage: offer.pages && self.litemage != Some(false),
            ..offer
        }
    }
}

impl Parameters {
    fn merge(&self, over: &Parameters) -> Parameters {
        let outside = if over.is_cleared {
            &[]
        } else {
            self.ignored.as_slice()
        };
        Parameters {
            is_cleared: self.is_cleared || over.is_cleared,
            ignored: outside.iter().chain(&over.ignored).cloned().collect(),
        }
    }
}

/// `[public|private] on|off`
fn set_lookup(node: &Node, cache: &mut Cache, _: &mut Reading<'_>) -> Result<(), String> {
    let words = lower(node);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (whose, switch) = match words.as_slice() {
        [switch] => (None, *switch),
        ["public", switch] => (Some(Whose::Public), *switch),
        ["private", switch] => (Some(Whose::Private), *switch),
        _ => return Err("CacheLookup takes on or off, and public or private before it".into()),
    };
    let is_on = switched(switch).ok_or("CacheLookup must be on or off")?;
    let lookup = &mut cache.say().lookup;
    if whose != Some(Whose::Private) {
        lookup.0 = Some(is_on);
    }
    if whose != Some(Whose::Public) {
        lookup.1 = Some(is_on);
    }
    Ok(())
}

/// `cache_type [url-string]`, or LiteSpeed's `public|private url-prefix`. Which of its own caches
/// mod_cache keeps it in is nothing to us.
fn set_enable(node: &Node, cache: &mut Cache, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let kind = words
        .first()
        .map(|word| word.to_ascii_lowercase())
        .unwrap_or_default();
    let whose = match kind.as_str() {
        "public" => Whose::Public,
        "private" => Whose::Private,
        _ => Whose::Httpd,
    };
    let Some(prefix) = prefix(node, words.get(1).map(String::as_str), reading)? else {
        return Ok(());
    };
    cache.say().enabling.push(Enabling {
        enables: true,
        whose,
        prefix,
    });
    Ok(())
}

/// `url-string | on`, or LiteSpeed's `public|private url-prefix`
fn set_disable(node: &Node, cache: &mut Cache, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let kinds: &[Whose] = match words
        .first()
        .map(|word| word.to_ascii_lowercase())
        .as_deref()
    {
        Some("public") => &[Whose::Public],
        Some("private") => &[Whose::Private],
        _ => &[Whose::Httpd],
    };
    let url = match (kinds, words.as_slice()) {
        ([Whose::Httpd], [only]) if only.eq_ignore_ascii_case("on") => None,
        ([Whose::Httpd], [only]) => Some(only.as_str()),
        ([Whose::Httpd], _) => return Err(
            "CacheDisable takes one argument, A partial URL prefix below which caching is disabled"
                .into(),
        ),
        (_, words) => words.get(1).map(String::as_str),
    };
    let Some(prefix) = prefix(node, url, reading)? else {
        return Ok(());
    };
    cache
        .say()
        .enabling
        .extend(kinds.iter().map(|whose| Enabling {
            enables: false,
            whose: *whose,
            prefix: prefix.clone(),
        }));
    Ok(())
}

/// The path that a URL begins with; in a `<Location>`, without one, everything there. `None`: it is
/// about a forward proxy, which there is none of.
fn prefix(
    node: &Node,
    url: Option<&str>,
    reading: &mut Reading<'_>,
) -> Result<Option<Box<str>>, String> {
    let Some(url) = url else {
        return Ok(Some("".into()));
    };
    if url.starts_with('/') {
        return Ok(Some(url.into()));
    }
    if url.contains("://") || url.starts_with(['*', '.']) {
        reading.warn(
            node,
            format!(
                "{} {url} is about requests to a forward proxy, and Saker is none",
                node.canonical_name()
            ),
        );
        return Ok(None);
    }
    Err(format!("{}: {url} is no path", node.canonical_name()))
}

/// `off`, or some of `on`, `crawler`, `esi`
fn set_engine(node: &Node, cache: &mut Cache, _: &mut Reading<'_>) -> Result<(), String> {
    let mut offer = CacheOffer::NOTHING;
    for word in lower(node) {
        match word.as_str() {
            "off" => offer = CacheOffer::NOTHING,
            "on" => offer.pages = true,
            "crawler" => (offer.pages, offer.crawler) = (true, true),
            "esi" => (offer.pages, offer.esi) = (true, true),
            other => {
                return Err(format!(
                    "CacheEngine takes on, off, crawler and esi, not {other}"
                ));
            }
        }
    }
    cache.say().engine = Some(offer);
    Ok(())
}

/// `-qs:name`, `-qs:prefix*` and `clear` (LSCache protocol 4.2)
fn set_parameters(node: &Node, cache: &mut Cache, _: &mut Reading<'_>) -> Result<(), String> {
    let parameters = &mut cache.say().parameters;
    for word in texts(node) {
        match word.strip_prefix("-qs:").filter(|name| !name.is_empty()) {
            Some(name) => parameters.ignored.push(name.to_owned()),
            None if word.eq_ignore_ascii_case("clear") => {
                *parameters = Parameters {
                    is_cleared: true,
                    ignored: Vec::new(),
                }
            }
            None => {
                return Err(format!(
                    "CacheKeyModify takes -qs:name, -qs:prefix* and clear, not {word}"
                ));
            }
        }
    }
    Ok(())
}

/// A fraction, kept in percent.
fn set_factor(node: &Node, cache: &mut Cache, _: &mut Reading<'_>) -> Result<(), String> {
    let factor = texts(node)
        .first()
        .and_then(|word| word.parse::<f64>().ok())
        .filter(|factor| (0.0..=1e6).contains(factor));
    let factor = factor.ok_or("CacheLastModifiedFactor value must be a float")?;
    // In bounds, as was just seen.
    cache.say().heuristic_percent = Some((factor * 100.0).round() as u64);
    Ok(())
}

/// Names, or None; further lines add up.
fn set_names(node: &Node, slot: &mut Option<Vec<String>>) -> Result<(), String> {
    let names = slot.get_or_insert_default();
    for word in texts(node) {
        match word.eq_ignore_ascii_case("none") {
            true => names.clear(),
            false => names.push(word),
        }
    }
    Ok(())
}

fn set_number(node: &Node, slot: &mut Option<u64>) -> Result<(), String> {
    let number = texts(node).first().and_then(|word| word.parse().ok());
    *slot = Some(number.ok_or_else(|| {
        format!(
            "{} value must be a non-negative integer",
            node.canonical_name()
        )
    })?);
    Ok(())
}

fn switched(word: &str) -> Option<bool> {
    match word {
        "on" | "1" => Some(true),
        "off" | "0" => Some(false),
        _ => None,
    }
}

fn lower(node: &Node) -> Vec<String> {
    texts(node)
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
