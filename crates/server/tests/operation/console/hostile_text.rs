//! Text of clients that is hostile: two hundred payloads of cross-site scripting, on each page that
//! shows log lines, URLs, header fields, or user agents.

use crate::{
    console::browser::Browser,
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::folder,
    tls_site,
};
use saker_testkit::{Client, PATIENCE};
use serde_json::json;

/// A payload per line: for HTML, attributes, URLs, scripts, styles, and templates.
const PAYLOADS: &str = include_str!("payloads.txt");

/// Defines `strange(document)`: elements and attributes that no page of the console has.
const STRANGE: &str = r#"window.strange = (page) => [...page.querySelectorAll("*")].filter((one) => {
  const name = one.tagName.toUpperCase();
  if (["IMG", "SVG", "IFRAME", "FRAME", "FRAMESET", "MATH", "OBJECT", "EMBED", "BASE", "VIDEO", "AUDIO", "STYLE", "TEMPLATE",
       "MARQUEE", "DIALOG", "APPLET", "PORTAL", "AREA", "X", "SLOT", "XMP", "PLAINTEXT", "NOSCRIPT"].includes(name)) return true;
  if (name === "SCRIPT" && !(one.getAttribute("src") ?? "").startsWith("/assets/")) return true;
  if (name === "LINK" && !(one.getAttribute("href") ?? "").startsWith("/assets/")) return true;
  if (name === "META" && one.httpEquiv) return true;
  return [...one.attributes].some((own) => own.name.startsWith("on") || own.name === "style" || own.name === "contenteditable"
    || (["href", "src", "action", "formaction", "ping", "background", "xlink:href"].includes(own.name)
        && !/^(\/(?![/\\])|#|$)/.test(own.value)));
}).map((one) => one.outerHTML.slice(0, 200)); 1"#;

fn start() -> (Fixture, Browser, String) {
    let origin = Origin::start("Cache-Control: public, max-age=600\r\n");
    let site = format!(
        "cache = true\naccess_log = {{ path = \"{{dir}}/access.log\", format = \"combined\" }}\n[[site.route]]\npath = \"/page/*\"\nproxy = \"http://{}\"\n",
        origin.address
    );
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-xss"), &keys);
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    (fixture, browser, base)
}

/// Nothing strange is in the page that is open.
fn assert_plain(browser: &mut Browser, place: &str) {
    browser.evaluate(STRANGE);
    let found = browser.evaluate("strange(document)");
    assert_eq!(found, json!([]), "{place}");
}

fn send(fixture: &Fixture, target: &str, agent: &str, referrer: &str) {
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\nReferer: {referrer}\r\nConnection: close\r\n\r\n"
    );
    let mut client = Client::connect(fixture.saker.server.address()).unwrap();
    client.send(head).unwrap();
    client.read_to_close(PATIENCE).unwrap();
}

