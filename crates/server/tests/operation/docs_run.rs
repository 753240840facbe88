//! The documentation, followed: every command of a block for a shell runs on a machine of the
//! test's own, and every block of `toml` is a configuration that `saker check` accepts there.
//!
//! The machine has what pages take for granted: sites below `/srv`, a server under `/etc/saker/saker.toml`,
//! Apache and nginx as Debian has them. `saker serve` and `saker run` are stopped once they are ready; what
//! installs, builds, or tests is compared with what there is (`docs_run/commands.py`).
//!
//! Caveat: needs root. Commands that `docs_run/rows.toml` leaves out are read by a shell and by
//! `saker` alone.
// The whole folder is tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod configurations;
mod rows;
mod setup;

use crate::{
    debian_root::machine::{self, Machine, run},
    docs_blocks::{Block, blocks},
};
use setup::Setup;
use std::{collections::HashSet, fs};

#[test]
fn what_the_pages_say_can_be_done() {
    if !rustix::process::geteuid().is_root() {
        return println!("left out: needs root");
    }
    println!("{}", machine::on_its_own("docs_run::on_a_machine"));
}

#[test]
#[ignore = "changes what it can reach; run on a machine of its own"]
fn on_a_machine() {
    let machine = Machine::lay_out("docs");
    let blocks = blocks();
    let setup = Setup::lay_out(&machine, &blocks);
    let mut failures = configurations::check(&setup, &blocks);
    let (mut seen, mut count) = (HashSet::<String>::new(), 0);
    for (number, block) in blocks.iter().enumerate() {
        let before = blocks[..number]
            .iter()
            .rfind(|other| other.language == "toml" && other.page == block.page);
        let outcome = match block.language.as_str() {
            "sh" => run_block(&setup, block, before, &mut seen),
            "console" => compare(&setup, block, before, &mut seen),
            "logrotate" => rotate(&setup, block),
            _ => continue,
        };
        count += 1;
        if let Err(why) = outcome {
            failures.push(format!("== {}:{}\n{why}", block.page, block.line));
        }
    }
    failures.extend(setup.rows.unused(&seen));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 40, "{count} blocks");
}

fn run_block(
    setup: &Setup,
    block: &Block,
    before: Option<&Block>,
    seen: &mut HashSet<String>,
) -> Result<(), String> {
    let lines = block.text.replace("\\\n", " ");
    let kept: Vec<&str> = lines
        .lines()
        .filter(|line| !setup.rows.leave_out(block, line, seen))
        .collect();
    let script = setup.rows.fill_in(block, &kept.join("\n"), seen);
    let token = setup.begin(block, before);
    let (status, said) = setup.bash(&script, &token);
    match status.success() {
        true => Ok(()),
        false => Err(format!("{script}\n-- {status}\n{said}")),
    }
}

/// A command with what it prints: `...` stands for anything, and makes digits of the line be any.
fn compare(
    setup: &Setup,
    block: &Block,
    before: Option<&Block>,
    seen: &mut HashSet<String>,
) -> Result<(), String> {
    let mut lines = block
        .text
        .lines()
        .filter(|line| !setup.rows.leave_out(block, line, seen))
        .peekable();
    while let Some(line) = lines.next() {
        let command = line
            .strip_prefix("$ ")
            .ok_or_else(|| format!("no command: {line}"))?;
        let token = setup.begin(block, before);
        let (_, said) = setup.bash(command, &token);
        while let Some(shown) = lines.next_if(|line| !line.starts_with("$ ")) {
            if !said.lines().any(|line| is_shown(shown, line)) {
                return Err(format!("{shown}\n-- {command}:\n{said}"));
            }
        }
    }
    Ok(())
}

fn is_shown(shown: &str, line: &str) -> bool {
    if !shown.contains("...") {
        return line.starts_with(shown);
    }
    let alike = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
    let (shown, line) = (alike(shown), alike(line));
    let mut at = 0;
    shown.split("...").enumerate().all(|(number, part)| {
        let found = line[at..].find(part);
        at += found.unwrap_or_default() + part.len();
        found.is_some_and(|found| number > 0 || found == 0)
    })
}

/// Rules of logrotate, or a part of one.
fn rotate(setup: &Setup, block: &Block) -> Result<(), String> {
    let text = match block.text.contains('{') {
        true => block.text.clone(),
        false => format!("/var/log/saker/*.log {{\n{}}}\n", block.text),
    };
    fs::create_dir_all("/var/log/saker").unwrap();
    let file = setup.here.join("logrotate.conf");
    fs::write(&file, text).unwrap();
    let said = run("logrotate", ["-d".as_ref(), file.as_os_str()]);
    match said.contains("error:") {
        false => Ok(()),
        true => Err(said),
    }
}

#[test]
fn lines_are_what_is_shown() {
    assert!(is_shown(
        "a?expires=1800003600&sig=...",
        "a?expires=1900000000&sig=f00"
    ));
    assert!(!is_shown(
        "a?expires=1800003600&sig=...",
        "b?expires=1900000000&sig=f00"
    ));
    assert!(is_shown("403 Forbidden", "403 Forbidden"));
    assert!(!is_shown("403 Forbidden", "404 Not Found"));
    assert!(is_shown("a ... c", "a b c"));
    assert!(!is_shown("a ... d", "a b c"));
}
