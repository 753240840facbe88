//! The privileged broker: the small process that stays root when the server gives up root
//! (privilege separation, as in OpenSSH).
//!
//! Called by: the server, before it switches to its user (`saker-broker-client`). The broker is the
//! same binary, which calls [`serve`] and does nothing else. Both ends share a socket. Each request
//! has a channel of its own: the message goes in through it (`request` lists all messages), and the
//! answer comes out, with a descriptor if one is requested. A program's channel remains as its
//! liveness channel: signals go in, its exit status comes out, and when the server's end closes,
//! for whatever reason, the program is terminated. When the server ends, all programs are
//! terminated, and its PidFile and sockets are removed.
//! Caveat: an attacker who has taken over the server talks to the broker, which is root. So the
//! broker derives the grants from its own reading of the configuration (`grants`), checks scripts
//! as suEXEC does, and checks each path that it opens (`open`).
//! Out of scope: threads, client bytes, and unsafe code, which is in `net::spawn_as`.

mod acl;
pub mod control;
mod file_grants;
mod files;
mod grant;
mod grants;
mod open;
mod own_scripts;
mod request;
mod serve;
mod spawn;
mod spawn_request;

pub use file_grants::{FileGrants, Permit};
pub use grant::{Grant, Transport};
pub use grants::{Allowed, Grants};
pub use open::examine;
pub use request::{Descriptor, Request};
pub use serve::serve;
pub use spawn_request::{SpawnKind, SpawnRequest, any_number, any_text, descriptor, matches};

use std::{os::unix::process::CommandExt, path::Path, process::Command};

/// Environment variable with the task of a process.
pub const ROLE: &str = "SAKER_BROKER";
/// Letter on a liveness channel, in addition to those of signals: the rest of the program's group
/// may keep running.
pub const RELEASE: u8 = b'r';
/// Length of a status report on a liveness channel: a letter and the wait status.
pub const STATUS_BYTES: usize = 5;

/// The task of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To call [`serve`].
    Broker,
    /// To write all grants of the configuration, encoded, to standard output.
    Grants,
    /// To start a successor whenever a byte comes in.
    Launcher,
}

/// The role of this process; `None`: it is a process like any other.
pub fn role() -> Option<Role> {
    match std::env::var_os(ROLE)?.to_str()? {
        "serve" => Some(Role::Broker),
        "grants" => Some(Role::Grants),
        "launch" => Some(Role::Launcher),
        _ => None,
    }
}

/// This program once more, with the same arguments.
pub fn again(role: Role) -> Command {
    let mut command = with_own_arguments(Path::new("/proc/self/exe"));
    command.env(
        ROLE,
        match role {
            Role::Broker => "serve",
            Role::Grants => "grants",
            Role::Launcher => "launch",
        },
    );
    command
}

/// A program with the arguments of this one.
pub fn with_own_arguments(program: &Path) -> Command {
    let mut words = std::env::args_os();
    let mut command = Command::new(program);
    command
        .arg0(words.next().unwrap_or_else(|| "saker".into()))
        .args(words);
    command
}

#[cfg(test)]
mod tests;
