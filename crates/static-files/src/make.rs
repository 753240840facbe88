//! Builds representations from located files, and their codings on demand.
//!
//! Called by: the handler and media files.
//! Caveat: two requests may want the same coding at once; the second waits for the first. Encoding
//! runs on the blocking pool.
//! Out of scope: answering requests (`representation`).

use crate::{
    live_representations::LiveRepresentations,
    located_file::LocatedFile,
    names::{self, is_compressible},
    representation::{Representation, Slot, Sources},
    variant::{Facts, Tag, Variant},
};
use saker_config::model::{CodedTags, Files, Settings};
use saker_content::{
    Content, Loaded,
    byteranges::Boundaries,
    coding::{self, Levels},
    load,
};
use saker_files::{Metadata, Resolved};
use saker_http::content_coding::Coding;
use saker_net::jobs::{self, Cancel, JobKind};
use saker_pipeline::{Exchange, HeadEdits};
use std::{borrow::Cow, cell::Cell, rc::Rc, sync::Arc};

/// A tag may be strong once the modification time is that long ago: a later write can't get the
/// same time.
const STRONG_AFTER_S: i64 = 1;

/// The order of siblings that the configuration does not rank.
const SIBLING_CODINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

/// Content derived from a file.
pub struct Derived {
    /// From the root, as if it were a file.
    pub name: Vec<u8>,
    pub content: Content,
    pub content_type: Cow<'static, str>,
    /// Suffix of its entity tag, after the file's values.
    pub suffix: String,
    pub cache_control: Option<Box<str>>,
    /// Further requests may use the same representation.
    pub is_shared: bool,
}

#[derive(Default)]
pub struct Maker {
    /// Files up to this size are kept in memory.
    pub memory_bytes_max: u64,
    pub boundaries: Rc<Boundaries>,
    pub table: LiveRepresentations,
}

impl Maker {
    /// The representation of a file: one in use, or a new one. `own`: settings of this request
    /// only, without edits.
    pub async fn representation(
        &self,
        exchange: &Exchange,
        own: Option<&Arc<Settings>>,
        found: &LocatedFile,
    ) -> std::io::Result<Rc<Representation>> {
        let edits = exchange.cache.head_edits.as_ref().filter(|_| own.is_none());
        let (settings, now) = (own.unwrap_or(&exchange.routing.settings), exchange.now);
        let living = self
            .table
            .find(settings, edits, &found.relative, &found.sources());
        if let Some(living) =
            living.filter(|living| living.weak_until_s.is_none_or(|until| now <= until))
        {
            return Ok(living);
        }
        let loaded = load(
            found.original.file.try_clone()?,
            found.original.metadata,
            self.memory_bytes_max,
        )
        .await?;
        let settled = loaded.settled;
        let made = Rc::new(self.build(settings, edits, found, loaded, now));
        if settled {
            self.table.insert(&found.relative, &made);
        }
        Ok(made)
    }

    fn build(
        &self,
        settings: &Arc<Settings>,
        edits: Option<&Rc<dyn HeadEdits>>,
        found: &LocatedFile,
        loaded: Loaded,
        now: i64,
    ) -> Representation {
        let content_type = names::content_type(&settings.files, &found.relative);
        let offered = offered(
            settings,
            content_type.as_deref(),
            &loaded.content,
            &found.siblings,
        );
        let facts = Facts {
            settings: Arc::clone(settings),
            edits: edits.cloned(),
            content_type,
            cache_control: None,
            varies: !offered.is_empty() && settings.compression.varies,
            built_s: now,
            boundaries: Rc::clone(&self.boundaries),
        };
        let siblings = found.siblings.iter().map(|sibling| &sibling.1.metadata);
        let weak_until_s = siblings
            .chain([&loaded.metadata])
            .filter_map(|metadata| weak_until(&settings.files, metadata, now))
            .max();
        let tag = Tag::new(
            settings.files.entity_tag,
            &loaded.metadata,
            "",
            weak_until_s.is_some(),
        );
        let identity = Variant::new(
            &facts,
            Coding::Identity,
            loaded.content,
            tag,
            loaded.metadata.mtime_s,
        );
        Representation {
            facts,
            identity,
            offered,
            coded: [Slot::new(), Slot::new(), Slot::new()],
            weak_until_s,
            unsettled: Cell::new(!loaded.settled),
            making: tokio::sync::Mutex::new(()),
            sources: Sources {
                identity: loaded.metadata,
                ..found.sources()
            },
        }
    }

