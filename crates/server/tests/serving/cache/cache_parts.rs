//! Parts of pages (RFC 9111 sections 3.3 and 3.4): kept, joined, served from, and a page in the
//! end.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Asked, Origin, answer, ok};
use saker_testkit::{Response, wait_until_settled};

const TEXT: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
const PUBLIC: (&str, &str) = ("Cache-Control", "public, max-age=60");

/// An origin that has ranges; the version and its validator by the target.
fn file(asked: &Asked) -> Vec<u8> {
    let (text, tag) = match asked.target.as_str() {
        "/weak" => (TEXT.to_owned(), "W/\"a\"".to_owned()),
        "/changing" => (
            TEXT.replace('0', &(asked.count % 10).to_string()),
            format!("\"{}\"", asked.count),
        ),
        _ => (TEXT.to_owned(), "\"a\"".to_owned()),
    };
    let range = asked
        .field("range")
        .and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else {
        return ok(
            &[PUBLIC, ("ETag", &tag), ("Content-Type", "text/plain")],
            &text,
        );
    };
    let first: usize = first.parse().unwrap();
    let last = last.parse().unwrap_or(text.len() - 1).min(text.len() - 1);
    let said = format!("bytes {first}-{last}/{}", text.len());
    let fields = [
        PUBLIC,
        ("ETag", tag.as_str()),
        ("Content-Type", "text/plain"),
        ("Content-Range", said.as_str()),
    ];
    answer("206 Partial Content", &fields, &text[first..=last])
}

fn part(origin: &Origin, target: &str, range: &str) -> Response {
    origin.get(target, &[("Range", &format!("bytes={range}"))])
}

/// Joined parts are stored beside the response.
fn settle(origin: &Origin) {
    wait_until_settled("what is stored", || {
        origin.counter("page_cache_stores_total")
    });
}

#[test]
fn parts_are_kept_and_joined() {
    let origin = Origin::start("parts-joined", "", file);
    assert_eq!(part(&origin, "/f", "0-9").text(), "0123456789");
    settle(&origin);
    // Again, and a smaller one, from what is there.
    for (range, text) in [("0-9", "0123456789"), ("3-5", "345"), ("9-9", "9")] {
        let response = part(&origin, "/f", range);
        assert_eq!((response.status, response.text().as_str()), (206, text));
        assert_eq!(
            response.field("content-range"),
            Some(format!("bytes {range}/36").as_str())
        );
        assert!(response.field("age").is_some() && response.field("etag") == Some("\"a\""));
        assert_eq!(response.field("content-type"), Some("text/plain"));
    }
    assert_eq!(origin.asked("/f").len(), 1);
    // What is not there is asked for; what touches is joined.
    assert_eq!(part(&origin, "/f", "10-19").text(), "abcdefghij");
    settle(&origin);
    assert_eq!(part(&origin, "/f", "5-15").text(), "56789abcdef");
    assert_eq!(origin.asked("/f").len(), 2);
    // The rest makes it a page.
    assert_eq!(part(&origin, "/f", "15-").text(), &TEXT[15..]);
    settle(&origin);
    let whole = origin.get("/f", &[]);
    assert_eq!(
        (
            whole.status,
            whole.text().as_str(),
            whole.field("content-range")
        ),
        (200, TEXT, None)
    );
    assert_eq!(part(&origin, "/f", "30-31").text(), "uv");
    assert_eq!(origin.asked("/f").len(), 3);
    assert_eq!(origin.get("/f", &[("If-None-Match", "\"a\"")]).status, 304);
}

#[test]
fn a_part_that_is_everything_is_the_page() {
    let origin = Origin::start("parts-whole", "", file);
    let player = part(&origin, "/f", "0-");
    assert_eq!((player.status, player.text().as_str()), (206, TEXT));
    let whole = origin.get("/f", &[]);
    assert_eq!(
        (
            whole.status,
            whole.text().as_str(),
            origin.asked("/f").len()
        ),
        (200, TEXT, 1)
    );
}

#[test]
fn parts_of_different_bytes_never_meet() {
    let origin = Origin::start("parts-versions", "", file);
    // The rest of a part with a strong tag is requested once, and has another tag.
    for (target, whole_count) in [("/weak", 4), ("/changing", 5)] {
        for (range, count) in [("0-9", 1), ("10-19", 2), ("20-35", 3)] {
            part(&origin, target, range);
            settle(&origin);
            assert_eq!(origin.asked(target).len(), count);
        }
        let whole = origin.get(target, &[]);
        assert_eq!(
            (whole.status, origin.asked(target).len()),
            (200, whole_count),
            "{target}"
        );
    }
    // A gap: the later part is what is there.
    part(&origin, "/f", "0-4");
    settle(&origin);
    part(&origin, "/f", "10-14");
    settle(&origin);
    part(&origin, "/f", "11-12");
    assert_eq!(origin.asked("/f").len(), 2);
    part(&origin, "/f", "0-4");
    assert_eq!(origin.asked("/f").len(), 3);
}

#[test]
fn who_asks_otherwise_gets_the_origins_word() {
    let origin = Origin::start("parts-asked", "", file);
    part(&origin, "/f", "0-9");
    settle(&origin);
    let fields: [&[(&str, &str)]; 5] = [
        &[("Range", "bytes=0-9"), ("If-Range", "\"b\"")],
        &[("Range", "bytes=0-9"), ("If-None-Match", "\"b\"")],
        &[("Range", "bytes=0-3,5-6")],
        &[("Range", "bytes=-3")],
        &[("Range", "bytes=5-12")],
    ];
    for (number, fields) in fields.iter().enumerate().take(2).chain([(2, &fields[4])]) {
        origin.get("/f", fields);
        settle(&origin);
        assert_eq!(origin.asked("/f").len(), number + 2, "{fields:?}");
    }
    assert_eq!(
        origin
            .get("/f", &[("Range", "bytes=2-3"), ("If-Range", "\"a\"")])
            .text(),
        "23"
    );
    assert_eq!(origin.asked("/f").len(), 4);
    let purge = std::process::Command::new(crate::operate::SAKER)
        .args(["purge", "--all", "--state-dir"])
        .arg(origin.saker.dir.join("state"))
        .output()
        .unwrap();
    assert!(purge.status.success(), "{purge:?}");
    part(&origin, "/f", "2-3");
    assert_eq!(origin.asked("/f").len(), 5, "a purge takes parts, too");
}
