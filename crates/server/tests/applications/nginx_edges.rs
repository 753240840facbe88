//! Edges that clients and logs see: the name of the server, timeouts, fields in logs, trailers, and
//! lines about signals.
//!
//! Called by: `cargo test -p saker --test applications nginx_edges`.
//! Caveat: names and versions of the two programs differ, so they are replaced before answers are
//! compared. Directives that nginx 1.22 does not know are tried on Saker alone.
//! Out of scope: lines and heads that are not strict (`nginx_protocol`).

use crate::{nginx_pair::Pair, operate};
use saker_testkit::{Client, PATIENCE, Saker, TempDir, wait_until};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::Command,
    thread,
};

/// Everything that a server sends for these bytes until it closes.
fn raw(address: SocketAddr, bytes: &str) -> String {
    let mut client = Client::connect(address).unwrap();
    client.send(bytes).unwrap();
    let all = client.read_to_close(PATIENCE).unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

/// The lines with the name of the server, in which name and version are replaced.
fn names(answer: &str) -> String {
    let lines = answer.lines().map(str::trim_end);
    let named = lines.filter(|line| line.starts_with("Server:") || line.starts_with("<hr>"));
    let text = named.collect::<Vec<_>>().join("|").to_ascii_lowercase();
    let text = text.replace("nginx", "NAME").replace("saker", "NAME");
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' | '.' if out.ends_with('V') => {}
            '0'..='9' => out.push('V'),
            other => out.push(other),
        }
    }
    out
}

const TOKENS: &str = "== http\nserver_tokens on;\n\
    server { listen {ip}:{p}; root {shared}/www;\n\
    location /off/ { server_tokens off; alias {shared}/www/; }\n\
    location /off { server_tokens off; return 200 x; }\n\
    location /off-missing { server_tokens off; }\n\
    location /off-redirect { server_tokens off; return 302 /; }\n\
    location /up { server_tokens off; proxy_pass http://{ip}:{p}/a.txt; }\n\
    location /passed { server_tokens off; proxy_pass http://{ip}:{p}/a.txt; proxy_pass_header Server; }\n}";

#[test]
fn nginx_edges_tell_versions_where_they_may() {
    let pair = Pair::start("nginx-edges-tokens", &[], TOKENS);
    pair.dir.write("www/a.txt", "a\n").unwrap();
    let both = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        pair.both(|address| names(&raw(address, &request)))
    };
    for (path, expected) in [
        ("/a.txt", "server: NAME/V"),
        ("/off/a.txt", "server: NAME"),
        // From what is kept of the first.
        ("/off/a.txt", "server: NAME"),
        ("/a.txt", "server: NAME/V"),
        ("/off", "server: NAME"),
        ("/missing", "server: NAME/V|<hr><center>NAME/V</center>"),
        ("/off-missing", "server: NAME|<hr><center>NAME</center>"),
        ("/off-redirect", "server: NAME|<hr><center>NAME</center>"),
        ("/up", "server: NAME"),
        ("/passed", "server: NAME/V"),
    ] {
        assert_eq!(both(path), expected, "{path}");
    }
}

const SLOW: &str = "== http\nlog_format short '$request|$status|$body_bytes_sent|$request_completion';\n\
    server { listen {ip}:{p}; client_header_timeout 1s; client_body_timeout 1s; access_log {dir}/slow.log short;\n\
    location / { return 200 x; }\n\
    location /up { proxy_pass http://{ip}:{q}/; } }\n\
    server { listen {ip}:{q}; location / { return 200 up; } }";

/// Neither a head that stays incomplete, nor content, nor a client that says nothing gets a response.
#[test]
fn nginx_edges_time_out_in_silence() {
    let pair = Pair::start("nginx-edges-slow", &[], SLOW);
    for bytes in [
        "GET /a",
        "GET /b HTTP/1.1\r\nHost: a\r\nX: ",
        "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nabc",
        "",
    ] {
        assert_eq!(pair.both(|address| raw(address, bytes)), "", "{bytes:?}");
    }
    // What came in time is answered.
    let whole = "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    assert!(pair.both(|address| raw(address, whole).ends_with("up")));
    let lines = pair.logs("slow.log", 4);
    let expected = [
        "GET /a|408|0|",
        "GET /b HTTP/1.1|408|0|",
        "POST /up HTTP/1.1|408|0|",
        "POST /up HTTP/1.1|200|2|OK",
    ];
    assert_eq!(lines, expected);
}

