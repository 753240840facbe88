//! The rules for single files.

use super::{
    exceptions::{Exceptions, Kind},
    finding::{File, Finding},
    scanner::{self, ModuleFile},
};
use std::collections::HashSet;

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "util", "utils", "misc", "helper", "helpers"];
/// Macros that stand for work that was not done.
const UNDONE: &[&str] = &["todo!", "unimplemented!", "dbg!"];
/// In pieces, so that this file passes its own rule.
const MARKS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];
/// Paths of one machine.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/tmp/", "target")];
const HOME_OF_UNSAFE: &str = "crates/net/";
/// Crates that see paths below document roots, where a name may be that of a FIFO: they open files
/// by `saker_files` alone.
const OPEN_BY_FILES: &[&str] = &[
    "apache",
    "apache-model",
    "cgi",
    "dav",
    "esi",
    "ap-expr",
    "files",
    "gateway",
    "abuse",
    "content",
    "handlers",
    "page-cache",
    "static-files",
    "dynamic-vhosts",
    "media",
    "pipeline",
    "rewrite",
    "ssi",
];
/// Ways to open files, and to read them by their names.
const OPENINGS: &[&str] = &[
    "File::open",
    "File::create",
    "File::options",
    "OpenOptions::new",
    "fs::read(",
    "fs::read_to_string(",
    "fs::read_dir(",
    "fs::open(",
    "fs::openat",
    "openat(",
    "openat2(",
    "open(CWD",
    "fs::write(",
    "fs::copy(",
    // As root: what requests and document roots name may never come there.
    "privileged::",
];

/// Rules for a Rust file; `for_tests`: the whole of it.
pub fn source(
    file: &File,
    for_tests: bool,
    exceptions: &mut Exceptions,
    findings: &mut Vec<Finding>,
) {
    let code = scanner::code_only(&file.text);
    let in_test = if for_tests {
        vec![true; code.lines().count() + 2]
    } else {
        scanner::test_lines(&code)
    };
    if !for_tests {
        header(file, findings);
    }
    name(file, findings);
    size(file, &in_test, exceptions, findings);
    function_sizes(file, &code, &in_test, exceptions, findings);
    undone(file, &code, findings);
    if !file.path.starts_with(HOME_OF_UNSAFE) {
        let places = scanner::words(&code, concat!("un", "safe"));
        findings.extend(places.map(|at| {
            Finding::new(
                &file.path,
                scanner::line_of(&code, at),
                "unsafe code lives in crates/net alone",
            )
        }));
    }
    unwraps(file, &code, &in_test, exceptions, findings);
    openings(file, &code, &in_test, exceptions, findings);
}

/// The files that are compiled for tests only: modules declared so, what lies below them, and
/// Cargo's `tests` folders.
pub fn test_files(files: &[File]) -> HashSet<String> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let roots: HashSet<String> = sources
        .flat_map(|file| {
            scanner::test_modules(&file.text)
                .iter()
                .flat_map(|module| module_paths(&file.path, module))
                .collect::<Vec<_>>()
        })
        .collect();
    let below_root = |path: &str| {
        path.match_indices('/')
            .any(|(at, _)| roots.contains(&format!("{}.rs", &path[..at])))
    };
    let of_cargo = |path: &str| {
        path.starts_with("tests/")
            || path
                .split_once("/tests/")
                .is_some_and(|(before, _)| !before.contains("/src"))
    };
    let paths = files.iter().map(|file| file.path.as_str());
    paths
        .filter(|path| roots.contains(*path) || below_root(path) || of_cargo(path))
        .map(str::to_owned)
        .collect()
}

/// Paths where Rust looks for a module that the file at `path` declares.
fn module_paths(path: &str, module: &ModuleFile) -> [String; 2] {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = match module {
        ModuleFile::Path(relative) => return [format!("{folder}/{relative}"), String::new()],
        ModuleFile::Name(name) => name,
    };
    let home = if matches!(file, "lib.rs" | "main.rs" | "mod.rs") {
        folder
    } else {
        path.trim_end_matches(".rs")
    };
    [format!("{home}/{name}.rs"), format!("{home}/{name}/mod.rs")]
}

/// Rules for any text.
pub fn any_text(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
            findings.push(Finding::new(
                &file.path,
                index + 1,
                format!("`{path}` is a path of one machine"),
            ));
        }
    }
}

/// A change that users notice is in the change log, which has a section for what comes next and one
/// for the version that is out.
pub fn changelog(text: &str, manifest: &str, findings: &mut Vec<Finding>) {
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = "))
        .unwrap_or_default()
        .trim_matches('"');
    for heading in ["Unreleased", version] {
        if !text.lines().any(|line| {
            line.starts_with("## ") && line[3..].trim_start_matches('[').starts_with(heading)
        }) {
            findings.push(Finding::new(
                "CHANGELOG.md",
                0,
                format!("has no section `## {heading}`"),
            ));
        }
    }
}

