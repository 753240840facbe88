//! Started as root: bind first, then become the configured user for good.
//!
//! The difficulty is log files. Access and error logs are opened by the user, who has to open them again for rotation. Where they lie in
//! a folder that only root may write into (`/var/log/saker` on many systems), root makes the missing ones first and gives them to
//! the user; but only where nobody else can have laid a link in the way, because root would follow it.
//! Files that exist are taken over from root under an Apache configuration only: Apache writes them as root, and so leaves them behind.
//! Absent on purpose: taking over anybody else's. Whose they are is the administrator's, or logrotate's, to say.

use super::{log_programs::error_log_targets, page_cache};
use crate::{control::state_dir::PID_FILE, secured::authority_folder};
use rustix::fs::OFlags;
use saker_config::{Model, model::AccessLogTarget};
use saker_telemetry::{
    access_log::LogTarget,
    error_log::{self, ErrorLogTarget},
    message,
};
use std::{
    fs::{self, Metadata, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt, chown, fchown},
    path::Path,
};

const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Changes to the configured user, if we are root. Without one, serving as root is said aloud; a user that can't be had is an error.
pub fn drop(model: &Model, state_dir: &Path, after_apache: bool) -> Result<(), String> {
    let server = &model.server;
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
    if let Some(uid) = uid_of(user) {
        hand_over(uid, state_dir);
        hand_over_authority(uid, &authority_folder(model));
        page_cache::hand_over(model, uid);
        log_paths(model).for_each(|path| {
            make_log(path, uid);
            if after_apache {
                take_over(path, uid);
            }
        });
    }
    saker_net::process::become_user(user, server.group.as_deref()).map_err(|error| format!("cannot change to user {user}: {error}"))?;
    error_log::log(&message::PRIVILEGES_DROPPED, format_args!("user {user}"));
    Ok(())
}

/// `None`: no such user; [`drop`] will say so.
pub fn uid_of(user: &str) -> Option<u32> {
    saker_net::process::user_id(user).ok().flatten()
}

/// The state directory goes to the user, who has to make the control socket in it.
fn hand_over(uid: u32, state_dir: &Path) {
    for path in [state_dir.to_owned(), state_dir.join(PID_FILE)] {
        if let Err(error) = chown(&path, Some(uid), None) {
            error_log::log(&message::STATE_DIRECTORY_FAILED, format_args!("{}: {error}", path.display()));
        }
    }
}

/// What the start has made there is read at each reload, and renewed.
fn hand_over_authority(uid: u32, folder: &Path) {
    give(folder, uid);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.for_each(|file| give(&file.path(), uid));
}

/// A folder or a plain file of root's, by one name only: others may have laid something else there, since the folder around it is not root's any more.
fn give(path: &Path, uid: u32) {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return };
    let is_roots = |metadata: &Metadata| metadata.uid() == 0 && (metadata.is_dir() || metadata.is_file() && metadata.nlink() == 1);
    if file.metadata().is_ok_and(|metadata| is_roots(&metadata)) {
        let _ = fchown(&file, Some(uid), None);
    }
}

fn log_paths(model: &Model) -> impl Iterator<Item = &Path> {
    let access_logs = model.sites.iter().flat_map(|site| &site.access_logs).filter_map(|log| match &log.target {
        AccessLogTarget::File(path) => Some(path.as_path()),
        // Those of hosts come later, in a folder that has to be the user's.
        AccessLogTarget::Stdout | AccessLogTarget::ByHost(_) | AccessLogTarget::Program(_) => None,
    });
    let error_logs = error_log_targets(model).filter_map(|target| match target {
        ErrorLogTarget::File(path) => Some(path.as_path()),
        _ => None,
    });
    let forensic_logs = model.sites.iter().filter_map(|site| match &site.forensic_log.as_ref()?.target {
        LogTarget::File(path) => Some(path.as_path()),
        _ => None,
    });
    access_logs.chain(error_logs).chain(forensic_logs)
}

/// What fails here fails again, and is said, when the user opens the log.
fn make_log(path: &Path, uid: u32) {
    if !is_roots_alone(path) {
        return;
    }
    // O_EXCL: neither an existing file nor a link is followed (open(2)).
    if let Ok(file) = OpenOptions::new().append(true).create_new(true).mode(0o640).open(path) {
        let _ = fchown(&file, Some(uid), None);
    }
}

/// A plain file of root's, by one name only, in a folder of root's.
fn take_over(path: &Path, uid: u32) {
    if !is_roots_alone(path) {
        return;
    }
    let Ok(file) = OpenOptions::new().append(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path) else { return };
    let is_roots = file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.uid() == 0 && metadata.nlink() == 1);
    if is_roots && fchown(&file, Some(uid), None).is_ok() {
        error_log::log(&message::LOG_TAKEN_OVER, format_args!("{}", path.display()));
    }
}

/// Whether only root decides what stands at each name on the way. In a sticky folder others can't replace what is root's (unlink(2)).
fn is_roots_alone(path: &Path) -> bool {
    path.is_absolute()
        && path.ancestors().skip(1).all(|folder| {
            folder.symlink_metadata().is_ok_and(|metadata| {
                let closed = metadata.mode() & WRITABLE_BY_OTHERS == 0 || metadata.mode() & STICKY != 0;
                metadata.uid() == 0 && (closed || metadata.is_symlink())
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::state_dir::tests::Scratch;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn logs_are_made_only_where_root_alone_decides() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = Scratch::new();
        let (ours, open) = (scratch.join("ours"), scratch.join("open"));
        for (folder, mode) in [(&ours, 0o755), (&open, 0o777)] {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        make_log(&ours.join("a.log"), 65_534);
        assert_eq!(fs::metadata(ours.join("a.log")).unwrap().uid(), 65_534);
        make_log(&open.join("a.log"), 65_534);
        assert!(!open.join("a.log").exists());
        fs::write(ours.join("old.log"), "").unwrap();
        std::os::unix::fs::symlink("old.log", ours.join("link.log")).unwrap();
        make_log(&ours.join("old.log"), 65_534);
        make_log(&ours.join("link.log"), 65_534);
        assert_eq!(fs::metadata(ours.join("old.log")).unwrap().uid(), 0, "what exists stays whose it is");
        assert!(!is_roots_alone(Path::new("relative.log")));
        // After Apache: root's plain files, and nothing that a link or a second name leads to.
        fs::write(ours.join("twice.log"), "").unwrap();
        fs::hard_link(ours.join("twice.log"), ours.join("other.log")).unwrap();
        fs::write(open.join("old.log"), "").unwrap();
        for path in [ours.join("link.log"), ours.join("other.log"), open.join("old.log"), ours.join("missing.log")] {
            take_over(&path, 65_534);
        }
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        assert_eq!((owner(&ours.join("old.log")), owner(&ours.join("other.log")), owner(&open.join("old.log"))), (0, 0, 0));
        take_over(&ours.join("old.log"), 65_534);
        assert_eq!(owner(&ours.join("old.log")), 65_534);
    }
}
