//! Cookies of `userid` beside nginx: lines of the error log about those that are malformed, and those
//! that are reset.
//!
//! Called by: `cargo test -p saker --test applications nginx_cookies`.
//! Caveat: the identifiers differ, and are left out; the first one is the same for both.

use crate::nginx_pair::Pair;
use saker_testkit::{Client, wait_until};
use std::fs;

/// 16 bytes from 0 on.
const KNOWN: &str = "AAECAwQFBgcICQoLDA0ODw==";

#[test]
fn nginx_cookies_are_complained_about_alike() {
    let text = "== http\nmap $arg_r $reset { default \"\"; log log; 1 1; }\n\
                server { listen {ip}:{p}; server_name c.test; userid on;\n\
                location / { return 200 ok; }\n\
                location /reset { set $uid_reset $reset; return 200 ok; } }\n";
    let pair = Pair::start("nginx-cookies", &[], text);
    for (target, cookie) in [
        ("/", "uid=short"),
        ("/", "uid=%%%%%%%%%%%%%%%%%%%%%%%%"),
        ("/", "other=short"),
        ("/", &format!("uid={KNOWN}")),
        ("/reset", &format!("uid={KNOWN}")),
        ("/reset?r=1", &format!("uid={KNOWN}")),
        ("/reset?r=log", &format!("uid={KNOWN}")),
        ("/reset?r=log", "uid=short"),
        ("/", "uid=last"),
    ] {
        pair.both(|address| {
            let mut client = Client::connect(address).unwrap();
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: c.test\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
            );
            client.send(request.as_bytes()).unwrap();
            let response = client.read_response().unwrap();
            (response.status, response.field("set-cookie").is_some())
        });
    }
    let lines = |folder: &str| {
        let path = pair.dir.join(format!("{folder}/error.log"));
        let mut text = String::new();
        wait_until("the log has its last line", || {
            text = fs::read_to_string(&path).unwrap_or_default();
            text.contains("uid=last")
        });
        let lines = text
            .lines()
            .filter(|line| line.contains("userid") || line.contains("uid_reset"));
        let plain = |line: &str| {
            let (_, rest) = line.split_once(" [").unwrap();
            let (level, rest) = rest.split_once("] ").unwrap();
            let text = rest.split_once(": *").unwrap().1.split_once(' ').unwrap().1;
            format!("{level} {}", text.split(", client: ").next().unwrap())
        };
        lines.map(plain).collect::<Vec<_>>()
    };
    let nginx = lines("nginx");
    assert_eq!(lines("saker"), nginx);
    assert!(
        nginx
            .iter()
            .any(|line| line.starts_with("notice userid cookie \"uid=")),
        "{nginx:?}"
    );
}
