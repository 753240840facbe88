//! Conditions, ranges and codings, and how they go together. Each row is asked twice: of the
//! handler, and of what it left behind.

use super::{Bench, answer};
use crate::test_site::{block_on, body_bytes, exchange, field, now};
use saker_config::model::{Compression, Settings};
use saker_content::coding::{self, Levels};
use saker_http::{content_coding::Coding, date::format_date};
use saker_pipeline::{Handled, Handler, Response, ResponseHead};
use std::rc::Rc;

const TEXT: &str = "text/plain lines of it\n";

fn text() -> String {
    TEXT.repeat(100)
}

fn bench() -> Bench {
    let bench = Bench::new(Settings::default());
    bench
        .folder
        .write("x.txt", text())
        .write("digits.bin", "0123456789")
        .write("short.txt", "too short to compress");
    bench
}

/// Status and the fields that matter, `-` where there is none: Content-Encoding, Content-Range, and
/// what follows.
fn summary(response: &Response) -> String {
    let show = |name| {
        Some(field(response, name))
            .filter(|value| !value.is_empty())
            .unwrap_or_else(|| "-".into())
    };
    format!(
        "{} {} {} {}",
        response.status.0,
        show("content-encoding"),
        show("content-range"),
        show("vary")
    )
}

#[test]
fn conditions_ranges_and_codings() {
    let bench = bench();
    let old = String::from_utf8(format_date(now() - 10_000).to_vec()).unwrap();
    let plain = bench.get("/x.txt", &[]).0;
    let (etag, date) = (field(&plain, "etag"), field(&plain, "last-modified"));
    let etag_br = field(&bench.get("/x.txt", &[("Accept-Encoding", "br")]).0, "etag");
    assert_eq!(etag_br, format!("{}-br5\"", etag.trim_end_matches('"')));
    let (etag, date, etag_br, old) = (etag.as_str(), date.as_str(), etag_br.as_str(), old.as_str());
    let v = "Accept-Encoding";
    let rows: &[(&[(&str, &str)], String)] = &[
        (&[], format!("200 - - {v}")),
        (&[("Accept-Encoding", "gzip")], format!("200 gzip - {v}")),
        (&[("Accept-Encoding", "gzip, br")], format!("200 br - {v}")),
        (
            &[("Accept-Encoding", "gzip, br;q=0.5")],
            format!("200 gzip - {v}"),
        ),
        (
            &[("Accept-Encoding", "gzip"), ("Accept-Encoding", "zstd")],
            format!("200 zstd - {v}"),
        ),
        (&[("Accept-Encoding", "deflate")], format!("200 - - {v}")),
        (
            &[("Accept-Encoding", "identity;q=0, *;q=0")],
            format!("200 - - {v}"),
        ),
        // Conditions, in the order of RFC 9110 section 13.2.2.
        (&[("If-None-Match", etag)], format!("304 - - {v}")),
        (&[("If-None-Match", "*")], format!("304 - - {v}")),
        (&[("If-None-Match", "\"a\", \"b\"")], format!("200 - - {v}")),
        (&[("If-None-Match", etag_br)], format!("200 - - {v}")),
        (
            &[("If-None-Match", etag_br), ("Accept-Encoding", "br")],
            format!("304 - - {v}"),
        ),
        (
            &[("If-None-Match", etag), ("Accept-Encoding", "br")],
            format!("200 br - {v}"),
        ),
        (&[("If-Modified-Since", date)], format!("304 - - {v}")),
        (&[("If-Modified-Since", old)], format!("200 - - {v}")),
        (
            &[("If-Modified-Since", date), ("If-None-Match", "\"x\"")],
            format!("200 - - {v}"),
        ),
        (&[("If-Match", "\"x\"")], format!("412 - - {v}")),
        (&[("If-Match", etag)], format!("200 - - {v}")),
        (
            &[("If-Match", etag), ("If-None-Match", etag)],
            format!("304 - - {v}"),
        ),
        (&[("If-Unmodified-Since", old)], format!("412 - - {v}")),
        (
            &[("If-Unmodified-Since", old), ("If-Match", etag)],
            format!("200 - - {v}"),
        ),
        // Ranges are of the plain bytes, if those are acceptable.
        (
            &[("Range", "bytes=0-9")],
            format!("206 - bytes 0-9/2300 {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("Accept-Encoding", "br")],
            format!("206 - bytes 0-9/2300 {v}"),
        ),
        (
            &[("Range", "bytes=-5")],
            format!("206 - bytes 2295-2299/2300 {v}"),
        ),
        (
            &[("Range", "bytes=2290-9999")],
            format!("206 - bytes 2290-2299/2300 {v}"),
        ),
        (
            &[("Range", "bytes=2300-")],
            format!("416 - bytes */2300 {v}"),
        ),
        (&[("Range", "bytes=5-1")], format!("200 - - {v}")),
        (&[("Range", "lines=1-2")], format!("200 - - {v}")),
        (
            &[("Range", "bytes=0-1"), ("Range", "bytes=4-5")],
            format!("200 - - {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("If-None-Match", etag)],
            format!("304 - - {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("If-Match", "\"x\"")],
            format!("412 - - {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("If-Range", etag)],
            format!("206 - bytes 0-9/2300 {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("If-Range", "\"x\"")],
            format!("200 - - {v}"),
        ),
        (
            &[("Range", "bytes=9999-"), ("If-Range", "\"x\"")],
            format!("200 - - {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("If-Range", date)],
            format!("206 - bytes 0-9/2300 {v}"),
        ),
        (
            &[("Range", "bytes=0-9"), ("If-Range", old)],
            format!("200 - - {v}"),
        ),
    ];
    for (fields, expected) in rows {
        let (response, exchange) = bench.get("/x.txt", fields);
        assert_eq!(summary(&response), *expected, "{fields:?}");
        let kept = exchange.cache.cached_route.unwrap();
        match answer(&kept, "/x.txt", fields, exchange.now) {
            Some(response) => assert_eq!(summary(&response), *expected, "kept: {fields:?}"),
            None => assert!(response.status.is_error(), "declined: {fields:?}"),
        }
    }
}

#[test]
fn a_range_of_a_coded_variant_where_plain_is_refused() {
    let bench = bench();
    let fields = [("Accept-Encoding", "br, identity;q=0")];
    let whole = body_bytes(&bench.get("/x.txt", &fields).0.body);
    let (part, _) = bench.get("/x.txt", &[fields[0], ("Range", "bytes=2-5")]);
    assert_eq!(
        summary(&part),
        format!("206 br bytes 2-5/{} Accept-Encoding", whole.len())
    );
    assert_eq!(body_bytes(&part.body), whole[2..6]);
}

#[test]
fn bodies_are_what_the_fields_say() {
    let bench = bench();
    for (token, coding) in [
        ("gzip", Coding::Gzip),
        ("br", Coding::Brotli),
        ("zstd", Coding::Zstd),
    ] {
        let (response, _) = bench.get("/x.txt", &[("Accept-Encoding", token)]);
        let encoded = coding::encode(
            coding,
            Levels::from(&Compression::default()),
            text().as_bytes(),
        )
        .unwrap();
        assert_eq!(
            field(&response, "content-length"),
            encoded.len().to_string()
        );
        assert_eq!(body_bytes(&response.body), encoded, "{token}");
    }
    let (unchanged, _) = bench.get("/x.txt", &[("If-None-Match", "*")]);
    let names: Vec<&str> = unchanged.fields().iter().map(|field| field.0).collect();
    assert_eq!(names, ["ETag", "Vary"], "RFC 9110 section 15.4.5");
    assert!(body_bytes(&unchanged.body).is_empty());
}

#[test]
fn several_ranges_in_one_answer() {
    let bench = bench();
    let (response, _) = bench.get("/digits.bin", &[("Range", "bytes=0-1, 4-4, -2")]);
    let content_type = field(&response, "content-type");
    let boundary = content_type
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let part = |range: &str, data: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-type: application/octet-stream\r\nContent-range: bytes {range}/10\r\n\r\n{data}"
        )
    };
    let expected = format!(
        "{}{}{}\r\n--{boundary}--\r\n",
        part("0-1", "01"),
        part("4-4", "4"),
        part("8-9", "89")
    );
    assert_eq!(
        String::from_utf8(body_bytes(&response.body)).unwrap(),
        expected
    );
    assert_eq!(
        field(&response, "content-length"),
        expected.len().to_string()
    );
    assert!(field(&response, "content-range").is_empty());
    let other = field(
        &bench.get("/digits.bin", &[("Range", "bytes=0-1, 4-4")]).0,
        "content-type",
    );
    assert_ne!(other, content_type);
}

