//! Pages before and after the filter.
//!
//! Called by: `cargo test -p saker-content-filters`.
//! Out of scope: what Apache makes of them (`apache`, topic `proxy_html`).

use super::*;
use crate::proxy_html::markup::{SCRIPT_BYTES_MAX, TAG_BYTES_MAX};
use saker_ap_expr::{Pattern, PatternOptions};
use std::{collections::HashMap, sync::Arc};

fn rules() -> HtmlRules {
    let text = |from: &str, to: &str| {
        Arc::new(UrlRule::of_text(
            from.as_bytes(),
            to.as_bytes(),
            UrlRuleFlags::default(),
        ))
    };
    let names = |all: &[&str]| all.iter().map(|name| name.as_bytes().into()).collect();
    HtmlRules {
        urls: vec![text("http://be.test/", "/app/"), text("/", "/app/")],
        links: Arc::new(HashMap::from([
            (b"a".as_slice().into(), names(&["href"])),
            (b"img".as_slice().into(), names(&["src", "usemap"])),
        ])),
        events: Arc::new(names(&["onclick"])),
        ..HtmlRules::default()
    }
}

fn filtered_in(rules: &HtmlRules, page: &[u8], piece_bytes: usize) -> Vec<u8> {
    let mut filter = Page {
        rules: rules.clone(),
        decoded: None,
        markup: Some(Markup::default()),
        budget: Rc::default(),
        is_begun: false,
        encoded: None,
        unencoded: Vec::new(),
        skipped: None,
        taken: 0,
    };
    let mut output = Vec::new();
    for piece in page.chunks(piece_bytes) {
        filter.push(piece, &mut output).unwrap();
    }
    filter.finish(&mut output).unwrap();
    output
}

fn filtered(rules: &HtmlRules, page: &str) -> String {
    let whole = filtered_in(rules, page.as_bytes(), usize::MAX);
    for piece_bytes in [1, 2, 3, 7] {
        assert_eq!(
            filtered_in(rules, page.as_bytes(), piece_bytes),
            whole,
            "{page} in pieces of {piece_bytes}"
        );
    }
    String::from_utf8(whole).unwrap()
}

#[test]
fn addresses() {
    for (page, expected) in [
        ("<a href=\"http://be.test/x\">", "<a href=\"/app/x\">"),
        ("<A HREF=http://BE.test/x>", "<A HREF=\"/app/x\">"),
        ("<a href='/x\"y'>", "<a href=\"/app/x&quot;y\">"),
        ("<a href = '/x' id=y>", "<a href = \"/app/x\" id=y>"),
        ("<a href=/x/>", "<a href=\"/app/x/\">"),
        (
            "<a href=\"/?a=1&b=2&amp;c\">",
            "<a href=\"/app/?a=1&amp;b=2&amp;c\">",
        ),
        ("<a href=\"&#47;x&#x2f;&lt;\">", "<a href=\"/app/x/&lt;\">"),
        ("<a href=\"/&eacute;\">", "<a href=\"/&eacute;\">"),
        (
            "<a href=\"rel\" href=\"/second\">",
            "<a href=\"rel\" href=\"/second\">",
        ),
        ("<a title=\"/x\" b href>", "<a title=\"/x\" b href>"),
        ("<a title='>' href='/x'>", "<a title='>' href=\"/app/x\">"),
        ("<b href='/x'>1 < 2 <3</b>", "<b href='/x'>1 < 2 <3</b>"),
        (
            "<img src='/a'\nusemap=\"/b\"/>",
            "<img src=\"/app/a\"\nusemap=\"/app/b\"/>",
        ),
        (
            "<textarea><a href=\"/x\"></textarea ><a href=\"/y\">",
            "<textarea><a href=\"/x\"></textarea ><a href=\"/app/y\">",
        ),
        (
            "<!-- <a href=\"/x\"> --><a href=\"/y\">",
            "<!-- <a href=\"/x\"> --><a href=\"/app/y\">",
        ),
        ("<!doctype html><a href=\"/y", "<!doctype html><a href=\"/y"),
        (
            "<script>'/x'</script><a onclick=\"/x\">",
            "<script>'/x'</script><a onclick=\"/x\">",
        ),
        (
            "<meta http-equiv=Content-Type content=x><meta charset=a>",
            "<meta charset=a>",
        ),
        ("", ""),
        ("<", "<"),
        ("</", "</"),
        ("<a href='", "<a href='"),
    ] {
        assert_eq!(filtered(&rules(), page), expected, "{page}");
    }
}

