//! Numbers of arguments: checked as Apache checks, in Apache's words.

use crate::{
    row::{Row, Shape},
    word::words,
};

/// Most arguments that a directive with a list of its own making is given.
const ANY_MAX: usize = 64;

/// The arguments of a directive's line. A list ends at its first empty word, as in Apache.
pub fn arguments(row: &Row, text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    if matches!(row.shape, Shape::Raw | Shape::Section) {
        return Ok(Vec::new());
    }
    let mut words = words(text);
    let filled = |at: usize| words.get(at).is_some_and(|word| !word.is_empty());
    let count = words.len();
    let (fits, otherwise) = match row.shape {
        Shape::None => (count == 0, "takes no arguments"),
        Shape::One => (count == 1 && filled(0), "takes one argument"),
        Shape::Two => (count == 2 && filled(0) && filled(1), "takes two arguments"),
        Shape::OneOrTwo => (count <= 2 && filled(0), "takes 1-2 arguments"),
        Shape::Three => (
            count == 3 && filled(0) && filled(1) && filled(2),
            "takes three arguments",
        ),
        Shape::TwoOrThree => (
            count <= 3 && filled(0) && filled(1),
            "takes two or three arguments",
        ),
        Shape::OneToThree => (count <= 3 && filled(0), "takes one, two or three arguments"),
        Shape::OneOrThree => (
            count <= 3 && filled(0) && !(filled(1) && count == 2),
            "takes one or three arguments",
        ),
        Shape::Flag => (
            words.first().is_some_and(|word| is_flag(word)),
            "must be On or Off",
        ),
        Shape::Each => (filled(0), "requires at least one argument"),
        Shape::EachWithFirst => (filled(0) && count >= 2, "requires at least two arguments"),
        Shape::Any | Shape::Raw | Shape::Section => (true, ""),
    };
    if !fits {
        return Err(format!("{} {otherwise}", row.name));
    }
    match row.shape {
        Shape::Each | Shape::EachWithFirst => {
            words.truncate(words.iter().position(Vec::is_empty).unwrap_or(count))
        }
        Shape::Any => words.truncate(ANY_MAX),
        _ => {}
    }
    Ok(words)
}

/// The text before the last `>` of a section's line.
pub fn section_argument<'t>(title: &str, text: &'t [u8]) -> Result<&'t [u8], String> {
    let end = text
        .iter()
        .rposition(|byte| *byte == b'>')
        .ok_or_else(|| format!("{title} directive missing closing '>'"))?;
    Ok(text.get(..end).unwrap_or_default())
}

fn is_flag(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"on") || word.eq_ignore_ascii_case(b"off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::find_row;

    #[test]
    fn counts() {
        let rows: &[(&str, &[&str], &[&str], &str)] = &[
            (
                "ServerName",
                &["a", "'a b'"],
                &["", "a b", "\"\""],
                "takes one argument",
            ),
            (
                "AddDescription",
                &["a b", "a b c"],
                &["a", "", "\"\" b"],
                "requires at least two arguments",
            ),
            (
                "SetEnv",
                &["a", "a b", "a \"\""],
                &["", "a b c", "\"\" b"],
                "takes 1-2 arguments",
            ),
            (
                "KeepAlive",
                &["on", "OFF", "on off"],
                &["", "x", "\"\" on"],
                "must be On or Off",
            ),
            ("DirectoryIndex", &["", "a"], &[], ""),
            (
                "LanguagePriority",
                &["a", "a b"],
                &["", "\"\""],
                "requires at least one argument",
            ),
            (
                "ErrorDocument",
                &["404 /x"],
                &["404", "404 a b"],
                "takes two arguments",
            ),
        ];
        for (name, good, bad, otherwise) in rows {
            let row = find_row(name.as_bytes()).unwrap();
            for text in *good {
                assert!(
                    arguments(row, text.as_bytes()).is_ok(),
                    "{name} {text}: {:?}",
                    row.shape
                );
            }
            for text in *bad {
                assert_eq!(
                    arguments(row, text.as_bytes()),
                    Err(format!("{name} {otherwise}")),
                    "{name} {text}"
                );
            }
        }
    }

    #[test]
    fn an_empty_word_ends_a_list() {
        let row = find_row(b"LanguagePriority").unwrap();
        assert_eq!(
            arguments(row, b"a b \"\" c"),
            Ok(vec![b"a".to_vec(), b"b".to_vec()])
        );
    }

    #[test]
    fn sections() {
        assert_eq!(section_argument("<Files>", b"a>b> c"), Ok(&b"a>b"[..]));
        assert_eq!(
            section_argument("<Files>", b"a"),
            Err("<Files> directive missing closing '>'".into())
        );
    }
}
