//! Caching by keys that the configuration makes (nginx's `proxy_cache` and its kin).
//!
//! Called by: the page cache, for upstream requests with such a key; the nginx front end, which makes
//! the terms.
//! Caveat: the key is the operator's, so nothing here protects clients from each other beyond what
//! nginx does: cookies that a response sets, and fields that say it is not to be shared.
//! Out of scope: HTTP's own rules ([`crate::rules`]), which are stricter.

use saker_http::{Fields, Status, date::parse_date};

/// The terms of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// HEAD is asked for as GET, so that both have one entry.
    pub converts_head: bool,
    /// POST has entries like GET: its key is what tells the two, and contents, apart.
    pub caches_post: bool,
    /// Keys tell GET from HEAD.
    pub keys_have_method: bool,
    /// Lifetimes of responses that say none, in the order of the configuration.
    pub valid: Vec<Valid>,
    pub stale: StaleUse,
    pub lock: Option<LockTerms>,
    /// Expired entries are validated with their `ETag` and `Last-Modified`.
    pub revalidates: bool,
    /// Expired entries that may be used are updated behind the client's back.
    pub updates_in_background: bool,
    /// Number of requests after which a response is stored.
    pub uses_min: u32,
    pub ignored: IgnoredFields,
    /// Time that an entry is kept beyond its lifetime, in seconds.
    pub kept_s: i64,
}

/// A lifetime by status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valid {
    /// Empty: all.
    pub statuses: Vec<u16>,
    pub seconds: i64,
}

/// Conditions under which an expired entry is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleUse {
    /// The upstream can't be reached, or breaks the connection.
    pub after_error: bool,
    pub after_timeout: bool,
    /// While another request updates it.
    pub while_updating: bool,
    /// Statuses of the upstream that count as failures.
    pub statuses: Vec<u16>,
}

/// Terms of waiting: one of the requests for a missing entry asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTerms {
    /// Time that others wait; then they ask, too, and their response is not stored.
    pub timeout_ms: u64,
    /// Time after which one more may ask.
    pub age_ms: u64,
}

/// Response fields without effect on the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFields {
    pub accel_expires: bool,
    pub expires: bool,
    pub cache_control: bool,
    pub set_cookie: bool,
    pub vary: bool,
}

/// The end of an entry's freshness, and of its use beyond it, in seconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    pub fresh_until_s: i64,
    /// `stale-while-revalidate`; 0: none.
    pub updating_until_s: i64,
    /// `stale-if-error`; 0: none.
    pub error_until_s: i64,
}