    /// The representation of derived content: one in use, or a new one.
    pub fn derived(
        &self,
        exchange: &Exchange,
        own: Option<&Arc<Settings>>,
        metadata: Metadata,
        derived: Derived,
    ) -> Rc<Representation> {
        let edits = exchange.cache.head_edits.as_ref().filter(|_| own.is_none());
        let (settings, now) = (own.unwrap_or(&exchange.routing.settings), exchange.now);
        let sources = Sources {
            identity: metadata,
            siblings: [None; 3],
        };
        let living = derived
            .is_shared
            .then(|| self.table.find(settings, edits, &derived.name, &sources))
            .flatten();
        if let Some(living) =
            living.filter(|living| living.weak_until_s.is_none_or(|until| now <= until))
        {
            return living;
        }
        let offered = offered(
            settings,
            Some(derived.content_type.as_bytes()),
            &derived.content,
            &[],
        );
        let facts = Facts {
            settings: Arc::clone(settings),
            edits: edits.cloned(),
            content_type: Some(derived.content_type.into_owned().into_bytes()),
            cache_control: derived.cache_control,
            varies: !offered.is_empty() && settings.compression.varies,
            built_s: now,
            boundaries: Rc::clone(&self.boundaries),
        };
        let weak_until_s = weak_until(&settings.files, &metadata, now);
        let tag = Tag::new(
            settings.files.entity_tag,
            &metadata,
            &derived.suffix,
            weak_until_s.is_some(),
        );
        let identity = Variant::new(
            &facts,
            Coding::Identity,
            derived.content,
            tag,
            metadata.mtime_s,
        );
        let made = Rc::new(Representation {
            facts,
            identity,
            offered,
            coded: [Slot::new(), Slot::new(), Slot::new()],
            weak_until_s,
            unsettled: Cell::new(false),
            making: tokio::sync::Mutex::new(()),
            sources,
        });
        if derived.is_shared {
            self.table.insert(&derived.name, &made);
        }
        made
    }

    /// Fills the slot of a coding.
    pub async fn make(
        &self,
        representation: &Representation,
        coding: Coding,
        found: &mut LocatedFile,
    ) {
        let _making = representation.making.lock().await;
        let slot = representation.slot(coding);
        if slot.get().is_some() {
            return;
        }
        let variant = match found.take_sibling(coding) {
            Some(sibling) => self.precompressed(representation, coding, sibling).await,
            None => encoded(representation, coding).await,
        };
        // The lock is held, so the slot is empty.
        let _ = slot.set(variant);
    }

    async fn precompressed(
        &self,
        representation: &Representation,
        coding: Coding,
        sibling: Resolved,
    ) -> Option<Variant> {
        let Ok(loaded) = load(sibling.file, sibling.metadata, self.memory_bytes_max).await else {
            representation.unsettled.set(true);
            return None;
        };
        let facts = &representation.facts;
        if !loaded.settled || loaded.metadata != sibling.metadata {
            representation.unsettled.set(true);
        }
        let weak = representation.weak_until_s.is_some();
        let tag = Tag::new(
            facts.settings.files.entity_tag,
            &loaded.metadata,
            &format!("-{}", coding.token()),
            weak,
        );
        Some(Variant::new(
            facts,
            coding,
            loaded.content,
            tag,
            loaded.metadata.mtime_s,
        ))
    }
}

/// The entity tag that a GET of the file has, without content coding. `None`: it has none. `now`:
/// seconds since the epoch.
pub fn entity_tag(settings: &Settings, metadata: &Metadata, now: i64) -> Option<Vec<u8>> {
    let is_weak = weak_until(&settings.files, metadata, now).is_some();
    let tag = Tag::new(settings.files.entity_tag, metadata, "", is_weak)?;
    Some(tag.as_bytes().to_vec())
}

