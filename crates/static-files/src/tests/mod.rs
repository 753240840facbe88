//! Through the handler, on real folders: mapping, methods, errors. `negotiation` has conditions,
//! ranges and codings, `changes` files that change.

mod changes;
mod negotiation;

use super::StaticFiles;
use crate::test_site::{Folder, block_on, body_bytes, exchange, field};
use saker_config::model::{FieldEdit, FieldEditAction, Origin, Settings, Site};
use saker_files::Watcher;
use saker_http::{RequestHead, Status, Version};
use saker_pipeline::{CachedRoute, Exchange, Handled, Handler, Response, ResponseHead};
use std::{os::unix::fs::symlink, rc::Rc, sync::Arc};

/// Files up to this size are kept in memory.
const MEMORY_MAX: u64 = 10_000;

struct Bench {
    folder: Folder,
    site: Arc<Site>,
    handler: StaticFiles,
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        let folder = Folder::new();
        let site = folder.site(settings);
        Bench {
            folder,
            site,
            handler: StaticFiles::new(Watcher::start(|_| {}).unwrap(), MEMORY_MAX),
        }
    }

    fn get(&self, target: &str, fields: &[(&str, &str)]) -> (Response, Exchange) {
        self.ask("GET", target, fields)
    }

    fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> (Response, Exchange) {
        let mut exchange = exchange(&self.site, method, target, fields);
        let response = self.run(&mut exchange);
        (response, exchange)
    }

    fn run(&self, exchange: &mut Exchange) -> Response {
        match block_on(self.handler.handle(exchange)) {
            Handled::Answered(response) => response,
            _ => panic!("declined"),
        }
    }

    fn status(&self, target: &str) -> u16 {
        self.get(target, &[]).0.status.0
    }

    fn reusable(&self, target: &str, fields: &[(&str, &str)]) -> Rc<dyn CachedRoute> {
        self.get(target, fields).1.cache.cached_route.unwrap()
    }
}

fn answer(
    reusable: &Rc<dyn CachedRoute>,
    target: &str,
    fields: &[(&str, &str)],
    now: i64,
) -> Option<Response> {
    reusable.answer(
        RequestHead::build("GET", target, Version::Http11, fields).view(),
        now,
    )
}

fn listing_on() -> Settings {
    let mut settings = Settings::default();
    settings.files.listing = true;
    settings
}

#[test]
fn a_small_file_is_answered_from_memory_again_and_again() {
    let bench = Bench::new(Settings::default());
    bench.folder.write("a/small.png", "png!");
    let (response, exchange) = bench.get("/a/small.png", &[]);
    assert_eq!(response.status, Status::OK);
    let names: Vec<&str> = response.fields().iter().map(|field| field.0).collect();
    assert_eq!(
        names,
        [
            "Content-Type",
            "Last-Modified",
            "ETag",
            "Accept-Ranges",
            "Content-Length"
        ]
    );
    assert_eq!(
        (
            field(&response, "content-type").as_str(),
            field(&response, "content-length").as_str()
        ),
        ("image/png", "4")
    );
    assert_eq!(body_bytes(&response.body), b"png!");
    assert!(!exchange.cache.change_tokens.is_empty());
    let reusable = exchange.cache.cached_route.unwrap();
    let again = answer(&reusable, "/a/small.png?v=2", &[], exchange.now).unwrap();
    let (ResponseHead::Ready(one), ResponseHead::Ready(two)) = (&response.head, &again.head) else {
        panic!("built")
    };
    assert!(Rc::ptr_eq(one, two));
    assert!(reusable.memory_bytes() > 4 && reusable.memory_bytes() < 4096);
}

#[test]
fn statuses_by_path() {
    let bench = Bench::new(Settings::default());
    bench
        .folder
        .write("index.html", "<p>")
        .write("a b/x.txt", "x")
        .write(".env", "secret")
        .write("x.php~", "secret");
    bench
        .folder
        .write(".well-known/acme", "token")
        .write("empty", "")
        .write("folder.d/index.htm/not-a-file", "");
    symlink("/etc/hostname", bench.folder.path().join("outside")).unwrap();
    symlink("loop", bench.folder.path().join("loop")).unwrap();
    let cases = [
        ("/", 200),
        ("/index.html", 200),
        ("/index.html/", 404),
        ("/index.html/x", 404),
        ("/nothing", 404),
        ("/a%20b/x.txt", 200),
        ("/a%20b", 301),
        ("/a%20b/", 403),
        ("/folder.d/", 403),
        ("/.env", 404),
        ("/x.php~", 404),
        ("/.well-known/acme", 200),
        ("/empty", 200),
        ("/outside", 403),
        ("/loop", 403),
    ];
    for (target, expected) in cases {
        assert_eq!(bench.status(target), expected, "{target}");
    }
    assert!(bench.get("/nothing", &[]).1.cache.cached_route.is_none());
}

#[test]
fn hidden_names_can_be_shown() {
    let mut settings = Settings::default();
    settings.files.hidden = true;
    let bench = Bench::new(settings);
    bench.folder.write(".env", "not so secret");
    assert_eq!(bench.status("/.env"), 200);
}

