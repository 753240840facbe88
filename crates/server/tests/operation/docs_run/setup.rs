//! The machine that the documentation's commands run on: a folder with what pages take for granted, one
//! with programs in place of those that would change more, and a server.
//!
//! Called by: the test that runs the commands of the documentation.
//! Caveat: whatever runs on the machine ends before the next block begins.

use super::{configurations::completed, rows::Rows};
use crate::{
    debian_root::machine::{self, Machine, PATH, overlay},
    docs_blocks::Block,
    operate::{SAKER, wait_until},
};
use saker_testkit::mmdb::{Data, database};
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// Files of this test.
const OWN: &str = "crates/server/tests/operation/docs_run";
pub const CONFIGURATION: &str = "/etc/saker/saker.toml";
/// Beyond what a block takes on a busy machine.
const SECONDS_MAX: &str = "60";
/// Folders beside those of every machine of a test that commands write to.
const WRITTEN: [&str; 6] = [
    "/var/cache",
    "/srv",
    "/opt",
    "/root",
    "/usr/local",
    "/usr/share",
];

pub struct Setup {
    root: PathBuf,
    programs: PathBuf,
    pub here: PathBuf,
    pub rows: Rows,
}

impl Setup {
    pub fn lay_out(machine: &Machine, blocks: &[Block]) -> Setup {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().unwrap();
        let setup = Setup {
            programs: machine.dir.join("programs"),
            here: machine.dir.join("here"),
            rows: Rows::read(&root.join(OWN).join("rows.toml")),
            root,
        };
        WRITTEN.iter().for_each(|folder| overlay(folder));
        setup.lay_out_programs();
        setup.lay_out_files(blocks);
        setup
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
    pub fn own(&self, name: &str) -> PathBuf {
        self.root.join(OWN).join(name)
    }

    fn lay_out_files(&self, blocks: &[Block]) {
        fs::create_dir_all(&self.here).unwrap();
        fs::write(
            self.here.join("answers"),
            "correct horse battery staple\n".repeat(20),
        )
        .unwrap();
        let script = fs::read_to_string(self.own("lay_out.sh")).unwrap();
        let (status, said) = self.bash(&script, "");
        assert!(status.success(), "{status}: {said}");
        let place = database([203, 0, 113, 0], 24, &Data::Map(&[]));
        fs::create_dir_all("/var/lib/GeoIP").unwrap();
        for name in ["Country", "ASN"] {
            fs::write(format!("/var/lib/GeoIP/GeoLite2-{name}.mmdb"), &place).unwrap();
        }
        // Files that pages show.
        for (page, start, path) in [
            ("rate-limits.md", "192.0.2.0/24", "lists/bad.txt"),
            (
                "modsecurity.md",
                "SecRequestBodyAccess",
                "/etc/saker/modsecurity.conf",
            ),
        ] {
            let mut found = blocks.iter();
            let found = found.find(|block| block.page == page && block.text.starts_with(start));
            fs::write(self.here.join(path), &found.unwrap().text).unwrap();
        }
    }

    /// As before the first command: nothing runs but the server, where a page speaks to one. Returns a
    /// token for its console.
    pub fn begin(&self, block: &Block, before: Option<&Block>) -> String {
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
        // No child of the test, which would have to take leave of it when commands stop it.
        let start = "\"$0\" run -c \"$1\" 2>server.log &";
        let mut shell = Command::new("sh");
        shell.args(["-c", start, SAKER, CONFIGURATION]);
        assert!(shell.current_dir(&self.here).status().unwrap().success());
        wait_until("the server runs", || {
            saker(&["status", "--healthy"]).status.success()
        });
        saker(&["console", "token", "remove", "docs"]);
        let token = saker(&["console", "token", "add", "docs", "--role", "administrator"]);
        assert!(token.status.success(), "{}", machine::text(&token));
        String::from_utf8(token.stdout).unwrap().trim().to_owned()
    }

    /// Runs a script without a terminal; returns what it prints, too. Into a file: a pipe would stay open
    /// for as long as what it leaves behind.
    pub fn bash(&self, script: &str, token: &str) -> (ExitStatus, String) {
        let (answers, printed) = (self.here.join("answers"), self.here.join("printed"));
        let out = File::create(&printed).unwrap();
        let status = Command::new("timeout")
            .args(["-k", "1", SECONDS_MAX, "setsid", "-w"])
            .args(["bash", "-euo", "pipefail", "-c", script])
            .current_dir(&self.here)
            .env("PATH", format!("{}:{PATH}", self.programs.display()))
            .env("HOME", "/root")
            .env("TOKEN", token)
            .env("SAKER_DOCS_ROOT", &self.root)
            .env("SAKER_DOCS_PROGRAM", SAKER)
            .env("SAKER_DOCS_ANSWERS", &answers)
            .stdin(File::open(&answers).unwrap())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .status()
            .unwrap();
        let said = fs::read(printed).unwrap();
        (status, String::from_utf8_lossy(&said).into_owned())
    }
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
        // Some may have been started meanwhile.
        left.iter().chain(&others()).all(|pid| is_gone(*pid))
    });
}

/// Ended with all its threads, the last of which closes its sockets; or a child of the test that is not
/// asked for its status.
fn is_gone(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads <= 1
        && fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
            stat.rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with('Z'))
        })
}
