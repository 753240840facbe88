//! Members of upstreams by a key, and certificates of clients: what cases of one server cannot show.
//!
//! Called by: `cargo test -p saker --test applications nginx_http`.
//! Out of scope: everything that a case file can say (`nginx_cases`).

use crate::{
    nginx_pair::{self, Pair},
    operate,
};
use saker_testkit::{Client, PATIENCE, Saker, ServerProcess, TempDir, free_port, require};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::Command,
};

/// Members that answer with their letter, below upstreams that balance by a key.
const MEMBERS: &str = "\
    server { listen {ip}:{q}; return \"HTTP/1.0 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\na\"; }\n\
    server { listen {ip}:{r}; return \"HTTP/1.0 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\nb\"; }\n\
    == http\n\
    upstream keyed { hash $arg_k$http_x; server {ip}:{q}; server {ip}:{r} weight=2; }\n\
    upstream net { ip_hash; server {ip}:{q}; server {ip}:{r} weight=3; }\n\
    upstream gone { hash $arg_k; server {dead} max_fails=0; server {ip}:{r}; }\n\
    set_real_ip_from 127.0.0.0/8; real_ip_header X-Real-IP;\n\
    server { listen {ip}:{p}; location /key { proxy_pass http://keyed; } \
    location /net { proxy_pass http://net; } location /gone { proxy_pass http://gone; } }";

#[test]
fn nginx_http_logs_to_syslog() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let syslog = format!("syslog:server={}", receiver.local_addr().unwrap());
    let text = format!(
        "== http\nlog_format f '$request $status';\nserver {{ listen {{ip}}:{{p}}; \
         access_log {syslog},facility=local3,tag=shop,severity=warn f; \
         access_log {syslog},nohostname f if=$arg_more; location / {{ return 200 x; }} }}"
    );
    let pair = Pair::start("nginx-http-syslog", &[], &text);
    let next = || {
        let mut buffer = [0; 1024];
        loop {
            let bytes = receiver.recv(&mut buffer).unwrap();
            let message = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
            // What comes late for the port's last owner is not meant.
            if let Some((priority, rest)) = message.split_once('>')
                && message.contains("HTTP/1.1 200")
            {
                // `Nov 27 12:00:00`
                let (time, rest) = rest.split_at(15);
                let colons: Vec<usize> = time.match_indices(':').map(|(at, _)| at).collect();
                assert_eq!(colons, [9, 12], "{message}");
                return format!("{priority}>{rest}");
            }
        }
    };
    let messages = pair.both(|address| {
        let mut client = Client::connect(address).unwrap();
        for target in ["/one", "/two?more=1"] {
            assert_eq!(client.get(target).unwrap().status, 200);
        }
        let mut messages: Vec<String> = (0..3).map(|_| next()).collect();
        messages.sort_unstable();
        messages
    });
    assert!(
        messages[0].starts_with("<156> ") && messages[0].ends_with(" shop: GET /one HTTP/1.1 200")
    );
    assert_eq!(messages[2], "<190> nginx: GET /two?more=1 HTTP/1.1 200");
}

