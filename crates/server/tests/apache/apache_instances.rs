//! Servers of several Apache configurations side by side, none of which is told a state directory.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use saker_testkit::{Client, ServerProcess, TempDir};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const SAKER: &str = env!("CARGO_BIN_EXE_saker");

/// State directories that were made without being asked for: root's stand beside the default one,
/// anybody else's in the user's own folder.
fn states(dir: &Path) -> Vec<PathBuf> {
    let entries = [dir.join("var-lib"), dir.join("state/saker")]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).collect()
}

/// For root, `/var/lib` is a folder of the test: each server sees a mount of its own there.
fn saker(dir: &TempDir) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        fs::create_dir_all(dir.join("var-lib")).unwrap();
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /var/lib && shift && exec \"$@\"";
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(dir.join("var-lib"))
            .arg(SAKER);
        command
    } else {
        Command::new(SAKER)
    };
    command.env("XDG_STATE_HOME", dir.join("state"));
    command
}

fn start(dir: &TempDir, name: &str) -> ServerProcess {
    dir.write(&format!("{name}/www/index.html"), name).unwrap();
    let server = ServerProcess::start_on_free_port(|port| {
        let root = dir.join(name);
        let root = root.display();
        let text = format!(
            "ServerRoot {root}\nLoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule dir_module modules/mod_dir.so\n\
             Listen 127.0.0.1:{port}\nServerName {name}\nPidFile {root}/pid\nErrorLog {root}/error.log\nDocumentRoot {root}/www\n"
        );
        let path = dir.write(&format!("{name}/httpd.conf"), text).unwrap();
        let mut command = saker(dir);
        command
            .args(["run", "--workers", "1", "--apache"])
            .arg(path);
        command
    });
    server.unwrap()
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
