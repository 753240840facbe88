//! Servers of one site in a cluster, in front of one origin.

use super::{origin::Origin, redis_server::RedisServer};
use saker_testkit::{
    Client, Response, Saker, ServerProcess, TempDir, free_port,
    saker::{Builder, adjustable_clock},
    wait_until_or,
};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

const SAKER: &str = env!("CARGO_BIN_EXE_saker");
pub const HOST: &str = "shop.example";
const SECRET: &str = "a secret of all servers of this cluster";

pub struct Fleet {
    pub origin: Arc<Origin>,
    pub nodes: Vec<Node>,
    peer_port: u16,
    _dir: TempDir,
}

pub struct Node {
    pub dir: TempDir,
    saker: Builder,
    process: Option<ServerProcess>,
}

impl Fleet {
    pub fn start(redis: &RedisServer, count: u8) -> Fleet {
        let url = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
        Fleet::start_with(&format!("{url}\nmax_staleness = \"60s\""), count)
    }

    /// With these lines in `[cluster]`.
    pub fn start_with(cluster: &str, count: u8) -> Fleet {
        let fleet = Fleet::start_unsynced(cluster, count);
        fleet.nodes.iter().for_each(Node::wait_until_in_sync);
        fleet
    }

    /// One server that cannot reach the engine.
    pub fn start_apart(cluster: &str) -> Fleet {
        Fleet::start_unsynced(cluster, 1)
    }

    /// Servers that share what they know of clients; `site`: further lines of the site.
    pub fn start_sharing(redis: &RedisServer, share: &str, site: &str, count: u8) -> Fleet {
        let url = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
        Fleet::start_sharing_over(&url, share, site, count)
    }

    /// The same over another engine.
    pub fn start_sharing_over(url: &str, share: &str, site: &str, count: u8) -> Fleet {
        let cluster = format!("{url}\nsecret_file = \"{{dir}}/secret\"\nshare = [{share}]");
        let fleet = Fleet::start_with_site(&cluster, site, count);
        fleet.nodes.iter().for_each(Node::wait_until_in_sync);
        fleet
    }

    fn start_unsynced(cluster: &str, count: u8) -> Fleet {
        Fleet::start_with_site(cluster, "", count)
    }

    /// Servers that hand each other pages. In `peers`, the further lines of `[cluster.peers]`,
    /// `{number}` is the number of a server.
    pub fn start_with_peers(redis: &RedisServer, peers: &str, count: u8) -> Fleet {
        let cluster = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
        Fleet::start_peers_with(&cluster, peers, count)
    }

    /// The same with these lines in `[cluster]`.
    pub fn start_peers_with(cluster: &str, peers: &str, count: u8) -> Fleet {
        let fleet = Fleet::start_all(cluster, "", Some(peers), count);
        fleet.nodes.iter().for_each(Node::wait_until_in_sync);
        fleet.wait_until_all_know_all();
        fleet
    }

    /// The first server hands out no pages, as one of an earlier version.
    pub fn start_with_an_older_one(redis: &RedisServer, peers: &str, count: u8) -> Fleet {
        let cluster = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
        let fleet = Fleet::start_some(&cluster, "", Some((peers, 2)), count);
        fleet.nodes.iter().for_each(Node::wait_until_in_sync);
        fleet
    }

    /// The address at which a server listens for the others.
    pub fn listens_for_peers(&self, index: u8) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(127, 0, 0, index + 1), self.peer_port))
    }

    /// Waits until each server knows of all that live.
    #[track_caller]
    pub fn wait_until_all_know_all(&self) {
        let lives = |node: &&Node| node.process.is_some();
        let count = self.nodes.iter().filter(lives).count();
        for node in self.nodes.iter().filter(lives) {
            let knows_all = || {
                let status = node.status();
                let all = status["nodes"].as_array();
                let alive = all
                    .into_iter()
                    .flatten()
                    .filter(|other| other["state"] == "alive" && other["pages_from"].is_string());
                alive.count() == count
            };
            wait_until_or(knows_all, || node.status().to_string());
        }
    }

    fn start_with_site(cluster: &str, site: &str, count: u8) -> Fleet {
        Fleet::start_all(cluster, site, None, count)
    }

    fn start_all(cluster: &str, site: &str, peers: Option<&str>, count: u8) -> Fleet {
        Fleet::start_some(cluster, site, peers.map(|peers| (peers, 1)), count)
    }

    /// `peers`: lines of `[cluster.peers]`, and the number of the first server that has them.
    fn start_some(cluster: &str, site: &str, peers: Option<(&str, u8)>, count: u8) -> Fleet {
        let dir = TempDir::new("cluster-origin").unwrap();
        let socket = dir.join("origin.sock");
        let origin = Origin::listen(&socket);
        let port = free_port().unwrap();
        let peer_port = free_port().unwrap();
        let nodes = (1..=count).map(|number| {
            let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, number), port));
            let peers = peers.filter(|(_, first)| number >= *first);
            let peers = peers.map_or(String::new(), |(peers, _)| {
                let peers = peers.replace("{number}", &number.to_string());
                format!("[cluster.peers]\nlisten = \"127.0.0.{number}:{peer_port}\"\n{peers}\n")
            });
            let cluster = cluster.replace("{number}", &number.to_string());
            Node::start(address, number, (&cluster, site, &peers), &socket)
        });
        Fleet {
            nodes: nodes.collect(),
            origin,
            peer_port,
            _dir: dir,
        }
    }

    /// Every server has the page of the present generation in its cache.
    pub fn fill(&self, target: &str) {
        for node in &self.nodes {
            node.get(target);
            let asked = self.origin.asked(target);
            node.get(target);
            assert_eq!(self.origin.asked(target), asked, "{target} was cached");
        }
    }

    /// Waits until every server has a page of that generation.
    #[track_caller]
    pub fn wait_for_generation(&self, target: &str, generation: u64) {
        for (index, node) in self.nodes.iter().enumerate() {
            wait_until_or(
                || node.generation(target) == generation,
                || {
                    format!(
                        "generation {generation} of {target} at {index}:\n{}",
                        node.log()
                    )
                },
            );
        }
    }
}

