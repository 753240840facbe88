//! `No-Vary-Search`: URLs of one path whose queries select the same page.
//!
//! Called by: the look-up and the cached route, to find a page by an equivalent query; `write`, to
//! store it for all of them; purges by URL.
//! Caveat: the last response of a path decides how its queries are compared. Its rule is part of
//! the key, so a page stored by another rule is never taken for an equivalent one.
//! Out of scope: the comparison (`saker_cache_rules::rules::SearchVariance`).

use saker_cache_rules::rules::SearchVariance;
use saker_http::Fields;

/// Longer rules are ignored: queries are compared as they are.
const RULE_BYTES_MAX: usize = 1_024;

/// A path's rule for comparing queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRule {
    /// The value of the field.
    text: Vec<u8>,
    variance: SearchVariance,
}

impl SearchRule {
    /// `None`: queries are compared as they are.
    pub fn of(fields: &Fields) -> Option<SearchRule> {
        let values: Vec<&[u8]> = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("No-Vary-Search"))
            .map(|(_, value)| value)
            .collect();
        SearchRule::parse(values.join(&b", "[..]))
    }

    pub fn parse(text: Vec<u8>) -> Option<SearchRule> {
        let mut fields = Fields::new();
        fields.append("No-Vary-Search", text.clone());
        let variance = SearchVariance::of(&fields);
        (!variance.is_default() && text.len() <= RULE_BYTES_MAX)
            .then_some(SearchRule { text, variance })
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text that represents all equivalent queries in keys. No query has a number sign.
    pub fn query(&self, asked: Option<&[u8]>) -> Vec<u8> {
        let key = self.variance.key_of(asked);
        let pairs = key.strip_prefix(b"?").unwrap_or(&key);
        [pairs, b"#", &self.text].concat()
    }
}

/// The key of the rule of a path; `url` has no query.
pub fn rule_key(url: &[u8]) -> Vec<u8> {
    [url, b"\0\0search"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_queries_share_a_key() {
        let rule = |text: &[u8]| SearchRule::parse(text.to_vec());
        let tracking = rule(b"params=(\"utm\"), key-order").unwrap();
        let query = |asked: &[u8]| tracking.query(Some(asked));
        assert_eq!(query(b"b=2&a=1&utm=x"), query(b"a=1&b=2"));
        assert_ne!(query(b"a=1"), query(b"a=2"));
        assert_eq!(tracking.query(None), query(b"utm=1"));
        // The same pairs by another rule are another page's.
        let other = rule(b"params, except=(\"a\")").unwrap();
        assert_ne!(other.query(Some(b"a=1")), query(b"a=1"));
        assert_eq!(rule(b"key-order=?0"), None);
        assert_eq!(
            rule(&[&b"params=(\""[..], &[b'a'; 2_000], b"\")"].concat()),
            None
        );
    }
}
