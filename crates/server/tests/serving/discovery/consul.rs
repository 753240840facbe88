//! Consul: blocking queries with an index, tokens, and an agent that misbehaves.

use super::fixture::{
    Asked, Shared, Stream, api, configuration, counts, named, refuse, send, source, wait_for_error,
    wait_for_names, wait_for_recovery,
};
use crate::operate::{self, folder};
use saker_testkit::{Saker, wait_until};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// Misbehavior of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    Failing,
    Redirecting(SocketAddr),
    TooLong,
    NotJson,
}

/// An agent with one service.
struct Agent {
    index: u64,
    instances: Value,
    mood: Mood,
    /// Indexes of the queries.
    asked: Vec<Option<u64>>,
}

fn instance(address: SocketAddr, weight: u64) -> Value {
    json!({
        "Node": { "Node": "n1", "Address": "127.0.0.1" },
        "Service": {
            "Service": "web", "Address": "", "Port": address.port(),
            "Weights": { "Passing": weight, "Warning": 1 },
        },
        "Checks": [{ "Status": "passing" }],
    })
}

fn answer(agent: &Shared<Agent>, asked: &Asked, stream: &mut dyn Stream) {
    let path = asked.target.split('?').next().unwrap();
    let is_right = path == "/v1/health/service/web"
        && asked.parameter("passing").as_deref() == Some("1")
        && asked.parameter("tag").as_deref() == Some("blue")
        && asked.parameter("dc").as_deref() == Some("dc2")
        && asked.has("X-Consul-Token: s3cret");
    if !is_right {
        return refuse(stream, "403 Forbidden");
    }
    let index = asked.parameter("index").map(|index| index.parse().unwrap());
    agent.change(|agent| agent.asked.push(index));
    if let Some(index) = index {
        assert!(asked.parameter("wait").unwrap().ends_with('s'));
        agent.wait(Duration::from_secs(2), |agent| {
            (agent.index != index || agent.mood != Mood::Well).then_some(())
        });
    }
    let (index, instances, mood) =
        agent.look(|agent| (agent.index, agent.instances.clone(), agent.mood));
    match mood {
        Mood::Well => {
            let field = format!("X-Consul-Index: {index}\r\n");
            send(stream, &field, &instances);
        }
        Mood::Failing => refuse(stream, "500 Internal Server Error"),
        Mood::Redirecting(to) => {
            let location = format!("302 Found\r\nLocation: http://{to}{}", asked.target);
            refuse(stream, &location);
        }
        Mood::TooLong => {
            let many = json!(["x".repeat(9 << 20)]);
            send(stream, "X-Consul-Index: 9\r\n", &many);
        }
        Mood::NotJson => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>");
        }
    }
}

fn start(name: &str, instances: Value) -> (Arc<Shared<Agent>>, Saker) {
    let agent = Shared::new(Agent {
        index: 7,
        instances,
        mood: Mood::Well,
        asked: Vec::new(),
    });
    let own = Arc::clone(&agent);
    let address = api(move |asked, stream| answer(&own, asked, stream));
    let dir = folder(name);
    dir.write("token", "s3cret\n").unwrap();
    let keys = format!(
        "consul = \"http://{address}\"\nservice = \"web\"\ntag = \"blue\"\ndatacenter = \"dc2\"\n\
         token_file = \"{{dir}}/token\"\nnetworks = [\"127.0.0.1\"]\nrefresh = \"2s\""
    );
    let saker = operate::start_in(dir, &configuration(&keys));
    (agent, saker)
}

#[test]
fn instances_come_and_go_with_the_index() {
    let (a, b) = (named("a"), named("b"));
    let (agent, saker) = start("discovery-consul", json!([instance(a, 3), instance(b, 1)]));
    let found = counts(&saker, 40);
    assert_eq!((found["a"], found["b"]), (30, 10), "{found:?}");
    let became = |index: u64, instances: Value| {
        agent.change(|agent| (agent.index, agent.instances) = (index, instances));
    };
    became(8, json!([instance(b, 1)]));
    wait_for_names(&saker, &["b"]);
    wait_until("the last index is asked with", || {
        agent.look(|agent| agent.asked.contains(&Some(8)))
    });
    // Consul's servers have been restored: the index is not one to wait for.
    became(2, json!([instance(a, 1)]));
    wait_for_names(&saker, &["a"]);
    wait_until("the index begins anew", || {
        agent.look(|agent| agent.asked.iter().filter(|one| one.is_none()).count() >= 2)
    });
    assert!(agent.look(|agent| agent.asked.first() == Some(&None)));
    became(9, json!([]));
    wait_for_names(&saker, &["503"]);
}

#[test]
fn an_agent_that_misbehaves_changes_nothing() {
    let (a, b) = (named("a"), named("b"));
    let (agent, saker) = start("discovery-consul-hostile", json!([instance(a, 1)]));
    assert_eq!(counts(&saker, 3)["a"], 3);
    // A redirect leads to an agent that has other instances, and that is never asked.
    let other = Shared::new(0);
    let asked_there = Arc::clone(&other);
    let elsewhere = api(move |_, stream| {
        asked_there.change(|count| *count += 1);
        send(stream, "X-Consul-Index: 5\r\n", &json!([instance(b, 1)]));
    });
    for (mood, reason) in [
        (Mood::Failing, "HTTP status 500"),
        (
            Mood::Redirecting(elsewhere),
            "HTTP status 302 (redirects are not followed)",
        ),
        (Mood::TooLong, "longer than 8 MiB"),
        (Mood::NotJson, "not JSON"),
    ] {
        agent.change(|agent| agent.mood = mood);
        wait_until("the source fails for this reason", || {
            let error = source(&saker)["error"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            error.contains(reason)
        });
        assert_eq!(counts(&saker, 3)["a"], 3, "{mood:?}");
        agent.change(|agent| agent.mood = Mood::Well);
        wait_for_recovery(&saker);
    }
    assert_eq!(other.look(|count| *count), 0);
    // Instances that are none are left out, and the others are used.
    let odd = json!([
        { "Service": { "Address": "/run/app.sock", "Port": 80 } },
        { "Service": { "Address": "unix:/run/app.sock", "Port": 80 } },
        { "Service": { "Address": "169.254.169.254", "Port": 80 } },
        { "Service": { "Address": "localhost", "Port": b.port() } },
        { "Node": { "Address": "127.0.0.1" }, "Service": { "Port": 70_000 } },
        null, 5, instance(b, 1),
    ]);
    agent.change(|agent| (agent.index, agent.instances) = (20, odd));
    wait_for_names(&saker, &["b"]);
    assert_eq!(source(&saker)["servers"], 1);
    // A token that is gone is a failure like another.
    std::fs::remove_file(saker.dir.join("token")).unwrap();
    agent.change(|agent| agent.index += 1);
    let error = wait_for_error(&saker);
    assert!(error.contains("token"), "{error}");
    assert_eq!(counts(&saker, 3)["b"], 3);
}
