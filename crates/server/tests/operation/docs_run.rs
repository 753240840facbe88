//! What the documentation says to do, done: every command of a block for a shell runs on a machine of the
//! test's own, and every block of `toml` is a configuration that `saker check` accepts there.
//!
//! The machine has what pages take for granted: sites below `/srv`, a server under `/etc/saker/saker.toml`,
//! Apache and nginx as Debian has them. `saker serve` and `saker run` are stopped once they are ready; what
//! installs, builds, or tests is compared with what there is (`docs_run/commands.py`).
//!
//! Caveat: needs root. Commands that `docs_run/rows.toml` leaves out are read by a shell and by `saker` alone.
// The whole file is tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::{
    debian_root::machine::{self, Machine, PATH, run},
    docs_blocks::{Block, blocks},
    operate::{SAKER, wait_until},
};
use saker_testkit::mmdb::{Data, database};
use std::{
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Files of this test.
const OWN: &str = "crates/server/tests/operation/docs_run";
const CONFIGURATION: &str = "/etc/saker/saker.toml";
/// Beyond what a block takes on a busy machine.
const SECONDS_MAX: &str = "60";

/// `docs_run/rows.toml`.
struct Rows {
    /// Pages whose commands speak to a running server.
    running: Vec<String>,
    /// Page and start of commands that are not run; a reason stands beside them.
    not_run: Vec<[String; 3]>,
    /// Page, words, and what stands in their place.
    instead: Vec<[String; 3]>,
}

impl Rows {
    fn read(path: &Path) -> Rows {
        let table: toml::Table = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let rows = |name: &str, keys: [&str; 3]| {
            let rows = table[name].as_array().unwrap().iter();
            rows.map(|row| keys.map(|key| text(&row[key]))).collect()
        };
        Rows {
            running: table["running"]
                .as_array()
                .unwrap()
                .iter()
                .map(text)
                .collect(),
            not_run: rows("not_run", ["page", "start", "reason"]),
            instead: rows("instead", ["page", "words", "by"]),
        }
    }
}

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
    let desk = Desk::lay_out(&machine);
    let blocks = blocks();
    let mut failures = desk.check_configurations(&blocks);
    let mut seen = HashSet::<String>::new();
    let mut count = 0;
    for (number, block) in blocks.iter().enumerate() {
        let before = blocks[..number]
            .iter()
            .rfind(|other| other.language == "toml" && other.page == block.page);
        let outcome = match block.language.as_str() {
            "sh" => desk.run(block, before, &mut seen),
            "console" => desk.compare(block, before, &mut seen),
            "logrotate" => desk.rotate(block),
            _ => continue,
        };
        count += 1;
        if let Err(why) = outcome {
            failures.push(format!("== {}:{}\n{why}", block.page, block.line));
        }
    }
    let rows = &desk.rows;
    failures.extend(
        rows.not_run
            .iter()
            .chain(&rows.instead)
            .filter(|[_, words, _]| !seen.contains(words))
            .map(|[page, words, _]| format!("rows.toml: {page} does not say `{words}`")),
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 40, "{count} blocks");
}

/// Where the commands run: a folder with what pages take for granted, and one with the programs.
struct Desk {
    root: PathBuf,
    programs: PathBuf,
    here: PathBuf,
    rows: Rows,
}

impl Desk {
    fn lay_out(machine: &Machine) -> Desk {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().unwrap();
        let rows = Rows::read(&root.join(OWN).join("rows.toml"));
        let desk = Desk {
            programs: machine.dir.join("programs"),
            here: machine.dir.join("here"),
            rows,
            root,
        };
        for folder in [
            "/var/lib",
            "/var/cache",
            "/srv",
            "/opt",
            "/root",
            "/usr/local",
            "/usr/share",
        ] {
            overlay(machine, folder);
        }
        desk.lay_out_programs();
        desk.lay_out_files();
        desk
    }

    fn lay_out_programs(&self) {
        fs::create_dir_all(&self.programs).unwrap();
        let commands = self.own("commands.py");
        for name in [
            "saker",
            "systemctl",
            "apt",
            "apt-get",
            "make",
            "cargo",
            "git",
            "curl",
            "sudo",
        ] {
            symlink(&commands, self.programs.join(name)).unwrap();
        }
    }

    /// A file of this test.
    fn own(&self, name: &str) -> PathBuf {
        self.root.join(OWN).join(name)
    }

