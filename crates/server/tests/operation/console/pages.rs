//! Every page in a browser: light and dark, on a phone and on a wide screen, checked by axe-core.

use crate::{
    console::browser::Browser,
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::folder,
    tls_site,
};
use std::{env, path::Path};

/// Sum of all layout shifts so far.
const SHIFTS: &str = "new Promise((done) => { let sum = 0; new PerformanceObserver((list) => { \
     for (const entry of list.getEntries()) sum += entry.value; }).observe({ type: 'layout-shift', buffered: true }); \
     requestAnimationFrame(() => setTimeout(() => done(sum), 50)); })";

/// Controls without a name for screen readers, and texts whose contrast is below that of WCAG AA.
const INACCESSIBLE: &str = r#"(() => {
  const found = [];
  for (const control of document.querySelectorAll("input:not([type=hidden]), textarea, button, a")) {
    if (control.hidden) continue;
    const name = control.closest("label")?.textContent || control.textContent || control.getAttribute("aria-label") || (control.id && document.querySelector(`label[for="${control.id}"]`)?.textContent);
    if (!name?.trim()) found.push(`no name: ${control.outerHTML}`);
  }
  const parts = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const back = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  for (const element of document.querySelectorAll("main *, header *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !element.offsetParent || element.closest(".u-wrap")) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(back(element))].sort((a, b) => b - a);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(2)}: ${element.outerHTML.slice(0, 120)}`);
  }
  return found.slice(0, 5).join("\n");
})()"#;

/// Answers the wizard, so that its page becomes that of a proposed change.
fn propose(browser: &mut Browser) {
    browser.evaluate(
        "document.querySelector('[name=addresses]').value = '192.0.2.9'; \
         document.querySelector('main form').requestSubmit()",
    );
    browser.wait_for(
        "document.querySelector('form[action=\"/configuration/apply\"]') && document.readyState === 'complete'",
    );
}

/// The page that is open fits the screen, is accessible, and has no errors.
fn assert_fits(browser: &mut Browser, name: &str, (width, is_dark): (u32, bool)) {
    let place = format!("{name}-{width}-{}", if is_dark { "dark" } else { "light" });
    let overflow = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert!(
        overflow.as_f64().unwrap() <= 0.0,
        "{place}: {overflow} too wide"
    );
    let shifts = browser.evaluate(SHIFTS).as_f64().unwrap();
    assert!(shifts < 0.1, "{place}: layout shifts of {shifts}");
    let inaccessible = browser.evaluate(INACCESSIBLE);
    assert_eq!(inaccessible, "", "{place}");
    assert_eq!(browser.serious_violations(), "", "{place}");
    assert_eq!(browser.problems(), [""; 0], "{place}");
    if let Some(folder) = env::var_os("SAKER_SCREENSHOTS") {
        browser.screenshot(&Path::new(&folder).join(format!("console-{place}.png")));
    }
}

