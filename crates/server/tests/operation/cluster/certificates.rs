//! Automatic certificates that the servers of a cluster order together, from a real authority.
//!
//! Caveat: the authority looks for challenges at 127.0.0.1, where a server listens that orders
//! nothing itself; those that order listen at other loopback addresses.

use super::{nats_server::NatsServer, postgres::Engine, redis_server::RedisServer};
use saker_testkit::{
    Client, Pebble, Saker, ServerProcess, TempDir, require, saker::Builder, wait_until_or,
};
use serde_json::Value;
use std::{
    collections::HashSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

const SAKER: &str = env!("CARGO_BIN_EXE_saker");
const NAME: &str = "a.example";

/// From the start to a certificate, on a busy machine, with a lock that has to end before.
const ISSUE_TIME_MAX: Duration = Duration::from_secs(60);

struct Node {
    dir: TempDir,
    address: SocketAddr,
    saker: Builder,
    process: Option<ServerProcess>,
}

impl Node {
    /// A server that orders a certificate.
    fn new(pebble: &Pebble, number: u8, cluster: &str, acme: &str) -> Node {
        let ip = Ipv4Addr::new(127, 0, 0, number);
        let text = format!(
            "[[listener]]\naddress = \"{ip}:{}\"\ntls = true\n\
             [[site]]\nnames = [\"{NAME}\"]\nroot = \"{{dir}}/www\"\ntls.automatic = true\n",
            pebble.tls_port
        );
        Node::with(pebble, (ip, pebble.http_port), (cluster, acme), &text)
    }

    /// The server at which the authority looks; it orders nothing.
    fn front(pebble: &Pebble, cluster: &str) -> Node {
        let text = "[[site]]\nnames = [\"other.example\"]\nroot = \"{dir}/www\"\n";
        let place = (Ipv4Addr::LOCALHOST, pebble.http_port);
        let mut node = Node::with(pebble, place, (cluster, ""), text);
        node.start();
        node
    }

    fn with(
        pebble: &Pebble,
        place: (Ipv4Addr, u16),
        (cluster, acme): (&str, &str),
        rest: &str,
    ) -> Node {
        let dir = TempDir::new("cluster-acme").unwrap();
        dir.write("www/index.html", "<p>hello</p>\n").unwrap();
        dir.write("secret", "a secret of all servers of this cluster")
            .unwrap();
        let configuration = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\nlog_level = \"info\"\n\
             [cluster]\n{cluster}\nshare = [\"certificates\"]\nsecret_file = \"{{dir}}/secret\"\n\
             [acme]\ndirectory = \"{}\"\ndirectory_ca = \"{}\"\n{acme}\n\
             [[listener]]\naddress = \"{{address}}\"\n{rest}",
            pebble.directory(),
            pebble.directory_ca().display(),
        );
        let address = SocketAddr::from(place);
        let saker = Saker::native(SAKER, &configuration).at(address);
        Node {
            dir,
            address,
            saker,
            process: None,
        }
    }

    fn start(&mut self) {
        self.process = Some(self.saker.start_in(&self.dir));
    }

    fn kill(&mut self) {
        self.process.take().unwrap().kill().unwrap();
    }

    fn log(&self) -> String {
        self.process
            .as_ref()
            .map_or(String::new(), ServerProcess::stderr)
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        let process = self.process.as_ref().unwrap();
        process.wait_for_stderr(text, ISSUE_TIME_MAX).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join("state/acme").join(name)
    }

    fn certificate(&self) -> Option<String> {
        fs::read_to_string(self.file(&format!("certificates/{NAME}.pem"))).ok()
    }

    /// URL of the open order in its files.
    fn order(&self) -> Option<String> {
        let text = fs::read_to_string(self.file(&format!("certificates/{NAME}.json"))).ok()?;
        let record: Value = serde_json::from_str(&text).ok()?;
        Some(record["order"]["url"].as_str()?.to_owned())
    }

    /// Fetches as a browser that trusts what the authority signs.
    #[track_caller]
    fn is_serving(&self, pebble: &Pebble) {
        let resolve = format!("{NAME}:{}:{}", pebble.tls_port, self.address.ip());
        let mut command = Command::new(require("curl").unwrap());
        command
            .args(["-sS", "-m", "30", "--resolve", &resolve, "--cacert"])
            .arg(pebble.root().unwrap())
            .arg(format!("https://{NAME}:{}/index.html", pebble.tls_port));
        let output = command.output().unwrap();
        assert!(
            output.status.success() && output.stdout == b"<p>hello</p>\n",
            "{output:?}\n{}",
            self.log()
        );
    }

    fn status(&self, path: &str) -> u16 {
        let mut client = Client::connect(self.address).unwrap();
        let answer = client.request("GET", path, &[("Host", "other.example")]);
        answer.unwrap().status
    }
}

