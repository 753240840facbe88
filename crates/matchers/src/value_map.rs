//! Maps from a text to a value, as nginx's `map`.
//!
//! Called by: templates that name a map.
//! Caveat: the order is exact text, longest prefix, longest suffix, first matching pattern, default.
//! A map of one part of the request is recorded as a test with its outcome, so that outcomes which
//! depend on it can be cached.
//! Out of scope: reading map files.

use crate::{
    PathIndex, PathPattern,
    evaluation::{Captures, Evaluation, MatchError},
    sink::{Sink, TextSink},
    template::{Lookup, Template},
    variable::Variable,
};
use saker_ap_expr::{LimitReached, Pattern, Predicate, RequestPart, TextPredicate};
use std::{borrow::Cow, collections::HashMap, rc::Rc, sync::Arc};

/// Patterns with their values, in order.
pub type MapPatterns = Vec<(Pattern, Template)>;

/// A map.
#[derive(Debug)]
pub struct ValueMap {
    source: Template,
    exact: HashMap<Box<[u8]>, Template>,
    /// Longest first.
    prefixes: Vec<(PathPattern, Template)>,
    prefix_index: PathIndex,
    /// Longest first.
    suffixes: Vec<(Box<str>, Template)>,
    patterns: MapPatterns,
    default: Template,
}

impl ValueMap {
    pub fn new(
        source: Template,
        exact: HashMap<Box<[u8]>, Template>,
        prefixes: Vec<(String, Template)>,
        suffixes: Vec<(String, Template)>,
        patterns: MapPatterns,
        default: Template,
    ) -> ValueMap {
        let longest_first = |mut list: Vec<(String, Template)>| {
            list.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
            list
        };
        let prefixes: Vec<(PathPattern, Template)> = longest_first(prefixes)
            .into_iter()
            .map(|(text, value)| (PathPattern::Prefix(text), value))
            .collect();
        ValueMap {
            source,
            exact,
            prefix_index: PathIndex::new(prefixes.iter().map(|(prefix, _)| Some(prefix))),
            prefixes,
            suffixes: longest_first(suffixes)
                .into_iter()
                .map(|(text, value)| (text.into(), value))
                .collect(),
            patterns,
            default,
        }
    }

    /// The source and all values.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        [&self.source, &self.default]
            .into_iter()
            .chain(self.exact.values())
            .chain(self.prefixes.iter().map(|(_, value)| value))
            .chain(self.suffixes.iter().map(|(_, value)| value))
            .chain(self.patterns.iter().map(|(_, value)| value))
    }

    /// Returns the value of a text, and the pattern that chose it.
    fn find(&self, text: &[u8]) -> Result<(&Template, Option<&Pattern>), LimitReached> {
        if let Some(value) = self.exact.get(text) {
            return Ok((value, None));
        }
        if let Some((_, value)) = self
            .prefix_index
            .candidates(text)
            .next()
            .and_then(|at| self.prefixes.get(at))
        {
            return Ok((value, None));
        }
        if let Some((_, value)) = self
            .suffixes
            .iter()
            .find(|(suffix, _)| text.ends_with(suffix.as_bytes()))
        {
            return Ok((value, None));
        }
        for (pattern, value) in &self.patterns {
            if pattern.is_match(text)? {
                return Ok((value, Some(pattern)));
            }
        }
        Ok((&self.default, None))
    }
}

impl Lookup for ValueMap {
    fn expand(
        self: Arc<Self>,
        evaluation: &mut Evaluation<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), MatchError> {
        expand(&self, evaluation, sink)
    }

    fn uses_query(&self) -> bool {
        self.templates().any(Template::uses_query)
    }

    fn uses_user(&self) -> bool {
        self.templates().any(Template::uses_user)
    }

    fn differs_by_client(&self) -> bool {
        self.source.uses_address() || self.templates().any(Template::differs_by_client)
    }
}

fn expand(
    map: &Arc<ValueMap>,
    evaluation: &mut Evaluation<'_>,
    sink: &mut dyn Sink,
) -> Result<(), MatchError> {
    let part = map
        .source
        .single()
        .and_then(|variable| Some((variable, variable.part()?)));
    let text = match &part {
        Some((variable, _)) => variable.peek(evaluation),
        None => {
            let mut text = TextSink::default();
            map.source.expand(evaluation, &mut text)?;
            Cow::Owned(text.0)
        }
    };
    evaluation.charge(text.len());
    let (value, pattern) = map.find(&text)?;
    let uses_captures = value.uses_captures();
    match part {
        Some((_, part)) if uses_captures => evaluation.read(&part),
        Some((variable, part)) => record(map, evaluation, variable, part, value),
        None => {}
    }
    let Some(pattern) = pattern.filter(|_| uses_captures) else {
        return value.expand(evaluation, sink);
    };
    let spans = pattern.captures(&text)?;
    let groups = (1..=pattern.groups())
        .map(|group| spans.map_or_else(Vec::new, |spans| spans.text(group, &text).to_vec()));
    let captures = Cow::Owned(Captures(groups.collect()));
    let around = std::mem::replace(&mut evaluation.captures, captures);
    value.expand(evaluation, sink)?;
    evaluation.captures = around;
    Ok(())
}

fn record(
    map: &Arc<ValueMap>,
    evaluation: &mut Evaluation<'_>,
    variable: &Variable,
    part: RequestPart,
    value: &Template,
) {
    let test = RecordedLookup {
        map: Arc::clone(map),
        variable: variable.clone(),
        value: std::ptr::from_ref(value) as usize,
    };
    evaluation.record(part, Predicate::Other(Rc::new(test)), true);
}

/// The lookup gave this value.
#[derive(Debug)]
struct RecordedLookup {
    map: Arc<ValueMap>,
    variable: Variable,
    /// The value by its address in the map.
    value: usize,
}

impl TextPredicate for RecordedLookup {
    fn holds(&self, text: Option<&[u8]>) -> Option<bool> {
        let (value, _) = self.map.find(&self.variable.value_in(text)).ok()?;
        Some(std::ptr::from_ref(value) as usize == self.value)
    }

    fn identify(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"map\0");
        out.extend((Arc::as_ptr(&self.map) as usize).to_ne_bytes());
        out.extend(self.value.to_ne_bytes());
    }
}
