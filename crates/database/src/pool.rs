//! Connection pool of one SQL database: connects, lends, keeps, and closes connections.
//!
//! It replaces sqlx's pool, which keeps trying until its timeout where nothing listens, and knows
//! one way to connect. Here a database that refuses connections is known to be down at once, and
//! one that requires the other way (with TLS, without) is tried that way next.
//!
//! Caveat: queries are dropped at their timeout, so a lent connection that is not returned is
//! closed.

use crate::Terms;
use sqlx::{ConnectOptions, Connection, Database, Error, Executor};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fs::File,
    io,
    path::PathBuf,
    rc::{Rc, Weak},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::spawn_local,
    time::{Instant, sleep, timeout},
};

/// A connection gets no older: the name that it was made by may lead elsewhere now.
const AGE_MAX: Duration = Duration::from_secs(30 * 60);
/// For saying goodbye.
const CLOSING: Duration = Duration::from_secs(5);
/// A database that has too many connections is asked again after so long, and twice that, up to the
/// most.
const FULL: Duration = Duration::from_millis(10);
const FULL_MAX: Duration = Duration::from_secs(1);

/// Connect options of a database.
#[derive(Debug)]
pub struct PoolOptions<O> {
    pub first: O,
    /// Fallback if the first fails because of its TLS settings.
    pub otherwise: Option<O>,
    /// Certificates and keys with the words that name them, which drivers read for each connection.
    pub files: Vec<(String, PathBuf)>,
}

impl<O> From<O> for PoolOptions<O> {
    fn from(first: O) -> PoolOptions<O> {
        PoolOptions {
            first,
            otherwise: None,
            files: Vec::new(),
        }
    }
}

pub struct Pool<C: Connection> {
    options: PoolOptions<C::Options>,
    init: Vec<String>,
    /// Number of connections may yet be lent.
    free: Semaphore,
    connections_min: usize,
    connections_max: usize,
    idle_max: Duration,
    keeps_connections: bool,
    /// The one that waits longest first.
    idle: RefCell<VecDeque<Kept<C>>>,
    is_tended: Cell<bool>,
    is_filled: Cell<bool>,
}

struct Kept<C> {
    connection: C,
    made: Instant,
    since: Instant,
}

/// Closed when it is dropped; [`Pool::give_back`] keeps it.
pub struct PooledConnection<'p, C: Connection> {
    pub connection: C,
    made: Instant,
    _permit: SemaphorePermit<'p>,
}

