//! Purges: `X-LiteSpeed-Purge` and `-Purge2` of responses, and PURGE and REFRESH requests (LSCache
//! protocol 7 and 8).
//!
//! Called by: the page cache; a response's purges are carried out before it is stored.
//! Caveat: a misread purge leaves an outdated page in place, so doubtful text counts as a target.
//! Out of scope: site and client; the caller binds both, and `*` never goes beyond them.

use super::tags::strip_prefix;
use crate::rules::targeted::lines;
use saker_http::Fields;

pub const PURGE: &str = "X-LiteSpeed-Purge";
pub const PURGE_2: &str = "X-LiteSpeed-Purge2";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Private entries of this client only.
    pub private: bool,
    /// Makes entries stale instead of removing them (5, rule 3).
    pub soft: bool,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything in the scope.
    All,
    Tag(Vec<u8>),
    /// All tags with this prefix.
    TagPrefix(Vec<u8>),
    /// Path and query, on this host.
    Url(Vec<u8>),
}

/// All purges of a response, in order.
pub fn purges(fields: &Fields) -> Vec<Purge> {
    lines(fields, PURGE)
        .chain(lines(fields, PURGE_2))
        .flat_map(parse)
        .collect()
}

/// Parses one line: groups separated by semicolons.
pub fn parse(line: &[u8]) -> Vec<Purge> {
    line.split(|byte| *byte == b';').flat_map(group).collect()
}

/// The purges of a PURGE or REFRESH request (8.2, 8.3); `None` for other methods. `header`: its own
/// [`PURGE`] lines, which count only at the purge path. `target`: path and query of the request.
/// Permission is the caller's concern.
pub fn of_request<'a>(
    method: &[u8],
    target: &[u8],
    purge_path: Option<&str>,
    header: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<Purge>> {
    let soft = match method {
        b"PURGE" => false,
        b"REFRESH" => true,
        _ => return None,
    };
    let path = target
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default();
    if purge_path.is_some_and(|purge_path| purge_path.as_bytes() == path) {
        let purges = header.flat_map(parse);
        return Some(
            purges
                .map(|purge| Purge {
                    soft: purge.soft | soft,
                    ..purge
                })
                .collect(),
        );
    }
    // Public entries, and the client's private ones.
    let url = |private| Purge {
        private,
        soft,
        target: Target::Url(target.to_vec()),
    };
    Some(vec![url(false), url(true)])
}

/// `[public, / private,] [stale,] targets`
fn group(text: &[u8]) -> Vec<Purge> {
    let (mut private, mut soft, mut begun) = (false, false, false);
    let mut purges = Vec::new();
    for part in text
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty())
    {
        if !begun {
            match part.to_ascii_lowercase().as_slice() {
                b"public" => private = false,
                b"private" => private = true,
                b"stale" => soft = true,
                _ => begun = true,
            }
            if !begun {
                continue;
            }
        }
        let tag = strip_prefix(part, b"tag=");
        match tag {
            None if part.starts_with(b"/") => purges.push(Purge {
                private,
                soft,
                target: Target::Url(part.to_vec()),
            }),
            _ => push_tags(&mut purges, tag.unwrap_or(part), private, soft),
        }
    }
    purges
}

/// A tag contains no white space, so the text between separators may be several tags.
fn push_tags(purges: &mut Vec<Purge>, text: &[u8], private: bool, soft: bool) {
    for word in text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
    {
        let (word, marked) = without_mark(word);
        let target = match word {
            b"" => continue,
            b"*" => Target::All,
            [prefix @ .., b'*'] => Target::TagPrefix(prefix.to_vec()),
            tag => Target::Tag(tag.to_vec()),
        };
        purges.push(Purge {
            private,
            soft: soft || marked,
            target,
        });
    }
}

/// `~s` and `~stale` make one tag's purge soft.
fn without_mark(word: &[u8]) -> (&[u8], bool) {
    let mark = [&b"~stale"[..], b"~s"]
        .into_iter()
        .find_map(|mark| word.strip_suffix(mark));
    mark.map_or((word, false), |word| (word, true))
}
