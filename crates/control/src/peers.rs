//! Users who may control the running server: root, the user that started it, and those of the
//! configuration.
//!
//! Called by: the start, before the change of user; the control socket, for each connection.
//! Caveat: the user that a server started by root switches to may not, because PHP and programs of
//! sites may run as that user, too.
//! Out of scope: rights per command; metrics are protected in the same way.

use rustix::process::{Uid, geteuid};
use std::collections::BTreeSet;

/// The refusal of users who may give other commands.
pub(crate) const NOT_TO_REPLACE: &str =
    "only root and the user that started the server may replace it";
/// The refusal of all other users.
pub(crate) const NOT_ALLOWED: &str =
    "only root, the user that started the server, and users of `control_users` may control it";

#[derive(Clone, Debug)]
pub struct Peers {
    all: BTreeSet<u32>,
    named: BTreeSet<u32>,
    /// The user that started the server.
    owner: u32,
}

impl Peers {
    /// Collects the users. The current user of this process counts as the one that started it.
    /// `users`: names or numbers, from the configuration.
    ///
    /// # Errors
    /// A user does not exist.
    pub fn new(users: &[String]) -> Result<Peers, String> {
        Peers::of(users, geteuid().as_raw())
    }

    /// The users of another configuration, in place of those of this one.
    ///
    /// # Errors
    /// A user that does not exist.
    pub fn with_users(&self, users: &[String]) -> Result<Peers, String> {
        Peers::of(users, self.owner)
    }

    fn of(users: &[String], owner: u32) -> Result<Peers, String> {
        let number = |user: &String| match saker_net::process::user_id(user) {
            Ok(Some(uid)) => Ok(uid),
            Ok(None) => Err(format!("server.control_users: no such user `{user}`")),
            Err(error) => Err(format!(
                "server.control_users: cannot look up user `{user}`: {error}"
            )),
        };
        let named = users
            .iter()
            .map(number)
            .collect::<Result<BTreeSet<u32>, String>>()?;
        let all = named
            .iter()
            .copied()
            .chain([Uid::ROOT.as_raw(), owner])
            .collect();
        Ok(Peers { all, named, owner })
    }

    pub fn may_ask(&self, uid: u32) -> bool {
        self.all.contains(&uid)
    }

    /// Returns true for users who may replace the server, and so see its environment and have its
    /// sockets: those named by the configuration may not.
    pub fn may_replace(&self, uid: u32) -> bool {
        uid == Uid::ROOT.as_raw() || uid == self.owner
    }

    /// Users named by the configuration.
    pub fn named(&self) -> &BTreeSet<u32> {
        &self.named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_configuration_besides_root_and_who_starts() {
        let peers = Peers::new(&["nobody".into(), "54321".into()]).unwrap();
        for uid in [0, geteuid().as_raw(), 65_534, 54_321] {
            assert!(peers.may_ask(uid), "{uid}");
        }
        assert!(!peers.may_ask(54_322));
        assert!(peers.may_replace(0) && peers.may_replace(geteuid().as_raw()));
        assert!(!peers.may_replace(54_321) && !peers.may_replace(54_322));
        assert!(
            Peers::new(&["no-such-user-here".into()])
                .unwrap_err()
                .contains("no-such-user-here")
        );
        assert!(Peers::new(&[]).unwrap().named().is_empty());
    }
}
