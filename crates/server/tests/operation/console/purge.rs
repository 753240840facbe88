//! The page cache through the console: look-up, count, purge, and who may.

use crate::{
    console::fixture::{Fixture, Keys},
    operate::folder,
};
use saker_testkit::wait_until;
use serde_json::{Value, json};

/// A site whose pages are cached, with the same tag.
const SITE: &str =
    "cache = true\n[[site.route]]\npath = \"/page/*\"\nproxy = \"http://{origin}\"\n";

#[test]
fn pages_are_counted_before_they_are_purged() {
    let origin = crate::console::live::Origin::start(
        "Cache-Control: public, max-age=600\r\nCache-Tag: news\r\n",
    );
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
    // The page asks before it purges, and shows no form to viewers.
    let cookie = fixture.administrator();
    let asked = fixture.submit("/cache/purge", &cookie, "all=yes");
    assert!(asked.text().contains("Purge 2 pages?"), "{}", asked.text());
    assert_eq!(count(all.clone()), Some(2));
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
