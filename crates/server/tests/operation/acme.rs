//! Automatic certificates from end to end: the server orders them from Pebble, proves its names,
//! and serves with what it got.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::databases;
use crate::operate;
use crate::operate::{ask, folder, reload, rewrite, start_in, stderr, wait_until};
use saker_testkit::{Client, Pebble, Saker, ServerProcess, Signal, TempDir, holds_for, require};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// From the start to a certificate, on a busy machine.
const ISSUE_TIME_MAX: Duration = Duration::from_secs(30);

/// A listener to talk to, and the two where Pebble looks; `acme` stands in [acme].
fn configuration(pebble: &Pebble, acme: &str, sites: &str) -> String {
    let directory = if acme.contains("directory =") {
        String::new()
    } else {
        format!("directory = \"{}\"\n", pebble.directory())
    };
    format!(
        "[server]\nworkers = 2\nstate_dir = \"{{dir}}/state\"\nlog_level = \"info\"\n\n\
         [acme]\n{directory}directory_ca = \"{}\"\n{acme}\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[listener]]\naddress = \"127.0.0.1:{}\"\n\n\
         [[listener]]\naddress = \"127.0.0.1:{}\"\ntls = true\n\n{sites}",
        pebble.directory_ca().display(),
        pebble.http_port,
        pebble.tls_port
    )
}

/// `more` stands in [[site]].
fn site(names: &str, more: &str) -> String {
    format!("[[site]]\nnames = [{names}]\nroot = \"{{dir}}/www\"\ntls.automatic = true\n{more}\n")
}

fn wait_for(server: &ServerProcess, text: &str) {
    server.wait_for_stderr(text, ISSUE_TIME_MAX).unwrap();
}

fn issued(server: &ServerProcess, names: &str) {
    wait_for(
        server,
        &format!("an automatic certificate was issued: {names}, by "),
    );
}

/// As a browser that trusts what Pebble signs.
fn fetch(pebble: &Pebble, name: &str) -> Output {
    let url = format!("https://{name}:{}/index.html", pebble.tls_port);
    let resolve = format!("{name}:{}:127.0.0.1", pebble.tls_port);
    let mut command = Command::new(require("curl").unwrap());
    command
        .args(["-sS", "-m", "30", "--resolve", &resolve])
        .arg("--cacert")
        .arg(pebble.root().unwrap());
    command.arg(url).output().unwrap()
}

fn is_served(pebble: &Pebble, name: &str) {
    let output = fetch(pebble, name);
    assert!(
        output.status.success() && output.stdout == b"<p>hello</p>\n",
        "{name}: {}",
        stderr(&output)
    );
}

fn state(saker: &Saker) -> PathBuf {
    saker.dir.join("state")
}

