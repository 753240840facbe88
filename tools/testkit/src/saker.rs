//! A running `saker`: the one way in which tests start it.
//!
//! Called by: integration tests, with the path of the binary (`env!("CARGO_BIN_EXE_saker")`), so
//! that this crate needs none of Saker's.
//! Caveat: `start` returns when the workers accept connections and the control socket answers; a
//! test that wants less says `until_accepting`.
//! Out of scope: commands that end by themselves, such as `saker check`; HTTP/2 and HTTP/3 clients,
//! which are in the harness of the server's tests.
//!
//! In configurations and arguments, `{address}` and `{port}` stand for the loopback address to
//! listen on, and `{dir}` for the server's folder.
#![allow(clippy::panic)] // A test ends where its server doesn't start.

use crate::{Client, ServerProcess, TempDir, require};
use std::{
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// Seconds that the server's wall clock is ahead, in the folder of a server that has such a clock.
const CLOCK: &str = "clock";

/// One worker, one listener, one site for every name.
const PLAIN: &str = "[server]\nworkers = 1\nstate_dir = \"{dir}/state\"\n\n{limits}\n[[listener]]\naddress = \"{address}\"\n\n\
     [[site]]\nnames = [\"*\"]\nroot = \"{dir}/www\"\n";

/// A running server and its folder.
pub struct Saker {
    pub server: ServerProcess,
    pub dir: TempDir,
}

impl Saker {
    /// `saker run` with a native configuration. Its state directory is `{dir}/state` unless the
    /// configuration names one.
    pub fn native(binary: &str, configuration: &str) -> Builder {
        let mode = Mode::Run {
            option: "-c",
            file: "saker.toml".into(),
            text: Some(with_state_dir(configuration)),
        };
        Builder::new(binary, mode)
    }

    /// `saker run --apache` with one worker and the state directory `{dir}/state`.
    pub fn apache(binary: &str, configuration: &str) -> Builder {
        let mode = Mode::Run {
            option: "--apache",
            file: "httpd.conf".into(),
            text: Some(configuration.to_owned()),
        };
        Builder::new(binary, mode)
            .workers(1)
            .state_dir("{dir}/state")
    }

    /// `saker run --nginx` with the state directory `{dir}/state`.
    pub fn nginx(binary: &str, configuration: &str) -> Builder {
        let mode = Mode::Run {
            option: "--nginx",
            file: "nginx.conf".into(),
            text: Some(configuration.to_owned()),
        };
        Builder::new(binary, mode).state_dir("{dir}/state")
    }

    /// A program that is called as Apache is, with `-f` and `httpd.conf`; in the foreground if the
    /// arguments say so.
    pub fn httpd(program: &Path, configuration: &str) -> Builder {
        let mode = Mode::Httpd(configuration.to_owned());
        Builder::new(&program.to_string_lossy(), mode).until_accepting()
    }

    /// `saker serve` with these arguments.
    pub fn serve(binary: &str, arguments: &[&str]) -> Builder {
        Builder::new(binary, Mode::Serve).arguments(arguments)
    }

    /// Lets the server's wall clock run ahead, where [`adjustable_clock`] was called before it was
    /// started.
    ///
    /// # Errors
    /// If the folder has no such clock.
    pub fn advance_clock(&self, seconds: u64) -> io::Result<()> {
        advance_clock(&self.dir, seconds)
    }

    /// A client of HTTP/1.1.
    ///
    /// # Errors
    /// If the server doesn't accept the connection.
    pub fn connect(&self) -> io::Result<Client> {
        Client::connect(self.server.address())
    }
}

enum Mode {
    /// Called by a name of Apache's: options of its command line.
    Httpd(String),
    /// Without `text`, the file exists already.
    Run {
        option: &'static str,
        file: PathBuf,
        text: Option<String>,
    },
    Serve,
}

/// A server that is about to be started.
pub struct Builder {
    mode: Mode,
    binary: OsString,
    /// Program and arguments that start the binary.
    wrapper: Vec<OsString>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    address: Option<SocketAddr>,
    prepare: Box<dyn Fn(&mut Command)>,
    is_awaited: bool,
    is_relative: bool,
    /// Listening socket that the server inherits.
    activated: Option<OwnedFd>,
}

impl Builder {
    fn new(binary: &str, mode: Mode) -> Builder {
        Builder {
            mode,
            binary: binary.into(),
            wrapper: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            address: None,
            prepare: Box::new(|_| {}),
            is_awaited: true,
            is_relative: false,
            activated: None,
        }
    }

    /// Writes the configuration to this path, relative to the folder.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Builder {
        if let Mode::Run { file, .. } = &mut self.mode {
            *file = path.into();
        }
        self
    }

    /// Uses this configuration file, relative to the folder, which exists already.
    #[must_use]
    pub fn existing_file(mut self, path: impl Into<PathBuf>) -> Builder {
        if let Mode::Run { file, text, .. } = &mut self.mode {
            (*file, *text) = (path.into(), None);
        }
        self
    }

    /// Names the configuration relative to the folder, which is the working directory.
    #[must_use]
    pub fn from_folder(mut self) -> Builder {
        self.is_relative = true;
        self
    }

    /// Passes a listening socket as systemd does: a shell makes it descriptor 3 and becomes the
    /// server.
    ///
    /// # Panics
    /// If the process has no descriptor left.
    #[must_use]
    pub fn activated(mut self, socket: &impl AsFd) -> Builder {
        // Unlike the original, the copy is inherited.
        let copy = rustix::io::dup(socket).unwrap_or_else(|error| panic!("{error}"));
        let script = format!(
            "exec 3<&{} && export LISTEN_PID=$$ LISTEN_FDS=1 && exec \"$0\" \"$@\"",
            copy.as_raw_fd()
        );
        self.activated = Some(copy);
        self.wrapped(&["bash", "-c", &script])
    }

    /// Appends to the command line.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Builder {
        self.arguments
            .extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// `--workers`.
    #[must_use]
    pub fn workers(self, count: usize) -> Builder {
        self.option("--workers", &count.to_string())
    }

    /// `--state-dir`.
    #[must_use]
    pub fn state_dir(self, path: &str) -> Builder {
        self.option("--state-dir", path)
    }

    /// Neither a state directory of the test's nor a wait for its control socket.
    #[must_use]
    pub fn default_state_dir(mut self) -> Builder {
        self.remove_option("--state-dir");
        self.until_accepting()
    }

    fn option(mut self, name: &str, value: &str) -> Builder {
        self.remove_option(name);
        self.arguments(&[name, value])
    }

    fn remove_option(&mut self, name: &str) {
        if let Some(at) = self.arguments.iter().position(|have| have == name) {
            self.arguments.drain(at..at + 2);
        }
    }

    /// Listens on this address instead of a free loopback port.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Builder {
        self.address = Some(address);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Builder {
        let value = value.as_ref().to_string_lossy().into_owned();
        self.environment.push((name.to_owned(), value));
        self
    }

    /// Starts another program with these arguments, the binary's path, and its arguments.
    #[must_use]
    pub fn wrapped(mut self, words: &[&str]) -> Builder {
        self.wrapper = words.iter().map(OsString::from).collect();
        self
    }

    /// Under a shell's `ulimit` with these arguments.
    #[must_use]
    pub fn under_ulimit(self, ulimit: &str) -> Builder {
        let script = format!("ulimit {ulimit} && exec \"$0\" \"$@\"");
        self.wrapped(&["sh", "-c", &script])
    }

    /// Under valgrind, with these arguments of its own; its report is `valgrind.txt` in the folder.
    ///
    /// # Panics
    /// If valgrind isn't installed.
    #[must_use]
    pub fn under_valgrind(self, arguments: &[&str]) -> Builder {
        let program = require("valgrind").unwrap_or_else(|missing| panic!("{missing}"));
        let program = program.to_string_lossy().into_owned();
        let words = [
            &[program.as_str(), "--log-file={dir}/valgrind.txt"],
            arguments,
        ];
        self.wrapped(&words.concat()).until_accepting()
    }

    /// Changes the command at last: its user, its directory.
    #[must_use]
    pub fn prepared(mut self, prepare: impl Fn(&mut Command) + 'static) -> Builder {
        self.prepare = Box::new(prepare);
        self
    }

    /// Returns as soon as a connection is accepted, which is before all workers run.
    #[must_use]
    pub fn until_accepting(mut self) -> Builder {
        self.is_awaited = false;
        self
    }

    /// Starts the server in this folder, which goes away with it.
    ///
    /// # Panics
    /// If it doesn't start.
    #[track_caller]
    pub fn start(self, dir: TempDir) -> Saker {
        let server = self.start_in(&dir);
        Saker { server, dir }
    }

    /// Starts the server in a folder that the test keeps.
    ///
    /// # Panics
    /// If it doesn't start.
    #[track_caller]
    pub fn start_in(&self, dir: &TempDir) -> ServerProcess {
        self.try_start_in(dir)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts the server in a folder that the test keeps.
    ///
    /// # Errors
    /// If it ends, or doesn't accept connections.
    pub fn try_start_in(&self, dir: &TempDir) -> io::Result<ServerProcess> {
        let mut written = Ok(());
        let mut command = |address| {
            self.command(dir, address).unwrap_or_else(|error| {
                written = Err(error);
                Command::new("false")
            })
        };
        let start = match self.is_awaited {
            true => ServerProcess::start,
            false => ServerProcess::start_accepting,
        };
        let server = match self.address {
            Some(address) => start(&mut command(address), address),
            None => ServerProcess::on_free_port(
                |port| command(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
                start,
            ),
        };
        written?;
        server
    }

    /// Starts the server without waiting.
    ///
    /// # Panics
    /// If the program can't be started.
    #[track_caller]
    pub fn spawn_in(&self, dir: &TempDir) -> ServerProcess {
        let address = self
            .address
            .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        self.command(dir, address)
            .and_then(|mut command| ServerProcess::spawn(&mut command, address))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The command that starts the server on this address; writes its configuration.
    ///
    /// # Errors
    /// If the configuration can't be written.
    pub fn command(&self, dir: &TempDir, address: SocketAddr) -> io::Result<Command> {
        let fill = |text: &str| fill(text, dir, address);
        let mut words: Vec<OsString> = self
            .wrapper
            .iter()
            .map(|word| {
                word.to_str()
                    .map_or_else(|| word.clone(), |word| fill(word).into())
            })
            .collect();
        words.push(self.binary.clone());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        match &self.mode {
            Mode::Run { option, file, text } => {
                let path = if self.is_relative {
                    command.current_dir(dir);
                    file.clone()
                } else {
                    dir.join(file)
                };
                if let Some(text) = text {
                    dir.write(&file.to_string_lossy(), fill(text))?;
                }
                command.args(["run", option]).arg(path);
            }
            Mode::Httpd(text) => {
                let path = dir.write("httpd.conf", fill(text))?;
                command.arg("-f").arg(path);
            }
            Mode::Serve => drop(command.arg("serve")),
        }
        command.args(self.arguments.iter().map(|argument| fill(argument)));
        command.env("TMPDIR", dir.temporary_files()?);
        for (name, value) in &self.environment {
            command.env(name, fill(value));
        }
        if dir.join(CLOCK).exists() {
            command.env("SAKER_TEST_CLOCK", dir.join(CLOCK));
        }
        (self.prepare)(&mut command);
        Ok(command)
    }
}

fn fill(text: &str, dir: &TempDir, address: SocketAddr) -> String {
    text.replace("{address}", &address.to_string())
        .replace("{port}", &address.port().to_string())
        .replace("{dir}", &dir.to_string_lossy())
}

/// Gives the server that will be started in `dir` a wall clock that the test can move. Timers keep
/// the machine's time; a debug build of `saker` is needed.
///
/// # Errors
/// If the file can't be written.
pub fn adjustable_clock(dir: &TempDir) -> io::Result<PathBuf> {
    dir.write(CLOCK, format!("{:<18}\n", 0))
}

/// As [`Saker::advance_clock`], for servers whose folder the test keeps.
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
fn with_state_dir(configuration: &str) -> String {
    const STATE_DIR: &str = "[server]\nstate_dir = \"{dir}/state\"\n";
    if configuration.contains("state_dir") {
        configuration.to_owned()
    } else if configuration.contains("[server]\n") {
        configuration.replacen("[server]\n", STATE_DIR, 1)
    } else {
        format!("{STATE_DIR}{configuration}")
    }
}

/// A native configuration of one plain site of the files below `www`, with these lines in
/// `[limits]`.
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
