//! Goes through the rows: rounds outside, servers inside, so that a slow minute of the machine hits all alike.

use crate::{
    arguments::Arguments,
    behind::Behind,
    certificate::Certificate,
    contender::{Contender, Ground},
    idle, links,
    load::{Amount, Load, LoadSetting},
    rows::{self, Congestion, Feature, Kind, Protocol, Row, Site, Targets, Tool, Yardstick},
    stand::Stand,
    system_calls,
};
use saker_testkit::{Peer, PeerSite, TempDir, bench_files, missing, raise_descriptor_limit, require};
use std::{env, net::Ipv4Addr, path::PathBuf, thread, time::Duration};

const WARM_UP_S: u64 = 1;
/// lighttpd takes half of its descriptors for connections.
const DESCRIPTORS: u64 = 40_000;
/// Switches are about a percent or less: they take more rounds than comparisons.
const SWITCH_ROUNDS_FACTOR: usize = 3;
/// As the published figures were made.
const LINK_ROUNDS_MAX: usize = 3;
/// What Caddy would take minutes for.
const MANY_REQUESTS: u64 = 500_000;
/// After the load has gone, before the next server starts.
const PAUSE: Duration = Duration::from_millis(200);

/// All trials of a row.
pub struct RowResult {
    pub row: &'static Row,
    /// As typed.
    pub load_command: String,
    pub series: Vec<Series>,
}

pub struct Series {
    pub contender: Contender,
    pub trials: Vec<Trial>,
    /// Per keep-alive request; only where the row asks for it.
    pub system_calls: Option<f64>,
    /// Trials that came to nothing, and why: the others go on, the row is refused.
    pub complaints: Vec<String>,
}

impl Series {
    pub fn new(contender: Contender) -> Series {
        Series { contender, trials: Vec::new(), system_calls: None, complaints: Vec::new() }
    }

    fn record(&mut self, outcome: Result<Trial, String>) {
        match outcome {
            Ok(trial) => self.trials.push(trial),
            Err(complaint) => {
                eprintln!("saker-bench: {complaint}");
                self.complaints.push(complaint);
            }
        }
    }
}

/// One server under load once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    /// The figure that counts: CPU µs per request of the whole tree, or bytes per idle connection.
    pub cost: f64,
    pub errors: f64,
    pub requests_per_s: f64,
    pub bytes_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub longest_us: f64,
    pub peak_rss_bytes: f64,
    pub pss_bytes: f64,
    /// Handshakes of the wanted kind.
    pub verified: f64,
}

