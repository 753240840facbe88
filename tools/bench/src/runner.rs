//! Goes through the rows: rounds outside, servers inside, so that a slow minute of the machine hits
//! all alike.

use crate::{
    arguments::Arguments,
    behind::Behind,
    certificate::Certificate,
    contender::{Contender, Ground},
    entrants, idle, links,
    load::{Amount, Load, LoadSetting},
    rows::{self, Congestion, Feature, Kind, Protocol, Row, Tool, Yardstick},
    sampling::{self, TimeLine},
    sheets::Sheet,
    stage::{self, Stage},
    stand::Stand,
    system_calls,
};
use saker_testkit::{Peer, TempDir, bench_files, missing, raise_descriptor_limit, require};
use std::{env, net::Ipv4Addr, path::PathBuf, sync::Arc, thread, time::Duration};

/// lighttpd takes half of its descriptors for connections.
const DESCRIPTORS: u64 = 40_000;
/// Switches are about a percent or less: they take more rounds than comparisons.
const SWITCH_ROUNDS_FACTOR: usize = 3;
/// As the published figures were made.
const LINK_ROUNDS_MAX: usize = 3;
/// After the load has gone, before the next server starts.
const PAUSE: Duration = Duration::from_millis(200);
/// Divisor of counted requests with `--quick`.
const QUICK_DIVISOR: u64 = 10;

/// A row, and how much of it is run.
#[derive(Clone, Copy, Debug)]
pub struct RowPlan {
    pub row: &'static Row,
    pub rounds: usize,
    /// Load per trial.
    pub seconds: u64,
    /// Divisor of the requests of rows that count requests.
    pub requests_divisor: u64,
    /// Before and after the load of the first round, for the time lines.
    pub idle: Duration,
}

/// All trials of a row.
#[derive(Debug)]
pub struct RowResult {
    pub plan: RowPlan,
    /// As typed.
    pub load_command: String,
    pub series: Vec<Series>,
}

#[derive(Debug)]
pub struct Series {
    pub contender: Contender,
    pub trials: Vec<Trial>,
    /// Per keep-alive request; only where the row asks for it.
    pub system_calls: Option<f64>,
    /// Trials that came to nothing, and why: the others go on, the row is refused.
    pub complaints: Vec<String>,
    /// Sheets of the first trial.
    pub sheets: Vec<Sheet>,
}

impl Series {
    pub fn new(contender: Contender) -> Series {
        Series {
            contender,
            trials: Vec::new(),
            system_calls: None,
            complaints: Vec::new(),
            sheets: Vec::new(),
        }
    }

    fn record(&mut self, outcome: Result<Trial, String>) {
        match outcome {
            Ok(trial) => self.trials.push(trial),
            Err(complaint) => {
                eprintln!("saker-bench: {}: {complaint}", self.contender);
                self.complaints.push(complaint);
            }
        }
    }
}

/// One server under load once.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The figure that counts: CPU µs per request of the whole tree, or bytes per idle connection.
    pub cost: f64,
    pub errors: f64,
    pub requests: f64,
    pub seconds: f64,
    pub requests_per_s: f64,
    pub bytes_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub longest_us: f64,
    pub shortest_us: f64,
    pub peak_rss_bytes: f64,
    pub pss_bytes: f64,
    /// Handshakes of the wanted kind.
    pub verified: f64,
    pub line: TimeLine,
}

/// Observer of a run's progress.
pub trait Progress {
    fn trial(&self, row: &Row, round: usize, contender: Contender);

    /// True if there is time for this round (from 0), which is not the first.
    fn has_time(&self, _row: &Row, _round: usize) -> bool {
        true
    }
}

/// Environment shared by all rows: files, certificates, upstreams, and participants.
pub struct Bench<'a> {
    arguments: &'a Arguments,
    work: TempDir,
    root: PathBuf,
    saker: PathBuf,
    certificate: Certificate,
    behind: Behind,
    server_core: Option<usize>,
    load_core: Option<usize>,
    host: Ipv4Addr,
    /// Machine of the servers, unless it is this one.
    stage: Option<Arc<Stage>>,
}

/// Part of a comparison that this machine does.
pub enum Part {
    Everything,
    /// The servers are on a stage.
    Load(Arc<Stage>),
    /// It is the stage.
    Servers,
}

