//! `proxy_cache` and its kin: settings of the modules for upstreams that cache, and zones.
//!
//! Called by: `upstream_setters` (settings), `read_http` (zones), and `finish`, which makes the
//! terms of a location.
//! Caveat: entries of all zones are in one store; a zone keeps keys apart.
//! Out of scope: the page cache (`saker-page-cache`).

use crate::{
    inherit::inherit,
    reading::Reading,
    text::{Part, Text},
    values::{invalid, size, time_ms},
    variables::{Builtin, Variable},
};
use saker_cache_rules::keyed::{IgnoredFields, LockTerms, StaleUse, Terms, Valid};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

/// Statuses that a `*_cache_valid` without statuses is for.
const VALID_STATUSES: [u16; 3] = [200, 301, 302];
/// Time that an entry is kept without requests, where `inactive` says nothing.
const INACTIVE_S: i64 = 600;
/// Time that an expired entry is kept where it may be used, so that it outlasts a failure of the
/// upstream.
const STALE_S: i64 = 7 * 86_400;
/// Bytes of a zone per key, as in nginx on 64 bits.
const KEY_BYTES: u64 = 128;

/// A `*_cache_path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: Box<str>,
    pub keys_max: usize,
    pub inactive_s: i64,
    /// `max_size`
    pub bytes_max: Option<u64>,
}

/// Settings of a level.
#[derive(Clone, Debug, Default)]
pub struct CacheConf {
    /// `None` inside: `off`.
    pub zone: Option<Option<Text>>,
    pub key: Option<Text>,
    pub valid: Option<Arc<[Valid]>>,
    pub bypass: Option<Arc<[Text]>>,
    pub no_cache: Option<Arc<[Text]>>,
    pub use_stale: Option<Arc<[Box<str>]>>,
    pub locks: Option<bool>,
    pub lock_timeout_ms: Option<u64>,
    pub lock_age_ms: Option<u64>,
    pub revalidates: Option<bool>,
    pub updates_in_background: Option<bool>,
    pub uses_min: Option<u64>,
    pub converts_head: Option<bool>,
    /// `*_cache_methods` has POST.
    pub caches_post: Option<bool>,
    /// Ranges that begin there, or behind it, are asked for as they are, and not stored.
    pub range_offset_max: Option<u64>,
}

impl CacheConf {
    pub fn inherit(&mut self, outer: &CacheConf) {
        inherit!(self, outer:
            zone key valid bypass no_cache use_stale locks lock_timeout_ms lock_age_ms revalidates
            updates_in_background uses_min converts_head caches_post range_offset_max
        );
    }
}

/// The cache of a location.
#[derive(Clone, Debug)]
pub struct CacheUse {
    /// Name of the zone, which may have variables.
    pub zone: Text,
    /// `None`: the URL of the upstream.
    pub key: Option<Text>,
    pub terms: Arc<Terms>,
    /// `*_cache_max_range_offset`
    pub range_offset_max: Option<u64>,
    pub bypass: Arc<[Text]>,
    pub no_cache: Arc<[Text]>,
}

