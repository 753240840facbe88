//! The job for one set of names: nothing to do, ask for renewal information, or order.

use crate::{
    account::Accounts,
    certificate::{self, Facts},
    client::Client,
    event::Event,
    failure::{Failure, Retry},
    on_demand::{self, Denied, Refusal},
    order::{self, Terms},
    plan::Plan,
    present::Places,
    record::Record,
    schedule::{self, Pace},
    shared_values::SharedValues,
    store::{Bundle, Store},
};
use instant_acme::Account;
use saker_cluster::Held;
use saker_config::model::{AcmeChallenge, AcmeDirectory};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Timeout from the first request to the chain; longer than an order's own waits, except for
/// `dns_wait`.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(600);
const AGAIN_MAX: usize = 5;
/// A certificate lives this long, whatever its authority says: an error there must not become a
/// stream of orders.
const RENEW_AFTER_S: u64 = 3600;
/// Time between attempts to fetch renewal information from an authority that is unavailable.
const CHECK_AGAIN_S: u64 = 6 * 3600;
/// Time between attempts to renew a certificate on demand while the rule or the database that
/// allows its name has no answer.
const ASK_AGAIN_S: u64 = 3600;

pub type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// Shared state of all jobs of one plan.
pub struct Context {
    pub plan: Plan,
    pub store: Arc<Store>,
    pub client: Client,
    pub accounts: Arc<Accounts>,
    pub places: Places,
    pub pace: Arc<Mutex<Pace>>,
    pub events: Events,
    /// The state of the cluster whose servers share certificates.
    pub together: Option<SharedValues>,
}

/// Result of a job.
#[derive(Debug, PartialEq, Eq)]
pub struct Tended {
    /// Time of the next check. `None`: on request only.
    pub due: Option<u64>,
    pub has_certificate: Result<(), Denied>,
}

/// Tends the names; no other server does. `held`: the lock of the cluster that sees to it.
pub async fn alone(
    context: &Context,
    names: &[String],
    on_demand: bool,
    held: Option<(&SharedValues, &Held)>,
) -> Tended {
    let mut record = context
        .store
        .record(names)
        .unwrap_or_else(|| Record::new(names, on_demand));
    record.on_demand = on_demand;
    let facts = context
        .store
        .certificate(names)
        .and_then(|bundle| certificate::facts(&bundle.chain));
    let now = schedule::now();
    if let Some(facts) = &facts {
        check_window(context, &mut record, facts, now).await;
        let renew_at = record
            .renew_at
            .unwrap_or_else(|| schedule::renew_at(facts.not_before, facts.not_after, None, 0.0));
        if now < renew_at && !is_of_another_directory(&context.plan, &record) {
            return Tended {
                due: Some(renew_at.min(record.check_at).max(now + 1)),
                has_certificate: Ok(()),
            };
        }
    }
    let usable = facts.as_ref().is_some_and(|facts| now < facts.not_after);
    let tended = order_one(context, &mut record, (facts.as_ref(), held), now).await;
    Tended {
        has_certificate: if usable {
            Ok(())
        } else {
            tended.has_certificate
        },
        ..tended
    }
}

/// Returns true if the certificate comes from a directory that is no longer configured: an operator
/// who removes a staging directory wants its certificates replaced.
pub fn is_of_another_directory(plan: &Plan, record: &Record) -> bool {
    let is_known = |url: &String| {
        plan.acme
            .directories
            .iter()
            .any(|directory| directory.url == *url)
    };
    record.directory.as_ref().is_some_and(|url| !is_known(url))
}

