//! Certificates of a cluster: ordered by one server, and used by all.
//!
//! Called by: `tend`, for each set of names; `account` and `order`, which share what they make.
//! A set of names has one value on the engine: its record, with an open order and its key, and its
//! certificate. The server that holds the value's lock tends it; the others take over what it
//! writes. If it dies, its lock ends, and the next holder continues its order.
//! Caveat: the files of the state folder stay what the rest of this crate reads. They follow the
//! value, except when they are newer: then the server was cut off after it had ordered. An order
//! that was made at the authority and not written before its server was killed is made once more.
//! Out of scope: the number of orders per hour, which each server counts for itself; encryption
//! (`saker_cluster`).

use crate::{
    certificate,
    event::Event,
    failure::Failure,
    on_demand::Denied,
    record::Record,
    schedule,
    store::{self, Bundle, Store},
    tend::{self, Context, Tended},
};
use saker_cluster::{Held, SharedState};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Interval at which a server looks for what the others have ordered.
const LOOK_S: u64 = 60;
/// The same while another server orders.
const LOOK_AT_ORDER_S: u64 = 2;
/// The same for a handshake that waits.
const LOOK_FOR_HANDSHAKE: Duration = Duration::from_millis(500);
/// Time for which a handshake waits for another server.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(100);
/// Pause after the engine has not answered.
const AWAY_S: u64 = 15;
/// Interval at which a lock is prolonged, and the time without success after which it is given up.
const RENEW_EVERY: Duration = Duration::from_secs(4);
const LOST_AFTER: Duration = Duration::from_secs(12);
/// Time for which another server's new account is waited for.
const ACCOUNT_WAIT: Duration = Duration::from_secs(30);
/// Lifetime of an answer to a challenge.
const CHALLENGE_MS: u64 = 3_600_000;

/// The state that all servers of the cluster have.
#[derive(Clone, Debug)]
pub struct Together(pub SharedState);

/// The value of a set of names, compared with the files.
enum Pulled {
    /// There is none, or it is older than the files.
    Behind,
    /// The files are as the value is.
    Taken { is_new_certificate: bool },
}

impl Together {
    /// Brings the value to the files.
    async fn pull(&self, store: &Store, names: &[String]) -> Result<Pulled, String> {
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
    /// make it, or has one of its own, and writes it with [`Together::push_account`].
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
            sleep(LOOK_FOR_HANDSHAKE).await;
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
    async fn lose(&self, held: &Held) -> String {
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

/// Tends one set of names, unless another server does.
pub async fn tend(
    context: &Context,
    together: &Together,
    names: &[String],
    on_demand: bool,
) -> Tended {
    let until = Instant::now() + HANDSHAKE_WAIT;
    loop {
        if let Err(reason) = take_over(context, together, names).await {
            return put_off(context, names, AWAY_S, reason);
        }
        if let Some(tended) = is_in_order(context, names) {
            return tended;
        }
        match together.0.acquire(&value_name(names)).await {
            Ok(Some(held)) => {
                let tended = hold(context, together, names, on_demand, &held).await;
                together.0.release(held).await;
                return tended;
            }
            Ok(None) if on_demand && Instant::now() < until => sleep(LOOK_FOR_HANDSHAKE).await,
            Ok(None) => return wait(context, names),
            Err(reason) => return put_off(context, names, AWAY_S, reason),
        }
    }
}

/// Tends the names as long as the lock is held.
async fn hold(
    context: &Context,
    together: &Together,
    names: &[String],
    on_demand: bool,
    held: &Held,
) -> Tended {
    match take_over(context, together, names).await {
        Err(reason) => return put_off(context, names, AWAY_S, reason),
        Ok(Pulled::Taken { .. }) => {
            if let Some(tended) = is_in_order(context, names) {
                return tended;
            }
        }
        Ok(Pulled::Behind) => {}
    }
    let tended = tokio::select! {
        tended = tend::alone(context, names, on_demand, Some((together, held))) => tended,
        reason = together.lose(held) => return put_off(context, names, AWAY_S, reason),
    };
    match together.push(&context.store, names, held).await {
        Ok(()) => Tended {
            due: tended.due.map(|due| due.min(schedule::now() + LOOK_S)),
            ..tended
        },
        Err(reason) => put_off(context, names, AWAY_S, reason),
    }
}

/// Takes over what another server has written, and serves with it.
async fn take_over(
    context: &Context,
    together: &Together,
    names: &[String],
) -> Result<Pulled, String> {
    let pulled = together.pull(&context.store, names).await?;
    if let (
        Pulled::Taken {
            is_new_certificate: true,
        },
        Some(bundle),
    ) = (&pulled, context.store.certificate(names))
    {
        let installer = &context.places.installer;
        installer.install(names, &bundle.chain, &bundle.key)?;
        (context.events)(Event::TakenOver {
            names: names.to_vec(),
        });
    }
    Ok(pulled)
}

/// Nothing is to be done but to look again.
fn is_in_order(context: &Context, names: &[String]) -> Option<Tended> {
    let record = context.store.record(names)?;
    let bundle = context.store.certificate(names)?;
    let facts = certificate::facts(&bundle.chain)?;
    let now = schedule::now();
    let next = record.renew_at?.min(record.check_at);
    let is_current = now < next && now < facts.not_after;
    (is_current && !tend::is_of_another_directory(&context.plan, &record)).then(|| Tended {
        due: Some(next.min(now + LOOK_S)),
        has_certificate: Ok(()),
    })
}

/// Another server orders.
fn wait(context: &Context, names: &[String]) -> Tended {
    Tended {
        due: Some(schedule::now() + LOOK_AT_ORDER_S),
        has_certificate: usable(context, names, "another server of the cluster orders it"),
    }
}

fn put_off(context: &Context, names: &[String], pause_s: u64, reason: String) -> Tended {
    (context.events)(Event::ClusterAway {
        names: names.to_vec(),
        reason: reason.clone(),
    });
    Tended {
        due: Some(schedule::now() + pause_s),
        has_certificate: usable(context, names, &reason),
    }
}

fn usable(context: &Context, names: &[String], otherwise: &str) -> Result<(), Denied> {
    let bundle = context.store.certificate(names);
    let facts = bundle.and_then(|bundle| certificate::facts(&bundle.chain));
    match facts.is_some_and(|facts| schedule::now() < facts.not_after) {
        true => Ok(()),
        false => Err(Denied::Failed(otherwise.to_owned())),
    }
}

/// Waits with an order until the other servers could continue it.
pub async fn share_order(
    together: Option<(&Together, &Held)>,
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

fn value_name(names: &[String]) -> String {
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