impl Terms {
    /// Returns the lifetime of a response that the fields say.
    ///
    /// # Errors
    /// Why the response must not be stored.
    pub fn said(&self, fields: &Fields, now_s: i64) -> Result<Option<Lifetime>, &'static str> {
        if !self.ignored.set_cookie && fields.has("set-cookie") {
            return Err("it sets a cookie");
        }
        if !self.ignored.accel_expires
            && let Some(value) = fields.first("x-accel-expires")
            && let Some(until_s) = accel_expires(value, now_s)?
        {
            return Ok(Some(Lifetime {
                fresh_until_s: until_s,
                ..Lifetime::default()
            }));
        }
        let mut windows = (None, None);
        if !self.ignored.cache_control && fields.has("cache-control") {
            let control = CacheControl::of(fields)?;
            if let Some(age_s) = control.age_s {
                let until_s = now_s.saturating_add(age_s);
                let window =
                    |more: Option<i64>| more.map_or(0, |more| until_s.saturating_add(more));
                return Ok(Some(Lifetime {
                    fresh_until_s: until_s,
                    updating_until_s: window(control.updating_s),
                    error_until_s: window(control.error_s),
                }));
            }
            windows = (control.updating_s, control.error_s);
        }
        if !self.ignored.expires
            && let Some(value) = fields.first("expires")
        {
            let until_s = parse_date(value, now_s)
                .filter(|until_s| *until_s >= now_s)
                .ok_or("it has expired (Expires)")?;
            let window = |more: Option<i64>| more.map_or(0, |more| until_s.saturating_add(more));
            return Ok(Some(Lifetime {
                fresh_until_s: until_s,
                updating_until_s: window(windows.0),
                error_until_s: window(windows.1),
            }));
        }
        Ok(None)
    }

    /// Returns the lifetime that the configuration gives to a status.
    pub fn by_status(&self, status: Status, now_s: i64) -> Option<Lifetime> {
        let is_for =
            |valid: &&Valid| valid.statuses.is_empty() || valid.statuses.contains(&status.0);
        let seconds = self.valid.iter().find(is_for)?.seconds;
        (seconds > 0).then(|| Lifetime {
            fresh_until_s: now_s.saturating_add(seconds),
            ..Lifetime::default()
        })
    }

    /// Judges a response: its lifetime, or the reason why it is not stored.
    ///
    /// # Errors
    /// The reason.
    pub fn judge(
        &self,
        status: Status,
        fields: &Fields,
        now_s: i64,
    ) -> Result<Lifetime, &'static str> {
        self.vary(fields)?;
        match self.said(fields, now_s)? {
            Some(lifetime) => Ok(lifetime),
            None => self
                .by_status(status, now_s)
                .ok_or("neither its fields nor the configuration say how long it is valid"),
        }
    }

    /// Returns the names of request fields that select the response, in lower case and sorted.
    ///
    /// # Errors
    /// It is for one request only.
    pub fn vary(&self, fields: &Fields) -> Result<Vec<String>, &'static str> {
        if self.ignored.vary {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for (name, value) in fields.iter() {
            if !name.eq_ignore_ascii_case("vary") {
                continue;
            }
            for name in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if name == b"*" {
                    return Err("it varies by everything (Vary: *)");
                }
                if !name.is_empty() {
                    names.push(String::from_utf8_lossy(name).to_ascii_lowercase());
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        match names.len() <= VARY_NAMES_MAX {
            true => Ok(names),
            false => Err("it varies by too many fields"),
        }
    }
}

/// Longer lists of `Vary` are not plausible.
const VARY_NAMES_MAX: usize = 32;

/// `X-Accel-Expires`: seconds, or `@` and a time. `None`: it says nothing.
fn accel_expires(value: &[u8], now_s: i64) -> Result<Option<i64>, &'static str> {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    if let Some(time) = text.strip_prefix('@') {
        return Ok(time.parse().ok().filter(|time| *time > 0));
    }
    match text.parse::<i64>() {
        Ok(0) => Err("it is not to be cached (X-Accel-Expires)"),
        Ok(seconds) if seconds > 0 => Ok(Some(now_s.saturating_add(seconds))),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// The words of `Cache-Control` that count.
struct CacheControl {
    age_s: Option<i64>,
    updating_s: Option<i64>,
    error_s: Option<i64>,
}

impl CacheControl {
    fn of(fields: &Fields) -> Result<CacheControl, &'static str> {
        let lines = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
        let joined: Vec<&[u8]> = lines.map(|(_, value)| value).collect();
        let text = String::from_utf8_lossy(&joined.join(&b","[..])).to_ascii_lowercase();
        if ["no-cache", "no-store", "private"]
            .iter()
            .any(|word| text.contains(word))
        {
            return Err("it is not to be shared (Cache-Control)");
        }
        let age_s = match seconds_of(&text, "s-maxage=") {
            Some(age) => Some(age),
            None => seconds_of(&text, "max-age="),
        };
        let age_s = match age_s {
            Some(Some(0)) => return Err("it has expired (max-age=0)"),
            Some(None) => return Err("its max-age is no number"),
            Some(some) => some,
            None => None,
        };
        Ok(CacheControl {
            age_s,
            updating_s: seconds_of(&text, "stale-while-revalidate=").flatten(),
            error_s: seconds_of(&text, "stale-if-error=").flatten(),
        })
    }
}

