#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::{record::Record, store::Bundle, tend};
use std::{
    io::{Read, Write},
    net::TcpListener,
    path::PathBuf,
    sync::atomic::{AtomicU16, Ordering},
};

struct Quiet;

impl Installer for Quiet {
    fn install(&self, _: &[String], _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn uninstall(&self, _: &[String]) {}

    fn set_challenge(&self, _: &str, _: &[u8], _: &[u8]) {}

    fn clear_challenge(&self, _: &str) {}
}

/// A manager with a certificate on demand whose renewal is due, an ask rule, and an authority that
/// is not there.
struct Bench {
    manager: Manager,
    folder: PathBuf,
    /// The answer of the ask rule.
    status: Arc<AtomicU16>,
}

const OLD: &str = "z.c.example";

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = std::env::temp_dir().join(format!("saker-tend-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir(&folder).unwrap();
        let (status, nowhere) = (Arc::new(AtomicU16::new(200)), nowhere());
        let text = format!(
            "[server]\nstate_dir = \"{}\"\n[acme]\ndirectory = \"{nowhere}\"\nask = \"{}\"\n\
             [[listener]]\naddress = \":80\"\n[[listener]]\naddress = \":443\"\ntls = true\n\
             [[site]]\nnames = [\"*.c.example\"]\nroot = \"/\"\ntls.automatic = \"on-demand\"\n",
            folder.display(),
            ask_rule(&status)
        );
        let model = saker_config::parse(&text, "saker.toml", &folder)
            .unwrap()
            .model;
        let store = Store::open(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed([OLD.to_owned()]).unwrap();
        let bundle = Bundle {
            chain: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        };
        store.save_certificate(&names(OLD), &bundle).unwrap();
        let record = Record {
            directory: Some(nowhere),
            renew_at: Some(1),
            check_at: u64::MAX,
            ..Record::new(&names(OLD), true)
        };
        store.save_record(&record).unwrap();
        let (manager, _) =
            Manager::new(Plan::new(&model), Arc::default(), Arc::new(Quiet), |_| {}).unwrap();
        Bench {
            manager,
            folder,
            status,
        }
    }

    /// Does one job.
    async fn work(&mut self) {
        self.manager.start_what_is_due();
        let done = self.manager.jobs.join_next_with_id().await.unwrap();
        self.manager.done(done);
    }

    async fn tend(&self, name: &str) -> Tended {
        tend::alone(&self.manager.context, &names(name), true, None).await
    }

    fn ask(&mut self, name: &str) -> oneshot::Receiver<Result<(), Denied>> {
        let (answer, answered) = oneshot::channel();
        let name = name.to_owned();
        self.manager.ask(Question { name, answer });
        answered
    }

    fn attempt_at(&self) -> u64 {
        let record = self.manager.context.store.record(&names(OLD));
        record.unwrap().attempt_at
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn names(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// A URL where nothing listens.
fn nowhere() -> String {
    let port = saker_testkit::free_port().unwrap();
    format!("https://localhost:{port}/dir")
}

fn ask_rule(status: &Arc<AtomicU16>) -> String {
    let (listener, status) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        Arc::clone(status),
    );
    let url = format!("http://{}/ask", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _: Result<usize, _> = stream.read(&mut [0; 2048]);
            let status = status.load(Ordering::SeqCst);
            let answer = format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n");
            let _: Result<(), _> = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[tokio::test]
async fn a_renewal_that_fails_is_tried_again() {
    let mut bench = Bench::new("failed");
    bench.work().await;
    let entry = bench.manager.entries.get(&store::key(&names(OLD)));
    let due = entry.and_then(|entry| entry.due).unwrap();
    assert!(due > schedule::now() && due == bench.attempt_at(), "{due}");
    // Without a certificate the next handshake asks.
    let mut answer = bench.ask("new.c.example");
    bench.work().await;
    assert!(matches!(answer.try_recv(), Ok(Err(Denied::Failed(_)))));
    assert_eq!(bench.manager.entries.len(), 1);
}

/// Only a definite no ends the renewals of a name.
#[tokio::test]
async fn an_ask_rule_that_is_away_has_not_said_no() {
    let bench = Bench::new("away");
    for (status, is_asked_again) in [(503, true), (429, true), (403, false), (404, false)] {
        bench.status.store(status, Ordering::SeqCst);
        let now = schedule::now();
        let tended = bench.tend(OLD).await;
        let is_later = |due: u64| (now + 3600..now + 3700).contains(&due);
        assert_eq!(tended.due.is_some_and(is_later), is_asked_again, "{status}");
        assert_eq!(tended.due.is_some(), is_asked_again, "{status}");
        assert_eq!(tended.has_certificate, Ok(()));
    }
}

/// The console and the control socket renew a name that nothing tends any longer.
#[tokio::test]
async fn a_renewal_by_request_brings_a_name_back() {
    let mut bench = Bench::new("back");
    bench.manager.entries.clear();
    bench.manager.renew("other.c.example");
    assert!(bench.manager.entries.is_empty());
    bench.manager.renew("Z.c.example");
    bench.manager.renew(OLD);
    let entry = bench.manager.entries.get(&store::key(&names(OLD))).unwrap();
    assert!(entry.due.is_some_and(|due| due <= schedule::now()));
}

#[tokio::test]
async fn a_flood_of_names_leaves_room_for_renewals() {
    let mut bench = Bench::new("flood");
    let _asked: Vec<_> = (0..QUEUE_MAX)
        .map(|number| bench.ask(&format!("h{number}.c.example")))
        .collect();
    bench.manager.start_what_is_due();
    let running: Vec<&String> = bench.manager.running.values().collect();
    assert_eq!(running.len(), NEWCOMER_JOBS_MAX + 1, "{running:?}");
    assert!(running.contains(&&store::key(&names(OLD))), "{running:?}");
    bench.manager.start_what_is_due();
    assert_eq!(bench.manager.running.len(), NEWCOMER_JOBS_MAX + 1);
    // What is due goes before names that came later.
    let due = |entry: &Entry| entry.waiting.is_empty() || entry.due != Some(0);
    assert!(bench.manager.entries.values().all(due));
}
