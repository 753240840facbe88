//! The page cache under Apache's configuration: LiteSpeed's directives in `.htaccess`, mod_cache's
//! in the server's files, and what the rest of the configuration does to a page that comes from the
//! cache.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Response, Saker, TempDir, free_port, saker::adjustable_clock, wait_until_or,
};
use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt};

/// Counts its runs, and says what the test wants it to say.
const SCRIPT: &str = "#!/bin/sh\necho run >> '{dir}/made'\ncat '{dir}/said'\nprintf 'Content-Type: text/html\\n\\n'\n\
                      printf '%s %s [%s]' \"$REQUEST_URI\" \"$(grep -c run '{dir}/made')\" \"$LSCACHE_VARY_VALUE\"\n";
const MODULES: [&str; 15] = [
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "auth_basic",
    "cache",
    "cache_disk",
    "cgid",
    "expires",
    "headers",
    "include",
    "mime",
    "rewrite",
];

struct Site {
    saker: Saker,
}

impl Site {
    /// With these lines in the one host, and a script `x.cgi`.
    fn start(name: &str, lines: &str) -> Site {
        Site::with_hosts(
            name,
            &format!(
                "<VirtualHost *>\nServerName localhost\nDocumentRoot {{dir}}/www\n{lines}\n</VirtualHost>\n"
            ),
        )
    }

    fn with_hosts(name: &str, hosts: &str) -> Site {
        let dir = TempDir::new(name).unwrap();
        fs::set_permissions(dir.join(""), fs::Permissions::from_mode(0o755)).unwrap();
        adjustable_clock(&dir).unwrap();
        let script = dir
            .write(
                "www/x.cgi",
                SCRIPT.replace("{dir}", &dir.display().to_string()),
            )
            .unwrap();
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        let modules: String = MODULES
            .iter()
            .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
            .collect();
        let text = format!(
            "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nTypesConfig /etc/mime.types\nAddHandler cgi-script .cgi\n\
             <Directory {{dir}}/www>\nOptions FollowSymLinks ExecCGI Includes\nAllowOverride All\nRequire all granted\n</Directory>\n{hosts}"
        );
        let site = Site {
            saker: operate::apache(&text).start(dir),
        };
        site.says("");
        site
    }

    /// Sets response fields of the script from now on.
    fn says(&self, fields: &str) {
        self.saker
            .dir
            .write(
                "said",
                format!("{fields}{}", if fields.is_empty() { "" } else { "\n" }),
            )
            .unwrap();
    }

    fn htaccess(&self, text: &str) {
        self.saker.dir.write("www/.htaccess", text).unwrap();
    }

    fn made(&self) -> usize {
        fs::read_to_string(self.saker.dir.join("made")).map_or(0, |text| text.lines().count())
    }

    fn ask(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        self.saker
            .connect()
            .unwrap()
            .request("GET", target, fields)
            .unwrap()
    }

    /// Value of X-LiteSpeed-Cache.
    fn cached(&self, target: &str) -> String {
        self.ask(target, &[])
            .field("x-litespeed-cache")
            .unwrap_or_default()
            .to_owned()
    }

    /// True for each of two requests for which the script runs.
    fn runs(&self, target: &str, fields: &[(&str, &str)]) -> [bool; 2] {
        [(); 2].map(|()| {
            let before = self.made();
            assert_eq!(self.ask(target, fields).status, 200, "{target}");
            self.made() > before
        })
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        wait_until_or(is_so, || format!("{what}\n{}", self.saker.server.stderr()));
    }
}

const PUBLIC: &str = "X-LiteSpeed-Cache-Control: public,max-age=60";
const ON: &str = "<IfModule LiteSpeed>\nCacheLookup on\n</IfModule>\n";

