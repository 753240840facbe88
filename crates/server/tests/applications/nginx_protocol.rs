//! Bytes of the protocol, files beside responses, and chains of certificates: what cases cannot show.
//!
//! Called by: `cargo test -p saker --test applications nginx_protocol`.
//! Caveat: pages that the servers make for errors differ, so only their status lines are compared.
//! Out of scope: everything that a case file can say (`nginx_cases`).

use crate::{nginx_pair::Pair, operate};
use saker_testkit::{Client, PATIENCE, Saker, TempDir, require, wait_until};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Everything that a server sends for these bytes until it closes.
fn raw(address: SocketAddr, bytes: &str) -> String {
    let mut client = Client::connect(address).unwrap();
    client.send(bytes).unwrap();
    let all = client.read_to_close(PATIENCE).unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

/// Status lines, `Connection` lines, and the bodies of 200.
fn shown(answer: &str) -> String {
    let mut out = Vec::new();
    for line in answer.lines() {
        let line = line.trim_end();
        if line.starts_with("HTTP/") || line.starts_with("Connection:") || line.contains("body=") {
            out.push(line.to_owned());
        }
    }
    out.join("|")
}

#[test]
fn nginx_protocol_without_a_host_has_the_default_server() {
    let text = "== http\nserver { listen {ip}:{p}; server_name first; return 200 'body=default;\n'; }\n\
                server { listen {ip}:{p}; server_name ~^(?<name>.*)$; return 200 'body=any $name;\n'; }";
    let pair = Pair::start("nginx-protocol-no-host", &[], text);
    let both = |bytes: &str| pair.both(|address| shown(&raw(address, bytes)));
    for bytes in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nHost: \r\n\r\n"] {
        assert!(!both(bytes).contains("any"), "{bytes:?}");
    }
    let named = both("GET / HTTP/1.0\r\nHost: other\r\n\r\n");
    assert!(named.contains("body=any other;"), "{named}");
}

#[test]
fn nginx_protocol_reads_loose_lists_of_clients() {
    let text = "== http\nset_real_ip_from 127.0.0.0/8; set_real_ip_from 10.0.0.0/8;\n\
                real_ip_header X-Forwarded-For; real_ip_recursive on;\n\
                server { listen {ip}:{p}; return 200 'body=$remote_addr;\n'; }";
    let pair = Pair::start("nginx-protocol-clients", &[], text);
    for list in [
        "1.2.3.4,",
        "1.2.3.4 10.0.0.1",
        "01.2.3.4",
        "1.2.3.4 , ,10.0.0.1",
    ] {
        let bytes = format!("GET / HTTP/1.0\r\nX-Forwarded-For: {list}\r\n\r\n");
        let heard = pair.both(|address| shown(&raw(address, &bytes)));
        assert!(heard.ends_with("body=1.2.3.4;"), "{list}: {heard}");
    }
}

#[test]
fn nginx_protocol_content_that_grows_too_large_has_its_page() {
    let text = "== http\nclient_max_body_size 3; proxy_http_version 1.1;\n\
                server { listen {ip}:{q}; location / { return 200 'body=upstream;\n'; } }\n\
                server { listen {ip}:{p}; error_page 413 /page; error_page 400 /page;\n\
                location / { proxy_pass http://{ip}:{q}; }\n\
                location /streamed { proxy_request_buffering off; proxy_pass http://{ip}:{q}; }\n\
                location = /page { return 200 'body=own page;\n'; } }";
    let pair = Pair::start("nginx-protocol-413", &[], text);
    for path in ["/", "/streamed"] {
        let bytes = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
        );
        let heard = pair.both(|address| shown(&raw(address, &bytes)));
        let expected = "HTTP/1.1 413 Request Entity Too Large|Connection: close|body=own page;";
        assert_eq!(heard, expected, "{path}");
    }
}

const LINES: &str = "== http\nserver { listen {ip}:{p}; client_max_body_size 10; \
    location / { return 200 'body=$request_method,$uri,$http_x,$content_length;\n'; } \
    location /302 { return 302 /x; } location /405 { return 405; } location /413 { return 413; } \
    location /414 { return 414; } location /416 { return 416; } location /503 { return 503; } \
    location /504 { return 504; } location /700 { return 700; } \
    location /kept { return 200 'body=kept;\n'; } }";