/// Asks the authority when it would like the certificate renewed (RFC 9773), if it is time to ask.
async fn check_window(context: &Context, record: &mut Record, facts: &Facts, now: u64) {
    if record.renew_at.is_some() && now < record.check_at {
        return;
    }
    let (window, check_after_s) = match window(context, record, facts).await {
        Ok((start, end, after)) => (Some((start, end)), schedule::check_after_s(after)),
        Err(_) => (None, CHECK_AGAIN_S),
    };
    // A time that is still in the window stays: drawn again at each check, it would come early.
    let stays = match (record.renew_at, window) {
        (Some(at), Some((start, end))) => (start..=end).contains(&at),
        (Some(_), None) => true,
        (None, _) => false,
    };
    if !stays {
        let at = schedule::renew_at(
            facts.not_before,
            facts.not_after,
            window,
            schedule::chance(),
        );
        record.renew_at = Some(at.max(record.issued_at.saturating_add(RENEW_AFTER_S)));
    }
    record.check_at = now.saturating_add(check_after_s);
    save(context, record);
}

/// Start and end of the window, and for how many seconds that is to be believed.
async fn window(
    context: &Context,
    record: &Record,
    facts: &Facts,
) -> Result<(u64, u64, u64), Failure> {
    let of_record = |directory: &&AcmeDirectory| record.directory.as_ref() == Some(&directory.url);
    let directory = context
        .plan
        .acme
        .directories
        .iter()
        .find(of_record)
        .ok_or_else(|| Failure::passing("another directory"))?;
    let identity = order::identity(facts).ok_or_else(|| Failure::passing("no authority key"))?;
    let account = account(context, directory, &context.client.fresh()).await?;
    let (info, after) = account
        .renewal_info(&identity)
        .await
        .map_err(|error| Failure::of("renewal", error))?;
    let seconds = |unix: i64| u64::try_from(unix).unwrap_or_default();
    let window = info.suggested_window;
    Ok((
        seconds(window.start.unix_timestamp()),
        seconds(window.end.unix_timestamp()),
        after.as_secs(),
    ))
}

/// The certificate that is there, and the lock of the cluster.
type Before<'a> = (Option<&'a Facts>, Option<(&'a SharedValues, &'a Held)>);

async fn order_one(context: &Context, record: &mut Record, before: Before<'_>, now: u64) -> Tended {
    if now < record.attempt_at {
        let reason = record
            .reason
            .clone()
            .unwrap_or_else(|| "the last attempt failed".into());
        return Tended {
            due: Some(record.attempt_at),
            has_certificate: Err(Denied::Failed(reason)),
        };
    }
    if let Some(denied) = forbidden(context, record).await {
        return denied;
    }
    if let Err(at) = pace(context, record, now) {
        let reason = "as many certificates as an hour bears are ordered already";
        return Tended {
            due: Some(at),
            has_certificate: Err(Denied::Failed(reason.into())),
        };
    }
    match any_directory(context, record, before).await {
        Ok((bundle, directory)) => keep(context, record, &bundle, directory),
        Err(failure) => failed(context, record, failure),
    }
}

/// Asks the rule about a name on demand; repeated for each renewal.
async fn forbidden(context: &Context, record: &Record) -> Option<Tended> {
    if !record.on_demand {
        return None;
    }
    let (plan, name) = (&context.plan, record.names.first()?);
    if plan.asks_database(name)
        && let Err(refusal) =
            on_demand::ask_database(plan.known_hosts.as_ref().map(|hosts| &*hosts.0), name).await
    {
        // The database itself caches unknown names, so an added host has its certificate at the
        // next handshake.
        let reason = refusal.reason.clone();
        return Some(refused(context, name, refusal, Denied::Failed(reason)));
    }
    let rule = plan.acme.ask.as_deref();
    if rule.is_none() && plan.asks_database(name) {
        return None;
    }
    let refusal = on_demand::ask(&context.client.fresh(), rule.unwrap_or_default(), name)
        .await
        .err()?;
    Some(refused(context, name, refusal, Denied::Forbidden))
}