/// The number behind a word; `None` inside: it is none.
fn seconds_of(text: &str, word: &str) -> Option<Option<i64>> {
    let at = text.find(word)?;
    let rest = text.get(at + word.len()..).unwrap_or_default();
    let end = rest
        .find([',', ';', ' '])
        .map_or(rest, |end| rest.get(..end).unwrap_or_default());
    Some(end.parse().ok().filter(|seconds| *seconds >= 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, value.as_bytes().to_vec());
        }
        fields
    }

    fn fresh_s(terms: &Terms, lines: &[(&'static str, &str)]) -> Result<i64, &'static str> {
        let judged = terms.judge(Status::OK, &fields(lines), 1000);
        judged.map(|lifetime| lifetime.fresh_until_s)
    }

    #[test]
    fn fields_come_before_the_configuration() {
        let terms = Terms {
            valid: vec![Valid {
                statuses: vec![200],
                seconds: 10,
            }],
            ..Terms::default()
        };
        assert_eq!(fresh_s(&terms, &[]), Ok(1010));
        assert_eq!(
            fresh_s(&terms, &[("Cache-Control", "max-age=60")]),
            Ok(1060)
        );
        let both = [("Cache-Control", "max-age=60, s-maxage=30")];
        assert_eq!(fresh_s(&terms, &both), Ok(1030));
        let accel = [("X-Accel-Expires", "5"), ("Cache-Control", "no-store")];
        assert_eq!(fresh_s(&terms, &accel), Ok(1005));
        assert_eq!(fresh_s(&terms, &[("X-Accel-Expires", "@7")]), Ok(7));
        assert_eq!(fresh_s(&terms, &[("X-Accel-Expires", "off")]), Ok(1010));
        let date = [("Expires", "Thu, 01 Jan 1970 00:20:00 GMT")];
        assert_eq!(fresh_s(&terms, &date), Ok(1200));
    }

    #[test]
    fn what_is_for_one_client_is_not_stored() {
        let terms = Terms {
            valid: vec![Valid {
                statuses: Vec::new(),
                seconds: 10,
            }],
            ..Terms::default()
        };
        let refused: [(&'static str, &str); 9] = [
            ("Set-Cookie", "a=1"),
            ("Vary", "Accept, *"),
            ("Cache-Control", "private"),
            ("Cache-Control", "No-Cache=\"x\""),
            ("Cache-Control", "no-store"),
            ("Cache-Control", "max-age=0"),
            ("Cache-Control", "max-age=x"),
            ("X-Accel-Expires", "0"),
            ("Expires", "0"),
        ];
        for line in refused {
            assert!(fresh_s(&terms, &[line]).is_err(), "{line:?}");
        }
        let deaf = Terms {
            ignored: IgnoredFields {
                accel_expires: true,
                expires: true,
                cache_control: true,
                set_cookie: true,
                vary: true,
            },
            ..terms
        };
        for line in refused {
            assert_eq!(fresh_s(&deaf, &[line]), Ok(1010), "{line:?}");
        }
    }

    #[test]
    fn statuses_have_lifetimes_in_order() {
        let valid = |statuses: &[u16], seconds| Valid {
            statuses: statuses.to_vec(),
            seconds,
        };
        let terms = Terms {
            valid: vec![valid(&[404], 0), valid(&[200, 301], 60), valid(&[], 5)],
            ..Terms::default()
        };
        let until = |status| {
            terms
                .by_status(Status(status), 0)
                .map(|life| life.fresh_until_s)
        };
        assert_eq!(
            (until(200), until(404), until(500)),
            (Some(60), None, Some(5))
        );
        assert_eq!(Terms::default().by_status(Status::OK, 0), None);
    }

    #[test]
    fn windows_begin_at_the_end_of_freshness() {
        let line = "max-age=10, stale-while-revalidate=20, stale-if-error=30";
        let judged = Terms::default().judge(Status::OK, &fields(&[("Cache-Control", line)]), 100);
        let expected = Lifetime {
            fresh_until_s: 110,
            updating_until_s: 130,
            error_until_s: 140,
        };
        assert_eq!(judged, Ok(expected));
    }

    #[test]
    fn names_of_vary() {
        let terms = Terms::default();
        let list = fields(&[
            ("Vary", "Accept-Encoding, Cookie"),
            ("Vary", "accept-encoding"),
        ]);
        assert_eq!(terms.vary(&list).unwrap(), ["accept-encoding", "cookie"]);
        let many: Vec<String> = (0..=VARY_NAMES_MAX).map(|n| format!("x{n}")).collect();
        assert!(terms.vary(&fields(&[("Vary", &many.join(","))])).is_err());
        let most = many[1..].join(",");
        assert_eq!(terms.vary(&fields(&[("Vary", &most)])).unwrap().len(), 32);
    }
}
