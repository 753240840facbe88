//! Completion of a text: what may stand at its end, made from the rows of the directives.
//!
//! Called by: the console's editor; the completions of the other configuration languages, for the
//! shape of the answer.
//! Caveat: the text is one that is being typed, so nothing is parsed: lines and words are looked at,
//! and inside of strings, lists, and inline tables nothing is offered.
//! Out of scope: whether a text is right, which `saker check` says.

use crate::{
    context::{Contexts, FILE},
    directives::catalog,
    form::{Input, children},
    row::Directive,
};

/// Candidates of one answer.
const CANDIDATES_MAX: usize = 100;
/// Headers are offered that deep.
const DEPTH_MAX: usize = 3;

/// Candidates for the word at the end of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Characters of the word that is there already.
    pub typed: usize,
    pub candidates: Vec<Candidate>,
}

/// A text that may replace the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub text: String,
    /// Sentence about it.
    pub detail: String,
}

impl Completion {
    /// Those of the candidates that begin with the word, in any case of letters.
    pub fn of(word: &str, all: impl Iterator<Item = (String, String)>) -> Completion {
        let begins = |text: &str| {
            let start = text.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let candidates = all
            .filter(|(text, _)| begins(text))
            .map(|(text, detail)| Candidate { text, detail })
            .take(CANDIDATES_MAX);
        Completion {
            typed: word.chars().count(),
            candidates: candidates.collect(),
        }
    }
}

/// Completes a `saker.toml` that ends where the cursor is.
pub fn complete(before: &str) -> Completion {
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let Some(header) = last_header(above) else {
        return Completion::default();
    };
    let line = line.trim_start();
    if line.starts_with('[') {
        return headers(line);
    }
    let Some(context) = walk(FILE, header.split('.').filter(|name| !name.is_empty())) else {
        return Completion::default();
    };
    match line.split_once('=') {
        None => keys(context, line),
        Some((key, value)) => {
            let names = key.trim().split('.').collect::<Vec<_>>();
            match names.split_last() {
                Some((last, around)) => walk(context, around.iter().copied())
                    .and_then(|context| catalog().find(last, context))
                    .map_or_else(Completion::default, |row| values(row, value.trim_start())),
                None => Completion::default(),
            }
        }
    }
}

/// The dotted name of the table at the end of these lines; `None`: they end inside of a string.
fn last_header(above: &str) -> Option<String> {
    let (mut header, mut end): (String, Option<&str>) = (String::new(), None);
    for line in above.lines().map(str::trim) {
        if let Some(mark) = end {
            end = (!line.contains(mark)).then_some(mark);
            continue;
        }
        for mark in ["\"\"\"", "'''"] {
            if line.matches(mark).count() % 2 == 1 {
                end = Some(mark);
            }
        }
        let bare = line.split('#').next().unwrap_or_default().trim();
        let inner = bare
            .strip_prefix("[[")
            .and_then(|rest| rest.strip_suffix("]]"))
            .or_else(|| {
                bare.strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'))
            });
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_key);
        if let Some(name) = inner.map(str::trim).filter(|name| is_name(name)) {
            name.clone_into(&mut header);
        }
    }
    end.is_none().then_some(header)
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// The context of a table below another one.
fn walk<'n>(from: Contexts, names: impl Iterator<Item = &'n str>) -> Option<Contexts> {
    let mut context = from;
    for name in names {
        let children = children(catalog().find(name.trim(), context)?.kind);
        context = children.one.or(children.listed)?;
    }
    Some(context)
}

/// Keys of a table, or with dots those of tables inside of it.
fn keys(context: Contexts, typed: &str) -> Completion {
    if !typed.bytes().all(is_key) {
        return Completion::default();
    }
    let (around, word) = typed.rsplit_once('.').unwrap_or(("", typed));
    let names = around.split('.').filter(|name| !name.is_empty());
    let Some(context) = walk(context, names) else {
        return Completion::default();
    };
    let rows = catalog().within(context);
    let described = |row: &Directive| (row.name.to_owned(), detail(row));
    Completion::of(word, rows.map(described))
}

fn detail(row: &Directive) -> String {
    match row.default {
        Some(default) => format!("{} Default: {default}.", row.summary),
        None => row.summary.to_owned(),
    }
}

