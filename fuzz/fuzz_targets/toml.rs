//! Whatever a configuration says, it is loaded or refused with reasons: each lies within the text,
//! in its order, and can be shown on a terminal without doing anything to it.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use saker_config::{Diagnostic, Severity, parse};
use saker_fuzz::Input;
use toml::de::DeTable;

const EXAMPLE: &str = include_str!("../../docs/saker.example.toml");
const FILE: &str = "saker.toml";

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(mode), Some(at), Some(length)) = (input.byte(), input.u16(), input.byte()) else {
        return;
    };
    let Ok(text) = std::str::from_utf8(input.rest()) else {
        return;
    };
    match mode & 1 {
        0 => check(text),
        _ => check(&example_with(text, usize::from(at), usize::from(length))),
    }
});

/// The example with a piece of it replaced.
fn example_with(piece: &str, at: usize, length: usize) -> String {
    let start = EXAMPLE.floor_char_boundary(at % (EXAMPLE.len() + 1));
    let end = EXAMPLE.floor_char_boundary((start + length).min(EXAMPLE.len()));
    [&EXAMPLE[..start], piece, &EXAMPLE[end..]].concat()
}

fn check(text: &str) {
    // What other files say is not the input's, and reading whichever it names is not the property.
    if DeTable::parse_recoverable(text)
        .0
        .get_ref()
        .contains_key("include")
    {
        return;
    }
    match parse(text, FILE, Path::new("/nonexistent/folder")) {
        Ok(loaded) => {
            assert!(
                loaded
                    .warnings
                    .iter()
                    .all(|warning| warning.severity == Severity::Warning)
            );
            all_sound(&loaded.warnings, text);
        }
        Err(diagnostics) => {
            assert!(diagnostics.iter().any(Diagnostic::is_error));
            all_sound(&diagnostics.0, text);
            assert!(harmless(&diagnostics.to_string(), &['\n']));
        }
    }
}

fn all_sound(diagnostics: &[Diagnostic], text: &str) {
    let widths: Vec<usize> = text.split('\n').map(|line| line.chars().count()).collect();
    for diagnostic in diagnostics {
        let origin = &diagnostic.origin;
        assert_eq!(&*origin.file, FILE);
        assert!(origin.line >= 1 && origin.column >= 1);
        let width = widths
            .get(origin.line as usize - 1)
            .expect("a line of the text");
        assert!(origin.column as usize <= width + 1, "{diagnostic}");
        assert!(!diagnostic.message.is_empty());
        assert!(
            harmless(&diagnostic.to_string(), &['\n']),
            "{:?}",
            diagnostic.to_string()
        );
        assert!(harmless(&diagnostic.colored().to_string(), &['\n', '\x1b']));
    }
    assert!(
        diagnostics
            .is_sorted_by_key(|diagnostic| (diagnostic.origin.line, diagnostic.origin.column))
    );
}

fn harmless(shown: &str, allowed: &[char]) -> bool {
    shown
        .chars()
        .all(|c| !c.is_control() || allowed.contains(&c))
}
