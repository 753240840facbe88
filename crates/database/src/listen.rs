//! Notifications of a PostgreSQL channel (`LISTEN`, `NOTIFY`).
//!
//! Called by: holders of cached answers, within a [`DbThread`](crate::DbThread)'s thread.
//! Caveat: the database keeps no notifications for those who do not listen. After an error, and
//! before the first notification, cached answers may be outdated.
//! Out of scope: other databases, which have nothing of the kind.

use crate::{Failure, connect_options, sql_error::failed, terms::scheme};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use std::time::Duration;

/// Limit on connecting.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// A connection that listens.
pub struct Notifications(PgListener);

/// Returns true if the database of this URL sends notifications.
pub fn can_notify(url: &str) -> bool {
    matches!(scheme(url), "postgres" | "postgresql")
}

impl Notifications {
    /// Connects, and listens from now on.
    ///
    /// # Errors
    /// The database does not answer, or is none that sends notifications.
    pub async fn of(url: &str, channel: &str) -> Result<Notifications, Failure> {
        if !can_notify(url) {
            return Err(Failure("only PostgreSQL sends notifications".into()));
        }
        let options = connect_options::postgres(url)?;
        match (connect(options.first, channel).await, options.otherwise) {
            (Err(_), Some(otherwise)) => connect(otherwise, channel).await,
            (connected, _) => connected,
        }
    }

    /// Waits for the next notification, and returns its text.
    ///
    /// # Errors
    /// The connection has ended: notifications may have been missed.
    pub async fn next(&mut self) -> Result<String, Failure> {
        match self.0.try_recv().await.map_err(failed)? {
            Some(notification) => Ok(notification.payload().to_owned()),
            None => Err(Failure("the connection has ended".into())),
        }
    }
}

async fn connect(options: PgConnectOptions, channel: &str) -> Result<Notifications, Failure> {
    let pool: PgPool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CONNECT_TIME_MAX)
        .connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await.map_err(failed)?;
    listener.listen(channel).await.map_err(failed)?;
    Ok(Notifications(listener))
}
