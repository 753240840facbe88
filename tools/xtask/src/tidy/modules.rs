//! Module circles inside a crate: files that import each other in a loop.
//!
//! Called by: the tidy task, once per crate, with all of the crate's files.
//! Caveat: names are resolved by their paths alone. A name that a module re-exports counts as an
//! import of the module that defines it; an item of a parent module counts as an import of the
//! parent's file; what a `pub use` names is a re-export and no import.
//! Out of scope: macros, glob imports of enums, and whatever needs types to resolve.

use super::{finding::File, scanner};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The module tree of one crate and the imports between its files.
pub struct Modules<'a> {
    /// Module path (`["cache", "entry"]`; empty for the root) to the index of its file.
    files: BTreeMap<Vec<String>, usize>,
    paths: Vec<&'a str>,
    /// Re-exported names of each module: name to the path that it stands for.
    exports: HashMap<(usize, String), Vec<String>>,
    imports: Vec<BTreeSet<usize>>,
}

/// A path that a file mentions, in segments.
struct Mention {
    segments: Vec<String>,
    is_export: bool,
    /// The name under which it is known here (`as`), or its last segment.
    name: String,
}

impl<'a> Modules<'a> {
    /// `sources`: the files of one crate's `src` folder that are not compiled for tests only.
    pub fn new(folder: &str, sources: &[&'a File]) -> Modules<'a> {
        let mut files = BTreeMap::new();
        for (index, file) in sources.iter().enumerate() {
            files.insert(module_path(folder, &file.path), index);
        }
        let mentions: Vec<Vec<Mention>> = sources.iter().map(|file| mentions(&file.text)).collect();
        let mut modules = Modules {
            paths: sources.iter().map(|file| file.path.as_str()).collect(),
            exports: HashMap::new(),
            imports: vec![BTreeSet::new(); sources.len()],
            files,
        };
        let places: Vec<(Vec<String>, usize)> = modules
            .files
            .iter()
            .map(|(path, index)| (path.clone(), *index))
            .collect();
        for (place, index) in &places {
            for mention in mentions[*index].iter().filter(|mention| mention.is_export) {
                if let Some(target) = modules.absolute(place, &mention.segments) {
                    modules
                        .exports
                        .insert((*index, mention.name.clone()), target);
                }
            }
        }
        for (place, index) in &places {
            for mention in mentions[*index].iter().filter(|mention| !mention.is_export) {
                let target = modules
                    .absolute(place, &mention.segments)
                    .and_then(|path| modules.home_of(&path, 0));
                modules.imports[*index].extend(target.filter(|target| target != index));
            }
        }
        modules
    }

    /// The circles, each with the paths of its files; the largest first.
    pub fn circles(&self) -> Vec<Vec<&'a str>> {
        let count = self.imports.len();
        let reaches: Vec<Vec<bool>> = (0..count).map(|from| self.reached(from)).collect();
        let mut seen = vec![false; count];
        let mut circles = Vec::new();
        for first in 0..count {
            if seen[first] {
                continue;
            }
            let circle: Vec<usize> = (first..count)
                .filter(|other| reaches[first][*other] && reaches[*other][first])
                .collect();
            circle.iter().for_each(|member| seen[*member] = true);
            if circle.len() > 1 {
                circles.push(circle.iter().map(|member| self.paths[*member]).collect());
            }
        }
        circles.sort_by_key(|circle: &Vec<&str>| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reached(&self, from: usize) -> Vec<bool> {
        let mut reached = vec![false; self.imports.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for next in &self.imports[at] {
                if !std::mem::replace(&mut reached[*next], true) {
                    open.push(*next);
                }
            }
        }
        reached
    }

    /// The path from the crate's root, or `None` for another crate's.
    fn absolute(&self, place: &[String], segments: &[String]) -> Option<Vec<String>> {
        let mut path = place.to_vec();
        let mut rest = segments;
        match segments.first()?.as_str() {
            "crate" => (path, rest) = (Vec::new(), &segments[1..]),
            "self" => rest = &segments[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    path.pop()?;
                    rest = &rest[1..];
                }
            }
            // Only the name of a child module begins a path of this crate.
            first => {
                let child: Vec<String> = [place, &[first.to_owned()]].concat();
                self.files.get(&child)?;
            }
        }
        path.extend_from_slice(rest);
        Some(path)
    }

    /// The file that defines what the path names.
    fn home_of(&self, path: &[String], depth: usize) -> Option<usize> {
        let known = (0..=path.len())
            .rev()
            .find(|length| self.files.contains_key(&path[..*length]))?;
        let index = self.files[&path[..known]];
        let Some(name) = path.get(known) else {
            return Some(index);
        };
        match self.exports.get(&(index, name.clone())) {
            Some(target) if depth < 8 => {
                let whole: Vec<String> = [target.as_slice(), &path[known + 1..]].concat();
                self.home_of(&whole, depth + 1)
            }
            _ => Some(index),
        }
    }
}

/// Module path of a source file: `b/mod.rs` below `src` is the module `b`, as are `b.rs` and, where
/// a folder's main file bears its name and is declared by `#[path]`, `b/b.rs`.
fn module_path(folder: &str, path: &str) -> Vec<String> {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let mut parts: Vec<String> = below
        .trim_start_matches('/')
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    match parts.last().map(String::as_str) {
        Some("lib" | "main") if parts.len() == 1 => parts.clear(),
        Some("mod") => drop(parts.pop()),
        Some(last) if parts.len() > 1 && parts[parts.len() - 2] == last => drop(parts.pop()),
        _ => {}
    }
    parts
}

/// Every path of the file that may lead into its own crate, without its tests.
fn mentions(text: &str) -> Vec<Mention> {
    let code = scanner::code_only(text);
    let in_test = scanner::test_lines(&code);
    let mut all = Vec::new();
    let mut uses = Vec::new();
    for at in scanner::words(&code, "use").filter(|at| !in_test[scanner::line_of(&code, *at)]) {
        let Some(end) = code[at..].find(';').map(|end| at + end) else {
            continue;
        };
        let line_start = code[..at].rfind('\n').map_or(0, |before| before + 1);
        let is_export = code[line_start..at].trim_start().starts_with("pub");
        tree(&code[at + 3..end], &[], is_export, &mut all);
        uses.push(at..end);
    }
    // Paths written out where they are used.
    for (at, _) in code.match_indices("::") {
        let is_use = uses.iter().any(|range| range.contains(&at));
        if is_use || in_test[scanner::line_of(&code, at)] {
            continue;
        }
        let before = code[..at]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |index| index + 1);
        if before == at || code[..before].ends_with("::") || code[..before].ends_with('\'') {
            continue;
        }
        let path: String = code[before..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
            .collect();
        let segments: Vec<String> = path
            .split("::")
            .filter(|segment| !segment.is_empty())
            .map(str::to_owned)
            .collect();
        push(segments, None, false, &mut all);
    }
    all
}

/// Expands `a::{b, c as d, e::*}`.
fn tree(text: &str, above: &[String], is_export: bool, all: &mut Vec<Mention>) {
    let text = text.trim();
    let (head, group) = match text.find('{') {
        Some(open) => {
            let close = text.rfind('}').unwrap_or(text.len());
            (&text[..open], Some(&text[open + 1..close.max(open + 1)]))
        }
        None => (text, None),
    };
    let (head, alias) = match head.split_once(" as ") {
        Some((head, alias)) => (head, Some(alias.trim())),
        None => (head, None),
    };
    let mut path = above.to_vec();
    let segments = head.split("::").map(str::trim);
    path.extend(
        segments
            .filter(|s| !s.is_empty() && *s != "*")
            .map(str::to_owned),
    );
    match group {
        Some(group) => parts(group).for_each(|part| tree(part, &path, is_export, all)),
        None => {
            if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                path.pop();
            }
            push(path, alias, is_export, all);
        }
    }
}

/// The parts between the commas of this level.
fn parts(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    group
        .split(move |c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .filter(|part| !part.trim().is_empty())
}

fn push(segments: Vec<String>, alias: Option<&str>, is_export: bool, all: &mut Vec<Mention>) {
    let Some(last) = segments.last() else { return };
    let name = alias.unwrap_or(last).to_owned();
    all.push(Mention {
        segments,
        is_export,
        name,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: format!("crates/a/src/{path}"),
                text: (*text).into(),
            })
            .collect();
        let sources: Vec<&File> = files.iter().collect();
        let modules = Modules::new("crates/a/src", &sources);
        let owned = |circle: Vec<&str>| circle.into_iter().map(str::to_owned).collect();
        modules.circles().into_iter().map(owned).collect()
    }

    #[test]
    fn imports_that_only_go_down_are_no_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use b::Thing;\n"),
            ("a.rs", "use crate::Thing;\nuse std::fmt::{self, Write};\n"),
            (
                "b.rs",
                "pub struct Thing;\n#[cfg(test)]\nmod tests { use crate::a::x; }\n",
            ),
        ];
        assert_eq!(circles(&files), [[""; 0]; 0]);
    }

    #[test]
    fn circles_are_found_through_groups_aliases_paths_and_exports() {
        for (a, b) in [
            ("use crate::b::Thing;", "use crate::a::go;"),
            (
                "use crate::{b::{self as other, x}};",
                "fn f() { crate::a::go() }",
            ),
            ("use super::Thing;", "use super::a;"),
            ("use crate::Thing;", "fn f() { super::a::go::<u8>() }"),
        ] {
            let files = [
                ("lib.rs", "mod a;\nmod b;\npub use b::Thing;\n"),
                ("a.rs", a),
                ("b.rs", b),
            ];
            let want = [["crates/a/src/a.rs", "crates/a/src/b.rs"]];
            assert_eq!(circles(&files), want, "{a} {b}");
        }
    }

    #[test]
    fn a_parent_and_its_child_can_form_one() {
        let files = [
            ("lib.rs", "mod a;\n"),
            ("a/mod.rs", "mod b;\npub struct T;\nfn f() { b::g() }\n"),
            ("a/b.rs", "use super::T;\npub fn g() {}\n"),
        ];
        assert_eq!(
            circles(&files),
            [["crates/a/src/a/mod.rs", "crates/a/src/a/b.rs"]]
        );
    }
}
