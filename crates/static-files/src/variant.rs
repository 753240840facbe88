//! One coding of a file: its content, validators and the two heads that are sent again and again
//! (200 and 304).
//!
//! Called by: `representation` and `make`.
//! Caveat: heads are rebuilt each second where field edits depend on the time.
//! Out of scope: choosing a coding.

use saker_config::model::{EntityTagParts, Settings};
use saker_content::{Content, byteranges::Boundaries};
use saker_files::Metadata;
use saker_http::{
    Fields, Status,
    conditional::Validators,
    content_coding::Coding,
    date::{DATE_BYTES, format_date},
    entity_tag::EntityTag,
    range::RangeRules,
};
use saker_pipeline::{HeadEdits, HeadFacts, ReadyHead, field_edits};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Properties shared by all variants.
pub struct Facts {
    pub settings: Arc<Settings>,
    /// Field edits by rules.
    pub edits: Option<Rc<dyn HeadEdits>>,
    pub content_type: Option<Vec<u8>>,
    /// The lifetime, where known; edits may change it.
    pub cache_control: Option<Box<str>>,
    /// A variant with a coding exists or could be made.
    pub varies: bool,
    /// Build time, seconds since the epoch.
    pub built_s: i64,
    pub boundaries: Rc<Boundaries>,
}

/// Approximate size of line ends, separators and the `Rc` of a head.
const HEAD_OVERHEAD_BYTES: usize = 200;

pub struct Variant {
    pub coding: Coding,
    pub content: Content,
    tag: Option<Tag>,
    modified_s: i64,
    full: RefCell<Kept>,
    /// Made on demand.
    not_modified: RefCell<Option<Kept>>,
}

/// A head, and the second in which it was made.
struct Kept {
    made_s: i64,
    head: Rc<ReadyHead>,
}

impl Variant {
    pub fn new(
        facts: &Facts,
        coding: Coding,
        content: Content,
        tag: Option<Tag>,
        mtime_s: i64,
    ) -> Variant {
        // RFC 9110 section 8.8.2.1: never later than the time of the response.
        let modified_s = mtime_s.min(facts.built_s);
        let fields = full_fields(facts, coding, tag.as_ref(), modified_s, content.length());
        let now = facts.built_s;
        let head = facts.ready_head(Status::OK, modified_s, now, fields);
        Variant {
            coding,
            content,
            tag,
            modified_s,
            full: RefCell::new(Kept { made_s: now, head }),
            not_modified: RefCell::default(),
        }
    }

    pub fn validators(&self, now: i64) -> Validators<'_> {
        Validators {
            entity_tag: self.tag.as_ref().map(Tag::as_entity_tag),
            last_modified: Some(self.modified_s),
            now,
        }
    }

    pub fn full(&self, facts: &Facts, now: i64) -> Rc<ReadyHead> {
        let mut kept = self.full.borrow_mut();
        if facts.is_over(&kept, now) {
            let fields = full_fields(
                facts,
                self.coding,
                self.tag.as_ref(),
                self.modified_s,
                self.content.length(),
            );
            *kept = Kept {
                made_s: now,
                head: facts.ready_head(Status::OK, self.modified_s, now, fields),
            };
        }
        Rc::clone(&kept.head)
    }

    /// RFC 9110 section 15.4.5: what a cache needs to find and refresh the stored response, and
    /// nothing else, unless it is to be as nginx has it.
    pub fn not_modified(&self, facts: &Facts, now: i64) -> Rc<ReadyHead> {
        let mut slot = self.not_modified.borrow_mut();
        if let Some(kept) = slot.as_ref().filter(|kept| !facts.is_over(kept, now)) {
            return Rc::clone(&kept.head);
        }
        let head = self.make_not_modified(facts, now);
        *slot = Some(Kept {
            made_s: now,
            head: Rc::clone(&head),
        });
        head
    }

    fn make_not_modified(&self, facts: &Facts, now: i64) -> Rc<ReadyHead> {
        if facts
            .edits
            .as_ref()
            .is_some_and(|edits| edits.describes_unmodified())
        {
            let mut fields =
                representation_fields(facts, self.coding, self.tag.as_ref(), self.modified_s);
            facts.finish(Status::NOT_MODIFIED, self.modified_s, now, &mut fields);
            for name in ["Content-Type", "Content-Encoding", "Content-Language"] {
                fields.remove(name);
            }
            return Rc::new(ReadyHead::new(Status::NOT_MODIFIED, fields));
        }
        let mut fields = Fields::new();
        if let Some(tag) = &self.tag {
            fields.append("ETag", tag.text.to_vec());
        }
        // nginx sends it beside the tag.
        let sends_date = facts.settings.files.range_rules == RangeRules::AsAsked;
        if self.tag.is_none() || sends_date {
            fields.append("Last-Modified", format_date(self.modified_s).to_vec());
        }
        facts.say_life(&mut fields);
        facts.ready_head(Status::NOT_MODIFIED, self.modified_s, now, fields)
    }

    /// The fields of a 206 with edits, except for those that describe the range, which no edit may
    /// touch.
    pub fn partial_fields(&self, facts: &Facts, now: i64) -> Fields {
        let mut fields =
            representation_fields(facts, self.coding, self.tag.as_ref(), self.modified_s);
        if facts.settings.files.range_rules == RangeRules::AsAsked {
            // As nginx does: the client knows by now.
            fields.remove("Accept-Ranges");
        }
        facts.finish(Status::PARTIAL_CONTENT, self.modified_s, now, &mut fields);
        fields
    }

    pub fn memory_bytes(&self) -> usize {
        let head = |head: &ReadyHead| head.http1.len() * 3 + HEAD_OVERHEAD_BYTES;
        let not_modified = self
            .not_modified
            .borrow()
            .as_ref()
            .map_or(0, |kept| head(&kept.head));
        size_of::<Variant>()
            + self.content.memory_bytes()
            + head(&self.full.borrow().head)
            + not_modified
    }
}