fn header(file: &File, findings: &mut Vec<Finding>) {
    if !file.text.trim_start().starts_with("//!") {
        findings.push(Finding::new(
            &file.path,
            1,
            "has no `//!` header: purpose, place, the one difficulty, what is absent",
        ));
    }
}

fn name(file: &File, findings: &mut Vec<Finding>) {
    let parts = file.path.trim_end_matches(".rs").split('/');
    for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
        findings.push(Finding::new(
            &file.path,
            0,
            format!("`{part}` says nothing: name it after what is inside"),
        ));
    }
}

fn size(file: &File, in_test: &[bool], exceptions: &mut Exceptions, findings: &mut Vec<Finding>) {
    let lines = (1..=file.text.lines().count())
        .filter(|line| !in_test[*line])
        .count();
    let allowed = exceptions.allowed(Kind::FileLines, &file.path, lines, FILE_LINES_MAX);
    if lines > allowed {
        findings.push(Finding::new(
            &file.path,
            0,
            format!("has {lines} lines without its tests; at most {allowed}"),
        ));
    }
}

fn function_sizes(
    file: &File,
    code: &str,
    in_test: &[bool],
    exceptions: &mut Exceptions,
    findings: &mut Vec<Finding>,
) {
    for function in scanner::functions(code)
        .into_iter()
        .filter(|function| !in_test[function.line])
    {
        let subject = format!("{} {}", file.path, function.name);
        let allowed = exceptions.allowed(
            Kind::FunctionLines,
            &subject,
            function.lines,
            FUNCTION_LINES_MAX,
        );
        if function.lines > allowed {
            let what = format!(
                "`{}` has {} lines; at most {allowed}",
                function.name, function.lines
            );
            findings.push(Finding::new(&file.path, function.line, what));
        }
    }
}

fn undone(file: &File, code: &str, findings: &mut Vec<Finding>) {
    for mark in UNDONE {
        for (at, _) in code
            .match_indices(mark)
            .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        {
            findings.push(Finding::new(
                &file.path,
                scanner::line_of(code, at),
                format!("`{mark}`"),
            ));
        }
    }
    for mark in MARKS {
        for at in scanner::words(&file.text, mark) {
            findings.push(Finding::new(
                &file.path,
                scanner::line_of(&file.text, at),
                format!("`{mark}`: do it, or file it"),
            ));
        }
    }
}

fn unwraps(
    file: &File,
    code: &str,
    in_test: &[bool],
    exceptions: &mut Exceptions,
    findings: &mut Vec<Finding>,
) {
    let places = code
        .match_indices(".unwrap()")
        .map(|(at, _)| scanner::line_of(code, at));
    let lines: Vec<usize> = places.filter(|line| !in_test[*line]).collect();
    let allowed = exceptions.allowed(Kind::Unwrap, &file.path, lines.len(), 0);
    if lines.len() > allowed {
        findings.extend(lines.iter().map(|line| {
            Finding::new(
                &file.path,
                *line,
                format!("`.unwrap()` outside tests; at most {allowed} here"),
            )
        }));
    }
}

