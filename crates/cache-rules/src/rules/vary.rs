//! Vary: request fields that select among the stored responses of one URI (RFC 9111 section 4.1).
//!
//! Called by: the page cache, for the second half of a key.
//! Caveat: keys must differ whenever the standard says that requests differ, and as little as
//! possible otherwise: each extra spelling costs a fetch. White space and case are normalized where
//! a field's grammar permits, and so is the order of languages of one weight; not that of languages
//! of different weights, since some applications read the order and not the weights.
//! Out of scope: Accept-Encoding, which stored codings answer, and the meaning of values.

use super::targeted::lines;
use saker_http::{
    Fields, HeadView, chars, chars::trim_ows, cookies::cookies, field_name::is_alike,
};
use std::iter;

/// Longer lists are not plausible.
const NAMES_MAX: usize = 32;

/// The names of a Vary field, in lower case, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vary {
    names: Vec<String>,
}

impl Vary {
    /// `None` for `*` and malformed lists.
    pub fn of(fields: &Fields) -> Option<Vary> {
        let mut names = Vec::new();
        let members = lines(fields, "vary")
            .flat_map(|line| line.split(|byte| *byte == b','))
            .map(trim_ows);
        for name in members.filter(|name| !name.is_empty()) {
            if name == b"*" || !chars::is_token(name) {
                return None;
            }
            names.push(std::str::from_utf8(name).ok()?.to_ascii_lowercase());
        }
        Vary::new(names)
    }

    /// From names in any case and order; `None` if there are too many.
    pub fn new(mut names: Vec<String>) -> Option<Vary> {
        names
            .iter_mut()
            .for_each(|name| name.make_ascii_lowercase());
        names.retain(|name| name != "accept-encoding");
        names.sort_unstable();
        names.dedup();
        (names.len() <= NAMES_MAX).then_some(Vary { names })
    }

