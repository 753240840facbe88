//! HTTP caching, a row per requirement: RFC 9111, 5861, 8246, 9213 and what is asked beyond them.
//!
//! Heads are written as `Name: value | Name: value`. `{+60}` in one stands for the date 60 seconds
//! after the response was received.

mod invalidating;
mod storing;
mod using;
mod validating;

use saker_cache_rules::rules::{Life, Pass, RuleSettings, judge_response};
use saker_http::{Fields, RequestHead, Status, Version, date::format_date};

/// Time at which every response of the tables was received.
pub const NOW_MS: i64 = 1_700_000_000_000;

/// `Name: value | Name: value`, dates filled in.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let lines = text.split(" | ").filter(|line| !line.trim().is_empty());
    lines
        .map(|line| line.split_once(':').expect("a colon"))
        .map(|(name, value)| (name.trim().to_owned(), dated(value.trim())))
        .collect()
}

fn dated(value: &str) -> String {
    let Some((before, rest)) = value.split_once('{') else {
        return value.to_owned();
    };
    let (offset, after) = rest.split_once('}').expect("closed");
    let unix_s = NOW_MS / 1000 + offset.parse::<i64>().expect("seconds");
    format!(
        "{before}{}{}",
        String::from_utf8_lossy(&format_date(unix_s)),
        dated(after)
    )
}

pub fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    pairs(text)
        .into_iter()
        .for_each(|(name, value)| fields.append(name, value.into_bytes()));
    fields
}

pub fn request(method: &str, text: &str) -> RequestHead {
    let lines = pairs(text);
    let borrowed: Vec<(&str, &str)> = lines
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    RequestHead::build(method, "/", Version::Http11, &borrowed)
}

pub fn judge(
    asked: &str,
    status: u16,
    answer: &str,
    settings: &RuleSettings,
) -> Result<Life, Pass> {
    judge_response(
        request("GET", asked).view(),
        Status(status),
        &fields(answer),
        settings,
        NOW_MS,
        NOW_MS,
    )
}
