//! Causes of passes for operators: the field or rule that kept a response out of the cache, and a
//! change that would have it stored.
//!
//! Called by: `path_stats`, while an operator looks.
//! Caveat: values of fields that identify clients (Cookie, Set-Cookie, Authorization) stay secret:
//! cookies are shown by their names alone.
//! Out of scope: the decision (`decide`), and its words (`refusal`).

use crate::refusal::Refusal;
use saker_http::{Fields, cookies::cookies};
use saker_pipeline::Exchange;
use serde_json::{Value, json};

/// Longest text of a field that is shown.
const FIELD_BYTES_MAX: usize = 200;

/// Lines of fields that are shown.
const LINES_MAX: usize = 8;

/// Cause of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassCause {
    sentence: String,
    /// Lines of the deciding fields.
    fields: Vec<String>,
    /// The rule with the cache's settings: file and line.
    place: String,
    help: &'static str,
}

/// The fields that a reason is about, and a change that would have such responses stored.
struct Reason {
    word: &'static str,
    asked: &'static [&'static str],
    answered: &'static [&'static str],
    help: &'static str,
}

const LIFETIMES: &[&str] = &[
    "cdn-cache-control",
    "cache-control",
    "expires",
    "last-modified",
    "x-litespeed-cache-control",
];
const NOTHING: &[&str] = &[];

const fn reason(
    word: &'static str,
    asked: &'static [&'static str],
    answered: &'static [&'static str],
    help: &'static str,
) -> Reason {
    Reason {
        word,
        asked,
        answered,
        help,
    }
}

