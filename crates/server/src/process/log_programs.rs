//! Log programs of Apache's configuration run as the user that started the server, as with apache2:
//! they are started before privileges are dropped, and again when they end. The privileged broker
//! starts them (`saker_broker`).
//!
//! Caveat: this must not be a way back to root for an attacker who has taken over the server. The
//! broker starts a program with exactly the arguments of the configuration, which it reads itself
//! after a reload, and ignores the rest of the request. If it can't be reached, or does not know
//! the command yet, the server's user starts the program, so that no lines are lost.
//! Out of scope: a change of user under `saker.toml`, where log programs have always run as the
//! server's user.

use super::model_paths;
use saker_broker::{Grant, SpawnKind, SpawnRequest};
use saker_broker_client::BrokerClient;
use saker_config::{Model, model::AccessLogTarget};
use saker_net::program::ProgramLimits;
use saker_telemetry::{
    access_log::{LogTarget, log_program, start_programs_with},
    error_log::ErrorLogTarget,
};
use std::{
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

/// Whom they run as.
const USER: &str = "root";

/// One grant per log program.
pub fn grants(model: &Model) -> Vec<Grant> {
    let of_sites = model
        .sites
        .iter()
        .flat_map(|site| &site.access_logs)
        .filter_map(|log| match &log.target {
            AccessLogTarget::Program(command) => Some(command),
            _ => None,
        });
    let of_errors = model_paths::error_log_targets(model).filter_map(|target| match target {
        ErrorLogTarget::Program(command) => Some(command),
        _ => None,
    });
    let of_forensics =
        model
            .sites
            .iter()
            .filter_map(|site| match &site.forensic_log.as_ref()?.target {
                LogTarget::Program(command) => Some(command),
                _ => None,
            });
    let grant = |command: &String| {
        let (file, arguments) = parts(command)?;
        Some(Grant::LogProgram { file, arguments })
    };
    let mut all: Vec<Grant> = of_sites
        .chain(of_errors)
        .chain(of_forensics)
        .filter_map(grant)
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Installs the broker as the first choice for starting log programs.
pub fn start_by(broker: &Arc<BrokerClient>) {
    let broker = Arc::clone(broker);
    start_programs_with(move |command| {
        let (file, arguments) = parts(command)?;
        match start(&broker, file, arguments) {
            // A kernel error applies to every user; any other error is the broker's refusal.
            Err(error) if error.raw_os_error().is_none() => None,
            outcome => Some(outcome),
        }
    });
}

/// `None`: the command is empty; starting it reports that.
fn parts(command: &str) -> Option<(PathBuf, Vec<OsString>)> {
    let command = log_program(command).ok()?;
    Some((
        command.get_program().into(),
        command.get_args().map(Into::into).collect(),
    ))
}

/// The end of a pipe to a program that reads its other end.
fn start(broker: &BrokerClient, file: PathBuf, arguments: Vec<OsString>) -> io::Result<OwnedFd> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    let request = SpawnRequest {
        kind: SpawnKind::LogProgram,
        user: USER.into(),
        group: None,
        name: file.clone().into(),
        file,
        arguments,
        environment: Vec::new(),
        folder: PathBuf::new(),
        limits: ProgramLimits::default(),
    };
    broker.start_log_program(
        &request,
        [reader.as_fd(), nowhere.as_fd(), io::stderr().as_fd()],
    )?;
    Ok(writer)
}
