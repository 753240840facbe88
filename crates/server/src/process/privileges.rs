//! Privileges of a server started as root: it binds first, then switches to the configured user for
//! good.
//!
//! Called by: the start. The state directory stays root's, and is accessible to a group that no
//! user database has. The server keeps that group; other processes of the user (PHP, programs of
//! sites) are started without it by the broker, and so read no key and reach no socket. Logs are
//! opened by the broker as root, as in Apache and nginx; their owner is up to the administrator, or
//! logrotate.
//! Caveat: an earlier run may have used another user. The server's own files in its state directory
//! are handed to the user of this run, so that no run leaves unusable files to the next.

use super::{abuse_keys, bans, hand_on::hand_on_in, page_cache};
use saker_config::Model;
use saker_control::{Lock, Peers, state_dir::PID_FILE};
use saker_net::process::Identity;
use saker_telemetry::{error_log, message};
use std::path::Path;

/// Files and directories that the server itself creates in its state directory.
const OWN: [&str; 7] = [
    "acme",
    "authority",
    "cache",
    saker_native::SESSION_KEY_FILE,
    "ocsp",
    bans::FILE,
    abuse_keys::FILE,
];

/// Changes to the configured user, if we are root. Without one, serving as root is said aloud; a
/// user that can't be had is an error. `peers`: users of the control socket, which is bound.
pub fn drop(model: &Model, lock: &Lock, peers: &Peers) -> Result<(), String> {
    let server = &model.server;
    let is_root = rustix::process::geteuid().is_root();
    let user = server.user.as_deref().filter(|_| is_root);
    if is_root && user.is_none() {
        error_log::log(
            &message::RUNNING_AS_ROOT,
            format_args!(
                "name one (`user` in [server], Apache's User), or start it as that user: runuser -u www-data -- saker ..."
            ),
        );
    }
    if let Some(user) = server.user.as_deref().filter(|_| !is_root) {
        error_log::log(
            &message::CONFIG_WARNING,
            format_args!("server.user is ignored: only root can change to {user}"),
        );
    }
    let uid = user.and_then(uid_of);
    let identity = user.and_then(|user| Identity::look_up(user, server.group.as_deref()).ok());
    let guard = identity.and_then(|identity| guard(lock, &identity));
    if let Err(error) = lock.admit(peers.named()) {
        let text = "users of `control_users` can't be let through to control.sock (does the file system have access control lists?)";
        error_log::log(
            &message::CONTROL_SOCKET_FAILED,
            format_args!("{}: {text}: {error}", lock.path().display()),
        );
    }
    if is_root {
        let uid = uid.unwrap_or(0);
        OWN.iter()
            .for_each(|name| hand_on_in(lock.directory(), Path::new(name), uid));
        page_cache::hand_on_left(model, uid);
    }
    let Some(user) = user else { return Ok(()) };
    if let Some(uid) = uid {
        // On failure PHP reports it when it is started.
        let _ = saker_php::prepare();
        page_cache::hand_over(model, uid, guard);
    }
    saker_net::process::become_user(user, server.group.as_deref(), guard)
        .map_err(|error| format!("cannot change to user {user}: {error}"))?;
    error_log::log(&message::PRIVILEGES_DROPPED, format_args!("user {user}"));
    Ok(())
}

/// The group that the server keeps for itself; `None`: it can't have any, and the directory is open
/// to the user's group. It stays root's, so that a later start with another user, or with none,
/// finds it to be its own.
fn guard(lock: &Lock, identity: &Identity) -> Option<u32> {
    let gid = lock.guard_group();
    // Tried before anything depends on it; the change of user takes it away again.
    match saker_net::process::hold_group(gid).and_then(|()| lock.guard(gid)) {
        Ok(()) => {
            give_pid_file(lock, identity.uid());
            Some(gid)
        }
        Err(error) => {
            error_log::log(
                &message::STATE_DIRECTORY_OPEN,
                format_args!("{}: {error}", lock.path().display()),
            );
            if let Err(error) = lock.open_to(identity.gid()) {
                error_log::log(
                    &message::STATE_DIRECTORY_FAILED,
                    format_args!("{}: {error}", lock.path().display()),
                );
            }
            give_pid_file(lock, identity.uid());
            None
        }
    }
}

/// `None`: no such user; [`drop`] will report it.
pub fn uid_of(user: &str) -> Option<u32> {
    saker_net::process::user_id(user).ok().flatten()
}

fn give_pid_file(lock: &Lock, uid: u32) {
    if let Err(error) = lock.give_pid_file(uid) {
        error_log::log(
            &message::STATE_DIRECTORY_FAILED,
            format_args!("{}: {error}", lock.path().join(PID_FILE).display()),
        );
    }
}
