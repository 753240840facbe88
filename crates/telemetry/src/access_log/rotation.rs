//! Rotation of log files by size and age.
//!
//! Called by: [`super::LogFile`], under the lock of its lines, before a batch is written.
//! Caveat: two servers write to the same file while one takes over from the other. A server
//! that finds another file than its own at the path has been rotated by the other, and opens the
//! path again. Others may be able to write to the directory: everything happens relative to its
//! descriptor, no link is followed, and only regular files with one name are read.
//! Out of scope: directories that the server's user may not write to. The broker opens logs there,
//! but renames nothing.

use super::open::open_append;
use crate::{local_time::Civil, message, report};
use flate2::{Compression, write::GzEncoder};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, renameat, statat, unlinkat},
    io::Errno,
};
use saker_net::{
    guarded_open::Entry,
    privileged::{open_renamed_log, opener},
    renamed_log::is_stamp,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    path::Path,
    sync::{Mutex, PoisonError},
    time::UNIX_EPOCH,
};

/// Time after which a failed rotation is tried again.
const RETRY_S: i64 = 60;
/// Names tried for a renamed file: several may get the same second.
const NAMES_MAX: usize = 1000;
/// Piece in which a file is compressed.
const PIECE_BYTES: usize = 64 << 10;

/// Limits at which a file is renamed, and the treatment of renamed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub bytes_max: Option<u64>,
    pub age_s: Option<u64>,
    /// Renamed files that are kept.
    pub kept_max: usize,
    pub compresses: bool,
}

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation {
            bytes_max: None,
            age_s: None,
            kept_max: 14,
            compresses: false,
        }
    }
}

/// Rotation of one open file.
#[derive(Debug)]
pub(super) struct RotationState {
    pub(super) rotation: Rotation,
    /// The multiple of the age in which the file was begun; `None`: it is to be found out.
    period: Option<i64>,
    /// No attempt before this time, because the last one failed.
    retry_at_s: i64,
}

/// A step before lines are written.
#[derive(Debug)]
pub(super) enum Turn {
    Nothing,
    /// Lines go to this file from here on.
    Replace(File),
}

impl RotationState {
    pub(super) fn new(rotation: Rotation) -> RotationState {
        RotationState {
            rotation,
            period: None,
            retry_at_s: 0,
        }
    }

    /// Another file was opened at the path.
    pub(super) fn reopened(&mut self) {
        self.period = None;
    }

    /// Renames the file if it is due, and opens a new one.
    pub(super) fn turn(&mut self, path: &Path, file: &File, bytes: usize, now_s: i64) -> Turn {
        if now_s < self.retry_at_s {
            return Turn::Nothing;
        }
        match self.try_turn(path, file, bytes, now_s) {
            Ok(turn) => turn,
            Err(error) => {
                self.retry_at_s = now_s + RETRY_S;
                report::log(
                    &message::LOG_ROTATION_FAILED,
                    format_args!("{}: {error}", path.display()),
                );
                Turn::Nothing
            }
        }
    }

    fn try_turn(&mut self, path: &Path, file: &File, bytes: usize, now_s: i64) -> io::Result<Turn> {
        let own = file.metadata()?;
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) != (own.dev(), own.ino()) => {
                self.period = None;
                return open_append(path).map(Turn::Replace);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.period = None;
                return open_append(path).map(Turn::Replace);
            }
            _ => {}
        }
        if own.len() == 0 {
            self.period = Some(self.period_of(now_s));
            return Ok(Turn::Nothing);
        }
        let written_s = own.modified()?.duration_since(UNIX_EPOCH);
        let written_s = written_s.map_or(now_s, |time| time.as_secs() as i64);
        let begun = self.period.unwrap_or_else(|| self.period_of(written_s));
        self.period = Some(begun);
        let is_large = self
            .rotation
            .bytes_max
            .is_some_and(|max| own.len().saturating_add(bytes as u64) > max);
        if !is_large && begun == self.period_of(now_s) {
            return Ok(Turn::Nothing);
        }
        let log = opener().find(&std::path::absolute(path)?)?;
        if log.identity()? != (own.dev(), own.ino()) {
            return Err(io::Error::other("the name is a link"));
        }
        let renamed = unused_name(&log, now_s)?;
        renameat(&log.directory, &log.name, &log.directory, &renamed)?;
        let new = open_append(path)?;
        self.period = Some(self.period_of(now_s));
        tidy_later(path, self.rotation);
        Ok(Turn::Replace(new))
    }

    fn period_of(&self, time_s: i64) -> i64 {
        let age_s = self
            .rotation
            .age_s
            .and_then(|age_s| i64::try_from(age_s).ok());
        age_s.map_or(0, |age_s| time_s.div_euclid(age_s.max(1)))
    }
}

