//! `saker-bench fairness`: one address sends fifty times its share; measures how long the others
//! wait, compared with an idle server.
//!
//! Called by: `main`.
//! Caveat: load and measurement share a machine, so the greedy client sends by the clock, not as
//! fast as it can. Rounds alternate idle and loaded, so that a slow minute of the machine hits
//! both. Limits per address are on, by `[site.throttle]` and by mod_evasive's directives.
//! Out of scope: limits of whole sites.

use crate::{
    arguments::at_least_one,
    pinning::pinning,
    statistics::{Spread, spread},
};
use saker_testkit::{Client, ServerProcess, TempDir, free_port};
use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::net::TcpSocket;

pub const HELP: &str = "  saker-bench fairness [--saker PATH] [--rounds 5] [--seconds 5]
                  one address sends 50 times its share with limits on: p99 of the others, compared with an idle server
";

/// Requests per second that the limit gives each address.
const SHARE_PER_S: u64 = 20;
const TIMES_ITS_SHARE: u64 = 50;
const BAD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BAD_CONNECTIONS: u64 = 20;
const OTHERS: [Ipv4Addr; 5] = [
    Ipv4Addr::new(127, 0, 0, 10),
    Ipv4Addr::new(127, 0, 0, 11),
    Ipv4Addr::new(127, 0, 0, 12),
    Ipv4Addr::new(127, 0, 0, 13),
    Ipv4Addr::new(127, 0, 0, 14),
];
/// Below their share.
const OTHERS_EVERY: Duration = Duration::from_millis(60);
const RATIO_AT_MOST: f64 = 2.0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub saker: PathBuf,
    pub rounds: usize,
    pub seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limits {
    Native,
    Evasive,
}

/// Latencies of the other addresses, in microseconds.
#[derive(Debug, Default)]
struct Waits {
    all_us: Vec<f64>,
    refused: usize,
}

#[derive(Debug, Default)]
struct Answers {
    passed: AtomicU64,
    refused: AtomicU64,
}

pub fn parse(words: impl Iterator<Item = String>) -> Result<Setting, String> {
    let mut setting = Setting {
        saker: PathBuf::from("target/release/saker"),
        rounds: 5,
        seconds: 5,
    };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--saker" => setting.saker = value()?.into(),
            "--rounds" => setting.rounds = at_least_one::<u16>(&value()?)?.into(),
            "--seconds" => setting.seconds = at_least_one(&value()?)?,
            other => return Err(format!("`{other}` is not an option; --help lists them")),
        }
    }
    Ok(setting)
}

pub fn run(setting: &Setting) -> Result<(), String> {
    println!(
        "| limits | p99 idle, µs | p99 with the greedy client, µs | ratio | others refused | greedy client passed, refused |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for limits in [Limits::Native, Limits::Evasive] {
        compare(setting, limits).map_err(|error| format!("{limits:?}: {error}"))?;
    }
    println!(
        "\nThe ratio is to be {RATIO_AT_MOST} at most. p99 of {} rounds of {} s: median, and min to max.",
        setting.rounds, setting.seconds
    );
    Ok(())
}

fn compare(setting: &Setting, limits: Limits) -> io::Result<()> {
    let work = TempDir::new("fairness")?;
    work.write("root/index.html", "<p>hello</p>\n")?;
    let server = start(&setting.saker, &work, limits)?;
    let (mut idle, mut busy, mut refused) = (Vec::new(), Vec::new(), 0);
    let answers = Arc::<Answers>::default();
    for _ in 0..setting.rounds {
        let quiet = watch_others(server.address(), setting.seconds)?;
        let greedy = GreedyClient::begin(server.address(), &answers);
        let loud = watch_others(server.address(), setting.seconds);
        drop(greedy);
        let loud = loud?;
        refused += quiet.refused + loud.refused;
        idle.extend(percentile(quiet.all_us, 0.99));
        busy.extend(percentile(loud.all_us, 0.99));
    }
    let ratios: Vec<f64> = busy
        .iter()
        .zip(&idle)
        .map(|(busy, idle)| busy / idle)
        .collect();
    println!(
        "| {limits:?} | {} | {} | {} | {refused} | {}, {} |",
        shown(idle, 0),
        shown(busy, 0),
        shown(ratios, 2),
        answers.passed.load(Relaxed),
        answers.refused.load(Relaxed)
    );
    Ok(())
}

fn shown(values: Vec<f64>, digits: usize) -> String {
    let Spread { median, min, max } = spread(values).unwrap_or(Spread {
        median: 0.0,
        min: 0.0,
        max: 0.0,
    });
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
}

fn percentile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied()
}

