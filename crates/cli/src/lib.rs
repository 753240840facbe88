//! The command line: arguments to commands.
//!
//! Called by: `main.rs`. Each command is a function that returns an exit status; errors go to
//! standard error.
//! Caveat: exit statuses: 0 done, 1 the configuration has errors, 2 wrong usage or failure, 3 no
//! server is running, 4 another upgrade is under way. Servers are run by a function that `main` hands in ([`Program`]).
//! Out of scope: the process; a command calls it and is over.

mod address;
pub mod apache;
mod api;
mod arguments;
mod bans;
mod cache;
mod check;
mod cluster;
mod console;
mod convert_nginx;
mod cost;
mod daemon;
mod dispatch_trace;
mod documents;
pub mod examine;
mod exit_status;
mod expand;
mod explain;
mod explain_stream;
mod fmt;
mod foreign_commands;
mod hosts;
mod init;
mod locations;
pub mod nginx;
mod output;
mod php;
mod preflight;
mod program;
mod remote;
mod sign_url;
pub mod source;
mod start;
mod status_page;
mod takeover;
mod top;
mod trust;
mod upgrade;
mod vcl;
mod warm;

use arguments::{Cli, Command};
use clap::{Parser, error::ErrorKind};
use exit_status::CANNOT;
pub use program::{Program, RunServer};
use std::{path::Path, process::ExitCode};

/// Runs the command that the arguments name.
pub fn main(program: Program) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments
        .first()
        .is_some_and(|name| apache::is_name(&name.to_string_lossy()))
    {
        let words: Vec<String> = arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        return apache::main(&words, program.run_server);
    }
    if arguments
        .first()
        .is_some_and(|name| nginx::is_name(&name.to_string_lossy()))
    {
        let words: Vec<String> = arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        return nginx::main(&words, program.run_server);
    }
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => run(cli.command, program),
        // Help and version come as errors too, with an exit status of 0.
        Err(error) => {
            let _ = error.print();
            let first = arguments.get(1).and_then(|word| word.to_str());
            let is_unknown = matches!(
                error.kind(),
                ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
            );
            if let Some(advice) = first
                .filter(|_| is_unknown)
                .and_then(foreign_commands::advice)
            {
                output::error(format_args!("\n  tip: {advice}\n"));
            }
            if let Some(folder) = arguments
                .get(1)
                .map(Path::new)
                .filter(|path| error.kind() == ErrorKind::InvalidSubcommand && path.is_dir())
            {
                output::error(format_args!(
                    "\nTo serve a folder: saker serve {}\n",
                    folder.display()
                ));
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(CANNOT))
        }
    }
}

fn run(command: Command, program: Program) -> ExitCode {
    match command {
        Command::Serve(serve) => start::serve(*serve, program.run_server),
        Command::Run(run) => start::run(run, program.run_server),
        Command::Check(check) => match &check.vcl {
            Some(path) => vcl::check(path),
            None => check::check(&check),
        },
        Command::Explain(explain) => explain::explain(explain, program.make_services),
        Command::Init(init) => init::init(init),
        Command::Fmt(fmt) => fmt::fmt(&fmt),
        Command::Config(config) => expand::config(&config),
        Command::Convert(convert) => match (&convert.vcl, &convert.nginx) {
            (Some(path), _) => vcl::convert(path),
            (None, Some(path)) => convert_nginx::convert(path),
            // The arguments demand one of them.
            (None, None) => ExitCode::from(CANNOT),
        },
        Command::Trust(trust) => trust::trust(&trust),
        Command::Status(status) => daemon::status(&status),
        Command::Reload(reload) => upgrade::reload(&reload),
        Command::Upgrade(asked) => upgrade::upgrade(&asked),
        Command::Takeover(asked) => takeover::takeover(&asked),
        Command::Stop(stop) => daemon::stop(&stop),
        Command::ReopenLogs(reopen) => daemon::reopen_logs(&reopen),
        Command::Purge(purge) => cache::purge(purge),
        Command::Cache(cache) => cache::cache(cache.command),
        Command::Ban(ban) => bans::ban(ban),
        Command::Unban(unban) => bans::unban(unban),
        Command::Bans(shown) => bans::bans(&shown),
        Command::SignUrl(sign) => sign_url::sign_url(*sign),
        Command::Console(asked) => console::console(&asked),
        Command::Top(asked) => top::top(&asked),
        Command::Api(asked) => api::api(&asked),
        Command::Hosts(hosts) => hosts::hosts(hosts.command),
        Command::Cluster(cluster) => cluster::cluster(&cluster.command),
        Command::Schema => documents::schema(),
        Command::Reference => documents::reference(),
        Command::Completions(completions) => documents::completions(completions.shell),
        Command::Man(man) => documents::man(man.dir.as_deref()),
        Command::Version(version) => documents::version(version.json),
    }
}

#[cfg(test)]
mod tests;
mod wait_time;
