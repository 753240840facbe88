//! System calls of a request: one recv and one send on a connection that stays, four calls where
//! each request has its own connection, and the shared wait. Of the workers' threads: the one that
//! reads of changed files while no request comes has work of its own.
//!
//! The counts are exact, so that no noise can hide a call too many. Tolerated are the ticker's own
//! few.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Calls, Client, Saker, SystemCalls, TempDir, saker::plain};
use std::{collections::BTreeMap, time::Duration};

const REQUESTS: u64 = 200;
/// Calls that belong to no request: log lines in batches, timers, memory.
const TOLERATED: u64 = 12;
/// The ticker's.
const READS_UNDISTURBED: u64 = 6;
const ATTEMPTS: usize = 10;
const WAITS: [&str; 3] = ["epoll_wait", "epoll_pwait", "epoll_pwait2"];

fn start(configuration: &str) -> Saker {
    let dir = TempDir::new("system-calls").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    operate::native(configuration).start(dir)
}

/// Counts while `request` runs again and again, after it has run a few times. The folders above the
/// served one are everybody's: when something changes there, a request reads what it was, may have
/// to look at its files once more, and the count is made again.
fn count(saker: &Saker, mut request: impl FnMut()) -> BTreeMap<String, Calls> {
    // Away from the server's own folders, where a new file would be news.
    let work = TempDir::new("strace").unwrap();
    let mut attempts = 0;
    loop {
        attempts += 1;
        (0..10).for_each(|_| request());
        let counting =
            SystemCalls::attach_to_threads(&saker.server, "worker-", work.as_ref()).unwrap();
        (0..REQUESTS).for_each(|_| request());
        let calls = counting.finish().unwrap();
        if (made(&calls, "openat") == 0 && made(&calls, "read") <= READS_UNDISTURBED)
            || attempts == ATTEMPTS
        {
            return calls;
        }
    }
}

fn count_on_one_connection(
    saker: &Saker,
    method: &str,
    fields: &[(&str, &str)],
    status: u16,
) -> BTreeMap<String, Calls> {
    let mut client = saker.connect().unwrap();
    count(saker, || {
        assert_eq!(
            client
                .request(method, "/small.html", fields)
                .unwrap()
                .status,
            status
        )
    })
}

fn made(calls: &BTreeMap<String, Calls>, name: &str) -> u64 {
    calls.get(name).map_or(0, |calls| calls.made)
}

/// Exactly one recv and one send per request, and nothing else but the wait.
fn is_one_recv_and_one_send(calls: &BTreeMap<String, Calls>) {
    assert_eq!(
        (made(calls, "recvfrom"), made(calls, "sendto")),
        (REQUESTS, REQUESTS),
        "{calls:?}"
    );
    let waits: u64 = WAITS.iter().map(|name| made(calls, name)).sum();
    assert!(waits <= REQUESTS + 100, "{calls:?}");
    let others: u64 = calls.values().map(|calls| calls.made).sum::<u64>() - 2 * REQUESTS - waits;
    assert!(others <= TOLERATED, "{calls:?}");
}

#[test]
fn a_small_file_on_a_connection_that_stays() {
    let _alone = crate::alone();
    let saker = start(&plain(""));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &[], 200));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "HEAD", &[], 200));
    let etag = saker
        .connect()
        .unwrap()
        .get("/small.html")
        .unwrap()
        .field("etag")
        .unwrap()
        .to_owned();
    is_one_recv_and_one_send(&count_on_one_connection(
        &saker,
        "GET",
        &[("If-None-Match", &etag)],
        304,
    ));
    is_one_recv_and_one_send(&count_on_one_connection(
        &saker,
        "GET",
        &[("Accept-Encoding", "gzip, br, zstd"), ("Cookie", "a=b")],
        200,
    ));
}

#[test]
fn with_an_access_log() {
    let _alone = crate::alone();
    let saker = start(&(plain("") + "access_log = \"{dir}/access.log\"\n"));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &[], 200));
}

