//! Servers of upstreams and redirects that are changed in the running server: in force at once, for
//! those who may, kept over restarts, and shown by commands.

use crate::{
    console::fixture::{Fixture, Keys, text},
    console::live::Origin,
    operate::{self, folder, native, saker, stdout},
};
use saker_testkit::{Client, PATIENCE, Response, Saker, wait_until};
use serde_json::{Value, json};
use std::thread;

fn get(fixture: &Fixture, host: &str, target: &str) -> Response {
    let mut client = Client::connect(fixture.saker.server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.send(head).unwrap();
    client.read_response().unwrap()
}

fn location(fixture: &Fixture, host: &str, target: &str) -> Option<String> {
    get(fixture, host, target)
        .field("location")
        .map(str::to_owned)
}

fn which(fixture: &Fixture) -> String {
    let response = get(fixture, "localhost", "/app/");
    response.field("x-member").unwrap_or_default().to_owned()
}

fn members(fixture: &Fixture) -> Vec<String> {
    let mut all: Vec<String> = (0..6).map(|_| which(fixture)).collect();
    all.sort();
    all.dedup();
    all
}

fn upstream_site(servers: &[&Origin]) -> String {
    let servers: Vec<String> = servers
        .iter()
        .map(|one| format!("\"http://{}\"", one.address))
        .collect();
    format!(
        "[[site.route]]\npath = \"/app/*\"\nproxy = \"app\"\n[[upstream]]\nname = \"app\"\nservers = [{}]\n",
        servers.join(", ")
    )
}

#[test]
fn servers_are_added_and_removed_without_a_reload_and_stay() {
    let origin = |name: &str| Origin::start(&format!("X-Member: {name}\r\n"));
    let (a, b, c) = (origin("a"), origin("b"), origin("c"));
    let site = upstream_site(&[&a, &b]);
    let dir = folder("console-live-servers");
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let (token, operator) = (fixture.token("administrator"), fixture.token("operator"));
    let generation =
        || fixture.api(&token, "GET", "/api/v1/status", &Value::Null).1["generation"].clone();
    let before = generation();
    let add = json!({ "upstream": "app", "url": format!("http://{}", c.address) });
    let add_path = "/api/v1/upstreams/servers/add";
    assert_eq!(fixture.api(&operator, "POST", add_path, &add).0, 403);
    assert_eq!(members(&fixture), ["a", "b"]);
    let (status, answer) = fixture.api(&token, "POST", add_path, &add);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(members(&fixture), ["a", "b", "c"]);
    let gone = json!({ "upstream": "app", "member": format!("http://{}", a.address) });
    let remove_path = "/api/v1/upstreams/servers/remove";
    assert_eq!(fixture.api(&token, "POST", remove_path, &gone).0, 200);
    assert_eq!(members(&fixture), ["b", "c"]);
    assert_eq!(generation(), before, "nothing was reloaded");
    // Members that came later are drained like others.
    let drain =
        json!({ "upstream": "app", "member": format!("http://{}", b.address), "action": "drain" });
    let (status, answer) = fixture.api(&operator, "POST", "/api/v1/upstreams/member", &drain);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(members(&fixture), ["c"]);
    let (_, report) = fixture.api(&token, "GET", "/api/v1/upstreams", &Value::Null);
    let all = report["upstreams"][0]["members"].as_array().unwrap().len();
    assert_eq!(all, 2, "{report}");
    // The page does the same.
    let cookie = fixture.administrator();
    let form = format!("upstream=app&action=add&url=http://{}", a.address);
    let page = fixture.submit("/upstreams/server", &cookie, &form).text();
    assert!(page.contains("It is done."), "{page}");
    assert_eq!(members(&fixture), ["a", "c"]);
    // Over a reload, and over a restart.
    assert!(operate::reload(&fixture.saker).status.success());
    assert_eq!(members(&fixture), ["a", "c"]);
    let expanded = saker(
        ["config", "--expanded", "-c"]
            .map(String::from)
            .into_iter()
            .chain([fixture
                .saker
                .dir
                .join("saker.toml")
                .to_string_lossy()
                .into_owned()]),
    );
    let line = format!("# upstream app: server http://{} added", c.address);
    assert!(stdout(&expanded).contains(&line), "{}", stdout(&expanded));
    let Fixture {
        saker: Saker { mut server, dir },
        console,
    } = fixture;
    let address = server.address();
    server.kill().unwrap();
    let again = native(&text(console, &keys)).existing_file("saker.toml");
    let server = again.at(address).start_in(&dir);
    let fixture = Fixture {
        saker: Saker { server, dir },
        console,
    };
    wait_until("the console is back", || Client::connect(console).is_ok());
    assert_eq!(members(&fixture), ["a", "c"]);
    let (_, audit) = fixture.api(&token, "GET", "/api/v1/audit", &Value::Null);
    assert!(audit.to_string().contains("change upstream"), "{audit}");
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let a = Origin::start("X-Member: a\r\n");
    let fixture = Fixture::start("console-live-together", &upstream_site(&[&a]));
    let token = fixture.token("administrator");
    thread::scope(|scope| {
        for part in 0..4 {
            let (fixture, token) = (&fixture, &token);
            scope.spawn(move || {
                for number in 0..10 {
                    let port = 10_000 + part * 100 + number;
                    let url = format!("http://127.0.0.1:{port}");
                    let add = json!({ "upstream": "app", "url": url });
                    let path = "/api/v1/upstreams/servers/add";
                    assert_eq!(fixture.api(token, "POST", path, &add).0, 200);
                    let from = format!("/{part}/{number}");
                    let add = json!({ "site": "*", "from": from, "to": "/x" });
                    assert_eq!(
                        fixture.api(token, "POST", "/api/v1/redirects/add", &add).0,
                        200
                    );
                }
            });
        }
    });
    let (_, report) = fixture.api(&token, "GET", "/api/v1/upstreams", &Value::Null);
    let all = report["upstreams"][0]["members"].as_array().unwrap().len();
    assert_eq!(all, 41, "{report}");
    let (_, list) = fixture.api(&token, "GET", "/api/v1/redirects", &Value::Null);
    assert_eq!(list["redirects"].as_array().unwrap().len(), 40);
    let file = fixture.saker.dir.join("state/console/live.json");
    let kept: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(kept["servers"][0]["added"].as_array().unwrap().len(), 40);
}

#[test]
fn redirects_are_in_force_at_once_and_are_the_sites_own() {
    let dir = folder("console-live-redirects");
    dir.write("www/file.txt", "file\n").unwrap();
    let keys = Keys {
        site: "[[site]]\nnames = [\"b.example\"]\nroot = \"{dir}/www\"\n",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let token = fixture.token("administrator");
    let owner = fixture.owner_token("b.example");
    let api = |token: &str, path: &str, order: &Value| {
        let path = format!("/api/v1/redirects/{path}");
        fixture.api(token, "POST", &path, order).0
    };
    // From the route cache first.
    for _ in 0..3 {
        assert_eq!(get(&fixture, "a.example", "/file.txt").status, 200);
    }
    let file = json!({ "site": "*", "from": "/file.txt", "to": "/other.txt", "status": 308 });
    assert_eq!(api(&token, "add", &file), 200);
    wait_until("the redirect is in force", || {
        get(&fixture, "a.example", "/file.txt").status == 308
    });
    for target in ["/file.txt?x=1", "/%66ile.txt", "/./file.txt"] {
        let found = location(&fixture, "a.example", target);
        assert_eq!(found.as_deref(), Some("/other.txt"), "{target}");
    }
    assert_eq!(get(&fixture, "b.example", "/file.txt").status, 200);
    // Owners change their site alone.
    let own = json!({ "site": "b.example", "from": "/shop/*", "to": "https://shop.example/" });
    assert_eq!(api(&owner, "add", &own), 200);
    let found = location(&fixture, "b.example", "/shop/a/b");
    assert_eq!(found.as_deref(), Some("https://shop.example/"));
    for site in ["*", "a.example", "", "b.example ", "www.b.example"] {
        let foreign = json!({ "site": site, "from": "/x", "to": "/y" });
        assert_eq!(api(&owner, "add", &foreign), 403, "{site:?}");
    }
    assert_eq!(api(&owner, "remove", &file), 403);
    let (_, list) = fixture.api(&owner, "GET", "/api/v1/redirects", &Value::Null);
    assert_eq!(list["redirects"].as_array().unwrap().len(), 1, "{list}");
    assert!(!list.to_string().contains("other.txt"), "{list}");
    assert_eq!(api(&fixture.token("operator"), "add", &file), 403);
    // `saker explain` says why.
    let explained = saker([
        "explain",
        "http://a.example/file.txt",
        "-c",
        &fixture.saker.dir.join("saker.toml").to_string_lossy(),
    ]);
    let text = stdout(&explained);
    assert!(
        text.contains("redirected to /other.txt through the console"),
        "{text}"
    );
    // By its page; then the file is back.
    let cookie = fixture.administrator();
    let page = fixture.submit(
        "/redirects/change",
        &cookie,
        "action=remove&site=*&from=/file.txt",
    );
    assert!(
        page.text().contains("The redirect is removed."),
        "{}",
        page.text()
    );
    wait_until("the file is back", || {
        get(&fixture, "a.example", "/file.txt").status == 200
    });
}
