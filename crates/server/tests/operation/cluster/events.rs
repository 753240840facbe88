//! Random failures, with purges and requests in between: a server that has a purge serves no page
//! from before it, whatever fails, and wherever the page comes from.
//!
//! A server has a purge when it has acknowledged it itself, when `--wait` names it, or when it says
//! that it has read the log to an end at which the purge was in it.
//! Messages of a server that is cut off go nowhere, and no end is told; the engine restarts without
//! its data; clocks of the day jump, and servers are killed, stopped, and paused.
//! `SAKER_CLUSTER_EVENTS=200` is the long run; `SAKER_CLUSTER_SEED` repeats one.

use super::{
    fleet::{Fleet, Node},
    nats_server::NatsServer,
    peer_certificates::Certificates,
    postgres,
    redis_server::RedisServer,
    relay::Relay,
};
use saker_testkit::{Dice, free_port, saker::advance_clock, wait_until_or};
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

const NODES: usize = 5;
const TARGETS: [&str; 4] = ["/a/1", "/a/2", "/a/3", "/a/4"];

/// The engine of the log, with the ways in which it fails.
trait Engine {
    /// URL of it at another address.
    fn url_at(&self, address: &str) -> String;
    fn port(&self) -> u16;
    fn pause(&self);
    fn go_on(&self);
    fn kill(&mut self);
    /// On the same port, without its data.
    fn start_empty(&mut self);
}

impl Engine for RedisServer {
    fn url_at(&self, address: &str) -> String {
        format!("redis://{address}")
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn pause(&self) {
        RedisServer::pause(self);
    }

    fn go_on(&self) {
        RedisServer::go_on(self);
    }

    fn kill(&mut self) {
        RedisServer::kill(self);
    }

    fn start_empty(&mut self) {
        self.start_again();
    }
}

impl Engine for NatsServer {
    fn url_at(&self, address: &str) -> String {
        format!("nats://{address}")
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn pause(&self) {
        NatsServer::pause(self);
    }

    fn go_on(&self) {
        NatsServer::go_on(self);
    }

    fn kill(&mut self) {
        NatsServer::kill(self);
    }

    fn start_empty(&mut self) {
        NatsServer::start_empty(self);
    }
}

impl Engine for postgres::Engine {
    fn url_at(&self, address: &str) -> String {
        format!("postgres://saker@{address}/postgres")
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn pause(&self) {
        self.freeze();
    }

    fn go_on(&self) {
        self.thaw();
    }

    fn kill(&mut self) {
        self.stop();
    }

    fn start_empty(&mut self) {
        self.start_without_tables();
    }
}

struct World {
    engine: Box<dyn Engine>,
    relays: Vec<Relay>,
    fleet: Fleet,
    /// The generation that each server may not fall behind.
    floors: [u64; NODES],
    is_cut: [bool; NODES],
    told: Vec<String>,
}

impl World {
    fn start(engine: Box<dyn Engine>, certificates: &Certificates) -> World {
        let port = free_port().unwrap();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, engine.port()));
        let relays = (1..=NODES as u8).map(|number| {
            let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, number), port));
            Relay::start(from, to)
        });
        let relays = relays.collect();
        let url = engine.url_at(&format!("127.0.0.{{number}}:{port}"));
        let cluster = format!("url = \"{url}\"\nmax_staleness = \"60s\"");
        let peers = certificates.lines("copied_after = 1\ntimeout = \"2s\"");
        let fleet = Fleet::start_peers_with(&cluster, &peers, NODES as u8);
        World {
            engine,
            relays,
            fleet,
            floors: [0; NODES],
            is_cut: [false; NODES],
            told: Vec::new(),
        }
    }

    /// Something fails, and is back in the end.
    fn event(&mut self, dice: &mut Dice) {
        let at = dice.below(NODES as u64) as usize;
        let what = match dice.below(8) {
            0 => {
                self.fleet.nodes[at].kill();
                self.fleet.nodes[at].start_again();
                format!("{at} was killed")
            }
            1 => {
                self.fleet.nodes[at].stop();
                self.fleet.nodes[at].start_again();
                format!("{at} was stopped")
            }
            2 => {
                self.engine.pause();
                self.purge(dice);
                self.look();
                self.engine.go_on();
                "the engine was paused".into()
            }
            3 => {
                self.engine.kill();
                self.purge(dice);
                self.engine.start_empty();
                "the engine has lost its data".into()
            }
            4 => {
                self.fleet.nodes[at].pause();
                self.purge_at((at + 1) % NODES);
                self.fleet.nodes[at].go_on();
                format!("{at} was paused")
            }
            5 if !self.is_cut[at] => {
                self.is_cut[at] = true;
                self.relays[at].cut();
                format!("{at} is cut off")
            }
            6 => {
                let seconds = 1 + dice.below(86_400);
                advance_clock(&self.fleet.nodes[at].dir, seconds).unwrap();
                format!("the clock of {at} jumped by {seconds} s")
            }
            _ => {
                self.heal();
                "all are connected".into()
            }
        };
        self.told.push(what);
    }

    fn heal(&mut self) {
        self.relays.iter().for_each(Relay::heal);
        self.is_cut = [false; NODES];
    }

    fn purge(&mut self, dice: &mut Dice) {
        self.purge_at(dice.below(NODES as u64) as usize);
    }

    /// Changes the content, and purges at a server.
    fn purge_at(&mut self, at: usize) {
        let changed = self.fleet.origin.change();
        self.fleet.nodes[at].purge(&["--tag", "a"]);
        self.floors[at] = changed;
        self.told.push(format!("{changed} purged at {at}"));
    }

    /// Purges, and learns who has it.
    fn purge_and_wait(&mut self, at: usize) {
        let changed = self.fleet.origin.change();
        let output = self.fleet.nodes[at].command(&["purge", "--tag", "a", "--wait=1s"]);
        self.floors[at] = changed;
        if output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            for number in (0..NODES).filter(|number| said.contains(&format!("web-{}", number + 1)))
            {
                self.floors[number] = changed;
            }
        }
        self.told.push(format!(
            "{changed} purged at {at}, waited: {}",
            output.status
        ));
        self.believe(at, changed);
    }

    /// Takes servers at their word that have read the log since the purge was in it.
    fn believe(&mut self, sender: usize, changed: u64) {
        let sent = self.fleet.nodes[sender].status();
        if sent["is_connected"] != true || sent["queue_records"] != 0 {
            return;
        }
        let in_log = Instant::now();
        for (node, floor) in self.fleet.nodes.iter().zip(&mut self.floors) {
            let asked = Instant::now();
            let status = node.status();
            let age = status["staleness_ms"].as_u64().map(Duration::from_millis);
            let is_read = age.is_some_and(|age| asked.checked_sub(age) > Some(in_log));
            if status["is_in_sync"] == true && is_read {
                *floor = changed.max(*floor);
            }
        }
    }

    /// Asks every server for every page.
    #[track_caller]
    fn look(&self) {
        for (number, (node, floor)) in self.fleet.nodes.iter().zip(self.floors).enumerate() {
            for target in TARGETS {
                let generation = node.generation(target);
                assert!(
                    generation >= floor,
                    "{target} of {generation} at {number}, which has the purge of {floor}\n{}\n{}",
                    self.told.join("\n"),
                    node.log()
                );
            }
        }
    }
}

