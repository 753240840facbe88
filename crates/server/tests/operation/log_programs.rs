//! Log programs of Apache's configuration run as the user who started the server, and are restarted
//! as the same user.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Signal, TempDir, apache2::load_modules, free_port, poll, wait_until_or,
};
use std::{fs, net::SocketAddr, time::Duration};

#[test]
fn by_root_and_again_by_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root has privileges to keep");
        return;
    }
    let dir = TempDir::new("log-programs").unwrap();
    dir.write("www/page.txt", "page\n").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let modules = load_modules(&["mpm_event", "authz_core", "log_config"]);
    let root = dir.display();
    // Ends after each line; only root may write to the folder.
    let text = format!(
        "ServerRoot {root}\nServerName a.test\nListen {address}\nPidFile {root}/pid\nErrorLog \"|$id -u >>{root}/errors; exec cat >>{root}/errors\"\n\
         User www-data\nGroup www-data\nDocumentRoot {root}/www\n{modules}\
         CustomLog \"|$echo as $(id -u) >>{root}/lines; head -n1 >>{root}/lines\" \"%U\"\n"
    );
    let server = operate::apache(&text).at(address).start_in(&dir);
    let lines = || fs::read_to_string(dir.join("lines")).unwrap_or_default();
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let asked_and_held = || {
            // One line at a time, so that the program's end is met.
            let _ = Client::connect(address).and_then(|mut client| client.get("/page.txt"));
            poll(Duration::from_millis(1200), || holds().then_some(())).is_some()
        };
        wait_until_or(asked_and_held, || {
            let errors = fs::read_to_string(dir.join("errors")).unwrap_or_default();
            format!("{what}: {} {errors}", lines())
        });
    };
    until("a second program", &|| {
        lines().matches("as 0\n").count() >= 3 && lines().matches("/page.txt\n").count() >= 2
    });
    assert!(!lines().contains("as 33"), "{}", lines());
    saker_testkit::wait_for_text(dir.join("errors"), |errors| {
        errors.starts_with("0\n") && errors.contains("SK0605")
    });
    // One that a reload brings: what may be started is read from the configuration again.
    dir.write("httpd.conf", format!("{text}CustomLog \"|$id -u >{root}/new; env >{root}/environment; exec cat >>{root}/new\" \"%U\"\n"))
        .unwrap();
    server.signal(Signal::HUP).unwrap();
    let new = || fs::read_to_string(dir.join("new")).unwrap_or_default();
    until("a new program", &|| {
        new().starts_with("0\n") && new().contains("/page.txt\n")
    });
    let environment = fs::read_to_string(dir.join("environment")).unwrap();
    assert!(
        environment.contains("PATH=") && !environment.contains("SAKER_BROKER"),
        "{environment}"
    );
    // The server itself is unprivileged, and the broker ends with it.
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.contains("Uid:\t33\t33\t33\t33"), "{status}");
    // Programs end by themselves, when they have read all there was.
    server.stop().unwrap();
    wait_until_or(
        || running(&format!("{root}/")).next().is_none(),
        || {
            let left: Vec<_> = running(&format!("{root}/")).collect();
            format!("still there: {left:?}")
        },
    );
}

/// Command lines with this in them.
fn running(text: &str) -> impl Iterator<Item = String> {
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    all.map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(move |line| line.contains(text))
}
