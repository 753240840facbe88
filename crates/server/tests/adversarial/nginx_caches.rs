//! Caches of nginx configurations, attacked over HTTP/1.1, HTTP/2, and HTTP/3: clients that must not
//! meet ask over any two of them.
//!
//! Called by: `cargo test -p saker --test adversarial nginx_caches`.
//! Caveat: the key of the configuration decides who meets; the attacks are on what a key says, on
//! responses that belong to one client, and on parts and methods of one resource.

use crate::{http3_client, operate, tls_site};
use saker_testkit::{ServerProcess, TempDir, free_port, require};
use std::{net::SocketAddr, process::Command};

const PROTOCOLS: [&str; 3] = ["h1", "h2", "h3"];

struct Site {
    dir: TempDir,
    saker: ServerProcess,
}

/// A response: status, whether the cache had it, and the content.
type Told = (u16, String, String);

fn start() -> Site {
    let dir = TempDir::new("nginx-caches").unwrap();
    tls_site::certificate(&dir, "site", "localhost");
    let [front, back] = [0; 2].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
    let user = match rustix::process::geteuid().is_root() {
        true => "user www-data;\n",
        false => "",
    };
    let text = format!(
        "{user}worker_processes 1;\npid {dir}/nginx.pid;\nevents {{ }}\nhttp {{ access_log off; default_type text/plain;\n\
         proxy_cache_path {dir}/cache keys_zone=z:1m;\n\
         server {{ listen {back}; root {dir}/www;\n\
         location / {{ return 200 \"cookie=$http_cookie; auth=$http_authorization; method=$request_method; x=$http_x; host=$host\"; }}\n\
         location /set {{ add_header Set-Cookie secret=$http_x; return 200 \"x=$http_x\"; }}\n\
         location /private {{ add_header Cache-Control private; return 200 \"x=$http_x\"; }}\n\
         location /vary {{ add_header Vary X; return 200 \"x=$http_x\"; }}\n\
         location /file {{ try_files /page.txt =404; }} }}\n\
         server {{ listen {front} ssl http2; listen {front} quic; http3 on; server_name localhost;\n\
         ssl_certificate {dir}/site.pem; ssl_certificate_key {dir}/site.key;\n\
         proxy_cache z; proxy_cache_valid 200 206 1h; proxy_set_header Host $host;\n\
         proxy_cache_key $host$uri$is_args$args|$cookie_sid|$http_authorization;\n\
         add_header X-Cache $upstream_cache_status always;\n\
         location / {{ proxy_pass http://{back}; }}\n\
         location /sliced {{ slice 8; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_pass http://{back}/file; }} }} }}",
        dir = dir.display(),
    );
    dir.write("www/page.txt", "0123456789abcdefghij").unwrap();
    let file = dir.write("nginx.conf", text).unwrap();
    let mut command = Command::new(operate::SAKER);
    command
        .env("TMPDIR", dir.temporary_files().unwrap())
        .args(["run", "--workers", "1", "--nginx"])
        .arg(file)
        .arg("--state-dir")
        .arg(dir.join("state"));
    let saker = ServerProcess::start(&mut command, front).unwrap();
    Site { dir, saker }
}

impl Site {
    fn ask(&self, protocol: &str, method: &str, path: &str, fields: &[(&str, &str)]) -> Told {
        match protocol {
            "h3" => self.over_quic(method, path, fields),
            other => self.by_curl(other, method, path, fields),
        }
    }