impl<'a> Bench<'a> {
    pub fn prepare(
        arguments: &'a Arguments,
        rows: &[&'static Row],
        part: Part,
    ) -> Result<Bench<'a>, String> {
        raise_descriptor_limit(DESCRIPTORS)
            .map_err(|error| format!("descriptor limit: {error}"))?;
        require_programs(arguments, rows, &part)?;
        let stage = if let Part::Load(stage) = part {
            Some(stage)
        } else {
            None
        };
        let work = TempDir::new("bench").map_err(|error| error.to_string())?;
        let root = work.join("root");
        bench_files::write(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        if rows.iter().any(|row| row.asks_for_huge()) {
            bench_files::write_huge(&root)
                .map_err(|error| format!("{}: {error}", root.display()))?;
        }
        let (server_core, load_core) = cores();
        Ok(Bench {
            certificate: match &stage {
                Some(stage) => Certificate::of_chain(&work, stage.chain())?,
                None => Certificate::write(&work)?,
            },
            saker: absolute(&arguments.saker)?,
            // What stands behind stands there, too.
            behind: Behind::start(
                if stage.is_some() { &[] } else { rows },
                &root,
                &work,
                load_core,
                arguments.sessions,
            )?,
            arguments,
            work,
            root,
            server_core,
            load_core,
            host: Ipv4Addr::LOCALHOST,
            stage,
        })
    }

    /// Servers that others than this machine may ask.
    pub fn on_host(self, host: Ipv4Addr) -> Bench<'a> {
        Bench { host, ..self }
    }

    pub fn run_row(&self, plan: RowPlan, progress: &dyn Progress) -> RowResult {
        let mut series: Vec<Series> = self
            .contenders(plan.row)
            .into_iter()
            .map(Series::new)
            .collect();
        let mut load_command = String::new();
        if let Err(complaint) = self.differing_answers(plan.row)
            && let Some(entry) = series.first_mut()
        {
            entry.record(Err(complaint));
            return RowResult {
                plan,
                load_command,
                series,
            };
        }
        for round in 0..plan.rounds {
            if round > 0 && !progress.has_time(plan.row, round) {
                break;
            }
            self.run_round(plan, round, &mut series, &mut load_command, progress);
        }
        if let Kind::Switch { feature, .. } = plan.row.kind {
            for entry in &mut series {
                match self.count_system_calls(plan.row, feature, entry.contender) {
                    Ok(count) => entry.system_calls = Some(count),
                    Err(complaint) => entry.record(Err(complaint)),
                }
            }
        }
        RowResult {
            plan,
            load_command,
            series,
        }
    }

    /// Another one begins in each round.
    fn run_round(
        &self,
        plan: RowPlan,
        round: usize,
        series: &mut [Series],
        load_command: &mut String,
        progress: &dyn Progress,
    ) {
        let count = series.len();
        for place in 0..count {
            let Some(entry) = series.get_mut((place + round) % count) else {
                continue;
            };
            progress.trial(plan.row, round, entry.contender);
            let plan = RowPlan {
                idle: if round == 0 {
                    plan.idle
                } else {
                    Duration::ZERO
                },
                ..plan
            };
            let outcome = self.trial(plan, entry.contender, load_command, &mut entry.sheets);
            entry.record(outcome);
            thread::sleep(PAUSE);
        }
    }

    fn trial(
        &self,
        plan: RowPlan,
        contender: Contender,
        load_command: &mut String,
        sheets: &mut Vec<Sheet>,
    ) -> Result<Trial, String> {
        let ground = self.ground(plan.row);
        let (tool, paths, connections): (_, &[&str], _) = match plan.row.kind {
            Kind::Compare {
                tool,
                paths,
                connections,
                ..
            } => (tool, paths, connections),
            Kind::Switch {
                feature,
                connections,
                ..
            } => (Tool::Wrk, switch_path(feature), connections),
            Kind::Idle {
                protocol,
                connections,
                ..
            } => return idle_trial(contender, protocol, connections, ground, sheets),
            Kind::Link { .. } => {
                return links::trial(
                    plan,
                    contender,
                    ground,
                    self.load_core,
                    load_command,
                    sheets,
                );
            }
            Kind::Own(workload) => {
                let asked = workload.load();
                (asked.tool, asked.paths, asked.connections)
            }
        };
        let tool = tool_for(tool, contender);
        let ground = Ground {
            tls: ground.tls.filter(|_| tool.is_over_tls()),
            ..ground
        };
        let stand = self.start(plan.row, contender, ground)?;
        if sheets.is_empty() {
            *sheets = stand.sheets(ground);
        }
        let (address, amount) = (stand.address(), Amount::Seconds(plan.seconds));
        let Ground { work, tls, .. } = ground;
        let setting = LoadSetting {
            tool,
            address,
            paths,
            connections,
            amount,
            core: self.load_core,
            network: None,
            work,
            tls,
        };
        setting.note(load_command)?;
        let cpu = || stand.cpu_time();
        if !tool.warms_up_itself() {
            setting.warm_up(cpu)?;
        }
        let (load, line) = sampling::record(&stand, self.load_core, plan.idle, || setting.run(cpu));
        let load = load?;
        // Logs are where the servers are.
        if let Kind::Own(workload) = plan.row.kind
            && self.stage.is_none()
        {
            workload
                .afterwards(contender, &stand, &load, ground)
                .map_err(|complaint| format!("{contender}: {complaint}"))?;
        }
        Ok(outcome(paths, &load, &stand, line))
    }

