//! Started as root: bind first, then become the configured user for good.

use saker_config::model::Server;
use saker_telemetry::{error_log, message};
use std::{os::unix::fs::chown, path::Path};

/// Changes to the configured user, if we are root. Without one, serving as root is said aloud; a user that can't be had is an error.
pub fn drop(server: &Server, state_dir: &Path) -> Result<(), String> {
    let is_root = rustix::process::geteuid().is_root();
    let Some(user) = server.user.as_deref() else {
        if is_root {
            error_log::log(&message::RUNNING_AS_ROOT, format_args!(""));
        }
        return Ok(());
    };
    if !is_root {
        error_log::log(&message::CONFIG_WARNING, format_args!("server.user is ignored: only root can change to {user}"));
        return Ok(());
    }
    hand_over(user, state_dir);
    saker_net::process::become_user(user, server.group.as_deref()).map_err(|error| format!("cannot change to user {user}: {error}"))?;
    error_log::log(&message::PRIVILEGES_DROPPED, format_args!("user {user}"));
    Ok(())
}

/// The state directory goes to the user, who has to make the control socket in it.
fn hand_over(user: &str, state_dir: &Path) {
    if let Some(uid) = uid_of(user) {
        for path in [state_dir.to_owned(), state_dir.join(crate::control::state_dir::PID_FILE)] {
            if let Err(error) = chown(&path, Some(uid), None) {
                error_log::log(&message::STATE_DIRECTORY_FAILED, format_args!("{}: {error}", path.display()));
            }
        }
    }
}

/// `None`: no such user; [`drop`] will say so.
pub fn uid_of(user: &str) -> Option<u32> {
    saker_net::process::user_id(user).ok().flatten()
}