fn start(saker: &Path, work: &Path, limits: Limits) -> io::Result<ServerProcess> {
    let port = free_port()?;
    let (root, place) = (work.join("root"), work.display());
    let (root, address) = (root.display(), SocketAddr::from(([127, 0, 0, 1], port)));
    let core = (thread::available_parallelism().map_or(1, usize::from) > 1).then_some(0);
    let words = pinning(core).map_err(io::Error::other)?;
    let mut command = match words.split_first() {
        Some((taskset, rest)) => {
            let mut command = Command::new(taskset);
            command.args(rest).arg(saker);
            command
        }
        None => Command::new(saker),
    };
    match limits {
        Limits::Native => {
            let text = format!(
                "[server]\nworkers = 1\nstate_dir = \"{place}/state\"\nerror_log = \"{place}/error.log\"\n\n[limits]\nconnections_per_address = 50\n\n\
                 [[listener]]\naddress = \"{address}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{root}\"\n\
                 [site.throttle]\nrequests_static = {{ rate = \"{SHARE_PER_S}/s\", burst = {SHARE_PER_S} }}\n"
            );
            fs::write(work.join("saker.toml"), text)?;
            command.arg("run").arg("-c").arg(work.join("saker.toml"));
        }
        Limits::Evasive => {
            let text = format!(
                "ServerRoot {place}\nLoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
                 LoadModule evasive20_module modules/mod_evasive20.so\nListen {address}\nServerName localhost\nErrorLog {place}/error.log\n\
                 PidFile {place}/saker.pid\nMaxKeepAliveRequests 0\nDocumentRoot {root}\n<Directory {root}>\nRequire all granted\n</Directory>\n\
                 DOSPageCount {SHARE_PER_S}\nDOSPageInterval 1\nDOSSiteCount {SHARE_PER_S}\nDOSSiteInterval 1\nDOSBlockingPeriod 1\n"
            );
            fs::write(work.join("httpd.conf"), text)?;
            command
                .args(["run", "--workers", "1", "--apache"])
                .arg(work.join("httpd.conf"));
        }
    }
    ServerProcess::start(&mut command, address)
}

/// From an address of its own, as the server sees it.
fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<Client> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let stream: TcpStream = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(to).await?.into_std()
    })?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    Client::over_tcp(stream)
}

fn ask(client: &mut Client) -> io::Result<u16> {
    client.get("/index.html").map(|response| response.status)
}

fn watch_others(address: SocketAddr, seconds: u64) -> io::Result<Waits> {
    let mut clients = OTHERS
        .into_iter()
        .map(|from| connect(from, address))
        .collect::<io::Result<Vec<Client>>>()?;
    let (mut waits, end) = (
        Waits::default(),
        Instant::now() + Duration::from_secs(seconds),
    );
    while Instant::now() < end {
        for client in &mut clients {
            let began = Instant::now();
            let status = ask(client)?;
            waits.all_us.push(began.elapsed().as_secs_f64() * 1e6);
            waits.refused += usize::from(status != 200);
        }
        thread::sleep(OTHERS_EVERY);
    }
    Ok(waits)
}

/// Asks until it is dropped.
struct GreedyClient {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl GreedyClient {
    fn begin(address: SocketAddr, answers: &Arc<Answers>) -> GreedyClient {
        let is_over = Arc::<AtomicBool>::default();
        let each = || {
            let (is_over, answers) = (Arc::clone(&is_over), Arc::clone(answers));
            thread::spawn(move || insist(address, &is_over, &answers))
        };
        GreedyClient {
            threads: (0..BAD_CONNECTIONS).map(|_| each()).collect(),
            is_over,
        }
    }
}

impl Drop for GreedyClient {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

fn insist(address: SocketAddr, is_over: &AtomicBool, answers: &Answers) {
    let every =
        Duration::from_secs(1) * BAD_CONNECTIONS as u32 / (SHARE_PER_S * TIMES_ITS_SHARE) as u32;
    let (mut client, mut next) = (None, Instant::now());
    while !is_over.load(Relaxed) {
        next += every;
        if client.is_none() {
            client = connect(BAD, address).ok();
        }
        match client.as_mut().map(ask) {
            Some(Ok(status)) => {
                let counter = if status == 200 {
                    &answers.passed
                } else {
                    &answers.refused
                };
                counter.fetch_add(1, Relaxed);
            }
            _ => client = None,
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_percentiles() {
        let setting = parse(
            "--rounds 2 --seconds 1 --saker /x"
                .split(' ')
                .map(str::to_owned),
        )
        .expect("parsed");
        assert_eq!(
            setting,
            Setting {
                saker: "/x".into(),
                rounds: 2,
                seconds: 1
            }
        );
        assert_eq!(
            percentile((0..100).rev().map(f64::from).collect(), 0.99),
            Some(99.0)
        );
        assert_eq!(
            (percentile(Vec::new(), 0.99), shown(vec![1.0, 3.0, 2.0], 0)),
            (None, "2 (1 to 3)".to_owned())
        );
    }
}
