//! Values and locks as keys.
//!
//! Called by: `saker_cluster`, through [`Store`] and [`Lock`].
//! The value of a lock is its random token. Scripts compare it in the same step in which they write,
//! prolong, or end, so that a server whose lock has ended writes nothing.
//! Caveat: a replica that takes over without the last writes may know no lock; then a certificate
//! may be ordered twice.
//! Out of scope: encryption.

use crate::{
    RedisEngine,
    connection::{Connection, failed},
};
use redis::{Cmd, Value, cmd};
use saker_cluster::{Lock, LogError, Store};

const PUT: &str = "if redis.call('get', KEYS[2]) ~= ARGV[1] then return 0 end \
                   redis.call('set', KEYS[1], ARGV[2]) return 1";
const RENEW: &str = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                     return redis.call('pexpire', KEYS[1], ARGV[2])";
const RELEASE: &str = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                       return redis.call('del', KEYS[1])";

pub struct RedisState {
    connection: Connection,
    prefix: String,
}

impl RedisState {
    pub(crate) fn new(engine: &RedisEngine, connection: Connection) -> RedisState {
        RedisState {
            connection,
            prefix: engine.prefix.clone(),
        }
    }

    fn value(&self, name: &str) -> String {
        format!("{}:state:{name}", self.prefix)
    }

    fn lock(&self, name: &str) -> String {
        format!("{}:lock:{name}", self.prefix)
    }
}

fn script(text: &str, keys: &[String]) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}

impl Store for RedisState {
    async fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let mut command = cmd("GET");
        command.arg(self.value(name));
        self.connection.ask(&command).await
    }

    async fn put(&mut self, name: &str, value: &[u8], token: u64) -> Result<bool, LogError> {
        let mut command = script(PUT, &[self.value(name), self.lock(name)]);
        command.arg(token).arg(value);
        self.connection.ask(&command).await
    }

    async fn lend(&mut self, name: &str, value: &[u8], life_ms: u64) -> Result<(), LogError> {
        let mut command = cmd("SET");
        command.arg(self.value(name)).arg(value);
        command.arg("PX").arg(life_ms);
        self.connection.ask::<Value>(&command).await.map(drop)
    }
}

impl Lock for RedisState {
    async fn acquire(&mut self, name: &str, life_ms: u64) -> Result<Option<u64>, LogError> {
        let mut token = [0; 8];
        aws_lc_rs::rand::fill(&mut token).map_err(|_| failed("no random bytes"))?;
        let token = u64::from_le_bytes(token);
        let mut command = cmd("SET");
        command.arg(self.lock(name)).arg(token);
        command.arg("NX").arg("PX").arg(life_ms);
        let set: Value = self.connection.ask(&command).await?;
        Ok((set != Value::Nil).then_some(token))
    }

    async fn renew(&mut self, name: &str, token: u64, life_ms: u64) -> Result<bool, LogError> {
        let mut command = script(RENEW, &[self.lock(name)]);
        command.arg(token).arg(life_ms);
        self.connection.ask(&command).await
    }

    async fn release(&mut self, name: &str, token: u64) -> Result<(), LogError> {
        let mut command = script(RELEASE, &[self.lock(name)]);
        command.arg(token);
        self.connection.ask::<Value>(&command).await.map(drop)
    }
}
