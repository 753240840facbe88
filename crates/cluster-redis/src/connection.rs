//! One connection: commands, and answers of bounded size.
//!
//! Called by: `redis_log` and `redis_feeds`.
//! Out of scope: the time that an answer may take, which callers bound.

use crate::bounded::Budget;
use redis::{Cmd, FromRedisValue, Pipeline, aio::MultiplexedConnection};
use saker_cluster::LogError;
use tokio::task::AbortHandle;

pub struct Connection {
    connection: MultiplexedConnection,
    _driver: Driver,
    budget: Budget,
}

impl Connection {
    pub(crate) fn new(
        connection: MultiplexedConnection,
        driver: Driver,
        budget: Budget,
    ) -> Connection {
        Connection {
            connection,
            _driver: driver,
            budget,
        }
    }

    pub async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, LogError> {
        self.budget.refill();
        let answer = command.query_async(&mut self.connection).await;
        answer.map_err(|error| self.failure(&error))
    }

    /// Sends commands at once.
    pub async fn ask_all<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T, LogError> {
        self.budget.refill();
        let answer = commands.query_async(&mut self.connection).await;
        answer.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &redis::RedisError) -> LogError {
        match self.budget.is_exhausted() {
            true => LogError::TooLarge,
            false => failed(error),
        }
    }
}

/// The task that reads and writes a connection; ends with it.
pub struct Driver(AbortHandle);

impl Driver {
    pub fn new(task: AbortHandle) -> Driver {
        Driver(task)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub fn failed(error: impl std::fmt::Display) -> LogError {
    LogError::Failed(error.to_string())
}
