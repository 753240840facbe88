//! The project's language: names that the field has other words for, comments that do not say what
//! a thing is, and paths that lead nowhere.
//!
//! Called by: the tidy task. Names and comments are counted per crate against a number that may
//! only go down; documentation must be free of them.
//! Out of scope: grammar, spelling, style beyond these words.

use super::{
    exceptions::{Exceptions, Kind},
    finding::{File, Finding},
    scanner,
};
use std::{collections::BTreeMap, path::Path};

/// Names of types, functions and modules for which there is a standard word; see the table of
/// words in docs/contributing.md.
const NAMES: &[&str] = &[
    "Errand",
    "Recipe",
    "Again",
    "Visit",
    "Boarding",
    "Flights",
    "Flight",
    "Landing",
    "Tally",
    "Tier",
    "Standing",
    "Bell",
    "Cord",
    "Guest",
    "Doorkeeper",
    "Inquiry",
    "CallManner",
    "CallTo",
    "Conversation",
    "Hearing",
    "Said",
    "StandIn",
    "Handed",
    "Ahead",
    "Seen",
    "World",
    "Stamp",
    "Given",
    "Fault",
    "Opened",
    "TurnedAway",
    "Door",
    "Inbox",
    "Letter",
    "Manners",
    "Secured",
    "Operator",
    "Starter",
    "Tether",
    "Lent",
    "Desk",
    "Asker",
    "About",
    "Told",
    "Overhearing",
    "Unheard",
    "Neighbours",
    "Reusable",
    "Resources",
    "Contender",
    "Entrant",
    "Stand",
    "Ground",
];
/// Words that never stand in documentation or comments about the software.
const WORDS: &[&str] = &[
    "whoever",
    "somebody",
    "nobody",
    "anybody",
    "whomever",
    "whatsoever",
    "neighbour",
    "neighbours",
    "guest",
    "errand",
    "boarding",
    "behaviour",
    "honour",
    "honoured",
    "honours",
    "colour",
    "colours",
    "recognised",
    "recognise",
    "normalised",
    "initialised",
    "labelled",
];
/// First words that a doc comment must not have: it says what the item is or does.
const OPENERS: &[&str] = &["What", "Whether", "Who", "How", "Where", "When", "Of"];
/// Folders that documents cite paths of.
const CITED: &[&str] = &["crates/", "tools/", "docs/", "contrib/", "fuzz/", ".ci/"];

/// Counts what one Rust file owes to the lexicon.
pub fn count(file: &File, owed: &mut BTreeMap<String, [usize; 2]>) {
    let mut parts = file.path.split('/');
    let (Some(folder), Some(name)) = (parts.next(), parts.next()) else {
        return;
    };
    let code = scanner::code_only(&file.text);
    let names = names(&code);
    let comments = file.text.lines().filter(|line| is_poor(line)).count()
        + usize::from(has_poor_header(&file.text));
    let counts = owed.entry(format!("{folder}/{name}")).or_default();
    counts[0] += names;
    counts[1] += comments;
}

/// Holds the counts against what was agreed on.
pub fn judge(
    owed: &BTreeMap<String, [usize; 2]>,
    exceptions: &mut Exceptions,
    findings: &mut Vec<Finding>,
) {
    for (place, [names, comments]) in owed {
        let rows = [
            (Kind::Names, *names, "names that have a standard word"),
            (Kind::Comments, *comments, "comments in private words"),
        ];
        for (kind, actual, what) in rows {
            let allowed = exceptions.allowed(kind, place, actual, 0);
            if actual > allowed {
                let text = format!("{actual} {what}; at most {allowed}");
                findings.push(Finding::new(place, 0, text));
            }
        }
    }
}

