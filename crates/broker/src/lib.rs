//! The privileged broker: the small process that stays root when the server gives root up
//! (privilege separation, as in OpenSSH).
//!
//! The server starts it before it becomes its user (`saker-broker-client`): the same program once
//! more, which calls [`serve`] and does nothing else. Both ends share a socket. For each request
//! there is a channel of its own: the message goes in by it (`request` has the list), and the
//! answer comes out, with a descriptor where one is asked for. The channel of a program stays as
//! its liveness channel: its exit status comes out, signals go in, and when the server's end
//! closes, by whatever cause, the program is ended. When the server goes, all are, and its PidFile
//! and sockets are removed. Caveat: whoever has taken over the server talks to the broker, which is
//! root. So it knows from its own reading of the configuration what may be had (`grants`), looks at
//! scripts as suEXEC does, and at each path that it opens (`open`). Out of scope: threads, bytes of
//! clients, and unsafe code, which is in `net::spawn_as`.

mod acl;
pub mod control;
mod file_grants;
mod files;
mod grants;
mod open;
mod request;
mod serve;
mod spawn;
mod spawn_request;

pub use file_grants::{FileGrants, Permit, Transport};
pub use grants::{Allowed, Grant, Grants};
pub use open::examine;
pub use request::{Descriptor, Request};
pub use serve::serve;
pub use spawn_request::{SpawnKind, SpawnRequest, any_number, descriptor, matches};

use std::{os::unix::process::CommandExt, process::Command};

/// Says to a process of this program what it is for.
const ROLE: &str = "SAKER_BROKER";
/// On a liveness channel, beside the letters of signals: what is left of the program's group may
/// stay.
pub const RELEASE: u8 = b'r';
/// Of the end of a program, on its liveness channel: a letter and the wait status.
pub const STATUS_BYTES: usize = 5;

/// What this process was started to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To call [`serve`].
    Broker,
    /// To write all grants of the configuration, encoded, to standard output.
    Grants,
}

/// The role of this process; `None`: it is a process like any other.
pub fn role() -> Option<Role> {
    match std::env::var_os(ROLE)?.to_str()? {
        "serve" => Some(Role::Broker),
        "grants" => Some(Role::Grants),
        _ => None,
    }
}

/// This program once more, with the same arguments.
pub fn again(role: Role) -> Command {
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(words.next().unwrap_or_else(|| "saker".into()))
        .args(words);
    command.env(
        ROLE,
        if role == Role::Broker {
            "serve"
        } else {
            "grants"
        },
    );
    command
}

#[cfg(test)]
mod tests;
