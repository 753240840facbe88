//! Keys of entries, and finding them.
//!
//! Called by: `look_up` and `store`.
//! Caveat: a key that responses vary by leads to a vary record, as for other pages; the values of
//! the fields are compared as sent, except for spaces and case of `Accept-Encoding`.

use crate::{
    cache::{Cached, PageCache},
    key::{BETWEEN, KEY_BYTES_MAX, with_fields},
    page::Page,
};
use saker_http::HeadView;
use std::rc::Rc;

/// Marks keys of the configuration: no URL begins with it.
const MARK: &[u8] = b"\0keyed ";

/// Returns the key of an entry. `None`: it is too long.
pub fn entry_key(zone: &str, key: &[u8]) -> Option<Vec<u8>> {
    let entry = [MARK, zone.as_bytes(), &[BETWEEN], key].concat();
    (entry.len() <= KEY_BYTES_MAX).then_some(entry)
}

/// Returns the key of a variant of an entry.
pub fn variant_key(key: &[u8], names: &[String], head: HeadView<'_>) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    let mut push = |part: &[u8]| {
        values.extend_from_slice(&(part.len() as u32).to_le_bytes());
        values.extend_from_slice(part);
    };
    for name in names {
        push(name.as_bytes());
        let lines: Vec<&[u8]> = head.all(name).collect();
        match (lines.is_empty(), name == "accept-encoding") {
            (true, _) => push(b"-"),
            (false, false) => push(&[b"+", lines.join(&b","[..]).as_slice()].concat()),
            (false, true) => {
                let mut value = lines.join(&b","[..]).to_ascii_lowercase();
                value.retain(|byte| *byte != b' ');
                push(&[b"+", value.as_slice()].concat());
            }
        }
    }
    let key = with_fields(key.to_vec(), &values);
    (key.len() <= KEY_BYTES_MAX).then_some(key)
}

/// Returns the page of a request, of any age.
pub async fn find(cache: &PageCache, key: &[u8], head: HeadView<'_>) -> Option<Rc<Page>> {
    let record = match cache.find(key).await? {
        Cached::Page(page) => return Some(page),
        Cached::Vary(record) => record,
        Cached::Search(_) => return None,
    };
    match cache.find(&variant_key(key, &record.fields, head)?).await? {
        Cached::Page(page) => Some(page),
        Cached::Vary(_) | Cached::Search(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    #[test]
    fn zones_and_variants_do_not_meet() {
        assert_ne!(entry_key("a", b"b\0c"), entry_key("a\0b", b"c2"));
        assert!(entry_key("z", &vec![b'a'; KEY_BYTES_MAX]).is_none());
        let head =
            |fields: &[(&str, &str)]| RequestHead::build("GET", "/", Version::Http11, fields);
        let names = ["accept-encoding".to_owned(), "cookie".to_owned()];
        let key = |fields: &[(&str, &str)]| {
            let head = head(fields);
            variant_key(b"k", &names, head.view()).unwrap()
        };
        assert_eq!(
            key(&[("Accept-Encoding", "gzip, br")]),
            key(&[("Accept-Encoding", "GZIP,br")])
        );
        assert_ne!(key(&[]), key(&[("Cookie", "")]));
        assert_ne!(key(&[("Cookie", "a=1")]), key(&[("Cookie", "a=2")]));
        assert_ne!(key(&[("Accept-Encoding", "gzip")]), key(&[]));
    }
}