/// By the words of refusals.
const REASONS: &[Reason] = &[
    reason(
        "method",
        NOTHING,
        &["content-location"],
        "Only GET, HEAD, and methods in `methods` can be answered from the cache.",
    ),
    reason(
        "request-no-store",
        &["cache-control"],
        NOTHING,
        "Leave `obey_client` out: then the client's Cache-Control decides nothing.",
    ),
    reason(
        "status",
        NOTHING,
        NOTHING,
        "Give the status a time in `status_ttl`.",
    ),
    reason(
        "partial",
        &["range"],
        &["content-range"],
        "Whole responses are stored; ranges are answered from them.",
    ),
    reason(
        "no-store",
        NOTHING,
        LIFETIMES,
        "Have the application send `Cache-Control: max-age=...`, or set `store_no_store`.",
    ),
    reason(
        "private",
        NOTHING,
        LIFETIMES,
        "If all clients may have the page: have the application send `public`, or set `store_private`.",
    ),
    reason(
        "authorization",
        &["authorization"],
        LIFETIMES,
        "If all clients may have the page: have the application send `public` or `s-maxage`.",
    ),
    reason(
        "set-cookie",
        NOTHING,
        &["set-cookie", "cache-control"],
        "Do not set cookies on pages for all, send `public`, or set `store_cookies`.",
    ),
    reason(
        "session-cookie",
        &["cookie"],
        LIFETIMES,
        "If the page is the same for logged-in clients: send `public`, or put the cookie in `ignore_cookies`.",
    ),
    reason(
        "vary-all",
        NOTHING,
        &["vary"],
        "Name the request fields in Vary that the page depends on.",
    ),
    reason(
        "vary-cookie",
        NOTHING,
        &["set-cookie"],
        "Set the cookie on responses that are not for the cache, or take it out of `vary_cookies`.",
    ),
    reason(
        "not-for-all",
        NOTHING,
        LIFETIMES,
        "Have the application send `public` or `s-maxage`, or change `obey`.",
    ),
    reason(
        "no-lifetime",
        NOTHING,
        LIFETIMES,
        "Have the application send `Cache-Control: max-age=...`, or set `ttl`.",
    ),
    reason(
        "query-without-expiry",
        NOTHING,
        LIFETIMES,
        "Have the application send a lifetime, or ignore queries that do not matter (`ignore_parameters`).",
    ),
    reason(
        "stale",
        NOTHING,
        LIFETIMES,
        "Have the application send a longer lifetime, an ETag, or set `min_ttl`.",
    ),
    reason(
        "hides-too-much",
        NOTHING,
        &["cache-control"],
        "Name fewer fields in no-cache and private.",
    ),
    reason(
        "not-asked",
        NOTHING,
        &["x-litespeed-cache-control", "cache-control"],
        "Have the application send X-LiteSpeed-Cache-Control, or set `obey` and `ttl`.",
    ),
    reason(
        "no-cache",
        NOTHING,
        LIFETIMES,
        "Have the application send `public` or a lifetime.",
    ),
    reason(
        "empty",
        NOTHING,
        &["content-length"],
        "Responses without content are stored only if they say so themselves.",
    ),
    reason(
        "size",
        NOTHING,
        &["content-length"],
        "Change `min_size` or `max_size`, or `entry_size` of [cache].",
    ),
    reason(
        "broken",
        NOTHING,
        NOTHING,
        "See the error log: the application ended the response early.",
    ),
    reason(
        "file",
        NOTHING,
        NOTHING,
        "Files are served from memory and disk without the cache.",
    ),
    reason(
        "query",
        NOTHING,
        NOTHING,
        "Set `with_query = true`, or ignore queries that do not matter (`ignore_parameters`).",
    ),
    reason(
        "request-cookie",
        &["cookie"],
        NOTHING,
        "Set `with_cookies = true`, or put cookies that do not matter in `ignore_cookies`.",
    ),
    reason(
        "rules",
        NOTHING,
        NOTHING,
        "Set `store = true`, or change the rule that excludes the request.",
    ),
    reason(
        "key",
        NOTHING,
        NOTHING,
        "Shorten the URL, or ignore parameters that do not matter (`ignore_parameters`).",
    ),
    reason(
        "visitor-unknown",
        NOTHING,
        &["x-litespeed-cache-control"],
        "Name the session cookie in `session_cookies`, or send `public`.",
    ),
    reason(
        "not-answered",
        NOTHING,
        NOTHING,
        "The server itself answered: an error, a redirect, or a refusal.",
    ),
    reason(
        "tags",
        NOTHING,
        &["cache-tag", "surrogate-key", "x-litespeed-tag", "xkey"],
        "Have the application send fewer tags.",
    ),
    reason(
        "purged",
        NOTHING,
        NOTHING,
        "Purge less often, or by tags that fewer pages have.",
    ),
    reason(
        "coded",
        NOTHING,
        &["content-encoding"],
        "Have the application send pages without a content coding: the cache makes them.",
    ),
    reason(
        "parts",
        NOTHING,
        NOTHING,
        "The content is made of parts of files, which the cache does not keep.",
    ),
    reason(
        "content",
        &["content-length", "transfer-encoding"],
        NOTHING,
        "Requests with content are not looked up.",
    ),
    reason("excluded", NOTHING, NOTHING, "Change `exclude`."),
    reason(
        "off",
        NOTHING,
        NOTHING,
        "A rewrite rule switches the cache off for this request.",
    ),
    reason(
        "disk-full",
        NOTHING,
        NOTHING,
        "Make room on the disk of the cache, or change `reserve` of [cache].",
    ),
    reason(
        "store",
        NOTHING,
        NOTHING,
        "See the error log: the page could not be written.",
    ),
    reason(
        "superseded",
        NOTHING,
        NOTHING,
        "Nothing: a later response was stored.",
    ),
];

impl PassCause {
    pub fn to_json(&self) -> Value {
        json!({
            "cause": self.sentence, "fields": self.fields, "rule": self.place, "help": self.help,
        })
    }
}

