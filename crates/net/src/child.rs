//! Child programs that run for as long as the server does: how they are started and stopped.
//!
//! A child leads its own process group, so that its descendants end with it, and it is signaled
//! when the server dies, however it dies.
//! Caveat: between fork and exec only async-signal-safe functions may be called; both closures
//! below make plain system calls.
//! Out of scope: supplementary groups. A child that changes its user has none.
#![allow(unsafe_code)]

use super::process::Identity;
use rustix::{
    io::FdFlags,
    process::{Pid, Resource, Rlimit, Signal},
};
use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Options for starting a child, besides its command.
#[derive(Debug, Default)]
pub struct ChildManner {
    /// Whom it becomes; only root can.
    pub identity: Option<Identity>,
    /// Address space, hard limit.
    pub memory_bytes_max: Option<u64>,
    /// Stay open in it under the same numbers; the others close.
    pub inherited: Vec<OwnedFd>,
}

/// Arms a command. The child gets `TERM` when the thread that starts it ends, which has to be one
/// that ends with the process.
pub fn prepare(command: &mut Command, manner: ChildManner) {
    command.process_group(0);
    if let Some(identity) = &manner.identity {
        command.uid(identity.uid()).gid(identity.gid());
    }
    let ChildManner {
        memory_bytes_max,
        inherited,
        ..
    } = manner;
    let parent = rustix::process::getpid();
    let arm = move || arm(parent, memory_bytes_max, &inherited);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions may be
    // called (fork(2)): `arm` makes plain system calls, and neither allocates nor locks. Tests:
    // a_child_ends_with_its_parent, limits_and_descriptors_reach_a_child.
    unsafe { command.pre_exec(arm) };
}

fn arm(parent: Pid, memory_bytes_max: Option<u64>, inherited: &[OwnedFd]) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have died before the line above (prctl(2)).
    if rustix::process::getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    if let Some(bytes) = memory_bytes_max {
        rustix::process::setrlimit(
            Resource::As,
            Rlimit {
                current: Some(bytes),
                maximum: Some(bytes),
            },
        )?;
    }
    super::process::close_at_exec();
    for descriptor in inherited {
        rustix::io::fcntl_setfd(descriptor.as_fd(), FdFlags::empty())?;
    }
    Ok(())
}

/// Waits until a listening socket has a pending connection, and leaves it in the queue. The caller
/// does not accept it.
pub async fn connection_waits(listener: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor has to stay open, and the same, for as long as it is registered: it is
    // borrowed from an OwnedFd, which cannot change, for all of this function, and the registration
    // ends with it. Test: a_connection_is_seen_and_left.
    let registered =
        unsafe { AsyncFd::register_with_interest(listener.as_raw_fd(), Interest::READABLE) };
    registered
        .map_err(io::Error::from)?
        .readable()
        .await
        .map(drop)
}

/// A child and everything in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(Pid);

impl Group {
    /// Returns the process group of a child that was started after [`prepare`].
    pub fn of(pid: u32) -> Option<Group> {
        i32::try_from(pid).ok().and_then(Pid::from_raw).map(Group)
    }

    pub fn id(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// To its leader alone, which must not have been waited for yet.
    pub fn signal_leader(self, signal: ChildSignal) {
        let _ = rustix::process::kill_process(self.0, signal.raw());
    }

    pub fn signal_all(self, signal: ChildSignal) {
        let _ = rustix::process::kill_process_group(self.0, signal.raw());
    }

    /// True if any of it is still there.
    pub fn is_there(self) -> bool {
        rustix::process::test_kill_process_group(self.0).is_ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildSignal {
    Term,
    Quit,
    Usr1,
    Kill,
}

impl ChildSignal {
    /// As the broker is told.
    pub fn letter(self) -> u8 {
        match self {
            ChildSignal::Term => b't',
            ChildSignal::Quit => b'q',
            ChildSignal::Usr1 => b'u',
            ChildSignal::Kill => b'k',
        }
    }

    pub fn of_letter(letter: u8) -> Option<ChildSignal> {
        [
            ChildSignal::Term,
            ChildSignal::Quit,
            ChildSignal::Usr1,
            ChildSignal::Kill,
        ]
        .into_iter()
        .find(|signal| signal.letter() == letter)
    }

    pub fn raw(self) -> Signal {
        match self {
            ChildSignal::Term => Signal::TERM,
            ChildSignal::Quit => Signal::QUIT,
            ChildSignal::Usr1 => Signal::USR1,
            ChildSignal::Kill => Signal::KILL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::wait_until;
    use std::{fs::File, process::Stdio, thread, time::Duration};

    #[test]
    fn limits_and_descriptors_reach_a_child() {
        let file = OwnedFd::from(File::open("/etc/passwd").unwrap());
        let number = file.as_raw_fd();
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("ulimit -v; head -c4 /proc/self/fd/{number}; ps -o pgid= -p $$; echo $$"),
            ])
            .stdout(Stdio::piped());
        prepare(
            &mut command,
            ChildManner {
                memory_bytes_max: Some(1 << 30),
                inherited: vec![file],
                ..ChildManner::default()
            },
        );
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(text.starts_with("1048576\nroot"), "{text}");
        assert_eq!(
            words[words.len() - 2].trim_start_matches("root"),
            words[words.len() - 1],
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_connection_is_seen_and_left() {
        let path = std::env::temp_dir().join(format!("saker-net-waits-{}", std::process::id()));
        let listener = OwnedFd::from(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let waiting = tokio::time::timeout(Duration::from_millis(50), connection_waits(&listener));
        assert!(waiting.await.is_err(), "nobody has come yet");
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        connection_waits(&listener).await.unwrap();
        connection_waits(&listener).await.unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_child_ends_with_its_parent() {
        // The thread that starts it stands for the process: the kernel looks at threads (prctl(2),
        // PR_SET_PDEATHSIG).
        let mut child = thread::spawn(|| {
            let mut command = Command::new("sleep");
            prepare(command.arg("60"), ChildManner::default());
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        wait_until("its end", || child.try_wait().unwrap().is_some());
    }

    #[test]
    fn a_group_ends_as_a_whole() {
        let mut command = Command::new("sh");
        prepare(
            command
                .args(["-c", "sleep 60 & echo; wait"])
                .stdout(Stdio::piped()),
            ChildManner::default(),
        );
        let mut child = command.spawn().unwrap();
        let group = Group::of(child.id()).unwrap();
        std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0; 1]).unwrap();
        assert!(group.is_there());
        group.signal_leader(ChildSignal::Kill);
        child.wait().unwrap();
        group.signal_all(ChildSignal::Kill);
        // What is left of it is init's to wait for.
        let is_running = || {
            let listed = Command::new("ps")
                .args(["-o", "stat=", "-g", &group.id().to_string()])
                .output()
                .unwrap()
                .stdout;
            String::from_utf8_lossy(&listed)
                .lines()
                .any(|state| !state.starts_with('Z'))
        };
        wait_until("the end of its child", || !is_running());
    }
}