    /// On this machine or the other.
    pub fn start(
        &self,
        row: &Row,
        contender: Contender,
        ground: Ground<'_>,
    ) -> Result<Stand, String> {
        match (&self.stage, row.kind) {
            (Some(stage), _) => stage
                .start(row, contender, ground.tls.is_some())
                .map(Stand::there),
            (None, Kind::Own(workload)) => workload.start(contender, ground),
            (None, _) => contender.start(ground),
        }
    }

    pub fn sheets(&self, row: &Row, stand: &Stand) -> Vec<Sheet> {
        stand.sheets(self.ground(row))
    }

    /// The certificate, PEM.
    pub fn chain(&self) -> Result<String, String> {
        std::fs::read_to_string(self.certificate.files().chain).map_err(|error| error.to_string())
    }

    /// With TLS, where the row has it and the server is asked by it.
    pub fn ground_over(&self, row: &Row, is_over_tls: bool) -> Ground<'_> {
        let ground = self.ground(row);
        Ground {
            tls: ground.tls.filter(|_| is_over_tls),
            ..ground
        }
    }

    pub fn ground(&self, row: &Row) -> Ground<'_> {
        Ground {
            saker: &self.saker,
            root: &self.root,
            host: self.host,
            work: &self.work,
            tls: row.is_over_tls().then(|| self.certificate.files()),
            core: self.server_core,
            site: self.behind.site(row.site()),
            sessions: self.behind.sessions(),
            congestion: Congestion::Usual,
        }
    }

    /// All servers have to give the same answer before any is measured.
    fn differing_answers(&self, row: &Row) -> Result<(), String> {
        let (Kind::Own(workload), ground) = (row.kind, self.ground(row)) else {
            return Ok(());
        };
        workload.prepare(ground)?;
        let mut first: Option<(Contender, Vec<u8>)> = None;
        for contender in self.contenders(row) {
            let answer = workload
                .answer(&self.start(row, contender, ground)?, ground)
                .map_err(|complaint| format!("{contender}: {complaint}"))?;
            match &first {
                Some((other, theirs)) if *theirs != answer => {
                    return Err(format!("{contender} does not answer as {other} does"));
                }
                Some(_) => {}
                None => first = Some((contender, answer)),
            }
        }
        Ok(())
    }

    fn count_system_calls(
        &self,
        row: &Row,
        feature: Feature,
        contender: Contender,
    ) -> Result<f64, String> {
        let path = switch_path(feature)
            .first()
            .copied()
            .unwrap_or(bench_files::SMALL);
        let stand = contender.start(self.ground(row))?;
        system_calls::per_request(stand.front()?, path, &self.work)
            .map_err(|error| format!("{contender}: {error}"))
    }

    /// Participants of a row.
    pub fn contenders(&self, row: &Row) -> Vec<Contender> {
        let there = self.stage.is_some() || self.saker.is_file();
        let mut all = entrants::of(row, self.arguments);
        all.retain(|contender| there || !contender.is_saker());
        if self.stage.is_some() {
            all.retain(|contender| stage::can_be_there(*contender));
        }
        all
    }
}

pub fn run(arguments: &Arguments) -> Result<Vec<RowResult>, String> {
    let rows: Vec<&'static Row> = rows::chosen(&arguments.only).collect();
    let bench = Bench::prepare(arguments, &rows, Part::Everything)?;
    Ok(rows
        .into_iter()
        .map(|row| bench.run_row(plan(row, arguments), &Lines))
        .collect())
}

/// A line each, for logs.
struct Lines;

impl Progress for Lines {
    fn trial(&self, row: &Row, round: usize, contender: Contender) {
        eprintln!("{}: round {}: {contender}", row.name, round + 1);
    }
}

