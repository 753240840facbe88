//! Directives of the process: user, workers, files.
//!
//! Called by: `load`, and the command line, which needs the process id's file.

use crate::log_to::{self, LogTo};
use crate::values::{flag, network, number_argument, size_argument, time_argument};
use saker_config::model::{Affinity, Origin};
use saker_nginx_syntax::{Directive, Report};
use std::{
    collections::HashSet,
    net::ToSocketAddrs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Default of the file with the process id, relative to the prefix.
const PID_FILE: &str = "/run/nginx.pid";
/// Cores that a mask can name.
const CORES_MAX: usize = 1024;

/// Settings of the process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub user: Option<String>,
    pub group: Option<String>,
    /// The place of both in the configuration.
    pub user_origin: Option<Origin>,
    pub pid_file: PathBuf,
    pub is_daemon: bool,
    /// `None`: one.
    pub workers: Option<usize>,
    /// `worker_processes auto`
    pub has_worker_per_core: bool,
    pub connections: Option<u64>,
    pub error_logs: Option<Arc<[LogTo]>>,
    pub shutdown_timeout_ms: Option<u64>,
    /// Limits on open descriptors, and on core dumps.
    pub descriptors_max: Option<u64>,
    pub core_bytes_max: Option<u64>,
    pub signals_max: Option<u64>,
    /// Sets of cores, the workers' in turn; empty: the kernel decides.
    pub cores: Vec<Vec<usize>>,
    /// One core for each worker, of those that are allowed.
    pub assigns_cores: bool,
    /// As for nice(1).
    pub priority: Option<i32>,
    pub directory: Option<PathBuf>,
    /// Directories for content of requests, which are made at the start.
    pub body_folders: Vec<PathBuf>,
}

impl Process {
    /// Reads the directives.
    pub fn read(directives: &[Directive], prefix: &Path, report: &mut Report) -> Process {
        let mut process = Process {
            pid_file: PID_FILE.into(),
            is_daemon: true,
            workers: Some(1),
            ..Process::default()
        };
        let events = directives
            .iter()
            .filter(|directive| directive.name() == "events");
        refuse_duplicates(directives, report);
        events
            .clone()
            .for_each(|events| refuse_duplicates(events.inside(), report));
        let inner = events.flat_map(|events| events.inside());
        for directive in directives.iter().chain(inner) {
            if let Err(message) = process.set(directive, prefix) {
                report.error(directive, message, None);
            }
        }
        load_modules(directives, prefix, report);
        process.check_affinity(report);
        let has_events = directives
            .iter()
            .any(|directive| directive.name() == "events");
        if !has_events && !report.has_errors() {
            report.error_without_place("no \"events\" section in configuration".to_owned());
        }
        process
    }

