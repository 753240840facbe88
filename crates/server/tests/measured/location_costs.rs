//! Costs of choosing a location of an nginx configuration: instructions of a dispatch do not grow
//! with the number of prefix locations.
//!
//! Counted by callgrind, as in `route_costs`: two runs that differ in the number of requests are
//! subtracted, and so are configurations that differ in the number of locations.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, ServerProcess, TempDir, free_port, require};
use std::{fmt::Write as _, fs, net::SocketAddr, process::Command, time::Duration};

const NOBODY: u32 = 65_534;
const FEW: usize = 100;
const MANY: usize = 600;
/// For valgrind to have the server up.
const PATIENCE: Duration = Duration::from_secs(300);
/// 300 ns of the machine that the goal is meant for: three instructions per nanosecond, and a debug
/// build's ten for one.
const INSTRUCTIONS_MAX: usize = 300 * 3 * 10;

/// Instructions of a request that is dispatched, with so many prefix locations.
fn instructions(locations: usize) -> usize {
    let run = |requests: usize| {
        let dir = TempDir::new("location-costs").unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let mut text = format!(
            "daemon off;\npid {0}/pid;\nevents {{ }}\nhttp {{\nserver {{\nlisten {address};\naccess_log off;\n",
            dir.display()
        );
        for number in 0..locations {
            let answer = "return 200 other;";
            writeln!(text, "location /app{number:04}/part/ {{ {answer} }}").unwrap();
        }
        text.push_str("location /app0500/part/wanted/ { return 200 ok; }\n}\n}\n");
        let file = dir.write("nginx.conf", &text).unwrap();
        let mut command = unprivileged(&dir);
        command
            .arg(format!("--log-file={}/valgrind.txt", dir.display()))
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(operate::SAKER)
            .args(["run", "--workers", "1", "--state-dir"])
            .arg(dir.join("state"))
            .arg("--nginx")
            .arg(file);
        let valgrind_said = || fs::read_to_string(dir.join("valgrind.txt")).unwrap_or_default();
        let server = ServerProcess::start(&mut command, address)
            .unwrap_or_else(|error| panic!("{error}{}", valgrind_said()));
        let mut client = Client::connect(address).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        for _ in 0..requests {
            // Content makes the route cache stand aside.
            let fields = [("Content-Length", "0")];
            let response = client.request("GET", "/app0500/part/wanted/x", &fields);
            assert_eq!(response.unwrap().text(), "ok");
        }
        drop(client);
        assert!(server.stop().unwrap().success());
        let said = valgrind_said();
        let line = said
            .lines()
            .find_map(|line| line.split_once("Collected :"))
            .unwrap_or_else(|| panic!("no count in {said}"))
            .1;
        line.trim().replace(',', "").parse::<usize>().unwrap()
    };
    (run(MANY).saturating_sub(run(FEW))) / (MANY - FEW)
}

/// valgrind as a user that needs no privileged broker, which it could not start.
fn unprivileged(dir: &TempDir) -> Command {
    let valgrind = require("valgrind").unwrap();
    if !rustix::process::geteuid().is_root() {
        return Command::new(valgrind);
    }
    std::os::unix::fs::chown(dir.join(""), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(require("setpriv").unwrap());
    let user = format!("--reuid={NOBODY}");
    command.args([&user, &format!("--regid={NOBODY}"), "--clear-groups"]);
    command.arg(valgrind);
    command
}

#[test]
fn a_thousand_locations_cost_little_more_than_one() {
    let _turn = crate::beside_others();
    let (one, many) = (instructions(0), instructions(1000));
    eprintln!("{one} instructions with one location, {many} with 1,001");
    assert!(
        many <= one + INSTRUCTIONS_MAX,
        "{one} with one location, {many} with 1,001"
    );
}
