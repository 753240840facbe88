//! Live views: figures, requests as they finish, and the bounds of event streams.

use crate::{
    console::fixture::{Fixture, Keys},
    operate::folder,
};
use saker_testkit::{Client, PATIENCE, wait_until, wait_until_or};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

/// A server that answers every request with 200, one line, and some fields.
pub struct Origin {
    pub address: SocketAddr,
}

impl Origin {
    pub fn start(fields: &str) -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n{fields}\r\nok\n"
        );
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Origin { address }
    }
}

/// An open event stream.
pub struct Events {
    client: Client,
    text: String,
}

impl Events {
    pub fn open(fixture: &Fixture, token: &str, path: &str) -> Events {
        let mut client = Client::connect(fixture.console).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            fixture.console
        );
        client.send(head).unwrap();
        Events {
            client,
            text: String::new(),
        }
    }

    /// Reads until the text is there.
    pub fn wait_for(&mut self, text: &str) {
        while !self.text.contains(text) {
            match self.client.read_bytes(1) {
                Ok(byte) => self.text.push_str(&String::from_utf8_lossy(&byte)),
                Err(error) => panic!("{error}: no {text:?} in {}", self.text),
            }
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

#[test]
fn figures_follow_the_traffic() {
    let fixture = Fixture::start("console-figures", "");
    let token = fixture.token("viewer");
    let mut events = Events::open(&fixture, &token, "/api/v1/live/events");
    events.wait_for("text/event-stream");
    events.wait_for("\"uptime_s\":");
    let mut client = fixture.saker.connect().unwrap();
    let live = || {
        fixture
            .api(&token, "GET", "/api/v1/live?range=15m", &Value::Null)
            .1
    };
    let has = |live: &Value, series: &str| {
        let values = live["series"][series].as_array().unwrap();
        values
            .iter()
            .any(|value| value.as_f64().is_some_and(|value| value > 0.0))
    };
    wait_until_or(
        || {
            client.get("/").unwrap();
            client.get("/missing").unwrap();
            let live = live();
            [
                "requests",
                "http1",
                "status_2xx",
                "status_4xx",
                "memory_bytes",
                "bytes_out",
            ]
            .iter()
            .all(|series| has(&live, series))
                && has(&live, "latency_p99_ms")
        },
        || live().to_string(),
    );
    assert_eq!(
        fixture
            .api(&token, "GET", "/api/v1/live?range=1y", &Value::Null)
            .0,
        400
    );
    assert_eq!(
        fixture
            .api(&token, "GET", "/api/v1/live?range=24h", &Value::Null)
            .0,
        200
    );
}

#[test]
fn requests_appear_as_they_finish_and_are_filtered() {
    let fixture = Fixture::start("console-tail", "");
    let token = fixture.token("viewer");
    let mut all = Events::open(&fixture, &token, "/api/v1/requests/events");
    let mut missing = Events::open(
        &fixture,
        &token,
        "/api/v1/requests/events?status=404&path=gone",
    );
    // The loggers run from the first event on, or a moment later.
    all.wait_for("\"missed\":0");
    missing.wait_for("\"missed\":0");
    let mut client = fixture.saker.connect().unwrap();
    for target in ["/?first=1", "/also-missing", "/gone?x=%3Cscript%3E"] {
        client.get(target).unwrap();
    }
    all.wait_for("/gone?x=%3Cscript%3E");
    missing.wait_for("/gone?x=%3Cscript%3E");
    assert!(all.text().contains("/also-missing"), "{}", all.text());
    assert!(
        !missing.text().contains("/also-missing") && !missing.text().contains("first"),
        "{}",
        missing.text()
    );
    // An administrator's browser and a tool ask why.
    let (status, why) = fixture.api(
        &token,
        "GET",
        "/api/v1/explain?url=/gone&method=HEAD",
        &Value::Null,
    );
    assert!(
        status == 200 && why["steps"].to_string().contains("404"),
        "{why}"
    );
}

#[test]
fn event_streams_are_bounded_and_end_with_their_credentials() {
    let fixture = Fixture::start("console-streams", "");
    let token = fixture.token("viewer");
    let mut open: Vec<Events> = (0..16)
        .map(|_| Events::open(&fixture, &token, "/api/v1/live/events"))
        .collect();
    for events in &mut open {
        events.wait_for("\r\n\r\n");
    }
    let (status, answer) = fixture.api(&token, "GET", "/api/v1/live/events", &Value::Null);
    assert!(
        status == 503 && answer["error"].as_str().unwrap().contains("too many"),
        "{answer}"
    );
    // Pages still answer.
    assert_eq!(
        fixture.api(&token, "GET", "/api/v1/status", &Value::Null).0,
        200
    );
    drop(open.split_off(1));
    wait_until_or(
        || {
            let mut next = Events::open(&fixture, &token, "/api/v1/requests/events");
            next.wait_for("\r\n");
            next.text().starts_with("HTTP/1.1 200")
        },
        || "no place came free".into(),
    );
    fixture.command(&["token", "remove", "viewer"], "");
    open[0]
        .client
        .read_to_close(PATIENCE)
        .expect("the token is gone");
}

#[test]
fn the_most_frequent_are_counted_while_they_are_asked_for() {
    let fixture = Fixture::start("console-tops", "");
    let token = fixture.token("viewer");
    let tops = || fixture.api(&token, "GET", "/api/v1/top", &Value::Null).1;
    assert_eq!(tops()["ok"], true);
    let mut client = fixture.saker.connect().unwrap();
    let mut ask = || {
        for _ in 0..3 {
            client.get("/?x=1").unwrap();
        }
        client.get("/missing?y").unwrap();
    };
    // Workers hear of it a moment later.
    wait_until_or(
        || {
            ask();
            tops()["requests"].as_u64().is_some_and(|count| count >= 8)
        },
        || tops().to_string(),
    );
    let found = tops();
    let url = found["urls"][0]["text"].as_str().unwrap();
    assert!(url.ends_with('/') && !url.contains('x'), "{found}");
    let error = found["errors"][0]["text"].as_str().unwrap();
    assert!(
        error.starts_with("404 ") && error.ends_with("/missing"),
        "{found}"
    );
    assert_eq!(found["clients"][0]["text"], "127.0.0.1", "{found}");
}

/// Without a field that tells clients what the cache did.
#[test]
fn outcomes_of_the_cache_are_counted_by_path_with_causes() {
    let origin = Origin::start("Cache-Control: no-store\r\nSet-Cookie: session=secret\r\n");
    let cached = Origin::start("Cache-Control: public, max-age=600\r\n");
    let site = format!(
        "cache = true\n[[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\n\
         [[site.route]]\npath = \"/page/*\"\nproxy = \"http://{}\"\n",
        origin.address, cached.address
    );
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-causes"), &keys);
    let token = fixture.token("viewer");
    let tops = || fixture.api(&token, "GET", "/api/v1/top", &Value::Null).1;
    assert_eq!(tops()["passes"], json!([]));
    let mut client = fixture.saker.connect().unwrap();
    let mut get = |target: &str| assert_eq!(client.get(target).unwrap().status, 200, "{target}");
    get("/page/1");
    wait_until("the page is a hit", || {
        get("/page/1");
        tops()["prefixes"][0]["hits"].as_u64() > Some(0)
    });
    get("/app/login?password=secret");
    let found = tops();
    let prefixes = found["prefixes"].as_array().unwrap();
    let of = |name: &str| {
        let mut own = prefixes
            .iter()
            .filter(|one| one["text"].as_str().unwrap().ends_with(name));
        own.next().unwrap_or_else(|| panic!("no {name}: {found}"))
    };
    assert_eq!(of("/app/")["passes"], 1, "{found}");
    assert_eq!(of("/page/")["passes"], 0, "{found}");
    let pass = &found["passes"][0];
    assert!(
        pass["text"].as_str().unwrap().ends_with("/app/: no-store"),
        "{found}"
    );
    assert_eq!(
        pass["fields"],
        json!(["response cache-control: no-store"]),
        "{found}"
    );
    // File, line, and column of the route.
    let rule = pass["rule"].as_str().unwrap();
    let mut parts = rule.rsplitn(3, ':').skip(1);
    let line: usize = parts.next().unwrap().parse().unwrap();
    let text = std::fs::read_to_string(parts.next().unwrap()).unwrap();
    assert_eq!(text.lines().nth(line - 1), Some("[[site.route]]"), "{rule}");
    assert!(
        pass["help"].as_str().unwrap().contains("max-age"),
        "{found}"
    );
    assert!(
        pass["cause"].as_str().unwrap().contains("no-store"),
        "{found}"
    );
    assert!(!found["passes"].to_string().contains("secret"), "{found}");
}
