//! No target leads out of the root: what a path becomes has no special segment, is the same when
//! sent again, and is what a plain reading of RFC 3986 says.

#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use saker_fuzz::Input;
use saker_http::host::parse_authority;
use saker_http::target::{Target, split};
use saker_http::{Method, escape, path};

const METHODS: [Method; 4] = [Method::Get, Method::Options, Method::Connect, Method::Post];

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Some(method) = input.byte() else { return };
    let target = input.rest();
    normalized(target);
    match split(METHODS[usize::from(method & 3)], target) {
        Ok(Target::Origin { path, query }) => {
            assert_eq!(together(&[path], query), target);
            normalized(path);
        }
        Ok(Target::Absolute {
            scheme,
            authority,
            path,
            query,
        }) => {
            let written = together(&[scheme, b"://", authority, path], query);
            let without_path = together(&[scheme, b"://", authority], query);
            assert!(written == target || (path == b"/" && without_path == target));
            assert!(parse_authority(authority).is_some());
            normalized(path);
        }
        Ok(Target::Authority(authority)) => {
            assert!(authority == target && parse_authority(authority).is_some())
        }
        Ok(Target::Asterisk) => assert_eq!(target, b"*"),
        Err(_) => {}
    }
});

fn together(parts: &[&[u8]], query: Option<&[u8]>) -> Vec<u8> {
    let question: [&[u8]; 2] = if let Some(query) = query {
        [b"?", query]
    } else {
        [b"", b""]
    };
    [parts.concat(), question.concat()].concat()
}

fn normalized(raw: &[u8]) {
    let mut out = b"left over".to_vec();
    let outcome = path::normalize(raw, &mut out);
    assert_eq!(
        outcome.ok().map(|()| out.as_slice()),
        plain_reading(raw).as_deref()
    );
    if outcome.is_err() {
        return;
    }
    stays_below_the_root(&out);
    let (mut encoded, mut again) = (Vec::new(), Vec::new());
    escape::uri_path(&out, &mut encoded);
    assert!(
        encoded
            .iter()
            .all(|byte| byte.is_ascii_graphic() && !b"?#<>\"".contains(byte))
    );
    assert_eq!(path::normalize(&encoded, &mut again), Ok(()));
    assert_eq!(again, out);
}

fn stays_below_the_root(out: &[u8]) {
    use std::os::unix::ffi::OsStrExt as _;
    assert!(!out.contains(&0));
    let segments: Vec<&[u8]> = out
        .strip_prefix(b"/")
        .expect("absolute")
        .split(|byte| *byte == b'/')
        .collect();
    let (last, others) = segments.split_last().expect("one at least");
    assert!(
        others
            .iter()
            .all(|segment| !matches!(*segment, b"" | b"." | b".."))
            && !matches!(*last, b"." | b"..")
    );
    let below = Path::new(std::ffi::OsStr::from_bytes(&out[1..]));
    assert!(
        below
            .components()
            .all(|component| matches!(component, Component::Normal(_)))
    );
}

/// Segments on a stack. `None`: refused.
fn plain_reading(raw: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut ends_in_slash = true;
    for segment in raw.strip_prefix(b"/")?.split(|byte| *byte == b'/') {
        let name = decoded(segment)?;
        ends_in_slash = matches!(name.as_slice(), b"" | b"." | b"..");
        match name.as_slice() {
            b"" | b"." => {}
            b".." => drop(names.pop()?),
            _ => names.push(name),
        }
    }
    let mut out = b"/".to_vec();
    out.extend_from_slice(&names.join(&b'/'));
    if ends_in_slash && !names.is_empty() {
        out.push(b'/');
    }
    Some(out)
}

fn decoded(segment: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < segment.len() {
        let byte = if segment[at] == b'%' {
            let digits = segment
                .get(at + 1..at + 3)
                .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            at += 2;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
        } else {
            segment[at]
        };
        at += 1;
        if matches!(byte, 0 | b'/') {
            return None;
        }
        out.push(byte);
    }
    Some(out)
}
