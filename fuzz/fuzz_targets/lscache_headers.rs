//! Any LSCache fields: a purge means the same written out in plain form, targets hold no
//! separators, tags of a line are found by a purge of the same line, and two visitors with
//! different cookies never share an identity.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_cache_rules::lscache::{
    Control, LscacheSettings, Purge, Target,
    identity::{Known, identity},
    purge::parse,
    query::KeyEdits,
    tags::tags,
    vary::VaryRules,
};
use saker_http::{Fields, RequestHead, Version};

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (list, one, other) = (part(), part(), part());
    purging(list);
    tagging(list);
    visiting(list, one, other);
    let mut control = Control::default();
    control.apply(list);
    control.life(&LscacheSettings::default(), i64::MAX);
    let mut edits = KeyEdits::default();
    if edits.add(list).is_ok() {
        let once = edits.edited(Some(one));
        assert_eq!(edits.edited(once.as_deref()), once);
    }
});

fn purging(list: &[u8]) {
    let purges = parse(list);
    let written: Vec<Vec<u8>> = purges.iter().map(plain).collect();
    assert_eq!(parse(&written.join(&b";"[..])), purges);
}

/// One purge as a group of its own.
fn plain(purge: &Purge) -> Vec<u8> {
    let scope: &[u8] = if purge.private {
        b"private,"
    } else {
        b"public,"
    };
    let soft: &[u8] = if purge.soft { b"stale," } else { b"" };
    let target = match &purge.target {
        Target::All => b"*".to_vec(),
        // A mark of its own, so that a tag that ends like one is not taken for marked.
        Target::Tag(tag) | Target::TagPrefix(tag) => {
            assert!(
                !tag.iter()
                    .any(|byte| matches!(byte, b',' | b';') || byte.is_ascii_whitespace())
            );
            let star: &[u8] = if matches!(purge.target, Target::TagPrefix(_)) {
                b"*"
            } else {
                b""
            };
            let mark: &[u8] = if purge.soft { b"~s" } else { b"" };
            [b"tag=", tag.as_slice(), star, mark].concat()
        }
        Target::Url(url) => url.clone(),
    };
    [scope, soft, &target].concat()
}

fn tagging(list: &[u8]) {
    let mut answer = Fields::new();
    answer.append("X-LiteSpeed-Tag", list.to_vec());
    if let Ok(found) = tags(&answer, false) {
        assert!(found.private.is_empty());
        let mut sorted = found.public.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), found.public.len());
    }
}

fn visiting(list: &[u8], one: &[u8], other: &[u8]) {
    let clean = |text: &[u8]| {
        String::from_utf8_lossy(text)
            .replace(';', "")
            .trim()
            .to_owned()
    };
    let (one, other) = (clean(one), clean(other));
    let head = |text: &str| {
        RequestHead::build(
            "GET",
            "/",
            Version::Http11,
            &[("Cookie", &format!("cur={text}"))],
        )
    };
    let settings = LscacheSettings::default();
    let (first, second) = (head(&one), head(&other));
    let mut rules = VaryRules::default();
    rules.add_cookies(b"cur");
    rules.add_cookies(list);
    if let (Some(mine), Some(theirs)) = (
        identity(first.view(), Known::default(), &settings),
        identity(second.view(), Known::default(), &settings),
    ) {
        assert_eq!(mine == theirs, one.trim_ascii() == other.trim_ascii());
    }
    assert_eq!(
        rules.string(first.view()) == rules.string(second.view()),
        one.trim_ascii() == other.trim_ascii()
    );
}
