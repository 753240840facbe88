//! Caches of nginx configurations where several requests meet, and configurations that are refused.
//!
//! Called by: `cargo test -p saker --test applications nginx_caches`.
//! Caveat: the origin answers when its gate is opened, so that requests wait for each other without
//! a clock.
//! Out of scope: what one request after the other sees (`nginx_cases`).

use crate::operate;
use saker_testkit::{Client, Response, ServerProcess, TempDir, free_port, wait_until};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A server that counts requests, and answers while its gate is open.
#[derive(Clone)]
struct Origin {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Origin {
            address: listener.local_addr().unwrap(),
            count: Arc::default(),
            gate: Arc::new((Mutex::new(true), Condvar::new())),
        };
        let own = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.serve(stream));
            }
        });
        origin
    }

    /// Answers one request. The first response for a path that ends with `stale` has expired; for one
    /// that ends with `slow`, the content comes when the gate is open.
    fn serve(&self, mut stream: TcpStream) {
        let mut head = Vec::new();
        let mut piece = [0; 1024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => return,
                Ok(length) => head.extend_from_slice(&piece[..length]),
            }
        }
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let line = String::from_utf8_lossy(&head);
        let is_slow = line.contains("slow HTTP/");
        if !is_slow {
            self.pass_gate();
        }
        let is_stale = line.contains("stale HTTP/") && number == 1;
        let expires = if is_stale { "@1" } else { "600" };
        let body = format!("answer {number}");
        let (first, rest) = body.split_at(body.len() - 1);
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nX-Accel-Expires: {expires}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
             ETag: \"a\"\r\nAccept-Ranges: bytes\r\nConnection: close\r\n\r\n{first}",
            body.len()
        );
        if is_slow {
            self.pass_gate();
        }
        let _ = stream.write_all(rest.as_bytes());
    }

    fn pass_gate(&self) {
        let (open, changed) = &*self.gate;
        let mut is_open = open.lock().unwrap();
        while !*is_open {
            is_open = changed.wait(is_open).unwrap();
        }
    }

    fn set_open(&self, is_open: bool) {
        let (open, changed) = &*self.gate;
        *open.lock().unwrap() = is_open;
        changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        wait_until("the origin gets its requests", || {
            self.count.load(Ordering::SeqCst) >= count
        });
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

struct Site {
    dir: TempDir,
    saker: ServerProcess,
    origin: Origin,
}

impl Site {
    fn start(name: &str, locations: &str) -> Site {
        let dir = TempDir::new(name).unwrap();
        let origin = Origin::start();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let user = match rustix::process::geteuid().is_root() {
            true => "user www-data;\n",
            false => "",
        };
        let text = format!(
            "{user}pid {dir}/nginx.pid;\nevents {{ }}\nhttp {{\n    access_log off;\n    proxy_cache_path {dir}/cache keys_zone=z:1m;\n    \
             server {{\n        listen {address};\n        server_name app.test;\n        proxy_cache z;\n        \
             proxy_cache_key $uri;\n        add_header X-Cache $upstream_cache_status;\n        {}\n    }}\n}}\n",
            locations.replace("{origin}", &origin.address.to_string()),
            dir = dir.display(),
        );
        let file = dir.write("nginx.conf", text).unwrap();
        let mut command = Command::new(operate::SAKER);
        command
            .args(["run", "--workers", "1", "--nginx"])
            .arg(file)
            .arg("--state-dir")
            .arg(dir.join("state"));
        let saker = ServerProcess::start(&mut command, address).unwrap();
        Site { dir, saker, origin }
    }

    fn client(&self) -> Client {
        Client::connect(self.saker.address()).unwrap()
    }

    fn get(&self, path: &str) -> (String, String) {
        shown(&self.client().get(path).unwrap())
    }
}

/// The result of the cache, and the content.
fn shown(response: &Response) -> (String, String) {
    let result = response.field("x-cache").unwrap_or_default();
    (result.to_owned(), response.text())
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: app.test\r\n\r\n")
}

fn both(result: &str, text: &str) -> (String, String) {
    (result.to_owned(), text.to_owned())
}

#[test]
fn of_requests_for_a_missing_page_one_asks() {
    let site = Site::start(
        "nginx-cache-lock",
        "proxy_cache_lock on; location / { proxy_pass http://{origin}; }\n        \
         location /free/ { proxy_cache_lock off; proxy_pass http://{origin}; }",
    );
    site.origin.set_open(false);
    let mut clients: Vec<Client> = (0..3).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(request("/page")).unwrap();
    }
    site.origin.wait_for(1);
    // Requests that do not wait show that those above have come.
    let mut others: Vec<Client> = (0..2).map(|_| site.client()).collect();
    for client in &mut others {
        client.send(request("/free/page")).unwrap();
    }
    site.origin.wait_for(3);
    site.origin.set_open(true);
    let mut results: Vec<(String, String)> = clients
        .iter_mut()
        .map(|client| shown(&client.read_response().unwrap()))
        .collect();
    results.sort();
    let body = results[0].1.clone();
    assert_eq!(
        results,
        [both("HIT", &body), both("HIT", &body), both("MISS", &body)]
    );
    for client in &mut others {
        assert_eq!(shown(&client.read_response().unwrap()).0, "MISS");
    }
    assert_eq!(site.origin.count(), 3);
}

