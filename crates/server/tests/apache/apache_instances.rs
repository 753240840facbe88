//! Servers of several Apache configurations side by side, without configured state directories.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{self, SAKER};
use saker_testkit::{Client, ServerProcess, TempDir};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// State directories that were created by default: root's beside the default one, other users' in
/// their own folder.
fn states(dir: &Path) -> Vec<PathBuf> {
    let entries = [dir.join("var-lib"), dir.join("state/saker")]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).collect()
}

/// For root, `/var/lib` is a folder of the test: each server sees a mount of its own there.
fn wrapper(dir: &TempDir) -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    fs::create_dir_all(dir.join("var-lib")).unwrap();
    let script = "mount --bind \"$0\" /var/lib && exec \"$@\"";
    let folder = dir.join("var-lib").display().to_string();
    ["unshare", "--mount", "sh", "-c", script, &folder]
        .map(str::to_owned)
        .to_vec()
}

/// A command of the server's, which finds state directories where `start` has them.
fn saker(dir: &TempDir) -> Command {
    let words = [wrapper(dir), vec![SAKER.to_owned()]].concat();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("XDG_STATE_HOME", dir.join("state"));
    command
}

fn start(dir: &TempDir, name: &str) -> ServerProcess {
    dir.write(&format!("{name}/www/index.html"), name).unwrap();
    let root = dir.join(name);
    let root = root.display();
    let text = format!(
        "ServerRoot {root}\nLoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule dir_module modules/mod_dir.so\n\
         Listen {{address}}\nServerName {name}\nPidFile {root}/pid\nErrorLog {root}/error.log\nDocumentRoot {root}/www\n"
    );
    let wrapper = wrapper(dir);
    operate::apache(&text)
        .file(format!("{name}/httpd.conf"))
        .default_state_dir()
        .wrapped(&wrapper.iter().map(String::as_str).collect::<Vec<_>>())
        .env("XDG_STATE_HOME", dir.join("state"))
        .start_in(dir)
}

#[test]
fn two_configurations_run_side_by_side() {
    let dir = TempDir::new("two").unwrap();
    let servers = [start(&dir, "a"), start(&dir, "b")];
    let states = states(&dir);
    for (server, name) in servers.iter().zip(["a", "b"]) {
        assert_eq!(
            Client::connect(server.address())
                .unwrap()
                .get("/")
                .unwrap()
                .text(),
            name
        );
    }
    assert_eq!(states.len(), 2, "{:?}", states);
    let pids = states.iter().map(|state| {
        fs::read_to_string(state.join("saker.pid"))
            .unwrap()
            .trim()
            .parse::<u32>()
            .unwrap()
    });
    let mut pids: Vec<u32> = pids.collect();
    let mut expected: Vec<u32> = servers.iter().map(ServerProcess::pid).collect();
    pids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(pids, expected);
    // The same one is still refused, by whatever way it is named.
    let again = dir.join("b/../a/httpd.conf");
    let output = saker(&dir)
        .args(["run", "--workers", "1", "--apache"])
        .arg(again)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("already running"),
        "{said}"
    );
}
