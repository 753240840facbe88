use super::*;
use crate::load::load;
use saker_apache_syntax::{InMemory, Setup};

const HEAD: &str = "Listen 80\nServerRoot /srv\nLoadModule cache_module modules/mod_cache.so\nLoadModule cache_disk_module modules/mod_cache_disk.so\n\
                    LoadModule cache_socache_module modules/mod_cache_socache.so\n";

fn loaded(text: &str) -> crate::Loaded {
    let files = InMemory::default().with("/srv/httpd.conf", format!("{HEAD}{text}\n"));
    load(&Setup::new("/srv", "/srv/httpd.conf"), &files)
}

/// The server's settings, read without complaints.
fn cache(text: &str) -> Cache {
    let loaded = loaded(text);
    let complaints: Vec<String> = loaded
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .filter(|text| text.contains("Cache"))
        .collect();
    assert_eq!(complaints, Vec::<String>::new(), "{text}");
    loaded.apache.hosts[0].defaults.cache.clone()
}

fn at(text: &str, path: &str) -> CacheUse {
    let cache = cache(text);
    CacheUse::clone(&cache.in_use(cache.verdict(path.as_bytes())))
}

fn refused(text: &str) -> String {
    loaded(text)
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .map(|diagnostic| diagnostic.message.clone())
        .collect()
}

#[test]
fn without_a_word_nothing_is_kept_and_applications_know_that_they_may_ask() {
    let nothing = at("", "/");
    assert!(!nothing.is_on && nothing.offer == CacheOffer::ALL);
    assert!(Arc::ptr_eq(
        &Cache::default().in_use(Verdict::default()),
        &Cache::default().in_use(Verdict::default())
    ));
    assert_eq!(at("CacheEngine off", "/").offer, CacheOffer::NOTHING);
    assert_eq!(
        at("CacheEngine on crawler\nLiteMage off", "/").offer,
        CacheOffer {
            pages: true,
            crawler: true,
            esi: false,
            litemage: false
        }
    );
}

#[test]
fn what_plugins_write_obeys_the_application() {
    let lookup = at(
        "<IfModule LiteSpeed>\nCacheLookup on\nCacheKeyModify -qs:fbclid -qs:utm_*\n</IfModule>",
        "/",
    );
    assert!(
        lookup.is_on
            && lookup.public
            && lookup.private
            && lookup.obeys_lscache
            && !lookup.obeys_http
    );
    assert_eq!(
        (lookup.ttl_default_s, lookup.lscache_ttl_s, lookup.grace_s),
        (None, (3600, 3600), 200)
    );
    assert_eq!(lookup.ignored_parameters, ["fbclid", "utm_*"]);
    let public = at(
        "CacheLookup public on\nCacheMaxStaleAge 7\nCacheMaxExpire 60",
        "/",
    );
    assert!(public.public && !public.private && public.is_on);
    assert_eq!((public.grace_s, public.ttl_max_s), (7, Some(60)));
    assert!(!at("CacheLookup on\nCacheEngine off", "/").is_on);
    assert!(!at("CacheLookup on\nCacheLookup off", "/").is_on);
}

#[test]
fn enabling_goes_by_the_beginning_of_the_path() {
    let shop =
        "CacheEnable public /shop\nCacheEnable private /shop/mine\nCacheDisable public /shop/cart";
    let table = [
        ("/", false, false),
        ("/shop", true, false),
        ("/shop/a", true, false),
        ("/shop/mine", true, true),
        ("/shop/cart/1", false, false),
    ];
    for (path, public, private) in table {
        let cache = at(shop, path);
        assert_eq!(
            (
                cache.public,
                cache.private,
                cache.unasked_private,
                cache.is_on
            ),
            (public, private, private, public || private),
            "{path}"
        );
        assert_eq!(cache.ttl_default_s, public.then_some(3600), "{path}");
        assert!(!cache.default_needs_validator && cache.heuristic_percent == 0);
    }
    assert!(
        !at("CacheEnable public /\nCacheDisable private /a", "/a").private
            && at("CacheEnable public /\nCacheDisable private /a", "/a").public
    );
}