fn record(state: &Path, name: &str) -> Option<Value> {
    serde_json::from_str(
        &fs::read_to_string(state.join(format!("acme/certificates/{name}.json"))).ok()?,
    )
    .ok()
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                all_files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Over HTTP-01, though the site sends plain HTTP elsewhere; and what is left of it after a
/// restart.
#[test]
fn by_http_and_kept_over_a_restart() {
    let mut pebble = Pebble::new().unwrap();
    let redirect = "https_redirect = true\n";
    let text = configuration(
        &pebble,
        "challenges = [\"http-01\"]",
        &site("\"a.example\", \"b.example\"", redirect),
    );
    let saker = start_in(folder("acme-http"), &text);
    issued(&saker.server, "a.example, b.example");
    is_served(&pebble, "a.example");
    is_served(&pebble, "b.example");
    let plain = saker
        .connect()
        .unwrap()
        .request("GET", "/index.html", &[("Host", "a.example")])
        .unwrap();
    assert_eq!(plain.status, 308);
    for file in all_files(&state(&saker).join("acme")) {
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            file.display()
        );
    }
    let status = ask(&state(&saker), "status").unwrap();
    assert_eq!(
        status["certificates"][0]["names"],
        serde_json::json!(["a.example", "b.example"])
    );
    assert_eq!(
        status["counters"]["automatic_certificates_total{result=\"issued\"}"],
        1
    );
    let metrics = operate::saker([
        "status",
        "--prometheus",
        "--state-dir",
        &state(&saker).to_string_lossy(),
    ]);
    assert!(
        operate::stdout(&metrics).contains("saker_certificate_expiry_timestamp_seconds "),
        "{}",
        operate::stdout(&metrics)
    );
    let root = fs::read(pebble.root().unwrap()).unwrap();
    pebble.stop();
    let Saker { server, dir } = saker;
    assert!(server.stop().unwrap().success());
    // Without the authority: from disk, and before the first handshake.
    let _again = start_in(dir, &text);
    fs::write(pebble.folder.join("old-root.pem"), root).unwrap();
    let resolve = format!("a.example:{}:127.0.0.1", pebble.tls_port);
    let mut command = Command::new(require("curl").unwrap());
    command
        .args(["-sS", "-m", "20", "--resolve", &resolve])
        .arg("--cacert")
        .arg(pebble.folder.join("old-root.pem"));
    let output = command
        .arg(format!("https://a.example:{}/index.html", pebble.tls_port))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Started as root, it is another user who orders, and who keeps what comes of it.
#[test]
fn by_tls_alone_and_as_a_user() {
    let pebble = Pebble::new().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let text = configuration(
        &pebble,
        "challenges = [\"tls-alpn-01\"]",
        &site("\"a.example\"", ""),
    );
    let text = if is_root {
        text.replacen("[server]\n", "[server]\nuser = \"nobody\"\n", 1)
    } else {
        text
    };
    let saker = start_in(folder("acme-tls"), &text);
    issued(&saker.server, "a.example");
    is_served(&pebble, "a.example");
    // The folder is root's, and so closed to what else runs as that user; what is in it is not.
    let owner = if is_root {
        65_534
    } else {
        fs::metadata(state(&saker)).unwrap().uid()
    };
    assert_eq!(
        fs::metadata(state(&saker)).unwrap().uid(),
        rustix::process::geteuid().as_raw()
    );
    for file in all_files(&state(&saker).join("acme")) {
        assert_eq!(
            fs::metadata(&file).unwrap().uid(),
            owner,
            "{}",
            file.display()
        );
    }
    assert_ne!(owner, 0, "root keeps it");
}

#[test]
fn a_wildcard_by_a_record() {
    let pebble = Pebble::new().unwrap();
    let (command, log) = pebble.zone_command().unwrap();
    let acme = format!("dns_command = \"{command}\"\ndns_wait = \"0s\"");
    let saker = start_in(
        folder("acme-dns"),
        &configuration(&pebble, &acme, &site("\"*.a.example\"", "")),
    );
    issued(&saker.server, "*.a.example");
    is_served(&pebble, "one.a.example");
    // It may be cleared when the certificate is there already.
    saker_testkit::wait_for_text(log, |log| {
        log == "set _acme-challenge.a.example\nclear _acme-challenge.a.example\n"
    });
}

/// Challenge responses for the authority: on every listener and for every host, exempt from
/// redirects and limits.
#[test]
fn a_challenge_is_answered_before_anything_else() {
    let pebble = Pebble::new().unwrap();
    // Pebble looks here, and waits.
    let authority_looks = TcpListener::bind(("127.0.0.1", pebble.http_port)).unwrap();
    let more = "https_redirect = true\n[site.throttle]\nrequests_static = \"1/m\"\n";
    let text = configuration(
        &pebble,
        "challenges = [\"http-01\"]",
        &site("\"a.example\"", more),
    );
    let without = text.replacen(
        &format!(
            "[[listener]]\naddress = \"127.0.0.1:{}\"\n\n",
            pebble.http_port
        ),
        "",
        1,
    );
    let dir = folder("acme-answer");
    dir.write("www/.well-known/acme-challenge/other", "other")
        .unwrap();
    let saker = start_in(dir, &without);
    let (mut asking, _) = authority_looks.accept().unwrap();
    let mut piece = [0; 2048];
    let count = asking.read(&mut piece).unwrap();
    let path = String::from_utf8_lossy(&piece[..count])
        .split(' ')
        .nth(1)
        .unwrap()
        .to_owned();
    let token = path.strip_prefix("/.well-known/acme-challenge/").unwrap();
    let mut client = saker.connect().unwrap();
    for host in ["a.example", "nobody.example", "a.example"] {
        let found = client.request("GET", &path, &[("Host", host)]).unwrap();
        assert_eq!(
            (found.status, found.field("content-type")),
            (200, Some("application/octet-stream")),
            "{host}"
        );
        assert!(
            found.body.starts_with(format!("{token}.").as_bytes()),
            "{host}: {:?}",
            found.body
        );
    }
    let head = client
        .request("HEAD", &path, &[("Host", "a.example")])
        .unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    // Everything else there is the site's, as another program may put it there; and the site's
    // limit holds for it.
    for status in [200, 200, 429] {
        let other = client
            .request(
                "GET",
                "/.well-known/acme-challenge/other",
                &[("Host", "a.example")],
            )
            .unwrap();
        assert_eq!(other.status, status);
    }
    assert_eq!(
        client
            .request("GET", &path, &[("Host", "a.example")])
            .unwrap()
            .status,
        200
    );
    // The authority is told nonsense, and judges; from then on the path is the site's.
    asking
        .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    drop(asking);
    wait_for(
        &saker.server,
        "an automatic certificate was not issued: a.example",
    );
    let after = saker
        .connect()
        .unwrap()
        .request("GET", &path, &[("Host", "a.example")])
        .unwrap();
    assert!(
        after.status == 404 || after.status == 429,
        "{}",
        after.status
    );
}

/// The authority gets no answer and refuses; the server keeps serving, logs the reason, and does
/// not retry at once.
#[test]
fn a_refusal_is_said_and_remembered() {
    let pebble = Pebble::new().unwrap();
    let text = configuration(
        &pebble,
        "challenges = [\"http-01\"]",
        &site("\"a.example\", \"*\"", ""),
    );
    let text = text.replacen(&format!("127.0.0.1:{}", pebble.http_port), "127.0.0.1:0", 1);
    let saker = start_in(folder("acme-refused"), &text);
    wait_for(
        &saker.server,
        "an automatic certificate was not issued: a.example: ",
    );
    let said = saker.server.stderr();
    assert!(
        said.contains("SK0707") && said.contains("; next attempt "),
        "{said}"
    );
    assert_eq!(
        saker.connect().unwrap().get("/index.html").unwrap().status,
        200
    );
    let output = fetch(&pebble, "a.example");
    assert!(
        stderr(&output).contains("unrecognized name"),
        "{}",
        stderr(&output)
    );
    wait_for(&saker.server, "there is no certificate for a.example yet");
    let attempt_at = record(&state(&saker), "a.example").unwrap()["attempt_at"].clone();
    let Saker { server, dir } = saker;
    assert!(server.stop().unwrap().success());
    let again = start_in(dir, &text);
    holds_for("nothing is attempted", Duration::from_secs(1), || {
        record(&state(&again), "a.example").unwrap()["attempt_at"] == attempt_at
    });
    assert!(!again.server.stderr().contains("SK0707"));
    // The cause is mended, and the time has come.
    let Saker { server, dir } = again;
    assert!(server.stop().unwrap().success());
    let mut old = record(&dir.join("state"), "a.example").unwrap();
    old["attempt_at"] = 0.into();
    fs::write(
        dir.join("state/acme/certificates/a.example.json"),
        old.to_string(),
    )
    .unwrap();
    let mended = start_in(
        dir,
        &configuration(
            &pebble,
            "challenges = [\"http-01\"]",
            &site("\"a.example\", \"*\"", ""),
        ),
    );
    issued(&mended.server, "a.example");
    is_served(&pebble, "a.example");
}

/// An authority that says nothing holds up neither start, nor serving, nor reload, nor stop.
#[test]
fn a_silent_authority_holds_up_nobody() {
    let pebble = Pebble::new().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let acme = format!(
        "directory = \"https://localhost:{}/dir\"",
        silent.local_addr().unwrap().port()
    );
    let text = configuration(&pebble, &acme, &site("\"a.example\"", ""));
    let saker = start_in(folder("acme-silent"), &text);
    let held = silent.accept().unwrap();
    assert_eq!(
        saker.connect().unwrap().get("/index.html").unwrap().status,
        200
    );
    assert!(reload(&saker).status.success());
    let begun = Instant::now();
    assert!(saker.server.stop().unwrap().success());
    assert!(
        begun.elapsed() < Duration::from_secs(25),
        "{:?}",
        begun.elapsed()
    );
    drop(held);
}

/// The process dies while the order is open; the next one brings the same order to its end, with
/// the same key.
#[test]
fn an_order_survives_a_crash() {
    let pebble = Pebble::new().unwrap();
    let dir = folder("acme-crash");
    let (command, _) = pebble.zone_command().unwrap();
    let gate = dir.join("open");
    let script = format!(
        "[ \"$1\" = set ] && until [ -e {} ]; do sleep 0.05; done\nexec {command} \"$@\"\n",
        gate.display()
    );
    let script = dir.write("gate.sh", script).unwrap();
    let acme = format!(
        "dns_command = \"sh {}\"\ndns_wait = \"0s\"\nchallenges = [\"dns-01\"]",
        script.display()
    );
    let text = configuration(&pebble, &acme, &site("\"a.example\"", ""));
    let mut saker = start_in(dir, &text);
    let open_order = |state: &Path| {
        record(state, "a.example")
            .map(|record| record["order"].clone())
            .filter(|order| !order.is_null())
    };
    wait_until("an order is open", || open_order(&state(&saker)).is_some());
    saker.server.kill().unwrap();
    let order = open_order(&state(&saker)).unwrap();
    fs::write(&gate, "").unwrap();
    let Saker { server, dir } = saker;
    drop(server);
    let again = start_in(dir, &text);
    issued(&again.server, "a.example");
    let bundle = fs::read_to_string(state(&again).join("acme/certificates/a.example.pem")).unwrap();
    assert!(
        bundle.starts_with(order["key"].as_str().unwrap()),
        "another key"
    );
    is_served(&pebble, "a.example");
}

/// An ask rule that allows one name; what it was asked.
fn ask_rule() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let also_asked = Arc::clone(&asked);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut piece = [0; 2048];
            let count = stream.read(&mut piece).unwrap();
            let target = String::from_utf8_lossy(&piece[..count])
                .split(' ')
                .nth(1)
                .unwrap()
                .to_owned();
            let status = if target.ends_with("=yes.c.example") {
                "200 OK"
            } else {
                "403 Forbidden"
            };
            asked.lock().unwrap().push(target);
            let _ = stream.write_all(
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .as_bytes(),
            );
        }
    });
    (address, also_asked)
}

