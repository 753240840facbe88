//! The change of the configuration that is in progress.
//!
//! Called by: the editor, which applies, confirms, and undoes it; pages, which show it.
//! Out of scope: the note of it on disk (`history_files`).

use crate::history_files::Version;
use std::cell::RefCell;
use tokio::sync::Mutex;

/// The change in progress.
#[derive(Default)]
pub struct Editor {
    pub(crate) pending: RefCell<Option<Pending>>,
    /// One change at a time.
    pub(crate) busy: Mutex<()>,
}

/// An applied change that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub version: Version,
    pub until_s: i64,
}

impl Editor {
    pub fn pending(&self) -> Option<Pending> {
        self.pending.borrow().clone()
    }
}
