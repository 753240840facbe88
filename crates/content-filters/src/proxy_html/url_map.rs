//! Rules that replace addresses (ProxyHTMLURLMap).
//!
//! Called by: `attributes` and `proxy_html`.
//! Caveat: of the rules for an address the first that matches counts (the flag `l` of patterns goes
//! on); in scripts, each one replaces all it finds.
//! Out of scope: variables in rules, and rules with conditions, which front ends resolve.

use saker_ap_expr::{Pattern, Work, words::expand_groups};
use std::borrow::Cow;

/// Replacements in a script.
const REPLACEMENTS_MAX: usize = 10_000;
/// Bytes that a text may grow to.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// The flags of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlRuleFlags {
    /// Addresses stay as they are (`h`).
    pub skips_links: bool,
    /// Scripts in attributes do (`e`).
    pub skips_events: bool,
    /// Scripts and style sheets do (`c`).
    pub skips_scripts: bool,
    /// Only at the beginning of a script (`^`).
    pub at_start: bool,
    /// Only at its end (`$`).
    pub at_end: bool,
    /// Later rules don't see what this one has changed in a script of an attribute (`L`).
    pub is_last: bool,
    /// Later rules see an address that this pattern has changed (`l`).
    pub goes_on: bool,
}

/// Text or a pattern, and what takes its place.
#[derive(Debug)]
pub struct UrlRule {
    pub from: UrlFrom,
    pub to: Box<[u8]>,
    pub flags: UrlRuleFlags,
}

/// The left side of a rule.
#[derive(Debug)]
pub enum UrlFrom {
    Text(Box<[u8]>),
    Pattern(Pattern),
}

/// Places in which a text can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Event,
    Script,
}

impl UrlRule {
    /// A rule for text that addresses begin with.
    pub fn of_text(from: &[u8], to: &[u8], flags: UrlRuleFlags) -> UrlRule {
        UrlRule {
            from: UrlFrom::Text(from.into()),
            to: to.into(),
            flags,
        }
    }

    /// A rule for what a pattern matches.
    pub fn of_pattern(from: Pattern, to: &[u8], flags: UrlRuleFlags) -> UrlRule {
        UrlRule {
            from: UrlFrom::Pattern(from),
            to: to.into(),
            flags,
        }
    }

    fn is_for(&self, place: Place) -> bool {
        match place {
            Place::Event => !self.flags.skips_events,
            Place::Script => !self.flags.skips_scripts,
        }
    }

    /// The address that takes the place of one that this rule is for.
    fn mapped(&self, work: &Work, url: &[u8]) -> Option<Vec<u8>> {
        match &self.from {
            UrlFrom::Text(from) => {
                let start = url.get(..from.len())?;
                let rest = url.get(from.len()..)?;
                start
                    .eq_ignore_ascii_case(from)
                    .then(|| [&*self.to, rest].concat())
            }
            UrlFrom::Pattern(_) => {
                let (start, end, to) = self.found(work, url, 0)?;
                let mapped = [url.get(..start)?, &to, url.get(end..)?].concat();
                (mapped.len() <= TEXT_BYTES_MAX).then_some(mapped)
            }
        }
    }

    /// The next match behind `from`, and what takes its place.
    fn found(
        &self,
        work: &Work,
        text: &[u8],
        from: usize,
    ) -> Option<(usize, usize, Cow<'_, [u8]>)> {
        match &self.from {
            UrlFrom::Text(known) => {
                let rest = text.get(from..)?;
                let at = from
                    + rest
                        .windows(known.len().max(1))
                        .position(|one| one == &**known)?;
                Some((at, at + known.len(), Cow::Borrowed(&*self.to)))
            }
            UrlFrom::Pattern(pattern) => {
                let spans = work
                    .captures_in_content(pattern, text, from)
                    .ok()
                    .flatten()?;
                let whole = spans.get(0)?;
                let mut to = Vec::new();
                expand_groups(&self.to, |group| spans.text(group, text), &mut to);
                Some((whole.start, whole.end, Cow::Owned(to)))
            }
        }
    }
}

/// The address that takes the place of another one. `None`: no rule is for it.
pub fn address(rules: &[impl AsRef<UrlRule>], work: &Work, url: &[u8]) -> Option<Vec<u8>> {
    let mut changed: Option<Vec<u8>> = None;
    let rules = rules.iter().map(AsRef::as_ref);
    for rule in rules.filter(|rule| !rule.flags.skips_links) {
        let Some(new) = rule.mapped(work, changed.as_deref().unwrap_or(url)) else {
            continue;
        };
        changed = Some(new);
        if !rule.flags.goes_on || matches!(rule.from, UrlFrom::Text(_)) {
            break;
        }
    }
    changed
}

/// A script with all that the rules find replaced.
pub fn in_text(rules: &[impl AsRef<UrlRule>], work: &Work, text: Vec<u8>, place: Place) -> Vec<u8> {
    let mut text = text;
    for rule in rules.iter().map(AsRef::as_ref) {
        if !rule.is_for(place) {
            continue;
        }
        work.look_at(text.len());
        let Some(changed) = replaced(rule, work, &text) else {
            continue;
        };
        text = changed;
        // As Apache behaves; its manual says it of all places.
        if rule.flags.is_last && place == Place::Event {
            break;
        }
    }
    text
}

/// `None`: nothing was found.
fn replaced(rule: &UrlRule, work: &Work, text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while let Some((start, end, to)) = rule.found(work, text, at) {
        if rule.flags.at_start && start != 0 {
            break;
        }
        let is_skipped = rule.flags.at_end && end != text.len();
        out.extend_from_slice(text.get(at..start).unwrap_or_default());
        match is_skipped {
            true => out.extend_from_slice(text.get(start..end).unwrap_or_default()),
            false => {
                out.extend_from_slice(&to);
                count += 1;
            }
        }
        at = end;
        if start == end {
            let Some(byte) = text.get(at) else { break };
            out.push(*byte);
            at += 1;
        }
        if count >= REPLACEMENTS_MAX || out.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    (count > 0).then_some(out)
}
