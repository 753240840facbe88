//! Kubernetes: EndpointSlices, listed in pages and watched, with bookmarks and versions that are too
//! old.

use super::fixture::{
    Asked, Shared, Stream, api, begin_stream, configuration, counts, named, refuse, send,
    send_line, source, wait_for_error, wait_for_names, wait_for_recovery,
};
use crate::operate::{self, folder};
use saker_testkit::{Saker, wait_until};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// An API server with the slices of one service.
#[derive(Default)]
struct Cluster {
    version: u64,
    slices: Vec<Value>,
    /// Events with the version that each leads to.
    events: Vec<(u64, Value)>,
    /// Versions before this one are too old for a watch.
    oldest: u64,
    /// Watches get the error in place of the status.
    errs_in_stream: bool,
    is_away: bool,
    /// Versions that were listed (`None`) and watched.
    asked: Vec<Option<String>>,
}

fn slice(name: &str, version: u64, endpoints: &[(SocketAddr, Option<bool>)]) -> Value {
    let endpoint = |(_, is_ready): &(SocketAddr, Option<bool>)| json!({ "addresses": ["127.0.0.1"], "conditions": { "ready": is_ready } });
    // All endpoints of a slice have its ports.
    let port = endpoints.first().map_or(1, |(address, _)| address.port());
    json!({
        "metadata": { "name": name, "resourceVersion": version.to_string() },
        "addressType": "IPv4",
        "ports": [
            { "name": "metrics", "port": 9, "protocol": "TCP" },
            { "name": "http", "port": port, "protocol": "TCP" },
        ],
        "endpoints": endpoints.iter().map(endpoint).collect::<Value>(),
    })
}

fn answer(cluster: &Shared<Cluster>, asked: &Asked, stream: &mut dyn Stream) {
    let path = asked.target.split('?').next().unwrap();
    let selector = asked.parameter("labelSelector").unwrap_or_default();
    let is_right = path == "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
        && selector == "kubernetes.io/service-name=web"
        && asked.has("Authorization: Bearer t0ken");
    if !is_right {
        return refuse(stream, "403 Forbidden");
    }
    if cluster.look(|cluster| cluster.is_away) {
        return refuse(stream, "503 Service Unavailable");
    }
    match asked.parameter("watch") {
        None => list(cluster, asked, stream),
        Some(_) => watch(cluster, asked, stream),
    }
}

/// One slice per page.
fn list(cluster: &Shared<Cluster>, asked: &Asked, stream: &mut dyn Stream) {
    let page: usize = asked
        .parameter("continue")
        .map_or(0, |page| page.parse().unwrap());
    cluster.change(|cluster| cluster.asked.push(None));
    let (version, slices) = cluster.look(|cluster| (cluster.version, cluster.slices.clone()));
    let rest = match page + 1 < slices.len() {
        true => (page + 1).to_string(),
        false => String::new(),
    };
    let items: Vec<_> = slices.into_iter().skip(page).take(1).collect();
    let metadata = json!({ "resourceVersion": version.to_string(), "continue": rest });
    send(stream, "", &json!({ "metadata": metadata, "items": items }));
}

fn watch(cluster: &Shared<Cluster>, asked: &Asked, stream: &mut dyn Stream) {
    let from = asked.parameter("resourceVersion").unwrap();
    assert_eq!(
        asked.parameter("allowWatchBookmarks").as_deref(),
        Some("true")
    );
    cluster.change(|cluster| cluster.asked.push(Some(from.clone())));
    let mut seen: u64 = from.parse().unwrap();
    let (oldest, errs_in_stream) = cluster.look(|cluster| (cluster.oldest, cluster.errs_in_stream));
    if seen < oldest && !errs_in_stream {
        return refuse(stream, "410 Gone");
    }
    begin_stream(stream);
    if seen < oldest {
        let status = json!({ "kind": "Status", "code": 410, "message": "too old" });
        send_line(stream, &json!({ "type": "ERROR", "object": status }));
        return;
    }
    let seconds: u64 = asked.parameter("timeoutSeconds").unwrap().parse().unwrap();
    loop {
        let next = cluster.wait(Duration::from_secs(seconds), |cluster| {
            let newer = cluster.events.iter().find(|(version, _)| *version > seen);
            newer.cloned()
        });
        let Some((version, event)) = next else {
            let _ = stream.write_all(b"0\r\n\r\n");
            return;
        };
        seen = version;
        if !send_line(stream, &event) {
            return;
        }
    }
}