fn full_fields(
    facts: &Facts,
    coding: Coding,
    tag: Option<&Tag>,
    modified_s: i64,
    length: u64,
) -> Fields {
    let mut fields = representation_fields(facts, coding, tag, modified_s);
    fields.append("Content-Length", length.to_string().into_bytes());
    fields
}

fn representation_fields(
    facts: &Facts,
    coding: Coding,
    tag: Option<&Tag>,
    modified_s: i64,
) -> Fields {
    let mut fields = Fields::new();
    if let Some(content_type) = &facts.content_type {
        fields.append("Content-Type", content_type.clone());
    }
    if coding != Coding::Identity {
        fields.append("Content-Encoding", coding.token().as_bytes());
    }
    let date: [u8; DATE_BYTES] = format_date(modified_s);
    fields.append("Last-Modified", date.to_vec());
    if let Some(tag) = tag {
        fields.append("ETag", tag.text.to_vec());
    }
    facts.say_life(&mut fields);
    // RFC 9110 section 14.3. nginx says nothing where there are none.
    let files = &facts.settings.files;
    match (files.ranges_max, files.range_rules) {
        (0, RangeRules::AsAsked) => {}
        // Nor for content that it compresses.
        (_, RangeRules::AsAsked) if coding != Coding::Identity => {}
        (0, RangeRules::Joined | RangeRules::InOrder { .. }) => {
            fields.append("Accept-Ranges", &b"none"[..])
        }
        _ => fields.append("Accept-Ranges", &b"bytes"[..]),
    }
    fields
}

impl Facts {
    /// Applies the configured edits. Vary comes after them, because removing it would poison shared
    /// caches.
    fn ready_head(
        &self,
        status: Status,
        modified_s: i64,
        now: i64,
        mut fields: Fields,
    ) -> Rc<ReadyHead> {
        self.finish(status, modified_s, now, &mut fields);
        Rc::new(ReadyHead::new(status, fields))
    }

    /// Rules of another front end come last: they may remove anything, as in their server.
    fn finish(&self, status: Status, modified_s: i64, now: i64, fields: &mut Fields) {
        field_edits::apply(&self.settings.fields, status, fields);
        if self.varies {
            fields.add_token("Vary", "Accept-Encoding");
        }
        if let Some(edits) = &self.edits {
            edits.apply(
                &HeadFacts {
                    status,
                    now,
                    modified_s: Some(modified_s),
                },
                fields,
            );
        }
    }

    fn say_life(&self, fields: &mut Fields) {
        if let Some(control) = &self.cache_control {
            fields.append("Cache-Control", control.as_bytes().to_vec());
        }
    }

    /// True if another second may give another head.
    fn is_over(&self, kept: &Kept, now: i64) -> bool {
        kept.made_s != now
            && self
                .edits
                .as_deref()
                .is_some_and(HeadEdits::changes_with_time)
    }
}

/// An entity tag as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    weak: bool,
    text: Box<[u8]>,
}

