//! The page cache through the console: look-up, count, purge, and who may.

use crate::{
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::{folder, saker, stdout},
};
use saker_testkit::wait_until;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};

/// A site whose pages are cached, with the same tag.
const SITE: &str =
    "cache = true\n[[site.route]]\npath = \"/page/*\"\nproxy = \"http://{origin}\"\n";

#[test]
fn pages_are_counted_before_they_are_purged() {
    let origin = Origin::start("Cache-Control: public, max-age=600\r\nCache-Tag: news\r\n");
    let site = SITE.replace("{origin}", &origin.address.to_string());
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-purge"), &keys);
    let mut client = fixture.saker.connect().unwrap();
    for page in ["/page/1", "/page/2"] {
        assert_eq!(client.get(page).unwrap().status, 200);
    }
    let (viewer, operator) = (fixture.token("viewer"), fixture.token("operator"));
    let purge =
        |token: &str, order: Value| fixture.api(token, "POST", "/api/v1/cache/purge", &order);
    let count = |order: Value| purge(&operator, order).1["pages"].as_u64();
    let all = json!({ "all": true, "dry_run": true });
    wait_until("the pages are stored", || count(all.clone()) == Some(2));
    let one = json!({ "urls": ["/page/1"], "site": "localhost", "dry_run": true });
    assert_eq!(count(one), Some(1));
    assert_eq!(purge(&viewer, all.clone()).0, 403);
    assert_eq!(purge(&operator, json!({})).0, 400);
    assert_eq!(
        purge(&operator, json!({ "all": true, "dry_run": "yes" })).0,
        400,
        "no purge by mistake"
    );
    assert_eq!(count(all.clone()), Some(2));
    for (expression, pages) in [("req.url ~ ^/page/", 2), ("obj.http.cache-tag ~ sport", 0)] {
        let order = json!({ "bans": [expression], "dry_run": true });
        assert_eq!(count(order), Some(pages), "{expression}");
        let state_dir = fixture.state_dir();
        let words = ["purge", "--count", "--ban", expression, "--state-dir"];
        let printed = stdout(&saker(words.into_iter().chain([state_dir.as_str()])));
        assert!(
            printed.starts_with(&format!("{pages} pages, ")),
            "{printed}"
        );
    }
    assert_eq!(
        purge(
            &operator,
            json!({ "bans": ["req.url ~ ("], "dry_run": true })
        )
        .0,
        400
    );
    // The page asks before it purges, and shows no form to viewers.
    let cookie = fixture.administrator();
    for (expression, pages) in [
        ("req.url+~+/1$", "Purge 1 page?"),
        ("req.url+~+/none", "Purge 0 pages?"),
    ] {
        let form = format!("expression={expression}");
        let asked = fixture.submit("/cache/purge", &cookie, &form);
        assert!(asked.text().contains(pages), "{}", asked.text());
    }
    let wrong = fixture.submit("/cache/purge", &cookie, "expression=req.url+~~");
    assert!(
        !wrong.text().contains("name=\"confirmed\""),
        "{}",
        wrong.text()
    );
    // An expression removes pages: what asks for stale ones is refused, confirmed or not.
    let form = "expression=req.url+~+.&soft=yes&confirmed=yes";
    let refused = fixture.submit("/cache/purge", &cookie, form);
    assert!(
        refused.text().contains("never made stale"),
        "{}",
        refused.text()
    );
    assert_eq!(count(all.clone()), Some(2));
    let asked = fixture.submit("/cache/purge", &cookie, "all=yes");
    assert!(asked.text().contains("Purge 2 pages?"), "{}", asked.text());
    assert_eq!(count(all.clone()), Some(2));
    // As the question's form says it.
    let form = "expression=req.url+~+/1$&confirmed=yes";
    fixture.submit("/cache/purge", &cookie, form);
    assert_eq!(count(all.clone()), Some(1));
    let done = fixture.submit("/cache/purge", &cookie, "all=yes&confirmed=yes");
    assert!(
        done.text().contains("The pages were purged."),
        "{}",
        done.text()
    );
    assert_eq!(count(all), Some(0));
    let audited = fixture.page("/audit", &cookie).text();
    assert!(audited.contains("<td>purge</td>"), "{audited}");
    fixture.add_user("eve", "viewer", "secret");
    let log_in = fixture.submit("/login", "", "name=eve&password=secret");
    let eve = crate::console::fixture::cookie_of(&log_in);
    let page = fixture.page("/cache", &eve);
    assert!(
        page.status == 200 && !page.text().contains("/cache/purge"),
        "{}",
        page.text()
    );
    assert_eq!(
        fixture
            .submit("/cache/purge", &eve, "all=yes&confirmed=yes")
            .status,
        403
    );
}

#[test]
fn pages_are_fetched_into_the_cache_and_from_nowhere_else() {
    let (reached, own) = (listening(), Origin::start("Cache-Control: max-age=600\r\n"));
    let site = SITE.replace("{origin}", &own.address.to_string());
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-warm"), &keys);
    let (viewer, token) = (fixture.token("viewer"), fixture.token("operator"));
    let post = |token: &str, path: &str, order: &Value| {
        let path = format!("/api/v1/cache/{path}");
        fixture.api(token, "POST", &path, order)
    };
    let foreign = reached.local_addr().unwrap();
    let urls = json!([
        "http://localhost/page/1",
        "http://localhost/page/2",
        format!("http://{foreign}/secret"),
        "http://169.254.169.254/latest/meta-data/"
    ]);
    let order = json!({
        "urls": urls, "sitemaps": [format!("http://{foreign}/sitemap.xml")],
        "variations": [[["Cookie", "session=1"]]],
    });
    assert_eq!(post(&viewer, "warm", &order).0, 403);
    let (status, begun) = post(&token, "warm", &order);
    assert_eq!(status, 200, "{begun}");
    let path = format!("/api/v1/cache/warm?job={}", begun["job"]);
    let look = || fixture.api(&token, "GET", &path, &Value::Null).1;
    wait_until("the warm-up is over", || look()["is_over"] == true);
    assert_eq!(look()["fetched"], 2, "{}", look());
    let (_, list) = fixture.api(&token, "GET", "/api/v1/cache/entries", &Value::Null);
    assert_eq!(list["entries"].as_array().unwrap().len(), 2, "{list}");
    assert!(reached.accept().is_err(), "another server was reached");
    for wrong in [
        json!({}),
        json!({ "urls": [] }),
        json!({ "urls": ["/page/1"] }),
        json!({ "urls": ["file:///etc/passwd"] }),
        json!({ "urls": vec!["http://localhost/"; 2_001] }),
    ] {
        assert_eq!(post(&token, "warm", &wrong).0, 400, "{wrong}");
    }
    assert_eq!(post(&token, "warm/stop", &json!({ "job": 999 })).0, 400);
    // By its page.
    let cookie = fixture.administrator();
    let form = "urls=http://localhost/page/3%0Ahttp://localhost/page/4&sitemaps=";
    let begun = fixture.submit("/cache/warm", &cookie, form);
    let to = begun.field("location").unwrap_or_default().to_owned();
    assert!(to.starts_with("/cache/warm?job="), "{}", begun.text());
    assert_eq!(fixture.page(&to, &cookie).status, 200);
    wait_until("the pages are stored", || {
        let (_, list) = fixture.api(&token, "GET", "/api/v1/cache/entries", &Value::Null);
        list["entries"].as_array().map(Vec::len) == Some(4)
    });
}

/// A server that no one may connect to.
fn listening() -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}
