//! `[[stream]]` in the life of a server: alone, over reloads and upgrades, and in the commands.
//!
//! Called by: `cargo test -p saker --test operation streams::`.
//! Caveat: sessions are TCP connections to a server of the test that sends back what it hears.
//! Out of scope: what streams do (`serving streams`).

use crate::{
    operate::{self, PATIENCE, folder, wait_until},
    upgrade::State,
};
use saker_testkit::{Saker, free_port};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
};

/// A server that says its name, and then what it hears.
fn named(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let _ = stream.write_all(name.as_bytes());
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..bytes]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

fn named_udp(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(name.as_bytes(), from);
        }
    });
    address
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

/// The name of the server, which it says first; `None`: there is none.
fn name(stream: &mut TcpStream) -> Option<char> {
    let mut first = [0; 1];
    stream.read_exact(&mut first).ok()?;
    Some(char::from(first[0]))
}

fn echoes(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(String::from_utf8_lossy(&heard), text);
}

fn asked(address: SocketAddr) -> Option<String> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(b"x").ok()?;
    let mut buffer = [0; 64];
    let bytes = socket.recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
}

fn own_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()))
}

#[test]
fn streams_alone_are_a_configuration() {
    let dir = folder("streams-alone");
    let (a, at) = (named("a"), own_address());
    dir.write(
        "saker.toml",
        format!(
            "[server]\nworkers = 1\nsandbox = \"on\"\nstate_dir = \"{}/state\"\n[[stream]]\nlisten = \"{at}\"\nproxy = \"{a}\"\n",
            dir.display()
        ),
    )
    .unwrap();
    let path = dir.join("saker.toml").to_string_lossy().into_owned();
    let checked = operate::saker(["check", "-c", &path]);
    assert!(checked.status.success(), "{}", operate::stderr(&checked));
    let mut command = std::process::Command::new(operate::SAKER);
    command.args(["run", "-c", &path]);
    command.env("TMPDIR", dir.temporary_files().unwrap());
    let server = saker_testkit::ServerProcess::start(&mut command, at).unwrap();
    let mut stream = connect(at).unwrap();
    assert_eq!(name(&mut stream), Some('a'));
    echoes(&mut stream, "through");
    drop(stream);
    assert!(server.stop().unwrap().success());
}

#[test]
fn a_reload_keeps_connections_and_counts() {
    let (a, b, u) = (named("a"), named("b"), named_udp("u"));
    let (at, moved, udp) = (own_address(), own_address(), own_address());
    let text = |streams: &str| operate::configuration("workers = 1", "") + streams;
    let first =
        format!("[[stream]]\nname = \"s\"\nlisten = \"{at}\"\nproxy = \"{a}\"\nconnections = 2\n");
    let saker = operate::start("streams-reload", &text(&first));
    let (mut one, mut two) = (connect(at).unwrap(), connect(at).unwrap());
    assert_eq!((name(&mut one), name(&mut two)), (Some('a'), Some('a')));
    let second = format!(
        "[[stream]]\nname = \"s\"\nlisten = [\"{at}\", \"{moved}\"]\nproxy = \"{b}\"\nconnections = 2\n\
         [[stream]]\nlisten = \"udp:{udp}\"\nproxy = \"{u}\"\n"
    );
    operate::rewrite(&saker, &text(&second));
    let output = operate::reload(&saker);
    assert!(output.status.success(), "{}", operate::stderr(&output));
    // Those that are open stay with their server, and are counted.
    echoes(&mut one, "still");
    assert_eq!(name(&mut connect(at).unwrap()), None, "two are open");
    drop(two);
    wait_until("a place is free, for the new server", || {
        connect(moved).and_then(|mut stream| name(&mut stream)) == Some('b')
    });
    assert_eq!(asked(udp).as_deref(), Some("u"));
    // A broken configuration changes nothing.
    operate::rewrite(
        &saker,
        &text("[[stream]]\nlisten = \"127.0.0.1\"\nproxy = \"x\"\n"),
    );
    assert!(!operate::reload(&saker).status.success());
    echoes(&mut one, "still");
    // An address that is gone takes no connection; what is open goes on.
    operate::rewrite(
        &saker,
        &text(&format!(
            "[[stream]]\nlisten = \"{moved}\"\nproxy = \"{b}\"\n"
        )),
    );
    let output = operate::reload(&saker);
    assert!(output.status.success(), "{}", operate::stderr(&output));
    wait_until("nobody listens", || TcpStream::connect(at).is_err());
    echoes(&mut one, "to the end");
}

