//! Certificates from Pebble: by each challenge, on demand, with what may go wrong on the way.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::authority::{Authority, Running, site, until};
use saker_acme::{Denied, Event};
use saker_testkit::pebble::{HMAC_KEY, KEY_ID};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

fn names_in(chain_pem: &str, names: &[&str]) -> bool {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .flatten()
        .collect();
    let has = |name: &str| {
        certificates[0]
            .windows(name.len())
            .any(|window| window == name.as_bytes())
    };
    certificates.len() >= 2 && names.iter().all(|name| has(name))
}

fn all_files(folder: &Path) -> Vec<std::path::PathBuf> {
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

#[tokio::test]
async fn http_01_and_after_a_restart_from_disk() {
    let mut authority = Authority::new();
    let plan = authority.plan(
        "challenges = [\"http-01\"]\nemail = \"a@b.example\"",
        &site(&["a.example", "b.example"]),
    );
    let mut running = Running::start(&authority, plan.clone(), true);
    assert_eq!(running.issued().await, ["a.example", "b.example"]);
    let (names, chain, key) = running.site.installed.lock().unwrap()[0].clone();
    assert!(names == ["a.example", "b.example"] && names_in(&chain, &["a.example", "b.example"]));
    assert!(running.challenges.http01("anything").is_none());
    let files = all_files(&authority.state_dir());
    assert!(files.len() >= 4, "{files:?}");
    for file in &files {
        assert_eq!(
            fs::metadata(file).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            file.display()
        );
    }
    assert_eq!(
        fs::metadata(authority.certificates())
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
    running.crash().await;
    authority.stop();
    let again = Running::start(&authority, plan, false);
    assert!(
        *again.site.installed.lock().unwrap() == [(names, chain, key)],
        "what is on disk is installed without the authority"
    );
}

#[tokio::test]
async fn tls_alpn_01_though_nonces_are_refused() {
    let authority = Authority::with(20, false);
    let mut running = Running::start(
        &authority,
        authority.plan("challenges = [\"tls-alpn-01\"]", &site(&["a.example"])),
        true,
    );
    assert_eq!(running.issued().await, ["a.example"]);
    assert!(!running.site.has_challenges());
}

#[tokio::test]
async fn dns_01_for_a_wildcard() {
    let authority = Authority::new();
    let (command, log) = authority.zone_command().unwrap();
    let acme = format!("dns_command = \"{command}\"\ndns_wait = \"0s\"\nchallenges = [\"dns-01\"]");
    let mut running = Running::start(
        &authority,
        authority.plan(&acme, &site(&["*.a.example", "b.example"])),
        false,
    );
    assert_eq!(running.issued().await, ["*.a.example", "b.example"]);
    let mut called: Vec<String> = fs::read_to_string(log)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    called.sort();
    let (a, b) = ("_acme-challenge.a.example", "_acme-challenge.b.example");
    assert_eq!(
        called,
        [
            format!("clear {a}"),
            format!("clear {b}"),
            format!("set {a}"),
            format!("set {b}")
        ]
    );
}

#[tokio::test]
async fn a_dns_command_that_fails_says_so() {
    let authority = Authority::new();
    let plan = authority.plan(
        "dns_command = \"false\"\nchallenges = [\"dns-01\"]",
        &site(&["*.a.example"]),
    );
    let (reason, _) = Running::start(&authority, plan, false).failed().await;
    assert!(
        reason.contains("false set") && reason.contains("exit status: 1"),
        "{reason}"
    );
}

#[tokio::test]
async fn an_account_that_the_authority_knows() {
    let authority = Authority::with(0, true);
    let acme = |key: &str| {
        let url = authority.directory();
        format!(
            "directory = {{ url = \"{url}\", key_id = \"{KEY_ID}\", hmac_key = \"{key}\" }}\nchallenges = [\"http-01\"]"
        )
    };
    let mut bad = Running::start(
        &authority,
        authority.plan(&acme("c2VjcmV0"), &site(&["a.example"])),
        false,
    );
    let (reason, _) = bad.failed().await;
    assert!(reason.starts_with("no account"), "{reason}");
    bad.crash().await;
    let mut good = Running::start(
        &authority,
        authority.plan(&acme(HMAC_KEY), &site(&["b.example"])),
        true,
    );
    assert_eq!(good.issued().await, ["b.example"]);
}

#[tokio::test]
async fn an_account_that_the_authority_forgot_is_made_anew() {
    let mut authority = Authority::new();
    let plan = |names: &[&str]| authority.plan("challenges = [\"http-01\"]", &site(names));
    let (first, second) = (plan(&["a.example"]), plan(&["b.example"]));
    let mut running = Running::start(&authority, first, true);
    running.issued().await;
    let account = |authority: &Authority| {
        fs::read_to_string(&all_files(&authority.state_dir().join("acme/accounts"))[0]).unwrap()
    };
    let old = account(&authority);
    authority.stop();
    authority.start().unwrap();
    running.handle.set_plan(second);
    assert_eq!(running.issued().await, ["b.example"]);
    assert_ne!(account(&authority), old);
}

#[tokio::test]
async fn certificates_of_sites_that_are_gone_are_not_shown() {
    let authority = Authority::new();
    let plan = |sites: &[&[&str]]| {
        authority.plan(
            "challenges = [\"http-01\"]",
            &sites.iter().map(|names| site(names)).collect::<String>(),
        )
    };
    let all: [&[&str]; 2] = [&["a.example", "b.example"], &["c.example"]];
    let mut running = Running::start(&authority, plan(&all), true);
    let mut issued = [running.issued().await, running.issued().await].concat();
    issued.sort();
    assert_eq!(issued, ["a.example", "b.example", "c.example"]);
    running.handle.set_plan(plan(&all[1..]));
    let only_c = || {
        running
            .site
            .installed_names()
            .iter()
            .flatten()
            .all(|name| name == "c.example")
    };
    until("the certificate of c.example alone", only_c).await;
    assert!(!running.site.installed_names().is_empty());
    // The site comes back, and so does its certificate, without an order.
    assert!(authority.certificates().join("c.example.pem").exists());
    running.handle.set_plan(plan(&all));
    let is_back = || {
        running
            .site
            .installed_names()
            .iter()
            .flatten()
            .any(|name| name == "a.example")
    };
    until("the certificate of a.example", is_back).await;
}

#[tokio::test]
async fn what_the_server_refuses_is_not_kept() {
    let authority = Authority::new();
    let mut running = Running::start(
        &authority,
        authority.plan("challenges = [\"http-01\"]", &site(&["a.example"])),
        true,
    );
    *running.site.refuses.lock().unwrap() = true;
    let (reason, _) = running.failed().await;
    assert!(reason.contains("not wanted"), "{reason}");
    assert!(!authority.certificates().join("a.example.pem").exists());
}

/// An ask rule that allows names with an `a`; the targets that it was asked for.
fn ask_rule() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ask", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let also_asked = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut piece = [0; 2048];
            let count = stream.read(&mut piece).unwrap();
            let target = String::from_utf8_lossy(&piece[..count])
                .split(' ')
                .nth(1)
                .unwrap()
                .to_owned();
            let status = if target.ends_with("=a.c.example") {
                "200 OK"
            } else {
                "403 Forbidden"
            };
            asked.lock().unwrap().push(target);
            let _: Result<(), _> = stream
                .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    (url, also_asked)
}

#[tokio::test]
async fn on_demand_once_for_many_handshakes_if_the_rule_allows() {
    let authority = Authority::new();
    let (url, asked) = ask_rule();
    let sites =
        "[[site]]\nnames = [\"*.c.example\"]\nroot = \"/\"\ntls.automatic = \"on-demand\"\n";
    let plan = authority.plan(
        &format!("ask = \"{url}\"\nchallenges = [\"http-01\"]"),
        sites,
    );
    let mut running = Running::start(&authority, plan.clone(), true);
    let handle = &running.handle;
    let (first, second, third) = tokio::join!(
        handle.obtain("a.c.example"),
        handle.obtain("A.C.Example"),
        handle.obtain("a.c.example.")
    );
    assert_eq!((first, second, third), (Ok(()), Ok(()), Ok(())));
    assert_eq!(running.site.installed_names(), [["a.c.example"]]);
    assert_eq!(handle.obtain("b.c.example").await, Err(Denied::Forbidden));
    assert_eq!(handle.obtain("b.c.example").await, Err(Denied::Forbidden));
    assert_eq!(handle.obtain("c.example").await, Err(Denied::NotMeant));
    assert_eq!(
        *asked.lock().unwrap(),
        ["/ask?domain=a.c.example", "/ask?domain=b.c.example"]
    );
    assert_eq!(running.issued().await, ["a.c.example"]);
    assert!(
        matches!(running.event().await, Event::Forbidden { name, .. } if name == "b.c.example")
    );
    running.crash().await;
    let again = Running::start(&authority, plan, false);
    assert_eq!(again.site.installed_names(), [["a.c.example"]]);
}

#[tokio::test]
async fn on_demand_after_the_end_of_the_manager() {
    let authority = Authority::new();
    let (url, _) = ask_rule();
    let sites = "[[site]]\nroot = \"/\"\ntls.automatic = \"on-demand\"\n";
    let running = Running::start(
        &authority,
        authority.plan(&format!("ask = \"{url}\""), sites),
        false,
    );
    let handle = running.handle.clone();
    running.crash().await;
    let denied = tokio::time::timeout(Duration::from_secs(5), handle.obtain("a.c.example")).await;
    assert_eq!(denied, Ok(Err(Denied::Stopping)));
}
