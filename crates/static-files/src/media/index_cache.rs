//! Indexes of recently requested media files, so that the next request does not read them again.
//!
//! Called by: media files; one per worker, bounded by bytes.
//! Caveat: a file is identified by all its metadata; a changed file is another one.
//! Out of scope: content.

use saker_files::Metadata;
use saker_media::{flv, mp4::Movie};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
};

const BYTES_MAX: usize = 16 << 20;

const FILES_MAX: usize = 256;

pub enum MediaIndex {
    Movie(Movie),
    Flv(flv::Index),
}

impl MediaIndex {
    fn bytes(&self) -> usize {
        size_of::<MediaIndex>()
            + match self {
                MediaIndex::Movie(movie) => movie.memory_bytes(),
                MediaIndex::Flv(index) => index.memory_bytes(),
            }
    }
}

/// Most recently used first.
#[derive(Default)]
pub struct IndexCache {
    files: RefCell<VecDeque<(Metadata, Arc<MediaIndex>)>>,
    bytes: Cell<usize>,
}

impl IndexCache {
    pub fn find(&self, metadata: &Metadata) -> Option<Arc<MediaIndex>> {
        let mut files = self.files.borrow_mut();
        let at = files.iter().position(|file| file.0 == *metadata)?;
        let file = files.remove(at)?;
        let found = Arc::clone(&file.1);
        files.push_front(file);
        Some(found)
    }

    pub fn put(&self, metadata: &Metadata, known: &Arc<MediaIndex>) {
        let mut files = self.files.borrow_mut();
        if known.bytes() > BYTES_MAX / 2 || files.iter().any(|file| file.0 == *metadata) {
            return;
        }
        files.push_front((*metadata, Arc::clone(known)));
        self.bytes.set(self.bytes.get() + known.bytes());
        while self.bytes.get() > BYTES_MAX || files.len() > FILES_MAX {
            let Some((_, gone)) = files.pop_back() else {
                break;
            };
            self.bytes
                .set(self.bytes.get().saturating_sub(gone.bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_files::Kind;

    fn metadata(inode: u64) -> Metadata {
        Metadata {
            kind: Kind::File,
            size: 1,
            mtime_s: 0,
            mtime_ns: 0,
            ctime_s: 0,
            ctime_ns: 0,
            inode,
            device: 1,
            mode: 0,
            uid: 0,
        }
    }

    #[test]
    fn the_ones_not_asked_for_go() {
        let known = Arc::new(MediaIndex::Flv(
            flv::Index::read(b"FLV\x01\x05\0\0\0\x09\0\0\0\0".as_slice()).unwrap(),
        ));
        let indexes = IndexCache::default();
        for inode in 0..FILES_MAX as u64 {
            indexes.put(&metadata(inode), &known);
        }
        assert!(indexes.find(&metadata(0)).is_some());
        indexes.put(&metadata(9999), &known);
        assert!(
            indexes.find(&metadata(0)).is_some()
                && indexes.find(&metadata(1)).is_none()
                && indexes.find(&metadata(9999)).is_some()
        );
        assert_eq!(indexes.bytes.get(), FILES_MAX * known.bytes());
    }
}