/// The cause of a pass; `fields` are those of the response, if there is one.
pub fn of(exchange: &Exchange, fields: Option<&Fields>, why: &Refusal) -> PassCause {
    let reason = REASONS.iter().find(|reason| reason.word == why.word);
    let (asked, answered) =
        reason.map_or((NOTHING, NOTHING), |reason| (reason.asked, reason.answered));
    let view = exchange.head.view();
    let mut lines = Vec::new();
    for name in asked {
        let values = view
            .fields()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
        lines.extend(values.map(|(_, value)| line("request", name, value)));
    }
    for name in answered {
        let values = fields.into_iter().flat_map(Fields::iter);
        let values = values.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        lines.extend(values.map(|(_, value)| line("response", name, value)));
    }
    lines.truncate(LINES_MAX);
    let site = &exchange.routing.site;
    let route = exchange
        .routing
        .route
        .and_then(|index| site.routes.get(index));
    let origin = route.map_or(&site.origin, |route| &route.origin);
    PassCause {
        sentence: why.sentence.clone().into_owned(),
        fields: lines,
        place: origin.to_string(),
        help: reason.map_or("", |reason| reason.help),
    }
}

/// A field as it is shown.
fn line(whose: &str, name: &str, value: &[u8]) -> String {
    let names = |value: &[u8]| {
        // Text without a name may be the secret itself.
        let own = cookies(std::iter::once(value)).filter(|cookie| cookie.value.is_some());
        let names = own.map(|cookie| String::from_utf8_lossy(cookie.name).into_owned());
        names.collect::<Vec<_>>().join(", ")
    };
    let shown = match name {
        "cookie" => names(value),
        "set-cookie" => names(value.split(|byte| *byte == b';').next().unwrap_or_default()),
        "authorization" => {
            let scheme = value.split(|byte| *byte == b' ').next().unwrap_or_default();
            match scheme.len() == value.len() {
                true => String::new(),
                false => String::from_utf8_lossy(scheme).into_owned(),
            }
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    };
    let end = shown.floor_char_boundary(FIELD_BYTES_MAX);
    format!("{whose} {name}: {}", shown.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_cache_rules::{lscache::control::NotStored, rules::Pass};

    #[test]
    fn reasons_have_help() {
        let field = || "Cache-Control".into();
        let by_http = [
            Pass::Method,
            Pass::RequestNoStore,
            Pass::Status(500),
            Pass::Partial,
            Pass::NoStore(field()),
            Pass::Private(field()),
            Pass::Authorization,
            Pass::SetCookie,
            Pass::SessionCookie(String::new()),
            Pass::VaryAll,
            Pass::NotForAll,
            Pass::NoLifetime,
            Pass::Query,
            Pass::Stale(field()),
            Pass::HidesTooMuch,
        ];
        let by_lscache = [
            NotStored::Off,
            NotStored::NoCache,
            NotStored::NoAge,
            NotStored::Method,
            NotStored::Status,
            NotStored::SetCookie,
            NotStored::Empty,
            NotStored::TooLarge,
            NotStored::Failed,
            NotStored::StaticFile,
            NotStored::Query,
            NotStored::RequestCookie,
        ];
        let words = by_http.iter().map(Pass::name);
        let words = words.chain(by_lscache.map(NotStored::name));
        for word in words.chain([crate::refusal::NO_ROOM, crate::refusal::SUPERSEDED]) {
            let mut found = REASONS.iter().filter(|reason| reason.word == word);
            assert!(
                found.next().is_some_and(|one| !one.help.is_empty()),
                "{word}"
            );
            assert!(found.next().is_none(), "{word} twice");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (name, value, expected) in [
            ("cookie", "a=secret; b=secret", "request cookie: a, b"),
            ("cookie", "secret; b=secret", "request cookie: b"),
            (
                "set-cookie",
                "a=secret; Path=/secret",
                "request set-cookie: a",
            ),
            ("set-cookie", "secret", "request set-cookie: "),
            (
                "authorization",
                "Bearer secret",
                "request authorization: Bearer",
            ),
            ("authorization", "secret", "request authorization: "),
            (
                "cache-control",
                "no-store",
                "request cache-control: no-store",
            ),
        ] {
            assert_eq!(line("request", name, value.as_bytes()), expected);
        }
        let long = line(
            "response",
            "vary",
            "\u{e4}".repeat(FIELD_BYTES_MAX).as_bytes(),
        );
        assert!(
            long.len() <= "response vary: ".len() + FIELD_BYTES_MAX,
            "{long}"
        );
    }
}
