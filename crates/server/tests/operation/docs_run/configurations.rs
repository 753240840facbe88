//! Blocks of `toml`: each is a configuration, alone with what it stands in, or behind another of its
//! page that it goes on with.
//!
//! Called by: the test that runs the commands of the documentation.
//! Caveat: what pages name has to be there (`lay_out.sh`), or the check finds an error.

use super::setup::{CONFIGURATION, Setup};
use crate::{debian_root::machine, docs_blocks::Block, operate::SAKER};
use std::{fs, process::Command, sync::Mutex, thread};

const THREADS: usize = 4;

/// Returns the errors of `saker check`, by page and line.
pub fn check(setup: &Setup, blocks: &[Block]) -> Vec<String> {
    fs::copy(setup.own("saker.toml"), CONFIGURATION).unwrap();
    fs::create_dir_all("/var/log/saker").unwrap();
    // The example of contributing.md is of a key that is to be added.
    let is_whole = |block: &&Block| block.language == "toml" && block.page != "contributing.md";
    let all: Vec<&Block> = blocks.iter().filter(is_whole).collect();
    let (next, failures) = (Mutex::new(0..all.len()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (all, next, failures) = (&all, &next, &failures);
            scope.spawn(move || {
                let name = format!("block-{thread}.toml");
                loop {
                    let Some(number) = next.lock().unwrap().next() else {
                        return;
                    };
                    failures
                        .lock()
                        .unwrap()
                        .extend(check_block(setup, all, number, &name));
                }
            });
        }
    });
    fs::remove_dir_all("/var/log/saker").unwrap();
    failures.into_inner().unwrap()
}

fn check_block(setup: &Setup, all: &[&Block], number: usize, name: &str) -> Option<String> {
    let block = all[number];
    let why = accepted(setup, name, &completed(&block.text)).err()?;
    let mut earlier = all[..number]
        .iter()
        .rev()
        .filter(|other| other.page == block.page);
    let goes_on = earlier.any(|other| {
        let whole = format!("{}\n{}", other.text, block.text);
        accepted(setup, name, &completed(&whole)).is_ok()
    });
    (!goes_on).then(|| format!("== {}:{}\n{why}", block.page, block.line))
}

fn accepted(setup: &Setup, name: &str, text: &str) -> Result<(), String> {
    fs::write(setup.here.join(name), text).unwrap();
    let mut check = Command::new(SAKER);
    check.args(["check", name]).current_dir(&setup.here);
    let output = check.output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{text}--\n{}", machine::text(&output))),
    }
}

/// A block with what it stands in.
pub fn completed(block: &str) -> String {
    let lines = || block.lines().map(str::trim);
    let first = lines()
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .unwrap_or_default();
    let site = "[[site]]\nnames = [\"*\"]\nroot = \"/srv/www\"\n";
    let listener = "[[listener]]\naddress = \"127.0.0.1:8080\"\n";
    // Keys without a table are of a site, conditions of a route.
    if first.starts_with("match =") {
        return format!("{listener}{site}[[site.route]]\ndeny = true\n{block}");
    }
    if !first.starts_with('[') && !first.starts_with("include ") {
        return format!("{listener}{site}{block}");
    }
    let has = |table: &str| lines().any(|line| line.starts_with(table));
    let inner = lines().position(|line| line.starts_with("[site.") || line.starts_with("[[site."));
    let own = lines().position(|line| line.starts_with("[[site]]"));
    let is_inner = inner.is_some_and(|inner| own.is_none_or(|own| inner < own));
    let is_secure = block.contains("https_redirect") || block.contains("tls = true");
    let site = match is_secure {
        true => site.to_owned() + "[site.tls]\nautomatic = \"local\"\n",
        false => site.to_owned(),
    };
    let mut behind = String::new();
    if !has("[[listener]]") {
        behind += listener;
        if is_secure {
            behind += "[[listener]]\naddress = \"127.0.0.1:8443\"\ntls = true\n";
        }
    }
    if own.is_none() && !is_inner {
        behind += &site;
    }
    let before = if is_inner { &site } else { "" };
    format!("{before}{block}\n{behind}")
}
