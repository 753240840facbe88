//! Targets of redirects: their parts, hostile requests, and caching.

use super::*;
use crate::tests::{Folder, block_on, body_bytes, exchange, field};
use saker_config::model::{FieldEdit, Origin, PathPattern, Settings, Site};
use saker_http::{RequestHead, Version};
use saker_pipeline::ResponseHead;

fn site(pattern: PathPattern, action: Action) -> Arc<Site> {
    let folder = Folder::new();
    folder.site_with_routes(Settings::default(), |settings| {
        let settings = Arc::clone(settings);
        vec![Route::new(pattern, action, settings, Origin::built_in())]
    })
}

fn template(text: &str) -> Template {
    let names = saker_matchers::Names {
        groups: 9,
        ..saker_matchers::Names::default()
    };
    Template::parse(text).unwrap().link(&names).unwrap()
}

fn redirecting(pattern: PathPattern, to: &str) -> Arc<Site> {
    site(
        pattern,
        Action::Redirect(Redirect {
            status: Status::FOUND,
            to: template(to),
        }),
    )
}

fn run(site: &Arc<Site>, target: &str) -> (Response, Exchange) {
    let mut exchange = exchange(site, "GET", target, &[]);
    match block_on(FixedAnswers.handle(&mut exchange)) {
        Handled::Answered(response) => (response, exchange),
        _ => panic!("declined"),
    }
}

fn location(pattern: PathPattern, to: &str, target: &str) -> String {
    field(&run(&redirecting(pattern, to), target).0, "location")
}

#[test]
fn targets_are_put_together() {
    let prefix = || PathPattern::Prefix("/old/".into());
    let glob = || PathPattern::Glob(vec!["/a/".into(), "/b/".into(), ".html".into()]);
    let cases = [
        (prefix(), "/new/$1", "/old/x/y", "/new/x/y"),
        (
            prefix(),
            "/new/$1",
            "/old/a%20b%3F%C3%A9",
            "/new/a%20b%3F%C3%A9",
        ),
        (
            prefix(),
            "https://$host$path$query",
            "/old/x%20y?a=1&b",
            "https://example.org/old/x%20y?a=1&b",
        ),
        (
            prefix(),
            "https://$host$path$query",
            "/old/",
            "https://example.org/old/",
        ),
        (prefix(), "/x$query", "/old/?", "/x?"),
        (prefix(), "/price$$5$$", "/old/", "/price$5$"),
        (prefix(), "/$9x", "/old/a", "/x"),
        (prefix(), "/page#part-$1", "/old/7", "/page#part-7"),
        (prefix(), "/grün", "/old/", "/gr%C3%BCn"),
        (glob(), "/$2/$1", "/a/one/b/two.html", "/two/one"),
        (
            PathPattern::Exact("/only".into()),
            "//cdn.example/x",
            "/only",
            "//cdn.example/x",
        ),
    ];
    for (pattern, to, target, expected) in cases {
        assert_eq!(location(pattern, to, target), expected, "{to} {target}");
    }
}

#[test]
fn a_request_can_neither_choose_a_host_nor_add_a_field() {
    let any = || PathPattern::Prefix("/old".into());
    let cases = [
        (any(), "/$1", "/old/evil.example", "/evil.example"),
        (
            any(),
            "$1",
            "/old/http://evil.example",
            "/http:/evil.example",
        ),
        (any(), "$1", "/oldhttp:evil", "/http%3Aevil"),
        (any(), "$path/", "/old//evil", "/old//evil/"),
        (
            PathPattern::Prefix("/".into()),
            "$path/",
            "//evil.example",
            "/evil.example/",
        ),
        (
            PathPattern::Prefix("/".into()),
            "$path",
            "/%5Cevil.example",
            "/%5Cevil.example",
        ),
        (
            any(),
            "/x$1",
            "/old%0d%0aSet-Cookie:a=b",
            "/x%0D%0ASet-Cookie%3Aa=b",
        ),
    ];
    for (pattern, to, target, expected) in cases {
        assert_eq!(location(pattern, to, target), expected, "{to} {target}");
    }
}

#[test]
fn an_answer_is_kept_unless_it_has_a_query_in_it() {
    let all = || PathPattern::Prefix("/".into());
    let ask = |site: &Arc<Site>, first: &str, second: &str| {
        let reusable = run(site, first).1.cache.cached_route?;
        let head = RequestHead::build("GET", second, Version::Http11, &[]);
        Some(
            reusable
                .answer(head.view(), 0)
                .map(|response| field(&response, "location")),
        )
    };
    let plain = redirecting(all(), "/to");
    assert_eq!(ask(&plain, "/a?x", "/a?y"), Some(Some("/to".into())));
    let with_query = redirecting(all(), "/to$query");
    assert_eq!(ask(&with_query, "/a", "/a"), Some(Some("/to".into())));
    assert_eq!(ask(&with_query, "/a", "/a?y"), Some(None));
    assert_eq!(ask(&with_query, "/a?x", "/a?y"), None);
}

