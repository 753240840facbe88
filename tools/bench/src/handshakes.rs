//! A load of TLS handshakes: each with one GET over a connection that the server closes, so many at
//! a time.
//!
//! Every handshake is verified to be what the row wants, full or resumed; another one is an error.
//! The difficulty is the tickets: some servers give none in return for one, and a client should use
//! each once (RFC 8446 appendix C.4). So before resumed handshakes are counted, full ones fill a
//! bank with a ticket for each. Absent on purpose: early data.

mod bank;

use crate::{
    load::{COUNTING_BEGINS, COUNTING_ENDS, EXACT_FIGURES, VERIFIED},
    tls_client,
};
use bank::Bank;
use rustls::{ClientConfig, HandshakeKind, client::Resumption};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const WARM_UP: Duration = Duration::from_secs(1);
/// About what a core can do; a bank of more would only take longer to fill.
const RESUMED_PER_S: usize = 2000;
/// A server that gives no ticket in this time gives none.
const FIRST_TICKET_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that refuses everything need not be asked for seconds.
const ERRORS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub resumed: bool,
    pub chain: PathBuf,
    pub address: SocketAddr,
    pub path: String,
    pub connections: usize,
    pub seconds: u64,
}

/// Handshakes of one thread, or of all.
#[derive(Default)]
struct Tally {
    bytes: usize,
    errors: usize,
    first_error: Option<io::Error>,
    /// Latencies of handshakes without an error.
    latencies: Vec<Duration>,
}

/// Prints when counting begins and ends, then the figures.
pub fn run(setting: &Setting) -> Result<(), String> {
    let bank = Arc::new(Bank::default());
    let resumption = if setting.resumed {
        Resumption::store(Arc::<Bank>::clone(&bank))
    } else {
        Resumption::disabled()
    };
    let config = tls_client::configuration(&setting.chain, "http/1.1", resumption)?;
    let start = Instant::now();
    let wanted = RESUMED_PER_S * setting.seconds as usize;
    let fill = || {
        bank.tickets() < wanted && (bank.tickets() > 0 || start.elapsed() < FIRST_TICKET_TIMEOUT)
    };
    let warm_up = || start.elapsed() < WARM_UP;
    let before = load(
        setting,
        &config,
        HandshakeKind::Full,
        if setting.resumed { &fill } else { &warm_up },
    );
    bank.open();

    println!("{COUNTING_BEGINS}");
    let (start, started) = (Instant::now(), AtomicUsize::new(0));
    let as_many_as_tickets = || started.fetch_add(1, Ordering::Relaxed) < wanted;
    let in_time = || start.elapsed() < Duration::from_secs(setting.seconds);
    let counted = match setting.resumed {
        true => load(
            setting,
            &config,
            HandshakeKind::Resumed,
            &as_many_as_tickets,
        ),
        false => load(setting, &config, HandshakeKind::Full, &in_time),
    };
    println!("{COUNTING_ENDS}");
    print(before, counted, start.elapsed());
    Ok(())
}

fn load(
    setting: &Setting,
    config: &Arc<ClientConfig>,
    kind: HandshakeKind,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Tally {
    let one_after_the_other = || {
        let mut tally = Tally::default();
        while tally.errors < ERRORS_MAX && go_on() {
            let start = Instant::now();
            tally.record(fetch(setting, config, kind), start.elapsed());
        }
        tally
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..setting.connections)
            .map(|_| scope.spawn(one_after_the_other))
            .collect();
        // A thread that panicked counts as an error.
        let tallies = threads.into_iter().map(|thread| {
            thread.join().unwrap_or(Tally {
                errors: 1,
                ..Tally::default()
            })
        });
        tallies.fold(Tally::default(), Tally::and)
    })
}

/// A handshake, a GET, and all that the server says until it closes, its tickets included.
fn fetch(setting: &Setting, config: &Arc<ClientConfig>, kind: HandshakeKind) -> io::Result<usize> {
    let mut connection = tls_client::connect(setting.address, config)?;
    if connection.conn.handshake_kind() != Some(kind) {
        return Err(io::Error::other(format!(
            "the handshake was {:?} instead of {kind:?}",
            connection.conn.handshake_kind()
        )));
    }
    let request = format!(
        "GET /{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        setting.path,
        tls_client::NAME
    );
    connection.write_all(request.as_bytes())?;
    let bytes = tls_client::read_response(&mut connection)?;
    match connection.read(&mut [0]) {
        Ok(0) => Ok(bytes),
        // Not polite, but the response had a length.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(bytes),
        Ok(_) => Err(io::Error::other("more than a response")),
        Err(error) => Err(error),
    }
}

impl Tally {
    fn record(&mut self, outcome: io::Result<usize>, latency: Duration) {
        match outcome {
            Ok(bytes) => {
                self.bytes += bytes;
                self.latencies.push(latency);
            }
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }

    fn and(mut self, other: Tally) -> Tally {
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.or(other.first_error);
        self.latencies.extend(other.latencies);
        self
    }
}

fn print(before: Tally, mut counted: Tally, took: Duration) {
    counted.latencies.sort_unstable();
    let count = counted.latencies.len();
    let percentile = |hundredths: usize| {
        counted
            .latencies
            .get((count * hundredths / 100).min(count.saturating_sub(1)))
            .map_or(0, Duration::as_micros)
    };
    let (bytes, errors) = (counted.bytes, before.errors + counted.errors);
    println!("{VERIFIED} {count}");
    let (p50, p99, longest) = (percentile(50), percentile(99), percentile(100));
    println!(
        "{EXACT_FIGURES} {count} {bytes} {} {errors} {p50} {p99} {longest}",
        took.as_micros()
    );
    if let Some(error) = before.first_error.or(counted.first_error) {
        println!("the first error: {error}");
    }
}

#[cfg(test)]
mod tests;
