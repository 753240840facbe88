//! Attacks on the way by which servers hand each other pages.

use super::{
    fleet::{Fleet, HOST, Node},
    peer_certificates::Certificates,
    redis_server::RedisServer,
};
use saker_testkit::{wait_until, wait_until_or};
use std::{
    io::Read,
    net::{SocketAddr, TcpListener},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

const KEPT: &str = "copied_after = 1";

/// Status of the answer to curl; `None`: no connection came about.
fn curl(
    certificates: &Certificates,
    to: SocketAddr,
    identity: Option<&str>,
    more: &[&str],
) -> Option<u16> {
    let mut command = Command::new("curl");
    command
        .args([
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ])
        .args(["--cacert", &certificates.path("ca.pem")])
        .args([
            "--resolve",
            &format!("saker-peer:{}:{}", to.port(), to.ip()),
        ]);
    if let Some(identity) = identity {
        command.args(["--cert", &certificates.path(&format!("{identity}.pem"))]);
        command.args(["--key", &certificates.path(&format!("{identity}.key"))]);
    }
    let path = more.first().unwrap();
    command.arg(format!("https://saker-peer:{}{path}", to.port()));
    let output = command.args(&more[1..]).output().unwrap();
    let status = String::from_utf8_lossy(&output.stdout).parse().unwrap();
    (status != 0).then_some(status)
}

#[test]
fn only_servers_with_the_certificate_of_the_cluster_may_ask() {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let fleet = Fleet::start_with_peers(&redis, &certificates.lines(KEPT), 1);
    let node = &fleet.nodes[0];
    node.get("/a");
    let to = node.peer_address();
    let ask = ["/pages", "--data-binary", "x"];
    assert_eq!(curl(&certificates, to, None, &ask), None, "no certificate");
    assert_eq!(
        curl(&certificates, to, Some("foreign"), &ask),
        None,
        "of another authority"
    );
    for version in ["--http1.1", "--http2"] {
        let ask = ["/pages", "--data-binary", "x", version];
        assert_eq!(
            curl(&certificates, to, Some("named"), &ask),
            Some(403),
            "for another host"
        );
        assert_eq!(
            curl(&certificates, to, Some("peer"), &ask),
            Some(400),
            "not a question"
        );
    }
    assert!(node.has_logged("SK1616"), "{}", node.log());
    // A server of the cluster gets pages there, and nothing else.
    let long = format!("@{}", certificates.path("long"));
    std::fs::write(certificates.path("long"), vec![b'x'; 300_000]).unwrap();
    let host = format!("Host: {HOST}");
    for (request, status) in [
        (&["/pages"][..], 405),
        (&["/pages", "--data-binary", &long], 413),
        (&["/a"], 404),
        (&["/a", "--header", &host], 404),
        (&["/", "--header", &host, "--request", "PURGE"], 404),
    ] {
        assert_eq!(
            curl(&certificates, to, Some("peer"), request),
            Some(status),
            "{request:?}"
        );
    }
    assert_eq!(
        node.metric("saker_cluster_pages_total{direction=\"sent\"}"),
        0
    );
    assert_eq!(fleet.origin.asked("/a"), 1);
    // Clients of the site do not get there, whatever they say.
    let page = node.request("GET", "/pages", &[("X-Forwarded-Host", "saker-peer")]);
    assert_eq!(page, "g=0 /pages\n", "the application's page of that name");
}

/// Takes connections and keeps what comes first.
fn trap() -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, taken) = (
        listener.local_addr().unwrap(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let kept = Arc::clone(&taken);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = vec![0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            bytes.truncate(count);
            kept.lock().unwrap().push(bytes);
        }
    });
    (address, taken)
}

/// Announces a server that there is not.
fn announce(redis: &RedisServer, node: &Node, id: u64, address: SocketAddr) {
    let stamp = std::cell::Cell::new(0);
    let is_known = || {
        stamp.set(stamp.get() + 1);
        let text = format!(
            "1 ab fake 0.2.0 {} 1-0 0 0 serving peer={address}",
            stamp.get()
        );
        redis.command(&["HSET", "saker:nodes", &format!("{id:016x}"), &text]);
        let status = node.status();
        let mut all = status["nodes"].as_array().into_iter().flatten();
        all.any(|one| one["name"] == "fake" && one["state"] == "alive")
    };
    wait_until_or(is_known, || node.status().to_string());
}

