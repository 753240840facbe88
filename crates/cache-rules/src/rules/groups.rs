//! Cache groups (RFC 9875): responses of one origin that are invalidated together.
//!
//! Called by: the page cache, which makes tags of a response's groups, and purges by them after an
//! unsafe request.
//! Caveat: a group belongs to its origin, so its tag names the origin. A response with more groups
//! than are kept must not be stored: it could not be invalidated.
//! Out of scope: invalidating the groups of a URL that a request invalidates without naming them
//! (section 2.2 allows it).

use super::{
    structured::{Item, Member, list},
    tags::TooManyTags,
    targeted::lines,
};
use saker_http::Fields;

/// Groups of a response; section 2 asks for at least 32.
pub const GROUPS_MAX: usize = 128;
/// Bytes of a name; section 2 asks for at least 32.
pub const NAME_BYTES_MAX: usize = 256;

/// The groups of a response (section 2); none if the field is malformed.
/// # Errors
/// More or longer names than are kept.
pub fn of_response(fields: &Fields) -> Result<Vec<Vec<u8>>, TooManyTags> {
    let names = names(fields, "cache-groups");
    let is_kept =
        names.len() <= GROUPS_MAX && names.iter().all(|name| name.len() <= NAME_BYTES_MAX);
    is_kept.then_some(names).ok_or(TooManyTags)
}

/// The groups that a response to an unsafe request invalidates (section 3). The caller has checked
/// the method.
pub fn invalidated(fields: &Fields) -> Vec<Vec<u8>> {
    let mut names = names(fields, "cache-group-invalidation");
    names.retain(|name| name.len() <= NAME_BYTES_MAX);
    names.truncate(GROUPS_MAX);
    names
}

/// A list of strings. Members of other types are ignored, and so is a malformed field.
fn names(fields: &Fields, field: &str) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for member in list(lines(fields, field)).unwrap_or_default() {
        if let Member::Item(Item::String(name)) = member
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[&str]) -> Fields {
        let mut fields = Fields::new();
        for line in lines {
            fields.append("Cache-Groups", line.as_bytes().to_vec());
            fields.append("Cache-Group-Invalidation", line.as_bytes().to_vec());
        }
        fields
    }

    #[test]
    fn lists_of_strings() {
        let rows: [(&[&str], &[&str]); 9] = [
            (&["\"a\", \"b c\""], &["a", "b c"]),
            (&["\"a\"", "\"b\";x=1"], &["a", "b"]),
            (&["\"a\", \"a\", \"A\""], &["a", "A"]),
            (&["\"a\", token, 1, (\"b\"), \"c\""], &["a", "c"]),
            (&["\"\\\"\""], &["\""]),
            (&["a b"], &[]),
            (&["\"a\","], &[]),
            (&["\"a\", \"ä\""], &[]),
            (&[], &[]),
        ];
        for (given, want) in rows {
            let want: Vec<Vec<u8>> = want.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(of_response(&fields(given)), Ok(want.clone()), "{given:?}");
            assert_eq!(invalidated(&fields(given)), want, "{given:?}");
        }
    }

    #[test]
    fn limits() {
        let many = |count: usize, bytes: usize| {
            let names: Vec<String> = (0..count)
                .map(|number| format!("\"{number:0>bytes$}\""))
                .collect();
            fields(&[&names.join(", ")])
        };
        let (edge, over) = (many(GROUPS_MAX, 8), many(GROUPS_MAX + 1, 8));
        assert_eq!(of_response(&edge).map(|names| names.len()), Ok(GROUPS_MAX));
        assert_eq!(of_response(&over), Err(TooManyTags));
        assert_eq!(invalidated(&over).len(), GROUPS_MAX);
        assert!(of_response(&many(1, NAME_BYTES_MAX)).is_ok());
        assert_eq!(of_response(&many(1, NAME_BYTES_MAX + 1)), Err(TooManyTags));
        assert!(invalidated(&many(1, NAME_BYTES_MAX + 1)).is_empty());
    }
}