#[test]
fn redirects_have_a_note_for_people() {
    let (response, _) = run(
        &redirecting(PathPattern::Prefix("/".into()), "/<$1>\"&"),
        "/x'y",
    );
    assert_eq!(response.status, Status::FOUND);
    let note = String::from_utf8(body_bytes(&response.body)).unwrap();
    assert!(
        note.contains("<a href=\"/%3Cx&#39;y%3E%22&amp;\">"),
        "{note}"
    );
    assert_eq!(field(&response, "content-length"), note.len().to_string());
}

#[test]
fn texts_are_escaped_for_the_type_that_edits_of_fields_give() {
    let answer = |content_type: &str, edits: &[FieldEditAction]| {
        let folder = Folder::new();
        let settings = Settings {
            fields: edits
                .iter()
                .map(|action| FieldEdit {
                    name: "content-type".into(),
                    action: action.clone(),
                    always: false,
                    template: None,
                    is_per_request: false,
                    origin: Origin::built_in(),
                })
                .collect(),
            ..Settings::default()
        };
        let site = folder.site_with_routes(settings, |settings| {
            let action = Action::Respond {
                status: Status::OK,
                content_type: content_type.into(),
                body: template("$arg_x"),
            };
            let pattern = PathPattern::Prefix("/".into());
            let settings = Arc::clone(settings);
            vec![Route::new(pattern, action, settings, Origin::built_in())]
        });
        let (response, _) = run(&site, "/?x=%3C%22");
        String::from_utf8(body_bytes(&response.body)).unwrap()
    };
    let set = |value: &str| FieldEditAction::Set(value.into());
    let (plain, html, json) = ("text/plain", "text/html", "application/json");
    let (markup, script) = ("&lt;&quot;", "\\u003c\\u0022");
    assert_eq!(answer(plain, &[]), "<\"");
    assert_eq!(answer(plain, &[set(html)]), markup);
    assert_eq!(answer(plain, &[FieldEditAction::Remove]), markup);
    assert_eq!(answer("", &[]), markup);
    assert_eq!(answer(html, &[set(plain)]), markup);
    assert_eq!(answer(html, &[set(json)]), script);
    assert_eq!(
        answer(plain, &[FieldEditAction::Append("Image/SVG+XML".into())]),
        markup
    );
}

#[test]
fn fixed_texts_and_denials() {
    let respond = |status, body: &str| {
        let action = Action::Respond {
            status,
            content_type: "text/plain".into(),
            body: Template::literal(body),
        };
        run(&site(PathPattern::Prefix("/".into()), action), "/x")
    };
    let (short, exchange) = respond(Status::OK, "pong");
    assert_eq!(
        (
            body_bytes(&short.body),
            field(&short, "content-type").as_str()
        ),
        (b"pong".to_vec(), "text/plain")
    );
    assert!(exchange.cache.cached_route.is_some());
    let (empty, _) = respond(Status::NO_CONTENT, "ignored");
    assert_eq!(
        (
            body_bytes(&empty.body).len(),
            field(&empty, "content-length").as_str()
        ),
        (0, "")
    );
    // Left to the filters: an error without a text of its own, and what may be compressed.
    for (status, body) in [
        (Status::GONE, ""),
        (Status::OK, "long ".repeat(1000).as_str()),
    ] {
        let (response, exchange) = respond(status, body);
        assert!(
            matches!(response.head, ResponseHead::Built(_))
                && exchange.cache.cached_route.is_none()
        );
        assert_eq!(
            (response.status, body_bytes(&response.body)),
            (status, body.as_bytes().to_vec())
        );
    }
    let (denied, exchange) = run(&site(PathPattern::Prefix("/".into()), Action::Deny), "/x");
    assert_eq!(
        (denied.status, exchange.cache.cached_route.is_none()),
        (Status::FORBIDDEN, true)
    );
}

#[test]
fn files_are_for_others() {
    let site = site(PathPattern::Prefix("/files".into()), Action::Files);
    for target in ["/files", "/elsewhere"] {
        let mut exchange = exchange(&site, "GET", target, &[]);
        assert!(
            matches!(
                block_on(FixedAnswers.handle(&mut exchange)),
                Handled::Declined
            ),
            "{target}"
        );
    }
}