/// Makes the cache of a location; `None`: there is none. `ignored`: fields of `*_ignore_headers`;
/// `prefix`: of the directives.
///
/// # Errors
/// nginx's message.
pub fn cache_use(
    cache: &CacheConf,
    ignored: &[Box<str>],
    prefix: &str,
    zones: &[Arc<Zone>],
) -> Result<Option<CacheUse>, String> {
    let Some(Some(zone)) = &cache.zone else {
        return Ok(None);
    };
    let is_proxy = prefix == "proxy";
    let mut inactive_s = INACTIVE_S;
    if let Some(name) = zone.plain() {
        let known = zones.iter().find(|known| *known.name == *name);
        let known =
            known.ok_or_else(|| format!("\"{prefix}_cache\" zone \"{name}\" is unknown"))?;
        inactive_s = known.inactive_s;
    }
    let is_content = |part: &Part| {
        matches!(
            part,
            Part::Variable(Variable::Builtin(Builtin::RequestBodyFile))
        )
    };
    if cache.key.iter().any(|key| key.parts.iter().any(is_content)) {
        return Err(format!(
            "\"{prefix}_cache_key\" has the file of the request's content, which differs from request \
             to request"
        ));
    }
    if cache.key.is_none() && !is_proxy {
        return Err(format!(
            "no \"{prefix}_cache_key\" for \"{prefix}_cache\": all requests would get one response"
        ));
    }
    Ok(Some(CacheUse {
        zone: zone.clone(),
        key: cache.key.clone(),
        terms: Arc::new(terms(cache, ignored, is_proxy, inactive_s)),
        range_offset_max: cache.range_offset_max,
        bypass: cache.bypass.clone().unwrap_or_default(),
        no_cache: cache.no_cache.clone().unwrap_or_default(),
    }))
}

fn terms(cache: &CacheConf, ignored: &[Box<str>], is_proxy: bool, inactive_s: i64) -> Terms {
    let words = cache.use_stale.as_deref().unwrap_or_default();
    let has = |word: &str| words.iter().any(|known| **known == *word);
    let stale = match has("off") {
        true => StaleUse::default(),
        false => StaleUse {
            after_error: has("error") || has("invalid_header"),
            after_timeout: has("timeout"),
            while_updating: has("updating"),
            statuses: words
                .iter()
                .filter_map(|word| word.strip_prefix("http_")?.parse().ok())
                .collect(),
        },
    };
    let ignores = |name: &str| ignored.iter().any(|known| known.eq_ignore_ascii_case(name));
    Terms {
        converts_head: is_proxy && cache.converts_head != Some(false),
        caches_post: cache.caches_post == Some(true),
        keys_have_method: cache.key.iter().any(|key| {
            let method = Part::Variable(Variable::Builtin(Builtin::RequestMethod));
            key.parts.contains(&method)
        }),
        valid: cache.valid.as_deref().unwrap_or_default().to_vec(),
        kept_s: match stale == StaleUse::default() {
            true => inactive_s,
            false => inactive_s.max(STALE_S),
        },
        stale,
        lock: (cache.locks == Some(true)).then(|| LockTerms {
            timeout_ms: cache.lock_timeout_ms.unwrap_or(5000),
            age_ms: cache.lock_age_ms.unwrap_or(5000),
        }),
        revalidates: cache.revalidates == Some(true),
        updates_in_background: cache.updates_in_background == Some(true),
        uses_min: u32::try_from(cache.uses_min.unwrap_or(1)).unwrap_or(u32::MAX),
        ignored: IgnoredFields {
            accel_expires: ignores("X-Accel-Expires"),
            expires: ignores("Expires"),
            cache_control: ignores("Cache-Control"),
            set_cookie: ignores("Set-Cookie"),
            vary: ignores("Vary"),
        },
    }
}

/// Reads a `*_cache_path`.
///
/// # Errors
/// nginx's message.
pub fn zone(directive: &Directive) -> Result<Zone, String> {
    let mut zone = Zone {
        name: "".into(),
        keys_max: 0,
        inactive_s: INACTIVE_S,
        bytes_max: None,
    };
    for word in directive.texts().skip(1) {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("invalid parameter \"{word}\""))?;
        match name {
            "keys_zone" => {
                let invalid = || format!("invalid keys zone size \"{word}\"");
                let (name, bytes) = value.split_once(':').ok_or_else(invalid)?;
                let bytes = size(bytes).ok_or_else(invalid)?;
                if bytes < 8192 {
                    return Err(format!("zone \"{word}\" is too small"));
                }
                zone.name = name.into();
                zone.keys_max = usize::try_from(bytes / KEY_BYTES).unwrap_or(usize::MAX);
            }
            "inactive" => {
                let ms = time_ms(value).ok_or_else(|| format!("invalid inactive value \"{word}\""));
                zone.inactive_s = i64::try_from(ms? / 1000).unwrap_or(i64::MAX);
            }
            "max_size" => {
                let bytes = size(value).ok_or_else(|| format!("invalid max_size value \"{word}\""));
                zone.bytes_max = Some(bytes?);
            }
            "levels" | "use_temp_path" | "min_free" | "manager_files" | "manager_sleep"
            | "manager_threshold" | "loader_files" | "loader_sleep" | "loader_threshold"
            | "purger" | "purger_files" | "purger_sleep" | "purger_threshold" => {}
            _ => return Err(format!("invalid parameter \"{word}\"")),
        }
    }
    match zone.name.is_empty() {
        true => Err(format!(
            "\"{}\" must have \"keys_zone\" parameter",
            directive.name()
        )),
        false => Ok(zone),
    }
}