#[test]
fn head_knows_no_ranges() {
    let bench = bench();
    let (response, _) = bench.ask("HEAD", "/digits.bin", &[("Range", "bytes=0-1")]);
    assert_eq!(
        (
            response.status.0,
            field(&response, "content-length").as_str()
        ),
        (200, "10")
    );
}

#[test]
fn what_is_not_compressed_does_not_vary() {
    let bench = bench();
    for target in ["/digits.bin", "/short.txt"] {
        let (response, _) = bench.get(target, &[("Accept-Encoding", "br")]);
        assert_eq!(summary(&response), "200 - - -", "{target}");
    }
}

#[test]
fn the_limits_of_size_count() {
    let compression = Compression {
        min_bytes: 100,
        max_bytes: 200,
        ..Compression::default()
    };
    let bench = Bench::new(Settings {
        compression,
        ..Settings::default()
    });
    for (length, coded) in [(99, false), (100, true), (200, true), (201, false)] {
        bench.folder.write("x.txt", "a".repeat(length));
        let (response, _) = bench.get("/x.txt", &[("Accept-Encoding", "gzip")]);
        assert_eq!(
            field(&response, "content-encoding") == "gzip",
            coded,
            "{length}"
        );
    }
}

/// Bytes that gzip can't make smaller are sent as they are, and the attempt is made once.
#[test]
fn a_coding_that_gains_nothing_is_dropped() {
    let bench = Bench::new(Settings::default());
    let mut state = 7_u32;
    let noise: Vec<u8> = (0..3000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    bench.folder.write("x.txt", &noise);
    let fields = [("Accept-Encoding", "gzip, br, zstd")];
    let (response, exchange) = bench.get("/x.txt", &fields);
    assert_eq!(summary(&response), "200 - - Accept-Encoding");
    assert!(
        answer(
            &exchange.cache.cached_route.unwrap(),
            "/x.txt",
            &fields,
            exchange.now
        )
        .is_some()
    );
}

/// The second of two requests at once waits for what the first one makes.
#[test]
fn a_coding_is_made_once() {
    let bench = bench();
    bench
        .folder
        .write("x.txt", text().repeat(30).split_at(9000).0);
    let _in_use = bench.reusable("/x.txt", &[]);
    let fields = [("Accept-Encoding", "br")];
    let mut requests = [
        exchange(&bench.site, "GET", "/x.txt", &fields),
        exchange(&bench.site, "GET", "/x.txt", &fields),
    ];
    let [one, two] = &mut requests;
    let answers =
        block_on(async { tokio::join!(bench.handler.handle(one), bench.handler.handle(two)) });
    let head = |handled| match handled {
        Handled::Answered(Response {
            head: ResponseHead::Ready(head),
            ..
        }) => head,
        _ => panic!("not answered"),
    };
    let (one, two) = (head(answers.0), head(answers.1));
    assert_eq!(one.fields.first("content-encoding"), Some(&b"br"[..]));
    assert!(Rc::ptr_eq(&one, &two));
}

#[test]
fn precompressed_siblings() {
    let mut settings = Settings::default();
    settings.compression.codings.clear();
    let bench = Bench::new(settings);
    bench
        .folder
        .write("x.css", "css")
        .touch("x.css", 100)
        .write("x.css.br", "BR")
        .touch("x.css.br", 50);
    bench
        .folder
        .write("x.css.gz", "GZ-OLD")
        .touch("x.css.gz", 200)
        .write("x.png", "png")
        .write("x.png.br", "BR");
    bench.folder.write("x.css.zst/folder", "");
    let all = [("Accept-Encoding", "gzip, zstd, br")];
    let (response, _) = bench.get("/x.css", &all);
    assert_eq!(
        (summary(&response).as_str(), body_bytes(&response.body)),
        ("200 br - Accept-Encoding", b"BR".to_vec())
    );
    assert_eq!(field(&response, "content-type"), "text/css; charset=utf-8");
    assert!(field(&response, "etag").ends_with("-br\""));
    // Older than its original, no file, or of a type that is compressed already.
    for (target, accepted) in [("/x.css", "gzip"), ("/x.css", "zstd"), ("/x.png", "br")] {
        assert_eq!(
            field(
                &bench.get(target, &[("Accept-Encoding", accepted)]).0,
                "content-encoding"
            ),
            "",
            "{target} {accepted}"
        );
    }
    let (direct, _) = bench.get("/x.css.br", &[]);
    assert_eq!(
        (direct.status.0, field(&direct, "content-encoding").as_str()),
        (200, "")
    );
}

#[test]
fn precompressed_siblings_can_be_switched_off() {
    let mut settings = Settings::default();
    settings.files.precompressed = false;
    let bench = Bench::new(settings);
    bench.folder.write("x.css", "css").write("x.css.br", "BR");
    assert_eq!(
        summary(&bench.get("/x.css", &[("Accept-Encoding", "br")]).0),
        "200 - - -"
    );
}

/// A sibling is worth taking for a file too large for memory, too.
#[test]
fn a_large_file_may_have_a_small_sibling() {
    let bench = Bench::new(Settings::default());
    bench
        .folder
        .write("x.css", "p{} ".repeat(5000))
        .write("x.css.gz", "GZ");
    let (response, _) = bench.get("/x.css", &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(
        (summary(&response).as_str(), body_bytes(&response.body)),
        ("200 gzip - Accept-Encoding", b"GZ".to_vec())
    );
}

#[test]
fn no_tag_at_all_still_validates_by_date() {
    let mut settings = Settings::default();
    settings.files.entity_tag = saker_config::model::EntityTagParts {
        inode: false,
        mtime: false,
        size: false,
    };
    let bench = Bench::new(settings);
    bench.folder.write("x.png", "png");
    let (response, _) = bench.get("/x.png", &[]);
    assert_eq!(field(&response, "etag"), "");
    let date = field(&response, "last-modified");
    let (unchanged, _) = bench.get("/x.png", &[("If-Modified-Since", date.as_str())]);
    assert_eq!(
        (unchanged.status.0, field(&unchanged, "last-modified")),
        (304, date)
    );
}
