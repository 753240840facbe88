//! Preconditions keep the order of RFC 9110 section 13.2.2 for any field lines: fields that another
//! one overrides change nothing, `*` is about existence alone, and only reading methods are told
//! 304.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::{Input, plain_field_lines};
use saker_http::conditional::{Precondition, Validators, evaluate, range_applies};
use saker_http::entity_tag::EntityTag;
use saker_http::{HeadIndex, HeadView, KnownField, Method};
use saker_http1::{Parsed, RequestLimits, parse_request};

const METHODS: [&str; 4] = ["GET", "HEAD", "PUT", "DELETE"];
const OPAQUE: [&[u8]; 3] = [b"x", b"a,b", b""];
/// 1994-11-06 08:49:47, ten seconds after the date that RFC 9110 shows.
const NOW: i64 = 784_111_787;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(tag), Some(age)) = (input.byte(), input.byte(), input.byte()) else {
        return;
    };
    let lines = input.rest();
    let entity_tag = EntityTag {
        weak: knob & 16 != 0,
        opaque: OPAQUE[usize::from(tag) % OPAQUE.len()],
    };
    let validators = Validators {
        entity_tag: (knob & 8 != 0).then_some(entity_tag),
        last_modified: (knob & 32 != 0).then_some(NOW + 1 - i64::from(age)),
        now: NOW,
    };
    let case = Case {
        method: METHODS[usize::from(knob & 3)],
        current: (knob & 4 != 0).then_some(validators),
    };
    case.properties(lines);
});

struct Case<'a> {
    method: &'a str,
    current: Option<Validators<'a>>,
}

impl Case<'_> {
    fn properties(&self, lines: &[u8]) {
        let Some(outcome) = self.outcome(lines) else {
            return;
        };
        let bytes = self.head_bytes(lines);
        let fields = plain_field_lines(&bytes);
        let has = |name: &str| fields.iter().any(|field| field.0 == name.as_bytes());
        let only_star = |name: &str| {
            let mut values = fields
                .iter()
                .filter(|field| field.0 == name.as_bytes())
                .map(|field| field.1.as_slice());
            values.next() == Some(b"*") && values.next().is_none()
        };
        if outcome == Precondition::NotModified {
            assert!(matches!(self.method, "GET" | "HEAD") && self.current.is_some());
            assert!(has("if-none-match") || has("if-modified-since"));
        }
        if ![
            "if-match",
            "if-unmodified-since",
            "if-none-match",
            "if-modified-since",
        ]
        .iter()
        .any(|name| has(name))
        {
            assert_eq!(outcome, Precondition::Proceed);
        }
        if only_star("if-none-match") {
            assert!(self.current.is_none() || outcome != Precondition::Proceed);
            assert!(self.current.is_some() || outcome != Precondition::NotModified);
        }
        if has("if-match") && self.current.is_none() {
            assert_eq!(outcome, Precondition::Failed);
        }
        if has("if-match") {
            assert_eq!(
                self.outcome(&without(&fields, "if-unmodified-since")),
                Some(outcome),
                "If-Match overrides"
            );
        }
        if has("if-none-match") {
            assert_eq!(
                self.outcome(&without(&fields, "if-modified-since")),
                Some(outcome),
                "If-None-Match overrides"
            );
        }
        self.own_tag(&fields);
    }

    /// Whatever else is asked: one who has our tag is not sent the same again, and a weak tag
    /// guards nothing.
    fn own_tag(&self, fields: &[(Vec<u8>, Vec<u8>)]) {
        let Some(tag) = self.current.and_then(|current| current.entity_tag) else {
            return;
        };
        let own = [
            if tag.weak { &b"W/\""[..] } else { b"\"" },
            tag.opaque,
            b"\"",
        ]
        .concat();
        let none_match = [
            without(fields, "if-none-match"),
            b"If-None-Match: ".to_vec(),
            own.clone(),
        ]
        .concat();
        if let Some(outcome) = self.outcome(&none_match) {
            assert_ne!(outcome, Precondition::Proceed);
        }
        let matching = [without(fields, "if-match"), b"If-Match: ".to_vec(), own].concat();
        if let Some(outcome) = self.outcome(&matching) {
            assert!(!tag.weak || outcome == Precondition::Failed);
        }
    }

    /// `None`: the lines are no head.
    fn outcome(&self, lines: &[u8]) -> Option<Precondition> {
        let bytes = self.head_bytes(lines);
        let mut index = HeadIndex::default();
        let Ok(Parsed::Complete { head_bytes }) =
            parse_request(&bytes, &RequestLimits::default(), &mut index)
        else {
            return None;
        };
        if head_bytes != bytes.len() {
            return None;
        }
        let head = HeadView::new(&bytes, &index);
        if let Some(current) = &self.current {
            if_range(head, current);
        }
        assert_eq!(head.method(), Method::from_token(self.method.as_bytes()));
        Some(evaluate(head, self.current.as_ref()))
    }

    fn head_bytes(&self, lines: &[u8]) -> Vec<u8> {
        let end: &[u8] = if lines.is_empty() || lines.ends_with(b"\r\n") {
            b"\r\n"
        } else {
            b"\r\n\r\n"
        };
        [
            self.method.as_bytes(),
            b" / HTTP/1.1\r\nHost: a\r\n",
            lines,
            end,
        ]
        .concat()
    }
}

/// RFC 9110 section 13.1.5: absent it changes nothing; a weak tag never holds.
fn if_range(head: HeadView<'_>, current: &Validators<'_>) {
    let applies = range_applies(head, current);
    match head.known(KnownField::IfRange) {
        None => assert!(applies),
        Some(value) if value.starts_with(b"W/") => assert!(!applies),
        Some(value) if value.starts_with(b"\"") && applies => {
            let ours = current.entity_tag.expect("compared with one");
            assert!(!ours.weak && value[1..value.len() - 1] == *ours.opaque);
        }
        Some(_) if applies => assert!(current.last_modified.is_some_and(|ours| ours < current.now)),
        Some(_) => {}
    }
}

/// Lines of a head but those of one field, each with its line end.
fn without(fields: &[(Vec<u8>, Vec<u8>)], name: &str) -> Vec<u8> {
    let kept = fields
        .iter()
        .filter(|field| field.0 != name.as_bytes() && field.0 != b"host");
    kept.flat_map(|(name, value)| [name, &b": "[..], value, b"\r\n"].concat())
        .collect()
}