/// The time in the name of a renamed file.
fn stamp(now_s: i64) -> String {
    let civil = Civil::at(now_s, 0);
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
    )
}

fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

/// Returns the name for a file that is renamed now.
fn unused_name(log: &Entry, now_s: i64) -> io::Result<OsString> {
    let stamp = stamp(now_s);
    let is_unused = |name: &OsStr| {
        let found = statat(&log.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        matches!(found, Err(Errno::NOENT))
    };
    (0..NAMES_MAX)
        .map(|number| match number {
            0 => with_suffix(&log.name, &format!(".{stamp}")),
            number => with_suffix(&log.name, &format!(".{stamp}-{number:03}")),
        })
        .find(|name| is_unused(name) && is_unused(&with_suffix(name, ".gz")))
        .ok_or_else(|| io::Error::new(io::ErrorKind::AlreadyExists, "no name is left"))
}

/// Compresses and deletes renamed files, on a thread of its own: workers must not wait.
fn tidy_later(path: &Path, rotation: Rotation) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let path = path.to_owned();
    let work = move || {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = tidy(&path, rotation) {
            report::log(
                &message::LOG_ROTATION_FAILED,
                format_args!("{}: {error}", path.display()),
            );
        }
    };
    let started = std::thread::Builder::new()
        .name("log-rotation".into())
        .spawn(work);
    if let Err(error) = started {
        report::log(
            &message::LOG_ROTATION_FAILED,
            format_args!("cannot start a thread: {error}"),
        );
    }
}