/// An account that the authority knows by other means (RFC 8555 section 7.3.4).
#[test]
fn accounts_are_bound_to_existing_ones() {
    let pebble = Pebble::with(0, true).unwrap();
    let sites = "[[site]]\nnames = [\"eab.example\"]\nroot = \"{dir}/www\"\ntls.automatic = true\n";
    let account = format!(
        "directory = {{ url = \"{}\", key_id = \"{}\", hmac_key = \"{}\" }}\nchallenges = [\"http-01\"]",
        pebble.directory(),
        saker_testkit::pebble::KEY_ID,
        saker_testkit::pebble::HMAC_KEY
    );
    let text = configuration(&pebble, &account, sites);
    let saker = start_in(folder("acme-bound"), &text);
    issued(&saker.server, "eab.example");
    is_served(&pebble, "eab.example");
    drop(saker);
    // Another key is refused by the authority, and nothing is issued.
    let wrong = text.replace("hmac_key = \"z", "hmac_key = \"y");
    let saker = start_in(folder("acme-unbound"), &wrong);
    wait_for(&saker.server, "SK0707");
}

/// This authority has no profiles.
#[test]
fn nothing_is_ordered_without_the_profile() {
    let pebble = Pebble::new().unwrap();
    let sites =
        "[[site]]\nnames = [\"brief.example\"]\nroot = \"{dir}/www\"\ntls.automatic = true\n";
    let directory = format!(
        "directory = {{ url = \"{}\", profile = \"shortlived\" }}\nchallenges = [\"http-01\"]",
        pebble.directory()
    );
    let text = configuration(&pebble, &directory, sites);
    let saker = start_in(folder("acme-profile"), &text);
    wait_for(&saker.server, "it offers no profiles, and not shortlived");
}

