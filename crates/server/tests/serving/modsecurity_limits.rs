//! Requests that ModSecurity's library would read otherwise than programs do, or would be busy with
//! for seconds: refused before it sees them. Packages: libmodsecurity3 and modsecurity-crs.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client;
use crate::http3_client::site::{backend, start_with};
use crate::operate;
use crate::operate::{folder, stdout};
use saker_testkit::{Client, Saker, require};
use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

const CRS: &str = "/usr/share/modsecurity-crs/owasp-crs.load";
const FORM: &str = "application/x-www-form-urlencoded";
const PARTS: &str = "multipart/form-data; boundary=x";
const RULES: &str = "SecRequestBodyAccess On\nSecRule ARGS \"@contains evil\" \"id:1,phase:2,deny\"\n\
    SecRule REQUEST_HEADERS:Content-Type \"@contains json\" \"id:2,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON\"\n";
const APACHE: &str = "ServerRoot {dir}\nListen {address}\nLoadModule mpm_event_module modules/mod_mpm_event.so\n\
    LoadModule authz_core_module modules/mod_authz_core.so\nLoadModule unique_id_module modules/mod_unique_id.so\n\
    LoadModule security2_module modules/mod_security2.so\nLoadModule proxy_module modules/mod_proxy.so\n\
    LoadModule proxy_http_module modules/mod_proxy_http.so\nServerName localhost\nErrorLog {dir}/error.log\nDocumentRoot {dir}/www\n\
    <Directory />\nRequire all granted\n</Directory>\n";

/// `/echo` enforces the rules, `/detect/echo` only logs.
fn native() -> String {
    let server = backend();
    format!(
        "modsecurity = true\nmodsecurity_rules = '''\n{RULES}'''\n[[site.route]]\npath = \"/detect/*\"\nmodsecurity = \"detect\"\n\
         respond = \"detected\"\n[[site.route]]\npath = \"/echo\"\nproxy = \"http://{server}\"\n"
    )
}

fn start_native() -> Saker {
    let site = format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\nworkers = 1\nerror_log = \"{{dir}}/error.log\"\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n{}",
        native()
    );
    operate::native(&site).start(folder("modsecurity-limits"))
}

fn start_apache() -> Saker {
    let text = format!(
        "{APACHE}SecRuleEngine On\n{RULES}ProxyPass /echo http://{}/echo\n",
        backend()
    );
    operate::apache(&text).start(folder("modsecurity-limits"))
}

fn post(saker: &Saker, target: &str, fields: &str, content: &str) -> u16 {
    let mut client = saker.connect().unwrap();
    client
        .send(format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n{content}",
            content.len()
        ))
        .unwrap();
    client.read_response().unwrap().status
}

fn types(types: &[&str]) -> String {
    let lines = types.iter().map(|one| format!("Content-Type: {one}\r\n"));
    lines.collect()
}

fn part(value: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{value}\r\n")
}

#[test]
fn content_of_two_types_is_refused() {
    let parts = part("ev&il=evil") + "--x--\r\n";
    for saker in [start_native(), start_apache()] {
        assert_eq!(post(&saker, "/echo", &types(&[PARTS]), &parts), 403);
        assert_eq!(
            post(
                &saker,
                "/echo",
                &types(&[PARTS]),
                &parts.replace("evil", "")
            ),
            200
        );
        for both in [
            [PARTS, FORM],
            [FORM, PARTS],
            [PARTS, PARTS],
            ["text/plain", PARTS],
        ] {
            let status = post(&saker, "/echo", &types(&both), &parts);
            assert_eq!(status, 400, "{both:?}");
        }
    }
}

#[test]
fn content_of_two_types_is_refused_over_every_protocol() {
    let saker = start_with(folder("modsecurity-limits"), "", &native());
    let address = saker.server.address().to_string();
    let mut http3 = http3_client::Client::default().connect(&address);
    let mut ask = |types: &[&str]| {
        let fields: Vec<(&str, &str)> = types.iter().map(|one| ("content-type", *one)).collect();
        http3.ask("POST", "/echo", &fields, b"a=b").status
    };
    assert_eq!((ask(&[FORM]), ask(&[PARTS, FORM])), (200, 400));
    for version in ["--http1.1", "--http2"] {
        let url = format!("https://localhost:{}/echo", saker.server.address().port());
        let output = Command::new(require("curl").unwrap())
            .args(["-sk", version, "-o", "/dev/null", "-w", "%{http_code}"])
            .args(["-d", "a=b", "-H", &format!("Content-Type: {PARTS}")])
            .args(["-H", &format!("Content-Type: {FORM}")])
            .arg(url)
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "400", "{version}");
    }
}

