//! B5: lighttpd against Apache prefork and worker (2009): a page of 4 kB by ab, and siege over
//! addresses drawn as a site's own visitors draw them.
//!
//! The site has 400 files of a few bytes to 0.25 MB; a few are asked for much and most hardly ever
//! (Zipf's law), from one seed. Every request is logged, by all workers into one file, which is
//! read afterwards: a line that is damaged or missing refuses the row. With two cores the load
//! shares them. A server that gives up serving for a while shows in its longest transaction.

use super::plain::{self, Plain};
use crate::{
    access_log,
    conditions::Site,
    load::Load,
    row::{Kind, Row},
    running_server::RunningServer,
    subject::Subject::{self, Saker},
    test_env::TestEnv,
    tool::{Ab, Tool},
    workload::{Asked, Measure, Workload},
};
use saker_testkit::{Dice, Peer, PeerSite, bench_files};
use std::{collections::BTreeSet, fs, io, path::PathBuf, sync::LazyLock};

pub const ROWS: &[Row] = &[
    Row {
        name: "b5-page",
        title: "B5: 4 kB, a connection per request, 25 at a time",
        kind: Kind::Own(&PAGE),
    },
    Row {
        name: "b5-siege-1",
        title: "B5: a site's own addresses, 25 clients, every request logged, one core",
        kind: Kind::Own(&ONE_CORE),
    },
    Row {
        name: "b5-siege-2",
        title: "B5: a site's own addresses, 25 clients, every request logged, two cores",
        kind: Kind::Own(&TWO_CORES),
    },
];

const NGINX: Subject = Subject::Peer(Peer::Nginx);
const LIGHTTPD: Subject = Subject::Peer(Peer::Lighttpd);
const WORKER: Subject = Subject::Peer(Peer::ApacheWorker);
const PREFORK: Subject = Subject::Peer(Peer::ApachePrefork);

const PAGE: Plain = Plain {
    measure: Measure::Cpu,
    tool: Tool::Ab(Ab {
        keep_alive: false,
        requests: None,
        any_length: false,
    }),
    paths: &[bench_files::PAGE],
    connections: 25,
    subjects: &[Saker, NGINX, LIGHTTPD, WORKER, PREFORK],
    site: Site::Files,
    says_the_same: true,
};
const ONE_CORE: Site400 = Site400 { workers: 1 };
const TWO_CORES: Site400 = Site400 { workers: 2 };

const SEED: u64 = 5;
const FILES: usize = 400;
const FOLDER: &str = "site";
const LEAST_BYTES: f64 = 12.0;
const MOST_BYTES: f64 = 250_000.0;
/// Small ones are many.
const SKEW: f64 = 1.6;
/// Length of the list of URLs.
const DRAWS: usize = 4_000;
const CONNECTIONS: usize = 25;
/// The published runs were cut short by a server that gave up after 40 s.
const LONG_S: u64 = 42;
/// Long enough that first requests for files are a small part of it.
const QUICK_S: u64 = 4;

#[derive(Debug)]
struct Site400 {
    workers: usize,
}

impl Workload for Site400 {
    fn measure(&self) -> Measure {
        Measure::Cpu
    }

    fn subjects(&self) -> &'static [Subject] {
        // A process per visitor is on two cores what it is on one.
        if self.workers == 1 {
            &[Saker, NGINX, LIGHTTPD, WORKER, PREFORK]
        } else {
            &[Saker, NGINX, LIGHTTPD, WORKER]
        }
    }

    fn load(&self) -> Asked {
        Asked {
            tool: Tool::Siege { parser: false },
            paths: drawn(),
            connections: CONNECTIONS,
        }
    }

    fn seconds_at_least(&self, is_quick: bool) -> u64 {
        if is_quick { QUICK_S } else { LONG_S }
    }

    fn prepare(&self, test_env: TestEnv<'_>) -> Result<(), String> {
        write(test_env).map_err(|error| format!("the site: {error}"))
    }

    fn start(&self, subject: Subject, test_env: TestEnv<'_>) -> Result<RunningServer, String> {
        let log = log_of(test_env);
        // What another server has written is not its.
        match fs::remove_file(&log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", log.display()));
            }
            _ => {}
        }
        let core = if self.workers == 1 {
            test_env.core
        } else {
            None
        };
        subject.start(TestEnv {
            site: PeerSite::Logged {
                log: &log,
                workers: self.workers,
            },
            core,
            ..test_env
        })
    }

    fn answer(&self, running: &RunningServer, _ground: TestEnv<'_>) -> Result<Vec<u8>, String> {
        let each: BTreeSet<&str> = drawn().iter().copied().collect();
        plain::bodies(
            running.address(),
            &each.into_iter().collect::<Vec<_>>(),
            None,
        )
    }

    fn afterwards(
        &self,
        _contender: Subject,
        _stand: &RunningServer,
        load: &Load,
        test_env: TestEnv<'_>,
    ) -> Result<(), String> {
        access_log::check(&log_of(test_env), load.requests as usize)
    }
}

fn log_of(test_env: TestEnv<'_>) -> PathBuf {
    test_env.work.join("access.log")
}

fn write(test_env: TestEnv<'_>) -> io::Result<()> {
    fs::create_dir_all(test_env.root.join(FOLDER))?;
    let mut dice = Dice::new(SEED);
    for number in 0..FILES {
        let size = LEAST_BYTES * (MOST_BYTES / LEAST_BYTES).powf(dice.share().powf(SKEW));
        fs::write(
            test_env.root.join(name(number)),
            bench_files::noise(SEED * 1_000 + number as u64, b"", size as usize),
        )?;
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("{FOLDER}/{number:03}.html")
}

/// The addresses in the order in which they are asked for.
fn drawn() -> &'static [&'static str] {
    static DRAWN: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        // Each name once, for the whole run.
        let names: Vec<&'static str> = (0..FILES)
            .map(|number| &*Box::leak(name(number).into_boxed_str()))
            .collect();
        let mut dice = Dice::new(SEED + 1);
        (0..DRAWS)
            .filter_map(|_| names.get(zipf(dice.share())).copied())
            .collect()
    });
    &DRAWN
}

/// The rank that a share of all requests falls on, where each rank is asked for as often as its
/// number's reciprocal says.
fn zipf(share: f64) -> usize {
    let weight = |rank: usize| 1.0 / (rank + 1) as f64;
    let mut rest = share * (0..FILES).map(weight).sum::<f64>();
    (0..FILES)
        .find(|rank| {
            rest -= weight(*rank);
            rest < 0.0
        })
        .unwrap_or(FILES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_asked_for_much() {
        let count = |name: &str| drawn().iter().filter(|drawn| **drawn == name).count();
        assert_eq!(drawn().len(), DRAWS);
        // The first takes 1 in 6.6 of 400, the hundredth 1 in 660.
        assert!(
            (500..720).contains(&count("site/000.html")),
            "{}",
            count("site/000.html")
        );
        assert!(count("site/099.html") < 20);
        assert!(drawn().iter().collect::<BTreeSet<_>>().len() > FILES / 2);
        assert_eq!((zipf(0.0), zipf(0.999_999_9)), (0, FILES - 1));
    }
}
