//! What clients are told of the cache, where a site wants that: Cache-Status (RFC 9211), one word
//! as nginx has it, X-Cache as mod_cache has it.

use super::page::{Page, Told};
use saker_cache_rules::rules::CacheStatus;
use saker_config::model::{CacheUse, SiteName};
use saker_http::{Fields, fields::known_name};
use saker_pipeline::Exchange;
use std::rc::Rc;

/// What the cache did, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    Hit,
    Stale,
    Miss,
    /// There was one, past its time.
    Expired,
    Revalidated,
    Bypass,
}

impl Result {
    /// As `$upstream_cache_status`.
    fn word(self) -> &'static str {
        match self {
            Result::Hit => "HIT",
            Result::Stale => "STALE",
            Result::Miss => "MISS",
            Result::Expired => "EXPIRED",
            Result::Revalidated => "REVALIDATED",
            Result::Bypass => "BYPASS",
        }
    }

    /// As mod_cache's X-Cache, and what its X-Cache-Detail says where nothing else does.
    fn apache(self) -> (&'static str, &'static str) {
        match self {
            Result::Hit | Result::Stale => ("HIT", "cache hit"),
            Result::Miss | Result::Bypass => ("MISS", "cache miss: attempting entity save"),
            Result::Expired => ("MISS", "conditional cache miss: entity refreshed"),
            Result::Revalidated => ("REVALIDATE", "conditional cache hit: entity refreshed"),
        }
    }
}

/// Of an answer that was made of a page.
pub fn status(page: &Page, told: Told, now: i64) -> CacheStatus<'static> {
    let ttl_s = (page.life.fresh_until_ms - now.saturating_mul(1000)) / 1000;
    let detail = (told == Told::Stale).then_some("stale");
    CacheStatus {
        hit: true,
        ttl_s: Some(ttl_s),
        detail,
        ..CacheStatus::default()
    }
}

/// Fields for it. `server`: by what name the site is known; `why`: of what was not kept.
pub fn tell(
    fields: &mut Fields,
    given: &CacheUse,
    result: Result,
    server: Option<&str>,
    why: Option<&str>,
) {
    if let Some(name) = &given.result_field {
        fields.set(known_name(name), result.word().as_bytes().to_vec());
    }
    let (word, detail) = result.apache();
    let server = server.unwrap_or_default();
    if given.apache_field {
        fields.set("X-Cache", format!("{word} from {server}").into_bytes());
    }
    if given.apache_detail_field {
        fields.set(
            "X-Cache-Detail",
            format!("\"{}\" from {server}", why.unwrap_or(detail)).into_bytes(),
        );
    }
}

/// The site's name, where somebody is told; without one, the host that was asked for.
pub fn server_name(exchange: &Exchange) -> Option<Rc<str>> {
    let given = &exchange.settings.cache;
    if !given.apache_field && !given.apache_detail_field {
        return None;
    }
    let named = exchange.site.names.iter().find_map(|name| match name {
        SiteName::Exact(name) => Some(name.as_str()),
        SiteName::Wildcard(_) | SiteName::Any => None,
    });
    Some(named.map_or_else(|| String::from_utf8_lossy(&exchange.host).into(), Rc::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let mut fields = Fields::new();
        let given = CacheUse {
            result_field: Some("X-Cache-Result".into()),
            apache_field: true,
            apache_detail_field: true,
            ..CacheUse::default()
        };
        tell(
            &mut fields,
            &given,
            Result::Revalidated,
            Some("a.example"),
            None,
        );
        tell(&mut fields, &given, Result::Hit, Some("a.example"), None);
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
        tell(&mut fields, &CacheUse::default(), Result::Hit, None, None);
        assert_eq!(fields.iter().count(), 0);
    }
}
