//! Many servers, one log, and the ways between them, on a virtual network and virtual clocks: the
//! code of `follow` and `publish` as it is, with chance from a seed.
//!
//! Called by: `cargo test -p saker-cluster --lib simulation::`. `SAKER_SIMULATION=1000,1000000`
//! (servers, purges) is the long run, whose figures are in docs/cluster.md, with
//! `SAKER_SIMULATION_RATE` records in a second; `SAKER_SIMULATION_SEED` repeats one.
//! Caveat: time passes only while nothing else is to be done, so figures of lag are those of the
//! network and of the engine, as `engine` assumes them, and not those of the servers' processors.
//! Out of scope: real engines and processes (crates/server/tests/operation/cluster).

mod engine;
mod server;
mod simulated_cluster;

use saker_testkit::Dice;
use simulated_cluster::SimulatedCluster;
use std::time::Duration;

/// Purges of one record: those of a response that names some tags.
const PURGES_OF_RECORD: u64 = 10;

/// Records after which the deliveries so far are counted.
const COLLECTED_EVERY: u64 = 1000;

fn run<T>(simulated: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(2)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, simulated)
}

fn number(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

/// Fan-out, lag, and memory, while nothing fails.
#[test]
fn purges_reach_all_servers() {
    let given = std::env::var("SAKER_SIMULATION").unwrap_or_else(|_| "40,4000".into());
    let (servers, purges) = given.split_once(',').expect("servers,purges");
    let (servers, purges): (u64, u64) = (servers.parse().unwrap(), purges.parse().unwrap());
    let report = run(async {
        let mut cluster =
            SimulatedCluster::start(servers as usize, number("SAKER_SIMULATION_SEED", 1)).await;
        let before = cluster.resident_bytes();
        let rate = number("SAKER_SIMULATION_RATE", 1000);
        for made in 0..purges / PURGES_OF_RECORD {
            let at = cluster.dice.below(servers) as usize;
            cluster.purge(at);
            // So many in a second, by chance.
            let pause = cluster.dice.below(2000 / rate + 1);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            if made % COLLECTED_EVERY == 0 {
                cluster.collect();
            }
        }
        cluster.wait_until_all_have_all().await;
        assert_eq!(cluster.clears(), servers, "at the start, and never again");
        cluster.report(before)
    });
    println!("{servers} servers, {purges} purges: {report}");
    assert_eq!(report.deliveries, purges / PURGES_OF_RECORD * (servers - 1));
}

/// Ways that lose messages, an engine that stops or loses its data, servers that are killed, and
/// clocks that jump.
fn failures(seed: u64, events: u64) -> (String, SimulatedCluster) {
    run(async {
        let mut cluster = SimulatedCluster::start(12, seed).await;
        for _ in 0..events {
            let what = cluster.dice.below(8);
            cluster.event(what).await;
            for _ in 0..cluster.dice.below(6) {
                let at = cluster.dice.below(12) as usize;
                cluster.purge(at);
                cluster.look();
                let pause = cluster.dice.below(900);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                cluster.look();
            }
        }
        cluster.heal();
        cluster.wait_until_all_have_all().await;
        cluster.look();
        (cluster.told.join("\n"), cluster)
    })
}

#[test]
fn no_purged_page_is_served_whatever_fails() {
    for seed in 1..=number("SAKER_SIMULATION_SEEDS", 4) {
        let (told, cluster) = failures(seed, 40);
        assert!(cluster.looks() > 0, "pages were used\n{told}");
        assert!(cluster.clears() > 12, "something was lost\n{told}");
    }
}

#[test]
fn a_seed_repeats_everything() {
    let one = failures(7, 15);
    assert_eq!(one.0, failures(7, 15).0);
    assert_ne!(one.0, failures(8, 15).0);
    let mut dice = Dice::new(7);
    assert_eq!(dice.roll(), Dice::new(7).roll());
}
