//! Values of handshakes and connections: certificates by the client's name, and variables.
//!
//! Called by: `cargo test -p saker --test applications nginx_handshakes`.
//! Caveat: the nginx beside Saker is 1.22; what is newer is asked of Saker alone.
//! Out of scope: everything that a case file can say (`nginx_cases`).

use crate::{nginx_pair::Pair, operate};
use saker_testkit::{Client, Saker, TempDir, require};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

const CERTIFICATES: &str = "== http\n\
    map $ssl_server_name $named { hostnames; default {shared}/none; ~^stream {shared}/certs/stream.test; ~^$ {shared}/certs/stream.test; .other.test {shared}/certs/other.test; }\n\
    server { listen {ip}:{p} ssl; server_name stream.test other.test; \
    ssl_certificate {shared}/certs/$ssl_server_name.pem; ssl_certificate_key {shared}/certs/$ssl_server_name.key; return 200 x; }\n\
    server { listen {ip}:{q} ssl; ssl_certificate $named.pem; ssl_certificate_key $named.key; return 200 x; }\n\
    server { listen {ip}:{r} ssl; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; \
    ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command MinProtocol TLSv1.3; return 200 x; }";

/// The subject of the certificate that a server shows; empty: the handshake failed.
fn subject(address: SocketAddr, name: Option<&str>, more: &[&str]) -> String {
    let mut client = Command::new(require("openssl").unwrap());
    client
        .args(["s_client", "-connect", &address.to_string()])
        .args(more)
        .stdin(Stdio::null());
    match name {
        Some(name) => client.args(["-servername", name]),
        None => client.arg("-noservername"),
    };
    let output = client.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("subject="));
    line.unwrap_or_default().to_owned()
}

