//! Lines of the error log beside nginx's: tools that watch its logs read ours.
//!
//! Called by: `cargo test -p saker --test applications nginx_error_log`.
//! Caveat: process ids and numbers of connections are left out, and so are lines that only one of
//! the servers has.

use crate::nginx_pair::Pair;
use saker_testkit::{Client, wait_until};
use std::{fs, net::SocketAddr};

const LOCATIONS: &str = "== http\nlimit_req_zone $arg_k zone=one:1m rate=1r/m; limit_conn_zone $arg_c zone=two:1m;\n\
    server { listen {ip}:{p}; server_name logs.test; root {dir}/www; rewrite_log on;\n\
    location /quiet/ { log_not_found off; } location /deny { deny all; }\n\
    location /auth { auth_basic realm; auth_basic_user_file {shared}/users; }\n\
    location /limit { limit_req zone=one; limit_req_log_level warn; try_files /here.txt =404; }\n\
    location /dry { limit_req zone=one; limit_req_dry_run on; try_files /here.txt =404; }\n\
    location /cycle { rewrite ^ /cycle last; } location /unset { return 200 \"[$nothing]\"; set $nothing 1; }\n\
    location /small { client_max_body_size 3; return 204; }\
    location /tamed { uninitialized_variable_warn off; return 200 \"[$nothing]\"; }\n\
    location /old { rewrite ^/old/(.*)$ /new/$1?x=1; rewrite ^/none / break; return 204; } }";

/// The lines about clients, without what differs.
fn lines(pair: &Pair, folder: &str, count: usize) -> Vec<String> {
    let path = pair.dir.join(format!("{folder}/error.log"));
    let mut found = Vec::new();
    wait_until("the error log has its lines", || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let text = text.replace("127.0.0.2", "127.0.0.1");
        let text = text.replace("/saker/", "/nginx/");
        found = text.lines().filter_map(without_numbers).collect();
        found.len() >= count
    });
    found
}

/// `[error] text, client: …` of a line about a request.
fn without_numbers(line: &str) -> Option<String> {
    let (time, rest) = line.split_once(" [")?;
    assert_eq!(time.len(), "2026/11/27 01:02:03".len(), "{line}");
    let (level, rest) = rest.split_once("] ")?;
    let (numbers, rest) = rest.split_once(": ")?;
    assert!(numbers.split_once('#').is_some(), "{line}");
    let rest = rest.strip_prefix('*')?.split_once(' ')?.1;
    let is_about_request = rest.contains(", request: ") && !rest.contains("client closed");
    is_about_request.then(|| format!("[{level}] {rest}"))
}

#[test]
fn nginx_error_log_lines_are_nginxs() {
    let pair = Pair::start("nginx-error-log", &[], LOCATIONS);
    // The password is "secret".
    let users = "known:{PLAIN}secret\n";
    fs::write(pair.dir.join("users"), users).unwrap();
    for folder in ["nginx", "saker"] {
        fs::create_dir_all(pair.dir.join(format!("{folder}/www/empty"))).unwrap();
        fs::write(pair.dir.join(format!("{folder}/www/here.txt")), "here").unwrap();
    }
    // "known:wrong" and "no one:x".
    let [wrong, unknown] = ["Basic a25vd246d3Jvbmc=", "Basic bm8gb25lOng="];
    let asked: &[(&str, &[(&str, &str)])] = &[
        ("/missing", &[]),
        ("/missing", &[("Referer", "http://other.test/x")]),
        ("/quiet/missing", &[]),
        ("/empty/", &[]),
        ("/none/", &[]),
        ("/deny", &[]),
        ("/deny", &[]),
        ("/auth", &[]),
        ("/auth", &[("Authorization", wrong)]),
        ("/auth", &[("Authorization", unknown)]),
        ("/limit?k=1", &[]),
        ("/limit?k=1", &[]),
        ("/dry?k=2", &[]),
        ("/dry?k=2", &[]),
        ("/unset", &[]),
        ("/tamed", &[]),
        ("/old/page", &[]),
    ];
    let statuses = pair.both(|address: SocketAddr| {
        let ask = |(path, fields): &(&str, &[(&str, &str)])| {
            let mut client = Client::connect(address).unwrap();
            client.request("GET", path, fields).unwrap().status
        };
        asked.iter().map(ask).collect::<Vec<_>>()
    });
    assert_eq!(statuses.len(), asked.len());
    let posted = pair.both(|address: SocketAddr| {
        let mut client = Client::connect(address).unwrap();
        client
            .send(b"POST /small HTTP/1.1\r\nHost: logs.test\r\nContent-Length: 4\r\n\r\nlong")
            .unwrap();
        client.read_response().unwrap().status
    });
    assert_eq!(posted, 413);
    let nginx = lines(&pair, "nginx", 16);
    let saker = lines(&pair, "saker", nginx.len());
    assert_eq!(
        saker,
        nginx,
        "{}\n---\n{}",
        saker.join("\n"),
        nginx.join("\n")
    );
}
