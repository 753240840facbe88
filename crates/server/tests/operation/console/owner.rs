//! Owners of a site: they see its requests and its cached pages, purge these, and nothing else.

use crate::{
    console::fixture::{Fixture, Keys, cookie_of},
    console::live::{Events, Origin},
    operate::folder,
};
use saker_testkit::{Client, wait_until};
use serde_json::{Value, json};

fn get(fixture: &Fixture, host: &str, target: &str) {
    let mut client = Client::connect(fixture.saker.server.address()).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.send(head).unwrap();
    assert_eq!(
        client.read_response().unwrap().status,
        200,
        "{host}{target}"
    );
}

#[test]
fn owners_see_and_purge_their_site_and_no_other() {
    let origin = Origin::start("Cache-Control: public, max-age=600\r\n");
    let site = |name: &str| {
        format!(
            "[[site]]\nnames = [\"{name}\"]\ncache = true\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{}\"\n",
            origin.address
        )
    };
    let keys = Keys {
        site: &format!("{}{}", site("a.example"), site("b.example")),
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-owner"), &keys);
    let add = [
        "token",
        "add",
        "eve",
        "--role",
        "owner",
        "--site",
        "a.example",
    ];
    let token = fixture.command(&add, "").trim().to_owned();
    let viewer = fixture.token("viewer");
    // Requests as they finish.
    let mut events = Events::open(&fixture, &token, "/api/v1/requests/events?host=example");
    events.wait_for("text/event-stream");
    for (host, target) in [
        ("b.example", "/secret"),
        ("a.example", "/1"),
        ("b.example", "/1"),
        ("a.example", "/last"),
    ] {
        get(&fixture, host, target);
    }
    events.wait_for("/last");
    assert!(events.text().contains("a.example"), "{}", events.text());
    assert!(
        !events.text().contains("b.example") && !events.text().contains("secret"),
        "{}",
        events.text()
    );
    // The page cache.
    let api = |method: &str, path: &str, body: &Value| {
        fixture.api(&token, method, &format!("/api/v1/{path}"), body)
    };
    let pages = |host: &str| {
        let path = format!("/api/v1/cache/entries?site={host}");
        let (_, list) = fixture.api(&viewer, "GET", &path, &Value::Null);
        list["entries"].as_array().map_or(0, Vec::len)
    };
    wait_until("pages are cached", || {
        (pages("a.example"), pages("b.example")) == (2, 2)
    });
    for path in [
        "cache",
        "cache/entries",
        "cache/entries?site=b.example",
        "cache/entries?url=/1",
        "cache/entries?url=/secret",
    ] {
        let (status, answer) = api("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(
            !answer.to_string().contains("b.example"),
            "{path}: {answer}"
        );
    }
    let (_, shown) = api("GET", "cache/entries?url=/1", &Value::Null);
    assert_eq!(shown["entries"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(
        api("GET", "cache/entries?url=http://b.example/1", &Value::Null).0,
        403
    );
    for order in [
        json!({ "urls": ["http://b.example/1"] }),
        json!({ "urls": ["//b.example/1"] }),
        json!({ "urls": ["/1", "http://b.example/1"], "site": "b.example" }),
    ] {
        assert_eq!(api("POST", "cache/purge", &order).0, 403, "{order}");
    }
    assert_eq!((pages("a.example"), pages("b.example")), (2, 2));
    let (_, counted) = api(
        "POST",
        "cache/purge",
        &json!({ "all": true, "site": "b.example", "dry_run": true }),
    );
    assert_eq!(counted["pages"], 2, "{counted}");
    for order in [
        json!({ "urls": ["/1"], "site": "b.example" }),
        json!({ "bans": ["req.url ~ secret"] }),
        json!({ "all": true }),
    ] {
        let (status, answer) = api("POST", "cache/purge", &order);
        assert_eq!(status, 200, "{order}: {answer}");
        assert!(!answer.to_string().contains("b.example"), "{answer}");
    }
    let gone = |host: &str| {
        let order = json!({ "all": true, "site": host, "dry_run": true });
        fixture
            .api(
                &fixture.token("operator"),
                "POST",
                "/api/v1/cache/purge",
                &order,
            )
            .1["pages"]
            .clone()
    };
    assert_eq!((gone("a.example"), gone("b.example")), (json!(0), json!(2)));
    for path in [
        "status",
        "live",
        "bans",
        "certificates",
        "upstreams",
        "configuration",
        "logs",
        "audit",
        "explain?url=/",
        "openapi.json",
    ] {
        assert_eq!(api("GET", path, &Value::Null).0, 403, "{path}");
    }
}

#[test]
fn owners_have_their_pages() {
    let fixture = Fixture::start("console-owner-pages", "cache = true");
    let add = ["user", "add", "eve", "--role", "owner", "--site", "*"];
    fixture.command(&add, "correct horse\n");
    let logged_in = fixture.submit("/login", "", "name=eve&password=correct+horse");
    assert_eq!(logged_in.field("location"), Some("/requests"));
    let cookie = cookie_of(&logged_in);
    for path in ["/requests", "/cache"] {
        let page = fixture.page(path, &cookie);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.text().contains("href=\"/bans\""), "{}", page.text());
    }
    for path in [
        "/",
        "/bans",
        "/upstreams",
        "/logs",
        "/configuration",
        "/audit",
        "/requests/why?url=/",
    ] {
        assert_eq!(fixture.page(path, &cookie).status, 403, "{path}");
    }
}
