//! mod_dbd: the database of a host (DBDriver and its like), for rewrite maps, passwords and groups.
//!
//! Nothing is connected, and no thread started, before the first question. Hosts that say the same
//! share one database. Difficulty: merging is Apache's, setting by setting, but what connections
//! begin with (DBDInitSQL) is added up. Statements with labels (DBDPrepareSQL) are sessions'. Absent on purpose: drivers besides
//! mysql, pgsql and sqlite3.

mod parameters;

use crate::{
    arguments::{set_flag, texts},
    reading::ServerSet,
};
use parameters::Driver;
use saker_apache_syntax::Node;
use saker_database::{DbThread, Job, Terms};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Questions under way, of all workers together.
const ASKING_MAX: usize = 1024;

/// Values of `fastdbd` maps that are kept.
const KEPT_MAX: usize = 100_000;

/// The database settings of a host. `None`: not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DbdDraft {
    driver: Option<Driver>,
    parameters: Option<Box<str>>,
    keeps_connections: Option<bool>,
    init: Vec<String>,
    /// By their labels; an empty one takes away the server's.
    statements: Statements,
    connections_min: Option<u32>,
    connections_max: Option<u32>,
    idle_s: Option<u64>,
}

/// Queries by their labels.
pub type Statements = BTreeMap<Box<str>, Box<str>>;

pub const SETTERS: &[(&str, ServerSet<DbdDraft>)] = &[
    ("DBDriver", set_driver),
    ("DBDParams", |node, dbd, _| {
        dbd.parameters = Some(first(node).into());
        Ok(())
    }),
    ("DBDPersist", |node, dbd, _| {
        set_flag(node, &mut dbd.keeps_connections)
    }),
    ("DBDInitSQL", |node, dbd, _| {
        dbd.init.push(first(node));
        Ok(())
    }),
    ("DBDPrepareSQL", |node, dbd, _| {
        let words = texts(node);
        let query = words.first().map(String::as_str).unwrap_or_default();
        match words.get(1) {
            Some(label) => dbd.statements.insert(label.as_str().into(), query.into()),
            None => dbd.statements.insert(query.into(), "".into()),
        };
        Ok(())
    }),
    ("DBDMin", |node, dbd, _| {
        set_number(node, &mut dbd.connections_min)
    }),
    ("DBDMax", |node, dbd, _| {
        set_number(node, &mut dbd.connections_max)
    }),
    ("DBDExptime", |node, dbd, _| {
        set_number(node, &mut dbd.idle_s)
    }),
];

fn first(node: &Node) -> String {
    texts(node).into_iter().next().unwrap_or_default()
}

fn set_driver(node: &Node, dbd: &mut DbdDraft, _: &Path) -> Result<(), String> {
    let name = first(node);
    dbd.driver = Some(match name.as_str() {
        "mysql" => Driver::Mysql,
        "pgsql" => Driver::Postgres,
        "sqlite3" => Driver::Sqlite,
        _ => {
            return Err(format!(
                "DBD: No driver for {name}; there are mysql, pgsql and sqlite3"
            ));
        }
    });
    Ok(())
}

fn set_number<N: std::str::FromStr>(node: &Node, slot: &mut Option<N>) -> Result<(), String> {
    let word = first(node);
    *slot = Some(
        word.parse()
            .map_err(|_| format!("Argument must be numeric: {word}"))?,
    );
    Ok(())
}

impl DbdDraft {
    /// A host's laid over the server's.
    pub fn merge(&self, over: &DbdDraft) -> DbdDraft {
        DbdDraft {
            driver: over.driver.or(self.driver),
            parameters: over
                .parameters
                .as_ref()
                .or(self.parameters.as_ref())
                .cloned(),
            keeps_connections: over.keeps_connections.or(self.keeps_connections),
            init: self.init.iter().chain(&over.init).cloned().collect(),
            statements: self
                .statements
                .iter()
                .chain(&over.statements)
                .map(|(label, query)| (label.clone(), query.clone()))
                .collect(),
            connections_min: over.connections_min.or(self.connections_min),
            connections_max: over.connections_max.or(self.connections_max),
            idle_s: over.idle_s.or(self.idle_s),
        }
    }

    pub fn statements(&self) -> &Statements {
        &self.statements
    }

    /// `None`: there is no database. With Apache's defaults where nothing is said.
    pub fn terms(&self) -> Option<Terms> {
        let place = parameters::place(self.driver?, self.parameters.as_deref().unwrap_or_default());
        Some(Terms {
            url: place.url,
            connections_min: self.connections_min.unwrap_or(1),
            connections_max: self.connections_max.unwrap_or(10).max(1),
            idle_max: Duration::from_secs(self.idle_s.unwrap_or(300)),
            keeps_connections: self.keeps_connections.unwrap_or(true),
            init: self.init.clone(),
            may_write: true,
            timeout: place.timeout,
            ..Terms::default()
        })
    }
}