/// Conditions that look at the request and don't hold, a map, and variables in fields.
#[test]
fn with_routes_that_do_not_match() {
    let _alone = crate::alone();
    let routes = "\n[site.vars]\na = \"$host\"\n[site.headers]\nX-A = \"$a\"\n\
                  [[site.route]]\npath_regex = '^/(a+)+$'\ndeny = true\n\
                  [[site.route]]\npath = \"/small.html\"\ndeny = true\n\
                  match = { any = [{ header = { X-Tag = \"~^a\" } }, { cookie = { a = \"c\" } }, { client = \"192.0.2.1\" }] }\n\
                  [[site.route]]\npath = \"/*\"\nmatch = { query = { q = true }, method = \"GET\" }\ndeny = true\n";
    let saker = start(&(plain("") + routes));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &[], 200));
    let fields = [("X-Tag", "b"), ("Cookie", "a=b")];
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &fields, 200));
}

#[test]
fn with_throttling_that_does_not_bite() {
    let _alone = crate::alone();
    let throttle = "\n[site.throttle]\nout_per_connection = \"1GB/s\"\nout_per_address = \"1GB/s\"\nout_per_site = \"1GB/s\"\n\
                    requests_static = \"100000/s\"\n";
    let saker = start(&(plain("connections_per_address = 1000\n") + throttle));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &[], 200));
}

const APACHE: &str = "ServerRoot {dir}\nLoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule rewrite_module modules/mod_rewrite.so\n\
     LoadModule authz_core_module modules/mod_authz_core.so\nLoadModule mime_module modules/mod_mime.so\nLoadModule dir_module modules/mod_dir.so\n\
     Listen {address}\nServerName a\nMaxKeepAliveRequests 0\nDocumentRoot {dir}/www\n<Directory {dir}/www>\n    AllowOverride All\n    Require all granted\n</Directory>\n";

/// A folder with work that Apache repeats on every request: files in each folder, an access rule,
/// rewrite rules by path, rules that look for files.
fn folder_with_htaccess() -> TempDir {
    let dir = TempDir::new("system-calls").unwrap();
    let rules: String = (0..20)
        .map(|number| format!("RewriteRule ^old{number}/(.*)$ /new{number}/$1 [L]\n"))
        .collect();
    for (path, text) in [
        ("www/.htaccess", format!("RewriteEngine On\n{rules}")),
        ("www/a/b/c/.htaccess", "Require all granted\nOptions -Indexes\n".into()),
        ("www/a/b/c/small.html", "x".repeat(285)),
        ("www/blog/index.html", "y".repeat(285)),
        (
            "www/blog/.htaccess",
            "RewriteEngine On\nRewriteBase /blog/\nRewriteRule ^index\\.html$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
             RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.html [L]\n"
                .into(),
        ),
    ] {
        dir.write(path, text).unwrap();
    }
    dir
}

fn costs_one_recv_and_one_send(saker: &Saker) {
    for path in ["/a/b/c/small.html", "/blog/2026/11/hello-world/", "/blog/"] {
        let mut client = saker.connect().unwrap();
        let calls = count(saker, || {
            assert_eq!(client.get(path).unwrap().body.len(), 285, "{path}")
        });
        is_one_recv_and_one_send(&calls);
    }
}

#[test]
fn with_htaccess_files() {
    let _alone = crate::alone();
    costs_one_recv_and_one_send(&operate::apache(APACHE).start(folder_with_htaccess()));
}

/// The same files cost a native site as little, and `saker serve`, which looks for them.
#[test]
fn with_htaccess_files_in_native_sites() {
    let _alone = crate::alone();
    let native = plain("") + "htaccess = true\n";
    costs_one_recv_and_one_send(&operate::native(&native).start(folder_with_htaccess()));
    let serve = operate::serve(&[
        "{dir}/www",
        "--http",
        "{address}",
        "--php",
        "off",
        "--workers",
        "1",
    ]);
    costs_one_recv_and_one_send(&serve.state_dir("{dir}/state").start(folder_with_htaccess()));
}

