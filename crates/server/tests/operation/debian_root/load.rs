//! Clients that ask all the while, over new and kept connections, in plain and over TLS, and
//! forgive nothing.
// What goes wrong is the test's.
#![allow(clippy::unwrap_used, clippy::panic)]

use saker_testkit::Client;
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Requests on a connection; fewer than Apache's own limit.
const KEPT: usize = 20;
/// On a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Load {
    end: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    /// Requests `/`, which has `body`.
    pub fn start(plain: u16, secure: u16, body: &str) -> Load {
        let (end, requests) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let spawn = |what: fn(u16, &str, &AtomicU64) -> Result<(), String>, port: u16| {
            let (end, requests, body) = (Arc::clone(&end), Arc::clone(&requests), body.to_owned());
            thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    what(port, &body, &requests)?;
                }
                Ok(())
            })
        };
        let threads = vec![
            spawn(kept, plain),
            spawn(single, plain),
            spawn(secured, secure),
        ];
        Load {
            end,
            requests,
            threads,
        }
    }

    /// Returns the number of correct responses, or the first failure.
    pub fn finish(self) -> Result<u64, String> {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| "a load thread panicked")??;
        }
        Ok(self.requests.load(Ordering::Relaxed))
    }
}

fn kept(port: u16, body: &str, requests: &AtomicU64) -> Result<(), String> {
    ask(port, KEPT, body, requests).map_err(|why| format!("a kept connection: {why}"))
}

fn single(port: u16, body: &str, requests: &AtomicU64) -> Result<(), String> {
    ask(port, 1, body, requests).map_err(|why| format!("a new connection: {why}"))
}

fn ask(port: u16, count: usize, body: &str, requests: &AtomicU64) -> Result<(), String> {
    let mut client = Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .map_err(|error| format!("connecting: {error}"))?;
    client
        .set_timeout(PATIENCE)
        .map_err(|error| error.to_string())?;
    for number in 0..count {
        let response = client
            .get("/")
            .map_err(|error| format!("request {number}: {error}"))?;
        if response.status != 200 || response.text() != body {
            return Err(format!("{} {}", response.status, response.text()));
        }
        requests.fetch_add(1, Ordering::Relaxed);
        // A pause lets a machine with few cores do the rest of the test.
        let _ = client.pause(Duration::from_millis(2));
    }
    Ok(())
}

fn secured(port: u16, body: &str, requests: &AtomicU64) -> Result<(), String> {
    let output = Command::new("curl")
        .args([
            "-sS",
            "-k",
            "-m",
            "30",
            &format!("https://127.0.0.1:{port}/"),
        ])
        .output()
        .unwrap();
    if !output.status.success() || output.stdout != body.as_bytes() {
        return Err(format!(
            "over TLS: {} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    requests.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