    /// The same with further names; `None` if there are too many.
    #[must_use]
    pub fn and(self, names: &[String]) -> Option<Vary> {
        match names {
            [] => Some(self),
            names => Vary::new([self.names.as_slice(), names].concat()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn names(&self, name: &str) -> bool {
        self.names.iter().any(|held| held == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Bytes shared by requests that select the same response. Empty for an empty list.
    pub fn secondary_key(&self, request: HeadView<'_>) -> Vec<u8> {
        self.secondary_key_without(request, &[])
    }

    /// The same, ignoring some cookies: names, or prefixes with `*`. An origin with `Vary: Cookie`
    /// means the cookies that it reads, but clients also send those of statistics.
    pub fn secondary_key_without(
        &self,
        request: HeadView<'_>,
        ignored_cookies: &[String],
    ) -> Vec<u8> {
        let mut key = Vec::new();
        for name in &self.names {
            push_sized(&mut key, name.as_bytes());
            // Section 4.1: an absent field matches only an absent field, so an empty value differs.
            let value = combined(request, name).and_then(|value| {
                if name == "cookie" {
                    without(value, ignored_cookies)
                } else {
                    Some(value)
                }
            });
            match value {
                None => key.extend_from_slice(&u32::MAX.to_le_bytes()),
                Some(value) => push_sized(&mut key, &value),
            }
        }
        key
    }

    /// True if this request selects the stored response with that secondary key.
    pub fn matches(&self, stored_key: &[u8], request: HeadView<'_>) -> bool {
        self.secondary_key(request) == stored_key
    }
}

fn push_sized(key: &mut Vec<u8>, part: &[u8]) {
    key.extend_from_slice(&(part.len() as u32).to_le_bytes());
    key.extend_from_slice(part);
}

/// All lines of a field as one normalized value.
fn combined(request: HeadView<'_>, name: &str) -> Option<Vec<u8>> {
    let mut value: Option<Vec<u8>> = None;
    // RFC 9113 section 8.2.3: cookies are joined by semicolons.
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    // Some applications treat `X_Foo` and `X-Foo` as one variable, others don't.
    for (spelling, line) in request
        .fields()
        .filter(|(spelling, _)| is_alike(spelling, name.as_bytes()))
    {
        if value.is_some() {
            value.get_or_insert_default().extend_from_slice(separator);
        }
        let value = value.get_or_insert_default();
        if !spelling.eq_ignore_ascii_case(name.as_bytes()) {
            value.extend_from_slice(spelling);
            value.push(b':');
        }
        value.extend_from_slice(line);
    }
    // Normalize only what a field's own grammar treats as equal: lists, and language ranges and
    // charset names, which ignore case (RFC 9110 sections 12.5.1 to 12.5.4).
    match name {
        "accept" => value.map(|value| evened(&value)),
        "accept-language" => value.map(|value| without_order(&evened(&value).to_ascii_lowercase())),
        "accept-charset" => value.map(|value| evened(&value).to_ascii_lowercase()),
        // Of a field that is not known here, only a list of tokens is sure to be a list (section 5.6.1).
        _ => value.map(|value| match is_token_list(&value) {
            true => evened(&value),
            false => value,
        }),
    }
}

/// True for tokens between commas, with any white space around the commas.
fn is_token_list(value: &[u8]) -> bool {
    value.contains(&b',')
        && value
            .split(|byte| *byte == b',')
            .all(|member| chars::is_token(trim_ows(member)))
}

/// Removes ignored cookies; `None` if none remains.
fn without(field: Vec<u8>, ignored: &[String]) -> Option<Vec<u8>> {
    if ignored.is_empty() {
        return Some(field);
    }
    let is_ignored = |name: &[u8]| {
        ignored
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix.as_bytes()),
                None => name == pattern.as_bytes(),
            })
    };
    let kept: Vec<&[u8]> = cookies(iter::once(&*field))
        .filter(|cookie| !is_ignored(cookie.name))
        .map(|cookie| cookie.text)
        .collect();
    (!kept.is_empty()).then(|| kept.join(&b"; "[..]))
}

/// Removes white space around unquoted commas and semicolons, and empty members.
fn evened(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let (mut quoted, mut escaped) = (false, false);
    for byte in value {
        let byte = *byte;
        if !quoted && matches!(byte, b',' | b';') {
            trim_end(&mut out);
            if byte == b',' && matches!(out.last(), None | Some(b',')) {
                continue;
            }
        } else if !quoted
            && matches!(byte, b' ' | b'\t')
            && matches!(out.last(), None | Some(b',' | b';'))
        {
            continue;
        }
        quoted ^= byte == b'"' && !escaped;
        escaped = quoted && byte == b'\\' && !escaped;
        out.push(byte);
    }
    trim_end(&mut out);
    if out.last() == Some(&b',') {
        out.pop();
    }
    out
}

/// Sorts neighboring members of the same weight, whose order has no meaning (RFC 9110 section
/// 12.5.4). Browsers give each language a weight of its own, so that theirs stay as they are.
fn without_order(value: &[u8]) -> Vec<u8> {
    let members: Vec<&[u8]> = value.split(|byte| *byte == b',').collect();
    let mut sorted = Vec::with_capacity(members.len());
    for equal in members.chunk_by(|one, other| {
        weight(one).is_some_and(|weight_of_one| Some(weight_of_one) == weight(other))
    }) {
        let from = sorted.len();
        sorted.extend_from_slice(equal);
        sorted[from..].sort_unstable();
    }
    sorted.join(&b","[..])
}

/// The weight of a member in thousandths; `None` if it has other parameters.
fn weight(member: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(member).ok()?;
    let Some((_, parameter)) = text.split_once(';') else {
        return Some(1000);
    };
    let (whole, fraction) = match parameter.strip_prefix("q=")?.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (parameter.strip_prefix("q=")?, ""),
    };
    let whole: u16 = whole.parse().ok().filter(|whole| *whole <= 1)?;
    let is_fraction = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths: u16 = format!("{fraction:0<3}").parse().ok()?;
    is_fraction.then_some(whole * 1000 + thousandths)
}

fn trim_end(out: &mut Vec<u8>) {
    while matches!(out.last(), Some(b' ' | b'\t')) {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    fn key(vary: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut response = Fields::new();
        response.append("Vary", vary.as_bytes().to_vec());
        let request = RequestHead::build("GET", "/", Version::Http11, fields);
        Vary::of(&response)
            .expect("a list")
            .secondary_key(request.view())
    }

    /// A Vary list, two requests, and whether one's response answers the other.
    type Row = (
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static [(&'static str, &'static str)],
        bool,
    );

    #[test]
    fn selecting() {
        let rows: [Row; 35] = [
            (
                "Accept-Language",
                &[("accept-language", "de, en;q=0.5")],
                &[("Accept-Language", "DE,en; q=0.5")],
                true,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de")],
                &[("accept-language", "en")],
                false,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de, en")],
                &[("accept-language", "en, de")],
                true,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de;q=0.50, en;q=0.5, fr")],
                &[("accept-language", "en;q=0.5, de;q=0.50, fr")],
                true,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de, en;q=0.5")],
                &[("accept-language", "en;q=0.5, de")],
                false,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de;x=1, en;x=1")],
                &[("accept-language", "en;x=1, de;x=1")],
                false,
            ),
            (
                "Accept",
                &[("accept", "a/a, b/b")],
                &[("accept", "b/b, a/a")],
                false,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de"), ("accept-language", "en")],
                &[("accept-language", "de,en")],
                true,
            ),
            (
                "Accept-Language",
                &[("accept-language", "de,,en,")],
                &[("accept-language", "de,en")],
                true,
            ),
            ("Accept-Language", &[], &[], true),
            ("Accept-Language", &[], &[("accept-language", "")], false),
            (
                "Accept-Encoding",
                &[("accept-encoding", "gzip")],
                &[("accept-encoding", "br")],
                true,
            ),
            (
                "accept-encoding, foo",
                &[("accept-encoding", "gzip"), ("foo", "1")],
                &[("foo", "1")],
                true,
            ),
            ("Foo", &[("foo", "A")], &[("foo", "a")], false),
            (
                "Foo",
                &[("foo", "1"), ("bar", "1")],
                &[("foo", "1"), ("bar", "2")],
                true,
            ),
            (
                "Foo, Bar",
                &[("foo", "1"), ("bar", "1")],
                &[("foo", "1"), ("bar", "2")],
                false,
            ),
            (
                "Foo, Bar",
                &[("foo", "1"), ("bar", "1")],
                &[("bar", "1"), ("foo", "1")],
                true,
            ),
            (
                "Accept",
                &[("accept", "\"a , b\"")],
                &[("accept", "\"a,b\"")],
                false,
            ),
            (
                "Accept",
                &[("accept", "\"a\\\" , b\"")],
                &[("accept", "\"a\\\",b\"")],
                false,
            ),
            (
                "Accept",
                &[("accept", "\"a\" , b")],
                &[("accept", "\"a\",b")],
                true,
            ),
            ("Foo", &[("foo", "a ,b")], &[("foo", "a,b")], true),
            ("Foo", &[("foo", "a,b")], &[("foo", "b,a")], false),
            ("Foo", &[("foo", "a b, c")], &[("foo", "a b,c")], false),
            ("Foo", &[("foo", "a,,b")], &[("foo", "a,b")], false),
            ("Foo", &[("foo", "\"a\", b")], &[("foo", "\"a\",b")], false),
            (
                "Foo",
                &[("foo", "a"), ("foo", "b")],
                &[("foo", "a, b")],
                true,
            ),
            ("Foo", &[("foo", "a b")], &[("foo", "a  b")], false),
            (
                "Cookie",
                &[("cookie", "a=1; b=2")],
                &[("cookie", "a=1"), ("cookie", "b=2")],
                true,
            ),
            (
                "Cookie",
                &[("cookie", "a=1; b=2")],
                &[("cookie", "a=1; b=3")],
                false,
            ),
            ("Cookie", &[("cookie", "a=1; b=2")], &[], false),
            ("a, b", &[("a", "xb")], &[("a", "x"), ("b", "")], false),
            (
                "User-Agent",
                &[("user-agent", "A (x, like y)")],
                &[("user-agent", "A (x, like y)")],
                true,
            ),
            ("X-Foo", &[("x_foo", "1")], &[], false),
            ("X-Foo", &[("x_foo", "1")], &[("x-foo", "1")], false),
            (
                "X-Foo",
                &[("x-foo", "1"), ("x.foo", "2")],
                &[("x-foo", "1")],
                false,
            ),
        ];
        for (vary, one, other, same) in rows {
            assert_eq!(
                key(vary, one) == key(vary, other),
                same,
                "{vary}: {one:?} {other:?}"
            );
        }
    }

    #[test]
    fn cookies_that_are_as_good_as_not_sent() {
        let vary = Vary::new(vec!["Cookie".into()]).expect("few");
        let ignored = ["_ga*".to_owned(), "seen".to_owned()];
        let key = |fields: &[(&str, &str)]| {
            vary.secondary_key_without(
                RequestHead::build("GET", "/", Version::Http11, fields).view(),
                &ignored,
            )
        };
        let rows = [
            ("a=1; _ga=2; _ga_X=3", "a=1", true),
            ("seen=1;a=1", "a=1", true),
            ("a=1; b=2", "a=1;b=2", true),
            ("SEEN=1; a=1", "a=1", false),
            ("a=1; seenx=1", "a=1", false),
            ("a=_ga", "", false),
        ];
        for (one, other, same) in rows {
            assert_eq!(
                key(&[("cookie", one)]) == key(&[("cookie", other)]),
                same,
                "{one} {other}"
            );
        }
        assert_eq!(
            key(&[("cookie", "_ga=1; seen=2")]),
            key(&[]),
            "none left is none sent"
        );
    }

    #[test]
    fn lists_that_select_nothing() {
        let of = |lines: &[&str]| {
            let mut fields = Fields::new();
            lines
                .iter()
                .for_each(|line| fields.append("vary", line.as_bytes().to_vec()));
            Vary::of(&fields)
        };
        for lines in [
            &["*"][..],
            &["a, *"],
            &["a", "*"],
            &["a b"],
            &["\"a\""],
            &["a;b"],
        ] {
            assert_eq!(of(lines), None, "{lines:?}");
        }
        let many = (0..33)
            .map(|number| format!("x{number}"))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(of(&[&many]), None);
        assert!(of(&[]).expect("a list").is_empty());
        assert_eq!(
            of(&["B, a", "A,,"])
                .expect("a list")
                .iter()
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
    }
}
