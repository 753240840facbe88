//! Blocks of code in the documentation: each has a language, `toml` is read, commands of `saker` are
//! understood, and what a shell is to run is a shell's language. Machines of their own run the commands and
//! check the configurations as a whole (`docs_run`).
//!
//! Caveat: blocks of `toml` are parts of configurations: what they stand in is put in front of them,
//! so that their keys are checked, too. Files and programs that they name are not there.

use crate::operate::{SAKER, folder, saker, stderr, stdout};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Languages of blocks. Of these, `sh` and `console` are run, `toml` is read; the others are for readers.
const LANGUAGES: [&str; 18] = [
    "sh",
    "console",
    "toml",
    "text",
    "apache",
    "caddy",
    "haproxy",
    "html",
    "lighttpd",
    "logrotate",
    "nginx",
    "openlitespeed",
    "rust",
    "sql",
    "vcl",
    "yaml",
    "python",
    "json",
];

pub struct Block {
    pub page: String,
    pub line: usize,
    pub language: String,
    pub text: String,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![
        root.join("README.md"),
        root.join("contrib/proxies/README.md"),
        root.join("deploy/README.md"),
    ];
    let docs = fs::read_dir(root.join("docs")).unwrap().flatten();
    pages.extend(
        docs.map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "md")),
    );
    pages.sort();
    pages
}