#[test]
fn htaccess_switches_it_on_and_off_at_once() {
    let site = Site::start("ac-htaccess", "");
    site.says(PUBLIC);
    assert_eq!(site.runs("/x.cgi", &[]), [true, true]);
    site.htaccess(ON);
    site.until("CacheLookup on", || !site.cached("/x.cgi").is_empty());
    assert_eq!(
        (site.cached("/x.cgi"), site.runs("/x.cgi", &[])),
        ("hit".into(), [false, false])
    );
    let first = site.ask("/x.cgi", &[]).text();
    site.htaccess("CacheLookup off\n");
    site.until("CacheLookup off", || site.cached("/x.cgi").is_empty());
    assert_eq!(site.runs("/x.cgi", &[]), [true, true]);
    site.htaccess(ON);
    site.until("CacheLookup on again", || site.cached("/x.cgi") == "hit");
    assert_eq!(
        site.ask("/x.cgi", &[]).text(),
        first,
        "what was kept is there still"
    );
    fs::remove_file(site.saker.dir.join("www/.htaccess")).unwrap();
    site.until("no .htaccess", || site.cached("/x.cgi").is_empty());
    // Its own words alone don't count where only the application's do.
    site.htaccess(ON);
    site.says("Cache-Control: public, max-age=60");
    assert_eq!(site.runs("/x.cgi?http", &[]), [true, true]);
}

#[test]
fn litespeeds_directives_by_url() {
    let site = Site::start(
        "ac-urls",
        "CacheEnable public /open\nCacheEnable private /open/own\nCacheDisable public /open/no\nCacheDefaultExpire 50\nCacheKeyModify -qs:utm_*\n\
         RewriteEngine on\nRewriteRule ^/(?:open|closed) /x.cgi [L]",
    );
    assert_eq!(
        site.runs("/open/a", &[]),
        [true, false],
        "kept though nothing was said"
    );
    assert_eq!(site.cached("/open/a"), "hit");
    assert_eq!(site.runs("/open/no/a", &[]), [true, true]);
    assert_eq!(site.runs("/closed/a", &[]), [true, true]);
    assert_eq!(site.runs("/open/a?utm_source=1", &[]), [false, false]);
    assert_eq!(site.runs("/open/a?utm_source=2&page=2", &[]), [true, false]);
    assert_eq!(site.runs("/open/a?page=2", &[]), [false, false]);
    site.says("X-LiteSpeed-Cache-Control: no-cache");
    assert_eq!(
        site.runs("/open/said", &[]),
        [true, true],
        "the application has the last word"
    );
}