impl Node {
    fn start(
        address: SocketAddr,
        number: u8,
        (cluster, site, peers): (&str, &str, &str),
        socket: &Path,
    ) -> Node {
        let dir = TempDir::new("cluster-node").unwrap();
        dir.write("secret", SECRET).unwrap();
        adjustable_clock(&dir).unwrap();
        let configuration = format!(
            "[server]\nworkers = 2\ntrusted_proxies = [\"127.0.0.0/8\"]\nstate_dir = \"{{dir}}/state\"\nshutdown_timeout = \"1s\"\n\
             [cluster]\n{cluster}\nnode = \"web-{number}\"\n{peers}\
             [cache]\nreserve = 0\npurge_from = [\"127.0.0.0/8\"]\n\
             [[listener]]\naddress = \"{{address}}\"\n\
             [[upstream]]\nname = \"app\"\nservers = [\"http+unix:{}\"]\n\
             [[site]]\nnames = [\"{HOST}\"]\n{site}[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n\
             [site.cache]\nenabled = true\nobey = [\"http\", \"lscache\"]\ngrace = \"0s\"\n",
            socket.display()
        );
        let saker = Saker::native(SAKER, &configuration).at(address);
        let process = Some(saker.start_in(&dir));
        Node {
            dir,
            saker,
            process,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.process.as_ref().unwrap().address()
    }

    pub fn log(&self) -> String {
        self.process
            .as_ref()
            .map_or(String::new(), ServerProcess::stderr)
    }

    pub fn has_logged(&self, id: &str) -> bool {
        self.log().contains(id)
    }

    pub fn pause(&self) {
        self.process.as_ref().unwrap().pause().unwrap();
    }

    pub fn go_on(&self) {
        self.process.as_ref().unwrap().go_on().unwrap();
    }

    /// The address at which it hands out pages.
    pub fn peer_address(&self) -> SocketAddr {
        let status = self.status();
        let mut all = status["nodes"].as_array().unwrap().iter();
        let own = all.find(|node| node["is_this"] == true).unwrap();
        own["pages_from"].as_str().unwrap().parse().unwrap()
    }

    pub fn metrics(&self) -> String {
        let socket = self.dir.join("state/control.sock");
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// The number of a counter, with its labels.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.metrics();
        let line = text.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.rsplit_once(' '));
        number.map_or(0, |(_, number)| number.parse::<f64>().unwrap() as u64)
    }

    pub fn kill(&mut self) {
        self.process.take().unwrap().kill().unwrap();
    }

    pub fn stop(&mut self) {
        assert!(self.process.take().unwrap().stop().unwrap().success());
    }

    pub fn start_again(&mut self) {
        self.process = Some(self.saker.start_in(&self.dir));
    }

    /// Replaces the process by `saker upgrade`; the new one is no child of the test.
    pub fn upgrade(&mut self) {
        let output = self.command(&["upgrade"]);
        assert!(output.status.success(), "{output:?}\n{}", self.log());
    }

    pub fn request(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> String {
        request(self.address(), method, target, fields)
    }

    /// Status of the answer to a client that a proxy names.
    pub fn status_for(&self, client: &str, target: &str, fields: &[(&str, &str)]) -> u16 {
        let named = [&[("X-Forwarded-For", client)], fields].concat();
        response(self.address(), "GET", target, &named).status
    }

    pub fn get(&self, target: &str) -> String {
        self.request("GET", target, &[])
    }

    pub fn generation(&self, target: &str) -> u64 {
        generation(&self.get(target))
    }

    pub fn command(&self, arguments: &[&str]) -> Output {
        let state = self.dir.join("state");
        Command::new(SAKER)
            .args(arguments)
            .arg("--state-dir")
            .arg(state)
            .output()
            .unwrap()
    }

    #[track_caller]
    pub fn purge(&self, arguments: &[&str]) -> String {
        let output = self.command(&[&["purge"], arguments].concat());
        assert!(output.status.success(), "{output:?}\n{}", self.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn status(&self) -> Value {
        let output = self.command(&["cluster", "status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_until_in_sync(&self) {
        wait_until_or(
            || self.status()["is_in_sync"] == true && self.status()["is_connected"] == true,
            || format!("in sync: {}\n{}", self.status(), self.log()),
        );
    }
}

pub fn generation(page: &str) -> u64 {
    page.strip_prefix("g=")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no generation in {page:?}"))
}

/// Sends a request on a connection of its own; returns the content of the response.
pub fn request(address: SocketAddr, method: &str, target: &str, fields: &[(&str, &str)]) -> String {
    let response = response(address, method, target, fields);
    assert_eq!(
        response.status,
        200,
        "{method} {target}: {}",
        response.text()
    );
    response.text()
}

/// The whole response.
pub fn response(
    address: SocketAddr,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Response {
    let mut client = Client::connect(address).unwrap();
    let mut all = format!("{method} {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n");
    if method == "POST" {
        all.push_str("Content-Length: 0\r\n");
    }
    for (name, value) in fields {
        all.push_str(&format!("{name}: {value}\r\n"));
    }
    client.send(all + "\r\n").unwrap();
    client.read_response().unwrap()
}