pub fn blocks() -> Vec<Block> {
    let mut all = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(&root).unwrap();
        let name = name.to_string_lossy().replace("docs/", "");
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(text.lines()) {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Block {
                        page: name.clone(),
                        line: number,
                        language: language.trim().into(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => all.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{name}: a block is not closed");
    }
    all
}

#[test]
fn every_block_has_a_language() {
    let unknown = |block: &&Block| !LANGUAGES.contains(&block.language.as_str());
    let failures: Vec<String> = blocks()
        .iter()
        .filter(unknown)
        .map(|block| format!("{}:{}: `{}`", block.page, block.line, block.language))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_block_of_toml_is_read() {
    let mut failures = Vec::new();
    let mut count = 0;
    for block in blocks().iter().filter(|block| block.language == "toml") {
        count += 1;
        // Parts of an inline table, and lines left out, stand for themselves.
        if let Err(error) = toml::from_str::<toml::Table>(&block.text) {
            failures.push(format!("{}: {error}\n{}", block.page, block.text));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 50, "{count} blocks");
}

/// The block within what it stands in. `None`: it begins with keys of a table that it does not name.
fn completed(block: &str) -> Option<String> {
    let lines = || block.lines().map(str::trim);
    let first = lines().find(|line| !line.is_empty() && !line.starts_with('#'))?;
    if !first.starts_with('[') && !first.starts_with("include ") {
        return None;
    }
    let mut whole = String::new();
    if !block.contains("[[listener]]") {
        whole += "[[listener]]\naddress = \"127.0.0.1:8080\"\n";
    }
    let inner = lines().position(|line| line.starts_with("[site.") || line.starts_with("[[site."));
    let site = lines().position(|line| line.starts_with("[[site]]"));
    if inner.is_some_and(|inner| site.is_none_or(|site| inner < site)) {
        whole += "[[site]]\nnames = [\"*\"]\nroot = \"/var/www\"\n";
    }
    // What stands before all tables has to stay there.
    Some(match first.starts_with('[') {
        true => whole + block,
        false => block.to_owned() + "\n" + &whole,
    })
}

#[test]
fn every_key_of_a_toml_block_is_known() {
    let dir = folder("docs-blocks");
    let (mut failures, mut count) = (Vec::new(), 0);
    // Its example is of a key that is to be added.
    let is_checked = |block: &&Block| block.language == "toml" && block.page != "contributing.md";
    for block in blocks().iter().filter(is_checked) {
        let Some(text) = completed(&block.text) else {
            continue;
        };
        count += 1;
        let file = dir.write("saker.toml", &text).unwrap();
        let said = stderr(&saker(["check".as_ref(), file.as_os_str()]));
        let unknown = said.lines().filter(|line| {
            ["error: unknown key", "error: unknown table"]
                .iter()
                .any(|error| line.contains(error))
        });
        failures.extend(unknown.map(|line| format!("{}: {line}\n{text}", block.page)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 40, "{count} blocks");
}

/// The first page shows what `saker explain` says of its configuration.
#[test]
fn the_first_page_explains_as_the_server_does() {
    let dir = folder("docs-readme");
    let own = blocks();
    let mut own = own.iter().filter(|block| block.page == "README.md");
    let configuration = own.find(|block| block.language == "toml").unwrap();
    dir.write("saker.toml", &configuration.text).unwrap();
    let shown = own.next().unwrap();
    let (command, lines) = shown.text.split_once('\n').unwrap();
    let words = words(command.strip_prefix("$ saker ").unwrap()).unwrap();
    let output = Command::new(SAKER)
        .args(words)
        .args(["-c", "saker.toml"])
        .current_dir(&*dir)
        .output()
        .unwrap();
    let said = stdout(&output);
    for line in lines.lines() {
        assert!(
            said.lines().any(|one| one.starts_with(line)),
            "{line}\n{said}{}",
            stderr(&output)
        );
    }
}

#[test]
fn every_shell_block_is_one() {
    let mut count = 0;
    for block in blocks().iter().filter(|block| block.language == "sh") {
        count += 1;
        let mut shell = Command::new("bash")
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), block.text.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}: {}\n{}",
            block.page,
            stderr(&output),
            block.text
        );
    }
    assert!(count > 4, "{count} blocks");
}

/// Calls in blocks for a shell: one per line, up to what a shell would take for itself.
#[test]
fn commands_of_saker_are_understood() {
    let mut count = 0;
    let mut failures = Vec::new();
    for block in blocks().iter().filter(|block| block.language == "sh") {
        let joined = block.text.replace("\\\n", " ");
        for line in joined
            .lines()
            .filter_map(|line| line.trim().strip_prefix("saker "))
        {
            let Some(words) = words(line) else { continue };
            count += 1;
            let output = Command::new(SAKER)
                .args(&words)
                .arg("--help")
                .output()
                .unwrap();
            if !output.status.success() {
                failures.push(format!("{}: saker {line}\n{}", block.page, stderr(&output)));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 40, "{count} commands");
}

/// Calls in a line of text: options and their values are known. One may end with an option that is
/// only named, without its value.
#[test]
fn commands_within_text_are_understood() {
    let (mut failures, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut in_block = false;
        let lines = text.lines().filter(|line| {
            in_block ^= line.trim_start().starts_with("```");
            !in_block
        });
        let prose = lines.collect::<Vec<_>>().join(" ");
        let spans = prose.split('`').skip(1).step_by(2);
        for line in spans.filter_map(|span| span.strip_prefix("saker ")) {
            let Some(words) = words(line) else { continue };
            count += 1;
            let mut command = Command::new(SAKER);
            let said = stderr(&command.args(&words).arg("--help").output().unwrap());
            let is_named = words.last().is_some_and(|word| word.starts_with("--"));
            let is_known = said.is_empty() || (is_named && said.contains("a value is required"));
            if !is_known {
                failures.push(format!("{}: saker {line}\n{said}", page.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 80, "{count} commands");
}

/// The words of a command. `None`: it is a pattern of one, with something left to fill in.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for letter in line.chars() {
        match (letter, quote) {
            ('…' | '[' | '<' | '$', None) => return None,
            (_, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            ('|' | '&' | ';' | '>', None) => break,
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (!words.iter().any(|word| word == "...")).then_some(words)
}

#[test]
fn words_of_a_line() {
    assert_eq!(
        words("cache warm -H 'User-Agent: x y' https://e/ > out # why").unwrap(),
        ["cache", "warm", "-H", "User-Agent: x y", "https://e/"]
    );
    assert_eq!(words("purge [--all]"), None);
    assert_eq!(words("purge ..."), None);
}
