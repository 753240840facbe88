//! The content of cached pages: text that is escaped, images in a sandbox, private pages for
//! administrators alone; and warm-ups of owners, whose pages are those of their site.

use crate::{
    console::fixture::{Fixture, Keys, cookie_of},
    operate::folder,
};
use saker_testkit::{Client, PATIENCE, wait_until};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}txt";
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const SECRET: &str = "the secret of one client";

/// Answers by path: type, further fields, and content.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let count = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let large = "a".repeat(300 << 10);
            let (media_type, body) = match path.as_str() {
                "/image" => ("text/html", PNG.to_vec()),
                "/svg" => ("image/svg+xml", b"<svg onload='alert(1)'/>".to_vec()),
                "/binary" => ("image/png", vec![0, 1, 2, 0xff]),
                "/large" => ("text/plain", large.into_bytes()),
                "/private" => ("text/html", SECRET.as_bytes().to_vec()),
                _ => ("text/html", HOSTILE.as_bytes().to_vec()),
            };
            let caching = match path.as_str() {
                "/private" => "X-LiteSpeed-Cache-Control: private,max-age=600",
                _ => "Cache-Control: public, max-age=600",
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nContent-Type: {media_type}\r\n{caching}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    address
}

fn sites(origin: SocketAddr) -> String {
    let site = |names: &str| {
        format!(
            "[[site]]\nnames = [{names}]\ncache = true\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{origin}\"\n"
        )
    };
    format!(
        "{}{}",
        site("\"a.example\", \"www.a.example\""),
        site("\"b.example\"")
    )
}

fn get(fixture: &Fixture, host: &str, target: &str) {
    let mut client = Client::connect(fixture.saker.server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: PHPSESSID=0123456789abcdef0123456789\r\nConnection: close\r\n\r\n"
    );
    client.send(head).unwrap();
    assert_eq!(
        client.read_response().unwrap().status,
        200,
        "{host}{target}"
    );
}

