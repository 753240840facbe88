//! The local authority: browsers trust it after `saker trust`, and not before.

use crate::operate::{self, SAKER, stderr, stdout};
use saker_testkit::{TempDir, require};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

fn trust(home: &Path, arguments: &[&str]) -> Output {
    Command::new(SAKER)
        .arg("trust")
        .args(arguments)
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .output()
        .unwrap()
}

/// The page as Chromium shows it to a user with this home.
fn page(home: &Path, url: &str) -> String {
    let profile = TempDir::new("chromium").unwrap();
    let output = Command::new("timeout")
        .arg("120")
        .arg(require("chromium").unwrap())
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
        ])
        .arg("--disable-dev-shm-usage")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .env("HOME", home)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    stdout(&output)
}

#[test]
fn chromium_opens_localhost_without_a_warning() {
    let home = TempDir::private("trust-home").unwrap();
    let dir = operate::folder("trust");
    let authority = home.join(".local/share/saker/authority/authority.pem");
    let printed = trust(&home, &["--print"]);
    assert!(printed.status.success(), "{}", stderr(&printed));
    assert_eq!(stdout(&printed), fs::read_to_string(&authority).unwrap());
    let text = operate::configuration("workers = 1", "tls.automatic = \"local\"").replace(
        "address = \"{address}\"",
        "address = \"{address}\"\ntls = true",
    );
    let server = operate::native(&text)
        .env("HOME", &*home)
        .env("XDG_DATA_HOME", home.join(".local/share"))
        .start_in(&dir);
    let url = format!("https://localhost:{}/", server.address().port());
    let before = page(&home, &url);
    assert!(!before.contains("<p>hello</p>"), "{before}");
    let done = trust(&home, &["--nss"]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stdout(&done).contains("Chromium"), "{}", stdout(&done));
    let after = page(&home, &url);
    assert!(after.contains("<p>hello</p>"), "{after}");
    let removed = trust(&home, &["--nss", "--remove"]);
    assert!(stdout(&removed).contains("removed"), "{}", stdout(&removed));
    let last = page(&home, &url);
    assert!(!last.contains("<p>hello</p>"), "{last}");
}

#[test]
fn an_authority_that_others_can_use_is_refused() {
    let home = TempDir::private("trust-owner").unwrap();
    assert!(trust(&home, &["--print"]).status.success());
    let key = home.join(".local/share/saker/authority/authority.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = trust(&home, &["--nss"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("other users can use"),
        "{}",
        stderr(&refused)
    );
    assert!(!home.join(".pki").exists());
}

#[test]
fn the_system_needs_root_and_its_tools() {
    let home = TempDir::private("trust-system").unwrap();
    let possible = rustix::process::geteuid().is_root()
        && Command::new("unshare")
            .args(["-m", "true"])
            .status()
            .is_ok_and(|status| status.success());
    if !possible {
        println!("left out: root and mount namespaces are needed");
        return;
    }
    // The machine's own store stays as it is.
    let script = format!(
        "for folder in /etc/ssl/certs /usr/local/share/ca-certificates; do \
           mkdir -p '{home}/store' && mount -t tmpfs tmpfs '{home}/store' && cp -a $folder/. '{home}/store/' && \
           mount --move '{home}/store' $folder || exit 9; done\n\
         '{SAKER}' trust --system && ls /usr/local/share/ca-certificates /etc/ssl/certs | grep -c saker-local-authority && \
         '{SAKER}' trust --system --remove && ! ls /etc/ssl/certs | grep saker-local-authority",
        home = home.display()
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .env("HOME", &*home)
        .env_remove("XDG_DATA_HOME")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("the system: added"),
        "{}",
        stdout(&output)
    );
    let plain = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            SAKER,
            "trust",
            "--system",
        ])
        .arg("--certificate")
        .arg(home.join(".local/share/saker/authority/authority.pem"))
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), Some(2));
}
