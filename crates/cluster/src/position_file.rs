//! Writes the place in the log down, beside the thread that reads the log.
//!
//! Called by: `follow`, which goes on at once: a disk that is busy must not hold up purges.
//! Caveat: the file has an earlier place than the one that is in force, never a later one: a place is
//! handed over after its purges are in the store's journal. After a start, the purges between the
//! two are read and carried out once more, which removes more than necessary and never less.
//! Out of scope: the format (`position`).

use crate::position::Position;
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::{JoinHandle, spawn_blocking};

/// Least time between two writes. Also the time by which the file may be behind, together with the
/// follower's interval of looks.
const WRITE_EVERY: Duration = Duration::from_millis(500);

/// The last write, which may be under way.
#[derive(Default)]
pub struct PositionFile(Mutex<Option<(Instant, JoinHandle<()>)>>);

impl PositionFile {
    /// Has a place written, unless the last write was a moment ago or has not ended. Returns true if
    /// it will be in the file. Must be called within a runtime.
    pub fn write_in_time(&self, folder: &Path, position: &Position, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = last.as_ref().is_some_and(|(at, write)| {
            !write.is_finished() || now.saturating_duration_since(*at) < WRITE_EVERY
        });
        if is_early {
            return false;
        }
        let (folder, position) = (folder.to_path_buf(), position.clone());
        let write = spawn_blocking(move || {
            // The earlier place stays, which will do.
            let _ = position.write(&folder);
        });
        *last = Some((now, write));
        true
    }

    /// Waits for the last write.
    pub async fn finish(&self) {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, write)) = last {
            // A panic was reported.
            let _ = write.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Entry, EntryId};
    use saker_testkit::TempDir;

    fn place(major: u64) -> Position {
        let id = EntryId { major, minor: 0 };
        Position::at(&Entry { id, payload: None })
    }

    #[tokio::test]
    async fn places_are_written_now_and_then_and_never_one_that_was_not_handed_over() {
        let dir = TempDir::new("cluster-position-file").unwrap();
        let (file, begun) = (PositionFile::default(), Instant::now());
        assert!(file.write_in_time(&dir, &place(1), begun));
        assert!(
            !file.write_in_time(&dir, &place(2), begun + WRITE_EVERY / 2),
            "early"
        );
        file.finish().await;
        assert_eq!(Position::read(&dir), Some(place(1)));
        assert!(file.write_in_time(&dir, &place(3), begun + WRITE_EVERY));
        file.finish().await;
        assert_eq!(Position::read(&dir), Some(place(3)));
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_stops_nothing() {
        let dir = TempDir::new("cluster-position-gone").unwrap();
        let (file, gone) = (PositionFile::default(), dir.join("gone"));
        assert!(file.write_in_time(&gone, &place(1), Instant::now()));
        file.finish().await;
        assert_eq!(Position::read(&gone), None);
    }
}