/// The id of the only entry of a URL.
fn entry(fixture: &Fixture, token: &str, url: &str) -> String {
    let path = format!("/api/v1/cache/entries?url={url}");
    let mut found = Value::Null;
    wait_until("the page is cached", || {
        found = fixture.api(token, "GET", &path, &Value::Null).1;
        found["entries"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    found["entries"][0]["entry"].as_str().unwrap().to_owned()
}

fn owner(fixture: &Fixture, name: &str, site: &str) -> String {
    let add = ["token", "add", name, "--role", "owner", "--site", site];
    fixture.command(&add, "").trim().to_owned()
}

#[test]
fn content_is_shown_and_runs_nowhere() {
    let keys = Keys {
        site: &sites(origin()),
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-preview"), &keys);
    let (viewer, cookie) = (fixture.token("viewer"), fixture.administrator());
    let page = |path: &str| {
        get(&fixture, "a.example", path);
        let id = entry(&fixture, &viewer, &format!("http://a.example{path}"));
        let page = fixture.page(&format!("/cache/entry?entry={id}"), &cookie);
        assert_eq!(page.status, 200, "{}", page.text());
        (page.text().to_owned(), id)
    };
    let (html, id) = page("/html");
    assert!(html.contains("&#60;script&#62;alert(1)"), "{html}");
    assert!(
        !html.contains("<script>alert") && !html.contains("<img"),
        "{html}"
    );
    assert!(html.contains("\\u{202e}txt"), "{html}");
    let image = |id: &str| fixture.page(&format!("/cache/image?entry={id}"), &cookie);
    assert_eq!(image(&id).status, 404, "text is no image");
    // The API has the bytes.
    let path = format!("/api/v1/cache/body?entry={id}");
    let (status, answer) = fixture.api(&viewer, "GET", &path, &Value::Null);
    assert_eq!(
        (status, &answer["is_cut"]),
        (200, &json!(false)),
        "{answer}"
    );
    // By its bytes, whatever the site says.
    let (shown, id) = page("/image");
    assert!(
        shown.contains(&format!(
            "<img class=\"preview\" src=\"/cache/image?entry={id}\""
        )),
        "{shown}"
    );
    let response = image(&id);
    assert_eq!((response.status, &*response.body), (200, PNG));
    let policy = response.field("content-security-policy").unwrap();
    assert!(
        policy.starts_with("sandbox; default-src 'none'"),
        "{policy}"
    );
    assert_eq!(response.field("content-type"), Some("image/png"));
    assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
    assert!(
        response
            .field("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
    for path in ["/svg", "/binary"] {
        let (shown, id) = page(path);
        assert!(
            !shown.contains("<svg") && !shown.contains("<img"),
            "{shown}"
        );
        assert_eq!(image(&id).status, 404, "{path}");
    }
    let (large, _) = page("/large");
    assert!(
        large.contains("The beginning of the content."),
        "{} bytes",
        large.len()
    );
    assert!(large.len() < 300 << 10);
    // A purged page is gone, and ids are nothing but ids.
    let (_, id) = page("/purged");
    let operator = fixture.token("operator");
    let order = json!({ "urls": ["http://a.example/purged"] });
    assert_eq!(
        fixture
            .api(&operator, "POST", "/api/v1/cache/purge", &order)
            .0,
        200
    );
    for wrong in [
        id.as_str(),
        "",
        "x",
        "../../state/console-users",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        &"0".repeat(32),
        &format!("{id}%00"),
        &format!("{id}0"),
    ] {
        let path = format!("/api/v1/cache/body?entry={wrong}");
        let (status, answer) = fixture.api(&viewer, "GET", &path, &Value::Null);
        assert!(matches!(status, 400 | 404), "{wrong}: {answer}");
        assert_eq!(
            fixture
                .page(&format!("/cache/entry?entry={wrong}"), &cookie)
                .status,
            404,
            "{wrong}"
        );
        assert_eq!(image(wrong).status, 404, "{wrong}");
    }
}

#[test]
fn private_pages_are_for_administrators_and_other_sites_not_for_owners() {
    let keys = Keys {
        site: &sites(origin()),
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-preview-private"), &keys);
    let administrator = fixture.token("administrator");
    get(&fixture, "a.example", "/private");
    get(&fixture, "b.example", "/html");
    get(&fixture, "a.example", "/html");
    let private = entry(&fixture, &administrator, "http://a.example/private");
    let (of_b, of_a) = (
        entry(&fixture, &administrator, "http://b.example/html"),
        entry(&fixture, &administrator, "http://a.example/html"),
    );
    let eve = owner(&fixture, "eve", "a.example");
    let body = |token: &str, id: &str| {
        let path = format!("/api/v1/cache/body?entry={id}");
        fixture.api(token, "GET", &path, &Value::Null)
    };
    for role in ["viewer", "operator"] {
        let token = fixture.token(role);
        let (status, answer) = body(&token, &private);
        assert_eq!(status, 403, "{role}: {answer}");
        assert!(answer["body"].is_null(), "{role}: {answer}");
        // Nor its fields, nor the key that names the client.
        let path = "/api/v1/cache/entries?url=http://a.example/private";
        let (_, shown) = fixture.api(&token, "GET", path, &Value::Null);
        assert_eq!(shown["entries"][0]["is_private"], true, "{shown}");
        assert!(shown["entries"][0]["fields"].is_null(), "{shown}");
        assert!(shown["entries"][0]["key"].is_null(), "{shown}");
    }
    assert_eq!(body(&eve, &private).0, 403);
    assert_eq!(body(&eve, &of_a).0, 200);
    let (status, answer) = body(&eve, &of_b);
    assert_eq!(status, 404, "{answer}");
    assert_eq!(
        answer,
        body(&eve, &"0".repeat(32)).1,
        "no trace of the other site"
    );
    let (status, answer) = body(&administrator, &private);
    assert_eq!(
        (status, &answer["is_private"]),
        (200, &json!(true)),
        "{answer}"
    );
    let (_, audit) = fixture.api(&administrator, "GET", "/api/v1/audit", &Value::Null);
    assert_eq!(
        audit["entries"][0]["action"], "look at a private page",
        "{audit}"
    );
    // Of the pages, too.
    let add = [
        "user",
        "add",
        "eve",
        "--role",
        "owner",
        "--site",
        "a.example",
    ];
    fixture.command(&add, "correct horse\n");
    let logged_in = fixture.submit("/login", "", "name=eve&password=correct+horse");
    let cookie = cookie_of(&logged_in);
    for id in [&private, &of_b] {
        for place in ["entry", "image"] {
            let page = fixture.page(&format!("/cache/{place}?entry={id}"), &cookie);
            assert!(matches!(page.status, 403 | 404), "{place}: {}", page.status);
            assert!(!page.text().contains(SECRET) && !page.text().contains("alert(1)"));
        }
    }
}

#[test]
fn owners_warm_pages_of_their_site_alone() {
    let keys = Keys {
        site: &sites(origin()),
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-owner-warm"), &keys);
    let port = fixture.saker.server.address();
    let port = port.to_string().rsplit(':').next().unwrap().to_owned();
    let (eve, mallory) = (
        owner(&fixture, "eve", "a.example"),
        owner(&fixture, "mallory", "b.example"),
    );
    let operator = fixture.token("operator");
    let warm = |token: &str, order: Value| fixture.api(token, "POST", "/api/v1/cache/warm", &order);
    let look = |token: &str, job: &Value| {
        let path = format!("/api/v1/cache/warm?job={job}");
        fixture.api(token, "GET", &path, &Value::Null)
    };
    let url = |host: &str| format!("http://{host}:{port}/html");
    for urls in [
        json!([url("b.example")]),
        json!([url("a.example"), url("b.example")]),
        json!([format!("http://a.example@b.example:{port}/")]),
        json!([format!("http://unknown.example:{port}/")]),
        json!([format!("http://B.example:{port}/")]),
        json!(["/html"]),
    ] {
        let (status, answer) = warm(&eve, json!({ "urls": urls }));
        assert_eq!(status, 400, "{urls}: {answer}");
    }
    let (status, answer) = warm(&eve, json!({ "sitemaps": [url("b.example")] }));
    assert_eq!(status, 400, "{answer}");
    let order = json!({ "urls": [url("a.example"), url("www.a.example")], "site": "b.example", "concurrency": 200 });
    let (status, begun) = warm(&eve, order);
    assert_eq!(status, 200, "{begun}");
    let job = &begun["job"];
    wait_until("the pages are fetched", || {
        look(&eve, job).1["fetched"] == 2
    });
    // Others have nothing of it, but those who see all sites.
    assert_eq!(look(&mallory, job).0, 400);
    assert_eq!(look(&operator, job).0, 200);
    let stop = |token: &str, job: &Value| {
        fixture
            .api(
                token,
                "POST",
                "/api/v1/cache/warm/stop",
                &json!({ "job": job }),
            )
            .0
    };
    assert_eq!(stop(&mallory, job), 400);
    assert_eq!(stop(&eve, job), 200);
    // An operator's is not an owner's to see, whatever its number.
    let (_, other) = warm(&operator, json!({ "urls": [url("b.example")] }));
    assert_eq!(look(&eve, &other["job"]).0, 400);
    assert_eq!(stop(&eve, &other["job"]), 400);
    let (_, next) = warm(&eve, json!({ "urls": [url("a.example")] }));
    assert_eq!(look(&eve, job).0, 400, "one at a time");
    assert_eq!(look(&eve, &next["job"]).0, 200);
}
