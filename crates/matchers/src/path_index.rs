//! An index of path patterns: the routes that a path can match, in the order of the configuration.
//!
//! Called by: route selection.
//! Caveat: a candidate may still not match; patterns without a literal start (`*.png`, most regular
//! expressions) are candidates for every path.
//! Out of scope: matching.

use crate::PathPattern;

/// Candidates by the literal start of their pattern. Literals are sorted, and each knows the
/// longest other literal that is its prefix; so all literals that a path starts with are on one
/// chain, which begins at the greatest literal that is not greater than the path.
#[derive(Clone, Debug, Default)]
pub struct PathIndex {
    literals: Box<[Literal]>,
    /// Patterns without a literal start.
    others: Box<[u32]>,
}

#[derive(Clone, Debug)]
struct Literal {
    text: Box<[u8]>,
    parent: Option<u32>,
    /// Patterns that match this text alone.
    exact: Box<[u32]>,
    /// Patterns that begin with this text.
    prefix: Box<[u32]>,
}

impl PathIndex {
    /// Builds the index of patterns, which are numbered in their order. `None`: never a candidate.
    pub fn new<'p>(patterns: impl Iterator<Item = Option<&'p PathPattern>>) -> PathIndex {
        let (mut entries, mut others) = (Vec::new(), Vec::new());
        for (number, pattern) in (0_u32..).zip(patterns) {
            let Some(pattern) = pattern else { continue };
            let start = pattern.literal_start();
            match start.is_empty() {
                true => others.push(number),
                false => {
                    let is_exact = matches!(pattern, PathPattern::Exact(_));
                    entries.push((start.into_owned().into_bytes(), is_exact, number));
                }
            }
        }
        entries.sort();
        let mut literals: Vec<Literal> = Vec::new();
        for group in entries.chunk_by(|one, other| one.0 == other.0) {
            let numbers = |exact: bool| {
                group
                    .iter()
                    .filter(|entry| entry.1 == exact)
                    .map(|entry| entry.2)
                    .collect()
            };
            let text = group[0].0.as_slice();
            let mut parent = literals.len().checked_sub(1);
            while let Some(at) = parent.filter(|at| !text.starts_with(&literals[*at].text)) {
                parent = literals[at].parent.map(|at| at as usize);
            }
            literals.push(Literal {
                text: text.into(),
                parent: parent.map(|at| at as u32),
                exact: numbers(true),
                prefix: numbers(false),
            });
        }
        PathIndex {
            literals: literals.into(),
            others: others.into(),
        }
    }

    /// Iterates over the numbers of the patterns that may match, in their order.
    pub fn candidates(&self, path: &[u8]) -> Candidates<'_> {
        let mut candidates = Candidates::default();
        candidates.add(&self.others);
        let above = self
            .literals
            .partition_point(|literal| *literal.text <= *path);
        let mut at = above.checked_sub(1);
        while let Some(literal) = at.and_then(|at| self.literals.get(at)) {
            if path.starts_with(&literal.text) {
                candidates.add(&literal.prefix);
                if literal.text.len() == path.len() {
                    candidates.add(&literal.exact);
                }
            }
            at = literal.parent.map(|at| at as usize);
        }
        candidates
    }
}

/// Lists that are merged without allocating; sites have few levels of prefixes.
const LISTS_INLINE: usize = 8;

/// Merges sorted lists of numbers.
#[derive(Debug, Default)]
pub struct Candidates<'i> {
    lists: [&'i [u32]; LISTS_INLINE],
    used: usize,
    more: Vec<&'i [u32]>,
}

impl<'i> Candidates<'i> {
    fn add(&mut self, list: &'i [u32]) {
        if list.is_empty() {
            return;
        }
        match self.lists.get_mut(self.used) {
            Some(free) => {
                *free = list;
                self.used += 1;
            }
            None => self.more.push(list),
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let lists = self.lists.iter_mut().take(self.used).chain(&mut self.more);
        let least = lists
            .filter(|list| !list.is_empty())
            .min_by_key(|list| list.first().copied())?;
        let (first, rest) = least.split_first()?;
        *least = rest;
        Some(*first as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(patterns: &[PathPattern]) -> PathIndex {
        PathIndex::new(patterns.iter().map(Some))
    }

    #[test]
    fn in_the_order_of_the_configuration() {
        let patterns: Vec<PathPattern> = [
            "/a/b/*", "*.png", "/a/*", "/a/b/c", "/b", "*", "/a/b/x*y", "/a/bb/*",
        ]
        .map(PathPattern::new)
        .into();
        let index = index(&patterns);
        let of = |path: &str| index.candidates(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("/a/b/c"), [0, 1, 2, 3, 5]);
        assert_eq!(of("/a/b/xxy"), [0, 1, 2, 5, 6]);
        assert_eq!(of("/a/b"), [1, 2, 5]);
        assert_eq!(of("/b"), [1, 4, 5]);
        assert_eq!(of("/b/"), [1, 5]);
    }

    /// Routes that a path cannot match cost nothing.
    #[test]
    fn ten_thousand_routes_have_no_more_candidates_than_ten() {
        for count in [10, 10_000] {
            let mut patterns: Vec<PathPattern> = (0..count)
                .map(|number| match number % 2 {
                    0 => PathPattern::new(&format!("/app{number}/*")),
                    _ => PathPattern::new(&format!("/page{number}.html")),
                })
                .collect();
            patterns.push(PathPattern::new("/static/*"));
            let index = index(&patterns);
            assert_eq!(
                index.candidates(b"/static/a.css").collect::<Vec<_>>(),
                [count]
            );
            assert_eq!(index.candidates(b"/app4/x").collect::<Vec<_>>(), [4]);
            assert_eq!(index.candidates(b"/elsewhere").count(), 0);
        }
    }

    proptest! {
        #[test]
        fn as_a_search_from_the_first_to_the_last(
            patterns in prop::collection::vec("(/[ab]{0,2}){1,3}\\*?[ab]?", 0..30),
            path in "(/[ab]{0,2}){1,4}",
        ) {
            let patterns: Vec<PathPattern> =
                patterns.iter().map(|text| PathPattern::new(text)).collect();
            let is_match = |at: &usize| patterns[*at].is_match(path.as_bytes()).unwrap();
            let by_index: Vec<usize> =
                index(&patterns).candidates(path.as_bytes()).filter(is_match).collect();
            let one_by_one: Vec<usize> = (0..patterns.len()).filter(is_match).collect();
            prop_assert_eq!(by_index, one_by_one);
        }
    }
}
