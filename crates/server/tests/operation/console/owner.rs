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
    let token = fixture.owner_token("a.example");
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
    for (expression, own) in [
        ("req.url ~ .", 2),
        ("req.http.host == b.example", 0),
        ("req.url ~ secret", 0),
    ] {
        let order = json!({ "bans": [expression], "site": "b.example", "dry_run": true });
        let (_, counted) = api("POST", "cache/purge", &order);
        assert_eq!(counted["pages"], own, "{expression}: {counted}");
    }
    // They ask about no request: rules and files of other sites are theirs to see in no answer,
    // whatever host the question has.
    for question in [
        "url=/1",
        "url=http://a.example/1",
        "url=http://b.example/secret",
        "url=http://a.example/1&header=Host:+b.example",
        "url=http://a.example/1&header=Host:+a.example&header=Host:+b.example",
        "url=//b.example/1&header=X-Forwarded-Host:+b.example",
    ] {
        let (status, answer) = api("GET", &format!("explain?{question}"), &Value::Null);
        assert_eq!(status, 403, "{question}: {answer}");
        assert!(answer.get("steps").is_none(), "{question}: {answer}");
    }
    for path in [
        "status",
        "live",
        "top",
        "upstreams",
        "certificates",
        "bans",
        "logs",
        "audit",
    ] {
        let (status, answer) = api("GET", path, &Value::Null);
        assert_eq!(status, 403, "{path}: {answer}");
        assert!(
            !answer.to_string().contains("b.example"),
            "{path}: {answer}"
        );
    }
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

#[test]
fn owners_change_settings_of_their_site_and_nothing_else() {
    let dir = folder("console-owner-settings");
    dir.write("www/files/a.txt", "a\n").unwrap();
    let keys = Keys {
        site: "[[site]]\nnames = [\"b.example\"]\nroot = \"{dir}/www\"\n# The end.\n",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let owner = |name: &str, site: &str| {
        let add = ["token", "add", name, "--role", "owner", "--site", site];
        fixture.command(&add, "").trim().to_owned()
    };
    let (eve, mallory) = (
        owner("eve", "b.example"),
        owner("mallory", "nowhere.example"),
    );
    let on_disk = || std::fs::read_to_string(fixture.saker.dir.join("saker.toml")).unwrap();
    let before = on_disk();
    let status_of = |host: &str| {
        let mut client = Client::connect(fixture.saker.server.address()).unwrap();
        let head = format!("GET /files/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        client.send(head).unwrap();
        client.read_response().unwrap().status
    };
    let (listed, unlisted) = (200, status_of("b.example"));
    assert_ne!(listed, unlisted);
    let settings = |token: &str| fixture.api(token, "GET", "/api/v1/site/settings", &Value::Null);
    let (status, found) = settings(&eve);
    assert_eq!(
        (status, &found["site"]),
        (200, &json!("b.example")),
        "{found}"
    );
    assert!(!found.to_string().contains("state_dir"), "{found}");
    assert_eq!(settings(&mallory).0, 404);
    assert_eq!(settings(&fixture.token("administrator")).0, 404);
    let apply = |token: &str, values: Value| {
        let order = json!({ "base": found["base"], "values": values });
        fixture.api(token, "POST", "/api/v1/site/apply", &order)
    };
    for values in [
        json!({ "root": "/etc" }),
        json!({ "names": "[\"a.example\"]" }),
        json!({ "listing": "true", "root": "/etc" }),
        json!({ "listing": "true\nroot = \"/etc\"" }),
        json!({ "charset": "x\"\n[server]\nuser = \"root" }),
        json!({ "include": "[\"/etc/*\"]" }),
        json!({ "listing": true }),
        json!({ "etag": "{ root = 1 }" }),
        json!({ "default_type": "a/b\u{7f}" }),
        json!({}),
    ] {
        let (status, answer) = apply(&eve, values.clone());
        assert!(status >= 400, "{values}: {answer}");
        assert_eq!(on_disk(), before, "{values}");
    }
    assert_eq!(apply(&mallory, json!({ "listing": "true" })).0, 404);
    let (status, applied) = apply(&eve, json!({ "listing": "true" }));
    assert_eq!(status, 200, "{applied}");
    wait_until("the site lists", || status_of("b.example") == listed);
    assert_eq!(status_of("a.example"), unlisted, "another site");
    assert_eq!(on_disk().replace("listing = true\n", ""), before);
    // Others cannot keep or undo it, but an administrator.
    let finish = |token: &str, verb: &str, id: &Value| {
        let path = format!("/api/v1/site/{verb}");
        fixture.api(token, "POST", &path, &json!({ "id": id })).0
    };
    let other = owner("other", "b.example");
    assert_eq!(finish(&other, "confirm", &applied["id"]), 409);
    assert_eq!(finish(&eve, "confirm", &json!("x")), 409);
    assert_eq!(finish(&eve, "roll-back", &applied["id"]), 200);
    assert_eq!(on_disk(), before);
    wait_until("the site lists no more", || {
        status_of("b.example") == unlisted
    });
    // An administrator's change is not an owner's to keep.
    let administrator = fixture.token("administrator");
    let (_, open) = fixture.api(&administrator, "GET", "/api/v1/configuration", &Value::Null);
    let order = json!({
        "file": open["file"], "base": open["digest"],
        "text": format!("{}# more\n", open["text"].as_str().unwrap()),
    });
    let path = "/api/v1/configuration/apply";
    let (status, pending) = fixture.api(&administrator, "POST", path, &order);
    assert_eq!(status, 200, "{pending}");
    assert_eq!(finish(&eve, "confirm", &pending["id"]), 409);
    let undo = json!({ "id": pending["id"] });
    let path = "/api/v1/configuration/roll-back";
    assert_eq!(fixture.api(&administrator, "POST", path, &undo).0, 200);
    // By the page.
    let add = [
        "user",
        "add",
        "eve",
        "--role",
        "owner",
        "--site",
        "b.example",
    ];
    fixture.command(&add, "correct horse\n");
    let logged_in = fixture.submit("/login", "", "name=eve&password=correct+horse");
    let cookie = cookie_of(&logged_in);
    let page = fixture.page("/site", &cookie).text();
    assert!(
        page.contains("v-listing") && !page.contains("state_dir"),
        "{page}"
    );
    let proposed = fixture
        .submit("/site/propose", &cookie, "v.listing=true")
        .text();
    assert!(
        proposed.contains("+listing = true") && !proposed.contains("state_dir"),
        "{proposed}"
    );
    let base = found["base"].as_str().unwrap();
    let form = format!("base={base}&v.listing=true");
    let applied = fixture.submit("/site/apply", &cookie, &form).text();
    assert!(applied.contains("The change is in force."), "{applied}");
    let id = applied.split("name=\"id\" value=\"").nth(1).unwrap();
    let form = format!("id={}", id.split('"').next().unwrap());
    let kept = fixture.submit("/site/confirm", &cookie, &form).text();
    assert!(kept.contains("The change is kept."), "{kept}");
    wait_until("the site lists", || status_of("b.example") == listed);
}
