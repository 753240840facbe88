//! Files that change while they are served, before, and after.

use super::{Bench, MEMORY_MAX, answer};
use crate::test_site::{block_on, body_bytes, exchange, field, now};
use saker_config::model::Settings;
use saker_files::Watcher;
use saker_pipeline::{Body, Handler};
use saker_testkit::wait_until;
use std::{fs, io::Write, rc::Rc, time::Duration};

fn still_valid(body: &Body) -> bool {
    match body {
        Body::File(part) => part.check.as_ref().unwrap().still_valid(),
        _ => panic!("not a file"),
    }
}

fn large(fill: u8) -> Vec<u8> {
    vec![fill; MEMORY_MAX as usize + 1000]
}

#[test]
fn memory_does_not_change_with_the_file() {
    let bench = Bench::new(Settings::default());
    bench.folder.write("x.png", "old");
    let (old, _) = bench.get("/x.png", &[]);
    bench.folder.write("x.png", "newer");
    assert_eq!(body_bytes(&old.body), b"old");
    let (new, _) = bench.get("/x.png", &[]);
    assert_eq!(body_bytes(&new.body), b"newer");
    assert_ne!(field(&old, "etag"), field(&new, "etag"));
}

#[test]
fn a_replaced_file_is_sent_to_its_end() {
    let bench = Bench::new(Settings::default());
    bench
        .folder
        .write("x.bin", large(1))
        .write("new.bin", large(2));
    let (old, _) = bench.get("/x.bin", &[]);
    fs::rename(
        bench.folder.path().join("new.bin"),
        bench.folder.path().join("x.bin"),
    )
    .unwrap();
    assert!(still_valid(&old.body));
    assert_eq!(body_bytes(&old.body), large(1));
    assert_eq!(body_bytes(&bench.get("/x.bin", &[]).0.body), large(2));
}

#[test]
fn a_file_changed_in_place_is_noticed() {
    let bench = Bench::new(Settings::default());
    for change in ["append", "shrink", "overwrite"] {
        bench.folder.write("x.bin", large(1));
        let (response, _) = bench.get("/x.bin", &[]);
        assert!(still_valid(&response.body));
        let mut file = fs::File::options()
            .write(true)
            .open(bench.folder.path().join("x.bin"))
            .unwrap();
        match change {
            "append" => drop(file.set_len(MEMORY_MAX * 2)),
            "shrink" => drop(file.set_len(7)),
            _ => drop(file.write_all(b"other")),
        }
        assert!(!still_valid(&response.body), "{change}");
    }
}

/// While the file is being written to, it is sent from its descriptor, guarded, and not cached.
#[test]
fn a_file_that_never_rests_is_not_kept() {
    // A machine that is busy may let the writer rest for long enough; then it is another round's
    // turn to show it.
    assert!((0..20).any(|_| is_sent_guarded_and_not_kept()));
}

fn is_sent_guarded_and_not_kept() -> bool {
    let bench = Bench::new(Settings::default());
    bench.folder.write("x.log", "");
    let path = bench.folder.path().join("x.log");
    let mut request = exchange(&bench.site, "GET", "/x.log", &[]);
    let writing = async {
        let mut file = fs::File::options().append(true).open(&path).unwrap();
        loop {
            file.write_all(b"line\n").unwrap();
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    };
    let response = block_on(async {
        tokio::select! {
            handled = bench.handler.handle(&mut request) => handled,
            () = writing => unreachable!(),
        }
    });
    let saker_pipeline::Handled::Answered(response) = response else {
        panic!("declined")
    };
    let guarded = matches!(&response.body, Body::File(part) if part.check.is_some());
    guarded && request.cache.cached_route.is_none() && field(&response, "etag").starts_with("W/")
}

#[test]
fn a_young_file_has_a_weak_tag_that_becomes_strong() {
    let bench = Bench::new(Settings::default());
    bench.folder.write("x.png", "young").touch("x.png", 0);
    let (young, exchange) = bench.get("/x.png", &[]);
    let tag = field(&young, "etag");
    assert!(tag.starts_with("W/\""), "{tag}");
    let kept = exchange.cache.cached_route.unwrap();
    assert!(answer(&kept, "/x.png", &[], exchange.now).is_some());
    assert!(
        answer(&kept, "/x.png", &[], exchange.now + 3).is_none(),
        "has to be rebuilt"
    );
    let mut later = super::exchange(&bench.site, "GET", "/x.png", &[]);
    later.now += 3;
    assert_eq!(format!("W/{}", field(&bench.run(&mut later), "etag")), tag);
}

#[test]
fn a_file_from_the_future_was_modified_now() {
    let bench = Bench::new(Settings::default());
    bench.folder.write("x.png", "later");
    let file = fs::File::options()
        .append(true)
        .open(bench.folder.path().join("x.png"))
        .unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(10_000))
        .unwrap();
    let (response, exchange) = bench.get("/x.png", &[]);
    let date = saker_http::date::format_date(exchange.now);
    assert_eq!(field(&response, "last-modified").as_bytes(), date);
    assert!(field(&response, "etag").starts_with('"'));
}

#[test]
fn tokens_tell_when_a_sibling_or_an_index_file_appears() {
    let bench = Bench::new(Settings::default());
    let watcher = Watcher::idle();
    bench.folder.write("d/index.htm", "second choice");
    for appearing in ["d/index.html", "d/index.html.br"] {
        // Tests beside this one make their folders beside this one's, which the tokens of its
        // parents tell, too.
        let is_current = |exchange: &saker_pipeline::Exchange| {
            exchange
                .cache
                .change_tokens
                .iter()
                .all(|token| token.is_current(watcher.now_ms()))
        };
        let undisturbed = (0..200).map(|_| bench.get("/d/", &[]).1).find(is_current);
        let exchange = undisturbed.expect(appearing);
        bench.folder.write(appearing, "new");
        wait_until(appearing, || !is_current(&exchange));
    }
}

/// Clients that want different codings add to one representation.
#[test]
fn a_second_walk_finds_the_representation_in_use() {
    let bench = Bench::new(Settings::default());
    bench.folder.write("x.css", "p{color:red} ".repeat(300));
    let first = bench.reusable("/x.css", &[("Accept-Encoding", "gzip")]);
    assert!(answer(&first, "/x.css", &[("Accept-Encoding", "br")], now()).is_none());
    let second = bench.reusable("/x.css", &[("Accept-Encoding", "br")]);
    assert!(std::ptr::addr_eq(Rc::as_ptr(&first), Rc::as_ptr(&second)));
    for coding in ["gzip", "br"] {
        let response = answer(&first, "/x.css", &[("Accept-Encoding", coding)], now()).unwrap();
        assert_eq!(field(&response, "content-encoding"), coding);
    }
    drop((first, second));
    bench.folder.write("x.css", "p{color:blue} ".repeat(300));
    let third = bench.get("/x.css", &[]).0;
    assert_eq!(body_bytes(&third.body).len(), 14 * 300);
}