#[test]
fn text_of_requests_runs_nowhere() {
    let payloads: Vec<&str> = PAYLOADS.lines().collect();
    assert_eq!(payloads.len(), 200);
    let (fixture, mut browser, base) = start();
    browser.open(&format!("{base}/requests"));
    browser.wait_for("document.body.dataset.live === 'yes'");
    for (at, payload) in payloads.iter().enumerate() {
        let in_target = payload.replace(' ', "%20");
        let before = browser.evaluate("document.querySelectorAll('#tail tbody tr').length");
        send(&fixture, &format!("/{in_target}"), "a", "b");
        send(&fixture, &format!("/page/?q={in_target}"), payload, payload);
        // No more lines than the page keeps.
        if at % 50 == 49 {
            let shown = "document.querySelectorAll('#tail tbody tr').length >= 100";
            browser.wait_for(shown);
            assert!(before.as_u64().unwrap() < 200);
            assert_plain(&mut browser, "requests");
            let links = browser.evaluate(
                "[...document.querySelectorAll('#tail a')].map((a) => a.pathname + a.search)",
            );
            explanations_are_plain(&mut browser, &links);
            browser.open(&format!("{base}/requests"));
            browser.wait_for("document.body.dataset.live === 'yes'");
        }
    }
    let problems = browser.problems();
    // A request that cannot be explained is a 400, which browsers report.
    let is_status = |note: &String| note.contains("status of 400");
    assert!(problems.iter().all(is_status), "{problems:?}");
    // The most frequent of everything, as if all payloads were.
    browser.open(&format!("{base}/"));
    browser.wait_for("document.body.dataset.tops");
    let rows = json!(
        payloads
            .iter()
            .map(|text| json!({ "text": text, "count": 1, "hits": 1, "misses": 0, "passes": 0, "cause": text, "fields": [text], "rule": text, "help": text }))
            .collect::<Vec<_>>()
    );
    browser.evaluate(&format!(
        "window.fetch = async () => ({{ ok: true, json: async () => {{ const rows = {rows}; \
         return {{ requests: 200, urls: rows, clients: rows, user_agents: rows, errors: rows, prefixes: rows, passes: rows }}; }} }}); 1"
    ));
    browser.wait_for("document.querySelectorAll('[data-top] tbody tr').length === 1200");
    browser.evaluate(STRANGE);
    // The graphs have styles of their own.
    let found = browser.evaluate("[...document.querySelectorAll('[data-top]')].flatMap(strange)");
    assert_eq!(found, json!([]), "tops");
    // The access log has all of them.
    browser.open(&format!("{base}/logs"));
    browser.wait_for("document.querySelectorAll('.log span').length >= 400");
    assert_plain(&mut browser, "logs");
    browser.open(&format!("{base}/logs?part=evil.example"));
    browser.wait_for("document.querySelectorAll('.log span').length > 10");
    assert_plain(&mut browser, "logs");
    assert_eq!(browser.problems(), [""; 0]);
}

/// The content of cached pages, and the editor with its diagnostics and candidates.
#[test]
fn content_and_configurations_run_nowhere() {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let origin = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let count = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            let number = head
                .split(['/', ' '])
                .find_map(|word| word.parse::<usize>().ok());
            let body = PAYLOADS
                .lines()
                .nth(number.unwrap_or_default())
                .unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Hostile: {body}\r\nCache-Control: public, max-age=600\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let site =
        format!("cache = true\n[[site.route]]\npath = \"/page/*\"\nproxy = \"http://{origin}\"\n");
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-xss-content"), &keys);
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    let token = fixture.token("administrator");
    let payloads: Vec<&str> = PAYLOADS.lines().collect();
    for at in 0..payloads.len() {
        send(&fixture, &format!("/page/{at}"), "a", "b");
    }
    let mut found = serde_json::Value::Null;
    saker_testkit::wait_until("the pages are cached", || {
        found = fixture
            .api(
                &token,
                "GET",
                "/api/v1/cache/entries",
                &serde_json::Value::Null,
            )
            .1;
        found["entries"]
            .as_array()
            .is_some_and(|all| all.len() >= payloads.len() - 5)
    });
    let entries = found["entries"].as_array().unwrap().iter();
    let links: Vec<String> = entries
        .map(|one| format!("/cache/entry?entry={}", one["entry"].as_str().unwrap()))
        .collect();
    for part in links.chunks(100) {
        explanations_are_plain(&mut browser, &json!(part));
    }
    // In the live page nothing runs either.
    browser.open(&format!("{base}{}", links[0]));
    assert_plain(&mut browser, "entry");
    // All payloads at once as a configuration: comments, keys, and values.
    browser.open(&format!("{base}/configuration"));
    browser.wait_for("document.body.dataset.checked !== undefined");
    let lines: Vec<String> = payloads
        .iter()
        .map(|payload| {
            format!(
                "{payload}\n# {payload}\n[[site]]\nroot = '{}'\n",
                payload.replace('\'', "")
            )
        })
        .collect();
    // At once: as typed text, so many lines take a browser a while.
    browser.evaluate(&format!(
        "text.value = {}; text.dispatchEvent(new InputEvent('input')); 1",
        json!(lines.concat())
    ));
    browser.wait_for("document.body.dataset.checked > 0");
    browser.evaluate(STRANGE);
    // Positions of the list of candidates are the script's own.
    let found = browser.evaluate("strange(document.querySelector('.diagnostics')).concat(strange(document.querySelector('.marks')))");
    assert_eq!(found, json!([]), "diagnostics");
    let rows = json!(
        payloads
            .iter()
            .map(|text| json!({ "text": text, "detail": text }))
            .collect::<Vec<_>>()
    );
    browser.evaluate(&format!(
        "window.fetch = async () => ({{ ok: true, json: async () => ({{ typed: 0, candidates: {rows} }}) }}); \
         text.dispatchEvent(new KeyboardEvent('keydown', {{ key: ' ', ctrlKey: true, bubbles: true, cancelable: true }})); 1"
    ));
    browser.wait_for("document.querySelectorAll('#candidates li').length === 200");
    let found = browser.evaluate("strange(document.querySelector('#candidates'))");
    assert_eq!(found, json!([]), "candidates");
    assert_eq!(browser.problems(), [""; 0]);
}

