//! Page cache commands on the control socket: JSON to types and back. Pure.
//!
//! Called by: `protocol` and `client`.

use crate::{
    fields::{flag, text, texts},
    warm::WarmVerb,
};
use serde_json::{Map, Value, json};

/// Entries in one answer.
pub const LIST_MAX: usize = 10_000;
const LIST_USUAL: usize = 1_000;
/// Longest content of an entry in one answer; of a longer one, the beginning.
pub const BODY_BYTES_MAX: u64 = 256 << 10;
/// Limit on the time that a purge waits for other servers.
pub const WAIT_MS_MAX: u64 = 60_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheVerb {
    Stat,
    List {
        site: Option<String>,
        max: usize,
    },
    Show {
        url: String,
    },
    /// The beginning of an entry's content, by the id that `Show` gives it.
    Body {
        entry: String,
    },
    Purge(PurgeOrder),
    /// Counts the entries that a purge would concern, and changes nothing.
    Count(PurgeOrder),
    Warm(WarmVerb),
}

/// The entries to purge. Tags, bans, and paths are those of `site`, or of every site without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeOrder {
    /// Absolute, or paths with their queries.
    pub urls: Vec<String>,
    pub tags: Vec<String>,
    /// Varnish's expressions.
    pub bans: Vec<String>,
    pub site: Option<String>,
    /// Everything, of the site where one is named.
    pub all: bool,
    /// Stale from now on, instead of gone.
    pub soft: bool,
    /// Wait for the servers of the cluster, up to this time.
    pub wait_ms: Option<u64>,
}

impl CacheVerb {
    /// `None`: the verb is not about the page cache.
    pub fn parse(verb: &str, request: &Value) -> Option<Result<CacheVerb, String>> {
        Some(match verb {
            "cache-stat" => Ok(CacheVerb::Stat),
            "cache-list" => list(request),
            "cache-show" => match text(request, "url") {
                Ok(Some(url)) => Ok(CacheVerb::Show { url }),
                Ok(None) => Err("no \"url\"".into()),
                Err(why) => Err(why),
            },
            "cache-body" => match text(request, "entry") {
                Ok(Some(entry)) => Ok(CacheVerb::Body { entry }),
                Ok(None) => Err("no \"entry\"".into()),
                Err(why) => Err(why),
            },
            "purge" => purge(request).map(CacheVerb::Purge),
            "purge-count" => purge(request).map(CacheVerb::Count),
            _ => return WarmVerb::parse(verb, request).map(|verb| verb.map(CacheVerb::Warm)),
        })
    }

    pub fn to_json(&self) -> Value {
        match self {
            CacheVerb::Stat => json!({ "verb": "cache-stat" }),
            CacheVerb::List { site, max } => {
                json!({ "verb": "cache-list", "site": site, "max": max })
            }
            CacheVerb::Show { url } => json!({ "verb": "cache-show", "url": url }),
            CacheVerb::Body { entry } => json!({ "verb": "cache-body", "entry": entry }),
            CacheVerb::Purge(order) => order.to_json("purge"),
            CacheVerb::Count(order) => order.to_json("purge-count"),
            CacheVerb::Warm(verb) => verb.to_json(),
        }
    }
}

impl PurgeOrder {
    fn to_json(&self, verb: &str) -> Value {
        let mut request = Map::from_iter([("verb".to_owned(), Value::from(verb))]);
        let lists = [
            ("urls", &self.urls),
            ("tags", &self.tags),
            ("bans", &self.bans),
        ];
        request.extend(
            lists
                .into_iter()
                .map(|(name, list)| (name.to_owned(), json!(list))),
        );
        request.extend([
            ("site".to_owned(), json!(self.site)),
            ("all".to_owned(), json!(self.all)),
            ("soft".to_owned(), json!(self.soft)),
            ("wait_ms".to_owned(), json!(self.wait_ms)),
        ]);
        Value::Object(request)
    }
}

