//! Every page in a browser: light and dark, on a phone and on a wide screen, and with hostile text.

use crate::{
    console::browser::Browser,
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::folder,
    tls_site,
};
use saker_testkit::{Client, PATIENCE};
use std::path::Path;

/// Sum of all layout shifts so far.
const SHIFTS: &str = "new Promise((done) => { let sum = 0; new PerformanceObserver((list) => { \
     for (const entry of list.getEntries()) sum += entry.value; }).observe({ type: 'layout-shift', buffered: true }); \
     requestAnimationFrame(() => setTimeout(() => done(sum), 50)); })";

/// Controls without a name for screen readers, and texts whose contrast is below that of WCAG AA.
const INACCESSIBLE: &str = r#"(() => {
  const found = [];
  for (const control of document.querySelectorAll("input:not([type=hidden]), textarea, button, a")) {
    if (control.hidden) continue;
    const name = control.closest("label")?.innerText || control.innerText || control.getAttribute("aria-label");
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
            ..Keys::default()
        },
    );
    let mut client = fixture.saker.connect().unwrap();
    client.get("/page/1").unwrap();
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    let link = format!("{base}/link?token={}", fixture.link());
    let pages = [
        ("login", "/login", ""),
        (
            "now",
            "/",
            "document.body.dataset.live === 'yes' && document.querySelectorAll('.uplot').length === 8 && document.querySelector('#certificates td') && document.querySelector('[data-figure=requests]').textContent !== '–'",
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
        (
            "configuration",
            "/configuration",
            "document.querySelector('.editor').value.includes('[console]')",
        ),
        ("audit", "/audit", "document.querySelector('table')"),
    ];
    browser.look(1440, false);
    browser.open(&link);
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    for (name, path, ready) in pages {
        for (width, is_dark) in [(390, false), (390, true), (1440, false), (1440, true)] {
            browser.look(width, is_dark);
            browser.open(&format!("{base}{path}"));
            if !ready.is_empty() {
                browser.wait_for(ready);
            }
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
            assert_eq!(browser.problems(), [""; 0], "{place}");
            let shot = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("console-{place}.png"));
            browser.screenshot(&shot);
        }
    }
    // The other range, and a filter, in the page itself.
    browser.open(&format!("{base}/"));
    browser.wait_for("document.querySelectorAll('.uplot').length === 8");
    browser.evaluate("document.querySelector('[value=\"24h\"]').click()");
    browser.wait_for("document.querySelectorAll('.uplot').length === 8");
    assert_eq!(browser.problems(), [""; 0]);
}

/// Payloads of cross-site scripting, for HTML, attributes, URLs, scripts, styles, and templates.
const PAYLOADS: [&str; 50] = [
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<script src=//evil.example/x.js></script>",
    "<img src=x onerror=alert(1)>",
    "\"><img src=x onerror=alert(1)>",
    "<img/src=x/onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)>",
    "\"><svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x>",
    "<math><mi//xlink:href=\"javascript:alert(1)\">",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc=\"<script>alert(1)</script>\">",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "\" onmouseover=alert(1) x=\"",
    "' onmouseover=alert(1) x='",
    "\" autofocus onfocus=alert(1) x=\"",
    "` onmouseover=alert(1)",
    "\"-alert(1)-\"",
    "'-alert(1)-'",
    "';alert(1)//",
    "\\\";alert(1)//",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</td></tr></table><script>alert(1)</script>",
    "-->\"><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "#{alert(1)}",
    "<%= alert(1) %>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<form action=javascript:alert(1)><button>x",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<meta http-equiv=refresh content=0;url=javascript:alert(1)>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
];

#[test]
fn text_of_requests_runs_nowhere() {
    let fixture = Fixture::start("console-xss", "");
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    browser.open(&format!("{base}/requests"));
    browser.wait_for("document.body.dataset.live === 'yes'");
    let mut sent = 0;
    for batch in PAYLOADS.chunks(10) {
        for payload in batch {
            let in_target = payload.replace(' ', "%20");
            for (target, agent, referrer) in [
                (format!("/{in_target}"), "a", "b"),
                (format!("/?q={in_target}"), "a", "b"),
                ("/agent".to_owned(), *payload, "b"),
                ("/referrer".to_owned(), "a", *payload),
            ] {
                let head = format!(
                    "GET {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\nReferer: {referrer}\r\nConnection: close\r\n\r\n"
                );
                let mut client = Client::connect(fixture.saker.server.address()).unwrap();
                client.send(head).unwrap();
                client.read_to_close(PATIENCE).unwrap();
                sent += 1;
            }
        }
        browser.wait_for(&format!(
            "document.querySelectorAll('#tail tbody tr').length === {sent}"
        ));
    }
    assert_eq!(sent, 200);
    let check = "(() => { const all = [...document.querySelectorAll('#tail tbody *')]; \
         const strange = all.filter((one) => !['TR', 'TD', 'A'].includes(one.tagName) || [...one.attributes].some((a) => a.name.startsWith('on'))); \
         const links = [...document.querySelectorAll('#tail a')].filter((a) => a.pathname !== '/requests/why' || a.origin !== location.origin); \
         return strange.length + links.length + document.scripts.length - 1; })()";
    assert_eq!(browser.evaluate(check), 0);
    assert_eq!(browser.problems(), [""; 0]);
    // Each explanation shows the same text, in a page of its own.
    let links = browser
        .evaluate("[...document.querySelectorAll('#tail a')].map((a) => a.pathname + a.search)");
    let cookie = fixture.administrator();
    let mut shown = 0;
    for link in links.as_array().unwrap() {
        let page = fixture.page(link.as_str().unwrap(), &cookie).text();
        assert_eq!(page.matches("<script").count(), 1, "{link}");
        for tag in [
            "<img", "<svg", "<iframe", "<math", "<object", "<embed", "<base", "<video", "<audio",
        ] {
            assert!(!page.contains(tag), "{link}: {tag}");
        }
        shown += usize::from(page.contains("alert(1)") || page.contains("evil.example"));
    }
    assert!(shown >= 190, "{shown} pages show the text");
    for link in links.as_array().unwrap().iter().step_by(20) {
        browser.open(&format!("{base}{}", link.as_str().unwrap()));
    }
    let notes = browser.problems();
    // A request that cannot be explained is a 400, which browsers report.
    assert!(
        notes.iter().all(|note| note.contains("status of 400")),
        "{notes:?}"
    );
}
