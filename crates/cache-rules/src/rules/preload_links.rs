//! Links of a response that a client may follow before the response comes: `preload`,
//! `modulepreload` and `preconnect` (RFC 8288, RFC 8297).
//!
//! Called by: the page cache, for 103 responses made from what a stored page linked.
//! Caveat: the links are sent to clients again, so their number and bytes are limited, and a field
//! that can't be read as a list of links has none.
//! Out of scope: links in the content of a page.

use super::targeted::lines;
use saker_http::{Fields, chars::trim_ows};

/// Maximum links of a page; more are left out.
pub const LINKS_MAX: usize = 16;
/// Maximum bytes of all links of a page.
pub const LINKS_BYTES_MAX: usize = 4 << 10;

/// Relations of resources that a page needs at once.
const RELATIONS: [&[u8]; 3] = [b"preload", b"modulepreload", b"preconnect"];

/// The links worth sending ahead, as link values (RFC 8288 section 3), each once.
pub fn preload_links(fields: &Fields) -> Vec<Vec<u8>> {
    let mut links: Vec<Vec<u8>> = Vec::new();
    let mut left = LINKS_BYTES_MAX;
    for line in lines(fields, "link") {
        for value in members(line).unwrap_or_default() {
            let is_new = !links.iter().any(|link| link == value);
            if links.len() < LINKS_MAX && value.len() <= left && is_new && is_early(value) {
                left -= value.len();
                links.push(value.to_vec());
            }
        }
    }
    links
}

/// The members of a line, separated by commas outside targets and quoted strings. `None`: an open
/// target or quote.
fn members(line: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    let (mut from, mut closing, mut is_escaped) = (0, None, false);
    for (at, byte) in line.iter().enumerate() {
        match (closing, byte) {
            (Some(b'"'), b'\\') if !is_escaped => is_escaped = true,
            (Some(end), byte) => {
                if *byte == end && !is_escaped {
                    closing = None;
                }
                is_escaped = false;
            }
            (None, b'<') => closing = Some(b'>'),
            (None, b'"') => closing = Some(b'"'),
            (None, b',') => {
                found.push(trim_ows(&line[from..at]));
                from = at + 1;
            }
            (None, _) => {}
        }
    }
    found.push(trim_ows(&line[from..]));
    found.retain(|member| !member.is_empty());
    closing.is_none().then_some(found)
}

/// True for a link with one of the relations that is about the page itself.
fn is_early(value: &[u8]) -> bool {
    let Some(rest) = value.strip_prefix(b"<") else {
        return false;
    };
    let Some(end) = memchr::memchr(b'>', rest) else {
        return false;
    };
    let target = &rest[..end];
    let mut relation = None;
    for parameter in rest[end + 1..].split(|byte| *byte == b';').map(trim_ows) {
        let mut parts = parameter.splitn(2, |byte| *byte == b'=');
        let name = trim_ows(parts.next().unwrap_or_default());
        let value = trim_ows(parts.next().unwrap_or_default());
        // Section 3.3: later ones are ignored.
        if name.eq_ignore_ascii_case(b"rel") && relation.is_none() {
            relation = Some(value);
        }
        // Section 3.2: about another resource.
        if name.eq_ignore_ascii_case(b"anchor") {
            return false;
        }
    }
    let relation = relation.unwrap_or_default();
    let words = relation.strip_prefix(b"\"").unwrap_or(relation);
    let words = words.strip_suffix(b"\"").unwrap_or(words);
    !target.is_empty()
        && words.split(|byte| *byte == b' ').any(|word| {
            RELATIONS
                .iter()
                .any(|known| word.eq_ignore_ascii_case(known))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<String> {
        let mut fields = Fields::new();
        lines
            .iter()
            .for_each(|line| fields.append("Link", line.as_bytes().to_vec()));
        preload_links(&fields)
            .into_iter()
            .map(|link| String::from_utf8_lossy(&link).into_owned())
            .collect()
    }

    #[test]
    fn which_links_are_sent_ahead() {
        let rows: [(&[&str], &[&str]); 9] = [
            (
                &["</a.css>; rel=preload; as=style, <https://c.example>;rel=\"preconnect\""],
                &[
                    "</a.css>; rel=preload; as=style",
                    "<https://c.example>;rel=\"preconnect\"",
                ],
            ),
            (
                &["</a>; rel=next", "</b.js>; rel=modulepreload"],
                &["</b.js>; rel=modulepreload"],
            ),
            (
                &["</a,b>; rel=preload; title=\"x, <y>\""],
                &["</a,b>; rel=preload; title=\"x, <y>\""],
            ),
            (
                &["</a>; rel=\"next PRELOAD\""],
                &["</a>; rel=\"next PRELOAD\""],
            ),
            (&["</a>; rel=next; rel=preload"], &[]),
            (&["</a>; rel=preload; anchor=\"/b\""], &[]),
            (
                &["</a>; rel=preload, </a>; rel=preload"],
                &["</a>; rel=preload"],
            ),
            (&["</a>; rel=preload, </b; rel=preload"], &[]),
            (&["<>; rel=preload", "a; rel=preload", "</a>", ","], &[]),
        ];
        for (lines, want) in rows {
            assert_eq!(found(lines), want, "{lines:?}");
        }
    }

    #[test]
    fn links_are_limited() {
        let many: Vec<String> = (0..=LINKS_MAX)
            .map(|number| format!("</{number}>; rel=preload"))
            .collect();
        assert_eq!(found(&[&many.join(",")]).len(), LINKS_MAX);
        let link = |bytes: usize| format!("</{}>; rel=preload", "a".repeat(bytes - 16));
        assert_eq!(found(&[&link(LINKS_BYTES_MAX)]).len(), 1);
        assert_eq!(found(&[&link(LINKS_BYTES_MAX + 1)]).len(), 0);
    }
}