fn start(name: &str, slices: Vec<Value>, port: &str) -> (Arc<Shared<Cluster>>, Saker) {
    let cluster = Shared::new(Cluster {
        version: 10,
        slices,
        ..Cluster::default()
    });
    let own = Arc::clone(&cluster);
    let address = api(move |asked, stream| answer(&own, asked, stream));
    let dir = folder(name);
    dir.write("token", "t0ken").unwrap();
    let keys = format!(
        "kubernetes = \"http://{address}\"\nnamespace = \"shop\"\nservice = \"web\"\n{port}\n\
         token_file = \"{{dir}}/token\"\nnetworks = [\"127.0.0.0/8\"]\nrefresh = \"1s\""
    );
    (cluster, operate::start_in(dir, &configuration(&keys)))
}

fn tell(cluster: &Shared<Cluster>, version: u64, kind: &str, object: Value) {
    let event = json!({ "type": kind, "object": object });
    cluster.change(|cluster| {
        cluster.version = version;
        cluster.events.push((version, event));
    });
}

#[test]
fn slices_are_listed_and_watched() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let slices = vec![
        slice("web-1", 1, &[(a, None)]),
        slice("web-2", 2, &[(b, Some(true))]),
        slice("web-3", 3, &[(c, Some(false))]),
    ];
    let (cluster, saker) = start("discovery-kubernetes", slices, "port = \"http\"");
    wait_for_names(&saker, &["a", "b"]);
    tell(
        &cluster,
        11,
        "MODIFIED",
        slice("web-3", 11, &[(c, Some(true))]),
    );
    wait_for_names(&saker, &["a", "b", "c"]);
    tell(&cluster, 12, "DELETED", slice("web-1", 12, &[(a, None)]));
    tell(&cluster, 13, "MODIFIED", slice("web-2", 13, &[]));
    wait_for_names(&saker, &["c"]);
    // A bookmark moves the version on, and nothing else.
    let bookmark = json!({ "kind": "EndpointSlice", "metadata": { "resourceVersion": "50" } });
    tell(&cluster, 50, "BOOKMARK", bookmark);
    wait_until("the next watch begins at the bookmark", || {
        cluster.look(|cluster| cluster.asked.contains(&Some("50".to_owned())))
    });
    assert_eq!(counts(&saker, 6)["c"], 6);
    tell(&cluster, 51, "ADDED", slice("web-4", 51, &[(a, None)]));
    wait_for_names(&saker, &["a", "c"]);
    let lists = cluster.look(|cluster| cluster.asked.iter().filter(|one| one.is_none()).count());
    assert_eq!(lists, 3, "three pages of one list");
}

#[test]
fn a_version_that_is_too_old_leads_to_a_list() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let first = vec![slice("web-1", 1, &[(a, None)])];
    let (cluster, saker) = start("discovery-kubernetes-gone", first, "port = \"http\"");
    wait_for_names(&saker, &["a"]);
    for (errs_in_stream, version, server, name) in [(false, 100, b, "b"), (true, 200, c, "c")] {
        cluster.change(|cluster| {
            (cluster.oldest, cluster.version) = (version, version);
            cluster.errs_in_stream = errs_in_stream;
            cluster.slices = vec![slice("web-1", version, &[(server, None)])];
        });
        wait_for_names(&saker, &[name]);
    }
    cluster.change(|cluster| cluster.is_away = true);
    wait_until("the source fails for this reason", || {
        wait_for_error(&saker).contains("HTTP status 503")
    });
    assert_eq!(counts(&saker, 3)["c"], 3);
    cluster.change(|cluster| {
        cluster.is_away = false;
        cluster.slices = vec![slice("web-1", 300, &[(a, None)])];
    });
    wait_for_names(&saker, &["a"]);
    wait_for_recovery(&saker);
}

#[test]
fn a_port_has_to_be_named_where_there_are_several() {
    let a = named("a");
    let slices = || vec![slice("web-1", 1, &[(a, None)])];
    let (_, unnamed) = start("discovery-kubernetes-ports", slices(), "");
    wait_until("the list is read", || source(&unnamed)["age_ms"].is_u64());
    assert_eq!(counts(&unnamed, 3)["503"], 3);
    let port = format!("port = {}", a.port());
    let (_, by_number) = start("discovery-kubernetes-port", slices(), &port);
    wait_for_names(&by_number, &["a"]);
}