/// Ends the renewals of a name that is not wanted any longer; puts off those of one for which there
/// was no answer.
fn refused(context: &Context, name: &str, refusal: Refusal, denied: Denied) -> Tended {
    (context.events)(Event::Forbidden {
        name: name.to_owned(),
        reason: refusal.reason,
    });
    Tended {
        due: (!refusal.is_definite).then(|| schedule::now().saturating_add(ASK_AGAIN_S)),
        has_certificate: Err(denied),
    }
}

/// An open order was counted when it was created.
fn pace(context: &Context, record: &Record, now: u64) -> Result<(), u64> {
    if record.order.is_some() {
        return Ok(());
    }
    let mut pace = context.pace.lock().unwrap_or_else(PoisonError::into_inner);
    pace.order(now)?;
    let times: Vec<u64> = pace.0.iter().copied().collect();
    drop(pace);
    if let Err(error) = context.store.save_order_times(&times) {
        (context.events)(Event::State {
            reason: error.to_string(),
        });
    }
    Ok(())
}

/// The first directory that gives a certificate. An open order goes first to the directory that it
/// was made at.
async fn any_directory(
    context: &Context,
    record: &mut Record,
    before: Before<'_>,
) -> Result<(Bundle, String), Failure> {
    let mut directories: Vec<&AcmeDirectory> = context.plan.acme.directories.iter().collect();
    let open_at = record.order.as_ref().map(|order| order.directory.clone());
    directories.sort_by_key(|directory| Some(&directory.url) != open_at.as_ref());
    let (mut last, count) = (Failure::passing("there is no directory"), directories.len());
    for (index, directory) in directories.into_iter().enumerate() {
        match one_directory(context, record, before, directory).await {
            Ok(bundle) => return Ok((bundle, directory.url.clone())),
            Err(failure) => last = failure,
        }
        if index + 1 < count {
            (context.events)(Event::DirectoryFailed {
                directory: directory.url.clone(),
                reason: last.reason.clone(),
            });
        }
    }
    Err(last)
}

async fn one_directory(
    context: &Context,
    record: &mut Record,
    (old, held): Before<'_>,
    directory: &AcmeDirectory,
) -> Result<Bundle, Failure> {
    let client = context.client.fresh();
    let mut ways = rotated(&context.plan.ways, record.failures);
    if held.is_some() {
        // The authority may connect to another server, which knows nothing of this handshake.
        ways.retain(|way| *way != AcmeChallenge::TlsAlpn01);
    }
    let dns_wait = Duration::from_millis(context.plan.acme.dns_wait_ms);
    let terms = Terms {
        store: &context.store,
        places: &context.places,
        ways: &ways,
        dns_wait,
        directory: &directory.url,
        profile: directory.profile.as_ref(),
        replaces: old.filter(|_| record.directory.as_ref() == Some(&directory.url)),
        events: &*context.events,
        together: held,
    };
    let outcome = tokio::time::timeout(
        ATTEMPT_TIME_MAX + dns_wait,
        attempts(context, directory, &client, &terms, record),
    )
    .await;
    let outcome = outcome.unwrap_or_else(|_| {
        Err(Failure {
            order_is_lost: true,
            ..Failure::passing("it took too long")
        })
    });
    outcome.map_err(|failure| {
        if failure.order_is_lost {
            record.order = None;
        }
        Failure {
            retry_after_s: client.retry_after_s(),
            ..failure
        }
    })
}

/// Runs an attempt, and repeats it after errors that neither side is to blame for.
async fn attempts(
    context: &Context,
    directory: &AcmeDirectory,
    client: &Client,
    terms: &Terms<'_>,
    record: &mut Record,
) -> Result<Bundle, Failure> {
    for _ in 0..AGAIN_MAX {
        let failure = match attempt(context, directory, client, terms, record).await {
            Err(failure) if failure.retry != Retry::Later => failure,
            outcome => return outcome,
        };
        if failure.retry == Retry::WithNewAccount {
            forget_account(context, directory).await?;
        }
    }
    attempt(context, directory, client, terms, record).await
}

