//! mod_expires: how long a response may be kept, by its type.
//!
//! Difficulty: Apache's reading of periods is generous (any word that begins like the unit is the
//! unit) and configurations rely on it.

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;
use saker_http::{Fields, date::format_date};
use saker_pipeline::HeadFacts;
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub struct Expires {
    pub active: Option<bool>,
    pub default: Option<Period>,
    /// By type in lower case; `text/*` is one.
    pub by_type: HashMap<Box<str>, Period>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub base: Base,
    pub seconds: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Access,
    Modification,
}

impl Expires {
    pub const DIRECTIVES: &'static [(&'static str, Set<Expires>)] = &[
        ("ExpiresActive", |node, expires, _| {
            crate::arguments::set_flag(node, &mut expires.active)
        }),
        ("ExpiresDefault", set_default),
        ("ExpiresByType", set_by_type),
    ];

    pub fn merge(&self, over: &Expires) -> Expires {
        let mut by_type = self.by_type.clone();
        by_type.extend(
            over.by_type
                .iter()
                .map(|(kind, period)| (kind.clone(), *period)),
        );
        Expires {
            active: over.active.or(self.active),
            default: said(&self.default, &over.default),
            by_type,
        }
    }

    pub fn is_active(&self) -> bool {
        self.active == Some(true) && (self.default.is_some() || !self.by_type.is_empty())
    }

    /// Returns true if a lifetime begins with the change of a file.
    pub fn asks_modification(&self) -> bool {
        let periods = self.default.iter().chain(self.by_type.values());
        self.is_active()
            && periods
                .into_iter()
                .any(|one| one.base == Base::Modification)
    }

    /// Lays the lifetime over a response that has none of its own.
    pub fn apply(&self, head: &HeadFacts, fields: &mut Fields) {
        if head.status.is_error() || fields.has("Expires") {
            return;
        }
        let Some(period) = self.period(fields.first("Content-Type").unwrap_or_default()) else {
            return;
        };
        let base = match (period.base, head.modified_s) {
            (Base::Access, _) => head.now,
            (Base::Modification, Some(modified_s)) => modified_s,
            (Base::Modification, None) => return,
        };
        // What is over is over now.
        let expires = base.saturating_add(period.seconds).max(head.now);
        let age = format!("max-age={}", expires - head.now).into_bytes();
        let merged = match fields.first("Cache-Control") {
            Some(old) => [old, b", ", &age].concat(),
            None => age,
        };
        fields.set("Cache-Control", merged);
        fields.set("Expires", format_date(expires).to_vec());
    }

    fn period(&self, content_type: &[u8]) -> Option<Period> {
        let bare = content_type
            .split(|byte| matches!(byte, b';' | b' ' | b'\t'))
            .next()
            .unwrap_or_default();
        let bare = String::from_utf8_lossy(bare).to_ascii_lowercase();
        let major = bare.split('/').next().unwrap_or_default();
        self.by_type
            .get(bare.as_str())
            .or_else(|| self.by_type.get(format!("{major}/*").as_str()))
            .copied()
            .or(self.default)
    }
}

impl Period {
    /// `A3600`, `M0`, or `access plus 1 month 2 days`.
    pub fn parse(code: &str) -> Result<Period, String> {
        if let Some(digits) = code.strip_prefix('A') {
            return Ok(Period {
                base: Base::Access,
                seconds: leading_number(digits),
            });
        }
        if let Some(digits) = code.strip_prefix('M') {
            return Ok(Period {
                base: Base::Modification,
                seconds: leading_number(digits),
            });
        }
        let mut words = code.split_ascii_whitespace().peekable();
        let word = words.next().unwrap_or_default();
        let base = match word.bytes().next().map(|byte| byte.to_ascii_lowercase()) {
            Some(b'n' | b'a') => Base::Access,
            Some(b'm') => Base::Modification,
            _ => return Err(format!("bad expires code, unrecognized <base> '{word}'")),
        };
        words.next_if(|word| word.starts_with(['p', 'P']));
        let mut seconds = 0_i64;
        while let Some(word) = words.next() {
            if !word.starts_with(|first: char| first.is_ascii_digit()) {
                return Err(format!(
                    "bad expires code, numeric value expected <num> '{word}'"
                ));
            }
            let unit = words.next().ok_or("bad expires code, missing <type>")?;
            let factor = unit_seconds(unit)
                .ok_or_else(|| format!("bad expires code, unrecognized <type>'{unit}'"))?;
            seconds = seconds.saturating_add(factor.saturating_mul(leading_number(word)));
        }
        Ok(Period { base, seconds })
    }
}