    fn lay_out_files(&self) {
        fs::create_dir_all(&self.here).unwrap();
        let answers = File::open("/dev/null").unwrap();
        let script = fs::read_to_string(self.own("lay_out.sh")).unwrap();
        let laid = self.bash(&script, "", answers);
        assert!(laid.status.success(), "{}", machine::text(&laid));
        let place = database([203, 0, 113, 0], 24, &Data::Map(&[]));
        for name in ["Country", "ASN"] {
            fs::create_dir_all("/var/lib/GeoIP").unwrap();
            fs::write(format!("/var/lib/GeoIP/GeoLite2-{name}.mmdb"), &place).unwrap();
        }
        // Files that pages show.
        let blocks = blocks();
        for (page, start, path) in [
            ("rate-limits.md", "192.0.2.0/24", "lists/bad.txt"),
            (
                "modsecurity.md",
                "SecRequestBodyAccess",
                "/etc/saker/modsecurity.conf",
            ),
        ] {
            let found = blocks
                .iter()
                .find(|block| block.page == page && block.text.starts_with(start));
            fs::write(self.here.join(path), &found.unwrap().text).unwrap();
        }
    }

    /// As before the first command: nothing runs but the server, where a page speaks to one.
    fn begin(&self, block: &Block, before: Option<&Block>) -> String {
        end_all();
        for entry in fs::read_dir("/run").unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("docs-") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        fs::copy(self.own("saker.toml"), CONFIGURATION).unwrap();
        let text = before.map_or_else(
            || fs::read_to_string(CONFIGURATION).unwrap(),
            |block| completed(&block.text),
        );
        fs::write(self.here.join("saker.toml"), text).unwrap();
        if !self.rows.running.contains(&block.page) {
            return String::new();
        }
        let saker = |words: &[&str]| Command::new(SAKER).args(words).output().unwrap();
        let log = File::create(self.here.join("server.log")).unwrap();
        Command::new(SAKER)
            .args(["run", "-c", CONFIGURATION])
            .stderr(log)
            .spawn()
            .unwrap();
        wait_until("the server runs", || {
            saker(&["status", "--healthy"]).status.success()
        });
        saker(&["console", "token", "remove", "docs"]);
        let token = saker(&["console", "token", "add", "docs", "--role", "operator"]);
        assert!(token.status.success(), "{}", machine::text(&token));
        String::from_utf8(token.stdout).unwrap().trim().to_owned()
    }

    fn answers(&self) -> File {
        File::open(self.here.join("answers")).unwrap()
    }

    fn bash(&self, script: &str, token: &str, answers: File) -> Output {
        let path = format!("{}:{PATH}", self.programs.display());
        Command::new("timeout")
            .args([
                "-k",
                "1",
                SECONDS_MAX,
                "setsid",
                "-w",
                "bash",
                "-euo",
                "pipefail",
                "-c",
                script,
            ])
            .current_dir(&self.here)
            .env("PATH", path)
            .env("HOME", "/root")
            .env("TOKEN", token)
            .env("SAKER_DOCS_ROOT", &self.root)
            .env("SAKER_DOCS_PROGRAM", SAKER)
            .env("SAKER_DOCS_ANSWERS", self.here.join("answers"))
            .stdin(answers)
            .output()
            .unwrap()
    }

