//! gRPC's own client and server (Debian's python3-grpcio) with Saker between them: calls and
//! streams of every kind, both ways at once.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::upgrades::Front;
use saker_testkit::TempDir;
use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

const HEARD: &str = "unary cba this OK\nlong 1000001 ba OK\nfails FAILED_PRECONDITION not so\nmissing UNIMPLEMENTED\ncounts 0,1,2,3,4\n\
                     adds 300000\nechoes one two three\n";

fn python() -> Command {
    // Not the first of the path: modules of Debian's packages are for Debian's own.
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/serving/grpc_programs/talk.py"
    ));
    command
}

/// A service, and the port where it is.
struct Service(Child, u16);

impl Service {
    fn start() -> Service {
        let mut child = python()
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse();
        Service(
            child,
            port.expect("the service needs gRPC: apt-get install python3-grpcio"),
        )
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `pause`: seconds between words of a conversation.
fn heard(address: SocketAddr, pause: &str) -> String {
    let output = python()
        .args(["ask", &address.to_string(), pause])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn calls_pass_mod_proxy() {
    let service = Service::start();
    let modules = ["proxy", "proxy_http2", "reqtimeout"]
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .concat();
    // Time limits for what clients send end where both sides talk.
    let front = Front::start(
        "grpc",
        &format!(
            "{modules}RequestReadTimeout body=3\nProxyPass / h2c://127.0.0.1:{}/\n",
            service.1
        ),
    );
    assert_eq!(heard(front.address, "3.5"), HEARD);
}

#[test]
fn calls_pass_a_route() {
    let service = Service::start();
    let configuration = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\nhttp2 = true\n\n[[site]]\n\
         names = [\"*\"]\nroot = \"{{dir}}\"\n\n[[site.route]]\npath = \"/*\"\nproxy = \"grpc://127.0.0.1:{}\"\n",
        service.1
    );
    let saker = operate::native(&configuration).start(TempDir::new("grpc-route").unwrap());
    assert_eq!(heard(saker.server.address(), "0"), HEARD);
}
