//! Caches, Apache's and LiteSpeed's. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, ALL, DIRECTORY, FILES,
    Importance::{A, B, C},
    NOWHERE, Row, SERVER,
    Shape::{Each, Flag, One, OneOrTwo},
    Treatment::{self, Later, NoEffect},
    row,
};

const CACHE_OR_LITESPEED: &[&str] = &["cache_module", "LiteSpeed"];
const CACHE: &[&str] = &["cache_module"];
const CACHE_DISK: &[&str] = &["cache_disk_module"];
const CACHE_SOCACHE: &[&str] = &["cache_socache_module"];
const FILE_CACHE: &[&str] = &["file_cache_module"];
const SOCACHE_MEMCACHE: &[&str] = &["socache_memcache_module"];
const SOCACHE_REDIS: &[&str] = &["socache_redis_module"];
const LITESPEED: &[&str] = &["LiteSpeed"];

const PAGE_CACHE: Treatment = Later("the page cache");
const KEPT_IN_MEMORY: Treatment = NoEffect("Saker keeps small files that are asked for in memory by itself");
const OWN_MEMORY: Treatment = NoEffect("sessions and answers are kept in this process's memory");

pub(super) const ROWS: &[Row] = &[
    row("CacheEnable", CACHE_OR_LITESPEED, A, "svd", OneOrTwo, ALL.or(ACCESS).or(SERVER), DIRECTORY.or(FILES), PAGE_CACHE),
    row("CacheDisable", CACHE_OR_LITESPEED, A, "svdh", One, ALL.or(ACCESS).or(SERVER), DIRECTORY.or(FILES), PAGE_CACHE),
    row("CacheMaxExpire", CACHE, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheMinExpire", CACHE, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheDefaultExpire", CACHE, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheQuickHandler", CACHE, A, "sv", Flag, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheIgnoreNoLastMod", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheIgnoreCacheControl", CACHE, A, "sv", Flag, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheStoreExpired", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheStorePrivate", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheStoreNoStore", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheIgnoreHeaders", CACHE, A, "sv", Each, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheIgnoreQueryString", CACHE, A, "sv", Flag, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheIgnoreURLSessionIdentifiers", CACHE, A, "sv", Each, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheLastModifiedFactor", CACHE, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheLock", CACHE, A, "sv", Flag, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheLockPath", CACHE, A, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheLockMaxAge", CACHE, A, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheHeader", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheDetailHeader", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheKeyBaseURL", CACHE, A, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheStaleOnError", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheRoot", CACHE_DISK, A, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheDirLevels", CACHE_DISK, A, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheDirLength", CACHE_DISK, A, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheMinFileSize", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheMaxFileSize", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheReadSize", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheReadTime", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheSocache", CACHE_SOCACHE, B, "sv", One, SERVER, NOWHERE, PAGE_CACHE),
    row("CacheSocacheMaxTime", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheSocacheMinTime", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheSocacheMaxSize", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheSocacheReadSize", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheSocacheReadTime", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, PAGE_CACHE),
    row("cachefile", FILE_CACHE, B, "s", Each, SERVER, NOWHERE, KEPT_IN_MEMORY),
    row("mmapfile", FILE_CACHE, B, "s", Each, SERVER, NOWHERE, KEPT_IN_MEMORY),
    row("MemcacheConnTTL", SOCACHE_MEMCACHE, B, "sv", One, SERVER, NOWHERE, OWN_MEMORY),
    row("RedisConnPoolTTL", SOCACHE_REDIS, B, "sv", One, SERVER, NOWHERE, OWN_MEMORY),
    row("RedisTimeout", SOCACHE_REDIS, B, "sv", One, SERVER, NOWHERE, OWN_MEMORY),
    row("CacheLookup", LITESPEED, A, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheEngine", LITESPEED, C, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, PAGE_CACHE),
    row("CacheKeyModify", LITESPEED, C, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, PAGE_CACHE),
];