/// An nginx configuration with what real ones have: conditions, maps, and rewriting by path.
#[test]
fn with_an_nginx_configuration() {
    let _alone = crate::alone();
    let text = "daemon off;\npid {dir}/pid;\nevents { }\nhttp {\naccess_log off;\nkeepalive_requests 100000;\ngzip on;\n\
                gzip_types text/css text/html;\nmap $uri $lifetime { default off; ~*\\.html$ 30d; }\n\
                map $http_user_agent $is_robot { default 0; ~*(bot|crawl) 1; }\n\
                server {\nlisten {address};\nserver_name a;\nroot {dir}/www;\nserver_tokens off;\nexpires $lifetime;\n\
                add_header X-Content-Type-Options nosniff;\nif ($uri ~ ^/old) { return 301 /; }\nif ($is_robot) { return 403; }\n\
                rewrite ^/moved/(.*)$ /$1;\nlocation / { try_files $uri $uri/ =404; }\nlocation ~ /\\. { deny all; }\n\
                location ^~ /private/ { internal; }\n}\n}\n";
    let dir = TempDir::new("system-calls").unwrap();
    dir.write("www/small.html", "x".repeat(285)).unwrap();
    let saker = Saker::nginx(operate::SAKER, text).workers(1);
    let saker = saker.env("SAKER_COMPARE_HITS", "0").start(dir);
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &[], 200));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "HEAD", &[], 200));
    is_one_recv_and_one_send(&count_on_one_connection(&saker, "GET", &BROWSER, 200));
    for (path, status) in [("/moved/small.html", 200), ("/old/x", 301), ("/.git", 403)] {
        let mut client = saker.connect().unwrap();
        let mut calls = count(&saker, || {
            assert_eq!(client.get(path).unwrap().status, status, "{path}")
        });
        // A line in the error log has an id, and wakes the thread that writes it.
        for name in ["getpid", "futex"] {
            calls.remove(name);
        }
        is_one_recv_and_one_send(&calls);
    }
}

/// A browser's head, as it comes through a proxy that ends TLS.
const BROWSER: [(&str, &str); 8] = [
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Referer", "https://a/blog/2026/11/hello-world/"),
    ("Cookie", "consent=yes; _ga=GA1.1.1234567890.1234567890"),
    ("X-Forwarded-Proto", "https"),
    ("Sec-Fetch-Mode", "navigate"),
];

/// A firewall of 120 patterns about User-Agent, query, and Referer.
fn firewall() -> String {
    let mut text = String::from("RewriteEngine On\n");
    for variable in ["HTTP_USER_AGENT", "QUERY_STRING", "HTTP_REFERER"] {
        for number in 0..40 {
            let or = if number < 39 { ",OR" } else { "" };
            text.push_str(&format!(
                "RewriteCond %{{{variable}}} \"(evil{number}|bad-?bot{number}|union[^a-z]+select{number})\" [NC{or}]\n"
            ));
        }
        text.push_str("RewriteRule .* - [F,L]\n");
    }
    text
}

