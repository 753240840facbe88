//! `[site.cache]`: caching rules of a site or route. `cache = true` is the same as an empty table.
//!
//! Caveat: a route's keys override the site's, so the table's fields are kept and set when the
//! route's settings are known.

use super::{
    cache_http::HTTP_ROWS,
    cache_row::{BASE, FIELD, FIELDS, Setter, flag},
    listener::NETWORK,
};
use crate::{
    context::{CACHE, ROUTE, SITE, WHEN},
    kind::{KeyKind, Kind, TableKind, Word},
    model::{CacheOffer, CacheUse, Settings},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Spanned, Value, ValueError},
};
use std::sync::Arc;

const YEAR_MS: u64 = 365 * 86_400_000;
const TIME: Kind = Kind::Duration {
    min_ms: 0,
    max_ms: YEAR_MS,
};
const SIZE: Kind = Kind::Bytes {
    min: 0,
    max: 1 << 50,
};

static PARAMETER: Word = Word {
    expects: "the name of a parameter, a prefix (\"utm_*\"), or \"tracking\"",
    pattern: "^[^*&=# ]*[*]?$",
    read: |text| name(text, "&=# "),
};

static COOKIE: Word = Word {
    expects: "the name of a cookie, or a prefix (\"wordpress_logged_in_*\")",
    pattern: "^[^*=;, ]*[*]?$",
    read: |text| name(text, "=;, "),
};

static SESSION: Word = Word {
    expects: "the name of a cookie, or a prefix (\"wordpress_logged_in_*\"), suffix or substring \
              (\"*sess*\")",
    pattern: "^[*]?[^*=;, ]*[*]?$",
    read: |text| {
        name(
            text.strip_prefix('*')
                .filter(|rest| !rest.is_empty())
                .unwrap_or(text),
            "=;, ",
        )
        .map(|_| Value::Text(text.to_owned()))
    },
};

static RESULT_FIELD: Word = Word {
    expects: "the name of a field, such as \"X-Cache\"",
    ..FIELD
};

static PURGE_PATH: Word = Word {
    expects: "a path, such as \"/purge\"",
    pattern: "^/",
    read: |text| {
        if text.starts_with('/') {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(ValueError::plain(None))
        }
    },
};

const PARAMETERS: Kind = Kind::ListOf(&Kind::Word(&PARAMETER));
const COOKIES: Kind = Kind::ListOf(&Kind::Word(&COOKIE));
const SESSIONS: Kind = Kind::ListOf(&Kind::Word(&SESSION));

impl Draft for CacheUse {
    fn rows() -> Rows<Self> {
        &[USE_ROWS, HTTP_ROWS]
    }
}

/// Keeps the fields, as the settings that they override are known only when the value is set.
fn read_table(_: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    Some(Value::parsed(fields.clone()))
}

/// A table enables the cache, unless it has `enabled = false`.
fn set(settings: &mut Settings, given: Spanned) {
    let cache = Arc::make_mut(&mut settings.cache);
    if let Some(fields) = given.parsed_as::<Fields>() {
        switch(cache, true);
        cache.fill(&fields);
    } else {
        switch(cache, given.boolean());
    }
}

fn switch(cache: &mut CacheUse, is_on: bool) {
    if cache.is_on != is_on {
        cache.offer = if is_on {
            CacheOffer::ALL
        } else {
            CacheOffer::NOTHING
        };
    }
    cache.is_on = is_on;
}

const fn time(
    name: &'static str,
    default: &'static str,
    summary: &'static str,
    set: Setter,
) -> Row<CacheUse> {
    Row {
        name,
        kind: TIME,
        default: Some(default),
        summary,
        set,
        ..BASE
    }
}

const fn list(name: &'static str, kind: Kind, summary: &'static str, set: Setter) -> Row<CacheUse> {
    Row {
        name,
        kind,
        default: Some("[]"),
        summary,
        set,
        ..BASE
    }
}

pub const SETTINGS_ROWS: &[Row<Settings>] = &[Row {
    name: "cache",
    contexts: SITE.or(ROUTE).or(WHEN),
    kind: Kind::OneOf(&[
        Kind::Boolean,
        Kind::Table(&TableKind {
            context: CACHE,
            read: read_table,
        }),
    ]),
    default: Some("false"),
    example: Some("true"),
    summary: "Enable the page cache? `true` follows the cache directives of responses; a table \
              enables it too and has further settings.",
    apache: Some("CacheEnable, CacheLookup"),
    aliases: &[
        "proxy_cache",
        "fastcgi_cache",
        "page_cache",
        "lscache",
        "varnish",
    ],
    since: "0.2",
    set,
    ..Row::BASE
}];

