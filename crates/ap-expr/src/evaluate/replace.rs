//! Texts made from others by replacing, splitting: `replace`, `sub`, `split`.
//!
//! Difficulty: empty matches must neither stop the walk nor match twice at one place. Absent on
//! purpose: back-references of the outer expression inside a replacement; there `$n` means the
//! match just made.

use super::{Evaluated, Walk, within_limit};
use crate::tree::Substitution;
use std::sync::Arc;

/// Every `from` in `text` by `to`.
pub(super) fn literal(text: &[u8], from: &[u8], to: &[u8]) -> Evaluated<Vec<u8>> {
    if from.is_empty() {
        return Ok(text.to_vec());
    }
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    for found in memchr::memmem::find_iter(text, from) {
        out.extend_from_slice(&text[at..found]);
        out.extend_from_slice(to);
        at = found + from.len();
        within_limit(out.len())?;
    }
    out.extend_from_slice(&text[at..]);
    Ok(out)
}

impl Walk<'_, '_> {
    /// The first match, or all, by the replacement. A plain pattern leaves the text as it is.
    pub(super) fn substitute(
        &mut self,
        text: &[u8],
        substitution: &Substitution,
    ) -> Evaluated<Vec<u8>> {
        let Some(replacement) = &substitution.replacement else {
            return Ok(text.to_vec());
        };
        let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
        self.each_match(text, substitution, |walk, range| {
            out.extend_from_slice(&text[at..range.start]);
            out.extend_from_slice(&walk.word(replacement)?);
            at = range.end;
            within_limit(out.len())
        })?;
        out.extend_from_slice(&text[at..]);
        Ok(out)
    }

    /// Cuts `text` at every match. With a replacement, that becomes a part of its own.
    pub(super) fn split(
        &mut self,
        text: &[u8],
        substitution: &Substitution,
        parts: &mut Vec<Vec<u8>>,
    ) -> Evaluated<()> {
        let mut at = 0;
        self.each_match_of(text, substitution, true, |walk, range| {
            if !range.is_empty() || range.start > at {
                parts.push(text[at..range.start].to_vec());
                if let Some(replacement) = &substitution.replacement {
                    parts.push(walk.word(replacement)?.into_owned());
                }
                at = range.end;
            }
            Ok(())
        })?;
        parts.push(text[at..].to_vec());
        Ok(())
    }

    fn each_match(
        &mut self,
        text: &[u8],
        substitution: &Substitution,
        each: impl FnMut(&mut Self, std::ops::Range<usize>) -> Evaluated<()>,
    ) -> Evaluated<()> {
        self.each_match_of(text, substitution, substitution.all, each)
    }

    /// With `$0` to `$9` set to the match while `each` runs, and as they were afterwards.
    fn each_match_of(
        &mut self,
        text: &[u8],
        substitution: &Substitution,
        all: bool,
        mut each: impl FnMut(&mut Self, std::ops::Range<usize>) -> Evaluated<()>,
    ) -> Evaluated<()> {
        let outer = std::mem::take(&mut self.evaluation.backreferences);
        let subject: Arc<[u8]> = text.into();
        let mut at = 0;
        while let Ok(Some(spans)) = self.captures_at(&substitution.pattern, text, at) {
            let Some(range) = spans.get(0) else { break };
            self.evaluation.backreferences.set_shared(&subject, spans);
            each(self, range.clone())?;
            at = if range.is_empty() {
                range.end + 1
            } else {
                range.end
            };
            if !all || at > text.len() {
                break;
            }
        }
        self.evaluation.backreferences = outer;
        Ok(())
    }
}
