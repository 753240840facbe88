//! Handshake floods: many first packets from many ports, whose senders never read an answer.
//!
//! `SAKER_FLOOD=100000 cargo test -p saker --test adversarial http3_floods::` sends that many; by
//! default fewer, which is enough to reach every limit.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client::{Client, site::start};
use crate::operate::ask;
use saker_testkit::ProcessTree;
use std::{env, path::Path};

/// Far more than may be open at a time, proved or not.
const STARTS: usize = 2_500;
const ASKED_EVERY: usize = 250;
/// Memory that handshakes within the limits may take; no more, however many arrive.
const MEMORY_BYTES_MAX: u64 = 48 << 20;

fn counter(state: &Path, name: &str) -> u64 {
    let status = ask(state, "status").unwrap();
    status["counters"][name].as_u64().unwrap_or(0)
}

#[test]
fn normal_clients_are_served_through_a_flood_of_handshakes() {
    let starts = env::var("SAKER_FLOOD")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(STARTS);
    let saker = start("http3-flood", "", "");
    let (address, state) = (saker.server.address().to_string(), saker.dir.join("state"));
    let client = Client::default();
    assert_eq!(client.connect(&address).get("/index.html").status, 200);
    let memory_before = ProcessTree::of(saker.server.pid()).memory().rss_bytes;
    for number in 0..starts {
        // Its port is closed again before the answer comes.
        drop(client.begin(&address));
        if number % ASKED_EVERY == 0 {
            assert_eq!(
                client.connect(&address).get("/index.html").status,
                200,
                "after {number}"
            );
        }
    }
    assert_eq!(client.connect(&address).get("/index.html").status, 200);
    let memory_after = ProcessTree::of(saker.server.pid()).memory().rss_bytes;
    assert!(
        memory_after < memory_before + MEMORY_BYTES_MAX,
        "{memory_before} to {memory_after}"
    );
    let (retries, handshakes) = (
        counter(&state, "quic_retries_total"),
        counter(&state, "quic_handshakes_total{result=\"begun\"}"),
    );
    assert!(
        retries > starts as u64 / 2,
        "{retries} of {starts} had to prove their address, {handshakes} began"
    );
    eprintln!(
        "{starts} starts: {retries} retries, {handshakes} handshakes begun, {} kB more",
        (memory_after - memory_before.min(memory_after)) >> 10
    );
}
