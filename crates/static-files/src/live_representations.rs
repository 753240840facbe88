//! Representations still in use, so that a second dispatch for a file extends one instead of
//! starting over.
//!
//! Called by: `make`.
//! Caveat: holds weak references only. Without this table, clients that want different codings
//! would replace each other's variants forever.
//! Out of scope: how long representations live (the route cache).

use crate::representation::{Representation, Sources};
use saker_config::model::Settings;
use saker_files::Metadata;
use saker_pipeline::{HeadEdits, head_edits::are_same};
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
};

/// Entries before dead ones are removed for the first time.
const PRUNE_AT_LEAST: usize = 64;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    /// Address of the settings. A live representation holds them, so no others can be at that
    /// address.
    settings: usize,
    device: u64,
    inode: u64,
    relative: Box<[u8]>,
}

#[derive(Default)]
pub struct LiveRepresentations {
    entries: RefCell<HashMap<Key, Weak<Representation>>>,
}

impl LiveRepresentations {
    /// A live representation made from exactly these sources.
    pub fn find(
        &self,
        settings: &Arc<Settings>,
        edits: Option<&Rc<dyn HeadEdits>>,
        relative: &[u8],
        sources: &Sources,
    ) -> Option<Rc<Representation>> {
        let found = self
            .entries
            .borrow()
            .get(&key(settings, relative, sources))?
            .upgrade()?;
        let same_edits = are_same(found.facts.edits.as_deref(), edits.map(|edits| &**edits));
        (same_edits && found.sources == *sources).then_some(found)
    }

    pub fn insert(&self, relative: &[u8], representation: &Rc<Representation>) {
        let mut entries = self.entries.borrow_mut();
        if entries.len() >= PRUNE_AT_LEAST && entries.len() == entries.capacity() {
            entries.retain(|_, weak| weak.strong_count() > 0);
        }
        let key = key(
            &representation.facts.settings,
            relative,
            &representation.sources,
        );
        entries.insert(key, Rc::downgrade(representation));
    }
}

fn key(settings: &Arc<Settings>, relative: &[u8], sources: &Sources) -> Key {
    let Metadata { device, inode, .. } = sources.identity;
    Key {
        settings: Arc::as_ptr(settings) as usize,
        device,
        inode,
        relative: relative.into(),
    }
}
