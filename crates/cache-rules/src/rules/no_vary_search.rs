//! No-Vary-Search (draft-ietf-httpbis-no-vary-search-04): query parameters that make no difference.
//!
//! Called by: the page cache, whose keys come from [`SearchVariance::key_of`].
//! Caveat: anything unexpected falls back to comparing whole queries, which only costs hits.
//! Out of scope: remembering the variance of a path (the page cache).

use super::{
    structured::{Dictionary, Item, Member, dictionary},
    targeted::lines,
};
use saker_http::{
    Fields,
    query::{form_decoded, parameters},
};

/// The parameters that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Counting {
    #[default]
    All,
    AllBut(Vec<Vec<u8>>),
    Only(Vec<Vec<u8>>),
}

/// "URL search variance" (section 4). The default compares whole queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchVariance {
    counting: Counting,
    any_order: bool,
}

impl SearchVariance {
    pub fn of(fields: &Fields) -> SearchVariance {
        let read = dictionary(lines(fields, "no-vary-search"));
        read.as_ref()
            .and_then(SearchVariance::from_members)
            .unwrap_or_default()
    }

    pub fn is_default(&self) -> bool {
        *self == SearchVariance::default()
    }

    /// Section 6: true if a response for one query answers the other, all else being equal.
    pub fn equivalent(&self, one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
        if self.is_default() {
            one == other
        } else {
            self.key_of(one) == self.key_of(other)
        }
    }

    /// Bytes that equivalent queries share, and others don't. With the default: the query with its
    /// question mark, or nothing.
    pub fn key_of(&self, query: Option<&[u8]>) -> Vec<u8> {
        if self.is_default() {
            return query.map_or_else(Vec::new, |query| [b"?", query].concat());
        }
        let mut pairs = pairs(query.unwrap_or_default());
        match &self.counting {
            Counting::All => {}
            Counting::AllBut(names) => pairs.retain(|pair| !names.contains(&pair.0)),
            Counting::Only(names) => pairs.retain(|pair| names.contains(&pair.0)),
        }
        if self.any_order {
            // Stable: repeated parameters keep their order.
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
        }
        let mut key = b"?".to_vec();
        for (name, value) in pairs {
            push_escaped(&mut key, &name);
            key.push(b'=');
            push_escaped(&mut key, &value);
            key.push(b'&');
        }
        key
    }

    /// Section 5.1; `None` for the default.
    fn from_members(members: &Dictionary) -> Option<SearchVariance> {
        let member = |key: &[u8]| {
            members
                .iter()
                .find(|member| member.0 == key)
                .map(|member| &member.1)
        };
        let any_order = match member(b"key-order") {
            None => false,
            Some(Member::Item(Item::Boolean(truth))) => *truth,
            Some(_) => return None,
        };
        let counting = match (member(b"params"), member(b"except")) {
            (Some(Member::Item(Item::Boolean(true))), None) => Counting::Only(Vec::new()),
            (Some(Member::Item(Item::Boolean(true))), Some(Member::List(names))) => {
                Counting::Only(keys(names)?)
            }
            (None | Some(Member::Item(Item::Boolean(false))), None) => Counting::All,
            (Some(Member::List(names)), None) => match keys(names)? {
                names if names.is_empty() => Counting::All,
                names => Counting::AllBut(names),
            },
            _ => return None,
        };
        Some(SearchVariance {
            counting,
            any_order,
        })
    }
}

fn keys(items: &[Item]) -> Option<Vec<Vec<u8>>> {
    let key = |item: &Item| match item {
        Item::String(text) => Some(decoded(text)),
        _ => None,
    };
    items.iter().map(key).collect()
}

/// The form parser of the URL standard: names with values, empty pieces left out.
fn pairs(query: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    parameters(query)
        .filter(|parameter| !parameter.text.is_empty())
        .map(|parameter| {
            (
                decoded(parameter.name),
                decoded(parameter.value.unwrap_or_default()),
            )
        })
        .collect()
}

/// `+` and percent escapes decoded; invalid UTF-8 becomes the replacement character, as in every
/// browser.
fn decoded(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(&form_decoded(text))
        .into_owned()
        .into_bytes()
}