#[test]
fn an_expired_page_is_used_while_one_request_updates_it() {
    let site = Site::start(
        "nginx-cache-updating",
        "proxy_cache_use_stale updating; location / { proxy_pass http://{origin}; }",
    );
    assert_eq!(site.get("/stale"), both("MISS", "answer 1"));
    site.origin.set_open(false);
    let mut first = site.client();
    first.send(request("/stale")).unwrap();
    site.origin.wait_for(2);
    assert_eq!(site.get("/stale"), both("UPDATING", "answer 1"));
    assert_eq!(site.get("/stale"), both("UPDATING", "answer 1"));
    site.origin.set_open(true);
    let updated = shown(&first.read_response().unwrap());
    assert_eq!(updated, both("EXPIRED", "answer 2"));
    assert_eq!(site.get("/stale"), both("HIT", "answer 2"));
    assert_eq!(site.origin.count(), 2);
}

#[test]
fn background_updates_keep_nobody_waiting() {
    let site = Site::start(
        "nginx-cache-background",
        "proxy_cache_use_stale updating; proxy_cache_background_update on;\n        \
         location / { proxy_pass http://{origin}; }",
    );
    assert_eq!(site.get("/stale"), both("MISS", "answer 1"));
    site.origin.set_open(false);
    assert_eq!(site.get("/stale"), both("STALE", "answer 1"));
    site.origin.wait_for(2);
    assert_eq!(site.get("/stale"), both("UPDATING", "answer 1"));
    site.origin.set_open(true);
    wait_until("the update is stored", || {
        site.get("/stale") == both("HIT", "answer 2")
    });
    assert_eq!(site.origin.count(), 2);
}

/// The content of a missing page is read for the cache, not for a client that does not get it.
#[test]
fn clients_without_content_do_not_wait_for_it() {
    let site = Site::start(
        "nginx-cache-head",
        "proxy_cache_lock on; location / { proxy_pass http://{origin}; }",
    );
    site.origin.set_open(false);
    let ask = |method: &str, path: &str, field: (&str, &str)| {
        let fields = [("Host", "app.test"), field];
        site.client().request(method, path, &fields).unwrap()
    };
    let head = ask("HEAD", "/a-slow", ("Accept", "*/*"));
    assert_eq!((head.status, head.field("x-cache")), (200, Some("MISS")));
    assert_eq!(head.field("content-length"), Some("8"));
    let unchanged = ask("GET", "/b-slow", ("If-None-Match", "\"a\""));
    let told = (unchanged.status, unchanged.field("x-cache"));
    assert_eq!(told, (304, Some("MISS")));
    let failed = ask("GET", "/c-slow", ("If-Match", "\"b\""));
    assert_eq!(failed.status, 412);
    site.origin.set_open(true);
    for (path, number) in [("/a-slow", 1), ("/b-slow", 2), ("/c-slow", 3)] {
        let whole = both("HIT", &format!("answer {number}"));
        assert_eq!(site.get(path), whole);
    }
}

/// A range of a missing page is answered with that range; the whole page is stored.
#[test]
fn ranges_of_missing_pages_are_parts() {
    let site = Site::start(
        "nginx-cache-range",
        "proxy_cache_lock on; location / { proxy_pass http://{origin}; }",
    );
    let ask = |path: &str, range: &str| {
        let fields = [("Host", "app.test"), ("Range", range)];
        let response = site.client().request("GET", path, &fields).unwrap();
        let range = response.field("content-range").unwrap_or_default();
        (response.status, range.to_owned(), shown(&response))
    };
    let part = |range: &str, result, text| (206, range.to_owned(), both(result, text));
    // The end of the content does not come yet.
    site.origin.set_open(false);
    assert_eq!(
        ask("/a-slow", "bytes=1-2"),
        part("bytes 1-2/8", "MISS", "ns")
    );
    site.origin.set_open(true);
    assert_eq!(site.get("/a-slow"), both("HIT", "answer 1"));
    assert_eq!(
        ask("/a-slow", "bytes=1-2"),
        part("bytes 1-2/8", "HIT", "ns")
    );
    assert_eq!(ask("/b", "bytes=-2"), part("bytes 6-7/8", "MISS", " 2"));
    assert_eq!(site.get("/b"), both("HIT", "answer 2"));
    let (status, range, _) = ask("/c", "bytes=8-");
    assert_eq!((status, range.as_str()), (416, "bytes */8"));
    assert_eq!(site.get("/c"), both("HIT", "answer 3"));
    // Several ranges are the whole, unless all of it is there at once.
    let (status, range, _) = ask("/d", "bytes=0-1,4-5");
    assert!(
        matches!(status, 200 | 206) && range.is_empty(),
        "{status} {range}"
    );
    assert_eq!(site.get("/d"), both("HIT", "answer 4"));
    let (status, _, (result, text)) = ask("/d", "bytes=0-1,4-5");
    assert_eq!((status, result.as_str()), (206, "HIT"));
    assert!(text.contains("bytes 4-5/8"), "{text}");
}