#[test]
fn scripts_comments_and_document_types() {
    let mut extended = rules();
    extended.urls.truncate(1);
    extended.is_extended = true;
    extended.strips_comments = true;
    extended.doctype = Some("<!DOCTYPE html>\n".into());
    for (page, expected) in [
        (
            "<!DOCTYPE x><!-- c --><a onclick=\"f('http://be.test/1','http://be.test/2')\">",
            "<a onclick=\"f('/app/1','/app/2')\">",
        ),
        (
            "<script>a</b/.test('http://be.test/x')</Script ><p>",
            "<script>a</b/.test('/app/x')</Script ><p>",
        ),
        (
            "<style>url(http://be.test/x)",
            "<style>url(http://be.test/x)",
        ),
        ("<script></script>", "<script></script>"),
    ] {
        let expected = format!("<!DOCTYPE html>\n{expected}");
        assert_eq!(filtered(&extended, page), expected, "{page}");
    }
    let pattern = Pattern::compile(b"http://be\\.test/([a-z])", PatternOptions::HTTPD).unwrap();
    let flags = UrlRuleFlags {
        skips_events: true,
        ..UrlRuleFlags::default()
    };
    extended.doctype = None;
    extended.urls = vec![Arc::new(UrlRule::of_pattern(pattern, b"/$1/", flags))];
    assert_eq!(
        filtered(
            &extended,
            "<a href='http://be.test/xy' onclick='http://be.test/x'>"
        ),
        "<a href=\"/x/y\" onclick='http://be.test/x'>"
    );
}

#[test]
fn long_tags_and_scripts_pass_unedited() {
    let tag = |bytes: usize| {
        let rest = "<a href='/x' title='".len() + "'>".len();
        format!("<a href='/x' title='{}'>", "t".repeat(bytes - rest))
    };
    let edited = |page: &str| {
        let out = filtered_in(&rules(), page.as_bytes(), usize::MAX);
        String::from_utf8(out).unwrap().contains("/app/")
    };
    assert!(edited(&tag(TAG_BYTES_MAX)) && !edited(&tag(TAG_BYTES_MAX + 1)));
    let mut extended = rules();
    extended.is_extended = true;
    let script = |bytes: usize| format!("<script>'/x'{}</script>", " ".repeat(bytes - 4));
    let edited = |page: &str| {
        let out = filtered_in(&extended, page.as_bytes(), 8192);
        String::from_utf8(out).unwrap().contains("/app/")
    };
    assert!(edited(&script(SCRIPT_BYTES_MAX - 8)));
    assert!(!edited(&script(SCRIPT_BYTES_MAX + 8192)));
}

#[test]
fn charsets() {
    let of = |media_type: &str, page: &[u8]| {
        let mut texts = Vec::new();
        for piece_bytes in [1, usize::MAX] {
            let mut decoded = Decoded::new(&Charsets::default(), media_type.as_bytes());
            let mut text = Vec::new();
            page.chunks(piece_bytes)
                .for_each(|piece| decoded.push(piece, &mut text));
            decoded.finish(&mut text);
            texts.push(String::from_utf8(text).unwrap());
        }
        assert_eq!(texts[0], texts[1]);
        texts.remove(0)
    };
    assert_eq!(of("text/html", b"\xe9"), "é");
    assert_eq!(of("text/html; charset=\"UTF-8\"", "é".as_bytes()), "é");
    assert_eq!(of("text/html", "\u{feff}é".as_bytes()), "é");
    assert_eq!(
        of("text/html", b"<meta x><META charset=koi8-r>\xc1"),
        "<meta x><META charset=koi8-r>а"
    );
    assert_eq!(
        of(
            "text/html",
            b"<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>\x83\x41"
        ),
        "<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>ア"
    );
    assert_eq!(
        of(
            "application/xhtml+xml",
            "<?xml version='1.0' encoding='utf-8'?>é".as_bytes()
        ),
        "<?xml version='1.0' encoding='utf-8'?>é"
    );
    assert_eq!(of("text/html;charset=utf-8", b"a\xff"), "a\u{fffd}");
    assert_eq!(of("text/html;charset=no-such", b"\xe9"), "é");
}

