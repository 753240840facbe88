//! Hosts by address: who connects to an address that has hosts of its own finds those alone, others
//! the ones for every address, and where there are none the server itself. The real apache2 is
//! asked first, on the same configuration and port.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, wait_until,
};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
};

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
    (hosts, further): (&[(&str, &str)], &str),
    server: &str,
) -> String {
    let root = dir.display();
    let mut text = format!(
        "ServerRoot {root}\nServerName main.test\nDocumentRoot {root}/main\nPidFile {root}/{server}.pid\nDefaultRuntimeDir {root}\nErrorLog {root}/{server}.log\n\
         {}Listen {listen}{port}\n{}",
        load_modules(&["mpm_event", "authz_core", "vhost_alias"]),
        unprivileged_user()
    );
    for (name, addresses) in hosts {
        let addresses = addresses.replace("{port}", &port.to_string());
        text.push_str(&format!("<VirtualHost {addresses}>\n    ServerName {name}.test\n    DocumentRoot {root}/{name}\n</VirtualHost>\n"));
    }
    text.push_str(&further.replace("{dir}", &root.to_string()));
    text
}

/// Host that answers, for each address and name.
fn answers(server: &ServerProcess) -> Vec<String> {
    let port = server.address().port();
    let mut all = Vec::new();
    for last in LOCALS {
        let address = SocketAddr::from(([127, 0, 0, *last], port));
        for name in NAMES {
            // Twice: cached routes must belong to the same host.
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

/// `further`: lines of the server itself.
fn compare(name: &str, listen: &str, hosts: &[(&str, &str)], further: &str) {
    let dir = TempDir::new(name).unwrap();
    for last in LOCALS {
        let folder = format!("127.0.0.{last}");
        dir.write(&format!("{folder}/who"), &folder).unwrap();
    }
    for (host, _) in HOSTS.iter().chain(&[("main", "")]) {
        dir.write(&format!("{host}/who"), host).unwrap();
    }
    let port = free_port().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let file = dir.join("httpd.conf");
    let write = |server: &str| {
        fs::write(
            &file,
            configuration(&dir, port, listen, (hosts, further), server),
        )
        .unwrap()
    };
    write("apache");
    let apache = start_apache2(&file, address).unwrap();
    let theirs = answers(&apache);
    apache.stop().unwrap();
    // Its children may still hold the socket.
    wait_until("apache2 has closed its socket", || {
        TcpStream::connect(address).is_err()
    });
    write("saker");
    let saker = operate::apache("")
        .existing_file("httpd.conf")
        .at(address)
        .start_in(&dir);
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
    compare("addresses", "", HOSTS, "");
}

#[test]
fn where_no_host_is_for_every_address() {
    compare("addresses-left", "0.0.0.0:", &HOSTS[..3], "");
}

#[test]
fn folders_by_address() {
    let further = "VirtualDocumentRootIP {dir}/%0\n";
    compare("addresses-folders", "0.0.0.0:", &[], further);
}