/// Those who may write to the engine can name any address. It gets a handshake, never a request.
#[test]
fn a_server_that_is_made_up_learns_nothing() {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let fleet = Fleet::start_with_peers(&redis, &certificates.lines(KEPT), 1);
    let (node, (address, taken)) = (&fleet.nodes[0], trap());
    announce(&redis, node, 7, address);
    let mut number = 0;
    wait_until("it is asked", || {
        number += 1;
        let target = format!("/secret-path/{number}");
        assert_eq!(node.get(&target), format!("g=0 {target}\n"));
        assert_eq!(fleet.origin.asked(&target), 1);
        !taken.lock().unwrap().is_empty()
    });
    for bytes in taken.lock().unwrap().iter() {
        assert_eq!(bytes.first(), Some(&0x16), "a record of a TLS handshake");
        let holds = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        assert!(!holds(b"secret-path") && !holds(HOST.as_bytes()));
    }
    assert!(node.has_logged("SK1615"));
}

/// Certificates of another authority, or for another host, are not those of a server.
#[test]
fn a_server_with_a_wrong_certificate_is_not_asked() {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let fleet = Fleet::start_with_peers(&redis, &certificates.lines(KEPT), 1);
    let node = &fleet.nodes[0];
    for (id, lines) in [
        (8, certificates.lines(KEPT).replace("peer.", "named.")),
        (
            9,
            certificates
                .lines(KEPT)
                .replace("peer.", "foreign.")
                .replace("ca.pem", "other-ca.pem"),
        ),
    ] {
        let engine = RedisServer::start();
        let stranger = Fleet::start_with_peers(&engine, &lines, 1);
        announce(&redis, node, id, stranger.nodes[0].peer_address());
        let failed = node.metric("saker_cluster_peers_failed_total");
        let mut number = 0;
        wait_until("it is asked", || {
            number += 1;
            let target = format!("/{id}/{number}");
            assert_eq!(node.get(&target), format!("g=0 {target}\n"));
            assert_eq!(fleet.origin.asked(&target), 1);
            assert_eq!(stranger.origin.asked(&target), 0);
            node.metric("saker_cluster_peers_failed_total") > failed
        });
    }
    assert_eq!(
        node.metric("saker_cluster_pages_total{direction=\"received\"}"),
        0
    );
}

/// Two servers that take each other for the one that makes a page: here, one that takes itself for
/// another.
#[test]
fn questions_go_round_in_no_circle() {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let fleet = Fleet::start_with_peers(&redis, &certificates.lines(KEPT), 2);
    let [first, second] = &fleet.nodes[..] else {
        unreachable!()
    };
    announce(&redis, first, 10, second.peer_address());
    announce(&redis, first, 11, first.peer_address());
    let received = "saker_cluster_pages_total{direction=\"received\"}";
    let mut number = 0;
    wait_until("a server has asked itself", || {
        number += 1;
        let target = format!("/circle/{number}");
        for node in &fleet.nodes {
            assert_eq!(node.get(&target), format!("g=0 {target}\n"));
        }
        assert!(fleet.origin.asked(&target) <= 2);
        let own = first.metric(received).min(second.metric(received));
        own > 0 && number > 30
    });
}

#[test]
fn the_announced_address_is_told_and_the_name_is_demanded() {
    let (redis, certificates) = (RedisServer::start(), Certificates::make());
    let more = "announced = \"192.0.2.{number}:7443\"\nname = \"other.example\"";
    let fleet = Fleet::start_with_peers(&redis, &certificates.lines(more), 1);
    let node = &fleet.nodes[0];
    let announced = node.peer_address();
    assert_eq!(announced.to_string(), "192.0.2.1:7443");
    let page = node.command(&["cluster", "status"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("hands out pages at 192.0.2.1:7443"), "{page}");
    node.get("/a");
    let to = fleet.listens_for_peers(0);
    let ask = ["/pages", "--data-binary", "x"];
    // This server shows `peer.pem`, which is for another name than it demands.
    assert_eq!(curl(&certificates, to, Some("peer"), &ask), Some(403));
    let insecure = ["/pages", "--data-binary", "x", "--insecure"];
    assert_eq!(curl(&certificates, to, Some("named"), &insecure), Some(400));
}
