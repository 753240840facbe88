//! Values that the servers of a cluster have in common: certificates, accounts, challenges.
//!
//! Called by: `together`; `account` and `order`, which share what they make.
//! A set of names has one value: its record, with an open order and its key, and its certificate.
//! Caveat: the files of the state folder stay what the rest of this crate reads. They follow the
//! value, except when they are newer: then the server was cut off after it had ordered. An order
//! that was made at the authority and not written before its server was killed is made once more.
//! Out of scope: encryption (`saker_cluster`).

use crate::{
    failure::Failure,
    record::Record,
    store::{self, Bundle, Store},
};
use saker_cluster::{Held, SharedState};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Interval at which a lock is prolonged, and the time without success after which it is given up.
const RENEW_EVERY: Duration = Duration::from_secs(4);
const LOST_AFTER: Duration = Duration::from_secs(12);
/// Time for which another server's new account is waited for.
const ACCOUNT_WAIT: Duration = Duration::from_secs(30);
/// Lifetime of an answer to a challenge.
const CHALLENGE_MS: u64 = 3_600_000;

/// Interval of looks for another server's new account.
const LOOK_FOR_ACCOUNT: Duration = Duration::from_millis(500);

/// The state that all servers of the cluster have.
#[derive(Clone, Debug)]
pub struct SharedValues(pub SharedState);

/// The value of a set of names, compared with the files.
pub enum Pulled {
    /// There is none, or it is older than the files.
    Behind,
    /// The files are as the value is.
    Taken { is_new_certificate: bool },
}

impl SharedValues {
    /// Brings the value to the files.
    pub async fn pull(&self, store: &Store, names: &[String]) -> Result<Pulled, String> {
        let Some(value) = self.0.get(&value_name(names)).await? else {
            return Ok(Pulled::Behind);
        };
        let (record, bundle) = parse(&value, names).ok_or("the value is none of this version")?;
        let local = store.record(names);
        if local
            .as_ref()
            .is_some_and(|local| local.issued_at > record.issued_at)
        {
            return Ok(Pulled::Behind);
        }
        let mut is_new_certificate = false;
        if let Some(bundle) =
            bundle.filter(|bundle| store.certificate(names).as_ref() != Some(bundle))
        {
            let saved = store.save_certificate(names, &bundle);
            saved.map_err(|error| error.to_string())?;
            is_new_certificate = true;
        }
        if local.as_ref() != Some(&record) {
            let saved = store.save_record(&record);
            saved.map_err(|error| error.to_string())?;
        }
        Ok(Pulled::Taken { is_new_certificate })
    }

    /// Writes the files to the value.
    pub async fn push(&self, store: &Store, names: &[String], held: &Held) -> Result<(), String> {
        let Some(record) = store.record(names) else {
            return Ok(());
        };
        let bundle = store.certificate(names);
        let value = json!({
            "record": record.to_json(),
            "chain": bundle.as_ref().map(|bundle| &bundle.chain),
            "key": bundle.as_ref().map(|bundle| &bundle.key),
        });
        match self.0.put(held, value.to_string().as_bytes()).await? {
            true => Ok(()),
            false => Err("another server of the cluster has taken over".into()),
        }
    }

    /// Brings the account of a directory to the files. `Some`: there is none, and this server is to
    /// make it, or has one of its own, and writes it with [`SharedValues::push_account`].
    pub async fn pull_account(
        &self,
        store: &Store,
        directory: &str,
    ) -> Result<Option<Held>, String> {
        let name = account_name(directory);
        let until = Instant::now() + ACCOUNT_WAIT;
        loop {
            if self.take_account(store, directory, &name).await? {
                return Ok(None);
            }
            if let Some(held) = self.0.acquire(&name).await? {
                // It may have been made a moment ago.
                if self.take_account(store, directory, &name).await? {
                    self.0.release(held).await;
                    return Ok(None);
                }
                return Ok(Some(held));
            }
            if Instant::now() >= until {
                return Err("another server of the cluster makes an account".into());
            }
            sleep(LOOK_FOR_ACCOUNT).await;
        }
    }

    async fn take_account(
        &self,
        store: &Store,
        directory: &str,
        name: &str,
    ) -> Result<bool, String> {
        let value = self.0.get(name).await?;
        let text = value.and_then(|value| String::from_utf8(value).ok());
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(false);
        };
        if store.account(directory).as_ref() != Some(&text) {
            let saved = store.save_account(directory, &text);
            saved.map_err(|error| error.to_string())?;
        }
        Ok(true)
    }

    /// Shares the account in the files, if there is one now.
    pub async fn push_account(
        &self,
        store: &Store,
        directory: &str,
        held: Held,
    ) -> Result<(), String> {
        let pushed = match store.account(directory) {
            Some(text) => self.0.put(&held, text.as_bytes()).await.map(drop),
            None => Ok(()),
        };
        self.0.release(held).await;
        pushed
    }

    /// Removes an account that the authority no longer knows, unless there is another one by now.
    pub async fn forget_account(&self, directory: &str, text: &str) -> Result<(), String> {
        let name = account_name(directory);
        let Some(held) = self.0.acquire(&name).await? else {
            return Ok(());
        };
        let current = self.0.get(&name).await?;
        let done = match current.as_deref() == Some(text.as_bytes()) {
            true => self.0.put(&held, b"").await.map(drop),
            false => Ok(()),
        };
        self.0.release(held).await;
        done
    }

    /// Lets the other servers answer a challenge over HTTP.
    pub async fn lend_challenge(&self, token: &str, answer: &str) -> Result<(), String> {
        let name = challenge_name(token);
        self.0.lend(&name, answer.as_bytes(), CHALLENGE_MS).await
    }

    /// Returns when the lock can no longer be relied on.
    pub async fn lose(&self, held: &Held) -> String {
        let mut renewed = Instant::now();
        loop {
            sleep(RENEW_EVERY).await;
            match self.0.renew(held).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return "another server of the cluster has taken over".into(),
                Err(reason) if renewed.elapsed() >= LOST_AFTER => return reason,
                Err(_) => {}
            }
        }
    }
}

/// Waits with an order until the other servers could continue it.
pub async fn share_order(
    together: Option<(&SharedValues, &Held)>,
    store: &Store,
    names: &[String],
) -> Result<(), Failure> {
    match together {
        Some((together, held)) => together
            .push(store, names, held)
            .await
            .map_err(Failure::passing),
        None => Ok(()),
    }
}

/// Name of the value, and of the lock, of a set of names.
pub fn value_name(names: &[String]) -> String {
    format!("certificate-{}", store::key(names))
}

fn account_name(directory: &str) -> String {
    format!("account-{}", store::account_key(directory))
}

/// Name of the answer to a challenge.
pub fn challenge_name(token: &str) -> String {
    format!("challenge-{token}")
}

fn parse(value: &[u8], names: &[String]) -> Option<(Record, Option<Bundle>)> {
    let value: Value = serde_json::from_slice(value).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let record = Record::from_json(&text("record")?).filter(|record| record.names == names)?;
    let bundle = match (text("chain"), text("key")) {
        (Some(chain), Some(key)) => Some(Bundle { chain, key }),
        _ => None,
    };
    Some((record, bundle))
}