async fn encoded(representation: &Representation, coding: Coding) -> Option<Variant> {
    let facts = &representation.facts;
    let levels = Levels::from(&facts.settings.compression);
    let metadata = &representation.sources.identity;
    let plain = plain(&representation.identity.content, *metadata)?;
    let compression = &facts.settings.compression;
    let even_if_larger = compression.even_if_larger;
    let work = move |cancel: &Cancel| {
        coding::encode_as_job(cancel, coding, levels, &plain()?, even_if_larger)
    };
    let Ok(encoded) = jobs::run(JobKind::Encoding, None, work).await else {
        // The pool was full or too slow; another request may succeed.
        representation.unsettled.set(true);
        return None;
    };
    let encoded = encoded?;
    let is_weak = representation.weak_until_s.is_some();
    let tag = suffix(compression.tags, coding, levels)
        .and_then(|suffix| Tag::new(facts.settings.files.entity_tag, metadata, &suffix, is_weak));
    Some(Variant::new(
        facts,
        coding,
        Content::Memory(encoded.into()),
        tag,
        metadata.mtime_s,
    ))
}

/// Suffix that distinguishes the entity tag of a coding from that of the plain bytes; `None`: no
/// tag.
fn suffix(tags: CodedTags, coding: Coding, levels: Levels) -> Option<String> {
    match tags {
        CodedTags::Level => Some(format!("-{}{}", coding.token(), levels.of(coding))),
        CodedTags::Coding => Some(format!("-{}", coding.token())),
        CodedTags::Same => Some(String::new()),
        CodedTags::Absent => None,
    }
}

/// A function for the blocking pool that returns the plain bytes. An open file is read there,
/// unless it has changed.
fn plain(
    content: &Content,
    metadata: Metadata,
) -> Option<impl FnOnce() -> Option<Vec<u8>> + Send + 'static> {
    let (data, file) = match content {
        Content::Memory(chunk) => (Some(chunk.bytes().to_vec()), None),
        Content::File { file, .. } => (None, Some(file.try_clone().ok()?)),
        Content::List { .. } => return None,
    };
    Some(move || {
        data.or_else(|| {
            saker_files::read_consistent(file.as_ref()?, &metadata, metadata.size)
                .ok()
                .flatten()
        })
    })
}

/// Until when a tag of this file must be weak, if now (RFC 9110 section 8.8.1).
fn weak_until(files: &Files, metadata: &Metadata, now: i64) -> Option<i64> {
    if files.trusts_young_files {
        return None;
    }
    let age = now.saturating_sub(metadata.mtime_s);
    (-STRONG_AFTER_S..=STRONG_AFTER_S)
        .contains(&age)
        .then(|| metadata.mtime_s.saturating_add(STRONG_AFTER_S))
}

/// The codings of a file, best first: precompressed siblings, which cost nothing, in the configured
/// order and then the others; then what can be encoded on demand.
fn offered(
    settings: &Settings,
    content_type: Option<&[u8]>,
    content: &Content,
    siblings: &[(Coding, Resolved)],
) -> Vec<Coding> {
    let compression = &settings.compression;
    let fits = (compression.min_bytes..=compression.max_bytes).contains(&content.length());
    let on_the_fly = fits && is_compressible(settings, content_type);
    let has_sibling = |coding: Coding| siblings.iter().any(|sibling| sibling.0 == coding);
    let configured: Vec<Coding> = compression
        .codings
        .iter()
        .map(|coding| coding::from_config(*coding))
        .collect();
    let siblings = configured
        .iter()
        .chain(&SIBLING_CODINGS)
        .filter(|coding| has_sibling(**coding));
    let made = configured.iter().filter(|_| on_the_fly);
    let mut offered: Vec<Coding> = siblings.chain(made).copied().collect();
    // A coding named twice is offered once.
    let mut seen = Vec::new();
    offered.retain(|coding| {
        !seen.contains(coding) && {
            seen.push(*coding);
            true
        }
    });
    offered
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_files::Kind;

    #[test]
    fn young_files_have_weak_tags() {
        let at = |mtime_s| Metadata {
            kind: Kind::File,
            size: 1,
            mtime_s,
            mtime_ns: 0,
            ctime_s: 0,
            ctime_ns: 0,
            inode: 1,
            device: 1,
            mode: 0,
            uid: 0,
        };
        let cases = [
            (100, 100, Some(101)),
            (100, 101, Some(101)),
            (100, 102, None),
            (101, 100, Some(102)),
            (102, 100, None),
            (i64::MIN, 5, None),
        ];
        for (mtime, now, expected) in cases {
            let files = Files::default();
            let found = weak_until(&files, &at(mtime), now);
            assert_eq!(found, expected, "{mtime} {now}");
            let trusting = Files {
                trusts_young_files: true,
                ..files
            };
            assert_eq!(weak_until(&trusting, &at(mtime), now), None);
        }
    }
}