/// The documentation of nginx 1.29.3 decides: the nginx that cases run beside is older.
#[test]
fn nginx_http_inherits_fields_as_is_said() {
    const LOCATIONS: &str = "location /on { add_header_inherit on; add_header A own; add_trailer T own; return 200 x; } \
        location /none { add_header_inherit on; return 200 x; } \
        location /merge { add_header_inherit merge; add_header A own; add_header C c; return 200 x; \
        location /merge/deep { add_header D d; return 200 x; } \
        location /merge/on { add_header_inherit on; add_header D d; return 200 x; } } \
        location /off { add_header_inherit off; return 200 x; location /off/deep { return 200 x; } } \
        location /off/own { add_header_inherit off; add_header C c; return 200 x; } \
        location /trailers { add_header_inherit off; add_trailer_inherit merge; add_trailer T own; } \
        location /bare { add_trailer_inherit off; add_header_inherit off; }";
    let text = format!(
        "daemon off; pid {{dir}}/pid; events {{ }} http {{ add_header B 9; server {{ listen {{address}}; root {{dir}}/www; \
         add_header A outer; add_header B outer; add_trailer T outer; {LOCATIONS} }} }}"
    );
    let dir = TempDir::new("nginx-inherit").unwrap();
    for name in ["trailers", "bare"] {
        dir.write(&format!("www/{name}/a.txt"), "x").unwrap();
    }
    let saker = Saker::nginx(operate::SAKER, &text).start(dir);
    let values = |path: &str| {
        let response = saker.connect().unwrap().get(path).unwrap();
        assert_eq!(response.status, 200, "{path}");
        let of = |name: &str| response.field_values(name).collect::<Vec<_>>().join(",");
        ["A", "B", "C", "D"].map(of).join(" ")
    };
    for (path, expected) in [
        ("/on", "own   "),
        ("/none", "outer outer  "),
        ("/merge", "outer,own outer c "),
        ("/merge/deep", "outer,own outer c d"),
        ("/merge/on", "   d"),
        ("/off", "   "),
        ("/off/deep", "   "),
        ("/off/own", "  c "),
    ] {
        assert_eq!(values(path), expected, "{path}");
    }
    let trailers = |path: &str| {
        let mut client = saker.connect().unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.send(request).unwrap();
        let all = String::from_utf8(client.read_to_close(PATIENCE).unwrap()).unwrap();
        let end = all.rsplit_once("\r\n0\r\n").map_or("", |(_, end)| end);
        end.trim_end().replace("\r\n", " ")
    };
    assert_eq!(trailers("/trailers/a.txt"), "T: outer T: own");
    assert_eq!(trailers("/bare/a.txt"), "");
}

#[test]
fn nginx_http_keys_lead_to_the_same_members() {
    let pair = Pair::start("nginx-http-keys", &[], MEMBERS);
    let ask = |address: SocketAddr, path: &str, fields: &[(&str, &str)]| {
        let mut client = Client::connect(address).unwrap();
        let response = client.request("GET", path, fields).unwrap();
        (response.status, response.text())
    };
    let members = pair.both(|address| {
        let keys = (0..16).map(|key| ask(address, &format!("/key?k={key}"), &[]));
        let fields = (0..8).map(|key| ask(address, "/key", &[("X", &format!("x{key}"))]));
        keys.chain(fields).collect::<Vec<_>>()
    });
    let count = |name: &str| members.iter().filter(|(_, text)| text == name).count();
    assert!(count("a") >= 4 && count("b") >= 8, "{members:?}");
    let networks = pair.both(|address| {
        let clients = (0..16).map(|net| format!("10.1.{net}.7"));
        let clients = clients.chain((0..4).map(|end| format!("2001:db8::{end}")));
        clients
            .map(|client| ask(address, "/net", &[("X-Real-IP", &client)]))
            .collect::<Vec<_>>()
    });
    assert!(networks.iter().any(|(_, text)| text == "a"), "{networks:?}");
    // A key whose member is gone has another one.
    let gone = pair.both(|address| {
        let keys = (0..8).map(|key| ask(address, &format!("/gone?k={key}"), &[]));
        keys.collect::<Vec<_>>()
    });
    assert!(gone.iter().all(|(status, _)| *status == 200), "{gone:?}");
}