/// A response that `no_cache` keeps out of the cache must not get in behind the client's back.
#[test]
fn background_updates_obey_no_cache() {
    let site = Site::start(
        "nginx-cache-background-personal",
        "proxy_cache_use_stale updating; proxy_cache_background_update on;\n        \
         location / { proxy_no_cache $cookie_user; proxy_pass http://{origin}; }",
    );
    assert_eq!(site.get("/stale"), both("MISS", "answer 1"));
    let fields = [("Host", "app.test"), ("Cookie", "user=eve")];
    let response = site.client().request("GET", "/stale", &fields).unwrap();
    assert_eq!(shown(&response), both("STALE", "answer 1"));
    site.origin.wait_for(2);
    // The next one is stored: it is of no user.
    wait_until("another update is stored", || site.get("/stale").0 == "HIT");
    assert_eq!(site.get("/stale"), both("HIT", "answer 3"));
}

/// `set` knows no content of requests, so a key that depends on it would be the same for all.
#[test]
fn keys_with_the_content_of_a_request_store_nothing() {
    let site = Site::start(
        "nginx-cache-content",
        "location / { set $body $request_body; proxy_cache_valid 10m; proxy_cache_methods POST; \
         proxy_cache_key $uri$body; proxy_pass http://{origin}; }\n        \
         location /other { proxy_cache_valid 10m; proxy_pass http://{origin}; }",
    );
    let post = || {
        let mut client = site.client();
        let head = "POST /page HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1\r\n\r\na";
        client.send(head).unwrap();
        client.read_response().unwrap().text()
    };
    assert_eq!(post(), "answer 1");
    assert_eq!(post(), "answer 2");
    assert_eq!(site.get("/other").1, "answer 3");
    assert_eq!(site.get("/other"), both("HIT", "answer 3"));
}

#[test]
fn purges_reach_pages_of_zones() {
    let site = Site::start(
        "nginx-cache-purge",
        "location / { proxy_cache_valid 10m; proxy_pass http://{origin}; }",
    );
    let host = [("Host", "app.test")];
    let get = || shown(&site.client().request("GET", "/page", &host).unwrap());
    assert_eq!(get(), both("MISS", "answer 1"));
    assert_eq!(get(), both("HIT", "answer 1"));
    let purged = Command::new(operate::SAKER)
        .args(["purge", "http://app.test/page", "--state-dir"])
        .arg(site.dir.join("state"))
        .output()
        .unwrap();
    assert!(purged.status.success(), "{purged:?}");
    assert_eq!(get().1, "answer 2");
    assert_eq!(get(), both("HIT", "answer 2"));
}

/// A key that all requests share, and a zone that is not there, keep the server from starting.
#[test]
fn keys_and_zones_are_checked() {
    let dir = TempDir::new("nginx-cache-refused").unwrap();
    let refusal = |inside: &str| {
        let text = format!(
            "events {{ }}\nhttp {{\n    fastcgi_cache_path {}/c keys_zone=z:1m;\n    server {{\n        listen 127.0.0.1:1;\n        {inside}\n    }}\n}}\n",
            dir.display()
        );
        let file = dir.write("nginx.conf", text).unwrap();
        let checked = Command::new(operate::SAKER)
            .args(["check", "--nginx"])
            .arg(file)
            .output()
            .unwrap();
        let all = [checked.stdout, checked.stderr].concat();
        (
            checked.status.success(),
            String::from_utf8_lossy(&all).into_owned(),
        )
    };
    let rows = [
        (
            "location / { fastcgi_pass 127.0.0.1:9000; fastcgi_cache z; }",
            "no \"fastcgi_cache_key\"",
        ),
        (
            "location / { proxy_pass http://127.0.0.1:9000; proxy_cache missing; }",
            "\"proxy_cache\" zone \"missing\" is unknown",
        ),
        (
            "location / { proxy_pass http://127.0.0.1:9000; proxy_cache z; proxy_cache_key $uri$request_body_file; }",
            "has the file of the request's content",
        ),
        (
            "location / { proxy_pass http://127.0.0.1:9000; proxy_cache z; proxy_cache_valid soon; }",
            "invalid time value \"soon\"",
        ),
        (
            "location / { proxy_pass http://127.0.0.1:9000; proxy_cache z; proxy_cache_use_stale sometimes; }",
            "invalid value \"sometimes\"",
        ),
    ];
    for (inside, message) in rows {
        let (is_accepted, text) = refusal(inside);
        assert!(!is_accepted && text.contains(message), "{inside}: {text}");
    }
    let (is_accepted, text) = refusal(
        "location / { fastcgi_pass 127.0.0.1:9000; fastcgi_cache z; fastcgi_cache_key $uri; }",
    );
    assert!(is_accepted, "{text}");
}
