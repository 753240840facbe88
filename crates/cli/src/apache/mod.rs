//! httpd, apache2 and apachectl: Apache's options, answered in Apache's words, because init
//! scripts, panels and test frameworks parse them.
//!
//! Called by: `main`, when the program is called by one of these names.
//! Caveat: exit statuses are Apache's: 0 done, 1 failed. Apache's callers expect it to return once
//! it serves, with its process id in a file; so without `-DFOREGROUND` the server is started in
//! the background (`detach`).

mod arguments;
mod control;
pub mod detach;
mod show;

use crate::program::RunServer;
use crate::source::{ApacheInput, Source, load_apache};
use crate::{check, locations};
use arguments::{Arguments, Mode, Request};
use saker_apache::Loaded;
use saker_config::Diagnostic;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The default files if there is no `-f`, by the program's name and the files that exist.
const CONFIGURATIONS: [&str; 4] = [
    "/etc/apache2/apache2.conf",
    "/etc/httpd/conf/httpd.conf",
    "/usr/local/apache2/conf/httpd.conf",
    "/etc/apache2/httpd.conf",
];

/// Returns true if the program was called by one of the names that Apache's scripts call.
pub fn is_name(program: &str) -> bool {
    matches!(
        base_name(program),
        "httpd" | "apache2" | "apachectl" | "apache2ctl"
    )
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// `words`: with the program's name first.
pub fn main(words: &[String], run_server: RunServer) -> ExitCode {
    let (program, rest) = words
        .split_first()
        .map_or(("apache2", &[][..]), |(program, rest)| {
            (base_name(program), rest)
        });
    let rest = if program.ends_with("ctl") {
        control::translated(rest)
    } else {
        rest.to_vec()
    };
    let arguments = match Arguments::parse(&rest) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprint!("{program}: {why}\n{}", show::usage(program));
            return ExitCode::FAILURE;
        }
    };
    match arguments.mode {
        Mode::Help => print(&show::usage(program)),
        Mode::Version => print(&show::version()),
        Mode::Settings => print(&show::settings(&configuration(&arguments))),
        Mode::Static => print(&show::compiled_in()),
        Mode::Directives => print(&show::directives()),
        Mode::Test | Mode::Hosts | Mode::Modules | Mode::Includes => examine(program, &arguments),
        Mode::Run | Mode::Signal(_) => act(program, &arguments, run_server),
    }
}

fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn configuration(arguments: &Arguments) -> PathBuf {
    let named = arguments.input.file.clone();
    let root = arguments.input.server_root.as_deref();
    if named != Path::new("") {
        // As Apache: relative to the ServerRoot, where one is given.
        return root.map_or(named.clone(), |root| root.join(&named));
    }
    let below = root.map(|root| {
        [
            root.join("apache2.conf"),
            root.join("conf/httpd.conf"),
            root.join("httpd.conf"),
        ]
    });
    let candidates = below
        .into_iter()
        .flatten()
        .chain(CONFIGURATIONS.iter().map(PathBuf::from));
    candidates
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| CONFIGURATIONS[0].into())
}

fn input(arguments: &Arguments) -> ApacheInput {
    let mut input = arguments.input.clone();
    input.file =
        std::path::absolute(configuration(arguments)).unwrap_or_else(|_| configuration(arguments));
    input
}

/// Errors as Apache writes them to standard error.
fn complain(program: &str, loaded: &Loaded) {
    complain_of(program, &loaded.diagnostics);
}

fn complain_of(program: &str, diagnostics: &[Diagnostic]) {
    for error in diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
    {
        eprintln!("{program}: {}", in_apaches_words(error));
    }
}

fn in_apaches_words(error: &Diagnostic) -> String {
    match error.origin.line {
        0 => error.message.clone(),
        line => format!(
            "Syntax error on line {line} of {}:\n{}",
            error.origin.file, error.message
        ),
    }
}

fn examine(program: &str, arguments: &Arguments) -> ExitCode {
    let loaded = load_apache(&input(arguments));
    if loaded.has_errors() {
        complain(program, &loaded);
        return ExitCode::FAILURE;
    }
    match arguments.mode {
        Mode::Hosts => print(&show::hosts(&loaded)),
        Mode::Modules => print(&show::modules(&loaded)),
        Mode::Includes => print(&show::includes(&loaded)),
        _ => test(program, &loaded),
    }
}

/// Like Apache, also checks files and directories outside of the configuration: those of logs,
/// certificates, and keys.
fn test(program: &str, loaded: &Loaded) -> ExitCode {
    let of_machine = check::of_machine(&loaded.model);
    if of_machine.iter().any(Diagnostic::is_error) {
        complain_of(program, &of_machine);
        return ExitCode::FAILURE;
    }
    // On standard error, as Apache has it.
    for warning in saker_php::problems(&loaded.model) {
        let help = warning.help.unwrap_or_default();
        eprintln!("{}; {help}", warning.message);
    }
    eprintln!("Syntax OK");
    ExitCode::SUCCESS
}

/// A graceful restart replaces a server whose program file was replaced. `None`: it was not, or the
/// server can't be asked.
fn upgraded(input: &ApacheInput, loaded: &Loaded) -> Option<ExitCode> {
    let state_dir = locations::of_apache2(input, loaded);
    // Other processes of this program with the same arguments have tasks of their own.
    let is_asked = saker_broker::role().is_none() && !saker_control::upgrade::is_upgrade();
    match is_asked && crate::upgrade::is_due_and_possible(&state_dir).unwrap_or(false) {
        true => crate::upgrade::replace(&state_dir, None, crate::upgrade::PATIENCE).ok(),
        false => None,
    }
}

fn act(program: &str, arguments: &Arguments, run_server: RunServer) -> ExitCode {
    let input = input(arguments);
    let loaded = load_apache(&input);
    if loaded.has_errors() {
        complain(program, &loaded);
        return ExitCode::FAILURE;
    }
    let pid_file = loaded.overview.pid_file.clone();
    if arguments.mode == Mode::Signal(Request::Graceful)
        && let Some(status) = upgraded(&input, &loaded)
    {
        return status;
    }
    if let Mode::Signal(signal) = arguments.mode
        && !saker_control::upgrade::is_upgrade()
        && let Some(status) = control::signal(signal, pid_file.as_deref())
    {
        return status;
    }
    // The broker, and the process that reads its grants, are this program with these arguments.
    if saker_broker::role().is_none()
        && !saker_control::upgrade::is_upgrade()
        && let Some(pid) = pid_file.as_deref().and_then(control::running)
    {
        println!("httpd (pid {pid}) already running");
        return ExitCode::SUCCESS;
    }
    let state_dir = Some(locations::of_apache2(&input, &loaded));
    match arguments.in_foreground {
        true => run_server(Source::Apache {
            input,
            workers: arguments.single.then_some(1),
            state_dir,
            php: None,
        }),
        false => detach::start(program, pid_file.as_deref()),
    }
}