/// Public definitions with a name of the list.
fn names(code: &str) -> usize {
    let keywords = ["struct", "enum", "trait", "type"];
    let defined = |keyword| {
        scanner::words(code, keyword).filter(|at| {
            let name: String = code[at + keyword.len()..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let line = &code[code[..*at].rfind('\n').map_or(0, |before| before + 1)..*at];
            line.trim_start().starts_with("pub") && NAMES.contains(&name.as_str())
        })
    };
    keywords
        .iter()
        .map(|keyword| defined(keyword).count())
        .sum()
}

/// The first sentence of a module says what it is, too.
fn has_poor_header(text: &str) -> bool {
    let header = text.strip_prefix("//! ").unwrap_or_default();
    let first = header.split(|c: char| !c.is_alphanumeric()).next();
    first.is_some_and(|first| OPENERS.contains(&first))
}

fn is_poor(line: &str) -> bool {
    let line = line.trim_start();
    let Some(text) = line.strip_prefix("//") else {
        return false;
    };
    let text = text.trim_start_matches(['/', '!']).trim_start();
    let first = text
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    let is_doc = line.starts_with("/// ");
    is_doc && OPENERS.contains(&first) || has_word(text)
}

fn has_word(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    WORDS
        .iter()
        .any(|word| scanner::words(&lower, word).next().is_some())
}

/// Words in documents, which users read.
pub fn document(file: &File, findings: &mut Vec<Finding>) {
    let mut is_code = false;
    for (index, line) in file.text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code && has_word(&prose(line)) {
            let what = format!("private words, see docs/contributing.md: {}", line.trim());
            findings.push(Finding::new(&file.path, index + 1, what));
        }
    }
}

/// The line without code spans and quoted words: names of users, values and files.
fn prose(line: &str) -> String {
    let outside: String = line.split('`').step_by(2).collect();
    outside.split('"').step_by(2).collect()
}

/// Paths in code spans and comments that are not there.
pub fn cited_paths(root: &Path, file: &File, findings: &mut Vec<Finding>) {
    let is_source = file.path.ends_with(".rs");
    for (index, line) in file.text.lines().enumerate() {
        if is_source && !line.trim_start().starts_with("//") {
            continue;
        }
        for path in paths(line).filter(|path| !root.join(path).exists()) {
            let what = format!("`{path}` does not exist");
            findings.push(Finding::new(&file.path, index + 1, what));
        }
    }
}

fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
    line.split(move |c: char| !(is_path(c) || matches!(c, '*' | '{' | '<' | '$' | ',' | '…' | ':')))
        .map(|word| word.trim_matches(['.', ',', ':']))
        .filter(|word| CITED.iter().any(|folder| word.starts_with(folder)))
        .map(|word| word.split("::").next().unwrap_or(word))
        .map(|word| word.split(':').next().unwrap_or(word))
        .filter(move |word| word.chars().all(is_path))
        .filter(|word| word.trim_end_matches('/').contains('/') || word.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_say_what_a_thing_is() {
        for poor in [
            "    /// Whether it is open.",
            "// Nobody reads it.",
            "//! For whoever asks.",
            "/// Of a connection.",
        ] {
            assert!(is_poor(poor), "{poor}");
        }
        for good in [
            "/// Returns true if the connection is open.",
            "// When the client closes first, the socket is gone.",
            "let a = \"nobody\";",
            "/// Office hours.",
        ] {
            assert!(!is_poor(good), "{good}");
        }
    }

    #[test]
    fn headers_say_what_a_module_is() {
        assert!(has_poor_header("//! What a page is made of.\n"));
        assert!(!has_poor_header(
            "//! Contents of a page.\n//! What follows.\n"
        ));
        assert!(!has_poor_header("use std::fs;\n"));
    }

    #[test]
    fn names_are_counted_where_they_are_defined() {
        assert_eq!(
            names("pub struct Errand;\nuse x::Visit;\npub(crate) enum Bell {}\n"),
            2
        );
        assert_eq!(names("pub struct ErrandList;\nstruct Visit;\n"), 0);
    }

    #[test]
    fn cited_paths_are_told_from_other_words() {
        let line = "see `crates/http/src/head.rs:12`, tools/*.sh, docs/{a,b}.md and docs/cache.md.";
        let found: Vec<&str> = paths(line).collect();
        assert_eq!(found, ["crates/http/src/head.rs", "docs/cache.md"]);
    }
}
