//! Log-in (`[site.auth]`) beyond what scenarios can say: users in a database, Digest with a real
//! client, files that change, and many wrong passwords at a time.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, Saker, require};
use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

const HASH: &str = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/";

fn site(rules: &str) -> String {
    operate::configuration("workers = 1", &format!("[site.auth]\n{rules}\n"))
}

fn sqlite(database: &Path, statements: &str) {
    let status = Command::new(require("sqlite3").unwrap())
        .arg(database)
        .arg(statements)
        .status()
        .unwrap();
    assert!(status.success());
}

/// The status for a path with credentials; `""`: none.
fn status(saker: &Saker, path: &str, credentials: &str) -> u16 {
    let mut client = Client::connect(saker.server.address()).unwrap();
    status_of(&mut client, path, credentials)
}

fn status_of(client: &mut Client, path: &str, credentials: &str) -> u16 {
    let value = format!("Basic {}", base64(credentials.as_bytes()));
    let fields = [("Authorization", value.as_str())];
    let fields = match credentials {
        "" => &[][..],
        _ => &fields[..],
    };
    client.request("GET", path, fields).unwrap().status
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let bits = piece
            .iter()
            .chain(&[0, 0])
            .take(3)
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for at in 0..4 {
            match at <= piece.len() {
                true => text.push(char::from(LETTERS[bits >> (18 - 6 * at) & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

#[test]
fn users_in_a_database() {
    let dir = operate::folder("auth-database");
    let database = dir.join("users.db");
    sqlite(
        &database,
        &format!(
            "CREATE TABLE users(name, password); CREATE TABLE memberships(user, name); \
             INSERT INTO users VALUES('ann', '{HASH}'), ('bob', '{HASH}'), ('eve', NULL); \
             INSERT INTO memberships VALUES('ann', 'other'), ('ann', 'staff');"
        ),
    );
    let rules = "database = \"sqlite://{dir}/users.db\"\nquery = \"SELECT password FROM users WHERE name = ?\"\n\
                 group_query = \"SELECT name FROM memberships WHERE user = ?\"\n\n[[site.route]]\npath = \"/staff/*\"\n\
                 [site.route.auth]\ngroups = [\"staff\"]\n";
    dir.write("www/staff/a.txt", "staff\n").unwrap();
    let saker = operate::start_in(dir, &site(rules));
    for (path, credentials, expected) in [
        ("/index.html", "", 401),
        ("/index.html", "ann:secret", 200),
        ("/index.html", "ann:wrong", 401),
        ("/index.html", "ann:", 401),
        ("/index.html", "nobody:secret", 401),
        ("/index.html", "eve:", 401),
        ("/index.html", "' OR 1=1 --:secret", 401),
        ("/index.html", "bob:secret", 200),
        ("/staff/a.txt", "ann:secret", 200),
        ("/staff/a.txt", "bob:secret", 401),
    ] {
        assert_eq!(
            status(&saker, path, credentials),
            expected,
            "{path} {credentials}"
        );
    }
    // Removed users are out with the next request.
    sqlite(&database, "DELETE FROM users WHERE name = 'bob'");
    assert_eq!(status(&saker, "/index.html", "bob:secret"), 401);
    // Without the table there is no answer, and no access.
    sqlite(&database, "DROP TABLE users");
    assert_eq!(status(&saker, "/index.html", "ann:secret"), 500);
}

#[test]
fn digest_with_a_client() {
    let dir = operate::folder("auth-digest");
    // MD5 of ann:Staff only:secret
    dir.write(
        "digests",
        "ann:Staff only:9bb53502272b49102b5786903b88c590\n",
    )
    .unwrap();
    let rules = "scheme = \"digest\"\nrealm = \"Staff only\"\nuser_file = \"digests\"\n";
    let saker = operate::start_in(dir, &site(rules));
    let ask = |credentials: &str| {
        let output = Command::new(require("curl").unwrap())
            .args([
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "--digest",
                "-u",
                credentials,
            ])
            .arg(format!("http://{}/index.html?a=1", saker.server.address()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(ask("ann:secret"), "200");
    assert_eq!(ask("ann:wrong"), "401");
    assert_eq!(ask("bob:secret"), "401");
    assert_eq!(status(&saker, "/index.html", "ann:secret"), 401, "Basic");
}

/// A decision that waits for a hash is made again: what was sent in the meantime must not count.
#[test]
fn many_passwords_at_a_time() {
    let dir = operate::folder("auth-many");
    let hash = Command::new(require("htpasswd").unwrap())
        .args(["-nbB", "ann", "secret"])
        .output()
        .unwrap();
    dir.write("users", String::from_utf8_lossy(&hash.stdout).trim())
        .unwrap();
    let saker = operate::start_in(dir, &site("user_file = \"users\"\n"));
    thread::scope(|scope| {
        for number in 0..8 {
            let saker = &saker;
            scope.spawn(move || {
                for round in 0..5 {
                    let wrong = format!("ann:wrong{number}-{round}");
                    assert_eq!(status(saker, "/index.html", &wrong), 401, "{wrong}");
                    assert_eq!(status(saker, "/index.html", "ann:secret"), 200);
                    assert_eq!(status(saker, "/index.html", ""), 401);
                }
            });
        }
    });
}

/// Clients of a site take turns on the threads for passwords.
#[test]
fn others_log_in_beside_many_wrong_passwords() {
    let dir = operate::folder("auth-turns");
    let users: Vec<String> = (0..6)
        .map(|number| {
            let output = Command::new(require("htpasswd").unwrap())
                .args(["-nbBC", "7", &format!("user{number}"), "secret"])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
        .collect();
    dir.write("users", users.join("\n")).unwrap();
    let saker = operate::start_in(dir, &site("user_file = \"users\"\n"));
    let (is_over, busy) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..90 {
            let (saker, is_over, busy) = (&saker, &is_over, &busy);
            scope.spawn(move || {
                let mut client = Client::connect(saker.server.address()).unwrap();
                for round in 0.. {
                    let wrong = format!("user0:wrong{number}-{round}");
                    if status_of(&mut client, "/index.html", &wrong) == 503 {
                        busy.fetch_add(1, Relaxed);
                    }
                    if is_over.load(Relaxed) {
                        break;
                    }
                }
            });
        }
        let from: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let statuses: Vec<u16> = (0..6)
            .map(|number| {
                let so_far = busy.load(Relaxed);
                operate::wait_until("no more wrong ones are taken", || {
                    busy.load(Relaxed) > so_far
                });
                let mut client = Client::connect_from(from, saker.server.address()).unwrap();
                status_of(&mut client, "/index.html", &format!("user{number}:secret"))
            })
            .collect();
        is_over.store(true, Relaxed);
        assert_eq!(statuses, [200; 6]);
    });
}

#[test]
fn users_come_and_go_with_the_file() {
    let dir = operate::folder("auth-file");
    dir.write("users", format!("ann:{HASH}\n")).unwrap();
    let saker = operate::start_in(dir, &site("user_file = \"users\"\n"));
    assert_eq!(status(&saker, "/index.html", "ann:secret"), 200);
    assert_eq!(status(&saker, "/index.html", "bob:secret"), 401);
    saker
        .dir
        .write("users.new", format!("bob:{HASH}\n"))
        .unwrap();
    std::fs::rename(saker.dir.join("users.new"), saker.dir.join("users")).unwrap();
    assert_eq!(status(&saker, "/index.html", "bob:secret"), 200);
    assert_eq!(status(&saker, "/index.html", "ann:secret"), 401);
    std::fs::remove_file(saker.dir.join("users")).unwrap();
    assert_eq!(status(&saker, "/index.html", "bob:secret"), 500);
}
