//! The most frequent URLs, clients, user agents, errors, and path prefixes of the last requests.
//!
//! Called by: [`Tail`](crate::tail::Tail), for each request while an operator looks at them.
//! Caveat: memory is bounded, whatever clients send: each list has [`ENTRIES_MAX`] counters
//! (space-saving, Metwally et al. 2005). A count is at most `error` too high, and what was more
//! than the `ENTRIES_MAX`th part of all requests is never missing.
//! Out of scope: rates; the history has them.

use crate::line::Line;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Counters of a list.
pub const ENTRIES_MAX: usize = 128;
/// Rows of a list in an answer.
pub const SHOWN_MAX: usize = 10;
/// Longest text of a row.
const TEXT_BYTES_MAX: usize = 256;

/// The heavy hitters of a stream of texts, each with what else is counted of it.
#[derive(Debug, Default)]
struct Sketch<V>(HashMap<String, Counter<V>>);

#[derive(Debug, Default)]
struct Counter<V> {
    count: u64,
    /// So much of the count may be that of texts before.
    error: u64,
    value: V,
}

impl<V: Default> Sketch<V> {
    /// Counts a text, in place of the rarest one if it is new and there is no room.
    fn count(&mut self, text: &str) -> &mut V {
        let text = cut(text);
        let mut error = 0;
        if !self.0.contains_key(text) && self.0.len() >= ENTRIES_MAX {
            let rarest = self.0.iter().min_by_key(|(_, counter)| counter.count);
            let rarest = rarest.map(|(text, counter)| (text.clone(), counter.count));
            if let Some((rarest, count)) = rarest {
                self.0.remove(&rarest);
                error = count;
            }
        }
        let counter = self.0.entry(text.to_owned()).or_insert_with(|| Counter {
            count: error,
            error,
            value: V::default(),
        });
        counter.count += 1;
        &mut counter.value
    }

    fn rows(&self, more: impl Fn(&V) -> Value) -> Value {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|(one, a), (other, b)| b.count.cmp(&a.count).then(one.cmp(other)));
        let rows = all.into_iter().take(SHOWN_MAX).map(|(text, counter)| {
            let mut row = json!({ "text": text, "count": counter.count, "error": counter.error });
            if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more(&counter.value)) {
                row.extend(more);
            }
            row
        });
        rows.collect()
    }
}

/// Outcomes of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcomes {
    hits: u64,
    misses: u64,
    passes: u64,
}

/// All lists.
#[derive(Debug, Default)]
pub struct Tops {
    requests: u64,
    /// Seconds since 1970 of the first request.
    since_s: i64,
    urls: Sketch<()>,
    clients: Sketch<()>,
    user_agents: Sketch<()>,
    /// Status and URL of 4xx and 5xx.
    errors: Sketch<()>,
    prefixes: Sketch<Outcomes>,
    /// Prefix and reason of requests that passed by the page cache.
    passes: Sketch<()>,
}

impl Tops {
    /// Takes in a finished request.
    pub fn note(&mut self, line: &Line) {
        if self.requests == 0 {
            self.since_s = line.at_ms / 1000;
        }
        self.requests += 1;
        let path = line.target.split('?').next().unwrap_or_default();
        let url = format!("{}{path}", line.host);
        self.urls.count(&url);
        self.clients.count(&line.client);
        self.user_agents.count(match line.user_agent.as_str() {
            "" => "(none)",
            agent => agent,
        });
        if line.status >= 400 {
            self.errors.count(&format!("{} {url}", line.status));
        }
        let Some(outcome) = CacheOutcome::of(&line.cache) else {
            return;
        };
        let prefix = format!("{}{}", line.site, prefix(path));
        let counted = self.prefixes.count(&prefix);
        match outcome {
            CacheOutcome::Hit => counted.hits += 1,
            CacheOutcome::Miss => counted.misses += 1,
            CacheOutcome::Pass(reason) => {
                counted.passes += 1;
                self.passes.count(&format!("{prefix}: {reason}"));
            }
        }
    }

    pub fn to_json(&self) -> Value {
        let plain = |(): &()| Value::Null;
        let outcomes = |one: &Outcomes| json!({ "hits": one.hits, "misses": one.misses, "passes": one.passes });
        json!({
            "requests": self.requests,
            "since_s": self.since_s,
            "urls": self.urls.rows(plain),
            "clients": self.clients.rows(plain),
            "user_agents": self.user_agents.rows(plain),
            "errors": self.errors.rows(plain),
            "prefixes": self.prefixes.rows(outcomes),
            "passes": self.passes.rows(plain),
        })
    }
}

/// Outcome of the page cache, as the response tells it (RFC 9211, or `X-Cache`).
#[derive(Debug, PartialEq, Eq)]
enum CacheOutcome<'c> {
    Hit,
    Miss,
    /// With the reason.
    Pass(&'c str),
}

