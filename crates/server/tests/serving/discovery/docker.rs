//! Docker: containers with a label over the daemon's socket, listed again after events.

use super::fixture::{
    Asked, Shared, Stream, begin_stream, configuration, counts, named, refuse, send, send_line,
    source, unix_api, wait_for_error, wait_for_names, wait_for_recovery,
};
use crate::operate::{self, folder};
use saker_testkit::{Saker, wait_until};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// A daemon with its containers.
#[derive(Default)]
struct Daemon {
    containers: Vec<Value>,
    events: usize,
    lists: usize,
    is_away: bool,
}

fn container(name: &str, label: &str, address: SocketAddr) -> Value {
    json!({
        "Id": name, "Names": [format!("/{name}")], "State": "running",
        "Labels": { "saker.upstream": label },
        "Ports": [{ "PrivatePort": address.port(), "Type": "tcp" }],
        "NetworkSettings": { "Networks": { "web": { "IPAddress": "127.0.0.1" } } },
    })
}

fn answer(daemon: &Shared<Daemon>, asked: &Asked, stream: &mut dyn Stream) {
    if daemon.look(|daemon| daemon.is_away) {
        return refuse(stream, "500 Internal Server Error");
    }
    let path = asked.target.split('?').next().unwrap();
    let filters: Value = serde_json::from_str(&asked.parameter("filters").unwrap()).unwrap();
    assert_eq!(filters["label"], json!(["saker.upstream=shop"]));
    match path {
        "/containers/json" => {
            assert_eq!(filters["status"], json!(["running"]));
            assert_eq!(filters["health"], json!(["healthy", "none"]));
            daemon.change(|daemon| daemon.lists += 1);
            // As a proxy that does not filter: what is not meant is there, too.
            let containers = daemon.look(|daemon| daemon.containers.clone());
            send(stream, "", &containers.into());
        }
        "/events" => {
            assert_eq!(filters["type"], json!(["container"]));
            begin_stream(stream);
            let mut seen = daemon.look(|daemon| daemon.events);
            loop {
                let next = daemon.wait(Duration::from_secs(60), |daemon| {
                    (daemon.events > seen || daemon.is_away).then_some(daemon.events)
                });
                let is_away = daemon.look(|daemon| daemon.is_away);
                seen = next.unwrap_or(seen);
                let event = json!({ "Type": "container", "Action": "start" });
                if is_away || !send_line(stream, &event) {
                    return;
                }
            }
        }
        _ => refuse(stream, "404 Not Found"),
    }
}

fn start(name: &str, containers: Vec<Value>, keys: &str) -> (Arc<Shared<Daemon>>, Saker) {
    let daemon = Shared::new(Daemon {
        containers,
        ..Daemon::default()
    });
    let (own, dir) = (Arc::clone(&daemon), folder(name));
    unix_api(&dir.join("d.sock"), move |asked, stream| {
        answer(&own, asked, stream)
    });
    let keys = format!(
        "docker = \"{{dir}}/d.sock\"\nlabel = \"saker.upstream=shop\"\n\
         networks = [\"127.0.0.0/8\"]\n{keys}"
    );
    (daemon, operate::start_in(dir, &configuration(&keys)))
}

#[test]
fn containers_with_a_label_are_listed_after_each_event() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let containers = vec![container("web-1", "shop", a), container("db", "other", b)];
    let (daemon, saker) = start("discovery-docker", containers, "refresh = \"10m\"");
    wait_for_names(&saker, &["a"]);
    let became = |containers: Vec<Value>| {
        daemon.change(|daemon| {
            daemon.containers = containers;
            daemon.events += 1;
        });
    };
    let mut second = container("web-2", "shop", c);
    second["Labels"]["saker.weight"] = "3".into();
    became(vec![container("web-1", "shop", a), second]);
    wait_for_names(&saker, &["a", "c"]);
    let found = counts(&saker, 40);
    assert_eq!((found["a"], found["c"]), (10, 30), "{found:?}");
    // One whose port nothing says, and one in a network of its own, are left out.
    let mut portless = container("web-3", "shop", b);
    portless["Ports"] = json!([]);
    let mut twice = container("web-4", "shop", b);
    twice["NetworkSettings"]["Networks"]["db"] = json!({ "IPAddress": "127.0.0.2" });
    became(vec![portless, twice, container("web-1", "shop", a)]);
    wait_for_names(&saker, &["a"]);
    assert_eq!(source(&saker)["servers"], 1);
    became(vec![]);
    wait_for_names(&saker, &["503"]);
}

#[test]
fn a_daemon_that_is_away_changes_nothing() {
    let (a, b) = (named("a"), named("b"));
    let mut container_of_a = container("web-1", "shop", a);
    container_of_a["NetworkSettings"]["Networks"]["db"] = json!({ "IPAddress": "127.0.0.2" });
    let keys = "network = \"web\"\nrefresh = \"1s\"";
    let (daemon, saker) = start("discovery-docker-away", vec![container_of_a], keys);
    wait_for_names(&saker, &["a"]);
    daemon.change(|daemon| daemon.is_away = true);
    wait_until("the source fails for this reason", || {
        wait_for_error(&saker).contains("HTTP status 500")
    });
    assert_eq!(counts(&saker, 3)["a"], 3);
    daemon.change(|daemon| {
        daemon.is_away = false;
        daemon.containers = vec![container("web-2", "shop", b)];
    });
    wait_for_names(&saker, &["b"]);
    wait_for_recovery(&saker);
    // Without events, lists find what has changed.
    let before = daemon.look(|daemon| daemon.lists);
    daemon.change(|daemon| daemon.containers = vec![container("web-1", "shop", a)]);
    wait_for_names(&saker, &["a"]);
    wait_until("it was listed again", || {
        daemon.look(|daemon| daemon.lists > before)
    });
}