#[test]
fn nginx_protocol_ends_lines_with_line_feeds() {
    let pair = Pair::start("nginx-protocol-lines", &[], LINES);
    let both = |bytes: &str| pair.both(|address| shown(&raw(address, bytes)));
    for (bytes, expected) in [
        (
            "GET /a HTTP/1.0\nHost: a\nX: 1\n\n",
            "HTTP/1.1 200 OK|Connection: close|body=GET,/a,1,;",
        ),
        (
            "\r\n\r\nGET /a HTTP/1.0\r\n\r\n",
            "HTTP/1.1 200 OK|Connection: close|body=GET,/a,,;",
        ),
        (
            "\n\nGET /a HTTP/1.0\n\n",
            "HTTP/1.1 200 OK|Connection: close|body=GET,/a,,;",
        ),
        (
            "POST /a HTTP/1.0\nContent-Length: 3\n\nabc",
            "HTTP/1.1 200 OK|Connection: close|body=POST,/a,,3;",
        ),
        (
            "GET /a HTTP/1.1\nHost: a\n\nGET /b HTTP/1.1\nHost: a\nConnection: close\n\n",
            "HTTP/1.1 200 OK|Connection: keep-alive|body=GET,/a,,;|HTTP/1.1 200 OK|Connection: close|body=GET,/b,,;",
        ),
        (
            "GET /kept HTTP/1.1\r\nHost: a\r\n\r\nGET /kept HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
            "HTTP/1.1 200 OK|Connection: keep-alive|body=kept;|HTTP/1.1 200 OK|Connection: keep-alive|body=kept;|HTTP/1.1 200 OK|Connection: close|body=GET,/b,,;",
        ),
        (
            "GET /302 HTTP/1.0\n\n",
            "HTTP/1.1 302 Moved Temporarily|Connection: close",
        ),
        (
            "GET /405 HTTP/1.0\n\n",
            "HTTP/1.1 405 Not Allowed|Connection: close",
        ),
        (
            "GET /413 HTTP/1.0\n\n",
            "HTTP/1.1 413 Request Entity Too Large|Connection: close",
        ),
        (
            "GET /414 HTTP/1.0\n\n",
            "HTTP/1.1 414 Request-URI Too Large|Connection: close",
        ),
        (
            "GET /416 HTTP/1.0\n\n",
            "HTTP/1.1 416 Requested Range Not Satisfiable|Connection: close",
        ),
        (
            "GET /503 HTTP/1.0\n\n",
            "HTTP/1.1 503 Service Temporarily Unavailable|Connection: close",
        ),
        (
            "GET /504 HTTP/1.0\n\n",
            "HTTP/1.1 504 Gateway Time-out|Connection: close",
        ),
        ("GET /700 HTTP/1.0\n\n", "HTTP/1.1 700|Connection: close"),
        // The script of a location does not run for content that it does not take.
        (
            "POST /a HTTP/1.0\r\nContent-Length: 11\r\n\r\n12345678901",
            "HTTP/1.1 413 Request Entity Too Large|Connection: close",
        ),
    ] {
        assert_eq!(both(bytes), expected, "{bytes:?}");
    }
    // Lines that end in different ways: others may see another end of such a head.
    let saker = SocketAddr::new(pair.servers[1].1.into(), pair.port);
    for (bytes, expected) in [
        (
            "GET /a HTTP/1.1\r\nHost: a\nX: 1\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 200 OK|Connection: close|body=GET,/a,1,;",
        ),
        (
            "POST /a HTTP/1.1\r\nHost: a\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 400 Bad Request|Connection: close",
        ),
        (
            "GET /a HTTP/1.1\nHost: a\rb\n\n",
            "HTTP/1.1 400 Bad Request|Connection: close",
        ),
        (
            "GET /a HTTP/1.1\nHost: a\n b\n\n",
            "HTTP/1.1 400 Bad Request|Connection: close",
        ),
        (
            "POST /a HTTP/1.1\nHost: a\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
            "HTTP/1.1 400 Bad Request|Connection: close",
        ),
    ] {
        assert_eq!(shown(&raw(saker, bytes)), expected, "{bytes:?}");
    }
}

