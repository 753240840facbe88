//! `saker convert --nginx`: the result passes `saker check`, both configurations give the same
//! answers, and what cannot be said is named with its place.
//!
//! Called by: `cargo test -p saker --test applications nginx_convert`.
//! Caveat: nginx's configuration is read by Saker here; that it is answered as by nginx, others test
//! (`nginx_cases`).

use crate::{operate, servers::Words};
use saker_testkit::{Client, ServerProcess, TempDir, free_port};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Output},
    thread,
};

const CONFIGURATION: &str = "
events { }
http {
    sendfile on;
    gzip on;
    default_type text/plain;
    ssl_client_certificate {dir}/ca.pem;
    upstream app { least_conn; server {backend} weight=2; keepalive 8; }
    server {
        listen {address} default_server;
        server_name app.test www.app.test;
        root {dir}/www;
        index index.html;
        add_header X-Site one always;
        error_page 404 /404.html;
        client_max_body_size 1k;
        location / { try_files $uri $uri/ /fallback.html; }
        location = /exact { return 200 \"exact\\n\"; }
        location /old/ { return 301 https://$host/new$request_uri; }
        location ^~ /final/ { return 200 \"final\\n\"; }
        location ~* \\.txt$ { expires 1d; }
        location /secret/ { deny all; }
        location /only/ { allow 127.0.0.0/8; deny all; }
        location /never/ { allow 192.0.2.0/24; deny all; }
        location /api/ { proxy_pass http://app; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; }
        location /strip/ { proxy_pass http://{backend}/; proxy_set_header Host $host; }
        location /files/ { alias {dir}/files/; }
        location /longer/ { return 200 \"short\\n\"; }
        location /longer/path/ { return 200 \"long\\n\"; }
        deny 192.0.2.5;
        location /star*/ { deny all; }
        location /starry/ { return 200 \"starry\\n\"; }
        location /satisfied/ { satisfy all; allow 127.0.0.0/8; deny all; return 200 \"ok\\n\"; }
    }
    server {
        listen {address} backlog=64;
        server_name closed.test;
        root {dir}/www;
        deny all;
        location /only/ { allow 127.0.0.0/8; deny all; }
        location /pub/ { allow all; }
    }
    server {
        listen {address};
        server_name users.test;
        root {dir}/www;
        auth_basic Users;
        location /never/ { auth_basic_user_file {dir}/users; }
        location /only/ { auth_basic_user_file {dir}/users; auth_basic off; }
        location /pub/ { }
    }
    server {
        listen {address};
        server_name members.test;
        root {dir}/www;
        auth_basic Members;
        auth_basic_user_file {dir}/users;
        location /pub/ { auth_basic off; }
        location /never/ { auth_basic Others; }
    }
    server {
        listen {address};
        server_name moved.test;
        return 301 https://app.test$request_uri;
    }
}
";

pub fn saker(arguments: &[&str]) -> Output {
    Command::new(operate::SAKER)
        .args(arguments)
        .output()
        .unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub struct Site {
    pub dir: TempDir,
    pub words: Words,
}

impl Site {
    pub fn new(name: &str) -> Site {
        let dir = TempDir::new(name).unwrap();
        for (name, text) in [
            ("www/index.html", "home\n"),
            ("www/404.html", "none\n"),
            ("www/fallback.html", "fallback\n"),
            ("www/a.txt", "a\n"),
            ("www/secret/x.html", "secret\n"),
            ("www/only/x.html", "only\n"),
            ("www/never/x.html", "never\n"),
            ("www/pub/x.html", "pub\n"),
            ("www/star*/x.html", "star\n"),
            ("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"),
            ("files/f.html", "f\n"),
        ] {
            dir.write(name, text).unwrap();
        }
        let mut words = Words::default();
        words.add("dir", dir.display());
        Site { dir, words }
    }

    /// Writes a configuration of nginx, and converts it.
    pub fn convert(&self, text: &str) -> Output {
        let file = self.dir.write("nginx.conf", self.words.fill(text)).unwrap();
        saker(&["convert", "--nginx", file.to_str().unwrap()])
    }

    pub fn start(&self, arguments: &[&str], address: SocketAddr) -> ServerProcess {
        let mut command = Command::new(operate::SAKER);
        command.args(["run", "--workers", "1"]).args(arguments);
        let state = self.dir.join(format!("state-{}", address.port()));
        command.arg("--state-dir").arg(state);
        ServerProcess::start(&mut command, address).unwrap()
    }
}

/// An upstream that answers with what it is asked for.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let mut answer = lines.next().unwrap_or_default();
            for line in lines.take_while(|line| !line.is_empty()) {
                let lower = line.to_ascii_lowercase();
                if lower.starts_with("host:") || lower.starts_with("x-real-ip:") {
                    answer.push_str(&format!(" {lower}"));
                }
            }
            let length = answer.len();
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain";
            let _ = write!(
                &stream,
                "{head}\r\nContent-Length: {length}\r\n\r\n{answer}"
            );
        }
    });
    address
}

/// Asks for a path of a host; returns status, fields, and body.
fn ask(address: SocketAddr, host: &str, path: &str) -> (u16, Vec<Option<String>>, String) {
    let mut client = Client::connect(address).unwrap();
    let fields = [("Host", host)];
    let response = client.request("GET", path, &fields).unwrap();
    let kept = ["location", "x-site", "content-type", "cache-control"];
    // Pages that the server makes have its own charset.
    let is_made = !matches!(response.status, 200 | 404);
    let value = |name: &str| match is_made && name == "content-type" {
        true => None,
        false => response.field(name).map(str::to_owned),
    };
    let kept = kept.map(value);
    let body = match response.status {
        200 | 404 => response.text(),
        _ => String::new(),
    };
    (response.status, kept.into(), body)
}

#[test]
fn nginx_convert_gives_the_same_answers() {
    let mut site = Site::new("nginx-convert");
    let [first, second] = [0, 1].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
    site.words.add("address", first);
    site.words.add("backend", backend());
    let converted = site.convert(CONFIGURATION);
    assert!(converted.status.success(), "{}", err(&converted));
    let toml = String::from_utf8(converted.stdout).unwrap();
    let own = format!("\"{first}\"");
    let toml = toml.replace(&own, &format!("\"{second}\""));
    let file = site.dir.write("saker.toml", &toml).unwrap();
    let checked = saker(&["check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}\n{toml}", err(&checked));
    let conf = site.dir.join("nginx.conf");
    let _nginx = site.start(&["--nginx", conf.to_str().unwrap()], first);
    let _native = site.start(&["--config", file.to_str().unwrap()], second);
    let paths = [
        "/",
        "/index.html",
        "/missing",
        "/exact",
        "/exact/more",
        "/old/a?x=1",
        "/final/a.txt",
        "/a.txt",
        "/none.txt",
        "/secret/x.html",
        "/only/x.html",
        "/never/x.html",
        "/files/f.html",
        "/files/none.html",
        "/longer/x",
        "/api/x?y=z",
        "/strip/a/b",
        "/api/x?y=z",
        "/strip/a/b",
        "/longer/path/x",
        "/star*/x.html",
        "/starry/x",
        "/satisfied/x",
    ];
    let mut complaints = Vec::new();
    let mut compare = |host: &str, path: &str| {
        let answers = (ask(first, host, path), ask(second, host, path));
        if answers.0 != answers.1 {
            complaints.push(format!("{host}{path}: {answers:?}"));
        }
    };
    for path in paths {
        compare("app.test", path);
        compare("other.test", path);
    }
    compare("moved.test", "/a?b=c");
    for host in ["closed.test", "users.test", "members.test"] {
        for path in ["/", "/never/x.html", "/only/x.html", "/pub/x.html"] {
            compare(host, path);
        }
    }
    assert!(complaints.is_empty(), "{}\n{toml}", complaints.join("\n"));
    assert_eq!(ask(second, "app.test", "/secret/x.html").0, 403);
    assert_eq!(ask(second, "app.test", "/never/x.html").0, 403);
    for (status, host, path) in [
        (403, "closed.test", "/"),
        (403, "closed.test", "/never/x.html"),
        (200, "closed.test", "/only/x.html"),
        (200, "closed.test", "/pub/x.html"),
        (200, "users.test", "/"),
        (401, "users.test", "/never/x.html"),
        (200, "users.test", "/only/x.html"),
        (401, "members.test", "/"),
        (401, "members.test", "/never/x.html"),
        (200, "members.test", "/pub/x.html"),
        (403, "app.test", "/star*/x.html"),
    ] {
        assert_eq!(ask(second, host, path).0, status, "{host}{path}\n{toml}");
    }
}

/// A server of which nothing is left would be open, or somewhere else.
#[test]
fn nginx_convert_leaves_out_what_would_be_elsewhere() {
    let mut site = Site::new("nginx-convert-elsewhere");
    let [address, inner] = [0, 1].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
    site.words.add("address", address);
    site.words.add("inner", inner);
    let converted = site.convert(
        "events { }\nhttp {\n auth_request /auth;\n\
         \x20server { listen {inner} proxy_protocol; server_name inner.test; root {dir}/inner; }\n\
         \x20server { listen {address}; server_name a.test; root {dir}/www; }\n\
         \x20server { listen {address}; server_name ~^b[0-9]+; root {dir}/inner; }\n\
         \x20server { listen {address} default_server; server_name c.test; root {dir}/www; location /app/ { uwsgi_pass unix:{dir}/none.sock; } location /status/ { stub_status; } }\n}\n",
    );
    assert_eq!(converted.status.code(), Some(1));
    let said = err(&converted);
    for expected in [
        ":3:2: error: `auth_request` is not converted: the result denies",
        ":4:2: error: this server is left out: none of its addresses can be converted",
        ":6:2: error: this server is left out: none of its names can be converted",
        "error: `stub_status` is not converted: the result denies",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let toml = String::from_utf8(converted.stdout).unwrap();
    for absent in ["inner", &inner.to_string(), ":80\""] {
        assert!(!toml.contains(absent), "{absent}\n{toml}");
    }
    assert!(toml.contains("proxy = \"uwsgi+unix:"), "{toml}");
    assert!(toml.contains("names = [\"a.test\"]"), "{toml}");
    assert!(toml.contains("names = [\"c.test\", \"*\"]"), "{toml}");
    let file = site.dir.write("saker.toml", &toml).unwrap();
    let _server = site.start(&["--config", file.to_str().unwrap()], address);
    for host in ["a.test", "b1.test", "c.test"] {
        assert_eq!(ask(address, host, "/index.html").0, 403, "{host}\n{toml}");
    }
}

/// nginx looks for the index file in `location /`, and asks for the password there.
#[test]
fn nginx_convert_keeps_index_files_of_exact_locations_closed() {
    let mut site = Site::new("nginx-convert-exact");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    site.words.add("address", address);
    site.dir.write("users", "a:{PLAIN}b\n").unwrap();
    let server = |outer: &str, exact: &str, guard: &str| {
        format!(
            "events {{ }}\nhttp {{\n server {{\n  listen {{address}};\n  root {{dir}}/www;\n\
             \x20 location = / {{ {exact} }}\n  location / {{ {guard} }}\n {outer}\n }}\n}}\n"
        )
    };
    let guard = "auth_basic a; auth_basic_user_file {dir}/users;";
    for (outer, exact, guard, folder, file) in [
        ("", "", guard, 403, 401),
        (guard, "auth_basic off;", "", 401, 401),
        ("deny all;", "allow all;", "", 403, 403),
    ] {
        let converted = site.convert(&server(outer, exact, guard));
        assert_eq!(converted.status.code(), Some(1), "{outer}");
        let said = err(&converted);
        assert!(
            said.contains("nginx.conf:6:3: error: the index file"),
            "{said}"
        );
        let toml = site.dir.write("saker.toml", &converted.stdout).unwrap();
        let _server = site.start(&["--config", toml.to_str().unwrap()], address);
        assert_eq!(ask(address, "app.test", "/").0, folder, "{outer}");
        assert_eq!(ask(address, "app.test", "/index.html").0, file, "{outer}");
    }
    let converted = site.convert(&server(guard, "", ""));
    assert_eq!(converted.status.code(), Some(0), "{}", err(&converted));
    let converted = site.convert(&server("", "", "expires 1h;"));
    assert_eq!(converted.status.code(), Some(0), "{}", err(&converted));
    let file = site.dir.write("saker.toml", &converted.stdout).unwrap();
    let _server = site.start(&["--config", file.to_str().unwrap()], address);
    assert_eq!(ask(address, "app.test", "/").0, 200);
}

#[test]
fn nginx_convert_denies_what_it_cannot_say() {
    let mut site = Site::new("nginx-convert-closed");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    site.words.add("address", address);
    let converted = site.convert(
        "events { }\nhttp {\n server {\n  listen {address};\n  root {dir}/www;\n  ssi on;\n\
         \x20 location /only/ { if ($arg_key != x) { return 403; } }\n  location ^~ /a/ { }\n\
         \x20 location /a/b/ { }\n  location /secret/ { satisfy any; }\n  location /never/ { allow 10.0.0.1; }\n\
         \x20 location /proxy/ { proxy_pass http://$host; }\n }\n}\n",
    );
    assert_eq!(converted.status.code(), Some(1));
    let said = err(&converted);
    let file = site.dir.join("nginx.conf");
    for expected in [
        format!("{}:6:3: warning: `ssi` is not converted", file.display()),
        format!(
            "{}:7:21: error: `if` is not converted: the result denies",
            file.display()
        ),
        format!(
            "{}:9:3: error: a prefix inside of a `^~` prefix",
            file.display()
        ),
        "error: `satisfy` is not converted".to_owned(),
        "error: `proxy_pass` is not converted".to_owned(),
    ] {
        assert!(said.contains(&expected), "{expected}\n{said}");
    }
    let file = site.dir.write("saker.toml", &converted.stdout).unwrap();
    let toml = fs::read_to_string(&file).unwrap();
    let _server = site.start(&["--config", file.to_str().unwrap()], address);
    assert_eq!(ask(address, "app.test", "/index.html").0, 200, "{toml}");
    for path in ["/only/x.html", "/a/b/c", "/secret/x.html", "/proxy/x"] {
        assert_eq!(ask(address, "app.test", path).0, 403, "{path}\n{toml}");
    }
}

const STREAMS: &str = "
events { }
stream {
    upstream app { least_conn; server {backend} weight=2 max_fails=3; server 127.0.0.1:1 backup; }
    map $ssl_preread_server_name $way { hostnames; default app; .mail.test 10.0.0.5:443; a.mail.test 10.0.0.6:443; }
    limit_conn_zone $binary_remote_addr zone=clients:1m;
    log_format short '$remote_addr $status $session_time $upstream_addr';
    proxy_timeout 30s;
    server { listen {address}; proxy_pass app; proxy_connect_timeout 1s; limit_conn clients 9; access_log {dir}/stream.log short; }
    server { listen {inner}; proxy_pass {backend}; allow 192.0.2.0/24; deny all; }
    server { listen {names}; ssl_preread on; proxy_pass $way; preread_timeout 2s; }
    server { listen {names} udp; proxy_pass 127.0.0.1:53; proxy_responses 1; proxy_timeout 5s; }
    server { listen {secure} ssl; ssl_certificate {dir}/a.pem; ssl_certificate_key {dir}/a.key; proxy_ssl on; proxy_pass 127.0.0.1:993; }
    server { listen {other} proxy_protocol; proxy_pass {backend}; }
}
";

#[test]
fn nginx_convert_of_streams() {
    let mut site = Site::new("nginx-convert-streams");
    let ports = [(); 6].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
    let [first, second, inner, names, secure, other] = ports;
    for (name, address) in [
        ("address", first),
        ("inner", inner),
        ("names", names),
        ("secure", secure),
        ("other", other),
        ("backend", backend()),
    ] {
        site.words.add(name, address);
    }
    let converted = site.convert(STREAMS);
    assert!(converted.status.success(), "{}", err(&converted));
    let told = err(&converted);
    assert!(
        told.contains("`listen` is not converted") && told.contains("max_fails=3"),
        "{told}"
    );
    let toml = String::from_utf8(converted.stdout).unwrap();
    let own = format!("\"{first}\"");
    let toml = toml.replace(&own, &format!("\"{second}\""));
    // Header of peers would be believed: the server is left out.
    assert!(!toml.contains(&other.to_string()), "{toml}");
    for part in [
        "balance = \"least-requests\"",
        "standby = true",
        "sni = [\"a.mail.test\"]\nproxy = \"tcp://10.0.0.6:443\"\n\n[[stream.route]]\nsni = [\"mail.test\", \"*.mail.test\"]",
        "responses = 1",
        "[upstream.tls]\nverify = false",
        "connections_per_client = 9",
        "idle_timeout = \"30s\"",
        "idle_timeout = \"5s\"",
        "handshake_timeout = \"2s\"",
        "format = \"$remote_addr $status $session_time $upstream_addr\"",
    ] {
        assert!(toml.contains(part), "no {part} in\n{toml}");
    }
    let names = ["a"].map(|name| site.dir.join(format!("{name}.pem")).display().to_string());
    let files = Command::new(saker_testkit::require("openssl").unwrap())
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a", "-out",
        ])
        .args(&names)
        .arg("-keyout")
        .arg(site.dir.join("a.key"))
        .output()
        .unwrap();
    assert!(files.status.success(), "{}", err(&files));
    let file = site.dir.write("saker.toml", &toml).unwrap();
    let checked = saker(&["check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}\n{toml}", err(&checked));
    let _native = site.start(&["--config", file.to_str().unwrap()], second);
    let mut client = Client::connect(second).unwrap();
    let response = client.request("GET", "/x", &[("Host", "a")]).unwrap();
    assert_eq!(
        (response.status, &*response.text()),
        (200, "GET /x HTTP/1.1 host: a")
    );
    // A rule refuses: nothing comes, whatever is asked for.
    let mut refused = Client::connect(inner).unwrap();
    let _ = refused.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let came = refused
        .read_to_close(saker_testkit::PATIENCE)
        .unwrap_or_default();
    assert!(came.is_empty(), "{came:?}");
}
