//! A file as clients get it: plain and in its codings, whole, in ranges, or not modified.
//!
//! Called by: the handler, and the route cache for further requests ([`CachedRoute::answer`]), where
//! it must neither wait, allocate nor make a system call for a plain 200 and a 304.
//! Caveat: codings are made on demand while the representation is in use; `answer` declines if a
//! coding is missing, so that the request is dispatched and waits for it.
//! Out of scope: reading files (`make`).

use crate::variant::{Facts, Variant};
use saker_content::byteranges;
use saker_files::Metadata;
use saker_http::{
    HeadView, KnownField, Method, Status,
    conditional::{self, Precondition},
    content_coding::{AcceptedCodings, Coding},
    range::{self, ByteRange, RangeOutcome, RangeRules},
};
use saker_pipeline::{Body, CachedRoute, ReadyHead, Response};
use std::{cell::Cell, rc::Rc};
use tokio::sync::OnceCell;

/// Metadata of everything a representation is made from: equal metadata means equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    pub identity: Metadata,
    /// Precompressed siblings: gzip, brotli, zstd.
    pub siblings: [Option<Metadata>; 3],
}

/// Empty: not made yet. `None`: not available (it would not be smaller).
pub type Slot = OnceCell<Option<Variant>>;

pub struct Representation {
    pub facts: Facts,
    pub identity: Variant,
    /// The codings on offer, best first.
    pub offered: Vec<Coding>,
    /// In the order of [`slot_index`].
    pub coded: [Slot; 3],
    /// Its weak tags become strong at this time; until it is rebuilt, it does not answer later.
    pub weak_until_s: Option<i64>,
    /// Part of it was read from a file that was being written to: not to be reused.
    pub unsettled: Cell<bool>,
    /// Held while a variant is made, so that it is made once.
    pub making: tokio::sync::Mutex<()>,
    /// The files that it was made from, as they were.
    pub sources: Sources,
}

/// The answer to a request.
pub enum Outcome {
    Answer(Response),
    /// This coding is wanted and does not exist yet.
    Make(Coding),
    /// 412.
    Failed,
    /// 416; the length of the selected variant.
    Unsatisfiable(u64),
}

impl CachedRoute for Representation {
    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response> {
        if self.weak_until_s.is_some_and(|until| now > until) {
            return None;
        }
        match self.respond(head, now) {
            Outcome::Answer(response) => Some(response),
            // Errors need a full dispatch: they may have an error document.
            Outcome::Make(_) | Outcome::Failed | Outcome::Unsatisfiable(_) => None,
        }
    }

    fn memory_bytes(&self) -> usize {
        let coded: usize = self
            .coded
            .iter()
            .filter_map(|slot| slot.get()?.as_ref())
            .map(Variant::memory_bytes)
            .sum();
        size_of::<Representation>() + self.identity.memory_bytes() + coded
    }

    fn descriptors(&self) -> usize {
        let coded: usize = self
            .coded
            .iter()
            .filter_map(|slot| slot.get()?.as_ref())
            .map(|variant| variant.content.descriptors())
            .sum();
        self.identity.content.descriptors() + coded
    }
}

impl Representation {
    /// Answers GET or HEAD from what exists so far.
    pub fn respond(&self, head: HeadView<'_>, now: i64) -> Outcome {
        let variant = match self.select(head) {
            Ok(variant) => variant,
            Err(coding) => return Outcome::Make(coding),
        };
        if is_conditional(head) {
            let rule = self.facts.settings.files.modified_since;
            match conditional::evaluate_by(head, Some(&variant.validators(now)), rule) {
                Precondition::Proceed => {}
                Precondition::NotModified => {
                    return Outcome::Answer(Response::ready(
                        variant.not_modified(&self.facts, now),
                        Body::Empty,
                    ));
                }
                Precondition::Failed => return Outcome::Failed,
            }
        }
        match wanted_range(head, self.facts.settings.files.range_rules)
            .filter(|_| conditional::range_applies(head, &variant.validators(self.judged_at(now))))
        {
            Some(value) => self.ranged(variant, value, now),
            None => self.whole(variant, now),
        }
    }

