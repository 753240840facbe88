//! A running `saker` with a configuration of its own in a folder of its own.
//!
//! The binary's path is the caller's (`env!("CARGO_BIN_EXE_saker")`), so that this crate needs none
//! of Saker's. In a configuration, `{address}` stands for the loopback address to listen on and
//! `{dir}` for the folder.

use crate::{Client, ServerProcess, TempDir, require};
use std::{fs, io, os::unix::fs::FileExt, path::PathBuf, process::Command};

/// Seconds that the server's wall clock is ahead, in the folder of a server that has such a clock.
const CLOCK: &str = "clock";

/// One worker, one listener, one site for every name.
const PLAIN: &str = "[server]\nworkers = 1\nstate_dir = \"{dir}/state\"\n\n{limits}\n[[listener]]\naddress = \"{address}\"\n\n\
     [[site]]\nnames = [\"*\"]\nroot = \"{dir}/www\"\n";

pub struct Saker {
    pub server: ServerProcess,
    pub dir: TempDir,
}

impl Saker {
    /// A plain site of the files below `www` in `dir`, with these lines in `[limits]`.
    pub fn with_limits(binary: &str, dir: TempDir, limits: &str) -> io::Result<Saker> {
        Saker::with_configuration(binary, dir, &plain(limits))
    }

    pub fn with_configuration(
        binary: &str,
        dir: TempDir,
        configuration: &str,
    ) -> io::Result<Saker> {
        Saker::start(dir, configuration, || Command::new(binary))
    }

    /// By Apache's configuration, with one worker.
    pub fn with_apache(binary: &str, dir: TempDir, configuration: &str) -> io::Result<Saker> {
        let state = dir.join("state");
        Saker::start_by(
            "--apache",
            dir,
            configuration,
            || Command::new(binary),
            |command| {
                command.args(["--workers", "1", "--state-dir"]).arg(&state);
            },
        )
    }

    /// Under a shell's `ulimit` with these arguments.
    pub fn under_ulimit(
        binary: &str,
        dir: TempDir,
        configuration: &str,
        ulimit: &str,
    ) -> io::Result<Saker> {
        Saker::start(dir, configuration, || {
            let mut command = Command::new("sh");
            command.args([
                "-c",
                &format!("ulimit {ulimit} && exec \"$0\" \"$@\""),
                binary,
            ]);
            command
        })
    }

    /// Under valgrind, with these arguments of its own; what it says in the end is in
    /// `valgrind.txt` in the folder.
    pub fn under_valgrind(
        binary: &str,
        dir: TempDir,
        configuration: &str,
        arguments: &[&str],
    ) -> io::Result<Saker> {
        let program = require("valgrind").map_err(io::Error::other)?;
        let log = format!("--log-file={}", dir.join("valgrind.txt").display());
        Saker::start(dir, configuration, || {
            let mut command = Command::new(&program);
            command.arg(&log).args(arguments).arg(binary);
            command
        })
    }

    fn start(
        dir: TempDir,
        configuration: &str,
        program: impl Fn() -> Command,
    ) -> io::Result<Saker> {
        Saker::start_by("-c", dir, configuration, program, |_| {})
    }

    fn start_by(
        option: &str,
        dir: TempDir,
        configuration: &str,
        program: impl Fn() -> Command,
        more: impl Fn(&mut Command),
    ) -> io::Result<Saker> {
        let mut written = Ok(());
        let server = ServerProcess::start_on_free_port(|port| {
            let text = with_state_dir(configuration, option)
                .replace("{address}", &format!("127.0.0.1:{port}"))
                .replace("{dir}", &dir.to_string_lossy());
            let path = dir.write(
                if option == "-c" {
                    "saker.toml"
                } else {
                    "httpd.conf"
                },
                text,
            );
            let mut command = program();
            command.args(["run", option]);
            match path {
                Ok(path) => drop(command.arg(path)),
                Err(error) => written = Err(error),
            }
            let clock = dir.join(CLOCK);
            if clock.exists() {
                command.env("SAKER_TEST_CLOCK", clock);
            }
            more(&mut command);
            command
        });
        written?;
        Ok(Saker {
            server: server?,
            dir,
        })
    }

    /// Lets the server's wall clock run ahead, where [`adjustable_clock`] was called before it was
    /// started.
    ///
    /// # Errors
    /// If the folder has no such clock.
    pub fn advance_clock(&self, seconds: u64) -> io::Result<()> {
        advance_clock(&self.dir, seconds)
    }

    pub fn connect(&self) -> io::Result<Client> {
        Client::connect(self.server.address())
    }
}

/// Gives the server that will be started in `dir` a wall clock that the test can move. Timers keep
/// the machine's time; a debug build of `saker` is needed.
///
/// # Errors
/// If the file can't be written.
pub fn adjustable_clock(dir: &TempDir) -> io::Result<PathBuf> {
    dir.write(CLOCK, format!("{:<18}\n", 0))
}

/// As [`Saker::advance_clock`], for servers that a test starts itself, with `SAKER_TEST_CLOCK`.
///
/// # Errors
/// If the folder has no such clock.
pub fn advance_clock(dir: &TempDir, seconds: u64) -> io::Result<()> {
    let ahead: u64 = fs::read_to_string(dir.join(CLOCK))?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    // In place and of one length: the server keeps the file open and may read it at any time.
    let file = fs::File::options().write(true).open(dir.join(CLOCK))?;
    file.write_all_at(format!("{:<18}\n", ahead + seconds).as_bytes(), 0)
}

/// Nothing may come into the machine's own state directory.
fn with_state_dir(configuration: &str, option: &str) -> String {
    const STATE_DIR: &str = "[server]\nstate_dir = \"{dir}/state\"\n";
    if option != "-c" || configuration.contains("state_dir") {
        configuration.to_owned()
    } else if configuration.contains("[server]\n") {
        configuration.replacen("[server]\n", STATE_DIR, 1)
    } else {
        format!("{STATE_DIR}{configuration}")
    }
}

/// The configuration of [`Saker::with_limits`], to be changed or written behind.
pub fn plain(limits: &str) -> String {
    PLAIN.replace(
        "{limits}",
        &if limits.is_empty() {
            String::new()
        } else {
            format!("[limits]\n{limits}\n")
        },
    )
}
