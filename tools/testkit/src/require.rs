//! Finds the programs that a test or a bench needs, and says which Debian package brings a missing
//! one.

use std::{env, path::PathBuf};

/// Arguments with which `openssl` is a client that verifies by no authorities but those that it is
/// told. Reading the machine's takes it five times as long as all else of its start.
pub const OPENSSL_CLIENT: [&str; 4] = ["s_client", "-no-CAfile", "-no-CApath", "-no-CAstore"];

/// Program and the Debian package that has it.
const PACKAGES: &[(&str, &str)] = &[
    ("ab", "apache2-utils"),
    (
        "aioquic-python",
        "python3-venv, then: tools/install-test-programs",
    ),
    ("httxt2dbm", "apache2-utils"),
    ("a2ensite", "apache2"),
    ("apache2", "apache2"),
    (
        "caddy",
        "golang-go, then: go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9",
    ),
    ("callgrind_control", "valgrind"),
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("haproxy", "haproxy"),
    ("fail2ban-regex", "fail2ban"),
    ("ffprobe", "ffmpeg"),
    ("haproxy", "haproxy"),
    ("gdb", "gdb"),
    ("h2load", "nghttp2-client"),
    ("h2o", "h2o"),
    (
        "h2spec",
        "golang-go, then: go install github.com/summerwind/h2spec/cmd/h2spec@v2.6.0",
    ),
    ("ip", "iproute2"),
    ("lighttpd", "lighttpd"),
    (
        "lsphp",
        "gcc make pkg-config xz-utils, then: tools/build-lsphp",
    ),
    ("nghttp", "nghttp2-client"),
    ("mariadb", "mariadb-client"),
    ("mariadb-install-db", "mariadb-server"),
    ("mariadbd", "mariadb-server"),
    ("nats-server", "nats-server"),
    ("nginx", "nginx-light"),
    ("nsenter", "util-linux"),
    (
        "oidc-provider-node",
        "nodejs npm, then: tools/install-test-programs",
    ),
    ("pgrep", "procps"),
    ("pebble-challtestsrv", "pebble"),
    (
        "quic-go-client",
        "golang-go, then: tools/install-test-programs",
    ),
    ("setpriv", "util-linux"),
    ("rpm", "rpm"),
    ("siege", "siege"),
    ("systemd-analyze", "systemd"),
    ("strace", "strace"),
    ("taskset", "util-linux"),
    ("testssl", "testssl.sh"),
    ("unshare", "util-linux"),
    ("valgrind", "valgrind"),
    ("varnishd", "varnish"),
    ("wrk", "wrk"),
];

/// Server programs live where a user's PATH often does not look.
const ALSO_IN: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The program's path, or a sentence with the package to install.
pub fn require(program: &str) -> Result<PathBuf, String> {
    find(program).ok_or_else(|| {
        format!(
            "`{program}` is not installed: apt-get install {}",
            debian_package(program)
        )
    })
}

/// Those of `programs` that are not installed.
pub fn missing<'a>(programs: &[&'a str]) -> Vec<&'a str> {
    programs
        .iter()
        .copied()
        .filter(|program| find(program).is_none())
        .collect()
}

pub fn debian_package(program: &str) -> &str {
    PACKAGES
        .iter()
        .find(|(name, _)| *name == program)
        .map_or(program, |(_, package)| package)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ALSO_IN.iter().map(PathBuf::from));
    folders
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_every_machine_has() {
        assert!(require("sh").is_ok());
        assert_eq!(
            missing(&["sh", "no-such-program-here"]),
            ["no-such-program-here"]
        );
    }

    #[test]
    fn names_the_package_of_what_is_missing() {
        assert_eq!(debian_package("ab"), "apache2-utils");
        let complaint = require("no-such-program-here").expect_err("it is missing");
        assert!(
            complaint.ends_with("apt-get install no-such-program-here"),
            "{complaint}"
        );
    }
}
