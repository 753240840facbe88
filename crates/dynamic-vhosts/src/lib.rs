//! Virtual hosts defined in a database (`[dynamic_vhosts]`), shared by all workers.
//!
//! Called by: the phase `select_host`, through [`Hosts::find`], for sites with `lookup`. Cached
//! answers are returned at once; otherwise one query goes to the database's thread, however many
//! requests wait for it. Answers in use are refreshed in the background before they expire, and
//! stay in use while the database is unavailable.
//! Caveat: cached routes hold answers without coming back here. So each answer has a lease, which
//! the routes hold too, and which is extended when the database confirms the answer.

mod answer;
mod notifications;
mod roots;
mod table;

pub use answer::{Answer, HostRow};
pub use table::{Counts, Found};

use answer::LookupResult;
use roots::Roots;
use saker_config::{
    Diagnostic,
    model::{DatabaseKind, Hosts as Settings},
};
use saker_database::{Database, DbThread, LdapTerms, Terms};
use saker_net::clock;
use saker_telemetry::{error_log, message};
use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use table::Table;
use tokio::sync::oneshot;

/// Maximum wait for a refresh if an old answer is cached.
const PATIENCE: Duration = Duration::from_millis(500);
/// Pause after a failed query, for requests that have a cached answer.
const PAUSE_MS: u64 = 1000;

/// One `[dynamic_vhosts]` of a configuration, with its cached answers. Reloads that do not change
/// it keep it.
#[derive(Debug)]
pub struct Hosts {
    settings: Settings,
    desk: DbThread,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    query: Box<str>,
    parameters: usize,
    roots: Roots,
    table: Arc<Table>,
    /// No query is sent before this time.
    away_until_ms: AtomicU64,
    /// Set once the failure has been logged.
    is_away: AtomicBool,
    asked: AtomicU64,
    failed: AtomicU64,
}

/// Numbers for status and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub counts: Counts,
    pub asked: u64,
    pub failed: u64,
    pub is_away: bool,
}

/// Checks the settings as the database driver sees them, without connecting.
pub fn problems(settings: &Settings) -> Vec<Diagnostic> {
    let Some(database) = &settings.database else {
        return Vec::new();
    };
    let of_url = saker_database::check_url(&database.0).err().map(|failure| {
        let file = settings
            .database_file
            .as_ref()
            .map(|file| format!(" of {}", file.display()))
            .unwrap_or_default();
        (
            &settings.database_origin,
            format!("the URL{file} ({database}): {failure}"),
        )
    });
    let is_directory = DatabaseKind::of(&database.0) == Some(DatabaseKind::Ldap);
    let of_filter = saker_database::check_filter(&settings.query)
        .err()
        .filter(|_| is_directory);
    let of_filter =
        of_filter.map(|failure| (&settings.query_origin, format!("`query`: {failure}")));
    let of_channel = settings
        .notify
        .as_ref()
        .filter(|_| !saker_database::can_notify(&database.0));
    let of_channel = of_channel.map(|_| {
        let why = "`notify`: only PostgreSQL databases announce changes";
        (&settings.notify_origin, why.to_owned())
    });
    of_url
        .into_iter()
        .chain(of_filter)
        .chain(of_channel)
        .map(|(origin, message)| Diagnostic::without_source(origin.clone(), message))
        .collect()
}