fn list(request: &Value) -> Result<CacheVerb, String> {
    let max = match request.get("max") {
        None | Some(Value::Null) => LIST_USUAL,
        Some(max) => max
            .as_u64()
            .and_then(|max| usize::try_from(max).ok())
            .ok_or("\"max\" must be a number")?
            .min(LIST_MAX),
    };
    Ok(CacheVerb::List {
        site: text(request, "site")?,
        max,
    })
}

fn wait(request: &Value) -> Result<Option<u64>, String> {
    match request.get("wait_ms") {
        None | Some(Value::Null) => Ok(None),
        Some(time) => time
            .as_u64()
            .filter(|time| *time <= WAIT_MS_MAX)
            .map(Some)
            .ok_or_else(|| format!("\"wait_ms\" must be a number up to {WAIT_MS_MAX}")),
    }
}

fn purge(request: &Value) -> Result<PurgeOrder, String> {
    let order = PurgeOrder {
        urls: texts(request, "urls")?,
        tags: texts(request, "tags")?,
        bans: texts(request, "bans")?,
        site: text(request, "site")?,
        all: flag(request, "all")?,
        soft: flag(request, "soft")?,
        wait_ms: wait(request)?,
    };
    let says_what = order.all
        || [&order.urls, &order.tags, &order.bans]
            .iter()
            .any(|list| !list.is_empty());
    match (says_what, order.soft && !order.bans.is_empty()) {
        (false, _) => Err("nothing to purge: \"urls\", \"tags\", \"bans\" or \"all\"".into()),
        (true, true) => Err(
            "\"soft\" cannot be combined with \"bans\": banned pages are removed, never stale"
                .into(),
        ),
        (true, false) => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CacheVerb, String> {
        let request: Value = serde_json::from_str(text).unwrap();
        CacheVerb::parse(request["verb"].as_str().unwrap(), &request).expect("a verb of the cache")
    }

    #[test]
    fn what_is_said_comes_back() {
        let order = PurgeOrder {
            urls: vec!["/a?b".into()],
            site: Some("x".into()),
            soft: true,
            ..PurgeOrder::default()
        };
        for verb in [
            CacheVerb::Stat,
            CacheVerb::List { site: None, max: 7 },
            CacheVerb::List {
                site: Some("a.example".into()),
                max: 1,
            },
            CacheVerb::Show {
                url: "http://a/".into(),
            },
            CacheVerb::Body { entry: "0f".into() },
            CacheVerb::Count(PurgeOrder {
                bans: vec!["req.url ~ .".into()],
                soft: false,
                ..order.clone()
            }),
            CacheVerb::Purge(order),
            CacheVerb::Purge(PurgeOrder {
                all: true,
                ..PurgeOrder::default()
            }),
        ] {
            assert_eq!(parse(&verb.to_json().to_string()), Ok(verb));
        }
        assert_eq!(
            parse(r#"{"verb":"cache-list"}"#),
            Ok(CacheVerb::List {
                site: None,
                max: LIST_USUAL
            })
        );
        assert_eq!(
            parse(r#"{"verb":"cache-list","max":1000000000}"#),
            Ok(CacheVerb::List {
                site: None,
                max: LIST_MAX
            })
        );
        assert_eq!(CacheVerb::parse("status", &Value::Null), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            r#"{"verb":"purge"}"#,
            r#"{"verb":"purge","urls":[]}"#,
            r#"{"verb":"purge","urls":"/"}"#,
            r#"{"verb":"purge","tags":[1]}"#,
            r#"{"verb":"purge","all":1}"#,
            r#"{"verb":"purge","site":"a"}"#,
            r#"{"verb":"purge","bans":["req.url ~ ."],"soft":true}"#,
            r#"{"verb":"cache-show"}"#,
            r#"{"verb":"cache-body"}"#,
            r#"{"verb":"cache-list","max":-1}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
