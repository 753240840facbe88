//! Hosts by address: who connects to an address that has hosts of its own finds those alone, others
//! the ones for every address, and where there are none the server itself. The real apache2 is
//! asked first, on the same configuration and port.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_testkit::{Client, ServerProcess, TempDir, free_port, require};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

const MODULES: &[&str] = &["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules"];
const HOSTS: &[(&str, &str)] = &[
    ("one", "127.0.0.11:{port}"),
    ("two", "127.0.0.11:{port}"),
    ("three", "127.0.0.12:*"),
    ("every", "*:{port}"),
    ("both", "127.0.0.13:{port} *:{port}"),
    ("elsewhere", "127.0.0.14:1"),
];
const NAMES: &[&str] = &[
    "one.test",
    "two.test",
    "three.test",
    "every.test",
    "both.test",
    "elsewhere.test",
    "main.test",
    "nobody.test",
];
const LOCALS: &[u8] = &[1, 11, 12, 13, 14];

fn configuration(
    dir: &Path,
    port: u16,
    listen: &str,
    hosts: &[(&str, &str)],
    server: &str,
) -> String {
    let (root, modules) = (
        dir.display(),
        MODULES
            .iter()
            .find(|folder| Path::new(folder).is_dir())
            .unwrap(),
    );
    let mut text = format!(
        "ServerRoot {root}\nServerName main.test\nDocumentRoot {root}/main\nPidFile {root}/{server}.pid\nDefaultRuntimeDir {root}\nErrorLog {root}/{server}.log\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\nListen {listen}{port}\n"
    );
    if rustix::process::geteuid().is_root() {
        text.push_str("User www-data\nGroup www-data\n");
    }
    for (name, addresses) in hosts {
        let addresses = addresses.replace("{port}", &port.to_string());
        text.push_str(&format!("<VirtualHost {addresses}>\n    ServerName {name}.test\n    DocumentRoot {root}/{name}\n</VirtualHost>\n"));
    }
    text
}

/// Who answers, for each address and name.
fn answers(server: &ServerProcess) -> Vec<String> {
    let port = server.address().port();
    let mut all = Vec::new();
    for last in LOCALS {
        let address = SocketAddr::from(([127, 0, 0, *last], port));
        for name in NAMES {
            // Twice: what is kept must not be anybody else's.
            for _ in 0..2 {
                let response =
                    Client::connect(address)
                        .unwrap()
                        .request("GET", "/who", &[("Host", name)]);
                let response = response.unwrap_or_else(|error| {
                    panic!("{address} {name}: {error}; {}", server.stderr())
                });
                all.push(format!(
                    "{address} {name}: {} {}",
                    response.status,
                    response.text().trim()
                ));
            }
        }
    }
    all
}

fn compare(name: &str, listen: &str, hosts: &[(&str, &str)]) {
    let dir = TempDir::new(name).unwrap();
    for (host, _) in HOSTS.iter().chain(&[("main", "")]) {
        dir.write(&format!("{host}/who"), host).unwrap();
    }
    let port = free_port().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let file = dir.join("httpd.conf");
    let write =
        |server: &str| fs::write(&file, configuration(&dir, port, listen, hosts, server)).unwrap();
    write("apache");
    let apache = ServerProcess::start(
        Command::new(require("apache2").unwrap())
            .arg("-f")
            .arg(&file)
            .arg("-DFOREGROUND"),
        address,
    )
    .unwrap();
    let theirs = answers(&apache);
    apache.stop().unwrap();
    // Its children may still hold the socket.
    while TcpStream::connect(address).is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    write("saker");
    let mut command = Command::new(env!("CARGO_BIN_EXE_saker"));
    command
        .args(["run", "--workers", "1", "--apache"])
        .arg(&file)
        .arg("--state-dir")
        .arg(dir.join("state"));
    let saker = ServerProcess::start(&mut command, address).unwrap();
    let ours = answers(&saker);
    saker.stop().unwrap();
    let differences: Vec<String> = theirs
        .iter()
        .zip(&ours)
        .filter(|(one, other)| one != other)
        .map(|(one, other)| format!("apache2 {one}, saker {other}"))
        .collect();
    assert!(
        differences.is_empty(),
        "{name}:\n{}",
        differences.join("\n")
    );
}

#[test]
fn on_one_listener_for_all_addresses() {
    compare("addresses", "", HOSTS);
}

#[test]
fn where_no_host_is_for_every_address() {
    compare("addresses-left", "0.0.0.0:", &HOSTS[..3]);
}