/// Rules that look at the client, its browser, and the page that it comes from: what they test is
/// tested again for each request, without a look at a file.
#[test]
fn with_rules_about_the_request() {
    let _alone = crate::alone();
    let dir = TempDir::new("system-calls").unwrap();
    let modules = "LoadModule authz_host_module modules/mod_authz_host.so\nLoadModule access_compat_module modules/mod_access_compat.so\n\
                   LoadModule setenvif_module modules/mod_setenvif.so\nLoadModule headers_module modules/mod_headers.so\n";
    let rules = [
        (
            "ip",
            "<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.0/24\n</RequireAll>\n".into(),
        ),
        (
            "deny",
            "SetEnvIfNoCase User-Agent \"(bot|crawl|spider)\" bad_bot\nOrder allow,deny\nAllow from all\nDeny from env=bad_bot\nDeny from 192.0.2.7\n\
             Header set X-Robot yes env=bad_bot\n".into(),
        ),
        ("firewall", firewall()),
        (
            "wordpress",
            "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteCond %{HTTP:X-Forwarded-Proto} !https\n\
             RewriteRule ^(.*)$ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]\nRewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]\n\
             RewriteRule ^ https://%1%{REQUEST_URI} [R=301,L]\nRewriteBase /wordpress/\nRewriteRule ^index\\.php$ - [L]\n\
             RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /wordpress/small.html [L]\n".into(),
        ),
        (
            "hotlink",
            "RewriteEngine On\nRewriteCond %{HTTP_REFERER} !^$\nRewriteCond %{HTTP_REFERER} !^https?://(www\\.)?a/ [NC]\n\
             RewriteRule \\.(html|jpg|png)$ - [F,NC,L]\n".into(),
        ),
        (
            "expression",
            "<If \"%{HTTP_USER_AGENT} =~ /MSIE/ || req('X-Old') == 'yes'\">\nForceType text/plain\n</If>\nRequire expr -z req('X-Block')\n".into(),
        ),
    ];
    for (folder, text) in &rules {
        dir.write(&format!("www/{folder}/.htaccess"), text).unwrap();
        let file = format!("www/{folder}/a/b/small.html");
        dir.write(&file, "x".repeat(285)).unwrap();
    }
    let saker =
        operate::apache(&APACHE.replacen("Listen", &format!("{modules}Listen"), 1)).start(dir);
    for (folder, _) in &rules {
        let path = format!("/{folder}/a/b/small.html?ver=6.4");
        let mut client = saker.connect().unwrap();
        let calls = count(&saker, || {
            let response = client.request("GET", &path, &BROWSER).unwrap();
            assert_eq!(response.body.len(), 285, "{path}: {response:?}");
        });
        is_one_recv_and_one_send(&calls);
    }
}

/// Rules that answer by themselves are not asked again, and no file is looked at.
#[test]
fn denials_and_redirects() {
    let _alone = crate::alone();
    let dir = TempDir::new("system-calls").unwrap();
    let modules = "LoadModule authz_host_module modules/mod_authz_host.so\nLoadModule setenvif_module modules/mod_setenvif.so\n\
                   LoadModule alias_module modules/mod_alias.so\n";
    let rules = [
        (
            "denied",
            "Require not ip 127.0.0.1\nRequire all granted\n",
            403,
        ),
        (
            "bots",
            "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} (curl|Mozilla)\nRewriteRule ^ - [F]\n",
            403,
        ),
        (
            "moved",
            "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteRule ^(.*)$ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]\n",
            301,
        ),
        (
            "alias",
            "RedirectMatch 302 ^/alias/(.*)$ /elsewhere/$1\n",
            302,
        ),
    ];
    for (folder, text, _) in &rules {
        let text = text.replacen("Require not", "<RequireAll>\nRequire not", 1);
        let text = match text.contains("<RequireAll>") {
            true => text + "</RequireAll>\n",
            false => text,
        };
        dir.write(&format!("www/{folder}/.htaccess"), text).unwrap();
        dir.write(&format!("www/{folder}/a/b/small.html"), "x")
            .unwrap();
    }
    let saker =
        operate::apache(&APACHE.replacen("Listen", &format!("{modules}Listen"), 1)).start(dir);
    for (folder, _, status) in &rules {
        let path = format!("/{folder}/a/b/small.html");
        let mut client = saker.connect().unwrap();
        let calls = count(&saker, || {
            let response = client.request("GET", &path, &BROWSER).unwrap();
            assert_eq!(response.status, *status, "{path}: {response:?}");
        });
        // A line in the error log has an id that no other process makes, and wakes the thread that
        // writes it.
        let mut calls = calls;
        for name in ["getpid", "futex"] {
            calls.remove(name);
        }
        is_one_recv_and_one_send(&calls);
    }
}

