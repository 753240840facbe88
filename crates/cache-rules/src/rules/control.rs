//! Cache-Control (RFC 9111 section 5.2) of requests and responses, parsed once from all lines.
//!
//! Called by: every judgement. [`directives`] is the bare grammar, for fields of the same form.
//! Caveat: a malformed value must never extend a lifetime. A directive that forbids counts however
//! it is written, an age counts only if it is a plain number, and contradicting ages are invalid
//! (section 4.2.1).
//! Out of scope: targeted fields with a grammar of their own ([`super::targeted`]).

use saker_http::{HeadView, KnownField, chars};
use std::borrow::Cow;

/// Section 1.2.2: larger values are taken for this, 68 years.
pub const DELTA_SECONDS_MAX: u64 = 1 << 31;

/// An argument in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seconds {
    #[default]
    Absent,
    Given(u64),
    /// Not a number, or two that differ: section 4.2.1 treats such a response as stale.
    Invalid,
}

impl Seconds {
    /// The number, if it is one.
    pub fn given(self) -> Option<u64> {
        match self {
            Seconds::Given(seconds) => Some(seconds),
            Seconds::Absent | Seconds::Invalid => None,
        }
    }

    fn add(&mut self, directive: &Directive<'_>) {
        let found = match directive.seconds() {
            Some(seconds) => Seconds::Given(seconds),
            None => Seconds::Invalid,
        };
        *self = if matches!(self, Seconds::Absent) || *self == found {
            found
        } else {
            Seconds::Invalid
        };
    }
}

/// A directive about the whole response or about some of its fields (sections 5.2.2.4 and 5.2.2.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Absent,
    Whole,
    /// Names in lower case.
    Fields(Vec<String>),
}

impl Scope {
    pub fn is_whole(&self) -> bool {
        *self == Scope::Whole
    }

    pub fn fields(&self) -> &[String] {
        match self {
            Scope::Fields(names) => names,
            Scope::Absent | Scope::Whole => &[],
        }
    }

    pub fn names(&self, field: &str) -> bool {
        self.fields()
            .iter()
            .any(|name| name.eq_ignore_ascii_case(field))
    }

    /// An argument that is not a list of names applies to the whole response.
    pub(super) fn add(&mut self, argument: Option<&[u8]>) {
        let names = argument.and_then(field_names);
        match (names, &mut *self) {
            (None, _) => *self = Scope::Whole,
            (Some(_), Scope::Whole) => {}
            (Some(names), Scope::Absent) => *self = Scope::Fields(names),
            (Some(names), Scope::Fields(held)) => held.extend(names),
        }
    }
}

/// A response's Cache-Control, or the field in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseControl {
    pub max_age: Seconds,
    pub s_maxage: Seconds,
    pub stale_while_revalidate: Seconds,
    pub stale_if_error: Seconds,
    pub no_cache: Scope,
    pub private: Scope,
    pub no_store: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub no_transform: bool,
    /// RFC 8246.
    pub immutable: bool,
}

impl ResponseControl {
    /// From all lines of the field, in order.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> ResponseControl {
        let mut control = ResponseControl::default();
        lines
            .flat_map(directives)
            .for_each(|directive| control.add(&directive));
        control
    }

    pub(super) fn add(&mut self, directive: &Directive<'_>) {
        let mut room = [0; NAME_BYTES_MAX];
        match lowercase(directive.name, &mut room) {
            b"max-age" => self.max_age.add(directive),
            b"s-maxage" => self.s_maxage.add(directive),
            b"stale-while-revalidate" => self.stale_while_revalidate.add(directive),
            b"stale-if-error" => self.stale_if_error.add(directive),
            b"no-cache" => self.no_cache.add(directive.argument.as_deref()),
            b"private" => self.private.add(directive.argument.as_deref()),
            b"no-store" => self.no_store = true,
            // Directives that allow more count only in their standard form.
            b"public" => self.public |= directive.is_plain(),
            b"must-understand" => self.must_understand |= directive.is_plain(),
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"no-transform" => self.no_transform = true,
            // RFC 8246 section 2: arguments are ignored.
            b"immutable" => self.immutable = true,
            // Section 5.2.3: unknown extensions are ignored.
            _ => {}
        }
    }
}

/// Bytes of the longest name of a directive that is known, and some.
const NAME_BYTES_MAX: usize = 32;

/// The name in lower case; empty if it is longer than all known ones.
fn lowercase<'r>(name: &[u8], room: &'r mut [u8; NAME_BYTES_MAX]) -> &'r [u8] {
    let Some(place) = room.get_mut(..name.len()) else {
        return b"";
    };
    place.copy_from_slice(name);
    place.make_ascii_lowercase();
    place
}

/// A request's Cache-Control (section 5.2.1), or Pragma if there is none (section 5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestControl {
    pub max_age: Seconds,
    pub min_fresh: Seconds,
    pub max_stale: MaxStale,
    /// RFC 5861 section 4.
    pub stale_if_error: Seconds,
    pub no_cache: bool,
    pub no_store: bool,
    pub no_transform: bool,
    pub only_if_cached: bool,
}

/// Section 5.2.1.2: without an argument, any stale response is acceptable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxStale {
    #[default]
    Absent,
    Any,
    Seconds(u64),
}