pub const USE_ROWS: &[Row<CacheUse>] = &[
    Row {
        apache: Some("CacheDisable, CacheEngine"),
        aliases: &["on", "pass", "proxy_no_cache"],
        ..flag(
            "enabled",
            "true",
            "`false` bypasses the cache, although the table is there.",
            |cache, given| switch(cache, given.boolean()),
        )
    },
    Row {
        since: "0.2",
        ..flag(
            "store",
            "true",
            "Store responses? `false`: requests are still answered from the cache.",
            |cache, given| cache.stores = given.boolean(),
        )
    },
    Row {
        name: "obey",
        kind: Kind::ListOf(&Kind::Choice(&["http", "lscache"])),
        default: Some("[\"http\", \"lscache\"]"),
        summary: "Cache directives to follow: HTTP's (Cache-Control, Expires, \
                  CDN-Cache-Control...), and LSCache's (X-LiteSpeed-Cache-Control...), which take \
                  precedence.",
        apache: Some("CacheIgnoreCacheControl"),
        aliases: &[
            "proxy_ignore_headers",
            "fastcgi_ignore_headers",
            "ignoreRespCacheCtrl",
        ],
        set: |cache, given| {
            let words = given.texts();
            cache.obeys_http = words.iter().any(|word| word == "http");
            cache.obeys_lscache = words.iter().any(|word| word == "lscache");
        },
        ..BASE
    },
    Row {
        apache: Some("CacheDefaultExpire"),
        aliases: &["default_ttl", "proxy_cache_valid", "fastcgi_cache_valid"],
        example: Some("\"5m\""),
        ..time(
            "ttl",
            "\"0s\"",
            "Freshness lifetime of responses without cache directives. 0: they are not stored.",
            |cache, given| cache.ttl_default_s = some_seconds(given),
        )
    },
    Row {
        name: "status_ttl",
        kind: Kind::MapOf(&STATUS, &TIME),
        default: Some("{}"),
        example: Some("{ 301 = \"1h\", 404 = \"1m\" }"),
        summary: "Freshness lifetime of responses without cache directives by status, instead of \
                  `ttl` and `last_modified_percent`. 0: they are not fresh.",
        aliases: &["cache_valid", "ttl_by_status", "valid_statuses"],
        since: "0.2",
        set: |cache, given| {
            for (status, one) in given.map() {
                let status = status.parse().unwrap_or_default();
                cache.status_ttls_s.retain(|(known, _)| *known != status);
                cache.status_ttls_s.push((status, seconds(one)));
            }
        },
        ..BASE
    },
    Row {
        aliases: &["override_ttl", "beresp_ttl"],
        example: Some("\"1m\""),
        ..time(
            "force_ttl",
            "\"0s\"",
            "Freshness lifetime of all responses, shared by all clients, whatever their \
             directives: only where no page is personal. 0: as the response says.",
            |cache, given| cache.ttl_override_s = some_seconds(given),
        )
    },
    Row {
        apache: Some("CacheMaxExpire"),
        ..time(
            "max_ttl",
            "\"0s\"",
            "Maximum freshness lifetime. 0: no limit.",
            |cache, given| cache.ttl_max_s = some_seconds(given),
        )
    },
    Row {
        apache: Some("CacheMinExpire"),
        ..time(
            "min_ttl",
            "\"0s\"",
            "Minimum heuristic freshness lifetime.",
            |cache, given| cache.ttl_min_s = seconds(given),
        )
    },
    Row {
        name: "last_modified_percent",
        kind: Kind::Integer { min: 0, max: 100 },
        default: Some("10"),
        summary: "Heuristic freshness of responses with Last-Modified and no cache directives, in \
                  percent of their age, at most a day. 0: none. Unless set, it applies where there \
                  is no `ttl`, for at most 10 minutes, and to requests without cookies and without \
                  fields such as X-Api-Key.",
        apache: Some("CacheLastModifiedFactor"),
        set: |cache, given| {
            cache.heuristic_percent = given.number();
            cache.is_heuristic_chosen = true;
        },
        ..BASE
    },
    Row {
        aliases: &["expireInSeconds"],
        ..time(
            "lscache_ttl",
            "\"1h\"",
            "Freshness lifetime of public LSCache entries without one of their own.",
            |cache, given| cache.lscache_ttl_s.0 = seconds(given),
        )
    },
    Row {
        aliases: &["privateExpireInSeconds"],
        ..time(
            "lscache_private_ttl",
            "\"1h\"",
            "Freshness lifetime of private LSCache entries without one of their own.",
            |cache, given| cache.lscache_ttl_s.1 = seconds(given),
        )
    },
    Row {
        apache: Some("CacheMaxStaleAge, CacheLock"),
        aliases: &[
            "stale_while_revalidate",
            "proxy_cache_background_update",
            "maxStaleAge",
        ],
        ..time(
            "grace",
            "\"10s\"",
            "How long an expired entry is served while it is refreshed in the background. Unless \
             set, it applies to LSCache entries and to lifetimes from `ttl` and the like: where the \
             response's own HTTP fields state one, RFC 9111 permits stale responses by \
             configuration only.",
            |cache, given| {
                cache.grace_s = seconds(given);
                cache.is_grace_chosen = true;
            },
        )
    },
    Row {
        apache: Some("CacheStaleOnError"),
        aliases: &["keep", "proxy_cache_use_stale", "fastcgi_cache_use_stale"],
        ..time(
            "stale_if_error",
            "\"10s\"",
            "How long an expired entry is served if refreshing it fails. Responses with `must-revalidate`, `proxy-revalidate` or `s-maxage` are excepted (RFC 9111 section 5.2.2.10), unless they have `stale-if-error` themselves; `grace` also serves those with `s-maxage`.",
            |cache, given| cache.stale_if_error_s = seconds(given),
        )
    },
    Row {
        aliases: &["ignoreReqCacheCtrl", "obey_request"],
        ..flag(
            "obey_client",
            "false",
            "Refetch when a client forces a reload (Cache-Control, Pragma)?",
            |cache, given| cache.honors_client = given.boolean(),
        )
    },
    flag("public", "true", "Store shared pages?", |cache, given| {
        cache.public = given.boolean()
    }),
    flag(
        "private",
        "true",
        "Store private LSCache pages, each for one client only?",
        |cache, given| cache.private = given.boolean(),
    ),
    Row {
        example: Some("[\"tracking\", \"ref\", \"campaign_*\"]"),
        apache: Some("CacheIgnoreQueryString, CacheKeyModify"),
        aliases: &[
            "ignore_query",
            "strip_query",
            "strip_parameters",
            "proxy_cache_key",
        ],
        ..list(
            "ignore_parameters",
            PARAMETERS,
            "Query parameters that are not part of the cache key; `tracking` stands for those of \
             well-known advertising and analytics services (utm_*, gclid, fbclid...), `*` for all. \
             The application still receives them.",
            |cache, given| cache.ignored_parameters = parameters(given),
        )
    },
    Row {
        example: Some("[\"jsessionid\"]"),
        apache: Some("CacheIgnoreURLSessionIdentifiers"),
        ..list(
            "ignore_path_parameters",
            PARAMETERS,
            "The same for `;name=value` at the end of a path.",
            |cache, given| {
                cache.ignored_path_parameters = parameters(given);
            },
        )
    },
    Row {
        aliases: &["qsCache"],
        ..flag(
            "with_query",
            "true",
            "Cache URLs with a query?",
            |cache, given| cache.with_query = given.boolean(),
        )
    },
    Row {
        aliases: &["reqCookieCache"],
        ..flag(
            "with_cookies",
            "true",
            "Serve requests with cookies from the cache?",
            |cache, given| cache.with_cookies = given.boolean(),
        )
    },
    Row {
        aliases: &["respCookieCache"],
        since: "0.2",
        ..flag(
            "with_set_cookie",
            "true",
            "Store responses with Set-Cookie that are marked for all clients (`public`, `s-maxage`, \
             LSCache's fields, `force_ttl`), without the cookies? `false`: none is stored.",
            |cache, given| cache.with_set_cookie = given.boolean(),
        )
    },
    Row {
        default: None,
        example: Some("[\"PHPSESSID\", \"wordpress_logged_in_*\"]"),
        aliases: &[
            "bypass_cookies",
            "pass_cookies",
            "proxy_cache_bypass",
            "fastcgi_cache_bypass",
        ],
        ..list(
            "session_cookies",
            SESSIONS,
            "Requests with such a cookie go to the application, and responses to them are stored \
             only if marked as shared. `*` matches any text at either end of a name. Default: the \
             usual names of session cookies (see cache.md). Empty: none.",
            |cache, given| cache.session_cookies = Some(given.texts()),
        )
    },
    Row {
        example: Some("[\"_ga*\", \"_fbp\"]"),
        aliases: &["strip_cookies", "unset_cookies"],
        ..list(
            "ignore_cookies",
            COOKIES,
            "Cookies that the cache ignores. The application still receives them.",
            |cache, given| {
                cache.ignored_cookies = given.texts();
            },
        )
    },
    Row {
        example: Some("[\"currency\"]"),
        aliases: &["hash_cookies"],
        ..list(
            "vary_cookies",
            COOKIES,
            "Cookies whose values are part of the cache key.",
            |cache, given| cache.vary_cookies = given.texts(),
        )
    },
    Row {
        example: Some("[\"X-Tenant\"]"),
        apache: Some("ReqHeaderVary"),
        aliases: &["vary", "keys", "vary_by_headers"],
        // Vary is obeyed for all fields: this key of earlier versions had no effect of its own.
        deprecated: &["vary_headers"],
        ..list(
            "key_headers",
            FIELDS,
            "Request fields that are part of the key: requests with other values get other \
             entries, whatever `Vary` of the response says.",
            |cache, given| cache.key_fields = given.texts(),
        )
    },
    Row {
        aliases: &["no-vary"],
        ..flag(
            "no_vary",
            "false",
            "Ignore LSCache's vary string?",
            |cache, given| cache.no_vary = given.boolean(),
        )
    },
    Row {
        deprecated: &["visitor_by_address"],
        ..flag(
            "private_by_address",
            "false",
            "Must a client with private pages (identified by session cookie, credentials or \
             certificate) also keep its address to get them?",
            |cache, given| {
                cache.identity_by_address = given.boolean();
            },
        )
    },
    Row {
        name: "include_hosts",
        kind: Kind::ListOf(&Kind::Text),
        default: Some("[]"),
        example: Some("[\"parts.internal\"]"),
        summary: "Hosts of this server that ESI includes may refer to even if they are reachable \
                  only through another listener than the client's.",
        since: "0.2",
        set: |cache, given| cache.include_hosts = given.texts(),
        ..BASE
    },
    Row {
        name: "exclude",
        kind: Kind::ListOf(&Kind::Text),
        default: Some("[]"),
        example: Some("[\"/checkout\", \"/wp-admin/\"]"),
        summary: "Paths to bypass, by substrings.",
        apache: Some("CacheDisable"),
        aliases: &["noCacheUrl", "no_cache"],
        set: |cache, given| cache.excluded_paths = given.texts(),
        ..BASE
    },
    Row {
        name: "min_size",
        kind: SIZE,
        default: Some("0"),
        unit: Some("bytes"),
        summary: "Minimum size of stored responses.",
        apache: Some("CacheMinFileSize"),
        set: |cache, given| cache.entry_bytes_min = given.number(),
        ..BASE
    },
    Row {
        name: "max_size",
        kind: SIZE,
        example: Some("\"1MB\""),
        unit: Some("bytes"),
        summary: "Maximum size of stored responses; `entry_size` of [cache] is the limit for all \
                  sites.",
        apache: Some("CacheMaxFileSize, CacheSocacheMaxSize"),
        aliases: &["maxCacheObjSize"],
        set: |cache, given| cache.entry_bytes_max = Some(given.number()),
        ..BASE
    },
    Row {
        aliases: &["cache_status", "debug"],
        ..flag(
            "status_header",
            "false",
            "Send the Cache-Status field (RFC 9211) to clients?",
            |cache, given| cache.tells_status = given.boolean(),
        )
    },
    Row {
        name: "result_header",
        kind: Kind::Word(&RESULT_FIELD),
        example: Some("\"X-Cache\""),
        summary: "Name of a response field with the cache result in one word: HIT, STALE, MISS, \
                  EXPIRED, REVALIDATED or BYPASS. Default: none.",
        apache: Some("CacheHeader"),
        aliases: &["x_cache", "upstream_cache_status", "header"],
        since: "0.2",
        set: |cache, given| cache.result_field = Some(given.text()),
        ..BASE
    },
    Row {
        aliases: &["device", "vary_device", "devicedetect", "mobile"],
        since: "0.2",
        ..flag(
            "vary_on_device",
            "false",
            "Store separate pages for phones, tablets and other browsers? The application learns \
             the class from X-UA-Device (mobile, tablet, desktop).",
            |cache, given| cache.varies_by_device = given.boolean(),
        )
    },
    Row {
        name: "refetch",
        kind: Kind::Integer {
            min: 0,
            max: 100_000,
        },
        default: Some("0"),
        example: Some("100"),
        summary: "Number of purged pages that are refetched automatically, the most requested \
                  first. 0: pages are fetched on the next request.",
        aliases: &["recrawl", "refetch_after_purge"],
        since: "0.2",
        set: |cache, given| {
            cache.refetched_max = usize::try_from(given.number()).unwrap_or(usize::MAX)
        },
        ..BASE
    },
    Row {
        name: "refresh_ahead",
        kind: Kind::Integer { min: 0, max: 90 },
        default: Some("0"),
        example: Some("10"),
        unit: Some("percent"),
        summary: "Refresh frequently requested pages in the background when this percentage of \
                  their lifetime is left. 0: off.",
        aliases: &["prefetch", "prefresh"],
        since: "0.2",
        set: |cache, given| cache.refresh_ahead_percent = given.number(),
        ..BASE
    },
    Row {
        example: Some("[\"X-Request-Id\"]"),
        apache: Some("CacheIgnoreHeaders"),
        aliases: &["proxy_hide_header"],
        ..list(
            "ignore_headers",
            FIELDS,
            "Response fields that are not stored.",
            |cache, given| cache.ignored_fields = given.texts(),
        )
    },
    Row {
        apache: Some("CacheStorePrivate"),
        ..flag(
            "store_private",
            "false",
            "Store responses marked as private, and share them?",
            |cache, given| cache.stores_private = given.boolean(),
        )
    },
    Row {
        apache: Some("CacheStoreNoStore"),
        ..flag(
            "store_no_store",
            "false",
            "Store responses marked no-store?",
            |cache, given| cache.stores_no_store = given.boolean(),
        )
    },
    Row {
        name: "purge_from",
        kind: Kind::ListOf(&Kind::Word(&NETWORK)),
        default: Some("[]"),
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Further client addresses that may purge the site's entries by request (PURGE, \
                  REFRESH, BAN), as Magento, Drupal and others do when set up for Varnish.",
        aliases: &["purge", "purgers", "acl_purge", "purge_allow"],
        set: |cache, given| cache.purgers = given.parsed_list(),
        ..BASE
    },
    Row {
        name: "purge_path",
        kind: Kind::Word(&PURGE_PATH),
        example: Some("\"/purge\""),
        summary: "Path at which X-LiteSpeed-Purge in a request is honored, from clients that may \
                  purge.",
        aliases: &["purgeUri"],
        set: |cache, given| cache.purge_path = Some(given.text()),
        ..BASE
    },
    Row {
        name: "announce",
        kind: Kind::ListOf(&Kind::Choice(&["pages", "crawler", "esi", "litemage"])),
        default: Some("[\"pages\", \"crawler\", \"esi\", \"litemage\"]"),
        summary: "LSCache features announced to applications (X-LSCACHE, X-LITEMAGE), so that \
                  their LiteSpeed plugins use them. Empty: none.",
        apache: Some("CacheEngine, LiteMage"),
        set: |cache, given| {
            let words = given.texts();
            let has = |word: &str| words.iter().any(|known| known == word);
            cache.offer = CacheOffer {
                pages: has("pages"),
                crawler: has("crawler"),
                esi: has("esi"),
                litemage: has("litemage"),
            };
        },
        ..BASE
    },
];

