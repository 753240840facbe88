//! Logs in directories of others: a site's owner lays a pipe or a link in the place of a log; the
//! server's own rotation beside a broker; programs that the broker may start. Needs root.

use crate::operate::{self, PATIENCE, SAKER, configuration, folder, lines, wait_until};
use saker_broker::{Grant, ROLE};
use saker_testkit::{Saker, TempDir};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::Path,
    process::Command,
};

const NOBODY: u32 = 65_534;
const ALICE: u32 = 41_001;

/// A folder with the directory `logs` of this user's.
fn folder_of(name: &str, user: u32) -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        println!("left out: root is needed");
        return None;
    }
    let dir = folder(name);
    fs::create_dir(dir.join("logs")).unwrap();
    for (path, owner) in [("", 0), ("www", 0), ("logs", user)] {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(0o755)).unwrap();
        chown(dir.join(path), Some(owner), Some(owner)).unwrap();
    }
    Some(dir)
}

fn get(saker: &Saker, target: &str) -> u16 {
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client.get(target).unwrap().status
}

fn reopen(saker: &Saker) -> String {
    let answer = operate::ask(&saker.dir.join("state"), "reopen-logs");
    answer.expect("an answer").to_string()
}

#[test]
fn a_pipe_or_link_in_the_place_of_a_log_is_left_alone() {
    let Some(dir) = folder_of("tenant-logs", ALICE) else {
        return;
    };
    let server = "workers = 1\nuser = \"nobody\"\nerror_log = \"{dir}/logs/error.log\"";
    let site = "access_log = { path = \"{dir}/logs/access.log\", format = \"%U\" }";
    let saker = operate::native(&configuration(server, site)).start(dir);
    let (state, logs) = (saker.dir.join("state"), saker.dir.join("logs"));
    assert_eq!(get(&saker, "/index.html"), 200);
    fs::write(state.join("guarded"), "").unwrap();
    chown(state.join("guarded"), Some(NOBODY), None).unwrap();
    let is_written = |target: &str| {
        wait_until("the old log goes on", || {
            get(&saker, target);
            lines(&logs.join("old")).iter().any(|line| line == target)
        });
    };
    fs::rename(logs.join("access.log"), logs.join("old")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        logs.join("access.log"),
        rustix::fs::FileType::Fifo,
        0o666.into(),
        0,
    )
    .unwrap();
    for path in ["old", "access.log"] {
        chown(logs.join(path), Some(ALICE), None).unwrap();
    }
    assert!(reopen(&saker).contains("not a regular file"));
    is_written("/pipe");
    for log in ["access.log", "error.log"] {
        fs::remove_file(logs.join(log)).unwrap();
        symlink(state.join("guarded"), logs.join(log)).unwrap();
    }
    assert!(reopen(&saker).contains("symbolic link"));
    is_written("/link");
    assert!(operate::reload(&saker).status.success());
    is_written("/reloaded");
    assert_eq!(fs::metadata(state.join("guarded")).unwrap().len(), 0);
    // A file of hers is a log again.
    for log in ["access.log", "error.log"] {
        fs::remove_file(logs.join(log)).unwrap();
    }
    assert!(!reopen(&saker).contains("cannot open"));
    wait_until("the new log is written", || {
        get(&saker, "/new");
        lines(&logs.join("access.log"))
            .iter()
            .any(|line| line == "/new")
    });
    assert!(saker.server.stop().unwrap().success());
}

/// The logs are root's, and the server's user may not read them.
#[test]
fn logs_that_the_broker_has_made_are_compressed() {
    let Some(dir) = folder_of("compressed-logs", NOBODY) else {
        return;
    };
    let log = "access_log = { path = \"{dir}/logs/a.log\", rotate = { size = \"1KiB\", compress = true } }";
    let saker = operate::native(&configuration("workers = 1\nuser = \"nobody\"", log)).start(dir);
    let logs = saker.dir.join("logs");
    let secret = saker.dir.join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, logs.join("a.log.20200101T000000Z")).unwrap();
    assert_eq!(fs::metadata(logs.join("a.log")).unwrap().uid(), 0);
    let compressed = || {
        let entries = fs::read_dir(&logs).unwrap().flatten();
        let is_compressed = |path: &Path| path.extension().is_some_and(|end| end == "gz");
        entries
            .map(|entry| entry.path())
            .find(|path| is_compressed(path))
    };
    wait_until("a log is compressed", || {
        get(&saker, "/index.html");
        compressed().is_some()
    });
    let made = compressed().unwrap();
    assert!(
        !made.to_string_lossy().contains("2020"),
        "{}",
        made.display()
    );
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o640);
    assert!(
        !saker.server.stderr().contains("SK0950"),
        "{}",
        saker.server.stderr()
    );
    assert!(saker.server.stop().unwrap().success());
}

/// Programs of the server's user that the broker may start.
fn own_programs(dir: &TempDir, site: &str) -> Vec<Grant> {
    let text = configuration("user = \"nobody\"", site)
        .replace("{dir}", &dir.display().to_string())
        .replace("{address}", "127.0.0.1:1");
    let file = dir.write("saker.toml", text).unwrap();
    let output = Command::new(SAKER)
        .args(["run", "-c"])
        .arg(file)
        .env(ROLE, "grants")
        .output()
        .unwrap();
    let all = Grant::decode(&output.stdout).unwrap();
    assert!(all.iter().any(|grant| matches!(grant, Grant::Own { .. })));
    all.into_iter()
        .filter(|grant| matches!(grant, Grant::OwnScripts { .. } | Grant::OwnPrograms { .. }))
        .collect()
}

#[test]
fn the_broker_starts_no_programs_that_the_configuration_does_not_have() {
    let Some(dir) = folder_of("own-programs", NOBODY) else {
        return;
    };
    assert_eq!(own_programs(&dir, ""), []);
    assert_eq!(
        own_programs(&dir, "cgi = [\"*.cgi\"]\nuser = \"daemon\""),
        []
    );
    let site = "cgi = [\"*.cgi\"]\nenvironment = { PYTHONPATH = \"/srv/lib\" }\n\n\
                [[site.route]]\npath = \"/bin/*\"\nroot = \"{dir}/bin\"\ncgi = [\"*\"]";
    let roots: Vec<_> = own_programs(&dir, site)
        .into_iter()
        .map(|grant| match grant {
            Grant::OwnScripts {
                root, environment, ..
            } => (root, environment),
            other => panic!("{other:?}"),
        })
        .collect();
    let environment = vec![("PYTHONPATH".into(), "/srv/lib".into())];
    let expected = ["bin", "www"].map(|name| (dir.join(name), environment.clone()));
    assert_eq!(roots, expected);
}