#[test]
fn an_upgrade_takes_the_sockets_over() {
    let (a, u) = (named("a"), named_udp("u"));
    let (at, udp) = (own_address(), own_address());
    let streams = format!(
        "[[stream]]\nlisten = [\"{at}\"]\nproxy = \"{a}\"\n[[stream]]\nlisten = \"udp:{udp}\"\nproxy = \"{u}\"\n"
    );
    let text = operate::configuration("workers = 1\nshutdown_timeout = \"60s\"", "") + &streams;
    let saker: Saker = operate::start("streams-upgrade", &text);
    let state = State::of(&saker);
    let mut open = connect(at).unwrap();
    assert_eq!(name(&mut open), Some('a'));
    let before = state.pid();
    let folder = state.0.to_string_lossy().into_owned();
    let output = operate::saker(["upgrade", "--state-dir", &folder]);
    assert!(output.status.success(), "{}", operate::stderr(&output));
    assert_ne!(state.pid(), before);
    // Nothing is refused meanwhile, and what was open goes on.
    assert_eq!(name(&mut connect(at).unwrap()), Some('a'));
    assert_eq!(asked(udp).as_deref(), Some("u"));
    echoes(&mut open, "still");
}

#[test]
fn commands_know_streams() {
    let dir = folder("streams-commands");
    let path = dir.join("saker.toml").to_string_lossy().into_owned();
    let text = "[[stream]]\nlisten=\"127.0.0.1:7001\"\nproxy=\"10.0.0.1:6379\"\n[[stream.route]]\nsni=[\"a.test\"]\nproxy=\"10.0.0.2:443\"\n";
    fs::write(&path, text).unwrap();
    let expanded = operate::saker(["config", "--expanded", "-c", &path]);
    let shown = operate::stdout(&expanded);
    assert!(expanded.status.success(), "{}", operate::stderr(&expanded));
    assert!(
        shown.contains("[[stream.route]]") && shown.contains("sni = [\"a.test\"]"),
        "{shown}"
    );
    let schema = operate::stdout(&operate::saker(["schema"]));
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let keys = &schema["$defs"]["stream"]["properties"];
    assert!(
        keys["listen"].is_object() && keys["route"]["type"] == "array",
        "{keys}"
    );
    let explain = |url: &str| operate::saker(["explain", "-c", &path, url]);
    let shown = operate::stdout(&explain("tls://A.test:7001"));
    assert!(
        shown.contains("sni a.test matches") && shown.contains("to 10.0.0.2:443"),
        "{shown}"
    );
    let shown = operate::stdout(&explain("tcp://127.0.0.1:7001"));
    assert!(
        shown.contains("sni a.test does not match") && shown.contains("to 10.0.0.1:6379"),
        "{shown}"
    );
    for (url, why) in [
        (
            "udp://127.0.0.1:7001",
            "no [[stream]] listens on 127.0.0.1:7001 (udp)",
        ),
        ("tcp://127.0.0.2:7001", "no [[stream]] listens"),
        ("tcp://127.0.0.1", "no port"),
    ] {
        let output = explain(url);
        assert!(!output.status.success(), "{url}");
        assert!(
            operate::stderr(&output).contains(why),
            "{url}: {}",
            operate::stderr(&output)
        );
    }
    assert!(operate::saker(["fmt", &path]).status.success());
    let formatted = fs::read_to_string(&path).unwrap();
    assert!(
        formatted.contains("listen = \"127.0.0.1:7001\""),
        "{formatted}"
    );
    assert!(operate::saker(["check", "-c", &path]).status.success());
}
