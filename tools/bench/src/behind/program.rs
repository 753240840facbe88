//! A program that listens on a Unix socket.
//!
//! Called by: `behind`, for PHP, and `sessions`.
//! Caveat: it ends with its value; its children end with it.
//! Out of scope: what it costs, which is not counted.

use crate::pinning::pinning;
use std::{
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Until a program listens: a database takes seconds.
const LOOKS: usize = 1500;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One that listens on a Unix socket.
pub struct Program {
    pub socket: PathBuf,
    child: Child,
}

impl Program {
    /// Waits until it listens.
    pub fn start(
        command: &Command,
        core: Option<usize>,
        socket: PathBuf,
    ) -> Result<Program, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut command = on_core(command, core)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let program = Program { socket, child };
        for _ in 0..LOOKS {
            if UnixStream::connect(&program.socket).is_ok() {
                return Ok(program);
            }
            thread::sleep(LOOK_EVERY);
        }
        Err(format!("{name} does not listen"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its children end with it when it is asked; killed, it would leave them.
        if let Some(id) = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// The same command, pinned to the core.
pub fn on_core(command: &Command, core: Option<usize>) -> Result<Command, String> {
    let words = pinning(core)?;
    let mut words = words.iter();
    let mut pinned = match words.next() {
        Some(taskset) => {
            let mut pinned = Command::new(taskset);
            pinned.args(words).arg(command.get_program());
            pinned
        }
        None => Command::new(command.get_program()),
    };
    pinned.args(command.get_args());
    Ok(pinned)
}