impl<C> Pool<C>
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    C::Database: Database<Connection = C>,
{
    /// Nothing is connected yet.
    pub fn new(options: PoolOptions<C::Options>, terms: &Terms) -> Rc<Pool<C>> {
        let connections_max = terms.connections_max.max(1) as usize;
        Rc::new(Pool {
            options,
            init: terms.init.clone(),
            free: Semaphore::new(connections_max),
            connections_min: (terms.connections_min as usize).min(connections_max),
            connections_max,
            idle_max: terms.idle_max,
            keeps_connections: terms.keeps_connections,
            idle: RefCell::default(),
            is_tended: Cell::new(false),
            is_filled: Cell::new(false),
        })
    }

    /// A connection that answers: one that was kept, or a new one. Waits while as many are lent as
    /// there may be.
    pub async fn lend(self: &Rc<Self>) -> Result<PooledConnection<'_, C>, Error> {
        let _permit = self.free.acquire().await.map_err(|_| Error::PoolClosed)?;
        while let Some(Kept {
            mut connection,
            made,
            ..
        }) = self.latest()
        {
            // What was kept may have ended meanwhile.
            if made.elapsed() < AGE_MAX && connection.ping().await.is_ok() {
                return Ok(PooledConnection {
                    connection,
                    made,
                    _permit,
                });
            }
        }
        let connection = self.connect().await?;
        self.fill();
        Ok(PooledConnection {
            connection,
            made: Instant::now(),
            _permit,
        })
    }

    fn latest(&self) -> Option<Kept<C>> {
        self.idle.borrow_mut().pop_back()
    }

    /// Whatever became of the question: who is lent it next looks whether it still answers.
    pub fn give_back(self: &Rc<Self>, lent: PooledConnection<'_, C>) {
        if self.keeps_connections {
            self.keep(lent.connection, lent.made)
        } else {
            close(lent.connection)
        }
    }

    fn keep(self: &Rc<Self>, connection: C, made: Instant) {
        self.idle.borrow_mut().push_back(Kept {
            connection,
            made,
            since: Instant::now(),
        });
        if self.idle.borrow().len() > self.connections_min && !self.is_tended.replace(true) {
            spawn_local(tend(Rc::downgrade(self)));
        }
    }

    /// Opens the minimum of connections in the background of the query that needed the first.
    fn fill(self: &Rc<Self>) {
        if self.keeps_connections
            && self.count() < self.connections_min
            && !self.is_filled.replace(true)
        {
            let pool = Rc::clone(self);
            spawn_local(async move {
                pool.fill_up().await;
                pool.is_filled.set(false);
            });
        }
    }

    async fn fill_up(self: &Rc<Self>) {
        while self.count() < self.connections_min {
            let Ok(_permit) = self.free.try_acquire() else {
                return;
            };
            let Ok(connection) = self.connect().await else {
                return;
            };
            self.keep(connection, Instant::now());
        }
    }

    /// Lent and kept.
    fn count(&self) -> usize {
        self.connections_max - self.free.available_permits() + self.idle.borrow().len()
    }

    async fn connect(&self) -> Result<C, Error> {
        let mut pause = FULL;
        let mut connection = loop {
            match self.knock().await {
                Err(error) if is_full(&error) => sleep(pause).await,
                made => break made?,
            }
            pause = (pause * 2).min(FULL_MAX);
        };
        for statement in &self.init {
            Executor::execute(&mut connection, statement.as_str()).await?;
        }
        Ok(connection)
    }

    async fn knock(&self) -> Result<C, Error> {
        for (word, path) in &self.options.files {
            let fault =
                |error| Error::Configuration(format!("{word} {}: {error}", path.display()).into());
            File::open(path).map_err(fault)?;
        }
        match (self.options.first.connect().await, &self.options.otherwise) {
            (Err(error), Some(otherwise)) if may_go_otherwise(&error) => otherwise.connect().await,
            (made, _) => made,
        }
    }

    /// Closes connections that have been idle for too long; returns the time until the next check.
    fn close_old(&self) -> Option<Duration> {
        let mut idle = self.idle.borrow_mut();
        while idle.len() > self.connections_min {
            let age = idle.front()?.since.elapsed();
            if age < self.idle_max {
                return Some(self.idle_max - age);
            }
            close(idle.pop_front()?.connection);
        }
        self.is_tended.set(false);
        None
    }
}

async fn tend<C>(pool: Weak<Pool<C>>)
where
    C: Connection + 'static,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    C::Database: Database<Connection = C>,
{
    while let Some(pause) = pool.upgrade().and_then(|pool| pool.close_old()) {
        sleep(pause).await;
    }
}

/// With a goodbye, beside whatever goes on.
fn close<C: Connection + 'static>(connection: C) {
    spawn_local(async move { drop(timeout(CLOSING, connection.close()).await) });
}

/// Returns true if the database is up but has no free connection: MySQL's 1040 and PostgreSQL's
/// 53300 (too many connections), a Unix socket whose queue is full.
fn is_full(error: &Error) -> bool {
    match error {
        Error::Database(database) => {
            match database.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
                Some(mysql) => mysql.number() == 1040,
                None => database.code().is_some_and(|code| code == "53300"),
            }
        }
        Error::Io(error) => error.kind() == io::ErrorKind::WouldBlock,
        _ => false,
    }
}

/// Returns true if the server answers but rejects this way to connect: TLS failed, or pg_hba.conf
/// demands another (28000).
fn may_go_otherwise(error: &Error) -> bool {
    match error {
        Error::Tls(_) | Error::Protocol(_) => true,
        Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
        ),
        Error::Database(database) => database
            .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
            .is_some_and(|refused| refused.code() == "28000"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
