//! The units in `contrib`: systemd of Debian 12 finds nothing in them, and the program understands
//! what they call it with.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{SAKER, stderr, stdout};
use saker_testkit::{TempDir, require};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const UNITS: [&str; 6] = [
    "saker.service",
    "saker-apache.service",
    "saker-nginx.service",
    "saker-unprivileged.service",
    "saker.socket",
    "saker-apache.socket",
];

fn contrib(unit: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../contrib")
        .join(unit)
}

/// systemd's own units and ours, and the program where they expect it.
fn root() -> TempDir {
    let dir = TempDir::new("units").unwrap();
    fs::create_dir_all(dir.join("usr/lib/systemd")).unwrap();
    let stock = if Path::new("/usr/lib/systemd/system").is_dir() {
        "/usr/lib/systemd/system"
    } else {
        "/lib/systemd/system"
    };
    let copied = Command::new("cp")
        .arg("-a")
        .arg(stock)
        .arg(dir.join("usr/lib/systemd/"))
        .status()
        .unwrap();
    assert!(
        copied.success(),
        "systemd's units are not there: apt-get install systemd"
    );
    let program = dir.write("usr/local/bin/saker", "#!/bin/sh\n").unwrap();
    assert!(
        Command::new("chmod")
            .arg("755")
            .arg(program)
            .status()
            .unwrap()
            .success()
    );
    for unit in UNITS {
        dir.write(
            &format!("etc/systemd/system/{unit}"),
            fs::read(contrib(unit)).unwrap(),
        )
        .unwrap();
    }
    dir
}

#[test]
fn systemd_finds_nothing_in_them() {
    let program = require("systemd-analyze").unwrap();
    let root = root();
    let verify = |unit: &str| {
        let root = format!("--root={}", root.display());
        let output = Command::new(&program)
            .args(["verify", "--man=no", &root, unit])
            .output()
            .unwrap();
        (
            output.status.success(),
            format!("{}{}", stdout(&output), stderr(&output)),
        )
    };
    for unit in UNITS {
        assert_eq!(verify(unit), (true, String::new()), "{unit}");
    }
    // It would have found something.
    let text = fs::read_to_string(contrib("saker.service"))
        .unwrap()
        .replace("KillMode=mixed", "KillMod=mixed");
    root.write("etc/systemd/system/wrong.service", text)
        .unwrap();
    assert!(verify("wrong.service").1.contains("KillMod"));
}

/// Settings of later versions, and those that PHP does not survive.
#[test]
fn they_are_for_systemd_252_and_php() {
    for unit in UNITS {
        let text = fs::read_to_string(contrib(unit)).unwrap();
        let settings: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(
            !settings
                .iter()
                .any(|line| line.starts_with("MemoryDenyWriteExecute")
                    || line.contains("notify-reload")),
            "{unit}"
        );
        if unit.ends_with(".service") {
            assert!(
                settings.contains(&"Type=notify") && settings.contains(&"KillMode=mixed"),
                "{unit}"
            );
            assert!(
                settings.iter().any(|line| line.starts_with("ExecReload=")),
                "{unit}"
            );
        }
    }
}

#[test]
fn the_program_understands_what_they_call_it_with() {
    for unit in UNITS {
        let text = fs::read_to_string(contrib(unit)).unwrap();
        let calls = text
            .lines()
            .filter(|line| line.starts_with("Exec"))
            .filter_map(|line| line.split_once('='));
        for (name, call) in calls {
            let words: Vec<&str> = call.split(' ').skip(1).collect();
            // What stands before it is read first.
            let output = Command::new(SAKER)
                .args(&words)
                .arg("--help")
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{unit}: {name}: {}",
                stderr(&output)
            );
        }
    }
}
