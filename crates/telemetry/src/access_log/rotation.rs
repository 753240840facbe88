//! Rotation of log files by size and age.
//!
//! Called by: [`super::LogFile`], under the lock of its lines, before a batch is written.
//! Caveat: two servers write to the same file while one takes over from the other. A server
//! that finds another file than its own at the path has been rotated by the other, and opens the
//! path again.
//! Out of scope: directories that the server's user may not write to. The broker opens logs there,
//! but renames nothing.

use super::open::{LOG_MODE, open_append};
use crate::{local_time::Civil, message, report};
use flate2::{Compression, write::GzEncoder};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
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
        fs::rename(path, unused_name(path, now_s)?)?;
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

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the name for a file that is renamed now.
fn unused_name(path: &Path, now_s: i64) -> io::Result<PathBuf> {
    let stamp = stamp(now_s);
    (0..NAMES_MAX)
        .map(|number| match number {
            0 => with_suffix(path, &format!(".{stamp}")),
            number => with_suffix(path, &format!(".{stamp}-{number:03}")),
        })
        .find(|name| !name.exists() && !with_suffix(name, ".gz").exists())
        .ok_or_else(|| io::Error::new(io::ErrorKind::AlreadyExists, "no name is left"))
}

/// True for the end of a renamed file's name, without `.gz`.
fn is_stamp(text: &str) -> bool {
    let (stamp, number) = match text.split_once('-') {
        Some((stamp, number)) => (stamp, Some(number)),
        None => (text, None),
    };
    let shape: String = stamp
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "00000000T000000Z"
        && number.is_none_or(|number| {
            number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit())
        })
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
/// process has left.
pub(super) fn tidy(path: &Path, rotation: Rotation) -> io::Result<()> {
    let mut renamed = renamed_files(path)?;
    let surplus = renamed.len().saturating_sub(rotation.kept_max);
    for (_, old) in renamed.drain(..surplus) {
        remove(&old)?;
    }
    for (_, file) in renamed {
        if rotation.compresses && file.extension().is_none_or(|extension| extension != "gz") {
            compress(&file)?;
        }
    }
    Ok(())
}

/// The renamed files with their stamps, oldest first. Removes what was not completed.
fn renamed_files(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let other = entry.file_name();
        let Some(end) = other
            .to_str()
            .and_then(|other| other.strip_prefix(&*name)?.strip_prefix('.'))
        else {
            continue;
        };
        if end.strip_suffix(".gz.tmp").is_some_and(is_stamp) {
            remove(&entry.path())?;
        } else if is_stamp(end.strip_suffix(".gz").unwrap_or(end)) {
            all.push((end.to_owned(), entry.path()));
        }
    }
    all.sort();
    Ok(all)
}

/// Removes a file that another server may have removed already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn compress(path: &Path) -> io::Result<()> {
    let temporary = with_suffix(path, ".gz.tmp");
    let written = write_compressed(path, &temporary);
    if written.is_err() {
        remove(&temporary)?;
        return written;
    }
    fs::rename(&temporary, with_suffix(path, ".gz"))?;
    remove(path)
}

fn write_compressed(path: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    let out = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(LOG_MODE)
        .open(to)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
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

    #[test]
    fn names_of_renamed_files() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(1_795_392_000), "20261123T000000Z");
        for good in ["20261123T000000Z", "20261123T000000Z-001"] {
            assert!(is_stamp(good), "{good}");
        }
        for bad in [
            "",
            "1",
            "20261123",
            "20261123T000000Z-1",
            "20261123T000000Zx",
            "gz",
        ] {
            assert!(!is_stamp(bad), "{bad}");
        }
    }
}
