//! Replacing and splitting of texts: `replace`, `sub`, `split`.
//!
//! Called by: the evaluation of words, which passes the replacement as a closure.
//! Caveat: empty matches must neither stop the loop nor match twice at one place.
//! Out of scope: back-references of the outer expression inside a replacement; there `$n` means the
//! current match.

use crate::{
    Pattern,
    evaluation::{Evaluated, Evaluation, within_limit},
    tree::Substitution,
};
use std::{ops::Range, sync::Arc};

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

/// Replaces the first match, or all. `replacement` is evaluated for each match.
pub(super) fn substitute<'f>(
    evaluation: &mut Evaluation<'f>,
    text: &[u8],
    substitution: &Substitution,
    mut replacement: impl FnMut(&mut Evaluation<'f>) -> Evaluated<Vec<u8>>,
) -> Evaluated<Vec<u8>> {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    let (pattern, all) = (&substitution.pattern, substitution.all);
    each_match(evaluation, pattern, text, all, |evaluation, range| {
        out.extend_from_slice(&text[at..range.start]);
        out.extend_from_slice(&replacement(evaluation)?);
        at = range.end;
        within_limit(out.len())
    })?;
    out.extend_from_slice(&text[at..]);
    Ok(out)
}

/// Cuts `text` at every match. A replacement becomes a part of its own.
pub(super) fn split<'f>(
    evaluation: &mut Evaluation<'f>,
    text: &[u8],
    pattern: &Pattern,
    mut replacement: impl FnMut(&mut Evaluation<'f>) -> Evaluated<Option<Vec<u8>>>,
    parts: &mut Vec<Vec<u8>>,
) -> Evaluated<()> {
    let mut at = 0;
    each_match(evaluation, pattern, text, true, |evaluation, range| {
        if !range.is_empty() || range.start > at {
            parts.push(text[at..range.start].to_vec());
            parts.extend(replacement(evaluation)?);
            at = range.end;
        }
        Ok(())
    })?;
    parts.push(text[at..].to_vec());
    Ok(())
}

/// Calls `each` for every match, or the first, with `$0` to `$9` set to it; afterwards they are as
/// before.
fn each_match<'f>(
    evaluation: &mut Evaluation<'f>,
    pattern: &Pattern,
    text: &[u8],
    all: bool,
    mut each: impl FnMut(&mut Evaluation<'f>, Range<usize>) -> Evaluated<()>,
) -> Evaluated<()> {
    let outer = std::mem::take(&mut evaluation.backreferences);
    let subject: Arc<[u8]> = text.into();
    let mut at = 0;
    while let Ok(Some(spans)) = evaluation.captures_at(pattern, text, at) {
        let Some(range) = spans.get(0) else { break };
        evaluation.backreferences.set_shared(&subject, spans);
        each(evaluation, range.clone())?;
        at = if range.is_empty() {
            range.end + 1
        } else {
            range.end
        };
        if !all || at > text.len() {
            break;
        }
    }
    evaluation.backreferences = outer;
    Ok(())
}