/// Compresses renamed files, and deletes those that are too many. Also completes what an earlier
/// process has left. Goes on after a failure, and returns the first one.
pub(super) fn tidy(path: &Path, rotation: Rotation) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let log = opener().find(&path)?;
    let mut failed = None;
    let mut note = |name: &OsStr, outcome: io::Result<()>| {
        if let Err(error) = outcome {
            let text = format!("{}: {error}", name.display());
            failed.get_or_insert_with(|| io::Error::new(error.kind(), text));
        }
    };
    let mut renamed = renamed_files(&log)?;
    let surplus = renamed.len().saturating_sub(rotation.kept_max);
    for name in renamed.drain(..surplus) {
        note(&name, remove(&log, &name));
    }
    let is_compressed = |name: &OsString| name.as_encoded_bytes().ends_with(b".gz");
    if rotation.compresses {
        for name in renamed.iter().filter(|name| !is_compressed(name)) {
            note(name, compress(&log, &path, name));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Names of renamed files, oldest first. Removes what was not completed. Whatever else has such a
/// name (a link, a pipe) is left alone.
fn renamed_files(log: &Entry) -> io::Result<Vec<OsString>> {
    let listing = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = openat(&log.directory, ".", listing, Mode::empty())?;
    let log_name = log.name.to_string_lossy();
    let mut all = Vec::new();
    for entry in Dir::new(listing)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        let Some(end) = name
            .to_str()
            .and_then(|other| other.strip_prefix(&*log_name)?.strip_prefix('.'))
        else {
            continue;
        };
        let (is_rest, is_renamed) = (
            end.strip_suffix(".gz.tmp").is_some_and(is_stamp),
            is_stamp(end.strip_suffix(".gz").unwrap_or(end)),
        );
        if !(is_rest || is_renamed) {
            continue;
        }
        match statat(&log.directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is_plain(&found) && is_rest => remove(log, &name)?,
            Ok(found) if is_plain(&found) => all.push(name),
            _ => {}
        }
    }
    // The stamps are of equal length.
    all.sort();
    Ok(all)
}

fn is_plain(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1
}

/// Removes a file that another server may have removed already.
fn remove(log: &Entry, name: &OsStr) -> io::Result<()> {
    match unlinkat(&log.directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// `path`: the log's.
fn compress(log: &Entry, path: &Path, name: &OsStr) -> io::Result<()> {
    let from = open_renamed_log(&log.beside(name)?, &path.with_file_name(name))?;
    let found = fstat(&from)?;
    if !is_plain(&found) {
        return Err(io::Error::other("not a regular file with a single name"));
    }
    // As the log's, without what makes programs of files.
    let mode = Mode::from_raw_mode(found.st_mode & 0o666);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let temporary = with_suffix(name, ".gz.tmp");
    let to = File::from(openat(&log.directory, &temporary, flags, mode)?);
    if let Err(error) = write_compressed(from, to) {
        remove(log, &temporary)?;
        return Err(error);
    }
    let complete = with_suffix(name, ".gz");
    renameat(&log.directory, &temporary, &log.directory, &complete)?;
    remove(log, name)
}

fn write_compressed(mut from: File, to: File) -> io::Result<()> {
    let mut encoder = GzEncoder::new(to, Compression::default());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match io::Read::read(&mut from, &mut piece)? {
            0 => break,
            count => encoder.write_all(piece.get(..count).unwrap_or_default())?,
        }
    }
    encoder.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const STAMPS: [&str; 4] = [
        "20261123T000000Z",
        "20261124T000000Z",
        "20261125T000000Z",
        "20261126T000000Z",
    ];
    const COMPRESSING: Rotation = Rotation {
        bytes_max: None,
        age_s: None,
        kept_max: 14,
        compresses: true,
    };

    #[test]
    fn stamps_of_times() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(1_795_392_000), "20261123T000000Z");
    }

    /// Another user lays links in the log's directory.
    #[test]
    fn nothing_is_read_or_written_by_links() {
        let folder = std::env::temp_dir().join(format!("saker-rotation-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).unwrap();
        let (secret, victim) = (folder.join("secret"), folder.join("victim"));
        for file in [&secret, &victim] {
            fs::write(file, "secret").unwrap();
        }
        let of = |stamp: &str, end: &str| logs.join(format!("a.log.{stamp}{end}"));
        symlink(&secret, of(STAMPS[0], "")).unwrap();
        fs::hard_link(&secret, of(STAMPS[1], "")).unwrap();
        fs::write(of(STAMPS[2], ""), "lines").unwrap();
        symlink(&victim, of(STAMPS[2], ".gz.tmp")).unwrap();
        fs::write(of(STAMPS[3], ""), "lines").unwrap();
        fs::set_permissions(of(STAMPS[3], ""), fs::Permissions::from_mode(0o600)).unwrap();
        let failed = tidy(&logs.join("a.log"), COMPRESSING).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::AlreadyExists, "{failed}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "secret");
        for stamp in &STAMPS[..3] {
            assert!(!of(stamp, ".gz").exists(), "{stamp}");
        }
        // One failure does not keep others from being compressed.
        let done = fs::metadata(of(STAMPS[3], ".gz")).unwrap();
        assert_eq!(done.mode() & 0o777, 0o600, "the log's own mode");
        assert!(!of(STAMPS[3], "").exists());
        // Nor from being removed.
        let few = Rotation {
            kept_max: 1,
            ..COMPRESSING
        };
        assert!(tidy(&logs.join("a.log"), few).is_ok());
        assert!(!of(STAMPS[2], "").exists() && of(STAMPS[3], ".gz").exists());
        assert!(fs::symlink_metadata(of(STAMPS[0], "")).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A rotation that a process left unfinished when it ended is completed.
    #[test]
    fn a_file_that_was_not_completed_is_written_again() {
        let folder = std::env::temp_dir().join(format!("saker-rest-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let of = |end: &str| folder.join(format!("a.log.{}{end}", STAMPS[0]));
        fs::write(of(""), "lines").unwrap();
        fs::write(of(".gz.tmp"), "torn").unwrap();
        tidy(&folder.join("a.log"), COMPRESSING).unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        let mut text = String::new();
        let file = File::open(of(".gz")).unwrap();
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
        assert_eq!(text, "lines");
        fs::remove_dir_all(&folder).unwrap();
    }
}
