//! Child programs that run for one response: the shell of `exec cmd`, external filters.
//!
//! A program is started off the worker, read and written without blocking, and ended when its body
//! is dropped. The number of programs at once is bounded.
//!
//! Called by: `ext_filter` and server-side includes.
//! Caveat: a process has to be waited for in any case and may refuse to end, so finished programs
//! go to a thread that sends SIGTERM and, after a while, SIGKILL ([`Leaving`]).
//! Out of scope: CGI, which is the gateway's.

use saker_net::{
    jobs::{self, JobKind},
    program::{self, Errors, Started, start_command},
};
use std::{
    io,
    os::fd::OwnedFd,
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::net::unix::pipe;

/// Programs at once, of all workers.
const PROGRAMS_MAX: usize = 256;
/// Maximum time without output (Apache's `Timeout`).
pub const IDLE: Duration = Duration::from_secs(60);
/// Bytes read at a time.
const PIECE_BYTES: usize = 16 << 10;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Permit for one running program.
struct Permit;

impl Permit {
    fn take() -> io::Result<Permit> {
        if RUNNING.fetch_add(1, Relaxed) >= PROGRAMS_MAX {
            RUNNING.fetch_sub(1, Relaxed);
            return Err(io::Error::other("too many programs are running"));
        }
        Ok(Permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Relaxed);
    }
}

/// A process of its own group, and its pipes.
pub struct Program {
    pub input: Option<pipe::Sender>,
    pub output: Output,
    /// Its standard error, if it is piped.
    pub stderr: Option<Output>,
    leaving: Option<Leaving>,
}

/// A pipe from a program.
pub struct Output(pipe::Receiver);

impl Output {
    /// Returns the next piece; `None` at the end.
    pub async fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            self.0.readable().await?;
            let mut piece = vec![0; PIECE_BYTES];
            match self.0.try_read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    piece.truncate(count);
                    return Ok(Some(piece));
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Writes all of it.
pub async fn write(input: &pipe::Sender, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        input.writable().await?;
        match input.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Program {
    /// Starts `command` in a process group of its own with its output piped, and with the
    /// environment that was set for it.
    pub async fn start(command: Command, has_input: bool, errors: Errors) -> io::Result<Program> {
        let permit = Permit::take()?;
        let start = move |_: &_| start_command(command, has_input, errors);
        let started = jobs::run(JobKind::Program, None, start).await;
        let Started {
            program,
            input,
            output,
            errors,
        } = started.map_err(io::Error::from)??;
        let leaving = Leaving {
            program,
            _permit: permit,
            is_done: false,
            asked_at: None,
        };
        let read = |pipe: OwnedFd| pipe::Receiver::from_owned_fd(pipe).map(Output);
        Ok(Program {
            input: input.map(pipe::Sender::from_owned_fd).transpose()?,
            output: read(output.ok_or_else(|| io::Error::other("a program has no output"))?)?,
            stderr: errors.map(read).transpose()?,
            leaving: Some(leaving),
        })
    }

    /// Its output is complete: it may end by itself.
    pub fn finish(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            leaving.is_done = true;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.hand_over();
        }
    }
}

/// Time to end by itself, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process whose output is no longer read.
struct Leaving {
    program: program::Program,
    _permit: Permit,
    is_done: bool,
    asked_at: Option<Instant>,
}

impl Leaving {
    fn hand_over(mut self) {
        if self.program.is_over() {
            return;
        }
        if !self.is_done {
            self.program.terminate();
        }
        self.asked_at = Some(Instant::now());
        static THREAD: OnceLock<Sender<Leaving>> = OnceLock::new();
        let sender = THREAD.get_or_init(|| {
            let (sender, receiver) = channel();
            // Without a thread, the send below fails.
            drop(
                thread::Builder::new()
                    .name("programs".into())
                    .spawn(move || reap(&receiver)),
            );
            sender
        });
        if let Err(back) = sender.send(self) {
            back.0.program.kill();
        }
    }

    /// Returns whether the process has ended.
    fn poll(&mut self, now: Instant) -> bool {
        if self.program.is_over() {
            return true;
        }
        if self
            .asked_at
            .is_some_and(|at| now.duration_since(at) >= GRACE)
        {
            if self.is_done {
                self.program.terminate();
            } else {
                self.program.kill();
            }
            (self.is_done, self.asked_at) = (false, Some(now));
        }
        false
    }
}

fn reap(receiver: &Receiver<Leaving>) {
    let mut all: Vec<Leaving> = Vec::new();
    loop {
        let wait = if all.is_empty() {
            Duration::from_secs(3600)
        } else {
            POLL_INTERVAL
        };
        match receiver.recv_timeout(wait) {
            Ok(one) => all.push(one),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if all.is_empty() => return,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL_INTERVAL),
        }
        let now = Instant::now();
        all.retain_mut(|one| !one.poll(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::wait_until;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).env("PATH", "/usr/bin:/bin");
        command
    }

    async fn all(output: &mut Output) -> String {
        let mut text = Vec::new();
        while let Some(piece) = output.read().await.unwrap() {
            text.extend(piece);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn input_output_and_stderr() {
        block_on(async {
            let command = shell("tr a-z A-Z; echo oops >&2");
            let mut program = Program::start(command, true, Errors::Piped).await.unwrap();
            let input = program.input.take().unwrap();
            write(&input, b"hello").await.unwrap();
            drop(input);
            assert_eq!(all(&mut program.output).await, "HELLO");
            assert_eq!(all(program.stderr.as_mut().unwrap()).await, "oops\n");
        });
    }

    #[test]
    fn one_that_is_dropped_ends_with_its_children() {
        block_on(async {
            let mut program = Program::start(
                shell("sleep 1000 & echo $! $$; wait"),
                false,
                Errors::Dropped,
            )
            .await
            .unwrap();
            let line = String::from_utf8(program.output.read().await.unwrap().unwrap()).unwrap();
            drop(program);
            for id in line.split_whitespace() {
                wait_until("the end of the program", || !is_there(id));
            }
        });
    }

    /// Zombies count as ended.
    fn is_there(id: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_missing_program_is_an_error() {
        block_on(async {
            assert!(
                Program::start(Command::new("/no/such/program"), false, Errors::Dropped)
                    .await
                    .is_err()
            )
        });
    }
}