    fn run(
        &self,
        block: &Block,
        before: Option<&Block>,
        seen: &mut HashSet<String>,
    ) -> Result<(), String> {
        let lines = block.text.replace("\\\n", " ");
        let kept: Vec<&str> = lines
            .lines()
            .filter(|line| !self.is_left_out(block, line, seen))
            .collect();
        let mut script = kept.join("\n");
        let instead = self.rows.instead.iter();
        for [_, words, by] in instead.filter(|[page, ..]| *page == block.page) {
            if script.contains(words) {
                seen.insert(words.clone());
                script = script.replacen(words, by, 1);
            }
        }
        let token = self.begin(block, before);
        let output = self.bash(&script, &token, self.answers());
        end_all();
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{script}\n-- {}\n{}",
                output.status,
                machine::text(&output)
            )),
        }
    }

    /// A command with what it prints: `...` stands for anything, numbers of ten digits are times.
    fn compare(
        &self,
        block: &Block,
        before: Option<&Block>,
        seen: &mut HashSet<String>,
    ) -> Result<(), String> {
        let mut lines = block
            .text
            .lines()
            .filter(|line| !self.is_left_out(block, line, seen))
            .peekable();
        while let Some(line) = lines.next() {
            let command = line
                .strip_prefix("$ ")
                .ok_or_else(|| format!("no command: {line}"))?;
            let token = self.begin(block, before);
            let printed = self.bash(command, &token, self.answers());
            let said = machine::text(&printed);
            while let Some(shown) = lines.next_if(|line| !line.starts_with("$ ")) {
                if !said.lines().any(|line| is_shown(shown, line)) {
                    return Err(format!("{shown}\n-- {command}:\n{said}"));
                }
            }
        }
        Ok(())
    }

    fn is_left_out(&self, block: &Block, line: &str, seen: &mut HashSet<String>) -> bool {
        let mut rows = self.rows.not_run.iter();
        let row = rows.find(|[page, start, _]| *page == block.page && line.starts_with(start));
        seen.extend(row.map(|[_, start, _]| start.clone()));
        row.is_some()
    }

    fn rotate(&self, block: &Block) -> Result<(), String> {
        let text = match block.text.contains('{') {
            true => block.text.clone(),
            false => format!("/var/log/saker/*.log {{\n{}}}\n", block.text),
        };
        fs::create_dir_all("/var/log/saker").unwrap();
        let file = self.here.join("logrotate.conf");
        fs::write(&file, text).unwrap();
        let output = Command::new("logrotate")
            .arg("-d")
            .arg(&file)
            .output()
            .unwrap();
        let said = machine::text(&output);
        match output.status.success() && !said.contains("error:") {
            true => Ok(()),
            false => Err(said),
        }
    }

    /// Every block of `toml`, alone or behind those of its page that it goes on with.
    fn check_configurations(&self, blocks: &[Block]) -> Vec<String> {
        let (mut failures, mut page) = (Vec::new(), Vec::<&str>::new());
        fs::copy(self.own("saker.toml"), CONFIGURATION).unwrap();
        fs::create_dir_all("/var/log/saker").unwrap();
        let mut name = "";
        for block in blocks {
            // Its example is of a key that is to be added.
            if block.language != "toml" || block.page == "contributing.md" {
                continue;
            }
            if name != block.page {
                page.clear();
            }
            name = &block.page;
            let alone = self.check(&completed(&block.text));
            if let Err(why) = alone {
                let behind = page.iter().rev().any(|earlier| {
                    let whole = format!("{earlier}\n{}", block.text);
                    self.check(&completed(&whole)).is_ok()
                });
                if !behind {
                    failures.push(format!("== {}:{}\n{why}", block.page, block.line));
                }
            }
            page.push(&block.text);
        }
        fs::remove_dir_all("/var/log/saker").unwrap();
        failures
    }

    fn check(&self, text: &str) -> Result<(), String> {
        let file = self.here.join("block.toml");
        fs::write(&file, text).unwrap();
        let output = Command::new(SAKER)
            .arg("check")
            .arg(&file)
            .current_dir(&self.here)
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{text}--\n{}", machine::text(&output))),
        }
    }
}

/// True if a line is what the page shows.
fn is_shown(shown: &str, line: &str) -> bool {
    let mut rest = line.to_owned();
    let times = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect()
    };
    if shown.contains("...") {
        rest = times(&rest);
    }
    let parts: Vec<String> = match shown.contains("...") {
        true => times(shown).split("...").map(str::to_owned).collect(),
        false => vec![shown.to_owned()],
    };
    let mut at = 0;
    parts
        .iter()
        .enumerate()
        .all(|(number, part)| match rest[at..].find(part.as_str()) {
            Some(found) if number > 0 || found == 0 => {
                at += found + part.len();
                true
            }
            _ => false,
        })
}

/// A block with what it stands in.
fn completed(block: &str) -> String {
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

/// Lays a file system over a folder that takes what is written.
fn overlay(machine: &Machine, folder: &str) {
    let own = machine
        .dir
        .join(format!("over{}", folder.replace('/', "-")));
    fs::create_dir_all(&own).unwrap();
    let (upper, work) = (own.join("upper"), own.join("work"));
    run("mount", ["-t", "tmpfs", "tmpfs", &own.to_string_lossy()]);
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(&work).unwrap();
    let options = format!(
        "lowerdir={folder},upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    run(
        "mount",
        ["-t", "overlay", "overlay", "-o", &options, folder],
    );
}

/// Ends whatever runs on the machine but the test.
fn end_all() {
    let own = [1, std::process::id()];
    let others = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let numbers =
            all.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
        numbers.filter(|pid| !own.contains(pid)).collect::<Vec<_>>()
    };
    wait_until("the machine is idle", || {
        let left = others();
        let words = left.iter().map(u32::to_string);
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(words)
            .stderr(Stdio::null())
            .status();
        left.iter().all(|pid| is_gone(*pid))
    });
}

/// Ended, or a child of the test that is not asked for its status.
fn is_gone(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    })
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