fn plan(row: &'static Row, arguments: &Arguments) -> RowPlan {
    let rounds = match row.kind {
        Kind::Compare { .. } | Kind::Own(_) => arguments.rounds,
        Kind::Switch { .. } => arguments.rounds * SWITCH_ROUNDS_FACTOR,
        Kind::Idle { .. } => 1,
        Kind::Link { .. } => arguments.rounds.min(LINK_ROUNDS_MAX),
    };
    let requests_divisor = if arguments.is_quick { QUICK_DIVISOR } else { 1 };
    RowPlan {
        row,
        rounds,
        seconds: arguments.seconds,
        requests_divisor,
        idle: Duration::ZERO,
    }
}

/// Server and load on a core each; on a machine with one core, as the kernel likes.
fn cores() -> (Option<usize>, Option<usize>) {
    match thread::available_parallelism() {
        Ok(count) if count.get() > 1 => (Some(0), Some(1)),
        _ => (None, None),
    }
}

fn absolute(path: &PathBuf) -> Result<PathBuf, String> {
    let path = env::current_dir()
        .map_err(|error| error.to_string())?
        .join(path);
    if !path.is_file() {
        eprintln!(
            "saker-bench: there is no {}: only the peers are measured",
            path.display()
        );
    }
    Ok(path)
}

fn require_programs(
    arguments: &Arguments,
    rows: &[&'static Row],
    part: &Part,
) -> Result<(), String> {
    let mut tools = vec!["taskset"];
    if !matches!(part, Part::Servers) {
        tools.extend(["wrk", "ab", "h2load", "siege", "httperf", "strace"]);
    }
    if rows
        .iter()
        .any(|row| row.name.starts_with("h3") || row.name.starts_with("b2"))
    {
        tools.extend(["nginx", "nsenter"]);
    }
    let peers = arguments
        .peers
        .iter()
        .filter(|_| !matches!(part, Part::Load(_)));
    let programs: Vec<&str> = peers.map(|peer| peer.program()).chain(tools).collect();
    let complaints: Vec<String> = missing(&programs)
        .into_iter()
        .filter_map(|program| require(program).err())
        .collect();
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

/// With the tool that the contender's protocol asks for.
pub fn tool_for(tool: Tool, contender: Contender) -> Tool {
    let is_without_http3 = matches!(
        contender,
        Contender::SakerHttp2 | Contender::Peer(Peer::Nginx)
    );
    match tool {
        Tool::H3load {
            streams,
            yardstick: Yardstick::Http2,
        } if is_without_http3 => Tool::H2load { streams },
        Tool::H3load {
            yardstick: Yardstick::PlainHttp1,
            ..
        } if is_without_http3 => Tool::Wrk,
        other => other,
    }
}

pub fn outcome(paths: &[&str], load: &Load, stand: &Stand, line: TimeLine) -> Trial {
    let memory = stand.memory();
    Trial {
        cost: cost(paths, load),
        errors: load.errors,
        requests_per_s: load.requests / load.seconds,
        bytes_per_s: load.bytes / load.seconds,
        p50_us: load.p50_us,
        p99_us: load.p99_us,
        longest_us: load.longest_us,
        shortest_us: load.shortest_us,
        peak_rss_bytes: memory.peak_rss_bytes as f64,
        pss_bytes: memory.pss_bytes as f64,
        verified: load.verified,
        requests: load.requests,
        seconds: load.seconds,
        line,
    }
}

/// Few of the large files are finished when the time is over, so the bytes sent count.
fn cost(paths: &[&str], load: &Load) -> f64 {
    let requests = match paths {
        [bench_files::LARGE] => load.bytes / bench_files::LARGE_BYTES as f64,
        [bench_files::HUGE] => load.bytes / bench_files::HUGE_BYTES as f64,
        _ => load.requests.max(1.0),
    };
    load.cpu.as_secs_f64() * 1e6 / requests
}

fn idle_trial(
    contender: Contender,
    protocol: Protocol,
    connections: usize,
    ground: Ground<'_>,
    sheets: &mut Vec<Sheet>,
) -> Result<Trial, String> {
    let stand = contender.start(ground)?;
    *sheets = stand.sheets(ground);
    let idle = idle::measure(stand.front()?, protocol, ground.tls, connections)
        .map_err(|error| format!("{contender}: {error}"))?;
    let memory = stand.memory();
    Ok(Trial {
        cost: idle.bytes_per_connection,
        errors: idle.errors,
        peak_rss_bytes: memory.peak_rss_bytes as f64,
        pss_bytes: memory.pss_bytes as f64,
        ..Trial::default()
    })
}

/// Paths requested in rows that switch a feature.
fn switch_path(feature: Feature) -> &'static [&'static str] {
    match feature {
        Feature::AccessLog | Feature::Throttle => &[bench_files::SMALL],
        Feature::Htaccess => &[bench_files::DEEP],
        Feature::RewriteRules => &[bench_files::RULED],
    }
}
