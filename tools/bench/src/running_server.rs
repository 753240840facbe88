//! A running participant: one server, or several that are one to the client (a cache before a
//! server, PHP beside it), here or on another machine.
//!
//! Called by: the runner and the workloads.
//! Caveat: all of them are measured, because a client's request costs what all of them spend. The
//! one in front is started last and stopped first.
//! Out of scope: upstreams that are the same behind every participant and are not counted
//! (`behind.rs`).

use crate::{
    sheets::{self, Sheet},
    stage::RemoteServer,
    test_env::TestEnv,
};
use saker_testkit::{Memory, ProcessTree, ServerProcess};
use std::{net::SocketAddr, time::Duration};

const ELSEWHERE: &str = "the server is on another machine";

#[derive(Debug)]
pub struct RunningServer {
    place: Place,
}

#[derive(Debug)]
enum Place {
    Here {
        front: ServerProcess,
        others: Vec<ServerProcess>,
    },
    There(RemoteServer),
}

impl RunningServer {
    pub fn alone(front: ServerProcess) -> RunningServer {
        RunningServer::before(front, Vec::new())
    }

    /// The visitor asks `front`; what it needs runs already.
    pub fn before(front: ServerProcess, others: Vec<ServerProcess>) -> RunningServer {
        RunningServer {
            place: Place::Here { front, others },
        }
    }

    pub fn there(remote: RemoteServer) -> RunningServer {
        RunningServer {
            place: Place::There(remote),
        }
    }

    /// The one in front, and the others; of this machine alone.
    pub fn into_servers(self) -> Result<(ServerProcess, Vec<ServerProcess>), String> {
        match self.place {
            Place::Here { front, others } => Ok((front, others)),
            Place::There(_) => Err(ELSEWHERE.to_owned()),
        }
    }

    pub fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Here { front, .. } => front.address(),
            Place::There(remote) => remote.address,
        }
    }

    /// For what can be done to a process of this machine alone.
    pub fn front(&self) -> Result<&ServerProcess, String> {
        match &self.place {
            Place::Here { front, .. } => Ok(front),
            Place::There(_) => Err(ELSEWHERE.to_owned()),
        }
    }

    pub fn cpu_time(&self) -> Duration {
        match &self.place {
            Place::Here { .. } => self.tree().cpu_time(),
            Place::There(remote) => remote.figures().0,
        }
    }

    pub fn memory(&self) -> Memory {
        match &self.place {
            Place::Here { .. } => self.tree().memory(),
            Place::There(remote) => remote.figures().1,
        }
    }

    /// Start parameters of each of its servers.
    pub fn sheets(&self, test_env: TestEnv<'_>) -> Vec<Sheet> {
        match &self.place {
            Place::Here { .. } => self
                .servers()
                .map(|server| sheets::of(server, test_env))
                .collect(),
            Place::There(remote) => remote.sheets.clone(),
        }
    }

    /// Processes of all servers, with their children.
    fn tree(&self) -> ProcessTree {
        ProcessTree::of_all(&self.servers().map(ServerProcess::pid).collect::<Vec<u32>>())
    }

    fn servers(&self) -> impl Iterator<Item = &ServerProcess> {
        let here = match &self.place {
            Place::Here { front, others } => Some((front, others)),
            Place::There(_) => None,
        };
        here.into_iter()
            .flat_map(|(front, others)| std::iter::once(front).chain(others))
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
        let running = RunningServer::before(front, vec![other]);
        assert!(pids.iter().all(|pid| running.tree().pids().contains(pid)));
        assert_eq!(running.front().expect("here").pid(), pids[0]);
    }
}