/// The files below a directory.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => all.push(path),
            }
        }
    }
    all.sort_unstable();
    all
}

/// Makes a folder that everybody may write to, below the folders of both servers.
fn folders(pair: &Pair, names: &[&str]) {
    for server in ["nginx", "saker"] {
        for name in names {
            let folder = pair.dir.join(format!("{server}/{name}"));
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }
}

#[test]
fn nginx_protocol_keeps_content_in_files() {
    let pair = Pair::start(
        "nginx-protocol-body",
        &[],
        "== http\nclient_body_temp_path {dir}/bodies 1 2;\n\
         server { listen {ip}:{q}; location / { return 200 'body=$content_length,$http_x_file'; } }\n\
         server { listen {ip}:{p}; client_max_body_size 1m; proxy_set_header X-File $request_body_file; \
         location /keep { client_body_in_file_only on; proxy_pass http://{ip}:{q}; } \
         location /name { client_body_in_file_only on; proxy_pass_request_body off; \
         proxy_set_header Content-Length ''; proxy_set_header X-File $request_body_file; proxy_pass http://{ip}:{q}; } \
         location /clean { client_body_in_file_only clean; proxy_pass http://{ip}:{q}; } \
         location /off { client_body_in_file_only off; proxy_pass http://{ip}:{q}; } }",
    );
    folders(&pair, &["bodies"]);
    let long = "x".repeat(200_000);
    let ask = |address: SocketAddr, path: &str, content: &str| {
        let length = content.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{content}"
        );
        // No content has no length, or a length of 0.
        let answer = shown(&raw(address, &request)).replace("body=0,", "body=,");
        // Numbers are those of the process.
        let (head, file) = answer.rsplit_once(',').unwrap_or((&answer, ""));
        let file = Path::new(file);
        let depth = file
            .components()
            .rev()
            .take_while(|part| part.as_os_str() != "bodies");
        let name = file.file_name().map_or(0, |name| name.len());
        format!("{head},{},{name}", depth.count())
    };
    let both = |path: &str, content: &str| pair.both(|address| ask(address, path, content));
    let answered = "HTTP/1.1 200 OK|Connection: close|body=";
    assert_eq!(both("/keep", "abc"), format!("{answered}3,3,10"));
    assert_eq!(both("/keep", &long), format!("{answered}200000,3,10"));
    assert_eq!(both("/name", "named"), format!("{answered},3,10"));
    assert_eq!(both("/clean", "gone"), format!("{answered}4,3,10"));
    assert_eq!(both("/off", "gone"), format!("{answered}4,0,0"));
    for server in ["nginx", "saker"] {
        let folder = pair.dir.join(format!("{server}/bodies"));
        let mut contents = Vec::new();
        wait_until("the files of requests that are over are gone", || {
            let read = files(&folder).into_iter().map(fs::read_to_string);
            contents = read.filter_map(Result::ok).collect();
            contents.retain(|content| !content.is_empty());
            contents.sort_by_key(String::len);
            contents.len() == 3
        });
        assert_eq!(contents, ["abc", "named", long.as_str()], "{server}");
    }
    // A client that goes before its content is there leaves no file.
    let saker = SocketAddr::new(pair.servers[1].1.into(), pair.port);
    let mut client = Client::connect(saker).unwrap();
    client
        .send("POST /keep HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        .unwrap();
    client.send("x".repeat(70_000)).unwrap();
    let folder = pair.dir.join("saker/bodies");
    wait_until("its file is there", || files(&folder).len() == 4);
    drop(client);
    wait_until("its file is gone", || files(&folder).len() == 3);
}

#[test]
fn nginx_protocol_logs_to_paths_with_variables() {
    let pair = Pair::start(
        "nginx-protocol-logs",
        &[],
        "== http\nlog_format f '$uri';\n\
         server { listen {ip}:{p}; root {dir}/roots/$arg_h; access_log {dir}/logs/$arg_h.log f; \
         location /two { access_log {dir}/logs/a/$arg_n f; access_log {dir}/plain.log f; return 200 'body=two'; } \
         location /if { access_log {dir}/logs/$arg_h.log f if=$arg_yes; return 200 'body=if'; } \
         location / { return 200 'body=$arg_h'; } }",
    );
    folders(
        &pair,
        &["logs", "logs/a", "roots", "roots/one", "roots/two"],
    );
    for target in [
        "/1?h=one",
        "/2?h=two",
        "/3?h=one",
        "/4?h=none",
        "/two?h=one&n=x.log",
        "/two?h=none&n=y.log",
        "/if?h=one",
        "/if?h=one&yes=1",
        "/5?h=missing/one",
        "/6?h=one",
    ] {
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        pair.both(|address| shown(&raw(address, &request)));
    }
    for server in ["nginx", "saker"] {
        let logs = pair.dir.join(format!("{server}/logs"));
        let read = |name: &str| fs::read_to_string(logs.join(name)).unwrap_or_default();
        // Each file has its own order, and they are written one after another.
        let expected = [
            ("one.log", "/1\n/3\n/if\n/6\n"),
            ("two.log", "/2\n"),
            ("a/x.log", "/two\n"),
            ("../plain.log", "/two\n/two\n"),
        ];
        wait_until("the lines are written", || {
            expected.iter().all(|(name, text)| read(name) == *text)
        });
        let names: Vec<String> = files(&logs)
            .iter()
            .map(|path| path.strip_prefix(&logs).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["a/x.log", "one.log", "two.log"], "{server}");
    }
    // Clients choose no other place.
    let saker = SocketAddr::new(pair.servers[1].1.into(), pair.port);
    for target in [
        "/?h=../roots/one/../../evil",
        "/?h=/etc/evil",
        "/?h=one%00x",
        "/two?h=one&n=../../evil.log",
        "/two?h=one&n=",
        "/two?h=one&n=..",
        "/7?h=two",
    ] {
        raw(saker, &format!("GET {target} HTTP/1.0\r\n\r\n"));
    }
    let logs = pair.dir.join("saker/logs");
    wait_until("the last line is written", || {
        fs::read_to_string(logs.join("two.log")).is_ok_and(|text| text.ends_with("/7\n"))
    });
    assert_eq!(files(&logs).len(), 3);
    let beside = files(&pair.dir.join("saker"));
    assert!(
        !beside
            .iter()
            .any(|path| path.to_string_lossy().contains("evil")),
        "{beside:?}"
    );
}

/// A certificate that an authority below the trusted one has signed.
fn chain(dir: &TempDir) {
    let script = "set -e; cd \"$1\"; \
        new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=$1 -keyout $1.key -out $1.csr; }; \
        new root; new middle; new leaf.test; \
        printf 'basicConstraints=critical,CA:TRUE\\n' > ca.ext; \
        printf 'basicConstraints=critical,CA:FALSE\\nsubjectAltName=DNS:leaf.test\\n' > leaf.ext; \
        openssl x509 -req -days 2 -in root.csr -key root.key -extfile ca.ext -out root.pem; \
        openssl x509 -req -days 2 -in middle.csr -CA root.pem -CAkey root.key -CAcreateserial -extfile ca.ext -out middle.pem; \
        openssl x509 -req -days 2 -in leaf.test.csr -CA middle.pem -CAkey middle.key -CAcreateserial -extfile leaf.ext -out leaf.pem; \
        cat leaf.pem middle.pem > chain.pem; chmod a+r *";
    let made = Command::new(require("bash").unwrap())
        .args(["-c", script, "chain"])
        .arg(dir.join(""))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn nginx_protocol_limits_the_depth_of_chains() {
    let dir = TempDir::new("nginx-protocol-chain").unwrap();
    chain(&dir);
    let given = [("chain", dir.display().to_string())];
    let pair = Pair::start(
        "nginx-protocol-depth",
        &given,
        "server { listen {ip}:{r}; proxy_ssl on; proxy_ssl_verify on; proxy_ssl_verify_depth 0; proxy_ssl_session_reuse off; proxy_ssl_name leaf.test; \
         proxy_ssl_trusted_certificate {chain}/root.pem; proxy_pass {ip}:{q}; }\n\
         == http\nserver { listen {ip}:{q} ssl http2; ssl_certificate {chain}/chain.pem; ssl_certificate_key {chain}/leaf.test.key; \
         location / { return 200 'body=leaf'; } }\n\
         server { listen {ip}:{p}; proxy_ssl_session_reuse off; grpc_ssl_session_reuse off; proxy_ssl_verify on; proxy_ssl_trusted_certificate {chain}/root.pem; proxy_ssl_name leaf.test; \
         grpc_ssl_verify on; grpc_ssl_trusted_certificate {chain}/root.pem; grpc_ssl_name leaf.test; \
         location /default { proxy_pass https://{ip}:{q}; } \
         location /1 { proxy_ssl_verify_depth 1; proxy_pass https://{ip}:{q}; } \
         location /0 { proxy_ssl_verify_depth 0; proxy_pass https://{ip}:{q}; } \
         location /off { proxy_ssl_verify off; proxy_ssl_verify_depth 0; proxy_pass https://{ip}:{q}; } \
         location /grpc0 { grpc_ssl_verify_depth 0; grpc_pass grpcs://{ip}:{q}; } \
         location /grpc1 { grpc_ssl_verify_depth 1; grpc_pass grpcs://{ip}:{q}; } \
         location /stream { proxy_pass http://{ip}:{r}; } }",
    );
    let status = |address: SocketAddr, path: &str| {
        Client::connect(address).unwrap().get(path).unwrap().status
    };
    for (path, expected) in [
        ("/default", 200),
        ("/1", 200),
        ("/0", 502),
        ("/off", 200),
        ("/grpc0", 502),
        ("/grpc1", 200),
        ("/stream", 502),
    ] {
        assert_eq!(
            pair.both(|address| status(address, path)),
            expected,
            "{path}"
        );
    }
}

#[test]
fn nginx_protocol_catches_errors_of_programs() {
    let dir = TempDir::new("nginx-protocol-stderr").unwrap();
    let php = crate::servers::php_fpm(&dir).unwrap_or_else(|error| panic!("php-fpm: {error}"));
    dir.write(
        "www/a.php",
        "<?php error_log('all is well'); echo 'body=a';",
    )
    .unwrap();
    dir.write(
        "www/b.php",
        "<?php error_log('it went BOOM here'); echo 'body=b';",
    )
    .unwrap();
    let given = [
        ("php", php.address().to_string()),
        ("www", dir.join("www").display().to_string()),
    ];
    let pair = Pair::start(
        "nginx-protocol-catch",
        &given,
        "== http\nserver { listen {ip}:{p}; root {www}; include /etc/nginx/fastcgi_params; \
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; \
         location / { fastcgi_pass {php}; } \
         location /b.php { fastcgi_catch_stderr other; fastcgi_catch_stderr 'BOOM here'; fastcgi_pass {php}; \
         error_page 502 =503 @caught; } \
         location @caught { return 503 'body=caught'; } }",
    );
    for (path, expected) in [("/a.php", "200 body=a"), ("/b.php", "503 body=caught")] {
        let answer = pair.both(|address| {
            let response = Client::connect(address).unwrap().get(path).unwrap();
            format!("{} {}", response.status, response.text())
        });
        assert_eq!(answer, expected, "{path}");
    }
}

/// nginx's default was HTTP/1.0 before 1.29.7, so each location says its version.
#[test]
fn nginx_protocol_ends_connections_to_upstreams() {
    let pair = Pair::start(
        "nginx-protocol-close",
        &[],
        "== http\nserver { listen {ip}:{q}; location / { return 200 'body=$server_protocol,$http_connection,$http_expect,$connection_requests'; } }\n\
         upstream kept { server {ip}:{q}; keepalive 1; }\n\
         server { listen {ip}:{p}; proxy_http_version 1.1; \
         location /close { proxy_set_header Connection close; proxy_pass http://kept; } \
         location /kept { proxy_set_header Connection ''; proxy_pass http://kept; } \
         location /old { proxy_http_version 1.0; proxy_pass http://kept; } }",
    );
    let ask = |address: SocketAddr, path: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
        );
        let answer = raw(address, &request);
        answer
            .rsplit_once("body=")
            .map_or(String::new(), |(_, body)| body.to_owned())
    };
    for (path, expected) in [
        ("/close", "HTTP/1.1,close,,1"),
        ("/kept", "HTTP/1.1,,,1"),
        ("/kept", "HTTP/1.1,,,2"),
        ("/close", "HTTP/1.1,close,,3"),
        ("/old", "HTTP/1.0,close,,1"),
        ("/kept", "HTTP/1.1,,,1"),
    ] {
        assert_eq!(pair.both(|address| ask(address, path)), expected, "{path}");
    }
}