fn openings(
    file: &File,
    code: &str,
    in_test: &[bool],
    exceptions: &mut Exceptions,
    findings: &mut Vec<Finding>,
) {
    let in_source = file
        .path
        .strip_prefix("crates/")
        .and_then(|path| path.split_once("/src/"));
    if !in_source.is_some_and(|(name, _)| OPEN_BY_FILES.contains(&name)) {
        return;
    }
    let places = OPENINGS
        .iter()
        .flat_map(|opening| code.match_indices(opening))
        .map(|(at, _)| scanner::line_of(code, at));
    let lines: std::collections::BTreeSet<usize> = places.filter(|line| !in_test[*line]).collect();
    let allowed = exceptions.allowed(Kind::Opens, &file.path, lines.len(), 0);
    if lines.len() > allowed {
        let what = format!(
            "opens a file by itself: `saker_files` does that without blocking on what others may put there; at most {allowed} here"
        );
        findings.extend(
            lines
                .iter()
                .map(|line| Finding::new(&file.path, *line, what.clone())),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str, agreed: &str) -> Vec<String> {
        let (mut exceptions, mut findings) = Exceptions::parse("agreed", agreed);
        let file = File {
            path: path.into(),
            text: text.into(),
        };
        source(
            &file,
            path.ends_with("tests.rs"),
            &mut exceptions,
            &mut findings,
        );
        any_text(&file, &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    fn long_function(lines: usize) -> String {
        format!(
            "//! x\nfn long() {{\n{}}}\n",
            "    work();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn good_code_has_no_findings() {
        let text = "//! Header.\nfn a() -> u8 { b().unwrap_or(1) } // .unwrap()\n#[cfg(test)]\nmod tests { fn t() { x().unwrap(); } }\n";
        assert_eq!(found("crates/http/src/a.rs", text, ""), [""; 0]);
    }

    #[test]
    fn each_rule_finds_its_own() {
        let text = format!(
            "fn a() {{\n    x.unwrap();\n    {}();\n    {} {{ y() }}\n    // {}: later\n    \"{}main\";\n}}\n",
            UNDONE[0],
            concat!("un", "safe"),
            MARKS[0],
            MACHINE_PATHS[0]
        );
        let lines: Vec<String> = found("crates/http/src/util.rs", &text, "");
        let starts = |line: &str| {
            lines
                .iter()
                .filter(|finding| finding.starts_with(&format!("crates/http/src/util.rs{line}: ")))
                .count()
        };
        assert_eq!(
            [
                starts(":1"),
                starts(""),
                starts(":2"),
                starts(":3"),
                starts(":4"),
                starts(":5"),
                starts(":6")
            ],
            [1; 7],
            "{lines:#?}"
        );
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn sizes_at_the_edge() {
        assert_eq!(found("a.rs", &long_function(70), ""), [""; 0]);
        assert_eq!(
            found("a.rs", &long_function(71), ""),
            ["a.rs:2: `long` has 71 lines; at most 70"]
        );
        assert_eq!(
            found(
                "a.rs",
                &long_function(71),
                "fn-lines a.rs long 71 one match"
            ),
            [""; 0]
        );
        assert_eq!(
            found(
                "a.rs",
                &long_function(72),
                "fn-lines a.rs long 71 one match"
            )
            .len(),
            1
        );
        let long = |lines: usize| format!("//! x\n{}", "const A: u8 = 1;\n".repeat(lines - 1));
        assert_eq!(found("a.rs", &long(800), ""), [""; 0]);
        assert_eq!(
            found("a.rs", &long(801), ""),
            ["a.rs: has 801 lines without its tests; at most 800"]
        );
        assert_eq!(found("a/tests.rs", &long(801), ""), [""; 0]);
    }

    #[test]
    fn home_of_what_is_not_safe() {
        let text = format!("//! x\n{} fn a() {{}}\n", concat!("un", "safe"));
        assert_eq!(found("crates/net/src/a.rs", &text, ""), [""; 0]);
        assert_eq!(found("crates/http/src/a.rs", &text, "").len(), 1);
    }

    #[test]
    fn files_are_opened_in_one_place() {
        let text = "//! x\nfn a() { std::fs::read(x); File::open(x); std::fs::File::open(y); }\nfn b() { OpenOptions::new().open(x); }\n\
                    // File::open\n#[cfg(test)]\nmod tests { fn t() { File::open(x); } }\n";
        for path in ["crates/apache/src/a.rs", "crates/handlers/src/a/b.rs"] {
            assert_eq!(found(path, text, "").len(), 2, "{path}");
            assert_eq!(
                found(
                    path,
                    text,
                    &format!("opens {path} 2 files of the configuration")
                ),
                [""; 0]
            );
        }
        for path in [
            "crates/server/src/a.rs",
            "crates/apache/src/tests.rs",
            "crates/apache/tests/a.rs",
        ] {
            assert_eq!(found(path, text, ""), [""; 0], "{path}");
        }
    }

    #[test]
    fn which_files_are_tests() {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file(
                "crates/a/src/lib.rs",
                "#[cfg(test)]\nmod scratch;\nmod b;\n",
            ),
            file(
                "crates/a/src/b.rs",
                "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"b_more.rs\"]\nmod more;\n",
            ),
            file("crates/a/src/b/tests.rs", "mod deep;\n"),
            file("crates/a/src/b/tests/deep.rs", ""),
            file("crates/a/src/b_more.rs", ""),
            file("crates/a/src/scratch.rs", ""),
            file("crates/a/tests/all.rs", ""),
            file("crates/a/src/tests/real.rs", ""),
        ];
        let found = test_files(&files);
        let product: Vec<&str> = files
            .iter()
            .map(|file| file.path.as_str())
            .filter(|path| !found.contains(*path))
            .collect();
        assert_eq!(
            product,
            [
                "crates/a/src/lib.rs",
                "crates/a/src/b.rs",
                "crates/a/src/tests/real.rs"
            ]
        );
    }

    #[test]
    fn change_log_sections() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"\n";
        let mut findings = Vec::new();
        changelog(
            "# Changes\n\n## Unreleased\n\n## 0.1.0\n",
            manifest,
            &mut findings,
        );
        assert_eq!(findings, []);
        changelog("# Changes\n\n## 0.0.9\n", manifest, &mut findings);
        assert_eq!(findings.len(), 2);
    }
}