impl RequestControl {
    pub fn of(head: HeadView<'_>) -> RequestControl {
        let mut control = RequestControl::default();
        if head.has(KnownField::CacheControl) {
            head.lines(KnownField::CacheControl)
                .flat_map(directives)
                .for_each(|directive| control.add(&directive));
        } else {
            control.no_cache = head
                .all("pragma")
                .flat_map(directives)
                .any(|directive| directive.name.eq_ignore_ascii_case(b"no-cache"));
        }
        control
    }

    fn add(&mut self, directive: &Directive<'_>) {
        match directive.name.to_ascii_lowercase().as_slice() {
            b"max-age" => self.max_age.add(directive),
            b"min-fresh" => self.min_fresh.add(directive),
            b"max-stale" => self.add_max_stale(directive),
            b"stale-if-error" => self.stale_if_error.add(directive),
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"no-transform" => self.no_transform = true,
            b"only-if-cached" => self.only_if_cached = true,
            _ => {}
        }
    }

    /// The stricter of two wins; an invalid one allows nothing.
    fn add_max_stale(&mut self, directive: &Directive<'_>) {
        let found = match (&directive.argument, directive.seconds()) {
            (None, _) => MaxStale::Any,
            (Some(_), seconds) => MaxStale::Seconds(seconds.unwrap_or(0)),
        };
        self.max_stale = match (self.max_stale, found) {
            (MaxStale::Absent | MaxStale::Any, found) => found,
            (MaxStale::Seconds(held), MaxStale::Seconds(found)) => {
                MaxStale::Seconds(held.min(found))
            }
            (held, _) => held,
        };
    }
}

/// One directive of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// As written, without white space around it.
    pub name: &'a [u8],
    /// Without its quotes.
    pub argument: Option<Cow<'a, [u8]>>,
    /// True if it matches the grammar: a token, and an argument that is a token or a quoted string,
    /// without spaces.
    pub sound: bool,
}

impl Directive<'_> {
    /// The argument as delta-seconds (section 1.2.2); both forms of argument are accepted (section
    /// 5.2).
    pub fn seconds(&self) -> Option<u64> {
        self.argument
            .as_deref()
            .filter(|_| self.sound)
            .and_then(delta_seconds)
    }

    fn is_plain(&self) -> bool {
        self.sound && self.argument.is_none()
    }
}

/// The directives of one line.
pub fn directives(line: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    members(line).map(directive)
}

/// The members of a list. Empty ones are skipped (RFC 9110 section 5.6.1.2); quoted commas do not
/// separate.
pub(super) fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (member, after) = take_until(rest, b',');
            rest = after;
            let member = chars::trim_ows(member);
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    })
}

/// Digits only; a number too large is the largest (section 1.2.2).
pub fn delta_seconds(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| {
        text.iter().fold(0u64, |sum, byte| {
            (sum * 10 + u64::from(byte - b'0')).min(DELTA_SECONDS_MAX)
        })
    })
}

/// Splits at the next separator outside quotes. An unclosed quote quotes nothing: otherwise a
/// `no-store` after it would be ignored.
pub(super) fn take_until(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += quoted_len(&text[at..]).unwrap_or(1),
            byte if *byte == separator => return (&text[..at], &text[at + 1..]),
            _ => at += 1,
        }
    }
    (text, b"")
}

/// Length of the quoted string that the text begins with, quotes included.
fn quoted_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// One member of a list as a directive.
pub(super) fn directive(member: &[u8]) -> Directive<'_> {
    let (name, argument) = match memchr::memchr2(b'=', b'"', member) {
        Some(at) if member[at] == b'=' => (&member[..at], Some(&member[at + 1..])),
        _ => (member, None),
    };
    let (argument, argument_sound) = argument.map_or((None, true), |text| {
        let (text, sound) = unquoted(text);
        (Some(text), sound)
    });
    Directive {
        name: chars::trim_ows(name),
        argument,
        sound: chars::is_token(name) && argument_sound,
    }
}

/// An argument without its quotes and escapes, and whether it was a token or a quoted string.
fn unquoted(text: &[u8]) -> (Cow<'_, [u8]>, bool) {
    let trimmed = chars::trim_ows(text);
    if trimmed.first() != Some(&b'"') || quoted_len(trimmed) != Some(trimmed.len()) {
        return (Cow::Borrowed(trimmed), chars::is_token(text));
    }
    let inner = &trimmed[1..trimmed.len() - 1];
    let sound = trimmed.len() == text.len();
    if !inner.contains(&b'\\') {
        return (Cow::Borrowed(inner), sound);
    }
    let mut escaped = false;
    let plain = inner.iter().copied().filter(|byte| {
        escaped = *byte == b'\\' && !escaped;
        !escaped
    });
    (Cow::Owned(plain.collect()), sound)
}

/// A list of field names in lower case; `None` if malformed.
fn field_names(list: &[u8]) -> Option<Vec<String>> {
    let members = list
        .split(|byte| *byte == b',')
        .map(chars::trim_ows)
        .filter(|name| !name.is_empty());
    let names: Option<Vec<String>> = members
        .map(|name| {
            chars::is_token(name).then(|| String::from_utf8_lossy(name).to_ascii_lowercase())
        })
        .collect();
    names.filter(|names| !names.is_empty())
}

#[cfg(test)]
mod tests;