impl Tag {
    /// Inode, size and modification time in microseconds, in hexadecimal digits and this order, as
    /// in Apache. `suffix` distinguishes codings of a file: each has its own bytes (RFC 9110
    /// section 8.8.3.3).
    pub fn new(
        parts: EntityTagParts,
        metadata: &Metadata,
        suffix: &str,
        weak: bool,
    ) -> Option<Tag> {
        let mtime_us = metadata
            .mtime_s
            .wrapping_mul(1_000_000)
            .wrapping_add(i64::from(metadata.mtime_ns / 1000));
        let values = [
            (parts.inode, metadata.inode),
            (parts.size, metadata.size),
            (parts.mtime, mtime_us as u64),
        ];
        let digits: Vec<String> = values
            .iter()
            .filter(|part| part.0)
            .map(|part| format!("{:x}", part.1))
            .collect();
        let start = if weak { "W/" } else { "" };
        (!digits.is_empty()).then(|| Tag {
            weak,
            text: format!("{start}\"{}{suffix}\"", digits.join("-"))
                .into_bytes()
                .into(),
        })
    }

    /// As sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    pub fn as_entity_tag(&self) -> EntityTag<'_> {
        let start = if self.weak { 3 } else { 1 };
        EntityTag {
            weak: self.weak,
            opaque: &self.text[start..self.text.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_files::Kind;

    const METADATA: Metadata = Metadata {
        kind: Kind::File,
        size: 0x11d,
        mtime_s: 1_700_000_000,
        mtime_ns: 123_456_789,
        ctime_s: 0,
        ctime_ns: 0,
        inode: 0xabc,
        device: 1,
        mode: 0o644,
        uid: 0,
    };

    /// Writes the current second.
    struct Clock(bool);

    impl HeadEdits for Clock {
        fn apply(&self, head: &HeadFacts, fields: &mut Fields) {
            fields.set("X-Now", head.now.to_string().into_bytes());
        }

        fn changes_with_time(&self) -> bool {
            self.0
        }

        fn is_same(&self, _: &dyn HeadEdits) -> bool {
            false
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    #[test]
    fn heads_follow_the_clock_where_edits_do() {
        for (follows, expected) in [(true, ["5", "5", "6"]), (false, ["5", "5", "5"])] {
            let facts = Facts {
                settings: std::sync::Arc::default(),
                edits: Some(Rc::new(Clock(follows))),
                content_type: None,
                cache_control: None,
                varies: false,
                built_s: 5,
                boundaries: Rc::default(),
            };
            let content = Content::Memory(saker_pipeline::Chunk::from(b"x".to_vec()));
            let variant = Variant::new(&facts, Coding::Identity, content, None, 1);
            let now = |head: &ReadyHead| {
                String::from_utf8(head.fields.first("X-Now").unwrap().to_vec()).unwrap()
            };
            let full: Vec<String> = [5, 5, 6]
                .iter()
                .map(|at| now(&variant.full(&facts, *at)))
                .collect();
            let unmodified: Vec<String> = [5, 5, 6]
                .iter()
                .map(|at| now(&variant.not_modified(&facts, *at)))
                .collect();
            assert_eq!(
                (full, unmodified),
                (
                    expected.map(String::from).to_vec(),
                    expected.map(String::from).to_vec()
                )
            );
            assert!(
                Rc::ptr_eq(&variant.full(&facts, 6), &variant.full(&facts, 6)),
                "made once a second"
            );
        }
    }

    #[test]
    fn tags_have_the_parts_asked_for() {
        let mtime = format!("{:x}", 1_700_000_000_123_456_u64);
        let cases = [
            ((false, true, true), "", false, format!("\"11d-{mtime}\"")),
            (
                (true, true, true),
                "-br",
                false,
                format!("\"abc-11d-{mtime}-br\""),
            ),
            ((false, false, true), "", true, "W/\"11d\"".into()),
        ];
        for ((inode, mtime, size), suffix, weak, expected) in cases {
            let tag = Tag::new(
                EntityTagParts { inode, mtime, size },
                &METADATA,
                suffix,
                weak,
            )
            .unwrap();
            assert_eq!(tag.text, expected.as_bytes().into());
            assert_eq!(
                Some(tag.as_entity_tag()),
                EntityTag::parse(expected.as_bytes())
            );
        }
        assert_eq!(
            Tag::new(
                EntityTagParts {
                    inode: false,
                    mtime: false,
                    size: false
                },
                &METADATA,
                "",
                false
            ),
            None
        );
    }
}