/// Reads a `*_cache`.
///
/// # Errors
/// nginx's message.
pub fn set_zone(
    directive: &Directive,
    conf: &mut CacheConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    conf.zone = Some(match directive.argument(0) {
        "off" => None,
        name => Some(reading.text(name)?),
    });
    Ok(())
}

/// Reads a `*_cache_valid`.
///
/// # Errors
/// nginx's message.
pub fn set_valid(directive: &Directive, conf: &mut CacheConf) -> Result<(), String> {
    let words: Vec<&str> = directive.texts().collect();
    let (time, statuses) = words.split_last().ok_or("invalid number of arguments")?;
    let ms = time_ms(time).ok_or_else(|| {
        let name = directive.name();
        format!("invalid time value \"{time}\" in \"{name}\" directive")
    })?;
    let mut valid = Valid {
        statuses: Vec::new(),
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
    };
    let mut is_any = false;
    for word in statuses {
        if *word == "any" {
            is_any = true;
            continue;
        }
        let status = word
            .parse()
            .ok()
            .filter(|status| (100..=599).contains(status));
        valid
            .statuses
            .push(status.ok_or_else(|| format!("invalid status \"{word}\""))?);
    }
    if statuses.is_empty() {
        valid.statuses = VALID_STATUSES.to_vec();
    }
    let mut own = vec![valid];
    if is_any {
        let seconds = own.first().map_or(0, |valid| valid.seconds);
        own.retain(|valid| !valid.statuses.is_empty());
        own.push(Valid {
            statuses: Vec::new(),
            seconds,
        });
    }
    let before = conf.valid.take().unwrap_or_default();
    conf.valid = Some(before.iter().cloned().chain(own).collect());
    Ok(())
}

/// Reads conditions.
///
/// # Errors
/// nginx's message.
pub fn conditions(
    directive: &Directive,
    before: &mut Option<Arc<[Text]>>,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let mut all = before.take().unwrap_or_default().to_vec();
    for word in directive.texts() {
        all.push(reading.text(word)?);
    }
    *before = Some(all.into());
    Ok(())
}

/// Reads words of which only some are known.
///
/// # Errors
/// nginx's message.
pub fn words(directive: &Directive, known: &[&str]) -> Result<Arc<[Box<str>]>, String> {
    let mut all: Vec<Box<str>> = Vec::new();
    for word in directive.texts() {
        if !known.contains(&word) {
            return Err(invalid(word));
        }
        all.push(word.into());
    }
    Ok(all.into())
}

pub const STALE_WORDS: [&str; 12] = [
    "error",
    "timeout",
    "invalid_header",
    "updating",
    "http_500",
    "http_502",
    "http_503",
    "http_504",
    "http_403",
    "http_404",
    "http_429",
    "off",
];

/// Reads a `*_cache_methods`: GET and HEAD are always cached. Returns true if POST is, too.
///
/// # Errors
/// nginx's message.
pub fn caches_post(directive: &Directive) -> Result<bool, String> {
    let methods = words(directive, &["GET", "HEAD", "POST"])?;
    Ok(methods.iter().any(|method| **method == *"POST"))
}
