//! A contender that runs: one server, or several that are one to the visitor (a cache before a server, PHP beside it).
//!
//! All of them are measured: what a visitor's request costs is what the whole stand pays for it. The difficulty is order: the one in front is
//! started last and goes first. Absent on purpose: what is the same behind every contender and counts for nobody (`behind.rs`).

use saker_testkit::{Memory, ProcessTree, ServerProcess};
use std::{net::SocketAddr, time::Duration};

#[derive(Debug)]
pub struct Stand {
    front: ServerProcess,
    others: Vec<ServerProcess>,
}

impl Stand {
    pub fn alone(front: ServerProcess) -> Stand {
        Stand::before(front, Vec::new())
    }

    /// The visitor asks `front`; what it needs runs already.
    pub fn before(front: ServerProcess, others: Vec<ServerProcess>) -> Stand {
        Stand { front, others }
    }

    /// The one in front, and the others.
    pub fn into_servers(self) -> (ServerProcess, Vec<ServerProcess>) {
        (self.front, self.others)
    }

    pub fn address(&self) -> SocketAddr {
        self.front.address()
    }

    pub fn front(&self) -> &ServerProcess {
        &self.front
    }

    pub fn servers(&self) -> impl Iterator<Item = &ServerProcess> {
        std::iter::once(&self.front).chain(&self.others)
    }

    pub fn cpu_time(&self) -> Duration {
        self.tree().cpu_time()
    }

    pub fn memory(&self) -> Memory {
        self.tree().memory()
    }

    /// Of all servers, with what they have started.
    fn tree(&self) -> ProcessTree {
        let pids: Vec<u32> = self.servers().map(ServerProcess::pid).collect();
        ProcessTree::of_all(&pids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_tree_is_of_all_servers() {
        let spawn = || {
            let address = SocketAddr::from(([127, 0, 0, 1], 9));
            ServerProcess::spawn(Command::new("sleep").arg("30"), address).expect("started")
        };
        let (front, other) = (spawn(), spawn());
        let pids = [front.pid(), other.pid()];
        let stand = Stand::before(front, vec![other]);
        assert!(pids.iter().all(|pid| stand.tree().pids().contains(pid)));
        assert_eq!(stand.front().pid(), pids[0]);
    }
}
