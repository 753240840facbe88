//! Standard error of a server, complete as of the moment that it is asked for.
//!
//! Called by: `process`.
//! Caveat: Saker's error log is written by a thread of its own and read here by another, so a line
//! that was logged before a response could be seen after it. The text is given out once the one has
//! nothing to write and the other nothing to read.
//! Out of scope: lines that a server logs after its response; tests wait for those.

use crate::wait::poll;
use rustix::{
    event::{PollFd, PollFlags},
    io::ioctl_fionread,
};
use std::{
    fs,
    io::Read,
    os::fd::AsFd,
    process::ChildStderr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Name of the thread that writes the log, as `/proc` has it.
const LOG_THREAD: &str = "error-log\n";
/// A server that logs without end is not waited for.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct StandardError {
    read: Arc<Mutex<Reading>>,
    /// Ends when the last process that holds the pipe is gone.
    reader: JoinHandle<()>,
}

#[derive(Debug)]
struct Reading {
    pipe: ChildStderr,
    text: Vec<u8>,
}

impl StandardError {
    pub fn of(pipe: ChildStderr) -> std::io::Result<StandardError> {
        let watched = pipe.as_fd().try_clone_to_owned()?;
        let read = Arc::new(Mutex::new(Reading {
            pipe,
            text: Vec::new(),
        }));
        let into = Arc::clone(&read);
        let reader = thread::spawn(move || {
            let mut is_open = true;
            while is_open {
                // Outside of the lock, so that it never waits for the server.
                let mut watched = [PollFd::new(&watched, PollFlags::IN)];
                if rustix::event::poll(&mut watched, None).is_ok() {
                    is_open = lock(&into).read_on();
                }
            }
        });
        Ok(StandardError { read, reader })
    }

    /// Returns what the process has written so far.
    pub fn text(&self, pid: u32) -> String {
        let _: Option<()> = poll(SETTLE_TIMEOUT, || {
            let is_read = || {
                let read = lock(&self.read);
                self.is_finished() || ioctl_fionread(&read.pipe).is_ok_and(|bytes| bytes == 0)
            };
            (!has_lines_to_write(pid) && is_read()).then_some(())
        });
        String::from_utf8_lossy(&lock(&self.read).text).into_owned()
    }

    /// True if no process has it open.
    pub fn is_finished(&self) -> bool {
        self.reader.is_finished()
    }
}

impl Reading {
    /// Takes what is there; false at the end.
    fn read_on(&mut self) -> bool {
        let mut chunk = [0; 4096];
        match self.pipe.read(&mut chunk) {
            Ok(count @ 1..) => {
                self.text.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
            Ok(_) => false,
        }
    }
}

fn lock(read: &Mutex<Reading>) -> MutexGuard<'_, Reading> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that logs wakes this one before it goes on, and this one sleeps only when nothing is left.
fn has_lines_to_write(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let said = |file| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let state = || {
            let stat = said("stat");
            stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0])
        };
        said("comm") == LOG_THREAD && matches!(state(), Some(b'R' | b'D'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_text_is_complete() {
        let mut child = Command::new("sh")
            .args(["-c", "yes line | head -n 20000 >&2; echo end; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let standard_error = StandardError::of(child.stderr.take().expect("piped")).expect("read");
        let mut end = [0; 4];
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_exact(&mut end).expect("written");
        assert_eq!(standard_error.text(child.id()), "line\n".repeat(20_000));
        drop(child.stdin.take());
        child.wait().expect("ends");
        let ended = poll(SETTLE_TIMEOUT, || {
            standard_error.is_finished().then_some(())
        });
        assert!(ended.is_some());
    }
}
