//! Time of a look-up in a set of a million entries, and the memory of the set: `cargo run --release
//! -p saker-ipset --example measure`.

#![allow(clippy::print_stdout)] // What it is for.

use saker_ipset::{AddressSet, Block};
use std::{hint::black_box, net::IpAddr, time::Instant};

const ENTRIES: usize = 1_000_000;
/// Rounds of look-ups; the best one counts, because other programs may be running.
const ROUNDS: usize = 20;

/// SplitMix64: the same numbers each time.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn v4(state: &mut u64) -> IpAddr {
    IpAddr::from((next(state) as u32).to_be_bytes())
}

/// Within 2000::/3.
fn v6(state: &mut u64) -> IpAddr {
    let upper = u128::from((next(state) >> 3) | (1 << 61));
    IpAddr::from(((upper << 64) | u128::from(next(state))).to_be_bytes())
}

/// One like the other, in turns.
fn mixed(state: &mut u64) -> IpAddr {
    if next(state).is_multiple_of(2) {
        v4(state)
    } else {
        v6(state)
    }
}

fn measure(name: &str, prefix: u8, address: fn(&mut u64) -> IpAddr) {
    let mut state = 1;
    let began = Instant::now();
    let set: AddressSet = (0..ENTRIES)
        .map(|_| Block::around(address(&mut state), prefix))
        .collect();
    let built = began.elapsed();
    let lookups: Vec<IpAddr> = (0..1 << 20).map(|_| address(&mut state)).collect();
    let (mut best_ns, mut found) = (f64::MAX, 0u32);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        found = lookups
            .iter()
            .map(|address| u32::from(black_box(&set).contains(*black_box(address))))
            .sum();
        best_ns = best_ns.min(began.elapsed().as_nanos() as f64 / lookups.len() as f64);
    }
    let memory = set.memory_bytes() as f64 / 1e6;
    println!(
        "{name}: {} ranges, {memory:.1} MB, built in {} ms, {best_ns:.0} ns per look-up ({found} found)",
        set.ranges(),
        built.as_millis()
    );
}

fn main() {
    measure("IPv4 /32", 32, v4);
    measure("IPv6 /64", 64, v6);
    measure("IPv6 /128", 128, v6);
    measure("half IPv4 /32, half IPv6 /64", 64, mixed);
}
