//! qlog files of recorded connections (`http3_qlog`): one each, bounded in size and number.
//!
//! Called by: `admission`, for each new connection.
//! Caveat: the worker writes them itself. Recording stops when there are enough files, so that a
//! forgotten setting does not fill the disk.

use saker_quic::{Recorder, Recording};
use saker_telemetry::{error_log, message};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

const FILES_MAX: usize = 100;
const FILE_BYTES_MAX: usize = 5_000_000;
const ENDING: &str = "sqlog";

struct QlogFile {
    file: File,
    bytes_left: usize,
}

/// Opens a file; `None`: there are enough, or it cannot be written, which is reported once per
/// `is_said`.
pub fn open(directory: &Path, connection_id: &[u8], is_said: &mut bool) -> Option<Recording> {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let unix_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    match create(directory, unix_ms, connection_id) {
        Ok(file) => file.map(|file| Recording {
            recorder: Box::new(QlogFile {
                file,
                bytes_left: FILE_BYTES_MAX,
            }),
            unix_ms,
        }),
        Err(error) => {
            if !std::mem::replace(is_said, true) {
                error_log::log(
                    &message::QLOG_FAILED,
                    format_args!("{}: {error}", directory.display()),
                );
            }
            None
        }
    }
}

fn create(directory: &Path, unix_ms: u64, connection_id: &[u8]) -> io::Result<Option<File>> {
    fs::create_dir_all(directory)?;
    let is_trace = |entry: &fs::DirEntry| {
        entry
            .path()
            .extension()
            .is_some_and(|ending| ending == ENDING)
    };
    if fs::read_dir(directory)?
        .filter_map(Result::ok)
        .filter(is_trace)
        .take(FILES_MAX)
        .count()
        == FILES_MAX
    {
        return Ok(None);
    }
    let id = connection_id
        .iter()
        .fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
    let path = directory.join(format!("{unix_ms}-{id}.{ENDING}"));
    // Readable by the server only: it contains client addresses.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(Some)
}

impl Recorder for QlogFile {
    /// Whole records only; the first that finds no room ends the file.
    fn record(&mut self, records: &[u8]) {
        let is_room = records.len() <= self.bytes_left && self.file.write_all(records).is_ok();
        self.bytes_left = if is_room {
            self.bytes_left - records.len()
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn files_and_their_bytes_have_an_end() {
        let dir = TempDir::new("qlog-files").unwrap();
        let mut is_said = false;
        let Recording { mut recorder, .. } =
            open(&dir.join("new"), &[0xab, 1], &mut is_said).unwrap();
        for _ in 0..3 {
            recorder.record(&vec![b'x'; 2_000_000]);
        }
        recorder.record(b"no more");
        let files: Vec<_> = fs::read_dir(dir.join("new"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1);
        assert!(
            files[0].to_string_lossy().ends_with("-ab01.sqlog"),
            "{files:?}"
        );
        assert_eq!(fs::metadata(&files[0]).unwrap().len(), 4_000_000);
        (1..FILES_MAX)
            .for_each(|number| fs::write(dir.join(format!("new/{number}.sqlog")), "").unwrap());
        assert!(open(&dir.join("new"), &[2], &mut is_said).is_none() && !is_said);
        fs::remove_file(&files[0]).unwrap();
        assert!(open(&dir.join("new"), &[2], &mut is_said).is_some());
        fs::write(dir.join("file"), "").unwrap();
        assert!(open(&dir.join("file"), &[3], &mut is_said).is_none() && is_said);
    }
}