#[test]
fn no_purged_page_is_served_whatever_fails() {
    whatever_fails(Box::new(RedisServer::start()));
}

#[test]
fn no_purged_page_is_served_whatever_fails_on_nats() {
    whatever_fails(Box::new(NatsServer::start()));
}

#[test]
fn no_purged_page_is_served_whatever_fails_on_postgresql() {
    whatever_fails(Box::new(postgres::Engine::start()));
}

fn whatever_fails(engine: Box<dyn Engine>) {
    let number = |name: &str, usual: u64| {
        let text = std::env::var(name).ok();
        text.map_or(usual, |text| text.parse().expect("a number"))
    };
    let (events, seed) = (
        number("SAKER_CLUSTER_EVENTS", 20),
        number("SAKER_CLUSTER_SEED", 1),
    );
    let certificates = Certificates::make();
    let (mut world, mut dice) = (World::start(engine, &certificates), Dice::new(seed));
    for _ in 0..events {
        world.look();
        world.event(&mut dice);
        world.look();
        match dice.below(2) {
            0 => world.purge(&mut dice),
            _ => world.purge_and_wait(dice.below(NODES as u64) as usize),
        }
        world.look();
    }
    // In the end, all have all.
    world.heal();
    world.fleet.nodes.iter().for_each(Node::wait_until_in_sync);
    let last = world.fleet.origin.change();
    world.fleet.nodes[0].purge(&["--tag", "a"]);
    for target in TARGETS {
        world.fleet.wait_for_generation(target, last);
    }
    let received = "saker_cluster_pages_total{direction=\"received\"}";
    let count = |node: &Node| node.metric(received);
    world.fleet.wait_until_all_know_all();
    wait_until_or(
        || {
            world.fleet.nodes[0].purge(&["--tag", "a"]);
            TARGETS.iter().for_each(|target| world.fleet.fill(target));
            world.fleet.nodes.iter().any(|node| count(node) > 0)
        },
        || "servers hand each other pages".into(),
    );
    println!("{events} events, seed {seed}:\n{}", world.told.join("\n"));
}
