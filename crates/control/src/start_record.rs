//! Records of starts by root: the program, command line, and environment of each running server, in
//! a folder that only root can read or change.
//!
//! Called by: the server's start, while it is root; root's `saker upgrade` and `saker reload`, which
//! start the next server by it.
//! Caveat: the server that answers on the control socket has given up root's rights, and may be an
//! attacker's by then. Nothing that it says is run by root: it only tells its number, and a record
//! holds for that process alone (its number and the time of its start) and for one state directory.
//! Out of scope: servers that root has not started, whose own word their user takes.

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

/// Folder of the records, unless the environment of both the server and root's command names another.
const FOLDER: &str = "/run/saker-starts";
/// Bytes of a record: the kernel limits a command line and an environment to less.
const BYTES_MAX: u64 = 64 << 20;

/// Folder of the records: that of the variable `SAKER_STARTS`, for machines without `/run`, else
/// `/run/saker-starts`.
pub fn folder() -> PathBuf {
    std::env::var_os("SAKER_STARTS").map_or_else(|| FOLDER.into(), PathBuf::from)
}

/// Writes the record of this process, which serves with `state_dir`, and removes those of processes
/// that have ended.
///
/// # Errors
///
/// The folder can't be made, or is not root's alone.
pub fn write(folder: &Path, state_dir: impl AsFd, origin: &Value) -> io::Result<()> {
    // A parent is missing in a container that has little more than the program.
    folder.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    match fs::mkdir(folder, Mode::RWXU) {
        Err(errno) if errno != Errno::EXIST => return Err(errno.into()),
        _ => {}
    }
    let records = open(folder)?;
    sweep(&records)?;
    let pid = u64::from(std::process::id());
    let name = name(&fs::fstat(state_dir)?, pid).ok_or(io::ErrorKind::NotFound)?;
    let _ = fs::unlinkat(&records, &name, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = fs::openat(&records, &name, flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(origin.to_string().as_bytes())
}

/// The record of a running server, with `is_replaced` as it is now. `None`: there is none.
///
/// # Errors
///
/// The folder is not root's alone, or the record can't be read.
pub fn read(folder: &Path, state_dir: &Path, pid: u64) -> io::Result<Option<Value>> {
    let records = match open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let Some(name) = name(&fs::stat(state_dir)?, pid) else {
        return Ok(None);
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match fs::openat(&records, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    File::from(file).take(BYTES_MAX).read_to_string(&mut text)?;
    let mut origin: Value = serde_json::from_str(&text)?;
    let is_replaced = match (
        origin["program"].as_str(),
        origin["device"].as_u64(),
        origin["inode"].as_u64(),
    ) {
        (Some(program), Some(device), Some(inode)) => {
            is_replaced(Path::new(program), device, inode)
        }
        _ => false,
    };
    origin["is_replaced"] = json!(is_replaced);
    Ok(Some(origin))
}

/// Returns true if the program's name leads to another file than at the start.
pub fn is_replaced(program: &Path, device: u64, inode: u64) -> bool {
    std::fs::metadata(program).is_ok_and(|found| (found.dev(), found.ino()) != (device, inode))
}

/// Returns true if no user but root can put another file in the place of root's in this directory.
pub(crate) fn is_roots_alone(directory: &Stat) -> bool {
    directory.st_uid == 0
        && (directory.st_mode & 0o022 == 0 || directory.st_mode & Mode::SVTX.as_raw_mode() != 0)
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = fs::open(folder, flags, Mode::empty())?;
    let found = fs::fstat(&opened)?;
    let parent = fs::stat(folder.parent().unwrap_or(Path::new("/")))?;
    let is_safe = found.st_uid == 0
        && found.st_mode & 0o077 == 0
        && FileType::from_raw_mode(parent.st_mode) == FileType::Directory
        && is_roots_alone(&parent);
    match is_safe {
        true => Ok(opened),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not root's alone",
        )),
    }
}

/// `None`: the process has ended.
fn name(state_dir: &Stat, pid: u64) -> Option<String> {
    let (device, inode) = (state_dir.st_dev, state_dir.st_ino);
    let (space, started) = (process_space()?, started(pid)?);
    Some(format!("{space}-{device}-{inode}-{pid}-{started}"))
}

/// The namespace in which processes have their numbers.
fn process_space() -> Option<u64> {
    Some(std::fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// The time of a process's start, in ticks since that of the machine (proc_pid_stat(5)).
fn started(pid: u64) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have any characters in it.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Removes records of processes that have ended.
fn sweep(records: &OwnedFd) -> io::Result<()> {
    let own = process_space();
    for entry in Dir::read_from(records)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let numbers: Vec<u64> = name.split('-').filter_map(|one| one.parse().ok()).collect();
        if let [space, _, _, pid, then] = numbers[..]
            && Some(space) == own
            && started(pid) != Some(then)
        {
            let _ = fs::unlinkat(records, name, AtFlags::empty());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_dir::tests::Scratch;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_record_is_of_one_process_and_one_state_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = Scratch::new();
        let (folder, state, other) = (dir.join("starts"), dir.join("state"), dir.join("other"));
        std::fs::create_dir(&state).unwrap();
        std::fs::create_dir(&other).unwrap();
        let pid = u64::from(std::process::id());
        assert_eq!(read(&folder, &state, pid).unwrap(), None);
        let (program, new) = (dir.join("program"), dir.join("new"));
        std::fs::write(&program, "1").unwrap();
        let found = std::fs::metadata(&program).unwrap();
        let origin = json!({ "program": program, "device": found.dev(), "inode": found.ino() });
        for _ in 0..2 {
            write(&folder, File::open(&state).unwrap(), &origin).unwrap();
        }
        let said = read(&folder, &state, pid).unwrap().unwrap();
        assert_eq!(said["is_replaced"], false);
        std::fs::write(&new, "2").unwrap();
        std::fs::rename(new, &program).unwrap();
        let said = read(&folder, &state, pid).unwrap().unwrap();
        assert_eq!(said["is_replaced"], true);
        std::fs::remove_file(&program).unwrap();
        let said = read(&folder, &state, pid).unwrap().unwrap();
        assert_eq!(said["is_replaced"], false, "nothing is there to start");
        assert_eq!(read(&folder, &other, pid).unwrap(), None);
        assert_eq!(read(&folder, &state, 1).unwrap(), None);
        assert_eq!(read(&folder, &state, u64::MAX).unwrap(), None);
    }

    #[test]
    fn records_of_processes_that_have_ended_are_removed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = Scratch::new();
        let folder = dir.join("starts");
        let record = || write(&folder, File::open(&dir.0).unwrap(), &json!({}));
        record().unwrap();
        let space = process_space().unwrap();
        let names = [
            // The number is another process's by now.
            format!("{space}-1-1-{}-1", std::process::id()),
            // Processes of another namespace can't be seen from here.
            "1-1-1-1-1".to_owned(),
        ];
        names
            .iter()
            .for_each(|name| std::fs::write(folder.join(name), "").unwrap());
        record().unwrap();
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!((left, folder.join(&names[1]).exists()), (2, true));
    }

    #[test]
    fn a_folder_that_others_can_change_is_not_believed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = Scratch::new();
        let (folder, link) = (dir.join("starts"), dir.join("link"));
        let pid = u64::from(std::process::id());
        let refuses = |folder: &Path| {
            let state = File::open(&dir.0).unwrap();
            write(folder, state, &json!({})).is_err() && read(folder, &dir.0, pid).is_err()
        };
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        assert!(!refuses(&folder));
        symlink(&folder, &link).unwrap();
        assert!(refuses(&link));
        mode(&folder, 0o750);
        assert!(refuses(&folder));
        mode(&folder, 0o700);
        mode(&dir.0, 0o770);
        assert!(refuses(&folder));
        mode(&dir.0, 0o700);
        chown(&folder, Some(65_534), None).unwrap();
        assert!(refuses(&folder));
    }
}
