//! Response fields that report what the cache did: Cache-Status (RFC 9211), nginx's one word,
//! mod_cache's X-Cache.
//!
//! Called by: `page` and `store_response`.
//! Caveat: sent only where the site's settings ask for them.
//! Out of scope: LiteSpeed's fields (`saker_cache_rules::lscache::visible`).

use saker_cache_rules::rules::{CacheStatus, Forward};
use saker_config::model::{CacheUse, SiteName};
use saker_http::{Fields, fields::known_name};
use saker_pipeline::Exchange;
use std::rc::Rc;

/// Kind of a cache hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitStatus {
    Hit,
    Stale,
    /// The bytes that were missing have just been fetched.
    Completed,
}

/// Result of the look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    Hit,
    Stale,
    Miss,
    /// An entry existed, past its lifetime.
    Expired,
    Revalidated,
    Bypass,
    /// An expired entry was used while another request updates it.
    Updating,
}

impl CacheResult {
    /// Returns the word of nginx's `$upstream_cache_status`.
    pub fn word(self) -> &'static str {
        match self {
            CacheResult::Hit => "HIT",
            CacheResult::Stale => "STALE",
            CacheResult::Miss => "MISS",
            CacheResult::Expired => "EXPIRED",
            CacheResult::Revalidated => "REVALIDATED",
            CacheResult::Bypass => "BYPASS",
            CacheResult::Updating => "UPDATING",
        }
    }

    /// mod_cache's X-Cache, and the default text of its X-Cache-Detail.
    fn apache(self) -> (&'static str, &'static str) {
        match self {
            CacheResult::Hit | CacheResult::Stale | CacheResult::Updating => ("HIT", "cache hit"),
            CacheResult::Miss | CacheResult::Bypass => {
                ("MISS", "cache miss: attempting entity save")
            }
            CacheResult::Expired => ("MISS", "conditional cache miss: entity refreshed"),
            CacheResult::Revalidated => ("REVALIDATE", "conditional cache hit: entity refreshed"),
        }
    }
}

/// Cache-Status of a response made from a page.
pub fn status(fresh_until_ms: i64, hit: HitStatus, now: i64) -> CacheStatus<'static> {
    let ttl_s = (fresh_until_ms - now.saturating_mul(1000)) / 1000;
    let detail = (hit == HitStatus::Stale).then_some("stale");
    let is_completed = hit == HitStatus::Completed;
    CacheStatus {
        hit: !is_completed,
        forward: is_completed.then_some(Forward::Partial),
        stored: is_completed,
        ttl_s: Some(ttl_s),
        detail,
        ..CacheStatus::default()
    }
}

/// Adds the fields. `server`: the site's name; `why`: why the response was not stored.
pub fn tell(
    fields: &mut Fields,
    config: &CacheUse,
    result: CacheResult,
    server: Option<&str>,
    why: Option<&str>,
) {
    if let Some(name) = &config.result_field {
        fields.set(known_name(name), result.word().as_bytes().to_vec());
    }
    let (word, detail) = result.apache();
    let server = server.unwrap_or_default();
    if config.apache_field {
        fields.set("X-Cache", format!("{word} from {server}").into_bytes());
    }
    if config.apache_detail_field {
        fields.set(
            "X-Cache-Detail",
            format!("\"{}\" from {server}", why.unwrap_or(detail)).into_bytes(),
        );
    }
}

/// The site's name, where a field contains it; without one, the requested host.
pub fn server_name(exchange: &Exchange) -> Option<Rc<str>> {
    let config = &exchange.routing.settings.cache;
    if !config.apache_field && !config.apache_detail_field {
        return None;
    }
    let named = exchange
        .routing
        .site
        .names
        .iter()
        .find_map(|name| match name {
            SiteName::Exact(name) => Some(name.as_str()),
            SiteName::Wildcard(_) | SiteName::Any => None,
        });
    Some(named.map_or_else(|| String::from_utf8_lossy(&exchange.host).into(), Rc::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_pages_are_no_hits() {
        let mut fields = Fields::new();
        status(60_000, HitStatus::Completed, 0).append_to(&mut fields, "Saker");
        let value = fields.first("Cache-Status").map(String::from_utf8_lossy);
        assert_eq!(value.as_deref(), Some("Saker; fwd=partial; stored; ttl=60"));
    }

    #[test]
    fn words() {
        let mut fields = Fields::new();
        let config = CacheUse {
            result_field: Some("X-Cache-Result".into()),
            apache_field: true,
            apache_detail_field: true,
            ..CacheUse::default()
        };
        tell(
            &mut fields,
            &config,
            CacheResult::Revalidated,
            Some("a.example"),
            None,
        );
        tell(
            &mut fields,
            &config,
            CacheResult::Hit,
            Some("a.example"),
            None,
        );
        let all: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect();
        assert_eq!(
            all,
            [
                "X-Cache-Result: HIT",
                "X-Cache: HIT from a.example",
                "X-Cache-Detail: \"cache hit\" from a.example"
            ]
        );
        let mut fields = Fields::new();
        tell(
            &mut fields,
            &CacheUse::default(),
            CacheResult::Hit,
            None,
            None,
        );
        assert_eq!(fields.iter().count(), 0);
    }
}