/// By the letters that tell units apart.
fn unit_seconds(word: &str) -> Option<i64> {
    const DAY: i64 = 24 * 60 * 60;
    let lower = word.to_ascii_lowercase();
    Some(match lower.as_bytes() {
        [b'y', ..] => 365 * DAY,
        [b'm', b'o', ..] => 30 * DAY,
        [b'w', ..] => 7 * DAY,
        [b'd', ..] => DAY,
        [b'h', ..] => 60 * 60,
        [b'm', b'i', ..] => 60,
        [b's', ..] => 1,
        _ => return None,
    })
}

/// The digits (and sign) at the beginning; none are 0.
fn leading_number(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits
        .find(|digit: char| !digit.is_ascii_digit())
        .unwrap_or(digits.len());
    let number = digits
        .get(..end)
        .unwrap_or_default()
        .parse::<i32>()
        .unwrap_or(if end == 0 { 0 } else { i32::MAX });
    if negative {
        -i64::from(number)
    } else {
        number.into()
    }
}

fn set_default(node: &Node, expires: &mut Expires, _: &mut Reading<'_>) -> Result<(), String> {
    let code = texts(node).into_iter().next().unwrap_or_default();
    let period =
        Period::parse(&code).map_err(|error| format!("'ExpiresDefault {code}': {error}"))?;
    expires.default = Some(period);
    Ok(())
}

fn set_by_type(node: &Node, expires: &mut Expires, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (kind, code) = (
        words.first().map(String::as_str).unwrap_or_default(),
        words.get(1).map(String::as_str).unwrap_or_default(),
    );
    let period =
        Period::parse(code).map_err(|error| format!("'ExpiresByType {kind} {code}': {error}"))?;
    expires
        .by_type
        .insert(kind.to_ascii_lowercase().into(), period);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::Status;

    #[test]
    fn periods() {
        let (access, modification) = (
            |seconds| {
                Ok(Period {
                    base: Base::Access,
                    seconds,
                })
            },
            |seconds| {
                Ok(Period {
                    base: Base::Modification,
                    seconds,
                })
            },
        );
        let cases = [
            ("A3600", access(3600)),
            ("M0", modification(0)),
            ("access", access(0)),
            // A capital letter is the short form, whatever follows it.
            ("Access plus 1 month", access(0)),
            ("access plus 1 month", access(2_592_000)),
            ("now plus 1 year 2 weeks", access(31_536_000 + 1_209_600)),
            ("modification 3 minutes 1 sec", modification(181)),
            (
                "access plus 1 yr 1 d 1 h",
                access(31_536_000 + 86_400 + 3_600),
            ),
            (
                "foo",
                Err("bad expires code, unrecognized <base> 'foo'".to_owned()),
            ),
            (
                "access plus x",
                Err("bad expires code, numeric value expected <num> 'x'".to_owned()),
            ),
            (
                "access plus 1",
                Err("bad expires code, missing <type>".to_owned()),
            ),
            (
                "access plus 1 zz",
                Err("bad expires code, unrecognized <type>'zz'".to_owned()),
            ),
        ];
        for (code, expected) in cases {
            assert_eq!(Period::parse(code), expected, "{code}");
        }
    }

    #[test]
    fn lifetimes_by_type() {
        let period = |code: &str| Period::parse(code).unwrap();
        let mut expires = Expires {
            active: Some(true),
            default: Some(period("A10")),
            ..Expires::default()
        };
        expires.by_type.insert("image/*".into(), period("A20"));
        expires.by_type.insert("text/html".into(), period("M30"));
        let run = |content_type: &'static [u8], status, modified_s| {
            let mut fields = Fields::new();
            fields.append("Content-Type", content_type);
            fields.append("Cache-Control", &b"public"[..]);
            expires.apply(
                &HeadFacts {
                    status,
                    now: 100,
                    modified_s,
                },
                &mut fields,
            );
            String::from_utf8_lossy(fields.first("Cache-Control").unwrap()).into_owned()
        };
        assert_eq!(
            run(b"text/html;charset=utf-8", Status::OK, Some(90)),
            "public, max-age=20"
        );
        assert_eq!(run(b"text/html", Status::OK, Some(10)), "public, max-age=0");
        assert_eq!(run(b"text/html", Status::OK, None), "public");
        assert_eq!(
            run(b"IMAGE/png", Status::NOT_MODIFIED, None),
            "public, max-age=20"
        );
        assert_eq!(run(b"", Status::OK, None), "public, max-age=10");
        assert_eq!(run(b"text/css", Status::NOT_FOUND, None), "public");
    }
}