#[test]
fn pages_fit_every_screen_without_errors() {
    let origin = Origin::start("Cache-Control: public, max-age=600\r\n");
    let site = format!(
        "cache = true\n[[site.route]]\npath = \"/page/*\"\nproxy = \"http://{}\"\n[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n",
        origin.address
    );
    let dir = folder("console-pages");
    tls_site::certificate(&dir, "site", "shop.example");
    let fixture = Fixture::start_in(
        dir,
        &Keys {
            site: &site,
            server: "error_log = \"{dir}/error.log\"",
            ..Keys::default()
        },
    );
    let token = fixture.token("administrator");
    let mut client = fixture.saker.connect().unwrap();
    client
        .send("GET /page/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    client.read_response().unwrap();
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    let link = format!("{base}/link?token={}", fixture.link());
    let mut found = serde_json::Value::Null;
    saker_testkit::wait_until("the page is cached", || {
        let path = "/api/v1/cache/entries?url=http://localhost/page/1";
        found = fixture.api(&token, "GET", path, &serde_json::Value::Null).1;
        found["entries"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    });
    let entry = format!(
        "/cache/entry?entry={}",
        found["entries"][0]["entry"].as_str().unwrap()
    );
    let pages = [
        ("login", "/login", ""),
        (
            "now",
            "/",
            "document.body.dataset.live === 'yes' && document.querySelectorAll('.uplot').length === 8 && document.querySelector('#certificates td') && document.querySelector('[data-figure=requests]').textContent !== '–' && document.body.dataset.tops",
        ),
        (
            "requests",
            "/requests?status=4",
            "document.body.dataset.live === 'yes'",
        ),
        (
            "why",
            "/requests/why?url=/missing&header=Accept:%20text/html",
            "document.querySelectorAll('.steps tr').length > 3",
        ),
        (
            "cache",
            "/cache?url=http://localhost/page/1",
            "document.querySelector('.card') && document.querySelector('table')",
        ),
        ("entry", &entry, "document.querySelector('.preview pre')"),
        (
            "warm",
            "/cache/warm",
            "document.querySelector('textarea[name=sitemaps]')",
        ),
        (
            "configuration",
            "/configuration",
            "document.querySelector('.editor').value.includes('[console]') && document.body.dataset.checked !== undefined",
        ),
        (
            "proposal",
            "/configuration/wizard?kind=ban",
            "document.querySelector('textarea[name=addresses]')",
        ),
        (
            "settings",
            "/configuration/settings?table=site.0",
            "document.querySelectorAll('.setting').length > 40",
        ),
        (
            "file",
            "/configuration/settings",
            "document.querySelectorAll('.tables a').length > 8",
        ),
        (
            "wizards",
            "/configuration/wizards",
            "document.querySelectorAll('.wizards a').length === 10",
        ),
        (
            "site",
            "/configuration/wizard?kind=preset",
            "document.querySelector('select[name=preset]').options.length > 10",
        ),
        (
            "redirect",
            "/configuration/wizard?kind=redirect",
            "document.querySelector('select[name=site]')",
        ),
        (
            "logs",
            "/logs",
            "document.querySelector('.log a[href^=\"/messages#SK\"]')",
        ),
        ("messages", "/messages", "document.getElementById('SK0101')"),
        (
            "bans",
            "/bans",
            "document.querySelector('form[action=\"/bans/unban\"]')",
        ),
        (
            "upstreams",
            "/upstreams",
            "document.querySelector('form[action=\"/upstreams/member\"]')",
        ),
        (
            "redirects",
            "/redirects",
            "document.querySelectorAll('form[action=\"/redirects/change\"]').length === 2",
        ),
        ("passkeys", "/passkeys", "document.querySelector('h1')"),
        ("audit", "/audit", "document.querySelector('table')"),
    ];
    let reason = serde_json::json!({ "addresses": ["192.0.2.1"], "reason": "test" });
    let (status, answer) = fixture.api(&token, "POST", "/api/v1/bans/ban", &reason);
    assert_eq!(status, 200, "{answer}");
    let redirect = serde_json::json!({ "site": "*", "from": "/old/*", "to": "/new" });
    let (status, answer) = fixture.api(&token, "POST", "/api/v1/redirects/add", &redirect);
    assert_eq!(status, 200, "{answer}");
    browser.look(1440, false);
    browser.open(&link);
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    for (name, path, ready) in pages {
        for width in [390, 1440] {
            browser.look(width, false);
            browser.open(&format!("{base}{path}"));
            if !ready.is_empty() {
                browser.wait_for(ready);
            }
            if name == "proposal" {
                propose(&mut browser);
            }
            for is_dark in [false, true] {
                browser.look(width, is_dark);
                assert_fits(&mut browser, name, (width, is_dark));
            }
        }
    }
    // The other range, and a filter, in the page itself.
    browser.open(&format!("{base}/"));
    browser.wait_for("document.querySelectorAll('.uplot').length === 8");
    browser.evaluate("document.querySelector('[value=\"24h\"]').click()");
    browser.wait_for("document.querySelectorAll('.uplot').length === 8");
    assert_eq!(browser.problems(), [""; 0]);
}

#[test]
fn pages_of_owners_fit_every_screen_without_errors() {
    let fixture = Fixture::start("console-owner-screens", "");
    let add = ["user", "add", "eve", "--role", "owner", "--site", "*"];
    fixture.command(&add, "correct horse\n");
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/login"));
    browser.evaluate(
        "document.querySelector('[name=name]').value = 'eve'; \
         document.querySelector('[name=password]').value = 'correct horse'; \
         document.querySelector('form').requestSubmit()",
    );
    browser.wait_for("location.pathname === '/requests' && document.readyState === 'complete'");
    for screen in [(390, false), (390, true), (1440, false), (1440, true)] {
        browser.look(screen.0, screen.1);
        browser.open(&format!("{base}/site"));
        browser.wait_for("document.querySelectorAll('.setting').length === 6");
        assert_fits(&mut browser, "owner", screen);
        browser.open(&format!("{base}/redirects"));
        browser.wait_for("document.querySelector('input[name=site][type=hidden]')");
        assert_fits(&mut browser, "owner-redirects", screen);
        browser.open(&format!("{base}/cache/warm"));
        browser.wait_for("document.querySelector('textarea[name=sitemaps]')");
        assert_fits(&mut browser, "owner-warm", screen);
    }
    // The change, step by step.
    browser.open(&format!("{base}/site"));
    browser.evaluate(
        "document.querySelector('#v-listing').value = 'true'; \
         document.querySelector('form[action=\"/site/propose\"]').requestSubmit()",
    );
    browser.wait_for("document.querySelector('form[action=\"/site/apply\"]')");
    assert_fits(&mut browser, "owner-proposal", (1440, true));
    browser.evaluate("document.querySelector('form[action=\"/site/apply\"]').requestSubmit()");
    browser.wait_for("document.querySelector('form[action=\"/site/confirm\"]')");
    assert_fits(&mut browser, "owner-waiting", (1440, true));
    browser.evaluate("document.querySelector('form[action=\"/site/confirm\"]').requestSubmit()");
    browser.wait_for("document.querySelector('.notice.good')?.textContent.includes('kept')");
}