/// Values of a key that takes one of a few words.
fn values(row: &'static Directive, typed: &str) -> Completion {
    let quoted = |word: &&str| (format!("\"{word}\""), row.summary.to_owned());
    match Input::of(row.kind) {
        Input::Boolean => {
            let words = ["true", "false"].into_iter();
            Completion::of(
                typed,
                words.map(|word| (word.to_owned(), row.summary.to_owned())),
            )
        }
        Input::Choice(words) => Completion::of(typed, words.iter().map(quoted)),
        Input::Text | Input::Toml => Completion::default(),
    }
}

/// Headers of tables, whatever the number of brackets that are there already.
fn headers(typed: &str) -> Completion {
    let word = typed.trim_start_matches('[').trim_start();
    let mut all = Vec::new();
    below((FILE, ""), 0, &mut all);
    let found = Completion::of(
        word,
        all.iter()
            .map(|(name, _, summary)| (name.clone(), summary.clone())),
    );
    let bracketed = |candidate: Candidate| {
        let is_list = all
            .iter()
            .any(|(name, is_list, _)| *name == candidate.text && *is_list);
        let text = match is_list {
            true => format!("[[{}]]", candidate.text),
            false => format!("[{}]", candidate.text),
        };
        Candidate { text, ..candidate }
    };
    Completion {
        typed: typed.chars().count(),
        candidates: found.candidates.into_iter().map(bracketed).collect(),
    }
}

fn below((context, path): (Contexts, &str), depth: usize, all: &mut Vec<(String, bool, String)>) {
    for row in catalog().within(context) {
        let children = children(row.kind);
        let Some(inner) = children
            .listed
            .or(children.one)
            .filter(|one| *one != context)
        else {
            continue;
        };
        let name = match path {
            "" => row.name.to_owned(),
            path => format!("{path}.{}", row.name),
        };
        all.push((
            name.clone(),
            children.listed.is_some(),
            row.summary.to_owned(),
        ));
        if depth + 1 < DEPTH_MAX {
            below((inner, &name), depth + 1, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(before: &str) -> Vec<String> {
        let found = complete(before).candidates.into_iter();
        found.map(|one| one.text).collect()
    }

    #[test]
    fn keys_are_those_of_the_table() {
        assert!(texts("[[site]]\nro").contains(&"root".to_owned()));
        assert!(texts("[server]\nwork").contains(&"workers".to_owned()));
        assert!(!texts("[server]\nro").contains(&"root".to_owned()));
        assert!(
            texts("[[site]]\nroot = \"/\"\n[[site.route]] # x\npa").contains(&"path".to_owned())
        );
        assert!(texts("[[site]]\ntls.auto").contains(&"automatic".to_owned()));
        assert_eq!(complete("[[site]]\nro").typed, 2);
        assert_eq!(complete("[[site]]\ntls.auto").typed, 4);
        for nothing in [
            "[[site]]\nroot = \"/sr",
            "[[site]]\nnames = [\"a\", n",
            "[[site]]\nx = { pa",
            "[nosuch]\nro",
            "[[site]]\nx = \"\"\"\n[server]\nwork",
            "[[site]]\n# ro",
            "[[site]]\nro ot",
        ] {
            assert_eq!(texts(nothing), [""; 0], "{nothing}");
        }
    }

    #[test]
    fn values_and_headers() {
        assert_eq!(texts("[[site]]\nlisting = t"), ["true"]);
        assert!(texts("[server]\nsandbox = ").contains(&"\"on\"".to_owned()));
        assert!(texts("[server]\nsandbox = \"o").contains(&"\"off\"".to_owned()));
        assert!(texts("[si").contains(&"[[site]]".to_owned()));
        assert!(texts("[[site.ro").contains(&"[[site.route]]".to_owned()));
        assert!(texts("[cons").contains(&"[console]".to_owned()));
        assert_eq!(complete("[[site.ro").typed, 9);
    }

    #[test]
    fn answers_are_bounded() {
        for before in ["", "[", "[[site]]\n", "[[site.route]]\n", "\n\n[[", "é"] {
            assert!(
                complete(before).candidates.len() <= CANDIDATES_MAX,
                "{before}"
            );
        }
    }
}
