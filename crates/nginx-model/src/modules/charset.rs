//! `charset_map`: tables between charsets.
//!
//! Called by: `read_http` (tables), and `saker-nginx`, which converts content.
//! Caveat: a table is read from both ends. Only the second charset of a map can be UTF-8.
//! Out of scope: names of charsets in responses (`compression`).

use saker_nginx_syntax::{Directive, Report};
use std::collections::HashMap;

/// Stands for characters that the other charset does not have.
const UNKNOWN: u8 = b'?';

/// A conversion of bytes.
#[derive(Clone, Debug)]
pub enum Conversion {
    /// Each byte is another one.
    Bytes(Box<[u8; 256]>),
    /// Each byte is a character of UTF-8.
    ToUtf8(Box<[Box<[u8]>]>),
    /// Characters of UTF-8 are bytes.
    FromUtf8(HashMap<char, u8>),
}

/// A table between two charsets.
#[derive(Clone, Debug)]
pub struct CharsetMap {
    /// Names in lower case.
    pub from: Box<str>,
    pub to: Box<str>,
    forth: Conversion,
    back: Conversion,
}

impl CharsetMap {
    /// Makes a table of pairs. Names are in lower case.
    pub fn new(from: &str, to: &str, pairs: &[(u8, Vec<u8>)]) -> CharsetMap {
        let (forth, back) = match to == "utf-8" {
            true => with_utf8(pairs),
            false => (bytes(pairs, false), bytes(pairs, true)),
        };
        CharsetMap {
            from: from.into(),
            to: to.into(),
            forth,
            back,
        }
    }

    /// Returns the conversion between two charsets, named in lower case.
    pub fn conversion(&self, from: &str, to: &str) -> Option<&Conversion> {
        match (&*self.from, &*self.to) {
            (first, second) if first == from && second == to => Some(&self.forth),
            (first, second) if first == to && second == from => Some(&self.back),
            _ => None,
        }
    }
}

/// Reads a table.
///
/// # Errors
/// nginx's message.
pub fn charset_map(directive: &Directive, report: &mut Report) -> Result<CharsetMap, String> {
    let from = directive.argument(0).to_ascii_lowercase();
    let to = directive.argument(1).to_ascii_lowercase();
    if from == to {
        return Err("\"charset_map\" between the same charsets".to_owned());
    }
    let is_utf8 = to == "utf-8";
    let mut pairs: Vec<(u8, Vec<u8>)> = Vec::new();
    for entry in directive.inside() {
        let first = hex(entry.name()).filter(|bytes| bytes.len() == 1);
        let second = hex(entry.argument(0));
        let second = second.filter(|bytes| is_utf8 || bytes.len() == 1);
        match (first.as_deref(), second) {
            (Some([first]), Some(second)) => pairs.push((*first, second)),
            _ => report.error(entry, "invalid value".to_owned(), None),
        }
    }
    Ok(CharsetMap::new(&from, &to, &pairs))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = match text.len() % 2 {
        0 => text.to_owned(),
        _ => format!("0{text}"),
    };
    let bytes: Option<Vec<u8>> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok())
        .collect();
    bytes.filter(|bytes| !bytes.is_empty())
}

fn bytes(pairs: &[(u8, Vec<u8>)], is_back: bool) -> Conversion {
    let mut table = [UNKNOWN; 256];
    for (byte, slot) in (0..128_u8).zip(&mut table) {
        *slot = byte;
    }
    for (first, second) in pairs {
        let second = second.first().copied().unwrap_or(UNKNOWN);
        let (from, to) = match is_back {
            false => (*first, second),
            true => (second, *first),
        };
        table[usize::from(from)] = to;
    }
    Conversion::Bytes(Box::new(table))
}

fn with_utf8(pairs: &[(u8, Vec<u8>)]) -> (Conversion, Conversion) {
    let mut table: Vec<Box<[u8]>> = (0..=u8::MAX)
        .map(|byte| Box::from([if byte < 128 { byte } else { UNKNOWN }]))
        .collect();
    let mut characters = HashMap::new();
    for (first, second) in pairs {
        if let Some(slot) = table.get_mut(usize::from(*first)) {
            *slot = second.as_slice().into();
        }
        let text = std::str::from_utf8(second).ok();
        if let Some(character) = text.and_then(|text| text.chars().next()) {
            characters.insert(character, *first);
        }
    }
    (
        Conversion::ToUtf8(table.into()),
        Conversion::FromUtf8(characters),
    )
}