/// A site's owner edits the Host field, and its pages have parts and refreshes.
#[test]
fn edits_of_the_host_reach_no_other_site() {
    let host = |name: &str| {
        format!(
            "<VirtualHost *>\nServerName {name}.test\nDocumentRoot {{dir}}/www/{name}\nCacheLookup on\nCacheEnable disk /\n</VirtualHost>\n"
        )
    };
    let site = Site::with_hosts("ac-edited-host", &[host("a"), host("b")].concat());
    let script = |path: &str, text: &str| {
        let file = site
            .saker
            .dir
            .write(path, format!("#!/bin/sh\n{text}"))
            .unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(
        "www/a/parts.cgi",
        "printf 'X-LiteSpeed-Cache-Control: no-cache, esi=on\\nContent-Type: text/html\\n\\n'\n\
         printf '<esi:inline name=\"/page.cgi\" cache-control=\"public,max-age=3600\">of a</esi:inline>'\n",
    );
    let refreshed =
        "printf 'ETag: \"1\"\\nCache-Control: public, max-age=1, stale-while-revalidate=600\\n'\n";
    script(
        "www/a/aged.cgi",
        &format!(
            "echo run >>'{{dir}}/aged'\n{refreshed}printf 'Content-Type: text/html\\n\\nof a'\n"
        )
        .replace("{dir}", &site.saker.dir.display().to_string()),
    );
    script(
        "www/b/aged.cgi",
        &format!(
            "test \"$HTTP_IF_NONE_MATCH\" && printf 'Status: 304\\n'\n{refreshed}printf 'Content-Type: text/html\\n\\nof b'\n"
        ),
    );
    script(
        "www/b/page.cgi",
        "printf 'X-LiteSpeed-Cache-Control: public,max-age=60\\nContent-Type: text/html\\n\\nof b'\n",
    );
    let dir = &site.saker.dir;
    dir.write("www/a/.htaccess", "RequestHeader set Host b.test\n")
        .unwrap();
    let ask = |host: &str, target: &str| site.ask(target, &[("Host", host)]).text();
    assert_eq!(ask("a.test", "/parts.cgi"), "");
    assert_eq!(ask("b.test", "/page.cgi"), "of b");
    assert_eq!(ask("a.test", "/aged.cgi"), "of a");
    let made = || fs::read_to_string(dir.join("aged")).map_or(0, |text| text.lines().count());
    site.saker.advance_clock(2).unwrap();
    assert_eq!(ask("a.test", "/aged.cgi"), "of a");
    site.until("a's own page is refreshed", || made() > 1);
    assert_eq!(ask("b.test", "/aged.cgi"), "of b");
}

/// Spellings of LiteSpeed's plug-ins for WordPress and Flarum.
#[test]
fn lists_of_cookies_have_commas() {
    let site = Site::start("ac-lists", "");
    site.says(PUBLIC);
    for (rule, cookie) in [
        (r#"[E="Cache-Vary:,wp-postpass_a34b"]"#, "wp-postpass_a34b"),
        (r#"[E="Cache-Vary:other,wp-postpass_b"]"#, "wp-postpass_b"),
        (
            "[E=Cache-Vary:flarum_remember,flarum_lscache_vary,L]",
            "flarum_lscache_vary",
        ),
    ] {
        site.htaccess(&format!(
            "<IfModule LiteSpeed>\nRewriteEngine on\nCacheLookup on\nRewriteRule .? - {rule}\n</IfModule>\n"
        ));
        let target = format!("/x.cgi?{cookie}");
        site.until("the cache is on", || site.cached(&target) == "hit");
        let fields = [("Cookie", &*format!("{cookie}=1"))];
        assert_eq!(site.runs(&target, &fields), [true, false], "{rule}");
        let fields = [("Cookie", "another=1")];
        assert_eq!(site.runs(&target, &fields), [false, false], "{rule}");
    }
}

#[test]
fn rules_tell_the_cache() {
    let site = Site::start("ac-rules", "");
    site.htaccess(
        "RewriteEngine on\nCacheLookup on\n\
         RewriteRule .* - [E=Cache-Control:no-autoflush]\n\
         RewriteRule ^kept - [E=Cache-Control:public,E=cache-ctrl:max-age=60]\n\
         RewriteRule ^never - [E=Cache-Control:no-cache]\n\
         RewriteCond %{HTTP:Accept} webp\nRewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+webp]\n\
         RewriteCond %{HTTP:X-Small} .\nRewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+small]\n\
         RewriteRule !\\.cgi$ /x.cgi [L]\n",
    );
    // Behind a redirect inside, as with everything that WordPress answers.
    assert_eq!(site.runs("/kept", &[]), [true, false]);
    assert_eq!(site.runs("/other", &[]), [true, true]);
    assert_eq!(site.runs("/never", &[]), [true, true]);
    let both = [("Accept", "image/webp"), ("X-Small", "1")];
    for (fields, value) in [
        (&both[..], "+webp+small"),
        (&both[..1], "+webp"),
        (&both[1..], "+small"),
    ] {
        assert_eq!(site.runs("/kept", fields), [true, false], "{value}");
        assert!(
            site.ask("/kept", fields)
                .text()
                .ends_with(&format!("[{value}]")),
            "{value}"
        );
    }
    assert!(site.ask("/kept", &[]).text().ends_with("[]"));
}

/// LSCache protocol 3.2: background jobs are started by clients that do not wait for them.
#[test]
fn noabort_lets_a_program_outlive_its_client() {
    let site = Site::start("ac-noabort", "Protocols h2c http/1.1");
    let done = site.saker.dir.join("done");
    let text = format!(
        "#!/bin/sh\necho \"$QUERY_STRING\" >> '{0}.begun'\nsleep 1\necho \"$QUERY_STRING\" >> '{0}'\nprintf 'Content-Type: text/plain\\n\\n'\n",
        done.display()
    );
    let script = site.saker.dir.write("www/slow.cgi", text).unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    site.htaccess("RewriteEngine on\nRewriteCond %{QUERY_STRING} stays\nRewriteRule .* - [E=noabort:1]\nRewriteRule ^job$ /slow.cgi [L]\n");
    for target in ["/slow.cgi?goes", "/slow.cgi?stays-1", "/job?stays-2"] {
        let mut client = site.saker.connect().unwrap();
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .unwrap();
        let begun = format!("{}\n", target.rsplit('?').next().unwrap());
        site.until("the program has begun", || {
            fs::read_to_string(site.saker.dir.join("done.begun"))
                .is_ok_and(|text| text.contains(&begun))
        });
        client.reset().unwrap();
    }
    // Over HTTP/2, where a client takes its streams along.
    for target in ["/slow.cgi?goes-2", "/slow.cgi?stays-3"] {
        let mut curl = std::process::Command::new(saker_testkit::require("curl").unwrap());
        let url = format!("http://{}{target}", site.saker.server.address());
        let output = curl
            .args(["-sS", "-m", "0.5", "--http2-prior-knowledge", &url])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(28), "{output:?}");
    }
    let text = || fs::read_to_string(&done).unwrap_or_default();
    site.until("all are done", || {
        (1..4).all(|number| text().contains(&format!("stays-{number}")))
    });
    assert!(!text().contains("goes"), "{}", text());
}

#[test]
fn mod_caches_directives() {
    let site = Site::start(
        "ac-httpd",
        "CacheEnable disk /\nCacheDisable /x.cgi/no\nCacheIgnoreHeaders X-Own\nCacheHeader on\n<Location /x.cgi/private>\nCacheStorePrivate on\n\
         </Location>\n<Location /x.cgi/short>\nCacheDefaultExpire 3\nCacheStaleOnError off\n</Location>\n<Location /x.cgi/client>\nCacheIgnoreCacheControl on\n</Location>",
    );
    let kept = "Cache-Control: max-age=60\nX-Own: one\nX-All: all";
    type Row<'t> = (&'t str, &'t str, &'t [(&'t str, &'t str)], [bool; 2]);
    let rows: [Row<'_>; 11] = [
        (kept, "/plain", &[], [true, false]),
        (kept, "/no/plain", &[], [true, true]),
        ("", "/nothing-said", &[], [true, true]),
        (
            "Last-Modified: Sat, 01 Nov 2025 00:00:00 GMT",
            "/heuristic",
            &[],
            [true, false],
        ),
        ("ETag: \"a\"", "/default-life", &[], [true, false]),
        (
            "Cache-Control: private, max-age=60",
            "/own",
            &[],
            [true, true],
        ),
        (
            "Cache-Control: private, max-age=60",
            "/private/own",
            &[],
            [true, false],
        ),
        (
            "Cache-Control: no-store, max-age=60",
            "/no-store",
            &[],
            [true, true],
        ),
        (
            kept,
            "/reload",
            &[("Cache-Control", "no-cache")],
            [true, true],
        ),
        (
            kept,
            "/client/reload",
            &[("Cache-Control", "no-cache")],
            [true, false],
        ),
        (
            kept,
            "/plain",
            &[("Authorization", "Basic YTpi")],
            [true, true],
        ),
    ];
    for (said, path, fields, expected) in rows {
        site.says(said);
        let target = format!("/x.cgi{path}");
        assert_eq!(
            site.runs(&target, fields),
            expected,
            "{path} {said} {fields:?}"
        );
    }
    site.says(kept);
    let hit = site.ask("/x.cgi/plain", &[]);
    assert_eq!(
        (
            hit.field("x-own"),
            hit.field("x-all"),
            hit.field("age").is_some()
        ),
        (None, Some("all"), true)
    );
    site.says("ETag: \"a\"");
    assert_eq!(site.runs("/x.cgi/short/a", &[]), [true, false]);
    site.saker.advance_clock(5).unwrap();
    assert_eq!(
        site.runs("/x.cgi/short/a", &[]),
        [true, false],
        "its three seconds are over, and it is validated"
    );
    let without_query = Site::start("ac-query", "CacheEnable disk /\nCacheIgnoreQueryString on");
    without_query.says(kept);
    assert_eq!(without_query.runs("/x.cgi?a=1", &[]), [true, false]);
    assert_eq!(without_query.runs("/x.cgi?a=2", &[]), [false, false]);
}

/// Fields that both servers send and that do not depend on time.
fn lasting(response: &Response) -> Vec<(String, String)> {
    let passing = [
        "date",
        "age",
        "x-litespeed-cache",
        "x-litespeed-cache-control",
        "expires",
        "content-length",
        "transfer-encoding",
    ];
    let fields = response
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let mut fields: Vec<_> = fields
        .filter(|(name, _)| !passing.contains(&name.as_str()))
        .collect();
    fields.sort();
    fields
}

#[test]
fn fields_are_changed_once() {
    let site = Site::start(
        "ac-fields",
        "CacheLookup on\nHeader always append X-Append two\nHeader add X-Add one\nHeader set X-Set one\nHeader always set X-Always one\n\
         Header always edit X-Edit a aa\nHeader merge Vary X-Merged\nHeader always unset X-Unset\nExpiresActive on\nExpiresDefault \"access plus 1 hour\"\n\
         Header set X-By expr=%{HTTP:X-Mark}",
    );
    site.says(&format!("{PUBLIC}\nX-Append: one\nX-Edit: a\nX-Unset: one"));
    let miss = site.ask("/x.cgi", &[("X-Mark", "first")]);
    let hits = [(); 3].map(|()| site.ask("/x.cgi", &[("X-Mark", "first")]));
    assert_eq!(site.made(), 1);
    for hit in &hits {
        assert_eq!(hit.field("x-litespeed-cache"), Some("hit"));
        assert_eq!(lasting(hit), lasting(&miss));
        assert_eq!(hit.field_values("expires").count(), 1);
    }
    assert_eq!(miss.field("x-append"), Some("one, two"));
    assert_eq!(
        (miss.field("x-edit"), miss.field("x-unset")),
        (Some("aa"), None)
    );
    assert_eq!(
        site.ask("/x.cgi", &[("X-Mark", "second")]).field("x-by"),
        Some("second"),
        "of this request, not of the first"
    );
}

#[test]
fn access_rules_come_first() {
    let site = Site::start("ac-access", "");
    // `user` with the password `secret`.
    site.saker
        .dir
        .write("users", "user:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
        .unwrap();
    site.says(PUBLIC);
    site.htaccess(ON);
    assert_eq!(site.runs("/x.cgi", &[]), [true, false]);
    site.htaccess(&format!("{ON}Require ip 10.0.0.0/8\n"));
    site.until("Require ip", || site.ask("/x.cgi", &[]).status == 403);
    assert_eq!(site.ask("/x.cgi", &[]).field("x-litespeed-cache"), None);
    let users = site.saker.dir.join("users").display().to_string();
    site.htaccess(&format!(
        "{ON}AuthType Basic\nAuthName all\nAuthUserFile {users}\nRequire valid-user\n"
    ));
    site.until("Require valid-user", || {
        site.ask("/x.cgi", &[]).status == 401
    });
    assert_eq!(
        site.ask("/x.cgi", &[("Authorization", "Basic dXNlcjp3cm9uZw==")])
            .status,
        401
    );
    let admitted = site.ask("/x.cgi", &[("Authorization", "Basic dXNlcjpzZWNyZXQ=")]);
    assert_eq!(
        (admitted.status, admitted.field("x-litespeed-cache")),
        (200, Some("hit"))
    );
    assert_eq!(
        site.ask("/x.cgi", &[]).status,
        401,
        "what one was given is not for all"
    );
    site.htaccess(&format!("{ON}RewriteEngine on\nRewriteRule . - [F]\n"));
    site.until("a rule that forbids", || {
        site.ask("/x.cgi", &[]).status == 403
    });
    assert_eq!(site.made(), 1);
}

#[test]
fn pages_that_include_others_are_kept_whole() {
    let site = Site::start(
        "ac-includes",
        "CacheLookup on\nAddOutputFilter INCLUDES .cgi",
    );
    site.saker.dir.write("www/part.html", "old part").unwrap();
    site.says(&format!("{PUBLIC}\nX-LiteSpeed-Tag: page"));
    let script = fs::read_to_string(site.saker.dir.join("www/x.cgi")).unwrap();
    site.saker
        .dir
        .write(
            "www/x.cgi",
            format!("{script}printf '<!--#include virtual=\"/part.html\" -->'\n"),
        )
        .unwrap();
    let page = |expected: &str| {
        let response = site.ask("/x.cgi", &[]);
        assert!(response.text().ends_with(expected), "{}", response.text());
        response
            .field("x-litespeed-cache")
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!([page("]old part"), page("]old part")], ["miss", "hit"]);
    site.saker.dir.write("www/part.html", "new part").unwrap();
    assert_eq!((page("]old part").as_str(), site.made()), ("hit", 1));
    site.says("X-LiteSpeed-Purge: tag=page");
    site.ask("/x.cgi?purge", &[]);
    site.says(&format!("{PUBLIC}\nX-LiteSpeed-Tag: page"));
    assert_eq!([page("]new part"), page("]new part")], ["miss", "hit"]);
}

#[test]
fn hosts_have_pages_of_their_own() {
    let host = |name: &str, more: &str| {
        format!(
            "<VirtualHost *>\nServerName {name}\nServerAlias www.{name}\nDocumentRoot {{dir}}/www\n{more}\n</VirtualHost>\n"
        )
    };
    let hosts = [
        host("one.test", "CacheLookup on"),
        host("two.test", "CacheLookup on"),
        host("three.test", ""),
    ]
    .concat();
    let site = Site::with_hosts("ac-hosts", &hosts);
    site.says(PUBLIC);
    let cached = |name: &str| {
        site.ask("/x.cgi", &[("Host", name)])
            .field("x-litespeed-cache")
            .unwrap_or_default()
            .to_owned()
    };
    for (name, expected) in [
        ("one.test", ["miss", "hit"]),
        ("two.test", ["miss", "hit"]),
        ("www.one.test", ["miss", "hit"]),
        ("three.test", [""; 2]),
    ] {
        assert_eq!([cached(name), cached(name)], expected, "{name}");
    }
    site.says("X-LiteSpeed-Purge: *");
    site.ask("/x.cgi?purge", &[("Host", "one.test")]);
    site.says(PUBLIC);
    assert_eq!(
        ["two.test", "one.test", "www.one.test"].map(cached),
        ["hit", "miss", "miss"]
    );
}

/// A page of one script with parts of another, and an error document that is a page with parts.
#[test]
fn pages_with_parts() {
    let site = Site::start("ac-esi", "ErrorDocument 404 /page.cgi?error");
    site.htaccess("<IfModule LiteSpeed>\nCacheLookup on\n</IfModule>\nRewriteEngine On\nRewriteRule ^part/(.*)$ x.cgi?$1 [L]\n");
    let page = "#!/bin/sh\nprintf 'X-LiteSpeed-Cache-Control: public,max-age=60,esi=on\\nContent-Type: text/html\\n\\n'\n\
                printf '<p><esi:include src=\"/part/a\"/> <esi:include src=\"/none.html\" onerror=\"continue\"/></p>'\n";
    let script = site.saker.dir.write("www/page.cgi", page).unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    site.says("X-LiteSpeed-Cache-Control: public,max-age=60\nX-LiteSpeed-Tag: part");
    for expected in ["miss", "hit", "hit"] {
        let response = site.ask("/page.cgi", &[]);
        assert_eq!(
            (
                response.text().as_str(),
                response.field("x-litespeed-cache")
            ),
            ("<p>/part/a 1 [] </p>", Some(expected))
        );
    }
    assert_eq!(site.made(), 1, "the part");
    let missing = site.ask("/missing.html", &[]);
    assert_eq!(missing.status, 404);
    assert_eq!(
        (
            missing.text().as_str(),
            missing.field("x-litespeed-cache-control")
        ),
        ("<p>/part/a 1 [] </p>", None)
    );
    assert_eq!(site.made(), 1);
}

fn program(dir: &TempDir, path: &str, text: &str) {
    let script = dir.write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Two sites, and the first one's `.htaccess` edits Host into the other's name.
fn edited_host(name: &str) -> Site {
    let hosts = ["a", "b"].map(|name| {
        format!(
            "<VirtualHost *>\nServerName {name}.test\nDocumentRoot {{dir}}/www/{name}\nCacheLookup on\n</VirtualHost>\n"
        )
    });
    let site = Site::with_hosts(name, &hosts.concat());
    let htaccess = "RequestHeader set Host b.test\n";
    site.saker.dir.write("www/a/.htaccess", htaccess).unwrap();
    site
}

#[test]
fn inline_content_is_no_page_of_the_host_that_rules_name() {
    let site = edited_host("ac-host-inline");
    let dir = &site.saker.dir;
    let kept =
        "printf 'Content-Type: text/html\\nX-LiteSpeed-Cache-Control: public,max-age=60\\n\\n'\n";
    program(dir, "www/b/x.cgi", &format!("{kept}printf genuine"));
    program(
        dir,
        "www/a/page.cgi",
        "printf 'Content-Type: text/html\\nX-LiteSpeed-Cache-Control: no-cache,esi=on\\n\\n'\n\
         printf '<esi:inline name=\"/x.cgi\" cache-control=\"public,max-age=3600\">other</esi:inline><esi:include src=\"/x.cgi\"/>'",
    );
    let page = site.ask("/page.cgi", &[("Host", "a.test")]);
    assert_eq!((page.status, page.text().as_str()), (200, "other"));
    assert_eq!(site.ask("/x.cgi", &[("Host", "b.test")]).text(), "genuine");
}

#[test]
fn refreshes_are_for_the_site_of_their_page() {
    let site = edited_host("ac-host-refresh");
    let dir = &site.saker.dir;
    let made = dir.join("refreshed").display().to_string();
    let fields = "printf 'Content-Type: text/html\\nETag: \"v1\"\\nCache-Control: public,max-age=1,stale-while-revalidate=600\\n\\n'";
    program(
        dir,
        "www/a/x.cgi",
        &format!("echo a >> '{made}'\n{fields}\nprintf other"),
    );
    program(
        dir,
        "www/b/x.cgi",
        &format!(
            "echo b >> '{made}'\n[ -n \"$HTTP_IF_NONE_MATCH\" ] && printf 'Status: 304\\n'\n{fields}\n\
             [ -z \"$HTTP_IF_NONE_MATCH\" ] && printf genuine"
        ),
    );
    let first = site.ask("/x.cgi", &[("Host", "a.test")]);
    assert_eq!(first.text(), "other");
    site.saker.advance_clock(5).unwrap();
    assert_eq!(site.ask("/x.cgi", &[("Host", "a.test")]).text(), "other");
    let runs = || fs::read_to_string(&made).unwrap();
    site.until("no refresh", || runs().lines().count() > 1);
    assert_eq!(runs(), "a\na\n");
    assert_eq!(site.ask("/x.cgi", &[("Host", "b.test")]).text(), "genuine");
}

#[test]
fn sites_for_addresses_share_no_pages() {
    let dir = operate::folder("ac-addresses");
    let port = free_port().unwrap();
    let [a, b] = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], port)));
    program(
        &dir,
        "www/x.cgi",
        "printf 'Content-Type: text/html\\nCache-Control: public,max-age=60\\n\\n'\nprintf %s \"$HTTP_X_SITE\"",
    );
    let host = |address: SocketAddr, name: &str| {
        format!(
            "<VirtualHost {address}>\nServerName {name}.test\nDocumentRoot {{dir}}/www\nCacheLookup on\nRequestHeader set X-Site {name}\n</VirtualHost>\n"
        )
    };
    let modules: String = MODULES
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let text = format!(
        "ServerRoot {{dir}}\n{modules}Listen {a}\nListen {b}\nServerName localhost\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n\
         TypesConfig /etc/mime.types\nAddHandler cgi-script .cgi\n<Directory {{dir}}/www>\nOptions ExecCGI\nRequire all granted\n</Directory>\n{}{}",
        host(a, "a"),
        host(b, "b")
    );
    let _server = operate::apache(&text).at(a).start_in(&dir);
    let ask = |address: SocketAddr| {
        let mut client = Client::connect(address).unwrap();
        client
            .request("GET", "/x.cgi", &[("Host", "b.test")])
            .unwrap()
            .text()
    };
    assert_eq!([ask(a), ask(a), ask(b), ask(b)], ["a", "a", "b", "b"]);
}
