//! Actions on the running server: bans, members of upstreams, PHP pools, certificates; and log
//! files.

use crate::{
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::folder,
    tls_site,
};
use saker_testkit::{Client, PATIENCE, Pebble, wait_until, wait_until_or};
use serde_json::{Value, json};
use std::fs;

fn status_of(fixture: &Fixture, target: &str) -> u16 {
    let mut client = Client::connect(fixture.saker.server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.send(head).unwrap();
    client.read_response().map_or(0, |response| response.status)
}

fn which(fixture: &Fixture) -> String {
    let mut client = fixture.saker.connect().unwrap();
    let response = client.get("/app/").unwrap();
    response.field("x-member").unwrap_or_default().to_owned()
}

#[test]
fn members_of_upstreams_are_drained_and_weighted_without_a_reload() {
    let (a, b) = (
        Origin::start("X-Member: a\r\n"),
        Origin::start("X-Member: b\r\n"),
    );
    let site = format!(
        "[[site.route]]\npath = \"/app/*\"\nproxy = \"app\"\n[[upstream]]\nname = \"app\"\nservers = [\"http://{}\", \"http://{}\"]\n",
        a.address, b.address
    );
    let fixture = Fixture::start("console-members", &site);
    let token = fixture.token("operator");
    let change = |member: &str, more: Value| {
        let mut order = json!({ "upstream": "app", "member": member });
        order
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        fixture.api(&token, "POST", "/api/v1/upstreams/member", &order)
    };
    let ten = || -> Vec<String> { (0..10).map(|_| which(&fixture)).collect() };
    let count = |all: &[String], name: &str| all.iter().filter(|one| *one == name).count();
    let generation =
        || fixture.api(&token, "GET", "/api/v1/status", &Value::Null).1["generation"].clone();
    let before = generation();
    assert_eq!(count(&ten(), "a"), 5);
    let member = format!("http://{}", a.address);
    let (status, answer) = change(&member, json!({ "action": "drain" }));
    assert_eq!((status, &answer["count"]), (200, &json!(1)), "{answer}");
    assert_eq!(count(&ten(), "b"), 10);
    let (_, report) = fixture.api(&token, "GET", "/api/v1/upstreams", &Value::Null);
    assert_eq!(
        report["upstreams"][0]["members"][0]["state"], "draining",
        "{report}"
    );
    change(&member, json!({ "action": "resume" }));
    change(&member, json!({ "action": "weight", "weight": 4 }));
    assert_eq!(count(&ten(), "a"), 8);
    change(&member, json!({ "action": "weight" }));
    assert_eq!(count(&ten(), "a"), 5);
    assert_eq!(change(&member, json!({ "action": "reconnect" })).0, 200);
    assert_eq!(generation(), before, "nothing was reloaded");
    // A reload keeps what an operator has drained.
    change(&member, json!({ "action": "drain" }));
    let administrator = fixture.token("administrator");
    let (status, answer) = fixture.api(&administrator, "POST", "/api/v1/reload", &json!({}));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(count(&ten(), "b"), 10);
    for (member, more) in [
        ("http://127.0.0.1:1", json!({ "action": "drain" })),
        (member.as_str(), json!({ "action": "stop" })),
        (member.as_str(), json!({ "action": "weight", "weight": 0 })),
        (
            member.as_str(),
            json!({ "action": "weight", "weight": "x" }),
        ),
    ] {
        assert!(change(member, more.clone()).0 >= 400, "{more}");
    }
    // The page does the same, and the audit log knows who did it.
    let cookie = fixture.administrator();
    let form = format!("upstream=app&member={member}&action=resume");
    let page = fixture.submit("/upstreams/member", &cookie, &form).text();
    assert!(
        page.contains("It is done.") && page.contains(&member),
        "{page}"
    );
    assert_eq!(count(&ten(), "a"), 5);
    let (_, audit) = fixture.api(&administrator, "GET", "/api/v1/audit", &Value::Null);
    assert_eq!(audit["entries"][0]["action"], "change upstream", "{audit}");
}

#[test]
fn clients_are_banned_and_bans_lifted() {
    let fixture = Fixture::start("console-bans", "");
    let token = fixture.token("operator");
    assert_eq!(status_of(&fixture, "/"), 200);
    let ban = json!({ "addresses": ["127.0.0.1"], "seconds": 600, "reason": "too many" });
    assert_eq!(fixture.api(&token, "POST", "/api/v1/bans/ban", &ban).0, 200);
    wait_until("the client is banned", || status_of(&fixture, "/") != 200);
    // The console is not behind it.
    let (_, listed) = fixture.api(&token, "GET", "/api/v1/bans", &Value::Null);
    assert_eq!(listed["bans"][0]["reason"], "too many", "{listed}");
    let cookie = fixture.administrator();
    let page = fixture
        .submit("/bans/unban", &cookie, "addresses=127.0.0.1")
        .text();
    assert!(page.contains("The bans are lifted."), "{page}");
    wait_until("the ban is lifted", || status_of(&fixture, "/") == 200);
    for order in [
        json!({}),
        json!({ "addresses": ["x"] }),
        json!({ "addresses": [] }),
    ] {
        for verb in ["ban", "unban"] {
            let path = format!("/api/v1/bans/{verb}");
            assert_eq!(
                fixture.api(&token, "POST", &path, &order).0,
                400,
                "{verb} {order}"
            );
        }
    }
}

#[test]
fn php_gets_a_successor() {
    let dir = folder("console-php");
    dir.write("www/pid.php", "<?php echo posix_getppid();")
        .unwrap();
    let keys = Keys {
        site: "php = \"auto\"\n[php]\nprogram = \"php-fpm\"\nprocesses = 1\n",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let token = fixture.token("operator");
    let master = || {
        let mut client = fixture.saker.connect().unwrap();
        client.set_timeout(PATIENCE).unwrap();
        let response = client.get("/pid.php").unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        response.text().to_owned()
    };
    let first = master();
    let (_, report) = fixture.api(&token, "GET", "/api/v1/upstreams", &Value::Null);
    let pool = report["php_pools"][0].as_str().unwrap().to_owned();
    let restart = |pool: &str| {
        fixture.api(
            &token,
            "POST",
            "/api/v1/php/restart",
            &json!({ "pool": pool }),
        )
    };
    assert_eq!(restart("nothing").0, 404);
    assert_eq!(restart(&pool).0, 200);
    // Each request in between is answered.
    wait_until_or(|| master() != first, || fixture.saker.server.stderr());
}

#[test]
fn a_certificate_is_renewed_at_once() {
    let pebble = Pebble::new().unwrap();
    let site = format!(
        "[[site]]\nnames = [\"a.example\"]\nroot = \"{{dir}}/www\"\ntls.automatic = true\n\
         [[listener]]\naddress = \"127.0.0.1:{}\"\n[[listener]]\naddress = \"127.0.0.1:{}\"\ntls = true\n\
         [acme]\ndirectory = \"{}\"\ndirectory_ca = \"{}\"\n",
        pebble.http_port,
        pebble.tls_port,
        pebble.directory(),
        pebble.directory_ca().display()
    );
    let fixture = Fixture::start("console-renew", &site);
    let path = fixture
        .saker
        .dir
        .join("state/acme/certificates/a.example.json");
    let issued = || -> u64 {
        fixture
            .saker
            .server
            .stderr()
            .matches("certificate was issued: a.example")
            .count() as u64
    };
    wait_until_or(
        || issued() == 1 && path.exists(),
        || fixture.saker.server.stderr(),
    );
    let token = fixture.token("operator");
    let renew = |name: &str| {
        fixture.api(
            &token,
            "POST",
            "/api/v1/certificates/renew",
            &json!({ "name": name }),
        )
    };
    for name in ["b.example", "", "*"] {
        assert_eq!(renew(name).0, 404, "{name}");
    }
    let (status, answer) = renew("a.example");
    assert_eq!(status, 200, "{answer}");
    wait_until_or(|| issued() == 2, || fixture.saker.server.stderr());
}

#[test]
fn log_files_are_those_of_the_configuration_and_no_others() {
    let keys = Keys {
        server: "error_log = \"{dir}/error.log\"",
        site: "access_log = \"{dir}/access.log\"",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-logs"), &keys);
    let token = fixture.token("operator");
    assert_eq!(status_of(&fixture, "/some-page"), 404);
    let (_, listed) = fixture.api(&token, "GET", "/api/v1/logs", &Value::Null);
    let files: Vec<&str> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["file"].as_str())
        .collect();
    assert_eq!(files.len(), 2, "{listed}");
    let read = |file: &str| {
        let encoded: String = file.bytes().map(|byte| format!("%{byte:02X}")).collect();
        fixture.api(
            &token,
            "GET",
            &format!("/api/v1/logs/text?file={encoded}"),
            &Value::Null,
        )
    };
    let has = |file: &str, part: &str| {
        let (status, answer) = read(file);
        assert_eq!(status, 200, "{answer}");
        answer["lines"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line.as_str().unwrap().contains(part))
    };
    wait_until("the lines are there", || {
        has(files[0], "SK0101") && has(files[1], "/some-page")
    });
    let state = fixture.saker.dir.join("state/console-users");
    assert!(state.exists());
    for file in [
        "/etc/passwd",
        "",
        "error.log",
        &format!("{}/../state/console-users", files[0]),
        &state.to_string_lossy(),
    ] {
        let (status, answer) = read(file);
        // A parameter without a value is none.
        let expected = if file.is_empty() { 400 } else { 404 };
        assert_eq!(status, expected, "{file}: {answer}");
    }
    // A pipe or a directory in place of a file holds nothing up.
    fs::remove_file(files[1]).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(files[1])
        .status()
        .unwrap();
    assert!(made.success());
    assert_eq!(read(files[1]).0, 404);
}

#[test]
fn private_keys_are_in_no_answer() {
    let dir = folder("console-keys");
    tls_site::certificate(&dir, "site", "localhost");
    let key = fs::read_to_string(dir.join("site.key")).unwrap();
    let secret = key.lines().nth(1).unwrap().to_owned();
    let keys = Keys {
        // Even where a log is put in the place of a key.
        site: "access_log = \"{dir}/site.log\"\n[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    fs::copy(
        fixture.saker.dir.join("site.key"),
        fixture.saker.dir.join("site.log"),
    )
    .unwrap();
    let (token, cookie) = (fixture.token("administrator"), fixture.administrator());
    let log = fixture.saker.dir.join("site.log").display().to_string();
    let (_, document) = fixture.api(&token, "GET", "/api/v1/openapi.json", &Value::Null);
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods["get"].is_null() || path.ends_with("/events") {
            continue;
        }
        for query in [
            "",
            "?file=site.key",
            "?table=site.0.tls",
            &format!("?file={log}"),
            "?url=/",
        ] {
            let answer = fixture.ask(
                "GET",
                &format!("{path}{query}"),
                &[format!("Authorization: Bearer {token}")],
                "",
            );
            assert!(!answer.text().contains(&secret), "{path}{query}");
            asked += 1;
        }
    }
    for path in [
        "/",
        "/configuration",
        "/configuration/settings?table=site.0.tls",
        "/upstreams",
        "/logs",
        &format!("/logs?file={log}"),
        "/audit",
    ] {
        assert!(
            !fixture.page(path, &cookie).text().contains(&secret),
            "{path}"
        );
        asked += 1;
    }
    assert!(asked > 60, "{asked}");
}