#[test]
fn on_demand_if_the_rule_allows() {
    let pebble = Pebble::new().unwrap();
    let (rule, asked) = ask_rule();
    let sites = "[[site]]\nnames = [\"*.c.example\"]\nroot = \"{dir}/www\"\ntls.automatic = \"on-demand\"\n";
    let text = configuration(
        &pebble,
        &format!("ask = \"http://{rule}/may\"\nchallenges = [\"http-01\"]"),
        sites,
    );
    let saker = start_in(folder("acme-demand"), &text);
    thread::scope(|scope| {
        let fetches = [(), (), ()].map(|()| scope.spawn(|| is_served(&pebble, "yes.c.example")));
        fetches.into_iter().for_each(|fetch| fetch.join().unwrap());
    });
    for _ in 0..2 {
        let begun = Instant::now();
        let output = fetch(&pebble, "no.c.example");
        assert!(
            !output.status.success() && stderr(&output).contains("unrecognized name"),
            "{}",
            stderr(&output)
        );
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "{:?}",
            begun.elapsed()
        );
    }
    assert!(!fetch(&pebble, "elsewhere.example").status.success());
    assert_eq!(
        *asked.lock().unwrap(),
        ["/may?domain=yes.c.example", "/may?domain=no.c.example"]
    );
    wait_for(&saker.server, "no.c.example: the ask rule answers 403");
    let said = saker.server.stderr();
    assert!(
        said.contains("SK0709") && said.contains("no.c.example: the ask rule answers 403"),
        "{said}"
    );
}