#[test]
fn index_files_in_order_and_never_outside() {
    let mut settings = Settings::default();
    settings.files.index = ["../secret.html", "", ".hidden", "first.html", "second.html"]
        .map(String::from)
        .to_vec();
    let bench = Bench::new(settings);
    bench
        .folder
        .write("secret.html", "secret")
        .write("d/.hidden", "hidden")
        .write("d/second.html", "second");
    let (response, _) = bench.get("/d/", &[]);
    assert_eq!(body_bytes(&response.body), b"second");
    assert_eq!(field(&response, "content-type"), "text/html; charset=utf-8");
    bench.folder.write("d/first.html", "first");
    assert_eq!(body_bytes(&bench.get("/d/", &[]).0.body), b"first");
}

#[test]
fn an_index_file_that_may_not_be_read_is_not_passed_over() {
    let bench = Bench::new(listing_on());
    symlink("/etc/hostname", bench.folder.path().join("index.html")).unwrap();
    assert_eq!(bench.status("/"), 403);
}

#[test]
fn folders_get_their_slash_on_this_host() {
    let bench = Bench::new(Settings::default());
    bench
        .folder
        .write("evil.example/x", "")
        .write("a&b c/x", "");
    let cases = [
        ("/evil.example", "/evil.example/", true),
        ("//evil.example", "/evil.example/", true),
        ("/a&b%20c", "/a&b%20c/", true),
        ("/evil.example?x=%0d&y", "/evil.example/?x=%0d&y", false),
    ];
    for (target, location, kept) in cases {
        let (response, exchange) = bench.get(target, &[]);
        assert_eq!(
            (response.status.0, field(&response, "location").as_str()),
            (301, location),
            "{target}"
        );
        assert_eq!(
            (
                exchange.cache.cached_route.is_some(),
                exchange.cache.request_dependent
            ),
            (kept, !kept),
            "{target}"
        );
    }
    let reusable = bench.reusable("/evil.example", &[]);
    assert!(
        answer(&reusable, "/evil.example?with=query", &[], 0).is_none(),
        "the query would be lost"
    );
    assert!(answer(&reusable, "/evil.example", &[], 0).is_some());
}

#[test]
fn methods() {
    let bench = Bench::new(Settings::default());
    bench.folder.write("x.txt", "x");
    for (method, status) in [
        ("HEAD", 200),
        ("OPTIONS", 204),
        ("POST", 405),
        ("PUT", 405),
        ("DELETE", 405),
        ("PATCH", 405),
    ] {
        let (response, _) = bench.ask(method, "/x.txt", &[]);
        assert_eq!(response.status.0, status, "{method}");
        assert_eq!(
            field(&response, "allow"),
            if status == 200 {
                ""
            } else {
                "GET, HEAD, OPTIONS"
            }
        );
    }
}

#[test]
fn other_actions_and_sites_without_a_root_are_not_ours() {
    let bench = Bench::new(Settings::default());
    let rootless = Site::new(Origin::built_in());
    let mut exchange = exchange(&Arc::new(rootless), "GET", "/", &[]);
    assert!(matches!(
        block_on(bench.handler.handle(&mut exchange)),
        Handled::Declined
    ));
}

#[test]
fn large_files_stay_files_and_parts_of_them_too() {
    let bench = Bench::new(Settings::default());
    let data: Vec<u8> = (0..MEMORY_MAX + 1).map(|at| at as u8).collect();
    bench.folder.write("large.bin", &data);
    let (response, exchange) = bench.get("/large.bin", &[]);
    assert!(matches!(&response.body, saker_pipeline::Body::File(part) if part.check.is_some()));
    assert_eq!(body_bytes(&response.body), data);
    let part = answer(
        &exchange.cache.cached_route.unwrap(),
        "/",
        &[("Range", "bytes=9999-")],
        exchange.now,
    )
    .unwrap();
    assert_eq!(
        (part.status.0, field(&part, "content-range").as_str()),
        (206, "bytes 9999-10000/10001")
    );
    assert_eq!(body_bytes(&part.body), data[9999..]);
}

#[test]
fn edits_of_fields_are_in_every_head() {
    let edit = |name: &str, action| FieldEdit {
        name: name.into(),
        action,
        always: false,
        template: None,
        is_per_request: false,
        origin: Origin::built_in(),
    };
    let fields = vec![
        edit("Cache-Control", FieldEditAction::Set("max-age=60".into())),
        edit("Content-Type", FieldEditAction::Set("text/x".into())),
        edit("Vary", FieldEditAction::Remove),
        edit("Content-Range", FieldEditAction::Remove),
    ];
    let bench = Bench::new(Settings {
        fields,
        ..Settings::default()
    });
    bench.folder.write("x.css", "p{} ".repeat(1000));
    let etag = field(&bench.get("/x.css", &[]).0, "etag");
    let ask = |fields: &[(&str, &str)]| bench.get("/x.css", fields).0;
    let whole = ask(&[]);
    let unchanged = ask(&[("If-None-Match", etag.as_str())]);
    let one = ask(&[("Range", "bytes=0-1")]);
    let many = ask(&[("Range", "bytes=0-1,5-6")]);
    for (response, status) in [(&whole, 200), (&unchanged, 304), (&one, 206), (&many, 206)] {
        assert_eq!(response.status.0, status);
        assert_eq!(field(response, "cache-control"), "max-age=60", "{status}");
        assert_eq!(field(response, "vary"), "Accept-Encoding", "{status}");
    }
    assert_eq!(field(&whole, "content-type"), "text/x");
    assert_eq!(field(&one, "content-range"), "bytes 0-1/4000");
    assert!(field(&many, "content-type").starts_with("multipart/byteranges; boundary="));
}