    fn over_quic(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Told {
        let mut client = http3_client::Client::default();
        client.name = "localhost".into();
        let mut connection = client.connect(&self.saker.address().to_string());
        let body: &[u8] = if method == "POST" { b"a" } else { b"" };
        let response = connection.ask(method, path, fields, body);
        let cache = response.field("x-cache").unwrap_or_default().to_owned();
        (response.status, cache, response.text())
    }

    fn by_curl(&self, protocol: &str, method: &str, path: &str, fields: &[(&str, &str)]) -> Told {
        let port = self.saker.address().port();
        let mut curl = Command::new(require("curl").unwrap());
        curl.args(["-sS", "-m", "20", "-w", "\n%{http_code} %header{x-cache}"]);
        curl.arg("--resolve")
            .arg(format!("localhost:{port}:127.0.0.1"));
        curl.arg("--cacert").arg(self.dir.join("site.pem"));
        curl.arg(if protocol == "h2" {
            "--http2"
        } else {
            "--http1.1"
        });
        match method {
            "HEAD" => drop(curl.arg("-I").args(["-o", "/dev/null"])),
            "POST" => drop(curl.args(["-d", "a"])),
            _ => {}
        }
        for (name, value) in fields {
            curl.arg("-H").arg(format!("{name}: {value}"));
        }
        let output = curl
            .arg(format!("https://localhost:{port}{path}"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, facts) = text.rsplit_once('\n').unwrap_or_else(|| {
            panic!("{path}: {}", String::from_utf8_lossy(&output.stderr));
        });
        let (status, cache) = facts.split_once(' ').unwrap();
        (status.parse().unwrap(), cache.to_owned(), body.to_owned())
    }
}

/// Runs an attack by each pair of protocols, with a path of its own.
fn for_pairs(attack: impl Fn(&Site, (&str, &str), &str)) {
    let site = start();
    for first in PROTOCOLS {
        for second in PROTOCOLS {
            attack(&site, (first, second), &format!("{first}-{second}"));
        }
    }
}

#[test]
fn nginx_caches_keep_clients_apart_whose_keys_differ() {
    for_pairs(|site, (first, second), path| {
        let path = format!("/who?{path}");
        let ask = |protocol, fields: &[(&str, &str)]| site.ask(protocol, "GET", &path, fields);
        let own = ask(first, &[("cookie", "sid=alice"), ("x", "alice")]);
        assert!(own.2.contains("sid=alice") && own.1 == "MISS", "{own:?}");
        // Crumbs of one field (RFC 9113 section 8.2.3) are the same cookie.
        let crumbs = ask(second, &[("cookie", "a=1"), ("cookie", "sid=mallory")]);
        assert!(!crumbs.2.contains("alice"), "{crumbs:?}");
        let nobody = ask(second, &[]);
        assert!(
            !nobody.2.contains("alice") && !nobody.2.contains("mallory"),
            "{nobody:?}"
        );
        let with_password = ask(first, &[("authorization", "Basic YTpi")]);
        assert!(with_password.2.contains("YTpi"), "{with_password:?}");
        let again = ask(second, &[]);
        assert!(!again.2.contains("YTpi") && again.1 == "HIT", "{again:?}");
        let alice = ask(second, &[("cookie", "sid=alice")]);
        assert!(alice.2.contains("x=alice") && alice.1 == "HIT", "{alice:?}");
    });
}

#[test]
fn nginx_caches_store_nothing_that_is_one_clients() {
    for_pairs(|site, (first, second), path| {
        for kind in ["set", "private"] {
            let path = format!("/{kind}?{path}");
            let own = site.ask(first, "GET", &path, &[("x", "alice")]);
            assert_eq!((own.0, &*own.2), (200, "x=alice"));
            let other = site.ask(second, "GET", &path, &[("x", "bob")]);
            assert_eq!((&*other.1, &*other.2), ("MISS", "x=bob"), "{path}");
        }
        let path = format!("/vary?{path}");
        for (protocol, name, cache) in [
            (first, "alice", "MISS"),
            (second, "bob", "MISS"),
            (second, "alice", "HIT"),
        ] {
            let told = site.ask(protocol, "GET", &path, &[("x", name)]);
            assert_eq!(
                (&*told.1, &*told.2),
                (cache, &*format!("x={name}")),
                "{path}"
            );
        }
    });
}

#[test]
fn nginx_caches_confuse_neither_methods_nor_parts() {
    for_pairs(|site, (first, second), path| {
        let who = format!("/m?{path}");
        let post = site.ask(first, "POST", &who, &[]);
        assert!(post.2.contains("method=POST"), "{post:?}");
        assert_eq!(site.ask(first, "HEAD", &who, &[]).0, 200);
        let get = site.ask(second, "GET", &who, &[]);
        assert!(get.2.contains("method=GET"), "{get:?}");
        let file = format!("/file?{path}");
        let part = site.ask(first, "GET", &file, &[("range", "bytes=2-4")]);
        assert_eq!((part.0, &*part.2), (206, "234"));
        let whole = site.ask(second, "GET", &file, &[]);
        assert_eq!((whole.0, &*whole.2), (200, "0123456789abcdefghij"));
        let behind = site.ask(first, "GET", &file, &[("range", "bytes=-3")]);
        assert_eq!((behind.0, &*behind.1, &*behind.2), (206, "HIT", "hij"));
        let parts = site.ask(second, "GET", "/sliced", &[("range", "bytes=6-9")]);
        assert_eq!((parts.0, &*parts.2), (206, "6789"));
        let whole = site.ask(first, "GET", "/sliced", &[]);
        assert_eq!((whole.0, &*whole.2), (200, "0123456789abcdefghij"));
    });
}

/// A key has the host; a request that says two of them gets no page under the other's name.
#[test]
fn nginx_caches_know_one_host_of_a_request() {
    let site = start();
    let twofold = site.ask("h3", "GET", "/host", &[("host", "victim.test")]);
    // Or the stream was reset.
    let is_refused = twofold.0 >= 400 || twofold.0 == 0;
    assert!(
        is_refused || twofold.2.contains("host=localhost"),
        "{twofold:?}"
    );
    for protocol in PROTOCOLS {
        let plain = site.ask(protocol, "GET", "/host", &[]);
        assert!(plain.2.contains("host=localhost"), "{plain:?}");
    }
}
