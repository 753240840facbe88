//! Hosts in a database during an outage: known hosts are served without an error; others are
//! answered at once if the connection is refused, and within the time limit if the database does
//! not answer; afterwards everything recovers.
//!
//! An outage lasts 3 s by default, with answers that hold for 1 s and constant load;
//! `SAKER_OUTAGE=60 cargo test -p saker --test serving hosts_outage::minute -- --nocapture` is the
//! minute, with its figures.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::databases::{Mariadb, Postgres};
use crate::operate::{ask, configuration, folder, reload, rewrite, start_in, stderr, wait_until};
use saker_testkit::{Client, Saker, TempDir, free_port, holds_for};
use std::{
    collections::BTreeMap,
    env, fs,
    net::TcpListener,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const QUERY: &str = "SELECT root FROM hosts WHERE name = ?";
const TABLE: &str = "CREATE TABLE hosts (name VARCHAR(255) PRIMARY KEY, root VARCHAR(255));";
/// Clients give up long before that.
const NEVER: &str = "timeout = \"10m\"";
/// Writes outlive the process, which is killed.
const DURABLE: &str = "SET GLOBAL innodb_flush_log_at_trx_commit = 1; USE web;";
const KNOWN: usize = 200;
const CLIENTS: usize = 4;

fn looked_up(database: &str, more: &str) -> String {
    let hosts = format!(
        "[dynamic_vhosts]\ndatabase = \"{database}\"\nquery = \"{QUERY}\"\nroots = [\"{{dir}}/srv\"]\nkeep = \"1s\"\n{more}\n\n[[listener]]"
    );
    configuration("workers = 2", "lookup = true").replace("[[listener]]", &hosts)
}

fn site_folder(name: &str) -> TempDir {
    let dir = folder(name);
    ["a", "b"].into_iter().for_each(|page| {
        drop(
            dir.write(
                &format!("srv/{page}/index.html"),
                format!("<p>{page}</p>\n"),
            )
            .unwrap(),
        )
    });
    dir
}

fn root(dir: &TempDir, page: &str) -> String {
    dir.join("srv").join(page).display().to_string()
}

fn got(client: &mut Client, host: &str) -> std::io::Result<(u16, String)> {
    let response = client.request("GET", "/", &[("Host", host)])?;
    Ok((response.status, response.text()))
}

fn status(saker: &Saker, host: &str) -> u16 {
    got(&mut saker.connect().unwrap(), host).unwrap().0
}

fn figure(saker: &Saker, name: &str) -> u64 {
    ask(&saker.dir.join("state"), "hosts-stat").unwrap()[name]
        .as_u64()
        .unwrap()
}

/// Known hosts are served for a while without the database, and then no more.
#[test]
fn known_hosts_last_as_long_as_is_set() {
    let _turn = saker_testkit::heavy();
    let dir = site_folder("outage-stale");
    let mut database = Mariadb::start(&dir);
    assert!(database.ask(&format!(
        "{DURABLE} {TABLE} INSERT INTO hosts VALUES ('a.example', '{}')",
        root(&dir, "a")
    )));
    let more = format!("{NEVER}\nkeep_stale = \"2s\"\nconnections = 1");
    let slow = format!("{QUERY} AND SLEEP(0.02) = 0");
    let text = looked_up(&database.url(), &more).replace(QUERY, &slow);
    let saker = start_in(dir, &text);
    assert_eq!(status(&saker, "a.example"), 200);
    // One connection for all questions, besides those of this test.
    let rows: String = (0..8)
        .map(|host| format!("INSERT INTO hosts SELECT '{host}.example', root FROM hosts LIMIT 1;"))
        .collect();
    assert!(database.ask(&format!("USE web; {rows}")));
    thread::scope(|scope| {
        for host in 0..8 {
            let saker = &saker;
            scope.spawn(move || assert_eq!(status(saker, &format!("{host}.example")), 200));
        }
    });
    assert!(database.ask(
        "SELECT IF(variable_value <= 2, 1, (SELECT 1 UNION SELECT 2)) \
         FROM information_schema.global_status WHERE variable_name = 'MAX_USED_CONNECTIONS';"
    ));
    database.end();
    wait_until("it is forgotten", || status(&saker, "a.example") == 503);
}

/// With a time limit that no client waits for.
#[test]
fn where_nobody_listens_it_is_said_at_once() {
    let _turn = saker_testkit::heavy();
    let dir = site_folder("outage-refused");
    let mut database = Mariadb::start(&dir);
    assert!(database.ask(&format!(
        "{DURABLE} {TABLE} INSERT INTO hosts VALUES ('a.example', '{0}'), ('new.example', '{0}')",
        root(&dir, "a")
    )));
    let saker = start_in(dir, &looked_up(&database.url(), NEVER));
    assert_eq!(status(&saker, "a.example"), 200);
    database.end();
    // Its socket file is still there, and then it is not.
    for (name, socket) in [("one.example", true), ("two.example", false)] {
        if !socket {
            fs::remove_file(saker.dir.join("mysql.sock")).unwrap();
        }
        assert_eq!(status(&saker, name), 503, "{name}");
        assert_eq!(status(&saker, "a.example"), 200, "{name}");
    }
    wait_until("it is said", || saker.server.stderr().contains("SK1301"));
    database.start_again();
    wait_until("a new host is served", || {
        status(&saker, "new.example") == 200
    });
    wait_until("that there is none is known", || {
        status(&saker, "one.example") == 404
    });
    // Over TCP, on a port where no database ever listened.
    let port = free_port().unwrap();
    for url in [
        format!("mysql://saker@127.0.0.1:{port}/web"),
        format!("postgres://saker@localhost:{port}/web"),
        format!("ldap://localhost:{port}"),
    ] {
        let text = looked_up(&url, &format!("{NEVER}\nldap_base = \"dc=test\""));
        let is_directory = url.starts_with("ldap:");
        rewrite(
            &saker,
            &if is_directory {
                text.replace(QUERY, "(cn=?)")
            } else {
                text
            },
        );
        let output = reload(&saker);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(status(&saker, "a.example"), 503, "{url}");
    }
}

#[test]
fn postgresql_that_ends_is_missed_at_once() {
    let _turn = saker_testkit::heavy();
    let dir = site_folder("outage-postgresql");
    let mut database = Postgres::start(&dir);
    assert!(database.ask(&format!(
        "{TABLE} INSERT INTO hosts VALUES ('a.example', '{}');",
        root(&dir, "a")
    )));
    let saker = start_in(dir, &looked_up(&database.url(), NEVER));
    assert_eq!(status(&saker, "a.example"), 200);
    database.end();
    assert_eq!(status(&saker, "one.example"), 503);
    assert_eq!(status(&saker, "a.example"), 200);
}

/// A listener accepts connections and stays silent: the time limit is for that.
#[test]
fn where_nobody_answers_there_is_a_time_limit() {
    let _turn = saker_testkit::heavy();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mysql://saker@{}/web", silent.local_addr().unwrap());
    let saker = start_in(
        site_folder("outage-silent"),
        &looked_up(&url, "timeout = \"300ms\""),
    );
    assert_eq!(status(&saker, "a.example"), 503);
    wait_until("it is said", || {
        saker.server.stderr().contains("no answer within 300 ms")
    });
}

fn outage() -> Duration {
    Duration::from_secs(env::var("SAKER_OUTAGE").map_or(3, |seconds| seconds.parse().unwrap()))
}

/// Outcomes for clients.
#[derive(Default)]
struct Met {
    served: AtomicU64,
    longest_us: AtomicU64,
}

/// One client's requests for known hosts, one after another; whatever was not served, and how
/// often.
fn load(saker: &Saker, ends: &AtomicBool, met: &Met) -> BTreeMap<String, u64> {
    let (mut client, mut errors) = (saker.connect().unwrap(), BTreeMap::new());
    for number in (0..KNOWN).cycle() {
        if ends.load(Relaxed) {
            break;
        }
        let began = Instant::now();
        let wrong = match got(&mut client, &format!("h{number}.example")) {
            Ok((200, text)) if text.starts_with("<p>") => None,
            Ok((status, _)) => Some(status.to_string()),
            Err(error) => {
                client = saker.connect().unwrap();
                Some(error.kind().to_string())
            }
        };
        met.longest_us
            .fetch_max(began.elapsed().as_micros() as u64, Relaxed);
        match wrong {
            None => _ = met.served.fetch_add(1, Relaxed),
            Some(wrong) => *errors.entry(wrong).or_default() += 1,
        }
    }
    errors
}

/// Ends the load, whatever becomes of the test.
struct Ending<'e>(&'e AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The database goes by `leave` and comes back by `come`, with load over known hosts before,
/// meanwhile and after.
fn under_load(name: &str, leave: fn(&mut Mariadb), come: fn(&mut Mariadb)) {
    let dir = site_folder(&format!("outage-{name}"));
    let mut database = Mariadb::start(&dir);
    let (a, b) = (root(&dir, "a"), root(&dir, "b"));
    let rows: Vec<String> = (0..1_000)
        .map(|number| format!("('h{number}.example', '{a}')"))
        .collect();
    assert!(database.ask(&format!(
        "{DURABLE} {TABLE} INSERT INTO hosts VALUES {};",
        rows.join(",")
    )));
    // The limit is for the one that is frozen.
    let saker = start_in(dir, &looked_up(&database.url(), "timeout = \"1s\""));
    (0..KNOWN).for_each(|number| assert_eq!(status(&saker, &format!("h{number}.example")), 200));
    let (ends, met) = (AtomicBool::new(false), Met::default());
    let errors = thread::scope(|scope| {
        let ending = Ending(&ends);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| load(&saker, &ends, &met)))
            .collect();
        let figures = |what: &str| {
            let (served, asked, failed) = (
                met.served.load(Relaxed),
                figure(&saker, "asked"),
                figure(&saker, "failed"),
            );
            println!(
                "{name}, {what}: {served} served, {asked} questions, {failed} of them without an answer"
            );
            served
        };
        wait_until("answers are refreshed under load", || {
            figure(&saker, "asked") > KNOWN as u64 * 2
        });
        let before = figures("before");
        leave(&mut database);
        let began = Instant::now();
        // Long enough for every answer to be past its time.
        wait_until("the database is missed", || figure(&saker, "failed") > 0);
        let mut unknown = BTreeMap::new();
        let rest = outage().saturating_sub(began.elapsed());
        holds_for("the server answers", rest, || {
            *unknown
                .entry(status(&saker, "unheard-of.example"))
                .or_insert(0) += 1;
            true
        });
        let meanwhile = figures("at its end");
        println!(
            "{name}: {} served while it was away for {:?}; a host that is not known: {unknown:?}",
            meanwhile - before,
            outage()
        );
        assert!(meanwhile - before > KNOWN as u64, "load went on");
        assert_eq!(unknown.into_keys().collect::<Vec<_>>(), [503]);
        come(&mut database);
        wait_until("a host that was never asked for is served", || {
            status(&saker, "h999.example") == 200
        });
        assert!(database.ask(&format!(
            "UPDATE web.hosts SET root = '{b}' WHERE name = 'h1.example'"
        )));
        wait_until("a known one is asked for again", || {
            got(&mut saker.connect().unwrap(), "h1.example").unwrap() == (200, "<p>b</p>\n".into())
        });
        figures("afterwards");
        drop(ending);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect::<Vec<_>>()
    });
    println!(
        "{name}: errors {errors:?}, longest wait of a known host {} ms",
        met.longest_us.load(Relaxed) / 1000
    );
    assert!(errors.iter().all(BTreeMap::is_empty), "{errors:?}");
    wait_until("it is said", || {
        ["SK1301", "SK1302"]
            .iter()
            .all(|id| saker.server.stderr().contains(id))
    });
}

#[test]
fn killed_for_a_minute_under_load() {
    let _turn = saker_testkit::heavy();
    under_load("killed", Mariadb::end, Mariadb::start_again);
}

#[test]
fn frozen_for_a_minute_under_load() {
    let _turn = saker_testkit::heavy();
    under_load(
        "frozen",
        |database| database.freeze(),
        |database| database.thaw(),
    );
}