impl Hosts {
    /// Starts the thread; it connects for the first query. The error describes the invalid URL.
    pub fn start(settings: &Settings) -> Result<Hosts, String> {
        let database = settings.database.as_ref().ok_or("there is no database")?;
        let terms = Terms {
            url: database.0.to_string(),
            ldap: LdapTerms {
                base: settings.ldap_base.clone(),
                user: settings.ldap_user.clone(),
                password: settings.ldap_password.clone(),
                ..LdapTerms::default()
            },
            connections_max: settings.connections_max,
            timeout: Duration::from_millis(settings.timeout_ms),
            ..Terms::default()
        };
        let desk =
            DbThread::start("hosts", terms).map_err(|failure| format!("{database}: {failure}"))?;
        let inner = Inner {
            query: settings.query.as_str().into(),
            parameters: settings.query.matches('?').count(),
            roots: Roots::new(&settings.roots),
            table: Arc::new(Table::new(settings)),
            away_until_ms: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        let inner = Arc::new(inner);
        if let Some(channel) = settings.notify.clone() {
            let (hosts, url) = (Arc::downgrade(&inner.table), database.0.to_string());
            desk.run(Box::new(move |_| {
                Box::pin(notifications::follow(hosts, url, channel))
            }));
        }
        Ok(Hosts {
            settings: settings.clone(),
            desk,
            inner,
        })
    }

    /// Returns true if the configuration has not changed.
    pub fn is_of(&self, settings: &Settings) -> bool {
        // Its place in the file may have changed.
        let own = &self.settings;
        let (origin, database_origin, query_origin) = (
            own.origin.clone(),
            own.database_origin.clone(),
            own.query_origin.clone(),
        );
        let notify_origin = own.notify_origin.clone();
        *own == Settings {
            origin,
            database_origin,
            query_origin,
            notify_origin,
            ..settings.clone()
        }
    }

    /// Returns the answer for a host, by its canonical name, or a receiver to wait for it.
    pub fn find(&self, name: &str) -> Found {
        let now_ms = clock::monotonic_ms();
        let is_away = now_ms < self.inner.away_until_ms.load(Relaxed);
        let (found, is_to_be_asked) = self.inner.table.find(name, now_ms, is_away);
        if is_to_be_asked && !self.ask(name) {
            self.inner.table.settle(name, Err(()), now_ms);
        }
        found
    }

    /// Returns true if an answer is cached; does not query the database.
    pub fn knows(&self, name: &str) -> bool {
        self.inner.table.knows(name)
    }

    /// Receives the answer. A dropped sender counts as an unavailable database: no request waits
    /// longer than a query's timeout.
    pub async fn heard(waiting: oneshot::Receiver<Answer>) -> Answer {
        waiting.await.unwrap_or(Answer::Away)
    }

    /// Returns true if an answer was cached.
    pub fn purge(&self, name: &str) -> bool {
        self.inner.table.purge(name)
    }

    /// Returns the number of purged answers.
    pub fn purge_all(&self) -> usize {
        self.inner.table.purge_all()
    }

    pub fn figures(&self) -> Figures {
        let inner = &self.inner;
        Figures {
            counts: inner.table.counts(),
            asked: inner.asked.load(Relaxed),
            failed: inner.failed.load(Relaxed),
            is_away: inner.is_away.load(Relaxed),
        }
    }

    fn ask(&self, name: &str) -> bool {
        let (inner, name) = (Arc::clone(&self.inner), Box::<str>::from(name));
        inner.asked.fetch_add(1, Relaxed);
        self.desk.run(Box::new(move |database| {
            Box::pin(async move { inner.carry_out(&database, &name).await })
        }))
    }
}

impl Inner {
    async fn carry_out(&self, database: &Rc<Database>, name: &str) {
        let parameters = vec![name; self.parameters.max(1)];
        let rows = database.rows(&self.query, &parameters, 1);
        let mut rows = std::pin::pin!(rows);
        let rows = match tokio::time::timeout(PATIENCE, rows.as_mut()).await {
            Ok(rows) => rows,
            Err(_) => {
                self.leave_alone();
                self.table.let_go(name, clock::monotonic_ms());
                rows.await
            }
        };
        let said = match rows {
            Ok(rows) => {
                self.is_back();
                Ok(self.read(name, rows.first()).await)
            }
            Err(failure) => {
                self.failed.fetch_add(1, Relaxed);
                self.leave_alone();
                if !self.is_away.swap(true, Relaxed) {
                    error_log::log(&message::HOSTS_AWAY, format_args!("{failure}"));
                }
                Err(())
            }
        };
        self.table.settle(name, said, clock::monotonic_ms());
    }

    async fn read(&self, name: &str, row: Option<&saker_database::Row>) -> LookupResult {
        let Some(row) = row else {
            return LookupResult::Missing;
        };
        let host = match HostRow::read(row) {
            Ok(host) => host,
            Err(reason) => {
                error_log::log(&message::HOST_REFUSED, format_args!("{name}: {reason}"));
                return LookupResult::Refused;
            }
        };
        match self.roots.check(host).await {
            Ok(host) => LookupResult::Known(host),
            Err(reason) => {
                error_log::log(&message::HOST_REFUSED, format_args!("{name}: {reason}"));
                LookupResult::Refused
            }
        }
    }

    fn leave_alone(&self) {
        self.away_until_ms
            .store(clock::monotonic_ms() + PAUSE_MS, Relaxed);
    }

    fn is_back(&self) {
        self.away_until_ms.store(0, Relaxed);
        if self.is_away.load(Relaxed) && self.is_away.swap(false, Relaxed) {
            error_log::log(&message::HOSTS_BACK, format_args!(""));
        }
    }
}
