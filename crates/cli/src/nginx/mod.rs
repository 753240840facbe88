//! nginx: its options, answered in its words, because init scripts, panels, and certificate clients
//! parse them.
//!
//! Called by: `main`, when the program is called by this name.
//! Caveat: exit statuses are nginx's: 0 done, 1 failed. Without `daemon off` the server is started in
//! the background, with its process id in the file that the configuration names.

mod arguments;
mod early_log;
mod machine;

use crate::{
    apache::detach,
    program::RunServer,
    source::{NGINX_PREFIX, NginxInput, Source, load_nginx},
};
use arguments::{Arguments, Signal};
use rustix::process::{
    Pid, Resource, Rlimit, Signal as ProcessSignal, geteuid, kill_process, setpriority_process,
    setrlimit,
};
use saker_config::Severity;
use saker_net::process::Identity;
use saker_nginx::{Loaded, Process, VERSION};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::fchown,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// The default configuration file.
const FILE: &str = "/etc/nginx/nginx.conf";

/// Returns true if the program was called by nginx's name.
pub fn is_name(program: &str) -> bool {
    program.rsplit('/').next() == Some("nginx")
}

/// `words`: with the program's name first.
pub fn main(words: &[String], run_server: RunServer) -> ExitCode {
    let arguments = match Arguments::parse(words.get(1..).unwrap_or_default()) {
        Ok(arguments) => arguments,
        Err(why) => return failed(&why),
    };
    if arguments.shows_version || arguments.shows_help {
        show_version(&arguments);
        if !arguments.tests {
            return ExitCode::SUCCESS;
        }
    }
    let input = input(&arguments);
    if saker_broker::role().is_none() {
        early_log::open(&input);
    }
    match arguments.signal {
        _ if arguments.tests => test(&arguments, &input),
        Some(asked) => signal(asked, &load_nginx(&input), &input),
        None => run(&arguments, input, run_server),
    }
}

/// Returns the file with the process id, if the program was called by nginx's name. `words`: with
/// that name first.
pub fn pid_file(words: &[String]) -> Option<PathBuf> {
    let (name, rest) = words.split_first()?;
    let arguments = Arguments::parse(rest).ok().filter(|_| is_name(name))?;
    Some(load_nginx(&input(&arguments)).process.pid_file)
}

fn failed(why: &str) -> ExitCode {
    eprintln!("nginx: {why}");
    ExitCode::FAILURE
}

/// The same with a line in the log of `-e`. `why` begins with the level.
fn failed_noting(why: &str, input: &NginxInput) -> ExitCode {
    early_log::note(input, &[why]);
    failed(why)
}

fn show_version(arguments: &Arguments) {
    eprintln!(
        "nginx version: nginx/{VERSION} (Saker {})",
        env!("CARGO_PKG_VERSION")
    );
    if arguments.shows_help {
        eprint!("{}", usage());
    }
    if arguments.shows_build {
        eprintln!(
            "built with AWS-LC (rustls)\nTLS SNI support enabled\n\
             configure arguments: --prefix={NGINX_PREFIX} --conf-path={FILE} \
             --without-select_module --without-poll_module --with-compat --with-file-aio --with-pcre-jit --with-threads --with-http_ssl_module --with-http_v2_module --with-http_v3_module \
             --with-http_addition_module --with-http_auth_request_module --with-http_dav_module \
             --with-http_flv_module --with-http_gunzip_module --with-http_gzip_static_module \
             --with-http_mp4_module --with-http_random_index_module --with-http_realip_module \
             --with-http_secure_link_module --with-http_slice_module --with-http_stub_status_module \
             --with-http_sub_module \
             --with-stream --with-stream_ssl_module --with-stream_ssl_preread_module \
             --with-stream_realip_module"
        );
    }
}