#[test]
fn arguments_have_a_limit() {
    let list = |count: usize| vec!["a"; count].join("&");
    let parts = |count: usize| part("1").repeat(count) + "--x--\r\n";
    let json = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let cookies = |count: usize| format!("Cookie: {}\r\n", vec!["a=b"; count].join("; "));
    for saker in [start_native(), start_apache()] {
        let form = types(&[FORM]);
        for (count, status) in [(1000, 200), (1001, 400), (8000, 400)] {
            assert_eq!(
                post(&saker, "/echo", &form, &list(count)),
                status,
                "{count}"
            );
        }
        for (count, status) in [(1000, 200), (1001, 400)] {
            let target = format!("/echo?{}", list(count));
            assert_eq!(post(&saker, &target, "", ""), status, "{count}");
            assert_eq!(
                post(&saker, "/echo", &cookies(count), ""),
                status,
                "{count}"
            );
            let json_type = types(&["application/json"]);
            assert_eq!(post(&saker, "/echo", &json_type, &json(count)), status);
        }
        for (count, status) in [(990, 200), (1001, 400)] {
            assert_eq!(
                post(&saker, "/echo", &types(&[PARTS]), &parts(count)),
                status,
                "{count}"
            );
        }
        // Many are looked at on another thread, each of them.
        for target in [
            format!("/echo?{}&b=evil", list(200)),
            format!("/echo?b=evil&{}", list(200)),
        ] {
            assert_eq!(post(&saker, &target, "", ""), 403);
        }
        let content = list(900) + "&b=evil";
        assert_eq!(post(&saker, "/echo", &form, &content), 403);
        // What no rule takes apart has no limit.
        let text = types(&["text/plain"]);
        assert_eq!(post(&saker, "/echo", &text, &list(8000)), 200);
    }
}

#[test]
fn detection_refuses_nothing() {
    let saker = start_native();
    let form = types(&[FORM]);
    let many = vec!["a"; 3000].join("&");
    assert_eq!(post(&saker, "/detect/a", &form, &many), 200);
    assert_eq!(post(&saker, &format!("/detect/a?{many}"), "", ""), 200);
    assert_eq!(post(&saker, "/detect/a", &types(&[PARTS, FORM]), "a"), 200);
}

#[test]
fn rules_say_how_many_arguments_they_look_at() {
    let text = format!(
        "{APACHE}SecRuleEngine On\n{RULES}SecArgumentsLimit 5\nSecArgumentSeparator ;\nProxyPass /echo http://{}/echo\n",
        backend()
    );
    let saker = operate::apache(&text).start(folder("modsecurity-limits"));
    for (content, status) in [
        ("a;b;c;d;e", 200),
        ("a;b;c;d;e;f", 400),
        ("a&b&c&d&e&f", 200),
    ] {
        let form = types(&[FORM]);
        assert_eq!(post(&saker, "/echo", &form, content), status, "{content}");
        let target = format!("/echo?{content}");
        assert_eq!(post(&saker, &target, "", ""), status, "{content}");
    }
}

/// Rule 941160 of the core rule set takes seconds for a text of some kilobytes.
#[test]
fn inspections_that_take_long_hold_up_nobody_else() {
    let site = format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\nworkers = 1\nerror_log = \"{{dir}}/error.log\"\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nmodsecurity = true\n\
         modsecurity_rules_file = \"{CRS}\"\nmodsecurity_rules = '''\n{RULES}'''\n\
         [[site.route]]\npath = \"/take\"\nrespond = \"taken\"\n"
    );
    let saker = operate::native(&site).start(folder("modsecurity-limits"));
    let content = format!("slow={}", "%3c".repeat(3000));
    let head = "POST /take HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0\r\nAccept: */*\r\nContent-Type";
    let head = format!(
        "{head}: {FORM}\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    let is_answered = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut client = saker.connect().unwrap();
        client.send(head + &content).unwrap();
        let is_answered = &is_answered;
        scope.spawn(move || {
            assert_eq!(client.read_response().unwrap().status, 200);
            is_answered.store(true, Relaxed);
        });
        // Small ones, and large ones of another client.
        assert_eq!(post(&saker, "/take?b=evil", "", ""), 403);
        let from = "127.0.0.2:0".parse().unwrap();
        let mut other = Client::connect_from(from, saker.server.address()).unwrap();
        let fields = [("User-Agent", "Mozilla/5.0"), ("Accept", "*/*")];
        let target = format!("/take?{}", vec!["a=b"; 150].join("&"));
        assert_eq!(other.request("GET", &target, &fields).unwrap().status, 200);
        assert!(!is_answered.load(Relaxed), "before the slow one");
    });
}