/// A page through the whole filter; the media type of the response, and its content.
fn answered(
    rules: &HtmlRules,
    charsets: &Charsets,
    page: &[u8],
    piece_bytes: usize,
) -> (String, Vec<u8>) {
    struct Pieces(std::collections::VecDeque<Vec<u8>>);
    impl saker_pipeline::BodyStream for Pieces {
        fn poll_chunk(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<saker_pipeline::Chunk, BodyError>>> {
            std::task::Poll::Ready(self.0.pop_front().map(|piece| Ok(piece.into())))
        }
    }
    let mut response = Response::new(saker_http::Status::OK);
    response.fields_mut().set("Content-Type", &b"text/html"[..]);
    let pieces = page.chunks(piece_bytes).map(<[u8]>::to_vec).collect();
    response.body = saker_pipeline::Body::Stream(Box::new(Pieces(pieces)));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let budget = Rc::default();
    let mut applied = Box::pin(apply(&mut response, rules.clone(), Some(charsets), &budget));
    assert!(applied.as_mut().poll(&mut context).is_ready());
    drop(applied);
    let mut stream = crate::transform::as_stream(std::mem::take(&mut response.body));
    let mut content = Vec::new();
    while let std::task::Poll::Ready(Some(chunk)) = stream.poll_chunk(&mut context) {
        content.extend_from_slice(chunk.unwrap().bytes());
    }
    let media_type = response.fields().first("Content-Type").unwrap().to_vec();
    (String::from_utf8(media_type).unwrap(), content)
}

#[test]
fn charsets_of_clients() {
    let named = |name: &str| {
        let encoding = encoding_named(name.as_bytes()).unwrap();
        Some(CharsetOut::Named(encoding, name.into()))
    };
    let page = "<meta charset=windows-1252><a href=/x title=\u{e9}>\u{e9}</a>";
    let latin: Vec<u8> = page.chars().map(|letter| letter as u8).collect();
    let euro = "<a href=/x>\u{20ac}\u{e9}\u{3042}</a>".as_bytes();
    for (out, page, media_type, expected) in [
        (
            None,
            &latin[..],
            "text/html;charset=utf-8",
            page.replace("/x", "\"/app/x\"").into_bytes(),
        ),
        (
            Some(CharsetOut::Own),
            &latin[..],
            "text/html;charset=windows-1252",
            page.replace("/x", "\"/app/x\"")
                .chars()
                .map(|letter| letter as u8)
                .collect(),
        ),
        (
            named("iso-8859-15"),
            &[&b"\xef\xbb\xbf"[..], euro].concat(),
            "text/html;charset=iso-8859-15",
            b"<a href=\"/app/x\">\xa4\xe9&#12354;</a>".to_vec(),
        ),
        (
            named("utf-16le"),
            &b"<a href=/x>y</a>"[..],
            "text/html;charset=utf-8",
            b"<a href=\"/app/x\">y</a>".to_vec(),
        ),
    ] {
        let charsets = Charsets {
            out,
            ..Charsets::default()
        };
        for piece_bytes in [1, 3, 1000] {
            let (told, content) = answered(&rules(), &charsets, page, piece_bytes);
            assert_eq!(told, media_type);
            assert_eq!(
                String::from_utf8_lossy(&content),
                String::from_utf8_lossy(&expected),
                "{media_type} in pieces of {piece_bytes}"
            );
            assert_eq!(content, expected);
        }
    }
}

#[test]
fn elements_about_types_are_left_out() {
    let rules = HtmlRules {
        obeys_meta: true,
        ..rules()
    };
    let page =
        b"<head><META http-equiv=content-type content='text/html; charset=koi8-r'><a href=/x>";
    for piece_bytes in [1, 5, 1000] {
        let (_, content) = answered(&rules, &Charsets::default(), page, piece_bytes);
        assert_eq!(content, b"<head><a href=\"/app/x\">", "{piece_bytes}");
    }
}

/// Bytes that a page of that many small pieces of markup is copied by, in a push of all of it.
#[test]
fn small_pieces_do_not_copy_the_rest() {
    let mut markup = Markup::default();
    markup.push(&b"<".repeat(1 << 20));
    let mut pieces = 0;
    while markup.next(false).is_some() {
        pieces += 1;
    }
    // The last one may begin a tag.
    assert_eq!(pieces, (1 << 20) - 1);
}
