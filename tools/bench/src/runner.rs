//! Goes through the rows: rounds outside, servers inside, so that a slow minute of the machine hits
//! all alike.

use crate::{
    arguments::Arguments,
    behind::Behind,
    certificate::Certificate,
    conditions::{Congestion, Feature, Protocol},
    idle, links,
    load::{Amount, LoadSetting},
    participants,
    row::{Kind, Row},
    rows,
    running_server::RunningServer,
    sampling,
    sheets::Sheet,
    stage::{self, Stage},
    subject::Subject,
    system_calls,
    test_env::TestEnv,
    tool::Tool,
    trial::{Progress, RowPlan, RowResult, Series, Trial, outcome, tool_for},
};
use saker_testkit::{TempDir, bench_files, missing, raise_descriptor_limit, require};
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
            .subjects(plan.row)
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
                match self.count_system_calls(plan.row, feature, entry.subject) {
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
            progress.trial(plan.row, round, entry.subject);
            let plan = RowPlan {
                idle: if round == 0 {
                    plan.idle
                } else {
                    Duration::ZERO
                },
                ..plan
            };
            let outcome = self.trial(plan, entry.subject, load_command, &mut entry.sheets);
            entry.record(outcome);
            thread::sleep(PAUSE);
        }
    }

    fn trial(
        &self,
        plan: RowPlan,
        subject: Subject,
        load_command: &mut String,
        sheets: &mut Vec<Sheet>,
    ) -> Result<Trial, String> {
        let test_env = self.test_env(plan.row);
        match plan.row.kind {
            Kind::Idle {
                protocol,
                connections,
                ..
            } => return idle_trial(subject, protocol, connections, test_env, sheets),
            Kind::Link { .. } => {
                let core = self.load_core;
                return links::trial(plan, subject, test_env, core, load_command, sheets);
            }
            _ => {}
        }
        let (tool, paths, connections) = load_of(plan.row.kind).ok_or("the row has no load")?;
        let tool = tool_for(tool, subject);
        let test_env = TestEnv {
            tls: test_env.tls.filter(|_| tool.is_over_tls()),
            ..test_env
        };
        let running = self.start(plan.row, subject, test_env)?;
        if sheets.is_empty() {
            *sheets = running.sheets(test_env);
        }
        let (address, amount) = (running.address(), Amount::Seconds(plan.seconds));
        let TestEnv { work, tls, .. } = test_env;
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
        let cpu = || running.cpu_time();
        if !tool.warms_up_itself() {
            setting.warm_up(cpu)?;
        }
        let (load, line) =
            sampling::record(&running, self.load_core, plan.idle, || setting.run(cpu));
        let load = load?;
        // Logs are where the servers are.
        if let Kind::Own(workload) = plan.row.kind
            && self.stage.is_none()
        {
            workload
                .afterwards(subject, &running, &load, test_env)
                .map_err(|complaint| format!("{subject}: {complaint}"))?;
        }
        Ok(outcome(paths, &load, &running, line))
    }

    /// On this machine or the other.
    pub fn start(
        &self,
        row: &Row,
        subject: Subject,
        test_env: TestEnv<'_>,
    ) -> Result<RunningServer, String> {
        match (&self.stage, row.kind) {
            (Some(stage), _) => stage
                .start(row.name, subject, test_env.tls.is_some())
                .map(RunningServer::there),
            (None, Kind::Own(workload)) => workload.start(subject, test_env),
            (None, _) => subject.start(test_env),
        }
    }

    pub fn sheets(&self, row: &Row, running: &RunningServer) -> Vec<Sheet> {
        running.sheets(self.test_env(row))
    }

    /// The certificate, PEM.
    pub fn chain(&self) -> Result<String, String> {
        std::fs::read_to_string(self.certificate.files().chain).map_err(|error| error.to_string())
    }

    /// With TLS, where the row has it and the server is asked by it.
    pub fn test_env_over(&self, row: &Row, is_over_tls: bool) -> TestEnv<'_> {
        let test_env = self.test_env(row);
        TestEnv {
            tls: test_env.tls.filter(|_| is_over_tls),
            ..test_env
        }
    }

    pub fn test_env(&self, row: &Row) -> TestEnv<'_> {
        TestEnv {
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
        let (Kind::Own(workload), test_env) = (row.kind, self.test_env(row)) else {
            return Ok(());
        };
        workload.prepare(test_env)?;
        let mut first: Option<(Subject, Vec<u8>)> = None;
        for subject in self.subjects(row) {
            let answer = workload
                .answer(&self.start(row, subject, test_env)?, test_env)
                .map_err(|complaint| format!("{subject}: {complaint}"))?;
            match &first {
                Some((other, theirs)) if *theirs != answer => {
                    return Err(format!("{subject} does not answer as {other} does"));
                }
                Some(_) => {}
                None => first = Some((subject, answer)),
            }
        }
        Ok(())
    }

    fn count_system_calls(
        &self,
        row: &Row,
        feature: Feature,
        subject: Subject,
    ) -> Result<f64, String> {
        let path = switch_path(feature)
            .first()
            .copied()
            .unwrap_or(bench_files::SMALL);
        let running = subject.start(self.test_env(row))?;
        system_calls::per_request(running.front()?, path, &self.work)
            .map_err(|error| format!("{subject}: {error}"))
    }

    /// Participants of a row.
    pub fn subjects(&self, row: &Row) -> Vec<Subject> {
        let there = self.stage.is_some() || self.saker.is_file();
        let mut all = participants::of(row, self.arguments);
        all.retain(|subject| there || !subject.is_saker());
        if self.stage.is_some() {
            all.retain(|subject| stage::can_be_there(*subject));
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
    fn trial(&self, row: &Row, round: usize, subject: Subject) {
        eprintln!("{}: round {}: {subject}", row.name, round + 1);
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

type Paths = &'static [&'static str];

/// Returns the tool, the paths, and the number of connections of a row; `None`: it is not measured
/// under load.
fn load_of(kind: Kind) -> Option<(Tool, Paths, usize)> {
    match kind {
        Kind::Compare {
            tool,
            paths,
            connections,
            ..
        } => Some((tool, paths, connections)),
        Kind::Switch {
            feature,
            connections,
            ..
        } => Some((Tool::Wrk, switch_path(feature), connections)),
        Kind::Own(workload) => {
            let asked = workload.load();
            Some((asked.tool, asked.paths, asked.connections))
        }
        Kind::Idle { .. } | Kind::Link { .. } => None,
    }
}

fn idle_trial(
    subject: Subject,
    protocol: Protocol,
    connections: usize,
    test_env: TestEnv<'_>,
    sheets: &mut Vec<Sheet>,
) -> Result<Trial, String> {
    let running = subject.start(test_env)?;
    *sheets = running.sheets(test_env);
    let idle = idle::measure(running.front()?, protocol, test_env.tls, connections)
        .map_err(|error| format!("{subject}: {error}"))?;
    let memory = running.memory();
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
