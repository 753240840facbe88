//! `[site.cache]`: what the page cache does for a site, or for a route of it. `cache = true` is a
//! table with nothing in it.
//!
//! Caveat: a route's table is laid over the site's, so its fields are kept as they are and set when
//! the route's settings are known.

use super::listener::NETWORK;
use crate::{
    context::{CACHE, ROUTE, SITE},
    kind::{Kind, TableKind, Word},
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
    expects: "the name of a parameter, the beginning of names (\"utm_*\"), or \"tracking\"",
    pattern: "^[^*&=# ]*[*]?$",
    read: |text| name(text, "&=# "),
};

static COOKIE: Word = Word {
    expects: "the name of a cookie, or the beginning of names (\"wordpress_logged_in_*\")",
    pattern: "^[^*=;, ]*[*]?$",
    read: |text| name(text, "=;, "),
};

static SESSION: Word = Word {
    expects: "the name of a cookie, or its beginning (\"wordpress_logged_in_*\"), end or middle (\"*sess*\")",
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

static FIELD: Word = Word {
    expects: "the name of a field, such as \"X-Device\"",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    read: field,
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
const FIELDS: Kind = Kind::ListOf(&Kind::Word(&FIELD));

type Setter = fn(&mut CacheUse, Spanned);

impl Draft for CacheUse {
    fn rows() -> Rows<Self> {
        &[USE_ROWS]
    }
}

/// Keeps the fields: whether they are laid over a site's is known when the value is set.
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

const BASE: Row<CacheUse> = Row {
    contexts: CACHE,
    since: "0.5",
    ..Row::BASE
};

const fn flag(
    name: &'static str,
    default: &'static str,
    summary: &'static str,
    set: Setter,
) -> Row<CacheUse> {
    Row {
        name,
        kind: Kind::Boolean,
        default: Some(default),
        summary,
        set,
        ..BASE
    }
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
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        Kind::Boolean,
        Kind::Table(&TableKind {
            context: CACHE,
            read: read_table,
        }),
    ]),
    default: Some("false"),
    example: Some("true"),
    summary: "Keep pages, and answer from them? `true` obeys what responses say; a table says more, and is `true`, too.",
    apache: Some("CacheEnable, CacheLookup"),
    aliases: &[
        "proxy_cache",
        "fastcgi_cache",
        "page_cache",
        "lscache",
        "varnish",
    ],
    since: "0.5",
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
            "`false`: requests pass by, though there is a table.",
            |cache, given| switch(cache, given.boolean()),
        )
    },
    Row {
        name: "obey",
        kind: Kind::ListOf(&Kind::Choice(&["http", "lscache"])),
        default: Some("[\"http\", \"lscache\"]"),
        summary: "Whose words in responses count: HTTP's own (Cache-Control, Expires, CDN-Cache-Control...), and LSCache's \
                  (X-LiteSpeed-Cache-Control...), which come first.",
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
            "How long a response is fresh that says nothing about it. 0: such responses are not kept.",
            |cache, given| cache.ttl_default_s = some_seconds(given),
        )
    },
    Row {
        aliases: &["override_ttl", "beresp_ttl"],
        example: Some("\"1m\""),
        ..time(
            "force_ttl",
            "\"0s\"",
            "How long every response is fresh, whatever it says, and for everybody: only where no page is somebody's own. 0: as it says.",
            |cache, given| cache.ttl_override_s = some_seconds(given),
        )
    },
    Row {
        apache: Some("CacheMaxExpire"),
        ..time(
            "max_ttl",
            "\"0s\"",
            "No response is fresh for longer. 0: no bound.",
            |cache, given| cache.ttl_max_s = some_seconds(given),
        )
    },
    Row {
        apache: Some("CacheMinExpire"),
        ..time(
            "min_ttl",
            "\"0s\"",
            "What was guessed of how long a response is fresh is at least this.",
            |cache, given| cache.ttl_min_s = seconds(given),
        )
    },
    Row {
        name: "last_modified_percent",
        kind: Kind::Integer { min: 0, max: 100 },
        default: Some("0"),
        summary: "A response without a word but with a Last-Modified is fresh for that part of its age. 0: that is nothing to go by.",
        apache: Some("CacheLastModifiedFactor"),
        set: |cache, given| cache.heuristic_percent = given.number(),
        ..BASE
    },
    Row {
        aliases: &["expireInSeconds"],
        ..time(
            "lscache_ttl",
            "\"1h\"",
            "How long an LSCache entry for all is fresh that says nothing about it.",
            |cache, given| cache.lscache_ttl_s.0 = seconds(given),
        )
    },
    Row {
        aliases: &["privateExpireInSeconds"],
        ..time(
            "lscache_private_ttl",
            "\"1h\"",
            "How long one for a single visitor is.",
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
            "How long after its end a page is served while a new one is made.",
            |cache, given| cache.grace_s = seconds(given),
        )
    },
    Row {
        apache: Some("CacheStaleOnError"),
        aliases: &["keep", "proxy_cache_use_stale", "fastcgi_cache_use_stale"],
        ..time(
            "stale_if_error",
            "\"0s\"",
            "How long after its end a page is served when a new one can't be had.",
            |cache, given| cache.stale_if_error_s = seconds(given),
        )
    },
    Row {
        aliases: &["ignoreReqCacheCtrl", "obey_request"],
        ..flag(
            "obey_client",
            "false",
            "Does a client's reload (Cache-Control, Pragma) make a new page?",
            |cache, given| cache.honours_client = given.boolean(),
        )
    },
    flag(
        "public",
        "true",
        "Keep pages that are for all?",
        |cache, given| cache.public = given.boolean(),
    ),
    flag(
        "private",
        "true",
        "Keep pages of LSCache that are for one visitor, for him alone?",
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
            "Parameters of the query that make no other page; `tracking` stands for those of well-known advertising and statistics (utm_*, gclid, \
             fbclid...), `*` for all. The application gets them all the same.",
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
                cache.ignored_path_parameters = given.texts();
            },
        )
    },
    Row {
        aliases: &["qsCache"],
        ..flag(
            "with_query",
            "true",
            "Keep pages whose URL has a query?",
            |cache, given| cache.with_query = given.boolean(),
        )
    },
    Row {
        aliases: &["reqCookieCache"],
        ..flag(
            "with_cookies",
            "true",
            "Answer requests with cookies from the cache?",
            |cache, given| cache.with_cookies = given.boolean(),
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
            "Requests with such a cookie are answered by the application, and its answers are kept only where they say that they are for all. `*` \
             stands for any text at either end of a name. Without it: cookies that are called as sessions usually are (see cache.md). Empty: none.",
            |cache, given| cache.session_cookies = Some(given.texts()),
        )
    },
    Row {
        example: Some("[\"_ga*\", \"_fbp\"]"),
        aliases: &["strip_cookies", "unset_cookies"],
        ..list(
            "ignore_cookies",
            COOKIES,
            "Cookies that are as good as not sent. The application gets them all the same.",
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
            "Cookies whose values make another page.",
            |cache, given| cache.vary_cookies = given.texts(),
        )
    },
    Row {
        example: Some("[\"X-Device\"]"),
        apache: Some("ReqHeaderVary"),
        ..list(
            "vary_headers",
            FIELDS,
            "Request fields beyond HTTP's own that Vary may name in a response of LSCache.",
            |cache, given| {
                cache.vary_fields = given
                    .texts()
                    .into_iter()
                    .map(|name| name.to_ascii_lowercase())
                    .collect();
            },
        )
    },
    Row {
        aliases: &["no-vary"],
        ..flag(
            "no_vary",
            "false",
            "Leave LSCache's vary string out?",
            |cache, given| cache.no_vary = given.boolean(),
        )
    },
    Row {
        deprecated: &["visitor_by_address"],
        ..flag(
            "private_by_address",
            "false",
            "Must a client that has private pages (by a session cookie, credentials or a certificate) have the same address, too, to get them again?",
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
        summary: "Hosts of this server that pages may include parts of (ESI) though they are reached by another listener than the client's only.",
        since: "0.10",
        set: |cache, given| cache.include_hosts = given.texts(),
        ..BASE
    },
    Row {
        name: "exclude",
        kind: Kind::ListOf(&Kind::Text),
        default: Some("[]"),
        example: Some("[\"/checkout\", \"/wp-admin/\"]"),
        summary: "Paths that are left alone, by what they contain.",
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
        summary: "Responses with less content are not kept.",
        apache: Some("CacheMinFileSize"),
        set: |cache, given| cache.entry_bytes_min = given.number(),
        ..BASE
    },
    Row {
        name: "max_size",
        kind: SIZE,
        example: Some("\"1MB\""),
        unit: Some("bytes"),
        summary: "Nor those with more; `entry_size` of [cache] bounds all.",
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
            "Tell clients what the cache did, by Cache-Status (RFC 9211)?",
            |cache, given| cache.tells_status = given.boolean(),
        )
    },
    Row {
        name: "result_header",
        kind: Kind::Word(&RESULT_FIELD),
        example: Some("\"X-Cache\""),
        summary: "A field that tells clients in one word what the cache did: HIT, STALE, MISS, EXPIRED, REVALIDATED or BYPASS. Without it, none.",
        apache: Some("CacheHeader"),
        aliases: &["x_cache", "upstream_cache_status", "header"],
        since: "0.6",
        set: |cache, given| cache.result_field = Some(given.text()),
        ..BASE
    },
    Row {
        aliases: &["device", "vary_device", "devicedetect", "mobile"],
        since: "0.6",
        ..flag(
            "vary_on_device",
            "false",
            "Do phones, tablets and other browsers get pages of their own? The application is told which by X-UA-Device (mobile, tablet, desktop).",
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
        summary: "So many pages are made again by themselves after they were purged, those first that are asked for most. 0: when somebody asks.",
        aliases: &["recrawl", "refetch_after_purge"],
        since: "0.6",
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
        summary: "A page in demand is made anew while that part of its life is left, so that nobody meets its end. 0: when it is over.",
        aliases: &["prefetch", "prefresh"],
        since: "0.6",
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
            "Response fields that are not kept.",
            |cache, given| cache.ignored_fields = given.texts(),
        )
    },
    Row {
        apache: Some("CacheStorePrivate"),
        ..flag(
            "store_private",
            "false",
            "Keep for all what the response says is private?",
            |cache, given| cache.stores_private = given.boolean(),
        )
    },
    Row {
        apache: Some("CacheStoreNoStore"),
        ..flag(
            "store_no_store",
            "false",
            "Keep what is not to be stored?",
            |cache, given| cache.stores_no_store = given.boolean(),
        )
    },
    Row {
        apache: Some("CacheStoreExpired"),
        ..flag(
            "store_expired",
            "false",
            "Keep what is stale already, to ask whether it has changed?",
            |cache, given| cache.stores_expired = given.boolean(),
        )
    },
    Row {
        name: "purge_from",
        kind: Kind::ListOf(&Kind::Word(&NETWORK)),
        default: Some("[]"),
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Who else may purge the site's entries by requests (PURGE, REFRESH, BAN), as Magento, Drupal and others do that are set to Varnish.",
        aliases: &["purgers", "acl_purge"],
        set: |cache, given| cache.purgers = given.parsed_list(),
        ..BASE
    },
    Row {
        name: "purge_path",
        kind: Kind::Word(&PURGE_PATH),
        example: Some("\"/purge\""),
        summary: "Where X-LiteSpeed-Purge of a request is carried out, from whoever may purge.",
        aliases: &["purgeUri"],
        set: |cache, given| cache.purge_path = Some(given.text()),
        ..BASE
    },
    Row {
        name: "announce",
        kind: Kind::ListOf(&Kind::Choice(&["pages", "crawler", "esi", "litemage"])),
        default: Some("[\"pages\", \"crawler\", \"esi\", \"litemage\"]"),
        summary: "What applications are told that there is (X-LSCACHE, X-LITEMAGE), so that their LiteSpeed plugins use it. Empty: nothing.",
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

/// A star stands for the rest, and so at the end only.
fn name(text: &str, forbidden: &str) -> Result<Value, ValueError> {
    let fixed = text.strip_suffix('*').unwrap_or(text);
    if fixed.contains('*') {
        return Err(ValueError::with_help(
            "a star stands for any ending",
            "write it at the end",
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

fn field(text: &str) -> Result<Value, ValueError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_token) {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(ValueError::plain(None))
    }
}
