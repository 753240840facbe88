//! A load of HTTP/3 requests: many connections, many requests on each, in one thread; what came
//! back is counted, timed and checked.
//!
//! `client` is a single connection, for tests. For loads, `quic` drives quinn-proto over sockets,
//! `http3` has requests as bytes and reads responses, `visitors` keep requests under way, `counts`
//! says what has come of it. `saker-load` is the program; the bench starts itself as one. The one
//! difficulty is its own cost: on a machine of two cores what the load costs is missing elsewhere.

pub mod client;
pub mod counts;
pub mod histogram;
mod http3;
pub mod plan;
pub mod quic;
pub mod tls;
mod visitors;

use counts::{COUNTING_BEGINS, COUNTING_ENDS, LoadCounts};
use plan::{End, Plan, Tickets};
use quic::Quic;
use quinn_proto::{IdleTimeout, TransportConfig, VarInt};
use rustix::time::{ClockId, clock_gettime};
use rustls::client::Resumption;
use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};
use visitors::Visitors;

/// Stream window of a browser; a server must not wait for the load.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 24 << 20;
const SEND_WINDOW_BYTES: u64 = 16 << 20;
const IDLE_TIMEOUT_MS: u32 = 300_000;
/// Number of times patience is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Tickets kept.
const TICKETS_MAX: usize = 10_000;

/// Does what the command line says and prints what has come of it.
pub fn run(words: impl IntoIterator<Item = String>) -> Result<(), String> {
    let Some(plan) = plan::parse(words)? else {
        print!("{}", plan::HELP);
        return Ok(());
    };
    let counts = load(&plan)?;
    print!("{counts}");
    Ok(())
}

/// Makes the load. Says on standard output when counting begins and ends.
pub fn load(plan: &Plan) -> Result<LoadCounts, String> {
    let resumption = if plan.tickets == Tickets::No {
        Resumption::disabled()
    } else {
        Resumption::in_memory_sessions(TICKETS_MAX)
    };
    let mut tls = tls::configuration(&plan.chain, "h3", resumption)?;
    tls.enable_early_data = plan.tickets == Tickets::EarlyData;
    let mut transport = transport();
    transport.pad_to_mtu(plan.padding);
    let mut quic = Quic::new(tls, transport)?;
    let mut visitors = Visitors::new(plan, tls::NAME);
    let begin = Instant::now();
    match plan.end {
        End::Requests(_) => {}
        End::Time { warm_up, .. } => {
            go_on(
                plan,
                &mut quic,
                &mut visitors,
                Some(begin + warm_up),
                |_| false,
            )?;
            // What has gone wrong so far counts as well.
            visitors.counts = LoadCounts {
                errors: std::mem::take(&mut visitors.counts.errors),
                ..LoadCounts::default()
            };
        }
    }
    println!("{COUNTING_BEGINS}");
    let (begin, cpu) = (Instant::now(), cpu_time());
    let until = match plan.end {
        End::Requests(_) => None,
        End::Time { counted, .. } => Some(begin + counted),
    };
    go_on(plan, &mut quic, &mut visitors, until, |_| false)?;
    println!("{COUNTING_ENDS}");
    (visitors.counts.time, visitors.counts.cpu) = (begin.elapsed(), cpu_time().saturating_sub(cpu));
    visitors.is_over = true;
    visitors.close_all(&mut quic);
    Ok(visitors.counts)
}

/// So many connections that have asked once and then wait. What `look` sees after `settle` is
/// returned with the number of errors: one in `ask_every` is asked to ask again, and those that are
/// gone count as well.
pub fn idle<T>(
    address: SocketAddr,
    path: &str,
    chain: &Path,
    connections: usize,
    settle: Duration,
    ask_every: usize,
    look: impl FnOnce() -> T,
) -> Result<(T, u64), String> {
    let plan = Plan {
        address,
        paths: vec![path.to_owned()],
        chain: chain.to_owned(),
        connections,
        streams: 1,
        end: End::Requests(u64::MAX),
        upload_bytes: None,
        // They are told when they have thought enough.
        think: Duration::from_secs(86_400),
        requests_per_connection: None,
        tickets: Tickets::No,
        padding: false,
        patience: Duration::from_secs(20),
    };
    let mut quic = Quic::new(
        tls::configuration(&plan.chain, "h3", Resumption::disabled())?,
        transport(),
    )?;
    let mut visitors = Visitors::new(&plan, tls::NAME);
    let asked =
        |visitors: &Visitors<'_>| visitors.counts.requests() + visitors.counts.errors_in_all();
    go_on(&plan, &mut quic, &mut visitors, None, |visitors| {
        asked(visitors) >= connections as u64
    })?;
    go_on(
        &plan,
        &mut quic,
        &mut visitors,
        Some(Instant::now() + settle),
        |_| false,
    )?;
    let seen = look();
    visitors.counts.errors.extend(
        visitors
            .missing()
            .map(|missing| ("connections are gone".to_owned(), missing)),
    );
    let wanted = asked(&visitors) + visitors.wake(&mut quic, ask_every);
    go_on(&plan, &mut quic, &mut visitors, None, |visitors| {
        asked(visitors) >= wanted
    })?;
    visitors.is_over = true;
    visitors.close_all(&mut quic);
    Ok((seen, visitors.counts.errors_in_all()))
}

/// Until it is done, or enough, or to that time.
fn go_on(
    plan: &Plan,
    quic: &mut Quic,
    visitors: &mut Visitors<'_>,
    until: Option<Instant>,
    is_enough: impl Fn(&Visitors<'_>) -> bool,
) -> Result<(), String> {
    let mut look = Instant::now() + LOOK_EVERY;
    loop {
        let now = Instant::now();
        if visitors.is_done() || is_enough(visitors) || until.is_some_and(|until| now >= until) {
            return Ok(());
        }
        if now >= look {
            look = now + LOOK_EVERY;
            let overdue = visitors.overdue(now);
            if overdue > 0 {
                (0..overdue).for_each(|_| {
                    visitors
                        .counts
                        .error(format!("no answer within {:?}", plan.patience))
                });
                return Ok(());
            }
        }
        visitors.open_connections(quic, tls::NAME)?;
        let next = visitors.think(quic, now);
        let latest = [next, until].into_iter().flatten().fold(look, Instant::min);
        quic.turn(latest, |quic, id, events| {
            visitors.happened(quic, id, events)
        })
        .map_err(|error| error.to_string())?;
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS))))
        // Servers open three (RFC 9114 section 6.2), and may play with reserved ones.
        .max_concurrent_uni_streams(VarInt::from_u32(16))
        .max_concurrent_bidi_streams(VarInt::from_u32(0));
    transport
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_load;
#[cfg(test)]
mod tests;