/// A database that is asked.
pub struct Dbd {
    terms: Terms,
    statements: Statements,
    /// The error: why there is no thread for it.
    desk: OnceLock<Result<DbThread, Box<str>>>,
    under_way: Arc<AtomicUsize>,
    kept: Mutex<HashMap<KeptKey, Box<[u8]>>>,
}

/// A query and what was asked for.
type KeptKey = (Box<str>, Box<[u8]>);

impl std::fmt::Debug for Dbd {
    /// Without what lets us in.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Dbd({})",
            self.terms.url.split(':').next().unwrap_or_default()
        )
    }
}

impl Dbd {
    pub fn new(terms: Terms, statements: Statements) -> Dbd {
        Dbd {
            terms,
            statements,
            desk: OnceLock::new(),
            under_way: Arc::default(),
            kept: Mutex::default(),
        }
    }

    pub fn is_of(&self, terms: &Terms, statements: &Statements) -> bool {
        self.terms == *terms && self.statements == *statements
    }

    /// The query of a label.
    pub fn statement(&self, label: &str) -> Option<&str> {
        let query = self.statements.get(label)?;
        Some(&**query).filter(|query| !query.is_empty())
    }

    fn desk(&self) -> Result<&DbThread, Box<str>> {
        let started = self.desk.get_or_init(|| {
            DbThread::start("dbd", self.terms.clone()).map_err(|failure| failure.to_string().into())
        });
        started.as_ref().map_err(Clone::clone)
    }

    /// `None`: too many questions are under way.
    pub fn begin(&self) -> Option<UnderWay> {
        let under_way = UnderWay(Arc::clone(&self.under_way));
        (under_way.0.fetch_add(1, Relaxed) < ASKING_MAX).then_some(under_way)
    }

    pub fn run(&self, job: Job) -> Result<(), Box<str>> {
        if self.desk()?.run(job) {
            Ok(())
        } else {
            Err("its thread has ended".into())
        }
    }

    /// A value that a `fastdbd` map has found before.
    pub fn kept(&self, query: &str, key: &[u8]) -> Option<Vec<u8>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&(query.into(), key.into()))
            .map(|value| value.to_vec())
    }

    pub fn keep(&self, query: &str, key: &[u8], value: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert((query.into(), key.into()), value.into());
    }
}

/// A question counts until this is dropped.
pub struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_over_the_server() {
        let server = DbdDraft {
            driver: Some(Driver::Sqlite),
            parameters: Some("/a.db".into()),
            init: vec!["PRAGMA a".into()],
            ..DbdDraft::default()
        };
        assert_eq!(
            DbdDraft::default().merge(&DbdDraft::default()).terms(),
            None
        );
        let host = DbdDraft {
            parameters: Some("/b.db".into()),
            init: vec!["PRAGMA b".into()],
            idle_s: Some(5),
            ..DbdDraft::default()
        };
        let terms = server.merge(&host).terms().unwrap();
        assert_eq!(
            (terms.url.as_str(), terms.init.len(), terms.idle_max),
            ("sqlite:///b.db", 2, Duration::from_secs(5))
        );
        assert_eq!(
            (
                terms.connections_min,
                terms.connections_max,
                terms.keeps_connections
            ),
            (1, 10, true)
        );
    }

    #[test]
    fn statements_by_labels() {
        let of = |all: &[(&str, &str)]| DbdDraft {
            statements: all
                .iter()
                .map(|(label, query)| ((*label).into(), (*query).into()))
                .collect(),
            ..DbdDraft::default()
        };
        let server = of(&[("a", "SELECT 1"), ("b", "SELECT 2"), ("c", "SELECT 3")]);
        let merged = server.merge(&of(&[("b", "SELECT 4"), ("c", "")]));
        let dbd = Dbd::new(Terms::default(), merged.statements().clone());
        let found = ["a", "b", "c", "d"].map(|label| dbd.statement(label));
        assert_eq!(found, [Some("SELECT 1"), Some("SELECT 4"), None, None]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let dbd = Dbd::new(Terms::default(), Statements::default());
        assert_eq!(dbd.kept("q", b"k"), None);
        for number in 0..KEPT_MAX + 10 {
            dbd.keep("q", number.to_string().as_bytes(), b"v");
        }
        assert!(dbd.kept.lock().unwrap().len() <= KEPT_MAX);
        assert_eq!(
            dbd.kept("q", (KEPT_MAX + 5).to_string().as_bytes())
                .as_deref(),
            Some(&b"v"[..])
        );
        assert_eq!(dbd.kept("p", (KEPT_MAX + 5).to_string().as_bytes()), None);
    }
}
