//! Cache warming commands on the control socket: JSON to types and back. Pure.
//!
//! Called by: `cache`.
//! Caveat: a warm-up takes a while and its list may be long, while a request has 64 kB; so a job
//! is started, URLs are added to it, and its progress is polled.

use serde_json::{Value, json};

/// Variations of a page.
pub const VARIATIONS_MAX: usize = 256;
pub const CONCURRENCY_MAX: usize = 256;
/// Results in one answer.
pub const LINES_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmVerb {
    Begin(WarmOrder),
    Add { job: u64, list: WarmList },
    Look { job: u64, from: u64 },
    Stop { job: u64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmOrder {
    pub list: WarmList,
    /// Fields of the requests.
    pub variations: Vec<Vec<(String, String)>>,
    pub concurrency: usize,
    /// Requests a second; 0: no bound.
    pub rate: u32,
    /// Refuse pages of other sites than the one of this name.
    pub site: Option<String>,
}

/// The pages to fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmList {
    pub urls: Vec<String>,
    pub sitemaps: Vec<String>,
    /// More URLs will follow.
    pub more: bool,
}

impl WarmVerb {
    /// `None`: the verb is not about warm-ups.
    pub fn parse(verb: &str, request: &Value) -> Option<Result<WarmVerb, String>> {
        Some(match verb {
            "cache-warm" => order(request).map(WarmVerb::Begin),
            "cache-warm-add" => number(request, "job").and_then(|job| {
                Ok(WarmVerb::Add {
                    job,
                    list: list(request)?,
                })
            }),
            "cache-warm-look" => number(request, "job").map(|job| WarmVerb::Look {
                job,
                from: number(request, "from").unwrap_or(0),
            }),
            "cache-warm-stop" => number(request, "job").map(|job| WarmVerb::Stop { job }),
            _ => return None,
        })
    }

    pub fn to_json(&self) -> Value {
        match self {
            WarmVerb::Begin(WarmOrder {
                list,
                variations,
                concurrency,
                rate,
                site,
            }) => json!({
                "verb": "cache-warm", "urls": list.urls, "sitemaps": list.sitemaps, "more": list.more,
                "variations": variations, "concurrency": concurrency, "rate": rate,
                "site": site,
            }),
            WarmVerb::Add { job, list } => {
                json!({ "verb": "cache-warm-add", "job": job, "urls": list.urls, "sitemaps": list.sitemaps, "more": list.more })
            }
            WarmVerb::Look { job, from } => {
                json!({ "verb": "cache-warm-look", "job": job, "from": from })
            }
            WarmVerb::Stop { job } => json!({ "verb": "cache-warm-stop", "job": job }),
        }
    }
}

fn order(request: &Value) -> Result<WarmOrder, String> {
    let variations = match request.get("variations") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => serde_json::from_value::<Vec<Vec<(String, String)>>>(value.clone())
            .map_err(|_| "\"variations\" must be a list of lists of [name, value]".to_owned())?,
    };
    if variations.len() > VARIATIONS_MAX {
        return Err(format!("too many variations: at most {VARIATIONS_MAX}"));
    }
    let fields = variations.iter().flatten();
    if let Some((name, value)) = fields
        .into_iter()
        .find(|(name, value)| !is_field(name, value))
    {
        return Err(format!("invalid request header `{name}: {value}`"));
    }
    let concurrency = match request.get("concurrency") {
        None | Some(Value::Null) => 4,
        Some(value) => value
            .as_u64()
            .and_then(|value| usize::try_from(value).ok())
            .ok_or("\"concurrency\" must be a number")?,
    };
    let rate = match request.get("rate") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_u64()
            .and_then(|value| u32::try_from(value).ok())
            .ok_or("\"rate\" must be a number")?,
    };
    Ok(WarmOrder {
        list: list(request)?,
        variations,
        concurrency: concurrency.clamp(1, CONCURRENCY_MAX),
        rate,
        site: crate::fields::text(request, "site")?,
    })
}

/// RFC 9110 sections 5.1 and 5.5.
fn is_field(name: &str, value: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(is_token)
        && value
            .bytes()
            .all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f)
}

fn list(request: &Value) -> Result<WarmList, String> {
    let more = match request.get("more") {
        None | Some(Value::Null) => false,
        Some(value) => value.as_bool().ok_or("\"more\" must be true or false")?,
    };
    Ok(WarmList {
        urls: crate::fields::texts(request, "urls")?,
        sitemaps: crate::fields::texts(request, "sitemaps")?,
        more,
    })
}

fn number(request: &Value, name: &str) -> Result<u64, String> {
    request
        .get(name)
        .and_then(Value::as_u64)
        .ok_or_else(|| format!("\"{name}\" must be a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: &Value) -> Result<WarmVerb, String> {
        WarmVerb::parse(request["verb"].as_str().unwrap(), request).expect("a verb of warm-ups")
    }

    #[test]
    fn what_is_said_comes_back() {
        let list = WarmList {
            urls: vec!["http://h/".into()],
            sitemaps: vec!["http://h/s.xml".into()],
            more: true,
        };
        let variations = vec![
            vec![],
            vec![("Cookie".into(), "a=b".into()), ("X".into(), String::new())],
        ];
        for verb in [
            WarmVerb::Begin(WarmOrder {
                list: list.clone(),
                variations,
                concurrency: 9,
                rate: 7,
                site: Some("a.example".into()),
            }),
            WarmVerb::Add { job: 3, list },
            WarmVerb::Look { job: 3, from: 12 },
            WarmVerb::Stop { job: 3 },
        ] {
            assert_eq!(parse(&verb.to_json()), Ok(verb));
        }
        assert_eq!(WarmVerb::parse("cache-stat", &Value::Null), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for request in [
            json!({ "verb": "cache-warm", "urls": 1 }),
            json!({ "verb": "cache-warm", "variations": ["a"] }),
            json!({ "verb": "cache-warm", "variations": vec![Vec::<u8>::new(); VARIATIONS_MAX + 1] }),
            json!({ "verb": "cache-warm", "variations": [[["X", "a\r\nb: c"]]] }),
            json!({ "verb": "cache-warm", "variations": [[["X Y", "a"]]] }),
            json!({ "verb": "cache-warm", "rate": -1 }),
            json!({ "verb": "cache-warm-add", "urls": [] }),
            json!({ "verb": "cache-warm-look" }),
        ] {
            assert!(parse(&request).is_err(), "{request}");
        }
        let Ok(WarmVerb::Begin(order)) =
            parse(&json!({ "verb": "cache-warm", "concurrency": 1_000_000 }))
        else {
            panic!("an order")
        };
        assert_eq!(order.concurrency, CONCURRENCY_MAX);
    }
}