fn seconds(given: Spanned) -> u64 {
    given.number().div_ceil(1000)
}

/// Statuses whose responses may be stored.
static STATUS: KeyKind = KeyKind {
    expects: "statuses from 200 to 599",
    pattern: "^[2-5][0-9][0-9]$",
    is_case_sensitive: false,
    read: |text| match text.parse::<u16>() {
        Ok(200..=599) => Ok(text.to_owned()),
        Ok(_) => Err(ValueError::new("statuses are numbers from 200 to 599")),
        Err(_) => Err(ValueError::with_help(
            "statuses are numbers from 200 to 599",
            "write one key for each status, such as 404 = \"1m\"; `ttl` is for all others",
        )),
    },
};

fn some_seconds(given: Spanned) -> Option<u64> {
    Some(seconds(given)).filter(|seconds| *seconds > 0)
}

fn parameters(given: Spanned) -> Vec<String> {
    let expand = |word: String| match word.as_str() {
        "tracking" => CacheUse::TRACKING
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        _ => vec![word],
    };
    given.texts().into_iter().flat_map(expand).collect()
}

/// A name, or a prefix: `*` is allowed at the end only.
fn name(text: &str, forbidden: &str) -> Result<Value, ValueError> {
    let fixed = text.strip_suffix('*').unwrap_or(text);
    if fixed.contains('*') {
        return Err(ValueError::with_help(
            "`*` is only allowed at the end",
            "move it to the end",
        ));
    }
    let is_name = !text.is_empty()
        && !fixed
            .chars()
            .any(|letter| letter.is_control() || forbidden.contains(letter));
    if is_name {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(ValueError::plain(None))
    }
}
