//! `saker-bench paced`: what a thousand downloads at a pace cost the server, as a share of a core;
//! Saker, nginx and lighttpd.
//!
//! One thread reads all connections in turns, often enough that no server ever waits for room. What
//! counts is the CPU time of the server's tree while everything flows, and that what flowed is what
//! the limit says. Absent on purpose: how evenly it flows.

use crate::{
    arguments::at_least_one, behind::SessionStore, conditions::Congestion,
    running_server::RunningServer, subject::Subject, test_env::TestEnv,
};
use saker_testkit::{Peer, PeerSite, TempDir, bench_files, raise_descriptor_limit, require};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

pub const HELP: &str = "  saker-bench paced [--saker PATH] [--rate BYTES]... [--connections 1000] [--seconds 10]
                  so many downloads, each at BYTES per second (1000, 10000, 50000, 100000): CPU of the server as a share of a core
";

const RATES: [u64; 4] = [1_000, 10_000, 50_000, 100_000];
const SUBJECTS: [Subject; 3] = [
    Subject::Saker,
    Subject::Peer(Peer::Nginx),
    Subject::Peer(Peer::Lighttpd),
];
/// Until bursts are over and everybody has found his pace.
const SETTLE: Duration = Duration::from_secs(4);
const READ_EVERY: Duration = Duration::from_millis(20);
/// Largest share of a core that pacing may cost.
const SHARE_AT_MOST: f64 = 0.05;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub saker: PathBuf,
    pub rates: Vec<u64>,
    pub connections: usize,
    pub seconds: u64,
}

struct Outcome {
    share: f64,
    bytes_per_s: f64,
    broken: usize,
}

pub fn parse(words: impl Iterator<Item = String>) -> Result<Setting, String> {
    let mut setting = Setting {
        saker: PathBuf::from("target/release/saker"),
        rates: Vec::new(),
        connections: 1_000,
        seconds: 10,
    };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--saker" => setting.saker = value()?.into(),
            "--rate" => setting.rates.push(at_least_one(&value()?)?),
            "--connections" => setting.connections = at_least_one::<u16>(&value()?)?.into(),
            "--seconds" => setting.seconds = at_least_one(&value()?)?,
            other => return Err(format!("`{other}` is not an option; --help lists them")),
        }
    }
    if setting.rates.is_empty() {
        setting.rates = RATES.to_vec();
    }
    Ok(setting)
}

pub fn run(setting: &Setting) -> Result<(), String> {
    raise_descriptor_limit(setting.connections as u64 * 2 + 1_000)
        .map_err(|error| format!("descriptor limit: {error}"))?;
    let work = TempDir::new("paced").map_err(|error| error.to_string())?;
    let root = work.join("root");
    bench_files::write(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    println!(
        "{} downloads of {} bytes, {} s\n",
        setting.connections,
        bench_files::LARGE_BYTES,
        setting.seconds
    );
    println!(
        "| kB/s each | server | CPU, % of a core | MB/s together | of what is due | broken |\n| --- | --- | --- | --- | --- | --- |"
    );
    for bytes_per_s in &setting.rates {
        for subject in SUBJECTS.into_iter().filter(is_there) {
            let test_env = TestEnv {
                saker: &setting.saker,
                root: &root,
                host: Ipv4Addr::LOCALHOST,
                work: &work,
                tls: None,
                core: (thread::available_parallelism().map_or(1, usize::from) > 1).then_some(0),
                site: PeerSite::Paced {
                    bytes_per_s: *bytes_per_s,
                },
                congestion: Congestion::Usual,
                sessions: SessionStore::Files,
            };
            let running = subject.start(test_env)?;
            let outcome =
                measure(&running, setting).map_err(|error| format!("{subject}: {error}"))?;
            println!("{}", line(subject, *bytes_per_s, setting, &outcome));
        }
    }
    println!("\nAt most {:.0} % for Saker.", SHARE_AT_MOST * 100.0);
    Ok(())
}

fn line(subject: Subject, bytes_per_s: u64, setting: &Setting, outcome: &Outcome) -> String {
    let due = bytes_per_s as f64 * setting.connections as f64;
    format!(
        "| {} | {subject} | {:.1} | {:.1} | {:.2} | {} |",
        bytes_per_s / 1000,
        outcome.share * 100.0,
        outcome.bytes_per_s / 1e6,
        outcome.bytes_per_s / due,
        outcome.broken
    )
}

fn is_there(subject: &Subject) -> bool {
    !matches!(subject, Subject::Peer(peer) if require(peer.program()).is_err())
}

fn measure(running: &RunningServer, setting: &Setting) -> io::Result<Outcome> {
    let mut downloads = (0..setting.connections)
        .map(|_| begin(running.address()))
        .collect::<io::Result<Vec<TcpStream>>>()?;
    read_for(&mut downloads, SETTLE);
    let (before, began) = (running.cpu_time(), Instant::now());
    let bytes = read_for(&mut downloads, Duration::from_secs(setting.seconds));
    let (cpu, seconds) = (
        running.cpu_time().saturating_sub(before),
        began.elapsed().as_secs_f64(),
    );
    let share = cpu.as_secs_f64() / seconds;
    Ok(Outcome {
        share,
        bytes_per_s: bytes as f64 / seconds,
        broken: setting.connections - downloads.len(),
    })
}

fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(
        format!(
            "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            bench_files::LARGE
        )
        .as_bytes(),
    )?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Reads whatever is there, in turns; those that ended are left out from then on.
fn read_for(downloads: &mut Vec<TcpStream>, span: Duration) -> usize {
    let (end, mut buffer, mut bytes) = (Instant::now() + span, vec![0; 256 << 10], 0);
    while Instant::now() < end {
        downloads.retain_mut(|stream| {
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return false,
                    Ok(count) => bytes += count,
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
        });
        thread::sleep(READ_EVERY);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Setting, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options() {
        let setting = parsed("--rate 5000 --rate 7000 --connections 10 --seconds 3 --saker /x")
            .expect("parsed");
        assert_eq!(
            setting,
            Setting {
                saker: "/x".into(),
                rates: vec![5_000, 7_000],
                connections: 10,
                seconds: 3
            }
        );
        assert_eq!(parsed("").expect("parsed").rates, RATES);
        assert!(
            parsed("--rate 0").is_err() && parsed("--rate").is_err() && parsed("--fast").is_err()
        );
    }

    #[test]
    fn what_is_there_is_read_and_what_ended_is_left_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut downloads = vec![
            begin(address).expect("connected"),
            begin(address).expect("connected"),
        ];
        let (mut one, mut other) = (
            listener.accept().expect("accepted").0,
            listener.accept().expect("accepted").0,
        );
        one.write_all(&[0; 1000]).expect("sent");
        other.write_all(&[0; 500]).expect("sent");
        drop(other);
        let mut bytes = 0;
        for _ in 0..100 {
            bytes += read_for(&mut downloads, Duration::from_millis(30));
            if bytes == 1500 && downloads.len() == 1 {
                return;
            }
        }
        panic!("{bytes} bytes, {} downloads", downloads.len());
    }
}
