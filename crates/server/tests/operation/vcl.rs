//! `saker convert --vcl` and `saker check --vcl`: exit status, what goes where, and that the result
//! is a configuration that runs.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use saker_testkit::TempDir;
use std::process::{Command, Output};

fn saker(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_saker"))
        .args(arguments)
        .output()
        .unwrap()
}

const GOOD: &str = r#"
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "3000"; }
acl purge { "127.0.0.1"; }
sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purge) { return (synth(405)); }
        return (purge);
    }
    if (req.url ~ "^/cart") { return (pass); }
}
sub vcl_deliver { unset resp.http.X-Powered-By; }
"#;

#[test]
fn conversions_are_configurations() {
    let dir = TempDir::new("vcl").unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    dir.write("good.vcl", GOOD).unwrap();
    dir.write(
        "refuses.vcl",
        format!("{GOOD}sub vcl_recv {{ if (client.ip ~ purge) {{ return (synth(403)); }} }}"),
    )
    .unwrap();
    dir.write("broken.vcl", "sub vcl_recv { set req.url; }")
        .unwrap();
    let good = saker(&["convert", "--vcl", &path("good.vcl")]);
    assert!(good.status.success() && good.stderr.is_empty(), "{good:?}");
    dir.write("saker.toml", &good.stdout).unwrap();
    let check = saker(&["check", "-c", &path("saker.toml")]);
    assert!(check.status.success(), "{check:?}");
    let toml = String::from_utf8(good.stdout).unwrap();
    for line in [
        "purge_from = [\"127.0.0.1\"]",
        "exclude = [\"/cart\"]",
        "headers = { \"X-Powered-By\" = { remove = true, always = true } }",
    ] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
    // What refuses requests must not get lost in silence.
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    for command in ["convert", "check"] {
        let refuses = saker(&[command, "--vcl", &path("refuses.vcl")]);
        let said = text(&refuses);
        assert_eq!(refuses.status.code(), Some(1), "{command}: {said}");
        assert!(
            said.contains("refuses.vcl:13:16: error: this condition"),
            "{said}"
        );
        let broken = saker(&[command, "--vcl", &path("broken.vcl")]);
        let said = text(&broken);
        assert_eq!(broken.status.code(), Some(1), "{command}: {said}");
        assert!(
            said.contains("broken.vcl:1:27: error: expected `=`, not `;`"),
            "{said}"
        );
        let missing = saker(&[command, "--vcl", &path("none.vcl")]);
        assert_eq!(missing.status.code(), Some(2), "{command}");
    }
    let check = saker(&["check", "--vcl", &path("good.vcl")]);
    assert!(check.status.success(), "{check:?}");
}
