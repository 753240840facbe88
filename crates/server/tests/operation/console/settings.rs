//! Forms of settings and wizards, driven in a browser: proposed, applied, confirmed, and undone.

use crate::{
    console::browser::Browser,
    console::fixture::{Fixture, Keys},
    operate::folder,
    tls_site,
};
use saker_testkit::{saker::adjustable_clock, wait_until, wait_until_or};
use serde_json::{Value, json};
use std::fs;

const SITE: &str = "\
[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n\
[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n\
[[site]]\nnames = [\"second.example\"]\nroot = \"{dir}/www\"\nlisting = true # for a while\n";

fn start(name: &str) -> (Fixture, Browser, String) {
    let dir = folder(name);
    adjustable_clock(&dir).unwrap();
    tls_site::certificate(&dir, "site", "shop.example");
    fs::write(dir.join("users"), "ada:$2y$05$abcdefghijklmnopqrstuu\n").unwrap();
    let keys = Keys {
        site: SITE,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    (fixture, browser, base)
}

fn on_disk(fixture: &Fixture) -> String {
    fs::read_to_string(fixture.saker.dir.join("saker.toml")).unwrap()
}

/// Fills the form of the page in, submits it, and waits for the proposal.
fn submit(browser: &mut Browser, values: &Value) {
    browser.evaluate(&format!(
        "for (const [name, value] of Object.entries({values})) document.querySelector(`main form.wide [name='${{name}}']`).value = value; \
         document.querySelector('main form.wide').requestSubmit()"
    ));
    browser.wait_for(
        "document.querySelector('form[action=\"/configuration/apply\"]') && document.readyState === 'complete'",
    );
}

/// Lines that the proposal adds.
fn added(browser: &mut Browser) -> String {
    let lines = browser.evaluate(
        "[...document.querySelectorAll('.diff .added')].map((one) => one.textContent).join('')",
    );
    lines.as_str().unwrap().to_owned()
}

#[test]
fn every_wizard_makes_a_change_that_can_be_applied() {
    let (fixture, mut browser, base) = start("console-wizards");
    let before = on_disk(&fixture);
    let dir = |name: &str| fixture.saker.dir.join(name).display().to_string();
    let www = dir("www");
    let all = [
        (
            "static",
            json!({ "names": "a.example b.example", "root": www }),
            "+names = [\"a.example\", \"b.example\"]",
        ),
        (
            "php",
            json!({ "names": "p.example", "root": www }),
            "+php = \"auto\"",
        ),
        (
            "preset",
            json!({ "names": "w.example", "root": www, "preset": "static" }),
            "+preset = \"static\"",
        ),
        (
            "proxy",
            json!({ "names": "x.example", "url": "http://127.0.0.1:9" }),
            "+proxy = \"http://127.0.0.1:9\"",
        ),
        (
            "certificate",
            json!({ "site": "site.1", "certificate": dir("site.pem"), "key": dir("site.key") }),
            "+[site.tls]",
        ),
        (
            "redirect",
            json!({ "site": "site.1", "from": "/old", "to": "/new", "status": "308" }),
            "+status = 308",
        ),
        (
            "password",
            json!({ "site": "site.1", "realm": "Members", "user_file": dir("users") }),
            "+[site.auth]",
        ),
        (
            "limit",
            json!({ "site": "site.1", "requests_dynamic": "10/s" }),
            "+requests_dynamic = \"10/s\"",
        ),
        (
            "ban",
            json!({ "addresses": "192.0.2.1\n2001:db8::/32" }),
            "+deny = [\"192.0.2.1\", \"2001:db8::/32\"]",
        ),
        (
            "upstream",
            json!({ "name": "app", "servers": "http://127.0.0.1:9", "site": "site.1" }),
            "+proxy = \"app\"",
        ),
    ];
    for (kind, values, line) in &all {
        browser.open(&format!("{base}/configuration/wizards"));
        browser.evaluate(&format!(
            "document.querySelector(\"a[href*='kind={kind}&']\").click()"
        ));
        browser.wait_for(
            "location.pathname.endsWith('/wizard') && document.readyState === 'complete'",
        );
        submit(&mut browser, values);
        let added = added(&mut browser);
        assert!(added.contains(line), "{kind}: {added}");
        assert_eq!(browser.problems(), [""; 0], "{kind}");
    }
    assert_eq!(
        on_disk(&fixture),
        before,
        "nothing is written before it is applied"
    );
    // The last but four is applied and confirmed.
    let (_, redirect, _) = &all[5];
    browser.open(&format!("{base}/configuration/wizard?kind=redirect"));
    submit(&mut browser, redirect);
    browser.evaluate("document.querySelector('[name=confirm_time_s]').value = '300'; document.querySelector('form[action=\"/configuration/apply\"]').requestSubmit()");
    browser.wait_for("Number(document.querySelector('[data-countdown]').textContent) > 200");
    browser.evaluate(
        "document.querySelector('form[action=\"/configuration/confirm\"]').requestSubmit()",
    );
    browser.wait_for("document.querySelector('.notice.good').textContent.includes('kept')");
    fixture.saker.advance_clock(400).unwrap();
    wait_until("the redirect is there", || {
        let mut client = fixture.saker.connect().unwrap();
        let head = "GET /old HTTP/1.1\r\nHost: second.example\r\n\r\n";
        client.send(head).unwrap();
        client.read_response().unwrap().status == 308
    });
    assert!(on_disk(&fixture).contains("status = 308"));
}

#[test]
fn a_form_changes_a_setting_and_the_change_is_undone_without_a_confirmation() {
    let (fixture, mut browser, base) = start("console-settings");
    let before = on_disk(&fixture);
    browser.open(&format!("{base}/configuration/settings?table=site.1"));
    // Value, default, origin, and help.
    let setting =
        |name: &str| format!("document.getElementById('v-{name}').closest('.setting').textContent");
    let listing = browser.evaluate(&setting("listing"));
    let listing = listing.as_str().unwrap();
    assert!(
        listing.contains("set at") && listing.contains("Default: false"),
        "{listing}"
    );
    let hidden = browser.evaluate(&setting("hidden"));
    assert!(
        hidden.as_str().unwrap().contains("not set here"),
        "{hidden}"
    );
    submit(
        &mut browser,
        &json!({ "v.listing": "false", "v.ranges_max": "3", "v.index": "[\"start.html\"]" }),
    );
    let added = added(&mut browser);
    assert!(added.contains("+listing = false # for a while"), "{added}");
    assert!(
        added.contains("+ranges_max = 3") && added.contains("+index = [\"start.html\"]"),
        "{added}"
    );
    browser.evaluate("document.querySelector('[name=confirm_time_s]').value = '20'; document.querySelector('form[action=\"/configuration/apply\"]').requestSubmit()");
    browser.wait_for("document.querySelector('[data-countdown]')");
    assert!(on_disk(&fixture).contains("ranges_max = 3"));
    fixture.saker.advance_clock(21).unwrap();
    wait_until_or(
        || on_disk(&fixture) == before,
        || fixture.saker.server.stderr(),
    );
    // A value of another kind comes back with what was typed.
    browser.open(&format!("{base}/configuration/settings?table=site.1"));
    browser.evaluate("document.querySelector(\"[name='v.ranges_max']\").value = 'many'; document.querySelector('main form.wide').requestSubmit()");
    browser.wait_for("document.querySelector('.notice.wrong').textContent.includes('ranges_max')");
    assert_eq!(
        browser.evaluate("document.querySelector(\"[name='v.ranges_max']\").value"),
        "many"
    );
}

#[test]
fn the_api_has_the_same_forms_and_the_time_for_confirming_has_bounds() {
    let keys = Keys {
        console: "confirm_time = \"20s\"",
        ..Keys::default()
    };
    let dir = folder("console-settings-api");
    adjustable_clock(&dir).unwrap();
    let fixture = Fixture::start_in(dir, &keys);
    let token = fixture.token("administrator");
    let path = "/api/v1/configuration/settings";
    let (status, form) = fixture.api(&token, "GET", &format!("{path}?table=server"), &Value::Null);
    assert_eq!(status, 200, "{form}");
    let settings = form["settings"].as_array().unwrap();
    let workers = settings
        .iter()
        .find(|one| one["name"] == "workers")
        .unwrap();
    assert_eq!(
        (&workers["value"], &workers["origin"]),
        (&json!("1"), &json!("file")),
        "{workers}"
    );
    let change = |table: &str, values: Value| {
        let body = json!({ "file": form["file"], "table": table, "values": values });
        fixture.api(&token, "POST", path, &body)
    };
    for (table, values) in [
        ("nothing", json!({})),
        ("server", json!({ "nosuchkey": "1" })),
        ("server", json!({ "workers": 1 })),
        ("server", json!([])),
        ("../../etc", json!({})),
    ] {
        let (status, answer) = change(table, values);
        assert_eq!(status, 400, "{table}: {answer}");
    }
    let (_, wrong) = change("server", json!({ "workers": "0" }));
    assert_eq!(wrong["has_errors"], true, "{wrong}");
    let (status, good) = change("server", json!({ "log_level": "info" }));
    assert_eq!(
        (status, &good["has_errors"]),
        (200, &json!(false)),
        "{good}"
    );
    let apply = |seconds: Value| {
        let body = json!({ "file": good["file"], "text": good["text"], "base": good["base"], "confirm_time_s": seconds });
        fixture.api(&token, "POST", "/api/v1/configuration/apply", &body)
    };
    for seconds in [json!(9), json!(3601), json!(-1), json!("60")] {
        assert!(apply(seconds.clone()).0 >= 400, "{seconds}");
    }
    // Without a choice, the configuration's. The default is beyond this and the wait below.
    let (status, applied) = apply(Value::Null);
    assert_eq!(status, 200, "{applied}");
    fixture.saker.advance_clock(10).unwrap();
    assert!(on_disk(&fixture).contains("log_level = \"info\""));
    fixture.saker.advance_clock(11).unwrap();
    wait_until_or(
        || !on_disk(&fixture).contains("log_level"),
        || fixture.saker.server.stderr(),
    );
}