/// Reads the pages within the one that is open, which may do so.
fn explanations_are_plain(browser: &mut Browser, links: &serde_json::Value) {
    browser.evaluate(STRANGE);
    browser.evaluate(&format!("window.links = {links}; 1"));
    let found = browser.evaluate(
        "(async () => { const found = []; let shown = 0; for (const link of links) { \
         const page = await (await fetch(link)).text(); shown += page.includes('</html>'); \
         found.push(...strange(new DOMParser().parseFromString(page, 'text/html'))); } \
         return [shown === links.length && shown > 90, ...found]; })()",
    );
    assert_eq!(found, json!([true]));
}

#[test]
fn text_of_operators_and_the_cache_runs_nowhere() {
    let (fixture, mut browser, base) = start();
    let token = fixture.token("administrator");
    let payloads: Vec<&str> = PAYLOADS.lines().collect();
    let encoded =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    for (at, payload) in payloads.iter().enumerate() {
        let ban = json!({ "addresses": [format!("198.51.100.{at}")], "reason": payload });
        let (status, answer) = fixture.api(&token, "POST", "/api/v1/bans/ban", &ban);
        assert_eq!(status, 200, "{answer}");
    }
    let mut redirects = 0;
    for payload in &payloads {
        let from = format!("/{}", payload.replace(['*', '?', '#'], ""));
        let redirect = json!({ "site": "*", "from": from, "to": "/new" });
        let (status, _) = fixture.api(&token, "POST", "/api/v1/redirects/add", &redirect);
        redirects += usize::from(status == 200);
    }
    assert!(redirects > 150, "{redirects}");
    browser.open(&format!("{base}/redirects"));
    browser.wait_for("document.querySelectorAll('tbody tr').length >= 150");
    assert_plain(&mut browser, "redirects");
    for path in ["/bans", "/audit"] {
        browser.open(&format!("{base}{path}"));
        browser.wait_for("document.querySelectorAll('tbody tr').length >= 200");
        assert_plain(&mut browser, path);
    }
    // Pages of the cache by their URLs; forms that show again what was typed.
    browser.open(&format!("{base}/cache"));
    let mut links = Vec::new();
    for payload in &payloads {
        let page = format!("/page/{}", payload.replace(' ', "%20"));
        send(&fixture, &page, "a", "b");
        let one = encoded(payload);
        links.push(format!("/cache?url={}", encoded(&page)));
        links.push(format!("/cache?tag={one}&site={one}"));
        links.push(format!(
            "/requests?host={one}&path={one}&client={one}&cache={one}"
        ));
        links.push(format!("/requests/why?url={one}&method={one}&header={one}"));
        links.push(format!("/logs?file={one}&part={one}"));
        links.push(format!("/configuration?file={one}&version={one}"));
        links.push(format!("/configuration/settings?file={one}&table={one}"));
        links.push(format!("/configuration/settings?table={one}"));
        links.push(format!("/configuration/wizard?kind={one}"));
        links.push(format!(
            "/configuration/wizard?kind=redirect&from={one}&to={one}&site={one}"
        ));
        links.push(format!("/link?token={one}"));
    }
    for payload in &payloads {
        let one = encoded(payload);
        links.push(format!("/cache/entry?entry={one}"));
        links.push(format!("/cache/warm?job={one}"));
    }
    // The browser answers for some at a time: each answer has its time.
    for part in links.chunks(200) {
        explanations_are_plain(&mut browser, &json!(part));
    }
}

