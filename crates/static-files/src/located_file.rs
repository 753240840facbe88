//! A regular file found for a request, with its precompressed siblings.
//!
//! Called by: `locate`, which finds it, and `make`, which reads it.
//! Caveat: the files are open, so they can't be replaced meanwhile.
//! Out of scope: content.

use crate::representation::Sources;
use saker_files::Resolved;
use saker_http::content_coding::Coding;

/// A regular file found for a request.
pub struct LocatedFile {
    /// From the root.
    pub relative: Vec<u8>,
    pub original: Resolved,
    /// Its precompressed siblings.
    pub siblings: Vec<(Coding, Resolved)>,
}

impl LocatedFile {
    pub fn sources(&self) -> Sources {
        let sibling = |coding| {
            self.siblings
                .iter()
                .find(|sibling| sibling.0 == coding)
                .map(|sibling| sibling.1.metadata)
        };
        Sources {
            identity: self.original.metadata,
            siblings: [Coding::Gzip, Coding::Brotli, Coding::Zstd].map(sibling),
        }
    }

    pub fn take_sibling(&mut self, coding: Coding) -> Option<Resolved> {
        let at = self
            .siblings
            .iter()
            .position(|sibling| sibling.0 == coding)?;
        Some(self.siblings.swap_remove(at).1)
    }
}