#[test]
fn a_connection_per_request() {
    let _alone = crate::alone();
    let saker = start(&plain(""));
    let address = saker.server.address();
    let calls = count(&saker, || {
        let mut client = Client::connect(address).unwrap();
        client
            .send("GET /small.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_response().unwrap().status, 200);
        assert!(client.closed_within(Duration::from_secs(5)));
    });
    let accepts = calls["accept4"];
    assert_eq!(accepts.made - accepts.failed, REQUESTS, "{calls:?}");
    // One look more per wake tells that the queue is empty.
    assert!(accepts.failed <= REQUESTS, "{calls:?}");
    for name in ["recvfrom", "sendto", "close"] {
        assert!(
            (REQUESTS..=REQUESTS + 2).contains(&made(&calls, name)),
            "{name}: {calls:?}"
        );
    }
    assert_eq!(made(&calls, "epoll_ctl"), 0, "{calls:?}");
    let waits: u64 = WAITS.iter().map(|name| made(&calls, name)).sum();
    // A connection that was in the queue before the event loop was asked again costs no wait, but a
    // look at what has changed.
    let looks = made(&calls, "ioctl");
    assert!(looks + waits <= REQUESTS + TOLERATED, "{calls:?}");
    // The standard library looks at each descriptor before it closes it, in builds with debug
    // assertions.
    let checks = if cfg!(debug_assertions) {
        made(&calls, "fcntl").min(REQUESTS)
    } else {
        0
    };
    let others = calls.values().map(|calls| calls.made).sum::<u64>()
        - accepts.made
        - 3 * REQUESTS
        - waits
        - looks
        - checks;
    assert!(others <= TOLERATED, "{calls:?}");
}

/// A script is looked for once, and again when something has changed: what a request for one costs
/// is the talk with PHP.
#[test]
fn a_php_script() {
    let _alone = crate::alone();
    let script = "<?php echo strlen('x');";
    let native = "[server]\nworkers = 1\nstate_dir = \"{dir}/state\"\n\n[php]\nprogram = \"php-fpm\"\nprocesses = 1\n\n[[listener]]\n\
                  address = \"{address}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{dir}/www\"\nphp = \"auto\"\n";
    let apache = format!(
        "{APACHE}LoadModule php_module modules/libphp.so\nDirectoryIndex index.php\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n"
    );
    let permalinks = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n";
    for (name, path) in [
        ("native", "/sub/a.php"),
        ("native", "/"),
        ("apache", "/sub/a.php"),
        ("apache", "/"),
        ("apache", "/2026/11/hello-world/"),
        ("apache", "/sub/more?p=1"),
    ] {
        let dir = TempDir::new("system-calls-php").unwrap();
        dir.write("www/index.php", script).unwrap();
        dir.write("www/sub/a.php", script).unwrap();
        dir.write("www/.htaccess", permalinks).unwrap();
        let started = if name == "native" {
            operate::native(native).start(dir)
        } else {
            operate::apache(&apache).start(dir)
        };
        let saker = started;
        let mut client = saker.connect().unwrap();
        let calls = count(&saker, || {
            assert_eq!(client.get(path).unwrap().text(), "1", "{name} {path}")
        });
        let waits: u64 = WAITS.iter().map(|name| made(&calls, name)).sum();
        let talk: u64 = ["recvfrom", "sendto", "writev"]
            .iter()
            .map(|name| made(&calls, name))
            .sum();
        // To the client and to PHP, from the client and from PHP; sometimes a response comes in two
        // pieces.
        assert!(
            (4 * REQUESTS..=5 * REQUESTS).contains(&talk),
            "{name} {path}: {calls:?}"
        );
        let others = calls.values().map(|calls| calls.made).sum::<u64>() - talk - waits;
        assert!(others <= TOLERATED, "{name} {path}: {calls:?}");
    }
}