fn usage() -> String {
    format!(
        "Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]\n             [-e filename] [-c filename] [-g directives]\n\n\
         Options:\n\
         \x20 -?,-h         : this help\n\
         \x20 -v            : show version and exit\n\
         \x20 -V            : show version and configure options then exit\n\
         \x20 -t            : test configuration and exit\n\
         \x20 -T            : test configuration, dump it and exit\n\
         \x20 -q            : suppress non-error messages during configuration testing\n\
         \x20 -s signal     : send signal to a master process: stop, quit, reopen, reload\n\
         \x20 -p prefix     : set prefix path (default: {NGINX_PREFIX}/)\n\
         \x20 -e filename   : set error log file (default: stderr)\n\
         \x20 -c filename   : set configuration file (default: {FILE})\n\
         \x20 -g directives : set global directives out of configuration file\n\n"
    )
}

fn input(arguments: &Arguments) -> NginxInput {
    let prefix = arguments
        .prefix
        .clone()
        .unwrap_or_else(|| PathBuf::from(NGINX_PREFIX));
    let prefix = std::path::absolute(&prefix).unwrap_or(prefix);
    NginxInput {
        file: match &arguments.file {
            Some(file) => prefix.join(file),
            None => FILE.into(),
        },
        prefix: Some(prefix),
        global: arguments.global.clone(),
        error_log: arguments.error_log.clone(),
    }
}

/// Errors and warnings in nginx's format.
fn complain(loaded: &Loaded, input: &NginxInput, is_quiet: bool) {
    for error in &loaded.report.emergencies {
        eprintln!("nginx: {error}");
    }
    let all = loaded.report.diagnostics.iter();
    // Those without a place come when nginx has read all, which an error prevents.
    let is_early = |line: u32| line > 0 || !loaded.report.has_errors();
    let warnings = all.filter(|one| one.severity == Severity::Warning && is_early(one.origin.line));
    let warnings: Vec<String> = warnings
        .map(|warning| format!("[warn] {}", machine::with_place(warning)))
        .collect();
    early_log::note(input, &warnings);
    early_log::note(input, &loaded.report.emergencies);
    for warning in warnings.iter().filter(|_| !is_quiet) {
        eprintln!("nginx: {warning}");
    }
}

fn test(arguments: &Arguments, input: &NginxInput) -> ExitCode {
    let loaded = load_nginx(input);
    let file = input.file.display();
    complain(&loaded, input, arguments.is_quiet);
    if loaded.report.has_errors() {
        eprintln!("nginx: configuration file {file} test failed");
        return ExitCode::FAILURE;
    }
    // nginx looks for the user while it reads the configuration, and opens files when it has.
    let unknown = machine::unknown_identity(&loaded);
    if !arguments.is_quiet && unknown.is_empty() {
        eprintln!("nginx: the configuration file {file} syntax is ok");
    }
    let errors = match unknown.is_empty() {
        true => machine::problems(&loaded),
        false => unknown,
    };
    for error in &errors {
        eprintln!("nginx: [emerg] {error}");
    }
    if !errors.is_empty() {
        let lines: Vec<String> = errors
            .iter()
            .map(|error| format!("[emerg] {error}"))
            .collect();
        early_log::note(input, &lines);
        eprintln!("nginx: configuration file {file} test failed");
        return ExitCode::FAILURE;
    }
    if !arguments.is_quiet {
        eprintln!("nginx: configuration file {file} test is successful");
    }
    match arguments.dumps {
        true => dump(&loaded),
        false => ExitCode::SUCCESS,
    }
}

fn dump(loaded: &Loaded) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for (path, text) in &loaded.texts {
        let written = write!(out, "# configuration file {}:\n{text}\n", path.display());
        if written.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Signals the running server.
fn signal(asked: Signal, loaded: &Loaded, input: &NginxInput) -> ExitCode {
    if loaded.report.has_errors() {
        complain(loaded, input, true);
        return ExitCode::FAILURE;
    }
    early_log::note_signaller(input);
    let file = &loaded.process.pid_file;
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            let why = format!(
                "[error] open() \"{}\" failed ({})",
                file.display(),
                early_log::reason(&error)
            );
            return failed_noting(&why, input);
        }
    };
    let text = text.trim_end_matches(['\r', '\n']);
    let number = text.parse().ok().filter(|number| *number > 0);
    let Some(pid) = number.and_then(Pid::from_raw) else {
        let shown = file.display();
        let why = format!("[error] invalid PID number \"{text}\" in \"{shown}\"");
        return failed_noting(&why, input);
    };
    let signal = match asked {
        Signal::Stop => ProcessSignal::TERM,
        Signal::Quit => ProcessSignal::QUIT,
        Signal::Reopen => ProcessSignal::USR1,
        Signal::Reload => ProcessSignal::HUP,
    };
    match kill_process(pid, signal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (pid, signal) = (pid.as_raw_nonzero(), signal.as_raw());
            let reason = early_log::reason(&error.into());
            failed_noting(
                &format!("[alert] kill({pid}, {signal}) failed ({reason})"),
                input,
            )
        }
    }
}