pub fn run(arguments: &Arguments) -> Result<Vec<RowResult>, String> {
    raise_descriptor_limit(DESCRIPTORS).map_err(|error| format!("descriptor limit: {error}"))?;
    require_programs(arguments)?;
    let work = TempDir::new("bench").map_err(|error| error.to_string())?;
    let root = work.join("root");
    bench_files::write(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    if rows::chosen(&arguments.only).any(Row::asks_for_huge) {
        bench_files::write_huge(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let certificate = Certificate::write(&work)?;
    let saker = absolute(&arguments.saker)?;
    let (server_core, load_core) = cores();
    let behind = Behind::start(arguments, &root, &work, load_core)?;
    let ground = Ground {
        saker: &saker,
        root: &root,
        host: Ipv4Addr::LOCALHOST,
        work: &work,
        tls: None,
        core: server_core,
        site: PeerSite::Files,
        congestion: Congestion::Usual,
    };
    let ground_of = |row: &Row| Ground { tls: row.is_over_tls().then(|| certificate.files()), site: behind.site(row.site()), ..ground };
    Ok(rows::chosen(&arguments.only).map(|row| run_row(row, arguments, ground_of(row), load_core)).collect())
}

/// Server and load on a core each; on a machine with one core, as the kernel likes.
fn cores() -> (Option<usize>, Option<usize>) {
    match thread::available_parallelism() {
        Ok(count) if count.get() > 1 => (Some(0), Some(1)),
        _ => (None, None),
    }
}

fn absolute(path: &PathBuf) -> Result<PathBuf, String> {
    let path = env::current_dir().map_err(|error| error.to_string())?.join(path);
    if !path.is_file() {
        eprintln!("saker-bench: there is no {}: only the peers are measured", path.display());
    }
    Ok(path)
}

fn require_programs(arguments: &Arguments) -> Result<(), String> {
    let mut tools = vec!["wrk", "ab", "h2load", "strace", "taskset"];
    if rows::chosen(&arguments.only).any(|row| row.name.starts_with("h3") || row.name.starts_with("b2")) {
        tools.extend(["caddy", "nginx", "nsenter"]);
    }
    let programs: Vec<&str> = arguments.peers.iter().map(|peer| peer.program()).chain(tools).collect();
    let complaints: Vec<String> = missing(&programs).into_iter().filter_map(|program| require(program).err()).collect();
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn run_row(row: &'static Row, arguments: &Arguments, ground: Ground<'_>, load_core: Option<usize>) -> RowResult {
    let contenders = contenders(row, arguments, ground);
    let refusal = differing_answers(row, &contenders, ground);
    let mut series: Vec<Series> = contenders.into_iter().map(Series::new).collect();
    let mut load_command = String::new();
    if let (Err(complaint), Some(entry)) = (refusal, series.first_mut()) {
        entry.record(Err(complaint));
        return RowResult { row, load_command, series };
    }
    for round in 0..rounds(row, arguments) {
        let count = series.len();
        for place in 0..count {
            // Another one begins in each round.
            let Some(entry) = series.get_mut((place + round) % count) else { continue };
            eprintln!("{}: round {}: {}", row.name, round + 1, entry.contender);
            let outcome = trial(row, entry.contender, arguments, ground, load_core, &mut load_command);
            entry.record(outcome);
            thread::sleep(PAUSE);
        }
    }
    if let Kind::Switch { .. } = row.kind {
        for entry in &mut series {
            match count_system_calls(row, entry.contender, ground) {
                Ok(count) => entry.system_calls = Some(count),
                Err(complaint) => entry.record(Err(complaint)),
            }
        }
    }
    RowResult { row, load_command, series }
}

fn rounds(row: &Row, arguments: &Arguments) -> usize {
    match row.kind {
        Kind::Compare { .. } | Kind::Own(_) => arguments.rounds,
        Kind::Switch { .. } => arguments.rounds * SWITCH_ROUNDS_FACTOR,
        Kind::Idle { .. } => 1,
        Kind::Link { .. } => arguments.rounds.min(LINK_ROUNDS_MAX),
    }
}

fn contenders(row: &Row, arguments: &Arguments, ground: Ground<'_>) -> Vec<Contender> {
    let peers = arguments.peers.iter().copied().map(Contender::Peer);
    let all: Vec<Contender> = match row.kind {
        Kind::Compare { targets: Targets { floor: Some(_), .. }, .. } => {
            std::iter::once(Contender::Saker).chain(peers).chain([Contender::Floor]).collect()
        }
        Kind::Compare { site: Site::Cached | Site::CachedGzip | Site::Shop, .. } => {
            vec![Contender::Saker, Contender::Peer(Peer::Nginx), Contender::Peer(Peer::Varnish)]
        }
        Kind::Compare { tool: Tool::H3load { .. }, .. } => {
            vec![Contender::Saker, Contender::Peer(Peer::Nginx), Contender::Peer(Peer::Caddy)]
        }
        Kind::Idle { protocol: Protocol::Http3, .. } => vec![Contender::Saker],
        Kind::Link { congestion: Congestion::Reno | Congestion::Bbr, .. } => vec![Contender::Saker, Contender::SakerHttp2],
        Kind::Link { requests, .. } => {
            let caddy = (requests < MANY_REQUESTS).then_some(Contender::Peer(Peer::Caddy));
            [Contender::Saker, Contender::SakerHttp2, Contender::Peer(Peer::Nginx)].into_iter().chain(caddy).collect()
        }
        Kind::Compare { site: Site::Permalinks, .. } => vec![Contender::Saker, Contender::Peer(Peer::Nginx)],
        Kind::Compare { .. } | Kind::Idle { .. } => std::iter::once(Contender::Saker).chain(peers).collect(),
        Kind::Own(workload) => {
            let is_there = |contender: &Contender| !matches!(contender, Contender::Peer(peer) if require(peer.program()).is_err());
            workload.contenders().iter().copied().filter(is_there).collect()
        }
        Kind::Switch { feature, .. } => vec![Contender::SakerWithout(feature), Contender::SakerWith(feature)],
    };
    let there = ground.saker.is_file();
    all.into_iter().filter(|contender| there || !contender.is_saker()).collect()
}

fn trial(
    row: &Row,
    contender: Contender,
    arguments: &Arguments,
    ground: Ground<'_>,
    load_core: Option<usize>,
    load_command: &mut String,
) -> Result<Trial, String> {
    let (tool, paths, connections): (_, &[&str], _) = match row.kind {
        Kind::Compare { tool, paths, connections, .. } => (tool, paths, connections),
        Kind::Switch { feature, connections, .. } => (Tool::Wrk, switch_path(feature), connections),
        Kind::Idle { protocol, connections, .. } => return idle_trial(contender, protocol, connections, ground),
        Kind::Link { .. } => return links::trial(row, contender, arguments, ground, load_core, load_command),
        Kind::Own(workload) => {
            let asked = workload.load();
            (asked.tool, asked.paths, asked.connections)
        }
    };
    let tool = tool_for(tool, contender);
    let ground = Ground { tls: ground.tls.filter(|_| tool.is_over_tls()), ..ground };
    let stand = start(row, contender, ground)?;
    let (address, amount) = (stand.address(), Amount::Seconds(arguments.seconds));
    let Ground { work, tls, .. } = ground;
    let setting = LoadSetting { tool, address, paths, connections, amount, core: load_core, network: None, work, tls };
    setting.note(load_command)?;
    let cpu = || stand.tree().cpu_time();
    if !tool.warms_up_itself() {
        LoadSetting { amount: Amount::Seconds(WARM_UP_S), ..setting }.run(cpu)?;
    }
    let load = setting.run(cpu)?;
    if let Kind::Own(workload) = row.kind {
        workload.afterwards(contender, &stand, &load, ground).map_err(|complaint| format!("{contender}: {complaint}"))?;
    }
    Ok(outcome(paths, &load, &stand))
}

fn start(row: &Row, contender: Contender, ground: Ground<'_>) -> Result<Stand, String> {
    match row.kind {
        Kind::Own(workload) => workload.start(contender, ground),
        _ => contender.start(ground),
    }
}

/// Everybody has to give the same answer before anybody is measured.
fn differing_answers(row: &Row, contenders: &[Contender], ground: Ground<'_>) -> Result<(), String> {
    let Kind::Own(workload) = row.kind else { return Ok(()) };
    workload.prepare(ground)?;
    let mut first: Option<(Contender, Vec<u8>)> = None;
    for &contender in contenders {
        let answer = workload.answer(&start(row, contender, ground)?).map_err(|complaint| format!("{contender}: {complaint}"))?;
        match &first {
            Some((other, theirs)) if *theirs != answer => return Err(format!("{contender} does not answer as {other} does")),
            Some(_) => {}
            None => first = Some((contender, answer)),
        }
    }
    Ok(())
}

/// With the tool that the contender's protocol asks for.
pub fn tool_for(tool: Tool, contender: Contender) -> Tool {
    let is_without_http3 = matches!(contender, Contender::SakerHttp2 | Contender::Peer(Peer::Nginx));
    match tool {
        Tool::H3load { streams, yardstick: Yardstick::Http2 } if is_without_http3 => Tool::H2load { streams },
        Tool::H3load { yardstick: Yardstick::PlainHttp1, .. } if is_without_http3 => Tool::Wrk,
        other => other,
    }
}

pub fn outcome(paths: &[&str], load: &Load, stand: &Stand) -> Trial {
    let memory = stand.tree().memory();
    Trial {
        cost: cost(paths, load),
        errors: load.errors,
        requests_per_s: load.requests / load.seconds,
        bytes_per_s: load.bytes / load.seconds,
        p50_us: load.p50_us,
        p99_us: load.p99_us,
        longest_us: load.longest_us,
        peak_rss_bytes: memory.peak_rss_bytes as f64,
        pss_bytes: memory.pss_bytes as f64,
        verified: load.verified,
    }
}

/// Of the large files few are finished when the time is over: what was sent counts, by bytes.
fn cost(paths: &[&str], load: &Load) -> f64 {
    let requests = match paths {
        [bench_files::LARGE] => load.bytes / bench_files::LARGE_BYTES as f64,
        [bench_files::HUGE] => load.bytes / bench_files::HUGE_BYTES as f64,
        _ => load.requests.max(1.0),
    };
    load.cpu.as_secs_f64() * 1e6 / requests
}

fn idle_trial(contender: Contender, protocol: Protocol, connections: usize, ground: Ground<'_>) -> Result<Trial, String> {
    let server = contender.start(ground)?;
    let idle = idle::measure(server.front(), protocol, ground.tls, connections).map_err(|error| format!("{contender}: {error}"))?;
    let memory = server.tree().memory();
    Ok(Trial {
        cost: idle.bytes_per_connection,
        errors: idle.errors,
        peak_rss_bytes: memory.peak_rss_bytes as f64,
        pss_bytes: memory.pss_bytes as f64,
        ..Trial::default()
    })
}

/// What is asked for where a feature is switched.
fn switch_path(feature: Feature) -> &'static [&'static str] {
    match feature {
        Feature::AccessLog | Feature::Throttle => &[bench_files::SMALL],
        Feature::Htaccess => &[bench_files::DEEP],
        Feature::RewriteRules => &[bench_files::RULED],
    }
}

fn count_system_calls(row: &Row, contender: Contender, ground: Ground<'_>) -> Result<f64, String> {
    let Kind::Switch { feature, .. } = row.kind else { return Err("no switch".to_owned()) };
    let path = switch_path(feature).first().copied().unwrap_or(bench_files::SMALL);
    let server = contender.start(ground)?;
    system_calls::per_request(server.front(), path, ground.work).map_err(|error| format!("{contender}: {error}"))
}
