//! The program that `saker upgrade` has started, and all processes that it starts in turn.
//!
//! Called by: `upgrade`.
//! Caveat: a script in the place of the program may leave the server to itself and end. Orphans
//! become children of this process (PR_SET_CHILD_SUBREAPER), so that their end is known; those that
//! a service manager starts at the script's request do not.
//! Out of scope: conclusions from how they end.

use crate::exit_status::UPGRADE_UNDER_WAY;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use std::{
    fs, io,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(2);
/// Time for processes that were killed to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

pub struct Successor {
    child: Child,
    status: Option<ExitStatus>,
    said_under_way: bool,
}

impl Successor {
    pub fn start(command: &mut Command) -> io::Result<Successor> {
        // Without it, the end of the program is taken for the end of all.
        let _ = set_child_subreaper(Some(getpid()));
        Ok(Successor {
            child: command.spawn()?,
            status: None,
            said_under_way: false,
        })
    }

    /// The exit status of the program itself. `None`: it runs.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
            self.said_under_way |=
                self.status.and_then(|status| status.code()) == Some(i32::from(UPGRADE_UNDER_WAY));
        }
        Ok(self.status)
    }

    /// Returns true if neither the program nor what it has left behind runs.
    pub fn is_over(&mut self) -> bool {
        // Its own status has to be taken first: any child is waited for below.
        if !matches!(self.status(), Ok(Some(_))) {
            return false;
        }
        while let Ok(ended) = wait(WaitOptions::NOHANG) {
            let Some((_, status)) = ended else {
                return false;
            };
            self.said_under_way |= status.exit_status() == Some(UPGRADE_UNDER_WAY.into());
        }
        true
    }

    /// Returns true if one of them ended because another process is taking over.
    pub fn said_under_way(&self) -> bool {
        self.said_under_way
    }

    /// Returns true if the process is one of them.
    pub fn has(&self, pid: u64) -> bool {
        let own = std::process::id();
        pid != u64::from(own) && descends_from(pid, own)
    }

    /// Sends all of them a signal.
    pub fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills all of them, and what they start meanwhile.
    pub fn kill(&mut self) {
        let until = Instant::now() + KILL_PATIENCE;
        while !self.is_over() && Instant::now() < until {
            self.signal(Signal::KILL);
            thread::sleep(POLL);
        }
    }

    fn processes(&self) -> Vec<Pid> {
        let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut found: Vec<u64> = listed
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| self.has(*pid))
            .collect();
        // Where /proc shows nothing, at least the one whose number is known.
        if found.is_empty() && self.status.is_none() {
            found.push(self.child.id().into());
        }
        found
            .into_iter()
            .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .collect()
    }
}

/// Returns true if it is this process, or was started by it.
fn descends_from(mut pid: u64, ancestor: u32) -> bool {
    while pid != u64::from(ancestor) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return false;
        };
        // The name in parentheses may have any characters in it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        match parent {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_server_is_the_child_or_descends_from_it() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(descends_from(own.into(), own));
        assert!(descends_from(own.into(), parent));
        assert!(!descends_from(parent.into(), own));
        assert!(!descends_from(u64::from(u32::MAX), own));
    }
}