fn issues(node: &Node) -> usize {
    node.log()
        .matches("an automatic certificate was issued")
        .count()
}

/// One certificate for two servers, proved by a third.
fn ordered_once(cluster: &str, stored: impl Fn() -> Vec<Vec<u8>>) {
    let pebble = Pebble::new().unwrap();
    let front = Node::front(&pebble, cluster);
    let acme = "challenges = [\"tls-alpn-01\", \"http-01\"]";
    let mut nodes = [2, 3].map(|number| Node::new(&pebble, number, cluster, acme));
    nodes.iter_mut().for_each(Node::start);
    wait_until_or(
        || {
            let [one, other] = &nodes;
            one.certificate().is_some() && one.certificate() == other.certificate()
        },
        || format!("{}\n{}\n{}", front.log(), nodes[0].log(), nodes[1].log()),
    );
    let counts = [issues(&nodes[0]), issues(&nodes[1])];
    assert_eq!(counts.iter().sum::<usize>(), 1, "{counts:?}");
    nodes[usize::from(counts[0] == 1)].wait_for("SK1614");
    nodes.iter().for_each(|node| node.is_serving(&pebble));
    // A server that has ordered nothing may have had no use for the account yet.
    let accounts: HashSet<Vec<u8>> = nodes
        .iter()
        .flat_map(|node| fs::read_dir(node.file("accounts")).unwrap())
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert_eq!(accounts.len(), 1);
    // Nothing of it can be read where it is shared.
    let stored = stored();
    assert!(stored.len() >= 3, "certificate, account, and challenge");
    for value in stored {
        let has = |text: &str| {
            value
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(!has("PRIVATE") && !has(NAME) && !has("key"));
    }
    // Whatever clients ask for.
    for token in ["x", &"y".repeat(43), "../../etc", &"z".repeat(300)] {
        let path = format!("/.well-known/acme-challenge/{token}");
        assert_eq!(front.status(&path), 404, "{path}");
    }
}

#[test]
fn a_certificate_is_ordered_once_over_redis() {
    let redis = RedisServer::start();
    let url = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
    ordered_once(&url, || {
        let keys = redis.command(&["KEYS", "saker:state:*"]);
        let values = keys.lines().map(|key| redis.command(&["GET", key]));
        values.map(String::into_bytes).collect()
    });
}

#[test]
fn a_certificate_is_ordered_once_over_postgresql() {
    let engine = Engine::start();
    ordered_once(&engine.url(), || {
        let values = engine.column("value", "state").into_iter();
        values.map(String::into_bytes).collect()
    });
}

#[test]
fn a_certificate_is_ordered_once_over_nats() {
    let nats = NatsServer::start();
    ordered_once(&nats.url(), || {
        let streams = ["saker-state", "saker-lent"];
        let values = streams.iter().flat_map(|stream| {
            let subjects = nats.subjects(stream).into_iter();
            subjects.map(|subject| nats.newest(stream, &subject))
        });
        values.collect()
    });
}

#[test]
fn a_certificate_is_ordered_once_in_a_folder() {
    let shared = TempDir::new("cluster-shared").unwrap();
    let folder = shared.join("saker");
    ordered_once(&format!("folder = \"{}\"", folder.display()), || {
        let files = fs::read_dir(folder.join("values")).unwrap();
        let values = files.map(|file| fs::read(file.unwrap().path()).unwrap());
        values.collect()
    });
}

#[test]
fn the_order_of_a_killed_server_is_continued() {
    let redis = RedisServer::start();
    let cluster = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
    continued(&cluster, || {
        let keys = redis.command(&["KEYS", "saker:state:certificate-*"]);
        !keys.is_empty()
    });
}

/// Its lock is a row, which ends by the database's clock.
#[test]
fn the_order_of_a_killed_server_is_continued_over_postgresql() {
    let engine = Engine::start();
    continued(&engine.url(), || {
        let names = engine.column("name::bytea", "state");
        names.iter().any(|name| name.starts_with("certificate-"))
    });
}

/// Its lock ends because its message stays the same.
#[test]
fn the_order_of_a_killed_server_is_continued_over_nats() {
    let nats = NatsServer::start();
    continued(&nats.url(), || {
        let subjects = nats.subjects("saker-state");
        // The lock is there first: the byte behind its token says that there is a value, too.
        let is_order = |name: &String| {
            name.starts_with("saker.state.certificate-") && nats.newest("saker-state", name)[9] == 1
        };
        subjects.iter().any(is_order)
    });
}

/// The server that orders is killed while the authority waits for the proof. `is_stored`: the engine
/// has the order.
fn continued(cluster: &str, is_stored: impl Fn() -> bool) {
    let pebble = Pebble::new().unwrap();
    let (command, _log) = pebble.zone_command().unwrap();
    let acme =
        format!("challenges = [\"dns-01\"]\ndns_command = \"{command}\"\ndns_wait = \"10s\"");
    let [mut first, mut second] = [2, 3].map(|number| Node::new(&pebble, number, cluster, &acme));
    first.start();
    wait_until_or(|| first.order().is_some(), || first.log());
    // Not only here: the engine has it as well.
    wait_until_or(&is_stored, || first.log());
    let order = first.order();
    first.kill();
    second.start();
    wait_until_or(|| second.order().is_some(), || second.log());
    assert_eq!(second.order(), order, "the same order, not another one");
    second.wait_for("an automatic certificate was issued");
    second.is_serving(&pebble);
    first.start();
    first.wait_for("SK1614");
    first.is_serving(&pebble);
    assert_eq!(issues(&first), 0);
}

#[test]
fn a_server_without_the_secret_or_the_engine_orders_nothing() {
    let mut redis = RedisServer::start();
    let cluster = format!("url = \"redis://127.0.0.1:{}\"", redis.port);
    let pebble = Pebble::new().unwrap();
    let front = Node::front(&pebble, &cluster);
    let mut node = Node::new(&pebble, 2, &cluster, "challenges = [\"http-01\"]");
    node.start();
    node.wait_for("an automatic certificate was issued");
    let mut stranger = Node::new(&pebble, 3, &cluster, "challenges = [\"http-01\"]");
    stranger
        .dir
        .write("secret", "another secret, which is as long as this")
        .unwrap();
    stranger.start();
    stranger.wait_for("SK1613");
    assert_eq!(stranger.certificate(), None);
    redis.kill();
    node.is_serving(&pebble);
    let challenge = format!("/.well-known/acme-challenge/{}", "y".repeat(43));
    assert_eq!([front.status(&challenge), front.status("/")], [404, 200]);
    let mut late = Node::new(&pebble, 4, &cluster, "challenges = [\"http-01\"]");
    late.start();
    late.wait_for("SK1613");
    redis.start_again();
    // The engine is empty: the server that has a certificate brings it, or this one orders.
    wait_until_or(|| late.certificate().is_some(), || late.log());
    late.wait_for("ertificate");
    late.is_serving(&pebble);
}
