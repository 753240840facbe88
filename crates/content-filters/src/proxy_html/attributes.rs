//! Attributes of a start tag: addresses and scripts in them are replaced.
//!
//! Called by: `proxy_html`.
//! Caveat: a value is decoded before the rules see it, and encoded again only if they change it. A
//! value with a character reference that is not known here stays as it is where a pattern would have
//! to look at it. Of attributes with one name the first counts, as in browsers.
//! Out of scope: names of elements and attributes, which are configured.

use super::{markup::name_of, rules::HtmlRules, url_map};
use saker_ap_expr::Work;

/// Longest value that is edited.
const VALUE_BYTES_MAX: usize = 32 << 10;

/// An attribute, by its places in the tag.
struct Attribute {
    name: Vec<u8>,
    /// From its quote to the other.
    value: std::ops::Range<usize>,
}

/// Appends a tag with its attributes edited.
pub fn edit(rules: &HtmlRules, work: &Work, tag: &[u8], output: &mut Vec<u8>) {
    let element = name_of(tag);
    if element == b"meta" && describes_charset(tag) && !rules.urls.is_empty() {
        // The field says it, and the page has been decoded.
        return;
    }
    let links = rules.links.get(element.as_slice());
    let mut done = 0;
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for attribute in attributes(tag) {
        let is_among = |names: &[Box<[u8]>]| names.iter().any(|one| **one == *attribute.name);
        let is_link = links.is_some_and(|names| is_among(names));
        let is_event = rules.is_extended && is_among(&rules.events);
        let raw = tag.get(attribute.value.clone()).unwrap_or_default();
        if !is_link && !is_event || seen.contains(&attribute.name) {
            continue;
        }
        seen.push(attribute.name);
        if raw.len() > VALUE_BYTES_MAX {
            continue;
        }
        let Some(changed) = changed(rules, work, unquoted(raw), is_link) else {
            continue;
        };
        output.extend_from_slice(tag.get(done..attribute.value.start).unwrap_or_default());
        output.push(b'"');
        encode(&changed, output);
        output.push(b'"');
        done = attribute.value.end;
    }
    output.extend_from_slice(tag.get(done..).unwrap_or_default());
}

/// The new value. `None`: it stays.
fn changed(rules: &HtmlRules, work: &Work, raw: &[u8], is_link: bool) -> Option<Vec<u8>> {
    let value = decode(raw)?;
    if !is_link {
        let edited = url_map::in_text(&rules.urls, work, value.clone(), url_map::Place::Event);
        return (edited != value).then_some(edited);
    }
    let mapped = url_map::address(&rules.urls, work, &value);
    let mut url = mapped.unwrap_or_else(|| value.clone());
    if rules.lower_case {
        url.make_ascii_lowercase();
    }
    if rules.dos_paths {
        url.iter_mut()
            .filter(|byte| **byte == b'\\')
            .for_each(|byte| *byte = b'/');
    }
    (url != value).then_some(url)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

/// The attributes with values of a start tag.
fn attributes(tag: &[u8]) -> Vec<Attribute> {
    let mut found = Vec::new();
    let end = tag.len().saturating_sub(1);
    let mut at = 1 + name_of(tag).len();
    let skip = |mut at: usize, is: &dyn Fn(u8) -> bool| {
        while at < end && tag.get(at).is_some_and(|byte| is(*byte)) {
            at += 1;
        }
        at
    };
    while at < end {
        at = skip(at, &|byte| is_space(byte) || byte == b'/');
        let name_start = at;
        // A name may begin with an equals sign (HTML section 13.2.5.32).
        at = skip(at + 1, &|byte| {
            !is_space(byte) && !matches!(byte, b'/' | b'=')
        });
        let name = tag.get(name_start..at.min(end)).unwrap_or_default();
        let after = skip(at, &is_space);
        if tag.get(after) != Some(&b'=') || after >= end {
            continue;
        }
        let start = skip(after + 1, &is_space);
        at = match tag.get(start).copied().filter(|_| start < end) {
            Some(quote @ (b'"' | b'\'')) => {
                let close = skip(start + 1, &|byte| byte != quote);
                (close + 1).min(end)
            }
            _ => skip(start, &|byte| !is_space(byte)),
        };
        found.push(Attribute {
            name: name.to_ascii_lowercase(),
            value: start..at,
        });
    }
    found
}

fn unquoted(raw: &[u8]) -> &[u8] {
    match raw {
        [open @ (b'"' | b'\''), inner @ .., close] if open == close => inner,
        _ => raw,
    }
}

/// `<meta http-equiv="Content-Type" …>`
fn describes_charset(tag: &[u8]) -> bool {
    attributes(tag).iter().any(|attribute| {
        let value = unquoted(tag.get(attribute.value.clone()).unwrap_or_default());
        attribute.name == b"http-equiv" && value.eq_ignore_ascii_case(b"content-type")
    })
}

/// A value without character references. `None`: it has one that is not known here.
fn decode(raw: &[u8]) -> Option<Vec<u8>> {
    const NAMED: &[(&[u8], u8)] = &[
        (b"amp", b'&'),
        (b"lt", b'<'),
        (b"gt", b'>'),
        (b"quot", b'"'),
        (b"apos", b'\''),
    ];
    let (mut out, mut rest) = (Vec::with_capacity(raw.len()), raw);
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'&' {
            out.push(*first);
            continue;
        }
        let length = behind
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#')
            .count();
        let name = behind.get(..length).unwrap_or_default();
        // Without a semicolon it is the beginning of a parameter: `?a=1&b=2`.
        if behind.get(length) != Some(&b';') {
            out.push(b'&');
            continue;
        }
        rest = behind.get(length + 1..).unwrap_or_default();
        match NAMED.iter().find(|(known, _)| *known == name) {
            Some((_, byte)) => out.push(*byte),
            None => out.extend_from_slice(numbered(name)?.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Some(out)
}

/// The character of `#47` or `#x2F`.
fn numbered(name: &[u8]) -> Option<char> {
    let digits = std::str::from_utf8(name.strip_prefix(b"#")?).ok()?;
    let number = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    char::from_u32(number.ok()?).filter(|letter| *letter != '\0')
}

fn encode(value: &[u8], output: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'&' => output.extend_from_slice(b"&amp;"),
            b'<' => output.extend_from_slice(b"&lt;"),
            b'>' => output.extend_from_slice(b"&gt;"),
            b'"' => output.extend_from_slice(b"&quot;"),
            byte => output.push(*byte),
        }
    }
}