#[test]
fn nginx_http_knows_what_certificates_say() {
    let pair = Pair::start(
        "nginx-http-certificates",
        &[],
        "== http\nserver { listen {ip}:{p} ssl; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; \
         ssl_verify_client optional_no_ca; ssl_client_certificate {shared}/cert.pem; \
         location / { return 200 '$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_serial|$ssl_client_fingerprint|\
         $ssl_client_v_start|$ssl_client_v_end|$ssl_client_v_remain|$ssl_client_s_dn_legacy|$ssl_client_escaped_cert|$ssl_client_raw_cert'; } \
         location /if { if ($ssl_client_s_dn = 'CN=stream.test') { return 204; } return 403; } }",
    );
    let ask = |address: SocketAddr, path: &str, with: bool| {
        let mut curl = Command::new(require("curl").unwrap());
        curl.args(["-sk", "--max-time", "20", "-w", "|%{http_code}"]);
        if with {
            curl.arg("--cert").arg(pair.dir.join("cert.pem"));
            curl.arg("--key").arg(pair.dir.join("key.pem"));
        }
        let output = curl
            .arg(format!("https://{address}{path}"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // Two days are over one second after they began.
    let told = pair.both(|address| ask(address, "/", true).replacen("|2|/CN=", "|1|/CN=", 1));
    assert!(told.starts_with("CN=stream.test|CN=stream.test|"), "{told}");
    assert!(told.contains("|1|/CN="), "{told}");
    assert_eq!(pair.both(|address| ask(address, "/if", true)), "|204");
    let without = pair.both(|address| ask(address, "/", false));
    assert!(without.starts_with("|||||||||"), "{without}");
    let refused = pair.both(|address| ask(address, "/if", false).ends_with("|403"));
    assert!(refused);
}

#[test]
fn nginx_http_reads_proxy_headers() {
    let pair = Pair::start(
        "nginx-http-preface",
        &[],
        "server { listen {ip}:{q}; proxy_protocol on; proxy_pass {ip}:{p}; }\n== http\n\
         set_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol;\n\
         server { listen {ip}:{p} proxy_protocol; \
         return 200 '$remote_addr|$proxy_protocol_addr|$proxy_protocol_port|$proxy_protocol_server_addr|$realip_remote_addr|$realip_remote_port'; }",
    );
    let told = pair.both(|address| {
        let header = "PROXY TCP4 192.0.2.9 192.0.2.1 5000 443\r\n";
        let mut client = Client::connect(address).unwrap();
        let request = format!("{header}GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        let response = client.read_response().unwrap();
        let text = response.text().replace("127.0.0.2", "127.0.0.1");
        text.rsplit_once('|').map(|(before, _)| before.to_owned())
    });
    assert_eq!(
        told.as_deref(),
        Some("192.0.2.9|192.0.2.9|5000|192.0.2.1|127.0.0.1")
    );
}

/// The PROXY header names the client, not the address of this server.
#[test]
fn nginx_http_has_its_own_address_behind_proxies() {
    let pair = Pair::start(
        "nginx-http-preface-local",
        &[],
        "== http\nset_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol;\n\
         server { listen {ip}:{p} proxy_protocol; if ($server_port = 443) { return 403; } \
         location / { return 200 '$remote_addr|$server_addr|$server_port|$proxy_protocol_server_port'; } \
         location /go { return 302 /to; } }",
    );
    let port = pair.port;
    let ask = |address: SocketAddr, path: &str, to: u16| {
        let header = format!("PROXY TCP4 192.0.2.9 192.0.2.1 5000 {to}\r\n");
        let mut client = Client::connect(address).unwrap();
        let request =
            format!("{header}GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        let response = client.read_response().unwrap();
        let to = response.field("location").unwrap_or_default().to_owned();
        let text = response.text().replace("127.0.0.2", "127.0.0.1");
        (response.status, if to.is_empty() { text } else { to })
    };
    for to in [443, 80, 443] {
        assert_eq!(
            pair.both(|address| ask(address, "/", to)),
            (200, format!("192.0.2.9|127.0.0.1|{port}|{to}"))
        );
        assert_eq!(
            pair.both(|address| ask(address, "/go", to)),
            (302, format!("http://a:{port}/to"))
        );
    }
}

#[test]
fn nginx_http_sends_trailers() {
    let pair = Pair::start(
        "nginx-http-trailers",
        &[],
        "== http\nserver { listen {ip}:{p}; location / { add_trailer X-T t-$arg_a; add_trailer X-No \"\"; \
         return 200 text; } location /err { add_trailer X-No n; add_trailer X-Always a always; return 404 e; } \
         location /none { return 200 text; } }",
    );
    let ask = |address: SocketAddr, path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let told = |path: &str| pair.both(|address| ask(address, path));
    assert_eq!(told("/x?a=1"), "4\r\ntext\r\n0\r\nX-T: t-1\r\n\r\n");
    assert_eq!(told("/err"), "1\r\ne\r\n0\r\nX-Always: a\r\n\r\n");
    assert_eq!(told("/none"), "text");
}

#[test]
fn nginx_http_follows_policies_of_ssl() {
    let pair = Pair::start(
        "nginx-http-policies",
        &[],
        "== http\nserver { listen {ip}:{p} ssl; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/locked.pem; \
         ssl_password_file {shared}/passwords; ssl_protocols TLSv1.2 TLSv1.3; ssl_verify_client optional_no_ca; ssl_client_certificate {shared}/cert.pem; \
         ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:!SHA1; ssl_ecdh_curve secp384r1:prime256v1; \
         ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; ssl_prefer_server_ciphers on; ssl_session_timeout 5m; \
         location / { return 200 '$ssl_protocol|$ssl_cipher|$ssl_client_s_dn'; } \
         location /up { proxy_pass https://{ip}:{p}/; proxy_ssl_protocols TLSv1.2; proxy_ssl_ciphers ECDHE-ECDSA-CHACHA20-POLY1305; \
         proxy_ssl_certificate {shared}/cert.pem; proxy_ssl_certificate_key {shared}/locked.pem; \
         proxy_ssl_password_file {shared}/passwords; } \
         location /up13 { proxy_pass https://{ip}:{p}/; proxy_ssl_protocols TLSv1.3; \
         proxy_ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; } }",
    );
    let ask = |address: SocketAddr, path: &str, options: &[&str]| {
        let mut curl = Command::new(require("curl").unwrap());
        curl.args(["-sk", "--max-time", "20"]).args(options);
        let output = curl
            .arg(format!("https://{address}{path}"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let told = |path: &str, options: &[&str]| pair.both(|address| ask(address, path, options));
    let old = ["--tls-max", "1.2"];
    assert_eq!(told("/", &[]), "TLSv1.3|TLS_CHACHA20_POLY1305_SHA256|");
    assert_eq!(told("/", &old), "TLSv1.2|ECDHE-ECDSA-AES256-GCM-SHA384|");
    let [flag, most] = old;
    let weak = [flag, most, "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"];
    assert_eq!(told("/", &weak), "");
    assert_eq!(told("/", &["--curves", "X25519"]), "");
    assert!(told("/", &["--curves", "P-384"]).starts_with("TLSv1.3|"));
    assert_eq!(
        told("/up", &[]),
        "TLSv1.2|ECDHE-ECDSA-CHACHA20-POLY1305|CN=stream.test"
    );
    assert_eq!(told("/up13", &[]), "TLSv1.3|TLS_CHACHA20_POLY1305_SHA256|");
}

#[test]
fn nginx_http_marks_requests_of_uwsgi() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let pair = Pair::start(
        "nginx-http-uwsgi",
        &[("uwsgi", address)],
        "== http\nserver { listen {ip}:{p}; uwsgi_modifier1 5; location / { uwsgi_pass {uwsgi}; uwsgi_modifier2 9; } \
         location /plain { uwsgi_pass {uwsgi}; uwsgi_modifier1 0; } }",
    );
    let told = |path: &str| {
        pair.both(|address| {
            let mut client = Client::connect(address).unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            client.send(request.as_bytes()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4];
            stream.read_exact(&mut head).unwrap();
            let answer = b"Status: 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer).unwrap();
            let response = client.read_response().unwrap();
            (head[0], head[3], response.text())
        })
    };
    assert_eq!(told("/"), (5, 9, "ok".to_owned()));
    assert_eq!(told("/plain"), (0, 0, "ok".to_owned()));
}

/// Upstreams are told a name if the configuration says so, and certificates are trusted quietly.
#[test]
fn nginx_http_names_servers_and_trusts_quietly() {
    let pair = Pair::start(
        "nginx-http-names",
        &[],
        "== http\nserver { listen {ip}:{q} ssl; server_name named.test; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; \
         return 200 '[$ssl_server_name] $ssl_session_reused'; }\n\
         server { listen {ip}:{r} ssl; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; \
         ssl_verify_client on; ssl_trusted_certificate {shared}/cert.pem; ssl_client_certificate {shared}/other.pem; return 200 '$ssl_client_verify'; }\n\
         server { listen {ip}:{p}; proxy_ssl_name named.test; proxy_ssl_session_reuse off; \
         location /quiet { proxy_pass https://{ip}:{q}; } \
         location /named { proxy_pass https://{ip}:{q}; proxy_ssl_server_name on; } \
         location /fresh { proxy_pass https://{ip}:{q}; proxy_http_version 1.0; } \
         location /trusted { proxy_pass https://{ip}:{r}; proxy_ssl_certificate {shared}/cert.pem; proxy_ssl_certificate_key {shared}/key.pem; } \
         location /stranger { proxy_pass https://{ip}:{r}; proxy_ssl_certificate {shared}/stranger.pem; proxy_ssl_certificate_key {shared}/stranger.key; } }",
    );
    let told = |path: &str| {
        pair.both(|address| {
            let mut client = Client::connect(address).unwrap();
            let response = client.request("GET", path, &[]).unwrap();
            // A page of an error names its server.
            let text = match response.status {
                200 => response.text(),
                _ => String::new(),
            };
            (response.status, text)
        })
    };
    assert_eq!(told("/quiet"), (200, "[] .".to_owned()));
    assert_eq!(told("/named"), (200, "[named.test] .".to_owned()));
    for _ in 0..3 {
        assert_eq!(told("/fresh"), (200, "[] .".to_owned()));
    }
    assert_eq!(told("/trusted"), (200, "SUCCESS".to_owned()));
    // nginx answers 400 behind the handshake, which Saker refuses.
    let is_refused = pair.both(|address| {
        let mut client = Client::connect(address).unwrap();
        client.request("GET", "/stranger", &[]).unwrap().status >= 400
    });
    assert!(is_refused);
}

/// A session goes on at another server that has the same key of tickets.
#[test]
fn nginx_http_tickets_have_the_keys_of_files() {
    let dir = TempDir::new("nginx-http-tickets").unwrap();
    nginx_pair::certificate(&dir);
    let other: Vec<u8> = (100..180).collect();
    std::fs::write(dir.join("other-tickets"), other).unwrap();
    let session = dir.join("session");
    let ask = |server: &ServerProcess, flag: &str| {
        let output = Command::new(require("bash").unwrap())
            .arg("-c")
            .arg(format!(
                "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | openssl s_client -tls1_2 -ign_eof -connect {} {flag} {}",
                server.address(),
                session.display()
            ))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("[r]") || text.contains("[.]"), "{text}");
        (text.contains("\nReused, "), text.contains("[r]"))
    };
    let first = alone(&dir, "first", "tickets");
    assert_eq!(ask(&first, "-sess_out"), (false, false));
    assert_eq!(
        ask(&alone(&dir, "second", "tickets"), "-sess_in"),
        (true, true)
    );
    let stranger = alone(&dir, "third", "other-tickets");
    assert_eq!(ask(&stranger, "-sess_in"), (false, false));
}

/// A server of TLS with a file of keys for tickets.
fn alone(dir: &TempDir, name: &str, tickets: &str) -> ServerProcess {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let user = match rustix::process::geteuid().is_root() {
        true => "user www-data;\n",
        false => "",
    };
    let text = format!(
        "{user}pid {shared}/{name}.pid;\nevents {{ }}\nhttp {{ access_log off;\n\
         ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; ssl_protocols TLSv1.2;\n\
         server {{ listen {address} ssl; ssl_session_ticket_key {shared}/{tickets}; return 200 '[$ssl_session_reused]'; }} }}",
        shared = dir.display(),
    );
    let file = dir.write(&format!("{name}.conf"), text).unwrap();
    let mut saker = Command::new(operate::SAKER);
    saker
        .env("TMPDIR", dir.temporary_files().unwrap())
        .args(["run", "--workers", "1", "--nginx"])
        .arg(file)
        .arg("--state-dir")
        .arg(dir.join(format!("state-{name}")));
    ServerProcess::start(&mut saker, address).unwrap()
}

#[test]
fn nginx_http_answers_bad_certificates() {
    let (optional, plain) = (free_port().unwrap(), free_port().unwrap());
    let (optional, plain) = (optional.to_string(), plain.to_string());
    let pair = Pair::start(
        "nginx-http-verify",
        &[("optional", optional.clone()), ("plain", plain.clone())],
        "== http\nssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; \
         ssl_client_certificate {shared}/other.pem; ssl_trusted_certificate {shared}/cert.pem;\n\
         server { listen {ip}:{p} ssl http2; listen {ip}:{plain}; server_name on.test; ssl_verify_client on; \
         location / { return 200 '$ssl_client_verify'; } }\n\
         server { listen {ip}:{optional} ssl; ssl_verify_client optional; error_page 495 /bad; error_page 496 = /none; \
         location / { return 200 'in:$ssl_client_verify'; } location /bad { return 200 'bad'; } }",
    );
    let shared = pair.dir.join("").display().to_string();
    let ask = |address: SocketAddr, port: &str, name: &str, version: &str| {
        let port = match port {
            "" => address.port().to_string(),
            port => port.to_owned(),
        };
        let scheme = if version == "plain" { "http" } else { "https" };
        let mut curl = Command::new(require("curl").unwrap());
        curl.args(["-sk", "--max-time", "20", "-w", "|%{http_code}"]);
        if version.starts_with("--") {
            curl.args(version.split(' '));
        }
        if !name.is_empty() {
            let (certificate, key) = name.split_once(' ').unwrap();
            curl.args(["--cert", &format!("{shared}{certificate}")]);
            curl.args(["--key", &format!("{shared}{key}")]);
        }
        let url = format!("{scheme}://{}:{port}/", address.ip());
        let output = curl.arg(url).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let title = text
            .split_once("<title>")
            .and_then(|(_, rest)| rest.split_once('<'));
        let status = text.rsplit_once('|').map_or("", |(_, status)| status);
        match title {
            Some((title, _)) => format!("{title}|{status}"),
            None => text,
        }
    };
    let (good, bad) = ("cert.pem key.pem", "stranger.pem stranger.key");
    for version in ["--tls-max 1.2", "--tlsv1.3", "--http2"] {
        let told = |name: &str| pair.both(|address| ask(address, "", name, version));
        assert_eq!(told(bad), "400 The SSL certificate error|400", "{version}");
        assert_eq!(
            told(""),
            "400 No required SSL certificate was sent|400",
            "{version}"
        );
        // Again: no answer to another connection is kept.
        assert_eq!(told(good), "SUCCESS|200", "{version}");
        assert_eq!(told(bad), "400 The SSL certificate error|400", "{version}");
    }
    let told = |port: &str, name: &str, version: &str| {
        pair.both(|address| ask(address, port, name, version))
    };
    assert_eq!(told(&optional, good, ""), "in:SUCCESS|200");
    assert_eq!(told(&optional, "", ""), "in:NONE|200");
    assert!(told(&optional, bad, "").starts_with("bad|"));
    // An address without TLS asks for nothing, as in nginx.
    assert_eq!(told(&plain, "", "plain"), "|200");
}

#[test]
fn nginx_http_believes_prefaces_of_some() {
    let pair = Pair::start(
        "nginx-http-preface-levels",
        &[],
        "== http\nlog_format who '$remote_addr'; \
         server { listen {ip}:{p} proxy_protocol; access_log {dir}/who.log who; \
         location / { return 200 '$remote_addr|$proxy_protocol_addr|$proxy_protocol_port'; } \
         location /known { set_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol; \
         deny 192.0.2.9; root /nowhere; } \
         location /none { set_real_ip_from 198.51.100.0/24; real_ip_header proxy_protocol; \
         deny 192.0.2.9; root /nowhere; } }",
    );
    let ask = |address: SocketAddr, path: &str| {
        let mut client = Client::connect(address).unwrap();
        let header = "PROXY TCP4 192.0.2.9 192.0.2.1 5000 443\r\n";
        let request =
            format!("{header}GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        let response = client.read_response().unwrap();
        let is_text = response.status == 200;
        let text = response.text().replace("127.0.0.2", "127.0.0.1");
        (response.status, if is_text { text } else { String::new() })
    };
    let told = |path: &str| pair.both(|address| ask(address, path));
    assert_eq!(told("/"), (200, "127.0.0.1|192.0.2.9|5000".to_owned()));
    assert_eq!(told("/known").0, 403);
    assert_eq!(told("/none").0, 404);
    let lines = pair.logs("who.log", 3);
    assert_eq!(lines, ["127.0.0.1", "192.0.2.9", "127.0.0.1"]);
}

/// A file in place of an error keeps its tag, and has no date.
#[test]
fn nginx_http_error_pages_have_the_tag_of_their_file() {
    let conf = "== http\nserver { listen {ip}:{p}; root {dir}; error_page 404 /nginx.conf; }";
    let pair = Pair::start("nginx-http-error-tag", &[], conf);
    let found = pair.both(|address| {
        let mut client = Client::connect(address).unwrap();
        let answer = client.get("/none").unwrap();
        let has = |name| answer.field(name).is_some();
        (answer.status, has("etag"), has("last-modified"))
    });
    assert_eq!(found, (404, true, false));
}