#[test]
fn apaches_own_cache_goes_by_http() {
    let cache = at("CacheEnable disk /\nCacheDisable /private", "/a");
    assert!(
        cache.is_on
            && cache.public
            && !cache.private
            && cache.obeys_http
            && cache.honors_client
            && cache.default_needs_validator
    );
    assert_eq!(
        (
            cache.ttl_default_s,
            cache.ttl_max_s,
            cache.heuristic_percent,
            cache.grace_s
        ),
        (Some(3600), Some(86_400), 10, 0)
    );
    assert_eq!(cache.stale_if_error_s, STALE_ON_ERROR_S);
    assert!(!at("CacheEnable disk /\nCacheDisable /private", "/private/x").is_on);
    let told = "CacheEnable socache /\nCacheDefaultExpire 7\nCacheMaxExpire 8\nCacheMinExpire 2\nCacheLastModifiedFactor 0.5\nCacheIgnoreNoLastMod on\n\
                CacheIgnoreCacheControl On\nCacheStorePrivate on\nCacheStoreNoStore on\nCacheStaleOnError off\nCacheLock on\n\
                CacheIgnoreHeaders Set-Cookie X-A\nCacheIgnoreQueryString on\nCacheIgnoreURLSessionIdentifiers jsessionid\nCacheMinFileSize 64\n\
                CacheMaxFileSize 640\nCacheHeader on";
    let cache = at(told, "/");
    assert_eq!(
        (
            cache.ttl_default_s,
            cache.ttl_max_s,
            cache.ttl_min_s,
            cache.heuristic_percent
        ),
        (Some(7), Some(8), 2, 50)
    );
    assert!(
        !cache.default_needs_validator
            && !cache.honors_client
            && cache.apache_field
            && !cache.apache_detail_field
    );
    assert!(cache.stores_private && cache.stores_no_store);
    assert_eq!((cache.stale_if_error_s, cache.grace_s), (0, LOCK_MAX_AGE_S));
    assert_eq!(cache.ignored_fields, ["Set-Cookie", "X-A"]);
    assert_eq!(
        (cache.ignored_parameters, cache.ignored_path_parameters),
        (
            vec!["jsessionid".to_owned(), "*".into()],
            vec!["jsessionid".to_owned()]
        )
    );
    assert_eq!(
        (cache.entry_bytes_min, cache.entry_bytes_max),
        (64, Some(640))
    );
}

#[test]
fn what_is_further_in_counts() {
    let outer =
        cache("CacheLookup on\nCacheKeyModify -qs:a\nCacheDefaultExpire 10\nCacheIgnoreHeaders A");
    let lookup = |inner: &str| {
        let merged = outer.merge(&cache(inner));
        CacheUse::clone(&merged.in_use(merged.verdict(b"/")))
    };
    assert_eq!(
        lookup("CacheKeyModify -qs:b").ignored_parameters,
        ["a", "b"]
    );
    assert_eq!(
        lookup("CacheKeyModify clear\nCacheKeyModify -qs:b").ignored_parameters,
        ["b"]
    );
    assert_eq!(lookup("CacheIgnoreHeaders B").ignored_fields, ["B"]);
    assert!(
        lookup("").is_on && !lookup("CacheLookup off").is_on && !lookup("CacheDisable /").is_on
    );
    assert!(lookup("CacheLookup private off").public && !lookup("CacheLookup private off").private);
    assert_eq!(lookup("CacheDefaultExpire 20").lscache_ttl_s, (20, 20));
    assert!(!outer.merge(&Cache::default()).verdict(b"/").by_httpd);
}

#[test]
fn mistakes_are_refused() {
    for (text, expected) in [
        ("CacheLookup maybe", "CacheLookup must be on or off"),
        ("CacheEnable public shop", "shop is no path"),
        ("CacheKeyModify qs:a", "CacheKeyModify takes"),
        ("CacheEngine fast", "CacheEngine takes"),
        ("CacheMaxExpire soon", "non-negative integer"),
        ("CacheLastModifiedFactor x", "must be a float"),
        ("CacheDisable /a /b", "CacheDisable takes one argument"),
        ("CacheLastModifiedFactor 1e300", "must be a float"),
    ] {
        assert!(
            refused(text).contains(expected),
            "{text}: {}",
            refused(text)
        );
    }
    let forward = loaded("CacheEnable disk http://example.org/");
    assert!(
        forward
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.message.contains("forward proxy"))
    );
    assert!(!forward.apache.hosts[0].defaults.cache.verdict(b"/").is_on());
}

#[test]
fn the_store_is_wanted_where_something_may_come_to_use_it() {
    for (text, expected) in [
        ("", false),
        ("CacheEnable disk /", true),
        ("<VirtualHost *:80>\nCacheLookup on\n</VirtualHost>", true),
        ("<Directory /srv>\nAllowOverride None\n</Directory>", false),
        ("<Directory /srv>\nAllowOverride All\n</Directory>", true),
    ] {
        assert_eq!(loaded(text).model.wants_cache(), expected, "{text}");
    }
    let folder = |text: &str| loaded(text).model.cache.folder.clone();
    assert_eq!(
        folder("CacheRoot cache\nCacheRoot /other").as_deref(),
        Some(std::path::Path::new("/srv/cache/saker"))
    );
    assert_eq!(folder(""), None);
}
