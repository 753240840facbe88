//! The name of a file's coding: `gzip` and `x-gzip` are one coding, which goes by the name that the
//! client has for it (mod_negotiation, mod_mime's "AddEncoding").
//!
//! Called by: `file_type` and `multiviews`.
//! Caveat: a client that names neither, or sends no Accept-Encoding, gets the name that AddEncoding
//! gives.
//! Out of scope: weights; they say nothing about names.

use crate::state::state;
use saker_ap_expr::{Predicate, TextPredicate};
use saker_http::HeadView;
use saker_pipeline::Exchange;
use std::rc::Rc;

const FIELD: &str = "accept-encoding";

/// True if the request names the coding.
pub fn says(head: HeadView<'_>, name: &str) -> bool {
    head.all(FIELD).any(|line| names(line, name))
}

fn names(line: &[u8], name: &str) -> bool {
    line.split(|byte| *byte == b',').any(|element| {
        let token = element.split(|byte| *byte == b';').next();
        token.is_some_and(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    })
}

/// Gives the only coding of a file the name that the client has for it.
pub fn choose(exchange: &mut Exchange, codings: &[Box<str>]) {
    let [coding] = codings else { return };
    let bare = coding.strip_prefix("x-").unwrap_or(coding);
    let other = match bare.len() == coding.len() {
        true => format!("x-{bare}"),
        false => bare.to_owned(),
    };
    // Of both, the plain name counts.
    let is_plain = bare.len() == coding.len();
    if is_plain && does_say(exchange, coding) || !does_say(exchange, &other) {
        return;
    }
    let lines = &mut state(exchange).content_lines;
    let of_coding = lines
        .iter_mut()
        .find(|(name, _)| &**name == "Content-Encoding");
    if let Some((_, value)) = of_coding {
        *value = other.into_bytes().into();
    }
}

/// [`says`], of which the outcome depends.
fn does_say(exchange: &mut Exchange, name: &str) -> bool {
    let says = says(exchange.head.view(), name);
    let predicate = Predicate::Other(Rc::new(NamesCoding(name.into())));
    exchange.depends_on_field_test(FIELD, predicate, says);
    says
}

#[derive(Debug)]
struct NamesCoding(Box<str>);

impl TextPredicate for NamesCoding {
    fn holds(&self, text: Option<&[u8]>) -> Option<bool> {
        Some(text.is_some_and(|text| names(text, &self.0)))
    }

    fn identify(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"coding-name\0");
        out.extend_from_slice(self.0.as_bytes());
    }
}