/// For a site whose hosts are in a database, the database decides; an added host has its
/// certificate at the next handshake.
#[test]
fn on_demand_if_the_database_knows_the_host() {
    let pebble = Pebble::new().unwrap();
    let dir = folder("acme-hosts");
    let database = databases::Sqlite::start(&dir);
    let root = dir.join("www").display().to_string();
    let row = |name: &str, suspended: u8| {
        format!("INSERT INTO hosts VALUES ('{name}.c.example', '{root}', {suspended});")
    };
    assert!(database.ask(&format!(
        "CREATE TABLE hosts (name TEXT, root TEXT, suspended INT); {} {}",
        row("yes", 0),
        row("gone", 1)
    )));
    let sites = format!(
        "[[site]]\nnames = [\"*.c.example\"]\nlookup = true\ntls.automatic = \"on-demand\"\n\n[dynamic_vhosts]\ndatabase = \"{}\"\n\
         query = \"SELECT root, suspended FROM hosts WHERE name = ?\"\nroots = [\"{{dir}}\"]\nkeep_missing = \"50ms\"\n",
        database.url()
    );
    let saker = start_in(
        dir,
        &configuration(&pebble, "challenges = [\"http-01\"]", &sites),
    );
    is_served(&pebble, "yes.c.example");
    for name in ["no.c.example", "gone.c.example"] {
        let output = fetch(&pebble, name);
        assert!(
            !output.status.success() && stderr(&output).contains("unrecognized name"),
            "{name}: {}",
            stderr(&output)
        );
    }
    assert!(database.ask(&row("no", 0)));
    wait_until("the host that was added has a certificate", || {
        fetch(&pebble, "no.c.example").status.success()
    });
    wait_for(&saker.server, "gone.c.example: the host is suspended");
    let said = saker.server.stderr();
    assert!(
        said.contains("no.c.example: the database of hosts does not know it")
            && said.contains("gone.c.example: the host is suspended"),
        "{said}"
    );
}

/// From nothing automatic to a certificate, then to one more, with the first still in use.
#[test]
fn sites_come_by_reload() {
    let pebble = Pebble::new().unwrap();
    let acme = "challenges = [\"http-01\"]";
    let own = "[[site]]\nnames = [\"*\"]\nroot = \"{dir}/www\"\ntls.automatic = \"local\"\n";
    let saker = start_in(folder("acme-reload"), &configuration(&pebble, acme, own));
    let both = [site("\"a.example\"", ""), site("\"b.example\"", "")];
    for (count, newest) in [(1, "a.example"), (2, "b.example")] {
        rewrite(
            &saker,
            &configuration(&pebble, acme, &format!("{}{own}", both[..count].concat())),
        );
        let output = reload(&saker);
        assert!(output.status.success(), "{}", stderr(&output));
        issued(&saker.server, newest);
        is_served(&pebble, newest);
        is_served(&pebble, "a.example");
    }
    rewrite(
        &saker,
        &configuration(
            &pebble,
            &format!("{acme}\nemail = \"nobody\""),
            &both.concat(),
        ),
    );
    assert!(!reload(&saker).status.success());
    is_served(&pebble, "b.example");
}

#[test]
fn serve_with_a_domain() {
    let pebble = Pebble::new().unwrap();
    let dir: TempDir = folder("acme-serve");
    let addresses =
        [pebble.http_port, pebble.tls_port].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let [http, https] = addresses.map(|address| address.to_string());
    let server = operate::serve(&[
        "--http",
        &http,
        "--https",
        &https,
        "--state-dir",
        "{dir}/state",
        "--authority",
        &pebble.directory(),
        "--domain",
        "a.example",
        "{dir}/www",
    ])
    .env("SSL_CERT_FILE", pebble.directory_ca())
    .at(addresses[0])
    .start_in(&dir);
    issued(&server, "a.example");
    is_served(&pebble, "a.example");
    assert_eq!(
        Client::connect(addresses[0])
            .unwrap()
            .get("/index.html")
            .unwrap()
            .status,
        200
    );
    server.signal(Signal::TERM).unwrap();
}
