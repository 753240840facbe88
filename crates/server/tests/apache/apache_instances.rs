//! Servers of several Apache configurations side by side, none of which is told a state directory.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use saker_testkit::{Client, ServerProcess, TempDir};
use std::{fs, os::unix::ffi::OsStrExt, path::PathBuf, process::Command};

/// Below the folder's own path; for root also beside the default directory, which goes with the
/// test.
struct States(Vec<PathBuf>);

impl States {
    fn made_for(dir: &TempDir) -> States {
        let unique = dir.file_name().unwrap().as_bytes().to_vec();
        let folders = ["/var/lib".into(), dir.join("state/saker")];
        let entries = folders
            .iter()
            .flat_map(|folder: &PathBuf| fs::read_dir(folder).into_iter().flatten().flatten());
        let is_ours = |name: &[u8]| name.windows(unique.len()).any(|part| part == unique);
        States(
            entries
                .filter(|entry| is_ours(entry.file_name().as_bytes()))
                .map(|entry| entry.path())
                .collect(),
        )
    }
}

impl Drop for States {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn saker(dir: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saker"));
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
    let states = States::made_for(&dir);
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
    assert_eq!(states.0.len(), 2, "{:?}", states.0);
    let pids = states.0.iter().map(|state| {
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
