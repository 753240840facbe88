//! Certificates of a cluster: ordered by one server, and used by all.
//!
//! Called by: `manager`, for each set of names.
//! The server that holds the lock of a set of names tends it; the others take over what it writes.
//! If it dies, its lock ends, and the next holder continues its order.
//! Out of scope: values and locks (`shared_values`); orders per hour, which each server counts for
//! itself.

use crate::{
    certificate,
    event::Event,
    on_demand::Denied,
    schedule,
    shared_values::{Pulled, SharedValues, value_name},
    tend::{self, Context, Tended},
};
use saker_cluster::Held;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
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
/// Tends one set of names, alone or together with the other servers of a cluster.
pub async fn tend(context: Arc<Context>, names: Vec<String>, on_demand: bool) -> Tended {
    match &context.together {
        Some(values) => unless_another_does(&context, values, &names, on_demand).await,
        None => tend::alone(&context, &names, on_demand, None).await,
    }
}

/// Tends one set of names, unless another server does.
async fn unless_another_does(
    context: &Context,
    together: &SharedValues,
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
    together: &SharedValues,
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
    together: &SharedValues,
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
