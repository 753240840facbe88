//! Caches, Apache's and LiteSpeed's. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, ALL, DIRECTORY, FILES,
    Importance::{A, B, C},
    NOWHERE, Row, SERVER,
    Shape::{Each, Flag, One, OneOrTwo},
    Treatment::{self, Honoured, NoEffect},
    row,
};

const CACHE_OR_LITESPEED: &[&str] = &["cache_module", "LiteSpeed"];
const CACHE: &[&str] = &["cache_module"];
const CACHE_DISK_OR_LITESPEED: &[&str] = &["cache_disk_module", "LiteSpeed"];
const CACHE_DISK: &[&str] = &["cache_disk_module"];
const CACHE_SOCACHE: &[&str] = &["cache_socache_module"];
const FILE_CACHE: &[&str] = &["file_cache_module"];
const SOCACHE_MEMCACHE: &[&str] = &["socache_memcache_module"];
const SOCACHE_REDIS: &[&str] = &["socache_redis_module"];
const LITESPEED: &[&str] = &["LiteSpeed"];

const ONE_AT_A_TIME: Treatment =
    NoEffect("requests for a page that is not there always wait for the one that makes it; no files are needed for that");
const OWN_LAYOUT: Treatment = NoEffect("the page cache has a layout of its own, and writes as the response comes");
const OWN_TIER: Treatment = NoEffect("one page cache serves all: on disk, with what is asked for most in memory");
const EACH_HOST: Treatment = NoEffect("each host has entries of its own, whatever name it is asked by");
const WHERE_SAFE: Treatment = NoEffect("entries are looked up after the access rules have been asked, which costs no system call");
const KEPT_IN_MEMORY: Treatment = NoEffect("Saker keeps small files that are asked for in memory by itself");
const OWN_MEMORY: Treatment = NoEffect("sessions and answers are kept in this process's memory");

pub(super) const ROWS: &[Row] = &[
    row("CacheEnable", CACHE_OR_LITESPEED, A, "svdh", OneOrTwo, ALL.or(ACCESS).or(SERVER), DIRECTORY.or(FILES), Honoured),
    row("CacheDisable", CACHE_OR_LITESPEED, A, "svdh", OneOrTwo, ALL.or(ACCESS).or(SERVER), DIRECTORY.or(FILES), Honoured),
    row("CacheMaxExpire", CACHE_OR_LITESPEED, A, "svdh", One, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("CacheMinExpire", CACHE, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheDefaultExpire", CACHE_OR_LITESPEED, A, "svdh", One, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("CacheQuickHandler", CACHE, A, "sv", Flag, SERVER, NOWHERE, WHERE_SAFE),
    row("CacheIgnoreNoLastMod", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheIgnoreCacheControl", CACHE_OR_LITESPEED, A, "svdh", Flag, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("CacheStoreExpired", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheStorePrivate", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheStoreNoStore", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheIgnoreHeaders", CACHE, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("CacheIgnoreQueryString", CACHE, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("CacheIgnoreURLSessionIdentifiers", CACHE, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("CacheLastModifiedFactor", CACHE, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheLock", CACHE, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("CacheLockPath", CACHE, A, "sv", One, SERVER, NOWHERE, ONE_AT_A_TIME),
    row("CacheLockMaxAge", CACHE, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("CacheHeader", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheDetailHeader", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheKeyBaseURL", CACHE, A, "sv", One, SERVER, NOWHERE, EACH_HOST),
    row("CacheStaleOnError", CACHE, A, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheRoot", CACHE_DISK_OR_LITESPEED, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("CacheDirLevels", CACHE_DISK, A, "sv", One, SERVER, NOWHERE, OWN_LAYOUT),
    row("CacheDirLength", CACHE_DISK, A, "sv", One, SERVER, NOWHERE, OWN_LAYOUT),
    row("CacheMinFileSize", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheMaxFileSize", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheReadSize", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, OWN_LAYOUT),
    row("CacheReadTime", CACHE_DISK, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, OWN_LAYOUT),
    row("CacheSocache", CACHE_SOCACHE, B, "sv", One, SERVER, NOWHERE, OWN_TIER),
    row("CacheSocacheMaxTime", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheSocacheMinTime", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, OWN_TIER),
    row("CacheSocacheMaxSize", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("CacheSocacheReadSize", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, OWN_LAYOUT),
    row("CacheSocacheReadTime", CACHE_SOCACHE, B, "svdh", One, ACCESS.or(SERVER), NOWHERE, OWN_LAYOUT),
    row("cachefile", FILE_CACHE, B, "s", Each, SERVER, NOWHERE, KEPT_IN_MEMORY),
    row("mmapfile", FILE_CACHE, B, "s", Each, SERVER, NOWHERE, KEPT_IN_MEMORY),
    row("MemcacheConnTTL", SOCACHE_MEMCACHE, B, "sv", One, SERVER, NOWHERE, OWN_MEMORY),
    row("RedisConnPoolTTL", SOCACHE_REDIS, B, "sv", One, SERVER, NOWHERE, OWN_MEMORY),
    row("RedisTimeout", SOCACHE_REDIS, B, "sv", One, SERVER, NOWHERE, OWN_MEMORY),
    row("CacheLookup", LITESPEED, A, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("CacheEngine", LITESPEED, C, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("CacheMaxStaleAge", LITESPEED, A, "svdh", One, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("LiteMage", LITESPEED, C, "svdh", Flag, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("ReqHeaderVary", LITESPEED, C, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("WordPressProtect", LITESPEED, A, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
    row("CacheKeyModify", LITESPEED, C, "svdh", Each, ALL.or(ACCESS).or(SERVER), NOWHERE, Honoured),
];
