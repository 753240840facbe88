//! Members of upstreams by a key, and certificates of clients: what cases of one server cannot show.
//!
//! Called by: `cargo test -p saker --test applications nginx_http`.
//! Out of scope: everything that a case file can say (`nginx_cases`).

use crate::nginx_pair::Pair;
use saker_testkit::{Client, require};
use std::{net::SocketAddr, process::Command};

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
    let told = pair.both(|address| ask(address, "/", true));
    assert!(told.starts_with("CN=stream.test|CN=stream.test|"), "{told}");
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