impl CacheOutcome<'_> {
    fn of(field: &str) -> Option<CacheOutcome<'_>> {
        let own = last_member(field);
        let is_passed = ["fwd=bypass", "fwd=method", "fwd=request"]
            .iter()
            .any(|word| own.contains(word));
        let starts_with = |word: &str| {
            let start = own.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        match own {
            "" => None,
            _ if is_passed => {
                let (_, reason) = own.split_once("fwd=").unwrap_or(("", own));
                Some(CacheOutcome::Pass(reason))
            }
            _ if own.contains("; hit") || starts_with("hit") => Some(CacheOutcome::Hit),
            _ if own.contains("fwd=") || starts_with("miss") => Some(CacheOutcome::Miss),
            _ if starts_with("pass") => Some(CacheOutcome::Pass(own)),
            _ => None,
        }
    }
}

/// The last member of a list, in which quoted texts may have commas; it is this server's.
fn last_member(field: &str) -> &str {
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in field.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => start = at + 1,
            _ => {}
        }
    }
    field.get(start..).unwrap_or_default().trim()
}

/// The first part of a path, with a slash if there are further ones.
fn prefix(path: &str) -> &str {
    let rest = path.strip_prefix('/').unwrap_or(path);
    let length = path.len() - rest.len();
    match rest.find('/') {
        Some(at) => path.get(..length + at + 1).unwrap_or(path),
        None => path.get(..length).unwrap_or(path),
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(target: &str, status: u16, cache: &str) -> Line {
        Line {
            target: target.into(),
            status,
            client: "192.0.2.7".into(),
            host: "a.example".into(),
            site: "a.example".into(),
            cache: cache.into(),
            ..Line::default()
        }
    }

    #[test]
    fn frequent_texts_are_found_in_bounded_memory() {
        let mut sketch = Sketch::<()>::default();
        for number in 0..20_000 {
            sketch.count(&format!("rare {number}"));
            if number % 10 == 0 {
                sketch.count("frequent");
            }
        }
        assert_eq!(sketch.0.len(), ENTRIES_MAX);
        let found = &sketch.0["frequent"];
        assert!(found.count - found.error <= 2_000 && found.count >= 2_000);
        assert_eq!(sketch.rows(|()| Value::Null)[0]["text"], "frequent");
        sketch.count(&"ä".repeat(TEXT_BYTES_MAX));
        assert!(sketch.0.keys().all(|text| text.len() <= TEXT_BYTES_MAX));
    }

    #[test]
    fn lists() {
        let mut tops = Tops::default();
        tops.note(&line("/shop/a?x=1", 200, "Saker; hit; ttl=5"));
        tops.note(&line("/shop/a?x=2", 404, "Saker; fwd=uri-miss; stored"));
        let pass = "cdn; hit, Saker; fwd=bypass; detail=\"set-cookie, and\"";
        tops.note(&line("/shop/b", 500, pass));
        tops.note(&line("/", 200, ""));
        let json = tops.to_json();
        assert_eq!(json["requests"], 4);
        assert_eq!(
            json["urls"][0],
            json!({ "text": "a.example/shop/a", "count": 2, "error": 0 })
        );
        assert_eq!(json["clients"][0]["count"], 4);
        assert_eq!(json["user_agents"][0]["text"], "(none)");
        let errors = json["errors"].as_array().expect("rows");
        assert_eq!(errors.len(), 2);
        assert_eq!(json["prefixes"].as_array().expect("rows").len(), 1);
        let prefix = &json["prefixes"][0];
        assert_eq!(prefix["text"], "a.example/shop/");
        let outcomes = ["hits", "misses", "passes"].map(|name| prefix[name].as_u64());
        assert_eq!(outcomes, [Some(1); 3]);
        assert_eq!(
            json["passes"][0]["text"],
            "a.example/shop/: bypass; detail=\"set-cookie, and\""
        );
    }

    #[test]
    fn outcomes_and_prefixes() {
        let of = CacheOutcome::of;
        assert_eq!(of("HIT"), Some(CacheOutcome::Hit));
        assert_eq!(of("miss"), Some(CacheOutcome::Miss));
        assert_eq!(of("pass"), Some(CacheOutcome::Pass("pass")));
        assert_eq!(
            of("Saker; fwd=stale; fwd-status=304"),
            Some(CacheOutcome::Miss)
        );
        assert_eq!((of(""), of("ä"), of("\"")), (None, None, None));
        for (path, expected) in [
            ("/a/b/c", "/a/"),
            ("/a", "/"),
            ("/", "/"),
            ("", ""),
            ("*", ""),
            ("a/b", "a/"),
        ] {
            assert_eq!(prefix(path), expected, "{path}");
        }
    }
}
