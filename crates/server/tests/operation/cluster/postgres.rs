//! A cluster on PostgreSQL: the same guarantees as on Redis.

use super::{
    clients,
    fleet::{Fleet, HOST, Node, request},
};
use crate::databases::Postgres;
use saker_testkit::{TempDir, free_port, wait_until};

pub struct Engine {
    database: Postgres,
    pub port: u16,
    _dir: TempDir,
}

const DROP_TABLES: &str = "DROP TABLE IF EXISTS \"saker:purges\", \"saker:nodes\", \"saker:feeds\", \
                           \"saker:bans\", \"saker:state\", \"saker:locks\";";

impl Engine {
    pub fn start() -> Engine {
        let dir = TempDir::new("cluster-postgres").unwrap();
        let port = free_port().unwrap();
        let text = port.to_string();
        let settings = [("listen_addresses", "127.0.0.1"), ("port", text.as_str())];
        let ways = "host all all 127.0.0.1/32 trust";
        Engine {
            database: Postgres::start_with(&dir, &settings, Some(ways)),
            port,
            _dir: dir,
        }
    }

    /// Bytes of a column, as far as they are text.
    pub fn column(&self, name: &str, table: &str) -> Vec<String> {
        let statement = format!("SELECT encode({name}, 'escape') FROM \"saker:{table}\"");
        self.database.column(&statement)
    }

    pub fn freeze(&self) {
        self.database.freeze();
    }

    pub fn thaw(&self) {
        self.database.thaw();
    }

    pub fn stop(&mut self) {
        self.database.stop();
    }

    /// Begins anew, without its tables.
    pub fn start_without_tables(&mut self) {
        self.database.start_again_after(DROP_TABLES);
    }

    pub fn url(&self) -> String {
        format!(
            "url = \"postgres://saker@127.0.0.1:{}/postgres\"",
            self.port
        )
    }
}

#[test]
fn purges_reach_all_servers_in_order() {
    let engine = Engine::start();
    let cluster = format!("{}\nmax_staleness = \"60s\"", engine.url());
    let fleet = Fleet::start_with(&cluster, 3);
    for round in 0..9 {
        fleet.fill("/a");
        let changed = fleet.origin.change();
        let node = &fleet.nodes[round % 3];
        match round % 3 {
            0 => drop(node.purge(&["--tag", "a", "--wait"])),
            1 => drop(node.purge(&[&format!("http://{HOST}/a")])),
            _ => drop(node.request("POST", "/save", &[("X-Purge", "tag=a")])),
        }
        fleet.wait_for_generation("/a", changed);
    }
    // Purges of all servers at once: none is passed over.
    let addresses: Vec<_> = fleet.nodes.iter().map(Node::address).collect();
    std::thread::scope(|scope| {
        for address in addresses {
            scope.spawn(move || {
                for number in 0..20 {
                    let purge = format!("tag=t{number}");
                    request(address, "POST", "/save", &[("X-Purge", &purge)]);
                }
            });
        }
    });
    let node = &fleet.nodes[0];
    node.purge(&["--tag", "a", "--wait"]);
    assert_eq!(
        node.status()["cache_clears"],
        1,
        "at the start: {}",
        node.status()
    );
    let shown = node.status()["engine"].clone();
    assert_eq!(
        shown,
        format!("postgres://127.0.0.1:{}/postgres", engine.port)
    );
}

#[test]
fn a_dead_engine_and_lost_rows_are_noticed() {
    let mut engine = Engine::start();
    let cluster = format!("{}\nmax_staleness = \"60s\"", engine.url());
    let fleet = Fleet::start_with(&cluster, 2);
    let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
    fleet.fill("/a");
    // What waits is sent when it is back.
    engine.database.stop();
    wait_until("it is noticed", || second.status()["is_connected"] == false);
    let changed = fleet.origin.change();
    first.purge(&["--tag", "a"]);
    assert_eq!(first.generation("/a"), changed);
    assert_eq!(first.status()["queue_records"], 1);
    engine.database.start_again();
    fleet.wait_for_generation("/a", changed);
    fleet.nodes.iter().for_each(Node::wait_until_in_sync);
    // Emptied, and begun anew with the same numbers.
    for statement in [
        "DELETE FROM \"saker:purges\";",
        "TRUNCATE \"saker:purges\" RESTART IDENTITY;",
        DROP_TABLES,
    ] {
        fleet.fill("/a");
        let clears = second.status()["cache_clears"].as_u64().unwrap();
        assert!(engine.database.ask(statement));
        first.purge(&["--tag", "unrelated"]);
        wait_until("the cache is cleared", || {
            second.status()["cache_clears"].as_u64().unwrap() > clears
        });
        fleet.nodes.iter().for_each(Node::wait_until_in_sync);
    }
}

#[test]
fn limits_are_shared() {
    let engine = Engine::start();
    let fleet = Fleet::start_sharing_over(&engine.url(), "\"limits\"", clients::TWENTY, 2);
    clients::a_limit_of_twenty_holds_together(&fleet);
    let records = engine.column("record", "feeds");
    assert!(!records.is_empty());
    assert!(
        records
            .iter()
            .all(|record| !record.contains("key-of-visitor"))
    );
}

#[test]
fn bans_are_shared() {
    let engine = Engine::start();
    let cluster = format!(
        "{}\nsecret_file = \"{{dir}}/secret\"\nshare = [\"purges\", \"bans\"]",
        engine.url()
    );
    let fleet = Fleet::start_with(&cluster, 2);
    let (first, second) = (&fleet.nodes[0], &fleet.nodes[1]);
    assert_eq!(second.status_for("192.0.2.9", "/a", &[]), 200);
    let banned = first.command(&["ban", "192.0.2.9"]);
    assert!(banned.status.success(), "{banned:?}");
    wait_until("it is banned there", || {
        second.status_for("192.0.2.9", "/a", &[]) != 200
    });
    let lifted = second.command(&["unban", "192.0.2.9"]);
    assert!(lifted.status.success(), "{lifted:?}");
    wait_until("and no longer", || {
        first.status_for("192.0.2.9", "/a", &[]) == 200
    });
}