const LOGGED: &str = "== http\nserver_tokens off;\n\
    log_format sent '$request|$status|$sent_http_content_length|$request_completion';\n\
    log_format json escape=json '{\"l\":\"$sent_http_content_length\",\"o\":\"$request_completion\"}';\n\
    log_format kept '$request|$sent_http_connection';\n\
    server { listen {ip}:{p}; root {shared}/www; access_log {dir}/sent.log sent; access_log {dir}/json.log json;\n\
    access_log {dir}/kept.log kept;\n\
    location /ret { return 200 four; }\n\
    location /none { return 204; }\n\
    location /moved { return 301 /; }\n\
    location /up { proxy_pass http://{ip}:{q}/; } }\n\
    server { listen {ip}:{q}; location / { return 200 upstream; } }";

#[test]
fn nginx_edges_log_what_was_sent() {
    let pair = Pair::start("nginx-edges-logged", &[], LOGGED);
    pair.dir.write("www/a.txt", "12345\n").unwrap();
    let get = |method: &str, path: &str, more: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n")
    };
    let last = get("GET", "/ret", "Connection: close\r\n");
    let requests = [
        get("GET", "/a.txt", ""),
        get("GET", "/a.txt", ""),
        get("HEAD", "/a.txt", ""),
        get("GET", "/ret", ""),
        get("GET", "/none", ""),
        get("GET", "/moved", ""),
        get("GET", "/missing", ""),
        get("GET", "/up", ""),
        get("GET", "/a.txt", "Range: bytes=1-2\r\n"),
    ];
    for request in &requests {
        let both = format!("{request}{last}");
        let count = pair.both(|address| raw(address, &both).matches("HTTP/1.1 ").count());
        assert_eq!(count, 2, "{request}");
    }
    let lines = pair.logs("sent.log", 2 * requests.len());
    assert_eq!(lines[0], "GET /a.txt HTTP/1.1|200|6|OK");
    let lines = pair.logs("json.log", 2 * requests.len());
    assert_eq!(lines[0], "{\"l\":\"6\",\"o\":\"OK\"}");
    // nginx has forgotten by then that the connection is kept, and logs `close`.
    let path = pair.dir.join("saker/kept.log");
    let mut text = String::new();
    wait_until("the log has its lines", || {
        text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().count() == 2 * requests.len()
    });
    for (at, line) in text.lines().enumerate() {
        let expected = ["|keep-alive", "|close"][at % 2];
        assert!(line.ends_with(expected), "{line}");
    }
}

const NO_USERS: &str = "== http\nserver { listen {ip}:{p}; auth_basic closed; auth_basic_user_file /dev/null;\n\
    location / { return 200 open; } location /file { root {shared}; } }";

/// A list of no users lets none in, and is no error.
#[test]
fn nginx_edges_know_lists_of_no_users() {
    let pair = Pair::start("nginx-edges-users", &[], NO_USERS);
    let both = |more: &str| {
        let request = format!("GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n");
        pair.both(|address| {
            let answer = raw(address, &request);
            let lines = answer.lines().map(str::trim_end);
            let told = |line: &&str| line.starts_with("HTTP/") || line.starts_with("WWW-Auth");
            lines.filter(told).collect::<Vec<_>>().join("|")
        })
    };
    let expected = "HTTP/1.1 401 Unauthorized|WWW-Authenticate: Basic realm=\"closed\"";
    assert_eq!(both(""), expected);
    assert_eq!(both("Authorization: Basic YTpi\r\n"), expected);
}

/// An upstream whose responses have trailers.
fn upstream_with_trailers() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1)
            {
                head.push(byte[0]);
            }
            let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close\r\n\r\n\
                          5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

/// nginx has the directive since 1.27.2; its documentation decides.
#[test]
fn nginx_edges_pass_trailers_where_asked_to() {
    let upstream = upstream_with_trailers();
    let text = format!(
        "daemon off;\npid {{dir}}/pid;\nevents {{ }}\nhttp {{\naccess_log off;\nserver {{ listen {{address}};\n\
         location / {{ proxy_pass http://{upstream}; }}\n\
         location /off {{ proxy_pass http://{upstream}; proxy_pass_trailers off; }}\n\
         location /on {{ proxy_pass http://{upstream}; proxy_pass_trailers on; }}\n\
         location /on/gzip {{ proxy_pass_trailers on; location /on/gzip/own {{ proxy_pass http://{upstream}; }} }}\n}}\n}}\n"
    );
    let saker = Saker::nginx(operate::SAKER, &text).workers(1);
    let saker = saker.start(TempDir::new("nginx-edges-trailers").unwrap());
    for (path, is_passed) in [
        ("/", false),
        ("/off", false),
        ("/on", true),
        ("/on/gzip/own", true),
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n"
        );
        let answer = raw(saker.server.address(), &request);
        assert!(answer.contains("hello"), "{path}: {answer}");
        assert_eq!(
            answer.contains("\r\nX-Sum: 7\r\n"),
            is_passed,
            "{path}: {answer}"
        );
    }
}

