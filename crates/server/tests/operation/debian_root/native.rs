//! The same by `saker.toml`: logs in a folder of root's and adm's, keys of root's alone, new sites
//! with low ports by reload, rotation.
// The whole file is tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::{
    load::Load,
    machine::{self, Machine, owners, run, text, users_of, with_rights_of},
};
use crate::operate::{PATIENCE, ask, saker, wait_until};
use saker_testkit::{Client, ServerProcess, Signal};
use std::{fs, net::SocketAddr, path::Path, process::Command};

const CONFIGURATION: &str = "/etc/saker/saker.toml";
const STATE: &str = "/run/saker";
const LOGS: &str = "/var/log/saker";
const SITES: u16 = 10;
const WWW_DATA: u32 = 33;
const PAGE: &str = "<p>first</p>\n";

#[test]
#[ignore = "changes what it can reach; run on a machine of its own"]
fn on_a_machine() {
    let machine = Machine::lay_out("debian-native");
    run(
        "install",
        ["-d", "-m", "750", "-o", "root", "-g", "adm", LOGS],
    );
    prepare(&machine);
    let mut command = with_rights_of("saker.service");
    command.args(["run", "-c", CONFIGURATION]);
    let server =
        ServerProcess::start(&mut command, SocketAddr::from(([127, 0, 0, 1], 80))).unwrap();
    server.wait_until_ready(Path::new(STATE)).unwrap();
    assert_eq!(
        users_of(server.pid()),
        [WWW_DATA, 0, 0],
        "the server, its broker, and the launcher"
    );
    let load = Load::start(80, 443, PAGE);
    for number in 1..=SITES {
        add_site(&machine, &server, number);
    }
    rotate(&server);
    let requests = load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", server.stderr()));
    assert!(requests > 100, "{requests} requests");
    for line in owners(LOGS) {
        assert!(
            line.contains(" root:adm ") || line.contains(" root:root "),
            "{line}"
        );
    }
    let second = successor(&machine, server);
    upgraded(second);
    assert_eq!(get(80 + SITES, &site(SITES)), format!("{}\n", site(SITES)));
    let stopped = saker(["stop", "-c", CONFIGURATION]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    assert!(Client::connect(SocketAddr::from(([127, 0, 0, 1], 80))).is_err());
}

/// Another server, started by root beside one that waits for a download as www-data, has its ports
/// and its state directory at once.
fn successor(machine: &Machine, mut first: ServerProcess) -> ServerProcess {
    let content = vec![b'x'; 24 << 20];
    fs::write("/var/www/html/large.bin", &content).unwrap();
    let got = machine.dir.join("got.bin");
    let words = [
        "-sS",
        "--limit-rate",
        "8M",
        "-o",
        &got.to_string_lossy(),
        "http://127.0.0.1/large.bin",
    ]
    .map(str::to_owned);
    let mut download = Command::new("curl").args(words).spawn().unwrap();
    wait_until("the download has begun", || {
        got.metadata().is_ok_and(|found| found.len() > 0)
    });
    first.signal(Signal::TERM).unwrap();
    wait_until("it stops", || {
        fs::read_to_string(format!("{LOGS}/error.log")).is_ok_and(|text| text.contains("SK0103"))
    });
    let second = ServerProcess::start(
        with_rights_of("saker.service").args(["run", "-c", CONFIGURATION]),
        first.address(),
    )
    .unwrap();
    second.wait_until_ready(Path::new(STATE)).unwrap();
    assert!(download.wait().unwrap().success());
    assert!(
        fs::read(&got).unwrap() == content,
        "the download is not whole"
    );
    assert_eq!(
        first
            .wait_for_exit(PATIENCE)
            .unwrap()
            .and_then(|status| status.code()),
        Some(0)
    );
    let log = fs::read_to_string(format!("{LOGS}/error.log")).unwrap();
    assert!(log.contains("SK0115"), "{log}\n{}", second.stderr());
    second
}

/// A server that root started is upgraded by root: the new one has a broker of its own, ends up as
/// the same user, and reloads what only root may open.
fn upgraded(mut before: ServerProcess) {
    let said = saker(["upgrade", "-c", CONFIGURATION]);
    assert!(
        said.status.success(),
        "{}\n{}",
        text(&said),
        before.stderr()
    );
    let status = ask(Path::new(STATE), "status").unwrap();
    let pid = u32::try_from(status["pid"].as_u64().unwrap()).unwrap();
    assert_ne!(pid, before.pid());
    assert_eq!(
        users_of(pid),
        [WWW_DATA, 0, 0],
        "the server, its broker, and the launcher"
    );
    assert_eq!(
        before
            .wait_for_exit(PATIENCE)
            .unwrap()
            .and_then(|status| status.code()),
        Some(0)
    );
    assert_eq!(get(80, "localhost"), PAGE);
    let reloaded = saker(["reload", "-c", CONFIGURATION]);
    assert!(reloaded.status.success(), "{}", text(&reloaded));
    // Users of the server's group alone, as before.
    let refused = Command::new("setpriv")
        .args(["--reuid=www-data", "--regid=www-data", "--clear-groups"])
        .args([crate::operate::SAKER, "upgrade", "--state-dir", STATE])
        .output()
        .unwrap();
    assert!(!refused.status.success(), "{}", text(&refused));
}

fn site(number: u16) -> String {
    format!("site{number}.example")
}

fn prepare(machine: &Machine) {
    let (certificate, key) = machine.certificate("localhost");
    fs::create_dir_all("/etc/saker").unwrap();
    fs::write("/var/www/html/index.html", PAGE).unwrap();
    let text = format!(
        "[server]\nuser = \"www-data\"\ngroup = \"www-data\"\nstate_dir = \"{STATE}\"\nerror_log = \"{LOGS}/error.log\"\n\n\
         [[listener]]\naddress = \"127.0.0.1:80\"\n\n[[listener]]\naddress = \"127.0.0.1:443\"\ntls = true\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"/var/www/html\"\naccess_log = \"{LOGS}/access.log\"\n\
         tls.certificate = \"{}\"\ntls.key = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    fs::write(CONFIGURATION, &text).unwrap();
    run("chmod", ["640", CONFIGURATION]);
}

fn add_site(machine: &Machine, server: &ServerProcess, number: u16) {
    let (name, port) = (site(number), 80 + number);
    let (certificate, key) = machine.certificate(&name);
    let root = format!("/var/www/{name}");
    fs::create_dir_all(&root).unwrap();
    fs::write(format!("{root}/index.html"), format!("{name}\n")).unwrap();
    let more = format!(
        "\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n\n[[site]]\nnames = [\"{name}\"]\nroot = \"{root}\"\naccess_log = \"{LOGS}/{name}.log\"\n\
         tls.certificate = \"{}\"\ntls.key = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    let text = fs::read_to_string(CONFIGURATION).unwrap() + &more;
    fs::write(CONFIGURATION, text).unwrap();
    let reloaded = saker(["reload", "-c", CONFIGURATION]);
    assert!(
        reloaded.status.success(),
        "{name}: {}",
        machine::text(&reloaded)
    );
    assert_eq!(get(port, &name), format!("{name}\n"), "{}", server.stderr());
    let (resolve, file) = (
        format!("{name}:443:127.0.0.1"),
        certificate.display().to_string(),
    );
    let words = [
        "-sS",
        "-m",
        "30",
        "--resolve",
        &resolve,
        "--cacert",
        &file,
        &format!("https://{name}/"),
    ]
    .map(str::to_owned);
    assert_eq!(
        machine::text(&Command::new("curl").args(words).output().unwrap()),
        format!("{name}\n")
    );
    let log = format!("{LOGS}/{name}.log");
    wait_until(&format!("{log} has its lines"), || {
        fs::read_to_string(&log).is_ok_and(|text| text.lines().count() >= 2)
    });
}

fn get(port: u16, host: &str) -> String {
    let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    client
        .send(format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
        .unwrap();
    client.read_response().unwrap().text()
}

/// As the documentation has it, with files of root's that logrotate makes.
fn rotate(server: &ServerProcess) {
    let rules = format!(
        "{LOGS}/*.log {{\nrotate 3\ncreate 640 root adm\nsharedscripts\npostrotate\nkill -USR1 {}\nendscript\n}}\n",
        server.pid()
    );
    fs::write("/etc/logrotate.d/saker", rules).unwrap();
    run("logrotate", ["-f", "/etc/logrotate.d/saker"]);
    let log = format!("{LOGS}/access.log");
    wait_until("lines are in the file that logrotate has made", || {
        fs::metadata(&log).is_ok_and(|found| found.len() > 0)
    });
}
