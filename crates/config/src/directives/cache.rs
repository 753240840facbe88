//! `[cache]`: location and limits of the page cache, and addresses that may purge it.
//!
//! Called by: `file`.
//! Out of scope: what is cached, which is set per site (`cache_use`).

use super::listener::NETWORK;
use crate::{
    context::{CACHE_STORE, FILE},
    kind::{Kind, Word},
    model::CacheStore,
    row::{Draft, Row, Rows},
    value::{Spanned, Value, ValueError},
};

static SITEMAP: Word = Word {
    expects: "the URL of a sitemap, such as \"https://shop.example/sitemap.xml\"",
    pattern: "^https?://",
    read: |text| match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

const SIZE: Kind = Kind::Bytes {
    min: 0,
    max: 1 << 50,
};
const COUNT: Kind = Kind::Integer {
    min: 0,
    max: 1_000_000_000,
};

/// A row of a limit of the store.
const fn bound(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    summary: &'static str,
    set: fn(&mut CacheStore, Spanned),
) -> Row<CacheStore> {
    Row {
        name,
        contexts: CACHE_STORE,
        kind,
        default: Some(default),
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

impl Draft for CacheStore {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<CacheStore>] = &[
    Row {
        name: "cache",
        contexts: FILE,
        kind: Kind::Section(CACHE_STORE),
        summary: "Storage of the page cache. What is cached is set per site.",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "folder",
        contexts: CACHE_STORE,
        kind: Kind::Path,
        example: Some("\"/var/cache/saker\""),
        summary: "Directory of the cache entries, used by the cache alone. Default: `cache` below \
                  `state_dir`. Changes of this key and of the sizes take effect at the next start.",
        apache: Some("CacheRoot"),
        aliases: &[
            "path",
            "storage",
            "proxy_cache_path",
            "fastcgi_cache_path",
            "storagePath",
        ],
        since: "0.2",
        set: |cache, given| cache.folder = Some(given.path()),
        ..Row::BASE
    },
    Row {
        unit: Some("bytes"),
        aliases: &["max_size", "bytes"],
        ..bound(
            "size",
            SIZE,
            "\"10GiB\"",
            "Maximum disk space of all entries; the least recently used are evicted first. 0: no \
             limit.",
            |cache, given| {
                cache.bytes_max = given.number();
            },
        )
    },
    bound(
        "entries",
        COUNT,
        "2000000",
        "Maximum number of entries; each takes about 100 bytes of memory. 0: no limit.",
        |cache, given| {
            cache.entries_max = given.number();
        },
    ),
    Row {
        unit: Some("bytes"),
        ..bound(
            "site_size",
            SIZE,
            "0",
            "Maximum disk space of the entries of one site, so that no site displaces the others. \
             0: no limit.",
            |cache, given| {
                cache.site_bytes_max = given.number();
            },
        )
    },
    bound(
        "site_entries",
        COUNT,
        "0",
        "Maximum number of entries per site. 0: no limit.",
        |cache, given| cache.site_entries_max = given.number(),
    ),
    Row {
        unit: Some("bytes"),
        aliases: &["keys_zone", "malloc"],
        ..bound(
            "memory",
            SIZE,
            "\"64MiB\"",
            "Memory for the most requested entries, shared by all workers.",
            |cache, given| {
                cache.memory_bytes_max = given.number();
            },
        )
    },
    Row {
        unit: Some("bytes"),
        apache: Some("CacheMaxFileSize"),
        aliases: &["maxCacheObjSize"],
        ..bound(
            "entry_size",
            SIZE,
            "\"64MiB\"",
            "Maximum size of a cached response; larger ones are not stored.",
            |cache, given| cache.entry_bytes_max = given.number(),
        )
    },
    Row {
        name: "reserve",
        contexts: CACHE_STORE,
        kind: SIZE,
        unit: Some("bytes"),
        example: Some("\"5GB\""),
        summary: "Disk space to leave free: with less, responses are served without being stored. \
                  Default: 1 GiB, or a twentieth of a smaller disk. 0: none.",
        aliases: &["min_free"],
        since: "0.2",
        set: |cache, given| cache.disk_reserve_bytes = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "warm",
        contexts: CACHE_STORE,
        kind: Kind::ListOf(&Kind::Word(&SITEMAP)),
        default: Some("[]"),
        example: Some("[\"https://shop.example/sitemap.xml\"]"),
        summary: "Sitemaps whose pages are fetched into the cache after the server starts, as by \
                  `saker cache warm`.",
        aliases: &["sitemap", "sitemaps", "crawler"],
        since: "0.2",
        set: |cache, given| cache.warmed = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "warm_every",
        contexts: CACHE_STORE,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 365 * 86_400_000,
        },
        default: Some("\"0s\""),
        example: Some("\"6h\""),
        summary: "Interval between warm-ups, from start to start. 0: only once.",
        since: "0.2",
        set: |cache, given| cache.warmed_every_s = given.number() / 1000,
        ..Row::BASE
    },
    Row {
        name: "purge_from",
        contexts: CACHE_STORE,
        kind: Kind::ListOf(&Kind::Word(&NETWORK)),
        default: Some("[\"127.0.0.0/8\", \"::1\"]"),
        summary: "Client addresses that may purge entries of any site by request (PURGE, REFRESH, \
                  BAN).",
        aliases: &["purgers", "acl_purge", "acl"],
        since: "0.2",
        set: |cache, given| cache.purgers = given.parsed_list(),
        ..Row::BASE
    },
];