/// A file does not take the place of a directory, also where the destination is another location's,
/// with a root of its own. nginx looks for it below the root of the source.
#[test]
fn nginx_edges_keep_directories_of_other_locations() {
    let text = "daemon off;\npid {dir}/pid;\nevents { }\nhttp {\naccess_log off;\nserver { listen {address};\n\
                location /a/ { root {dir}/one; dav_methods COPY MOVE; }\n\
                location /b/ { root {dir}/two; dav_methods COPY MOVE; }\n}\n}\n";
    let dir = TempDir::new("nginx-edges-dav").unwrap();
    dir.write("one/a/file", "file").unwrap();
    dir.write("two/b/folder/member", "member").unwrap();
    let mut opening = Command::new("chmod");
    let opened = opening.args(["-R", "a+rwX"]).arg(&*dir).status();
    assert!(opened.unwrap().success());
    let saker = Saker::nginx(operate::SAKER, text).workers(1).start(dir);
    let ask = |method: &str, destination: &str| {
        let request = format!(
            "{method} /a/file HTTP/1.1\r\nHost: a\r\nDestination: {destination}\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(saker.server.address(), &request);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for method in ["COPY", "MOVE"] {
        for destination in [
            "/b/folder",
            "/b/folder/.",
            "//b/%66older",
            "http://a/b/folder",
        ] {
            let status = ask(method, destination);
            assert!(
                matches!(&*status, "400" | "409"),
                "{method} {destination}: {status}"
            );
        }
    }
    assert!(saker.dir.join("two/b/folder/member").exists());
    assert_eq!(ask("MOVE", "/b/other"), "204");
    assert!(saker.dir.join("two/b/other").is_file());
}

/// Scripts wait for lines about signals.
#[test]
fn nginx_edges_log_signals() {
    let text = "== http\nserver { listen {ip}:{p}; return 200 x; }";
    let pair = Pair::start("nginx-edges-signals", &[], text);
    let lines = |folder: &str| {
        let path = pair.dir.join(folder).join("error.log");
        fs::read_to_string(path).unwrap_or_default()
    };
    let folders = ["nginx", "saker"];
    let signal = |name: &str, expected: &[&str]| {
        for folder in folders {
            let text = fs::read_to_string(pair.dir.join(folder).join("nginx.pid")).unwrap();
            let done = Command::new("kill")
                .args(["-s", name, text.trim()])
                .status();
            assert!(done.unwrap().success());
            for line in expected {
                wait_until(line, || lines(folder).contains(line));
            }
        }
    };
    for folder in folders {
        wait_until("start", || {
            lines(folder).contains(": start worker processes")
        });
        assert!(lines(folder).contains("[notice] "), "{folder}");
    }
    signal("HUP", &[": reconfiguring", "signal 1 (SIGHUP) received"]);
    signal(
        "USR1",
        &[": reopening logs", "signal 10 (SIGUSR1) received"],
    );
    signal(
        "QUIT",
        &[
            "signal 3 (SIGQUIT) received",
            ": gracefully shutting down",
            ": exit",
        ],
    );
}

const FAULTS: &str = "== http\nserver { listen {ip}:{p}; server_name faults.test; client_header_timeout 1s; return 200 x; }";

/// Lines of the error log about requests that are none.
#[test]
fn nginx_edges_log_faults_of_clients() {
    let pair = Pair::start("nginx-edges-faults", &[], FAULTS);
    let requests = [
        "G{T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /slow",
        "GET / HTTP/1.1\r\nHost",
    ];
    for request in requests {
        pair.both(|address| raw(address, request).lines().next().map(str::to_owned));
    }
    let mut found = Vec::new();
    let [nginx, saker] = ["nginx", "saker"].map(|folder| {
        wait_until("the error log has its lines", || {
            let text = fs::read_to_string(pair.dir.join(folder).join("error.log"));
            let text = text.unwrap_or_default();
            let lines = text.lines().filter_map(|line| {
                let (_, rest) = line.split_once(" [info] ")?;
                let (_, said) = rest.split_once(" client ")?;
                // Hosts are in no line of a request that has none which counts.
                let said = said.split(", host: ").next()?;
                (said.starts_with("sent ") || said.starts_with("timed out"))
                    .then(|| said.to_owned())
            });
            found = lines.collect();
            found.len() >= requests.len()
        });
        found.clone()
    });
    assert_eq!(saker, nginx);
    let [first, ..] = saker.as_slice() else {
        panic!("no lines");
    };
    assert!(first.contains("server: faults.test"), "{first}");
}

const OWN_LOGS: &str = "== http\nerror_log {dir}/http.log;\n\
    server { listen {ip}:{p}; server_name one.test; root {dir}/www; error_log {dir}/one.log warn; }\n\
    server { listen {ip}:{p}; server_name two.test; root {dir}/www; }\n\
    server { listen {ip}:{q}; server_name faults.test; error_log {dir}/faults.log info; return 200 x; }";

/// Servers have error logs of their own, which is where their administrators look.
#[test]
fn nginx_edges_log_errors_where_servers_do() {
    let pair = Pair::start("nginx-edges-own-logs", &[], OWN_LOGS);
    for host in ["one.test", "two.test", "other.test"] {
        let request = format!("GET /{host} HTTP/1.0\r\nHost: {host}\r\n\r\n");
        pair.both(|address| raw(address, &request).contains(" 404 "));
    }
    let faults: u16 = pair.word("q").parse().unwrap();
    for (_, ip) in &pair.servers {
        let answer = raw(SocketAddr::from((*ip, faults)), "G{T / HTTP/1.0\r\n\r\n");
        assert!(answer.contains(" 400 "), "{answer}");
    }
    for (name, expected) in [
        ("one.log", vec!["/one.test", "/other.test"]),
        ("http.log", vec!["/two.test"]),
        ("faults.log", vec!["client sent invalid method"]),
    ] {
        for folder in ["nginx", "saker"] {
            let path = pair.dir.join(folder).join(name);
            let mut lines = Vec::new();
            wait_until("the log has its lines", || {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let told = |line: &&str| line.contains("open()") || line.contains("client sent");
                lines = text.lines().filter(told).map(str::to_owned).collect();
                lines.len() >= expected.len()
            });
            assert_eq!(lines.len(), expected.len(), "{folder}/{name}: {lines:?}");
            for (line, part) in lines.iter().zip(&expected) {
                assert!(line.contains(part), "{folder}/{name}: {line}");
            }
        }
    }
}

/// An informational status is no answer: behind it, the client and the proxies on its way would take
/// what follows for the response. nginx sends it.
#[test]
fn nginx_edges_end_each_request() {
    let text = "daemon off;\npid {dir}/pid;\nevents { }\nhttp {\naccess_log off;\nserver { listen {address};\nroot {dir}/www;\n\
                location /101 { return 101; }\nlocation /103 { return 103 text; }\n\
                location /page { error_page 404 =101 /x.txt; }\nlocation /tried { try_files /none =100; }\n}\n}\n";
    let dir = TempDir::new("nginx-edges-ends").unwrap();
    dir.write("www/x.txt", "x").unwrap();
    let saker = Saker::nginx(operate::SAKER, text).workers(1).start(dir);
    for _ in 0..2 {
        for target in ["/101", "/103", "/page", "/tried"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let answer = raw(saker.server.address(), &request);
            assert!(answer.starts_with("HTTP/1.1 500 "), "{target}: {answer}");
        }
    }
}

/// A condition of a page that can't be evaluated opens none of its branches. (nginx sends all of them.)
#[test]
fn nginx_edges_send_no_branch_of_a_condition_that_is_given_up() {
    let dir = TempDir::new("nginx-edges-given-up").unwrap();
    let page = "<!--#if expr=\"$arg_x = /(a|a?)+b$/\" -->yes<!--#elif expr=\"1\" -->other<!--#else -->no<!--#endif -->, end";
    dir.write("www/index.html", page).unwrap();
    let text = "events { }\nhttp { types { text/html html; } server { listen {address}; root {dir}/www; ssi on; } }\n";
    let saker = operate::nginx(text).start(dir);
    let mut client = saker.connect().unwrap();
    let mut content = |x: &str| client.get(&format!("/?x={x}")).unwrap().text();
    assert_eq!(content("aab"), "yes, end");
    assert_eq!(content("c"), "other, end");
    let given_up = content(&format!("{}!ab", "a".repeat(40)));
    let error = "[an error occurred while processing the directive]";
    assert_eq!(given_up, format!("{error}, end"));
}
