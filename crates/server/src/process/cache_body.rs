//! The content of an entry of the page cache, for a preview.
//!
//! Called by: `cache_control`, on a thread of its own.
//! Caveat: the content is a site's, or one client's; rights to it are the caller's to check, by
//! `site` and `is_private` of the answer.

use super::cache_entry::{described, is_page};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use saker_cache_store::{Content, EntryHead, KeyHash, Store, Validity};
use saker_control::BODY_BYTES_MAX;
use saker_page_cache::tags;
use serde_json::Value;
use std::os::unix::fs::FileExt;

/// Answers with the beginning of the content, and what the list says about the entry.
pub fn answer(store: &Store, hash: KeyHash) -> Result<Value, String> {
    let (head, content) = store
        .entry(hash, BODY_BYTES_MAX)
        .filter(|(head, _)| is_page(head))
        .ok_or("no such entry")?;
    let marks = tags::marks(&head);
    if store.validity(head.purge_seq, marks.iter().copied(), |_| false) == Validity::Gone {
        return Err("the entry is purged".to_owned());
    }
    let bytes = content.len();
    let body = beginning(&content)?;
    let mut answer = described(&head, bytes);
    answer["ok"] = true.into();
    answer["content_type"] = field(&head, b"content-type").into();
    answer["content_encoding"] = field(&head, b"content-encoding").into();
    answer["is_cut"] = (body.len() as u64 != bytes).into();
    answer["body"] = STANDARD.encode(body).into();
    Ok(answer)
}

/// As much as an answer takes.
fn beginning(content: &Content) -> Result<Vec<u8>, String> {
    match content {
        Content::Memory(bytes) => {
            let end = bytes.len().min(BODY_BYTES_MAX as usize);
            Ok(bytes[..end].to_vec())
        }
        Content::File {
            file,
            offset,
            length,
            ..
        } => {
            let wanted = (*length).min(BODY_BYTES_MAX);
            let mut bytes = vec![0; usize::try_from(wanted).unwrap_or_default()];
            let read = file.read_exact_at(&mut bytes, *offset);
            read.map_err(|error| format!("the entry cannot be read: {error}"))?;
            Ok(bytes)
        }
    }
}

fn field(head: &EntryHead, name: &[u8]) -> String {
    let mut found = head.fields.iter();
    let found = found.find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map_or_else(String::new, |(_, value)| {
        String::from_utf8_lossy(value).into_owned()
    })
}