/// Gives this process the limits of the configuration, before threads and privileges depend on them.
/// The server starts without a limit that the system refuses, as nginx does, and says so.
pub fn prepare(process: &Process) {
    let limits = [
        (Resource::Nofile, process.descriptors_max),
        (Resource::Core, process.core_bytes_max),
        (Resource::Sigpending, process.signals_max),
    ];
    for (resource, limit) in limits {
        let Some(limit) = limit else { continue };
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        if let Err(error) = setrlimit(resource, limit) {
            eprintln!("nginx: [alert] setrlimit({resource:?}) failed ({error})");
        }
    }
    if let Some(priority) = process.priority
        && let Err(error) = setpriority_process(None, priority)
    {
        eprintln!("nginx: [alert] setpriority({priority}) failed ({error})");
    }
    if let Some(directory) = &process.directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        let shown = directory.display();
        eprintln!("nginx: [alert] chdir(\"{shown}\") failed ({error})");
    }
    for folder in &process.body_folders {
        if let Err(error) = make_folder(folder, process) {
            let shown = folder.display();
            eprintln!("nginx: [alert] mkdir() \"{shown}\" failed ({error})");
        }
    }
}

/// Makes a directory that the server's user writes to, and gives it to that user.
fn make_folder(folder: &Path, process: &Process) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    // Where it stands may be another user's, who could lay a link in its place.
    let made = saker_net::folders::create(folder, 0o700)?;
    if !geteuid().is_root() {
        return Ok(());
    }
    let user = process.user.as_deref().unwrap_or("nobody");
    let identity = Identity::look_up(user, process.group.as_deref())?;
    fchown(made, Some(identity.uid()), None)
}

/// The warnings of the configuration were printed.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

/// Returns true if the warnings of the configuration are on standard error already.
pub fn has_warned() -> bool {
    HAS_WARNED.load(Ordering::Relaxed)
}

/// Says why the server does not start, as nginx would, if the source is nginx's: on standard error,
/// and in the error log.
pub fn report_failure(source: &Source, text: &str) -> bool {
    let Source::Nginx { input, .. } = source else {
        return false;
    };
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| format!("[emerg] {line}"))
        .collect();
    lines.iter().for_each(|line| eprintln!("nginx: {line}"));
    match early_log::of_configuration(&load_nginx(input)) {
        Some(path) => early_log::append(&path, &lines),
        None => early_log::note(input, &lines),
    }
    true
}

fn run(_: &Arguments, input: NginxInput, run_server: RunServer) -> ExitCode {
    let loaded = load_nginx(&input);
    let role = saker_broker::role();
    let unknown = machine::unknown_identity(&loaded);
    // Other processes of the server say what is wrong to the one that asked.
    if loaded.report.has_errors() && role.is_none() {
        complain(&loaded, &input, true);
        return ExitCode::FAILURE;
    }
    if let Some(first) = unknown.first().filter(|_| role.is_none()) {
        return failed_noting(&format!("[emerg] {first}"), &input);
    }
    // The broker, and the process that reads its grants, are this program with these arguments.
    prepare(&loaded.process);
    let in_foreground = !loaded.process.is_daemon || detach::is_detached();
    if in_foreground && role.is_none() {
        complain(&loaded, &input, false);
        HAS_WARNED.store(true, Ordering::Relaxed);
    }
    match in_foreground || role.is_some() {
        true => run_server(Source::Nginx {
            state_dir: Some(crate::locations::of_nginx(&input, &loaded)),
            input,
            workers: None,
        }),
        false => detach::start_same("nginx", Some(&loaded.process.pid_file)),
    }
}