    fn set(&mut self, directive: &Directive, prefix: &Path) -> Result<(), String> {
        let text = directive.argument(0);
        match directive.name() {
            "user" => {
                self.user = Some(text.to_owned());
                self.group = directive.arguments.get(1).map(|word| word.text.clone());
                self.user_origin = Some(Origin {
                    line: directive.end_line,
                    ..directive.origin()
                });
            }
            "pid" => self.pid_file = prefix.join(text),
            "daemon" => self.is_daemon = flag(directive)?,
            "worker_processes" if text == "auto" => self.has_worker_per_core = true,
            "worker_processes" => {
                let count: Option<usize> = text.parse().ok();
                let invalid = || "\"worker_processes\" directive invalid value".to_owned();
                self.workers = Some(count.ok_or_else(invalid)?.max(1));
            }
            "worker_rlimit_nofile" => self.descriptors_max = Some(number_argument(directive)?),
            "worker_rlimit_core" => self.core_bytes_max = Some(size_argument(directive)?),
            "worker_rlimit_sigpending" => self.signals_max = Some(number_argument(directive)?),
            "worker_cpu_affinity" => self.affinity(directive)?,
            "worker_priority" => {
                let invalid = || "\"worker_priority\" directive invalid number".to_owned();
                self.priority = Some(text.parse().map_err(|_| invalid())?);
            }
            "working_directory" => self.directory = Some(text.into()),
            "use" if text != "epoll" => return Err(format!("invalid event type \"{text}\"")),
            "worker_connections" => {
                let invalid = |_| format!("invalid number \"{text}\"");
                self.connections = Some(text.parse().map_err(invalid)?);
            }
            "timer_resolution" | "accept_mutex_delay" => time_argument(directive).map(drop)?,
            "worker_aio_requests" => number_argument(directive).map(drop)?,
            "debug_points" if !matches!(text, "stop" | "abort") => {
                return Err(format!("invalid value \"{text}\""));
            }
            "worker_shutdown_timeout" => {
                self.shutdown_timeout_ms = Some(time_argument(directive)?);
            }
            "thread_pool" => thread_pool(directive)?,
            "debug_connection" => debug_connection(text)?,
            "error_log" => {
                log_to::add(&mut self.error_logs, LogTo::read(directive, prefix)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// `auto` with an optional mask, or a mask of bits for each worker, the last for those that follow.
    fn affinity(&mut self, directive: &Directive) -> Result<(), String> {
        let mut words = directive.texts().peekable();
        self.assigns_cores = words.next_if_eq(&"auto").is_some();
        if self.assigns_cores && directive.arguments.len() > 2 {
            let message = "invalid number of arguments in \"worker_cpu_affinity\" directive";
            return Err(message.to_owned());
        }
        for word in words {
            if word.len() > CORES_MAX {
                return Err(format!(
                    "\"worker_cpu_affinity\" supports up to {CORES_MAX} CPUs only"
                ));
            }
            let is_mask = word.bytes().all(|byte| matches!(byte, b'0' | b'1'));
            if !is_mask {
                let mut invalid = word.chars().filter(|letter| !matches!(letter, '0' | '1'));
                let invalid = invalid.next().unwrap_or_default();
                return Err(format!(
                    "invalid character \"{invalid}\" in \"worker_cpu_affinity\""
                ));
            }
            let bits = word.bytes().rev().enumerate();
            let set = bits.filter(|(_, bit)| *bit == b'1').map(|(core, _)| core);
            self.cores.push(set.collect());
        }
        Ok(())
    }

    fn check_affinity(&self, report: &mut Report) {
        let workers = match self.has_worker_per_core {
            true => std::thread::available_parallelism().map_or(1, usize::from),
            false => self.workers.unwrap_or(1),
        };
        if !self.assigns_cores && self.cores.len() > 1 && self.cores.len() != workers {
            report.warn_without_place(
                "the number of \"worker_processes\" is not equal to the number of \
                 \"worker_cpu_affinity\" masks, using last mask for remaining worker processes"
                    .to_owned(),
            );
        }
    }

    /// The cores that workers run on.
    pub fn affinity_of_workers(&self) -> Affinity {
        match (self.assigns_cores, self.cores.first()) {
            (true, None) => Affinity::Auto,
            // One core for each worker, of the mask.
            (true, Some(mask)) => Affinity::Cores(mask.clone()),
            (false, None) => Affinity::Off,
            (false, Some(_)) => Affinity::Sets(self.cores.clone()),
        }
    }
}

/// Directives of the process that may stand several times.
const REPEATED: [&str; 5] = [
    "debug_connection",
    "env",
    "error_log",
    "load_module",
    "thread_pool",
];

fn refuse_duplicates(directives: &[Directive], report: &mut Report) {
    let mut seen = HashSet::new();
    for directive in directives {
        let name = directive.name();
        if !REPEATED.contains(&name) && !seen.insert(name) {
            report.error(
                directive,
                format!("\"{name}\" directive is duplicate"),
                None,
            );
        }
    }
}

/// Modules that nginx loads, by the part of their file's name between `ngx_` and `_module`, and that
/// are part of this program.
const BUILT_IN: [&str; 8] = [
    "http_brotli_filter",
    "http_brotli_static",
    "http_geoip",
    "http_headers_more_filter",
    "http_zstd_filter",
    "http_zstd_static",
    "stream",
    "stream_geoip",
];

/// Looks at the modules that nginx would load. Those that are part of this program need no file.
fn load_modules(directives: &[Directive], prefix: &Path, report: &mut Report) {
    let mut loaded = HashSet::new();
    let all = directives.iter();
    for module in all.filter(|directive| directive.name() == "load_module") {
        let text = module.argument(0);
        let path = prefix.join(text);
        let name = path.file_stem().unwrap_or_default().to_owned();
        let is_missing = |path: &Path| {
            let found = std::fs::metadata(path);
            found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        if is_built_in(&path) {
            if !loaded.insert(name.clone()) {
                let name = name.to_string_lossy();
                let message = format!("module \"{name}\" is already loaded");
                report.error(module, message, None);
            }
        } else if is_missing(&path) {
            let path = path.display();
            let message = format!(
                "dlopen() \"{path}\" failed ({path}: cannot open shared object file: \
                 No such file or directory)"
            );
            report.error(module, message, None);
        } else {
            let message = format!("`{text}` is not part of Saker");
            let help = "Its directives are unknown, or are listed with what follows.";
            report.warn(module, message, Some(help.into()));
        }
    }
}

/// Checks a `thread_pool`, of which there are none here.
fn thread_pool(directive: &Directive) -> Result<(), String> {
    let mut has_threads = false;
    for word in directive.texts().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = value.parse::<u32>().ok();
        match name {
            "threads" if number.is_none_or(|number| number == 0) => {
                return Err(format!("invalid threads value \"{word}\""));
            }
            "threads" => has_threads = true,
            "max_queue" if number.is_none() => {
                return Err(format!("invalid max_queue value \"{word}\""));
            }
            _ => {}
        }
    }
    match has_threads {
        true => Ok(()),
        false => Err("\"thread_pool\" must have \"threads\" parameter".to_owned()),
    }
}

/// Checks a `debug_connection`: an address, a network, or a name.
fn debug_connection(text: &str) -> Result<(), String> {
    let is_found = || !text.contains('/') && (text, 0).to_socket_addrs().is_ok();
    match text == "unix:" || network(text).is_some() || is_found() {
        true => Ok(()),
        false => Err(format!("host not found in debug_connection \"{text}\"")),
    }
}

/// Returns true if the file of a module is one whose directives are known anyway.
fn is_built_in(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = name
        .strip_prefix("ngx_")
        .and_then(|name| name.strip_suffix("_module.so"));
    known.is_some_and(|name| BUILT_IN.contains(&name))
}
