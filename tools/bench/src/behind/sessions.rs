//! Stores of the shop's sessions: files, or a MariaDB or a Redis of the run's own, on a Unix socket
//! below its work folder.
//!
//! They are the same for all servers, behind PHP, and started only when they are chosen. Absent on
//! purpose: durability; a session of the lab ends with it.

use super::program::{Program, on_core};
use saker_testkit::require;
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sessions {
    #[default]
    Files,
    Mariadb,
    Redis,
}

/// The same with where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStore<'a> {
    Files,
    Mariadb { socket: &'a Path },
    Redis { socket: &'a Path },
}

const TABLE: &str = "CREATE DATABASE shop; CREATE TABLE shop.sessions (id VARBINARY(128) PRIMARY KEY, content MEDIUMBLOB NOT NULL, changed_at BIGINT NOT NULL);";

impl Sessions {
    pub fn parse(text: &str) -> Result<Sessions, String> {
        match text {
            "files" => Ok(Sessions::Files),
            "mariadb" => Ok(Sessions::Mariadb),
            "redis" => Ok(Sessions::Redis),
            _ => Err(format!(
                "sessions are kept in files, mariadb or redis, not in `{text}`"
            )),
        }
    }

    /// Nothing for files.
    pub(super) fn start(
        self,
        work: &Path,
        core: Option<usize>,
    ) -> Result<Option<(Sessions, Program)>, String> {
        let program = match self {
            Sessions::Files => return Ok(None),
            Sessions::Mariadb => mariadb(work, core)?,
            Sessions::Redis => redis(work, core)?,
        };
        Ok(Some((self, program)))
    }
}

fn redis(work: &Path, core: Option<usize>) -> Result<Program, String> {
    let socket = work.join("redis.sock");
    let mut command = Command::new(require("redis-server")?);
    command
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--unixsocket",
        ])
        .arg(&socket);
    command.arg("--dir").arg(work);
    Program::start(&command, core, socket)
}

fn mariadb(work: &Path, core: Option<usize>) -> Result<Program, String> {
    let (folder, socket) = (
        format!("--datadir={}", work.join("mariadb").display()),
        work.join("mariadb.sock"),
    );
    let user: &[&str] = if rustix::process::geteuid().is_root() {
        &["--user=root"]
    } else {
        &[]
    };
    let mut install = Command::new(require("mariadb-install-db")?);
    install
        .args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ])
        .args(user)
        .arg(&folder);
    let made = on_core(&install, core)?
        .output()
        .map_err(|error| format!("mariadb-install-db: {error}"))?;
    if !made.status.success() {
        return Err(format!(
            "mariadb-install-db: {}",
            String::from_utf8_lossy(&made.stderr)
        ));
    }
    let mut command = Command::new(require("mariadbd")?);
    command
        .args([
            "--no-defaults",
            "--skip-networking",
            "--innodb-flush-log-at-trx-commit=0",
        ])
        .args(user)
        .arg(folder);
    command.arg(format!("--socket={}", socket.display()));
    let program = Program::start(&command, core, socket)?;
    say(&program.socket, TABLE)?;
    Ok(program)
}

fn say(socket: &Path, statements: &str) -> Result<(), String> {
    let mut client = Command::new(require("mariadb")?);
    client
        .args(["--no-defaults", "-uroot"])
        .arg(format!("--socket={}", socket.display()));
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    // A client that ends before it has read everything says why by itself.
    let _ = child
        .stdin
        .take()
        .map(|mut input| input.write_all(statements.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "mariadb: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