/// Answers of an upstream to its test, in the place of a status line and within one; names that no
/// upstream, pool, or certificate has, which the page and the audit log show again; and the names
/// of a certificate.
#[test]
fn text_of_servers_and_certificates_runs_nowhere() {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for (at, mut stream) in listener.incoming().flatten().enumerate() {
            let payload = PAYLOADS.lines().nth(at / 2 % 200).unwrap_or_default();
            let answer = match at % 2 {
                0 => format!("{payload}\r\n\r\n"),
                _ => format!(
                    "HTTP/1.1 500 {payload}\r\nX-Hostile: {payload}\r\nContent-Length: 0\r\n\r\n"
                ),
            };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let dir = folder("console-xss-servers");
    let payloads: Vec<&str> = PAYLOADS.lines().collect();
    tls_site::certificate_with_names(&dir, "site", &payloads);
    let site = format!(
        "[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = \"app\"\n[[upstream]]\nname = \"app\"\nservers = [\"{server}\"]\n"
    );
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let cookie = fixture.administrator();
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    let encoded =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let mut pages = Vec::new();
    let mut submit = |path: &str, form: &str| {
        let page = fixture.submit(path, &cookie, form);
        assert!(page.text().contains("</html>"), "{path} {form}");
        pages.push(page.text().to_owned());
    };
    for _ in 0..2 * payloads.len() {
        submit("/upstreams/test", &format!("upstream=app&member={server}"));
    }
    for payload in &payloads {
        let one = encoded(payload);
        submit("/upstreams/test", &format!("upstream={one}&member={one}"));
        submit("/upstreams/php", &format!("pool={one}"));
        submit("/upstreams/renew", &format!("name={one}"));
        let form = format!("upstream=app&url={one}&action=add");
        submit("/upstreams/server", &form);
        submit("/cache/purge", &format!("expression={one}&tag={one}"));
    }
    browser.open(&format!("{base}/upstreams"));
    browser.evaluate(STRANGE);
    for part in pages.chunks(100) {
        let found = browser.evaluate(&format!(
            "{}.flatMap((page) => strange(new DOMParser().parseFromString(page, 'text/html')))",
            json!(part)
        ));
        assert_eq!(found, json!([]));
    }
    for path in ["/upstreams", "/audit", "/"] {
        browser.open(&format!("{base}{path}"));
        match path {
            "/" => browser.wait_for("document.querySelector('#certificates tbody tr')"),
            "/audit" => browser.wait_for("document.querySelectorAll('tbody tr').length >= 200"),
            _ => {}
        }
        browser.evaluate(STRANGE);
        // The graphs have styles of their own.
        let found = browser.evaluate(
            "(() => { const parts = [...document.querySelectorAll('.panels, main > .card, main > .scroll')]; \
             return [parts.length > 0, ...parts.flatMap(strange)]; })()",
        );
        assert_eq!(found, json!([true]), "{path}");
    }
    assert_eq!(browser.problems(), [""; 0]);
}