/// Bytes that mean something in keys (separators of parameters, of the rule, and of the parts of a
/// key, which clients must not be able to set) and those that no URL has are escaped.
fn push_escaped(key: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'%' | b'&' | b'=' | b'#' | ..=b' ' | 0x7f => {
                key.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            byte => key.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variance(value: &str) -> SearchVariance {
        let mut fields = Fields::new();
        fields.append("No-Vary-Search", value.as_bytes().to_vec());
        SearchVariance::of(&fields)
    }

    /// The draft's list of invalid values (section 5.2.1), and those that mean nothing.
    #[test]
    fn values_that_are_the_default() {
        let rows = [
            "",
            "unknown-key",
            "key-order=\"not a boolean\"",
            "params=\"not a boolean or inner list\"",
            "params=(not-a-string)",
            "params=(\"a\"), except=(\"x\")",
            "params=(), except=()",
            "params=?0, except=(\"x\")",
            "params, except=(not-a-string)",
            "params, except=\"not an inner list\"",
            "params, except=?1",
            "except=(\"x\")",
            "except=()",
            "params=?0",
            "params=()",
            "key-order=?0",
            "params, ,",
            "PARAMS",
        ];
        for value in rows {
            assert!(variance(value).is_default(), "{value}");
        }
    }

    #[test]
    fn comparing() {
        let some = |query: &'static str| Some(query.as_bytes());
        let rows = [
            ("", "a=1", "a=1", true),
            ("", "a=x", "%61=x", false),
            ("", "a&&b", "a&b", false),
            ("params", "a=1", "b=2", true),
            ("params=?1", "a=1", "", true),
            ("params=(\"a\")", "a=1&b=2", "b=2&a=9", true),
            ("params=(\"a\")", "a=1&b=2", "b=3", false),
            ("params=(\"a\")", "A=1", "", false),
            ("params, except=(\"x\")", "a=1&x=2", "x=2&b=1", true),
            ("params, except=(\"x\")", "x=1", "x=2", false),
            ("params, except=()", "x=1", "y=2", true),
            ("key-order", "a=1&b=2", "b=2&a=1", true),
            ("key-order", "a=1&a=2", "a=2&a=1", false),
            ("key-order", "a=x", "%61=%78", true),
            ("key-order", "a=\u{e9}", "a=%C3%A9", true),
            ("key-order", "a=%f6", "a=%ef%bf%bd", true),
            ("key-order", "a=x&&&&", "a=x", true),
            ("key-order", "a=", "a", true),
            ("key-order", "a=%20", "a=+", true),
            ("key-order", "a=%", "a=%25", true),
            ("key-order", "a=1%26b=2", "a=1&b=2", false),
            (
                "params=(\"%C3%A9+%E6%B0%97\")",
                "%C3%A9%20%E6%B0%97=1",
                "",
                true,
            ),
            ("params=(\"a\"), key-order", "c=1&a=2&b=3", "b=3&c=1", true),
        ];
        for (value, one, other, want) in rows {
            assert_eq!(
                variance(value).equivalent(some(one), some(other)),
                want,
                "{value}: {one} {other}"
            );
        }
        assert!(!variance("").equivalent(None, some("")));
        assert!(variance("key-order").equivalent(None, some("")));
    }

    /// A key is told apart from its surroundings by bytes that no query may bring in, escaped or
    /// not.
    #[test]
    fn keys_have_no_separators_of_others() {
        let rows: [(&[u8], &[u8]); 4] = [
            (b"a=%00b", b"?a=%00b&"),
            (b"a%23=%0A+%7f", b"?a%23=%0A%20%7F&"),
            (b"a=\0", b"?a=%00&"),
            (b"a=%26%3d%25", b"?a=%26%3D%25&"),
        ];
        for (query, want) in rows {
            let key = variance("key-order").key_of(Some(query));
            assert_eq!(key, want, "{}", String::from_utf8_lossy(query));
        }
    }

    proptest! {
        #[test]
        fn a_key_has_only_bytes_of_urls(bytes in prop::collection::vec(any::<u8>(), 0..6)) {
            let query: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            let key = variance("key-order").key_of(Some(query.as_bytes()));
            prop_assert!(!key.iter().any(|byte| *byte <= b' ' || matches!(byte, b'#' | 0x7f)));
        }

        #[test]
        fn a_key_is_equal_to_itself_in_any_order(names in prop::collection::vec("[a-z%+=]{0,4}", 0..6)) {
            let forward = names.join("&");
            let mut sorted = names.clone();
            sorted.sort();
            prop_assert!(variance("params").equivalent(Some(forward.as_bytes()), Some(b"z")));
            let _ = variance("key-order").key_of(Some(forward.as_bytes()));
        }
    }
}