async fn forget_account(context: &Context, directory: &AcmeDirectory) -> Result<(), Failure> {
    let (store, url) = (&context.store, &directory.url);
    if let (Some(together), Some(text)) = (&context.together, store.account(url)) {
        let forgotten = together.forget_account(url, &text).await;
        forgotten.map_err(Failure::passing)?;
    }
    store.forget_account(url).map_err(Failure::passing)
}

async fn attempt(
    context: &Context,
    directory: &AcmeDirectory,
    client: &Client,
    terms: &Terms<'_>,
    record: &mut Record,
) -> Result<Bundle, Failure> {
    let account = account(context, directory, client).await?;
    order::obtain(terms, &account, record).await
}

async fn account(
    context: &Context,
    directory: &AcmeDirectory,
    client: &Client,
) -> Result<Account, Failure> {
    context
        .accounts
        .account(
            (&context.store, context.together.as_ref()),
            directory,
            context.plan.acme.email.as_deref(),
            client,
        )
        .await
}

/// Rotates the challenge types, so that each attempt after a failure starts with another one.
fn rotated(ways: &[AcmeChallenge], failures: u32) -> Vec<AcmeChallenge> {
    let mut ways = ways.to_vec();
    let count = ways.len().max(1);
    ways.rotate_left(failures as usize % count);
    ways
}

fn keep(context: &Context, record: &mut Record, bundle: &Bundle, directory: String) -> Tended {
    let Some(facts) = certificate::facts(&bundle.chain) else {
        return failed(
            context,
            record,
            Failure::refused("what was signed is no certificate"),
        );
    };
    if let Err(reason) = context
        .places
        .installer
        .install(&record.names, &bundle.chain, &bundle.key)
    {
        return failed(
            context,
            record,
            Failure::refused(format!("the certificate is of no use: {reason}")),
        );
    }
    if let Err(error) = context.store.save_certificate(&record.names, bundle) {
        (context.events)(Event::State {
            reason: error.to_string(),
        });
    }
    *record = Record {
        directory: Some(directory.clone()),
        issued_at: schedule::now(),
        ..Record::new(&record.names, record.on_demand)
    };
    save(context, record);
    (context.events)(Event::Issued {
        names: record.names.clone(),
        directory,
        not_after: facts.not_after,
    });
    // Soon, to fetch the authority's renewal information.
    Tended {
        due: Some(schedule::now() + 1),
        has_certificate: Ok(()),
    }
}

fn failed(context: &Context, record: &mut Record, failure: Failure) -> Tended {
    record.failures = record.failures.saturating_add(1);
    let ways = u32::try_from(context.plan.ways.len()).unwrap_or(1);
    let delay_s = schedule::retry_delay_s(record.failures, ways, schedule::chance())
        .max(failure.retry_after_s.unwrap_or_default());
    record.attempt_at = schedule::now().saturating_add(delay_s);
    record.reason = Some(failure.reason.clone());
    if failure.order_is_lost {
        record.order = None;
    }
    save(context, record);
    let names = record.names.clone();
    (context.events)(Event::Failed {
        names,
        reason: failure.reason.clone(),
        retry_at: record.attempt_at,
    });
    Tended {
        due: Some(record.attempt_at),
        has_certificate: Err(Denied::Failed(failure.reason)),
    }
}

fn save(context: &Context, record: &Record) {
    if let Err(error) = context.store.save_record(record) {
        (context.events)(Event::State {
            reason: error.to_string(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_tries_another_way_first() {
        use AcmeChallenge::{Dns01, Http01, TlsAlpn01};
        let ways = [Dns01, TlsAlpn01, Http01];
        assert_eq!(rotated(&ways, 0), ways);
        assert_eq!(rotated(&ways, 1), [TlsAlpn01, Http01, Dns01]);
        assert_eq!(rotated(&ways, 5), [Http01, Dns01, TlsAlpn01]);
        assert_eq!(rotated(&[], 5), []);
    }
}
