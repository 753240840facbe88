//! Certificates at the first handshake for a name: the ask rule, and recent refusals.

use crate::client::Client;
use saker_dynamic_vhosts::{Answer, Found, Hosts};
use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

/// Lifetime of a refusal by the ask rule.
const REFUSAL_TIME: Duration = Duration::from_secs(300);
const REFUSALS_MAX: usize = 10_000;

/// Reason why a handshake gets no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No site has such a name on demand.
    NotMeant,
    /// The ask rule said no, now or lately.
    Forbidden,
    /// Too many names wait.
    Busy,
    /// Ordering failed, now or lately.
    Failed(String),
    /// The server stops.
    Stopping,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::NotMeant => f.write_str("no site has this name on demand"),
            Denied::Forbidden => f.write_str("the ask rule forbids it"),
            Denied::Busy => f.write_str("too many names wait for a certificate"),
            Denied::Failed(reason) => f.write_str(reason),
            Denied::Stopping => f.write_str("the server stops"),
        }
    }
}

/// Reason why a name is not allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// False: the rule or the database had no answer, so the next question may have another end.
    pub is_definite: bool,
}

impl Refusal {
    fn definite(reason: impl Into<String>) -> Refusal {
        Refusal {
            reason: reason.into(),
            is_definite: true,
        }
    }

    fn passing(reason: impl Into<String>) -> Refusal {
        Refusal {
            reason: reason.into(),
            is_definite: false,
        }
    }
}

/// Asks the rule. The error is the reason for a refusal, or why the rule is unavailable.
pub async fn ask(client: &Client, rule: &str, name: &str) -> Result<(), Refusal> {
    let separator = if rule.contains('?') { '&' } else { '?' };
    match client
        .status(&format!("{rule}{separator}domain={name}"))
        .await
    {
        Ok(200) => Ok(()),
        // An application that is overloaded or being deployed has not said no.
        Ok(status) if status >= 500 || status == 429 => {
            Err(Refusal::passing(format!("the ask rule answers {status}")))
        }
        Ok(status) => Err(Refusal::definite(format!("the ask rule answers {status}"))),
        Err(reason) => Err(Refusal::passing(format!(
            "the ask rule can't be asked: {reason}"
        ))),
    }
}

/// True if the database knows the host, and it is not suspended.
pub async fn ask_database(hosts: Option<&Hosts>, name: &str) -> Result<(), Refusal> {
    let hosts = hosts.ok_or_else(|| Refusal::passing("there is no database of hosts"))?;
    let answer = match hosts.find(name) {
        Found::Now(answer) => answer,
        Found::Later(waiting) => Hosts::heard(waiting).await,
    };
    match answer {
        Answer::Known(host, _) if host.is_suspended => {
            Err(Refusal::definite("the host is suspended"))
        }
        Answer::Known(..) => Ok(()),
        Answer::Missing(_) => Err(Refusal::definite("the database of hosts does not know it")),
        Answer::Refused => Err(Refusal::passing(
            "what the database says of the host is refused",
        )),
        Answer::Away => Err(Refusal::passing("the database of hosts does not answer")),
    }
}

/// Names that were refused lately. A flood of names pushes out the oldest, never grows it.
#[derive(Debug, Default)]
pub struct Refusals(HashMap<String, Instant>);

impl Refusals {
    pub fn has(&mut self, name: &str, now: Instant) -> bool {
        match self.0.get(name) {
            Some(until) if *until > now => true,
            Some(_) => {
                self.0.remove(name);
                false
            }
            None => false,
        }
    }

    pub fn add(&mut self, name: &str, now: Instant) {
        if self.0.len() >= REFUSALS_MAX {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= REFUSALS_MAX
            && let Some(oldest) = self
                .0
                .iter()
                .min_by_key(|(_, until)| **until)
                .map(|(name, _)| name.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(name.to_owned(), now + REFUSAL_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_for_a_while() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        refusals.add("a.example", now);
        assert!(refusals.has("a.example", now) && !refusals.has("b.example", now));
        assert!(refusals.has("a.example", now + REFUSAL_TIME - Duration::from_millis(1)));
        assert!(!refusals.has("a.example", now + REFUSAL_TIME));
    }

    #[test]
    fn a_flood_of_names_takes_no_more_room() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for number in 0..REFUSALS_MAX as u64 + 5 {
            refusals.add(
                &format!("h{number}.example"),
                now + Duration::from_micros(number),
            );
        }
        assert_eq!(refusals.0.len(), REFUSALS_MAX);
        assert!(!refusals.has("h4.example", now) && refusals.has("h5.example", now));
    }
}
