//! "Did you mean": the nearest known word.
//!
//! Called by: messages about unknown keys and words, also of other crates.
//! Caveat: quadratic in the length of the words, which are cut at 64 characters.

/// Returns the candidate nearest to `word`, if it is near enough.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let folded = fold(word);
    let limit = 1 + folded.chars().count() / 4;
    let scored = candidates
        .into_iter()
        .map(|candidate| (distance(&folded, &fold(candidate), limit), candidate));
    scored
        .filter(|(score, _)| *score <= limit)
        .min_by_key(|(score, _)| *score)
        .map(|(_, candidate)| candidate)
}

/// Returns the only candidate that is a part of `word`, or that `word` is a part of: "warn" for
/// "warning".
pub(crate) fn part_of<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let is_part = |candidate: &&&str| {
        let shorter = candidate.len().min(word.len());
        shorter > 2 && (candidate.contains(word) || word.contains(**candidate))
    };
    let mut found = candidates.iter().filter(is_part);
    let first = found.next()?;
    found.next().is_none().then_some(*first)
}

/// Returns whether two words differ only in case and separators, like `KeepAlive-Timeout` and
/// `keepalive_timeout`.
pub fn same_word(a: &str, b: &str) -> bool {
    fold(a) == fold(b)
}

fn fold(word: &str) -> String {
    word.chars()
        .filter(|c| *c != '_' && *c != '-')
        .take(64)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the number of edits (insert, delete, replace, transpose) between two words; above
/// `limit`, it may return `limit + 1`.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, edits) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("abc", "xbc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b, 10), edits, "{a} {b}");
        }
    }

    #[test]
    fn near_words_only() {
        let words = ["listing", "listeners", "index", "root"];
        assert_eq!(nearest("lisitng", words), Some("listing"));
        assert_eq!(nearest("Listners", words), Some("listeners"));
        assert_eq!(nearest("rot", words), Some("root"));
        assert_eq!(nearest("frobnicate", words), None);
    }

    #[test]
    fn parts_of_one_word() {
        let words = ["error", "warn", "nginx", "nginx-path"];
        assert_eq!(part_of("warning", &words), Some("warn"));
        assert_eq!(part_of("err", &words), Some("error"));
        assert_eq!(part_of("nginx-secure-link", &words), Some("nginx"));
        assert_eq!(part_of("ngin", &words), None);
        assert_eq!(part_of("wa", &words), None);
    }

    #[test]
    fn same_words() {
        assert!(same_word("head-Timeout", "head_timeout"));
        assert!(!same_word("head", "heads"));
    }
}
