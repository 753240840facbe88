//! Keys of `[site.cache]` for parts of HTTP that few sites need: further methods, targeted fields,
//! Early Hints, shared cookies.
//!
//! Called by: `cache_use`, whose table has these rows, too.
//! Out of scope: what the settings do (`saker_page_cache`).

use super::cache_row::{BASE, FIELDS, flag};
use crate::{kind::Kind, model::CacheUse, row::Row};

pub const HTTP_ROWS: &[Row<CacheUse>] = &[
    Row {
        name: "methods",
        kind: Kind::ListOf(&Kind::Choice(&["POST", "QUERY"])),
        default: Some("[]"),
        example: Some("[\"QUERY\"]"),
        summary: "Methods besides GET and HEAD whose responses are stored. QUERY: by the content \
                  of the request. POST: for later GET requests, if the response has a lifetime and \
                  names the requested URL in Content-Location (RFC 9110 section 9.3.3).",
        aliases: &["proxy_cache_methods", "fastcgi_cache_methods"],
        since: "0.2",
        set: |cache, given| {
            let words = given.texts();
            cache.stores_post = words.iter().any(|word| word == "POST");
            cache.stores_query = words.iter().any(|word| word == "QUERY");
        },
        ..BASE
    },
    Row {
        name: "query_content_max",
        kind: Kind::Bytes {
            min: 0,
            max: 16 << 20,
        },
        default: Some("\"64KB\""),
        unit: Some("bytes"),
        summary: "Maximum content of a QUERY request that is part of the cache key; requests with \
                  more go to the application.",
        since: "0.2",
        set: |cache, given| cache.query_bytes_max = given.number(),
        ..BASE
    },
    Row {
        name: "targeted_headers",
        kind: FIELDS,
        default: Some("[\"CDN-Cache-Control\"]"),
        example: Some("[\"Saker-Cache-Control\", \"CDN-Cache-Control\"]"),
        summary: "Targeted cache control fields (RFC 9213) to follow, the most applicable first. \
                  The first valid one replaces Cache-Control and Expires.",
        since: "0.2",
        set: |cache, given| cache.targeted_fields = given.texts(),
        ..BASE
    },
    Row {
        since: "0.2",
        ..flag(
            "early_hints",
            "false",
            "Send 103 Early Hints (RFC 8297) with the preload and preconnect links of the page's \
             last stored version, while the application works? Only to browsers that open the page, \
             over HTTP/2 and HTTP/3.",
            |cache, given| cache.sends_early_hints = given.boolean(),
        )
    },
    Row {
        since: "0.2",
        ..flag(
            "store_cookies",
            "false",
            "Store responses with Set-Cookie, and send the cookies to all clients (RFC 9111 \
             section 7.3)? Only where no cookie is personal.",
            |cache, given| cache.stores_cookies = given.boolean(),
        )
    },
];