    /// The variant to send (RFC 9110 section 12.5.3); `Err` if the best one does not exist yet.
    fn select(&self, head: HeadView<'_>) -> Result<&Variant, Coding> {
        if self.offered.is_empty() {
            return Ok(&self.identity);
        }
        let accepted = AcceptedCodings::of(head);
        // Ranges of the plain bytes are the same for all clients: downloads can be resumed, media
        // can be sought in.
        let rules = self.facts.settings.files.range_rules;
        if accepted.identity > 0 && wanted_range(head, rules).is_some() {
            return Ok(&self.identity);
        }
        let mut choices = [Coding::Identity; 4];
        let mut count = 0;
        for coding in self
            .offered
            .iter()
            .copied()
            .filter(|coding| !matches!(self.slot(*coding).get(), Some(None)))
        {
            choices[count] = coding;
            count += 1;
        }
        // Identity comes last, and is used where nothing is acceptable: better than a 406 that
        // can't be read either.
        match accepted.best(&choices[..=count]) {
            None | Some(Coding::Identity) => Ok(&self.identity),
            Some(coding) => self
                .slot(coding)
                .get()
                .and_then(Option::as_ref)
                .ok_or(coding),
        }
    }

    /// The slot of a coding other than identity.
    pub fn slot(&self, coding: Coding) -> &Slot {
        &self.coded[slot_index(coding)]
    }

    /// The time that dates in conditions of ranges are judged at: one of this second is strong where
    /// young files are trusted.
    fn judged_at(&self, now: i64) -> i64 {
        now.saturating_add(i64::from(self.facts.settings.files.trusts_young_files))
    }

    fn whole(&self, variant: &Variant, now: i64) -> Outcome {
        Outcome::Answer(Response::ready(
            variant.full(&self.facts, now),
            variant.content.whole(),
        ))
    }

    fn ranged(&self, variant: &Variant, value: &[u8], now: i64) -> Outcome {
        let length = variant.content.length();
        let files = &self.facts.settings.files;
        match range::resolve_by(files.range_rules, value, length, files.ranges_max as usize) {
            RangeOutcome::Whole => self.whole(variant, now),
            RangeOutcome::One(range) => Outcome::Answer(self.part(variant, range, now)),
            RangeOutcome::Many(ranges) => Outcome::Answer(self.parts(variant, &ranges, now)),
            RangeOutcome::Unsatisfiable => Outcome::Unsatisfiable(length),
        }
    }

    /// RFC 9110 section 15.3.7.1.
    fn part(&self, variant: &Variant, range: ByteRange, now: i64) -> Response {
        let mut fields = variant.partial_fields(&self.facts, now);
        fields.append(
            "Content-Range",
            byteranges::content_range(range, variant.content.length()),
        );
        fields.append("Content-Length", range.len().to_string().into_bytes());
        let head = Rc::new(ReadyHead::new(Status::PARTIAL_CONTENT, fields));
        Response::ready(head, variant.content.part(range.first..range.last + 1))
    }

    /// 206 with several parts (RFC 9110 section 14.6).
    fn parts(&self, variant: &Variant, ranges: &[ByteRange], now: i64) -> Response {
        let facts = &self.facts;
        byteranges::response(
            &facts.boundaries,
            facts.content_type.as_deref(),
            variant.partial_fields(facts, now),
            &variant.content,
            ranges,
        )
    }
}

fn slot_index(coding: Coding) -> usize {
    match coding {
        Coding::Identity | Coding::Gzip => 0,
        Coding::Brotli => 1,
        Coding::Zstd => 2,
    }
}

fn is_conditional(head: HeadView<'_>) -> bool {
    use KnownField::*;
    [IfNoneMatch, IfModifiedSince, IfMatch, IfUnmodifiedSince]
        .iter()
        .any(|field| head.has(*field))
}

/// The Range field, which applies to GET only (RFC 9110 section 14.2); repeated fields are ignored.
/// nginx's rules differ in both.
fn wanted_range(head: HeadView<'_>, rules: RangeRules) -> Option<&[u8]> {
    let value = head.known(KnownField::Range)?;
    let is_wanted = match rules {
        RangeRules::Joined | RangeRules::InOrder { .. } => {
            head.method() == Method::Get && head.known_count(KnownField::Range) == 1
        }
        RangeRules::AsAsked => matches!(head.method(), Method::Get | Method::Head),
    };
    is_wanted.then_some(value)
}