/// Files of a certificate that the servers' user may read.
fn lay_out(dir: &TempDir, name: &str, (certificate, key): (&str, &str)) {
    let folder = dir.join("certs");
    fs::create_dir_all(&folder).unwrap();
    for (from, ending) in [(certificate, "pem"), (key, "key")] {
        let to = folder.join(format!("{name}.{ending}"));
        fs::copy(dir.join(from), &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn nginx_handshakes_find_certificates_by_name() {
    let pair = Pair::start("nginx-handshakes", &[], CERTIFICATES);
    lay_out(&pair.dir, "stream.test", ("cert.pem", "key.pem"));
    let (first, second) = ("CN = stream.test", "CN = other.test");
    let at = |word: &str, address: SocketAddr| {
        SocketAddr::new(address.ip(), pair.word(word).parse().unwrap())
    };
    let shown = |word: &str, name: Option<&str>| {
        pair.both(|address| subject(at(word, address), name, &["-tls1_2"]))
    };
    assert_eq!(shown("p", Some("stream.test")), first);
    assert_eq!(shown("p", Some("other.test")), "", "before it is there");
    lay_out(&pair.dir, "other.test", ("other.pem", "other.key"));
    assert_eq!(shown("p", Some("other.test")), second);
    assert_eq!(shown("p", Some("no.test")), "");
    assert_eq!(shown("p", None), "");
    assert_eq!(shown("q", Some("stream.example")), first);
    assert_eq!(shown("q", Some("a.other.test")), second);
    assert_eq!(shown("q", Some("no.test")), "");
    // An expression is not asked about no name.
    assert_eq!(shown("q", None), "");
    // The files of a name are others.
    lay_out(&pair.dir, "stream.test", ("stranger.pem", "stranger.key"));
    assert_eq!(shown("p", Some("stream.test")), "CN = stranger.test");
    let versions = |version: &str| {
        pair.both(|address| subject(at("r", address), Some("stream.test"), &[version]))
    };
    assert_eq!(versions("-tls1_3"), first);
    assert_eq!(versions("-tls1_2"), "");
    saker_testkit::wait_until("the missing certificate is told", || {
        let log = fs::read_to_string(pair.dir.join("saker/error.log"));
        log.is_ok_and(|log| log.contains("SK0713"))
    });
}

/// A variable without a value in handshakes, and certificates in variables.
#[test]
fn nginx_handshakes_take_data_and_refuse_what_is_unknown_then() {
    let dir = TempDir::new("nginx-handshake-data").unwrap();
    crate::nginx_pair::certificate(&dir);
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let (certificate, key) = (read("cert.pem"), read("key.pem"));
    let text = |source: &str| {
        format!(
            "daemon off; pid {{dir}}/pid; events {{ }} http {{ \
             map $ssl_server_name $pem {{ default \"data:{certificate}\"; }} map $ssl_server_name $key {{ default \"data:{key}\"; }} \
             server {{ listen {{address}}; return 200 x; }} \
             server {{ listen {{ip}}:{{second}} ssl; ssl_certificate {source}; ssl_certificate_key $key; return 200 x; }} }}"
        )
    };
    let second = saker_testkit::free_port().unwrap();
    let place = |text: String| {
        text.replace("{ip}", "127.0.0.1")
            .replace("{second}", &second.to_string())
    };
    let refused = dir.join("refused.conf");
    let unknown = place(text("/etc/$remote_addr.pem"))
        .replace("{address}", "127.0.0.1:1")
        .replace("{dir}", &dir.display().to_string());
    fs::write(&refused, unknown).unwrap();
    let checked = Command::new(operate::SAKER)
        .args(["check", "--nginx"])
        .arg(&refused)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(
        !checked.status.success() && said.contains("has no value in a handshake"),
        "{said}"
    );
    let _saker = Saker::nginx(operate::SAKER, &place(text("$pem"))).start(dir);
    let address = SocketAddr::from(([127, 0, 0, 1], second));
    assert_eq!(subject(address, Some("any.test"), &[]), "CN = stream.test");
    assert_eq!(subject(address, None, &[]), "CN = stream.test");
}

const VARIABLES: &str = "== http\n\
    map $tcpinfo_rtt $rtt { ~^[1-9][0-9]*$ yes; default no; }\n\
    map $tcpinfo_rttvar $rttvar { ~^[0-9]+$ yes; default no; }\n\
    map $tcpinfo_snd_cwnd $window { ~^[1-9][0-9]*$ yes; default no; }\n\
    map $tcpinfo_rcv_space $space { ~^[1-9][0-9]*$ yes; default no; }\n\
    log_format all '$uri $rtt $rttvar $window $space [$http2] [$proxy_internal_body_length] [$proxy_internal_chunked] \
    [$upstream_cache_last_modified] [$upstream_cache_etag] $ssl_curves $ssl_ciphers';\n\
        server { listen {ip}:{p}; access_log {dir}/all.log all; location / { return 200 x; } location /told { return 200 \"$rtt $rttvar $window $space\"; } }\n\
    server { listen {ip}:{q} ssl; access_log {dir}/all.log all; ssl_certificate {shared}/cert.pem; ssl_certificate_key {shared}/key.pem; location / { return 200 x; } }";

#[test]
fn nginx_handshakes_have_their_variables() {
    let pair = Pair::start("nginx-handshake-variables", &[], VARIABLES);
    let told = pair.both(|address| {
        let mut client = Client::connect(address).unwrap();
        assert_eq!(client.get("/a").unwrap().status, 200);
        client.get("/told").unwrap().text()
    });
    assert_eq!(told, "yes yes yes yes");
    let words = [
        "-tls1_2",
        "-curves",
        "P-256:X25519:P-521",
        "-cipher",
        "ECDHE-ECDSA-AES256-GCM-SHA384:AES128-SHA",
    ];
    pair.both(|address| {
        let address = SocketAddr::new(address.ip(), pair.word("q").parse().unwrap());
        let mut client = Command::new(require("openssl").unwrap());
        client.args(["s_client", "-quiet", "-connect", &address.to_string()]);
        let mut client = client
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let request = b"GET /tls HTTP/1.0\r\n\r\n";
        std::io::Write::write_all(client.stdin.as_mut().unwrap(), request).unwrap();
        let output = client.wait_with_output().unwrap();
        assert!(output.stdout.ends_with(b"\r\n\r\nx"), "{output:?}");
    });
    let lines = pair.logs("all.log", 3);
    assert!(lines[0].starts_with("/a yes yes yes yes "), "{lines:?}");
    let offered = "prime256v1:X25519:secp521r1 ECDHE-ECDSA-AES256-GCM-SHA384:AES128-SHA:TLS_EMPTY_RENEGOTIATION_INFO_SCSV";
    assert!(lines[2].ends_with(offered), "{lines:?}");
}

/// Variables of nginx after 1.22.
#[test]
fn nginx_handshakes_know_newer_variables() {
    let text = "daemon off; pid {dir}/pid; events { } http { proxy_cache_path {dir}/c keys_zone=z:1m; \
        log_format n '$ssl_sigalg $ssl_client_sigalg $quic_connection'; access_log {dir}/n.log n; \
        server { listen {address}; location /origin { return 200 o; } \
        location / { proxy_pass http://{address}/origin; proxy_cache z; proxy_cache_key k; proxy_cache_valid 1h; \
        add_header X-Age \"$upstream_cache_status:$upstream_cache_age\"; add_header X-Last \"$upstream_last_server_name\"; \
        add_header X-Queue \"$upstream_queue_time\"; } } }";
    let dir = TempDir::new("nginx-newer-variables").unwrap();
    let saker = Saker::nginx(operate::SAKER, text).start(dir);
    let asked = || {
        let response = saker.connect().unwrap().get("/").unwrap();
        let of = |name: &str| response.field_values(name).collect::<Vec<_>>().join(",");
        ["x-age", "x-last", "x-queue"].map(of).join("|")
    };
    assert_eq!(asked(), "MISS:|127.0.0.1|");
    let hit = asked();
    assert!(hit == "HIT:0||" || hit == "HIT:1||", "{hit}");
}
