//! Whatever a file says, it is loaded or refused with reasons that can be shown.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use saker_config::{Severity, parse};
use std::path::Path;

const EXAMPLE: &str = include_str!("../../../../docs/saker.example.toml");

fn check(text: &str) {
    match parse(text, "saker.toml", Path::new("/nonexistent/folder")) {
        Ok(loaded) => assert!(
            loaded
                .warnings
                .iter()
                .all(|warning| warning.severity == Severity::Warning)
        ),
        Err(diagnostics) => {
            assert!(
                diagnostics
                    .iter()
                    .any(|diagnostic| diagnostic.severity == Severity::Error)
            );
            let lines = text.split('\n').count() as u32;
            assert!(
                diagnostics
                    .iter()
                    .all(|diagnostic| diagnostic.origin.line <= lines),
                "{diagnostics}"
            );
            let places: Vec<_> = diagnostics
                .iter()
                .map(|diagnostic| (diagnostic.origin.line, diagnostic.origin.column))
                .collect();
            assert!(places.is_sorted(), "{diagnostics}");
            assert!(
                !diagnostics.to_string().is_empty()
                    && !diagnostics.colored().to_string().is_empty()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn toml_like_text(text in "([\\[\\]{}=.,\"'#\n a0-9_$*/:%é-]|\\[\\[site\\]\\]\n|\\[\\[site\\.route\\]\\]\n|path = |names = |listing = |true|\"\"\"){0,60}") {
        check(&text);
    }

    #[test]
    fn the_example_with_a_piece_replaced(at in 0..EXAMPLE.len(), length in 0..40_usize, piece in "[\\[\\]{}=.,\"'#\n a0é\u{0}-]{0,6}") {
        let (start, end) = (at, (at + length).min(EXAMPLE.len()));
        prop_assume!(EXAMPLE.is_char_boundary(start) && EXAMPLE.is_char_boundary(end));
        check(&format!("{}{piece}{}", &EXAMPLE[..start], &EXAMPLE[end..]));
    }

    #[test]
    fn the_example_with_lines_swapped(a in 0..100_usize, b in 0..100_usize, twice in any::<bool>()) {
        let mut lines: Vec<&str> = EXAMPLE.lines().collect();
        let (a, b) = (a % lines.len(), b % lines.len());
        if twice { lines.insert(a, lines[b]) } else { lines.swap(a, b) }
        check(&lines.join("\n"));
    }
}