/// Parts of several ranges have fields with nginx's names.
#[test]
fn nginx_protocol_names_the_fields_of_parts() {
    let text = "daemon off; pid {dir}/pid; events { } http { server { listen {address}; root {dir}/www; } }";
    let dir = TempDir::new("nginx-protocol-parts").unwrap();
    dir.write("www/a.txt", "0123456789").unwrap();
    let saker = Saker::nginx(operate::SAKER, text).start(dir);
    let request = "GET /a.txt HTTP/1.0\nRange: bytes=0-1,8-9\n\n";
    let answer = raw(saker.server.address(), request);
    // A boundary is as long as nginx's, and so is the content.
    let (_, boundary) = answer.split_once("boundary=").unwrap();
    let digits = boundary.split("\r\n").next().unwrap();
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    assert!(digits.len() == 20 && is_number, "{answer}");
    assert!(
        answer.contains("\r\nContent-Range: bytes 0-1/10\r\n\r\n01"),
        "{answer}"
    );
    assert!(
        answer.contains("\r\nContent-Range: bytes 8-9/10\r\n\r\n89"),
        "{answer}"
    );
}

/// A database of names: all addresses of 10/8 have one.
fn organizations(dir: &TempDir) {
    // A node for each bit; what leaves the network has no name.
    let bits = [0, 0, 0, 0, 1, 0, 1, 0];
    let end = bits.len() as u32;
    let mut bytes = Vec::new();
    for (at, bit) in bits.into_iter().enumerate() {
        let next = match at + 1 {
            8 => end + 1,
            next => next as u32,
        };
        let pair = if bit == 0 { [next, end] } else { [end, next] };
        pair.iter()
            .for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    bytes.extend(b"\0Caf\xe9 Networks\0");
    bytes.extend([0xff, 0xff, 0xff, 5]);
    bytes.extend(&end.to_le_bytes()[..3]);
    fs::write(dir.join("org.dat"), bytes).unwrap();
}

#[test]
fn nginx_protocol_finds_countries_and_organizations() {
    let dir = TempDir::new("nginx-protocol-geoip").unwrap();
    organizations(&dir);
    let given = [("data", dir.display().to_string())];
    let pair = Pair::start_with(
        "nginx-protocol-geo",
        &given,
        "load_module /usr/lib/nginx/modules/ngx_http_geoip_module.so;\n\
         load_module /usr/lib/nginx/modules/ngx_stream_geoip_module.so;\n",
        "geoip_country /usr/share/GeoIP/GeoIP.dat;\n\
         server { listen {ip}:{q} proxy_protocol; set_real_ip_from 127.0.0.0/8; \
         return '$geoip_country_code,$geoip_country_code3,$geoip_country_name,$geoip_org'; }\n\
         == http\ngeoip_country /usr/share/GeoIP/GeoIPv6.dat; geoip_org {data}/org.dat; \
         geoip_proxy 127.0.0.0/8; geoip_proxy 192.0.2.0/24; geoip_proxy_recursive on;\n\
         server { listen {ip}:{p}; location / { \
         return 200 'body=$geoip_country_code,$geoip_country_code3,$geoip_country_name,$geoip_org'; } }",
    );
    let mut seen = Vec::new();
    for client in [
        "8.8.8.8",
        "1.1.1.1",
        "80.67.169.12",
        "10.1.2.3",
        "127.0.0.1",
        "2001:4860:4860::8888",
        "2a00::1",
        "::ffff:8.8.8.8",
        "8.8.8.8, 192.0.2.1",
        "192.0.2.1",
        "9.9.9.9, 8.8.8.8",
        "nonsense",
        "",
    ] {
        let request = format!("GET / HTTP/1.0\r\nX-Forwarded-For: {client}\r\n\r\n");
        let answer = pair.both(|address| {
            let mut client = Client::connect(address).unwrap();
            client.send(&request).unwrap();
            let all = client.read_to_close(PATIENCE).unwrap();
            let at = all.windows(5).position(|part| part == b"body=").unwrap();
            all[at + 5..].escape_ascii().to_string()
        });
        seen.push(answer);
    }
    assert!(seen[0].starts_with("US,USA,United States,"), "{seen:?}");
    assert!(
        seen.contains(&",,,Caf\\xe9 Networks".to_owned()),
        "{seen:?}"
    );
    let port = pair.word("q");
    for client in ["8.8.8.8", "10.1.2.3", "80.67.169.12"] {
        let preface = format!("PROXY TCP4 {client} 127.0.0.1 5000 80\r\n");
        let answer = pair.both(|address| {
            raw(
                SocketAddr::new(address.ip(), port.parse().unwrap()),
                &preface,
            )
        });
        assert!(
            client != "8.8.8.8" || answer == "US,USA,United States,",
            "{answer}"
        );
    }
}

/// Logs name the user whom the client claims to be, also where nothing asks for a password, and where
/// one is refused.
#[test]
fn nginx_protocol_logs_name_claimed_users() {
    let pair = Pair::start(
        "nginx-protocol-users",
        &[],
        "== http\nlog_format f '$status $uri $remote_user|'; \
         server { listen {ip}:{p}; access_log {dir}/users.log f; location / { return 200 'body=$uri'; } \
         location /closed/ { auth_basic x; auth_basic_user_file /etc/passwd; } }",
    );
    let values = [
        "",
        "Basic YW5uOnNlY3JldA==",
        "Basic YSJiOnNlY3JldA==",
        "Basic OnNlY3JldA==",
        "Basic !",
        "Bearer YTpi",
    ];
    for value in values {
        for path in ["/open/", "/closed/"] {
            let request = format!("GET {path} HTTP/1.0\r\nAuthorization: {value}\r\n\r\n");
            pair.both(|address| shown(&raw(address, &request)));
        }
    }
    let lines = pair.logs("users.log", 2 * values.len());
    for line in [
        "200 /open/ ann|",
        "401 /closed/ ann|",
        "401 /closed/ a\\x22b|",
        "401 /closed/ -|",
    ] {
        assert!(lines.iter().any(|other| other == line), "{line}: {lines:?}");
    }
}

/// Values are escaped as the format says, so that a line of JSON is JSON.
#[test]
fn nginx_protocol_logs_escape_values() {
    let pair = Pair::start(
        "nginx-protocol-escapes",
        &[],
        "== http\nlog_format d '$uri|$http_user_agent|$request|$http_none'; \
         log_format j escape=json '{\"u\":\"$uri\",\"a\":\"$http_user_agent\",\"r\":\"$request\",\"n\":\"$http_none\",\"s\":$status}'; \
         log_format n escape=none '$uri|$http_user_agent|$request|$http_none'; \
         server { listen {ip}:{p}; access_log {dir}/d.log d; access_log {dir}/j.log j; access_log {dir}/n.log n; \
         location / { return 200 'body=x'; } }",
    );
    let requests = [
        ("/a%22b%5c%0a%01%7f%c3%a9", "plain"),
        ("/b", "\"quoted\" \\ caf\u{e9} \t\u{1F600}"),
        ("/c?q=\"'", "\\x22"),
    ];
    for (path, agent) in requests {
        let request = format!("GET {path} HTTP/1.0\r\nUser-Agent: {agent}\r\n\r\n");
        pair.both(|address| shown(&raw(address, &request)));
    }
    pair.logs("d.log", requests.len());
    // A line end of the path is one of the log.
    pair.logs("n.log", requests.len() + 1);
    for line in pair.logs("j.log", requests.len()) {
        serde_json::from_str::<serde_json::Value>(&line).unwrap();
    }
}

/// The page of an error takes the place of the built-in one before there is a request to speak of.
const REFUSED: &str = "== http\nlarge_client_header_buffers 2 1k; client_max_body_size 10; \
    lingering_close off; log_format f '$status'; \
    server { listen {ip}:{q}; location / { return 200 'body=up;\n'; } } \
    server { listen {ip}:{p}; server_name one; access_log {dir}/refused.log f; \
    error_page 400 413 414 501 505 /page; error_page 494 =431 /page; \
    location = /page { return 200 'body=page,$uri;\n'; } \
    location / { return 200 'body=$uri;\n'; } location /p/ { proxy_pass http://{ip}:{q}/; } } \
    server { listen {ip}:{p}; server_name two; access_log {dir}/refused.log f; }";

#[test]
fn nginx_protocol_refused_requests_have_pages() {
    let pair = Pair::start("nginx-protocol-refused", &[], REFUSED);
    let long = "x".repeat(1500);
    let cases = [
        ("GET /f HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /f HTTP/1.1\r\nHost: one\r\nHost: one\r\n\r\n".to_owned(), 400),
        ("GET f HTTP/1.1\r\nHost: one\r\n\r\n".to_owned(), 400),
        ("GET /f HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n".to_owned(), 400),
        ("get /f HTTP/1.1\r\nHost: one\r\nConnection: close\r\n\r\n".to_owned(), 400),
        ("GET /f HTTP/2.0\r\nHost: one\r\n\r\n".to_owned(), 505),
        ("GET /f HTTP/1.1\r\nHost: one\r\nX y: z\r\n\r\n".to_owned(), 400),
        ("GET /%zz HTTP/1.1\r\nHost: one\r\n\r\n".to_owned(), 400),
        ("GET /../x HTTP/1.1\r\nHost: one\r\n\r\n".to_owned(), 400),
        (format!("GET /f?{long} HTTP/1.1\r\nHost: one\r\n\r\n"), 414),
        (format!("GET /f HTTP/1.1\r\nHost: one\r\nX: {long}\r\n\r\n"), 431),
        ("POST /p/ HTTP/1.1\r\nHost: one\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(), 501),
        ("POST /f HTTP/1.1\r\nHost: one\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world".to_owned(), 413),
        (
            "POST /p/ HTTP/1.1\r\nHost: one\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx".to_owned(),
            413,
        ),
        (
            "POST /p/ HTTP/1.1\r\nHost: one\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(),
            400,
        ),
    ];
    for (bytes, status) in &cases {
        let both = pair.both(|address| {
            let answer = shown(&raw(address, bytes));
            let (line, rest) = answer.split_once('|').unwrap();
            let status = line.split(' ').nth(1).unwrap().to_owned();
            (status, rest.to_owned())
        });
        assert_eq!(both.0, status.to_string(), "{bytes}");
        assert_eq!(both.1, "Connection: close|body=page,/page;", "{bytes}");
    }
    // The server that the host names has no page.
    let other = pair.both(|address| {
        let answer = raw(address, "GET /f HTTP/1.1\r\nHost: two\r\nX y: z\r\n\r\n");
        assert!(
            answer.contains("<center><h1>400 Bad Request</h1></center>"),
            "{answer}"
        );
        shown(&answer)
    });
    assert_eq!(other, "HTTP/1.1 400 Bad Request|Connection: close");
    // An expectation that is not known is left alone.
    let expected = pair.both(|address| {
        let request = "GET /f HTTP/1.1\r\nHost: one\r\nExpect: x\r\nConnection: close\r\n\r\n";
        shown(&raw(address, request))
    });
    assert_eq!(expected, "HTTP/1.1 200 OK|Connection: close|body=/f;");
    let statuses = pair.logs("refused.log", cases.len() + 2);
    assert_eq!(statuses.iter().filter(|line| *line == "400").count(), 10);
}
