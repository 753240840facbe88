//! Chains of certificates that OpenSSL follows: a trusted certificate that is presented as it is, and
//! certificates of X.509 version 1 below an authority in between.
//!
//! Called by: `cargo test -p saker --test applications nginx_chains`.
//! Caveat: keys and certificates are made for each run; those without extensions are of version 1 with
//! OpenSSL 3.0.
//! Out of scope: revocation (`ssl_revoked.case`).

use crate::nginx_pair::Pair;
use saker_testkit::{Client, TempDir, require};
use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
};

fn openssl(dir: &TempDir, arguments: &[&str]) {
    let made = Command::new(require("openssl").unwrap())
        .args(arguments)
        .current_dir(dir.join("."))
        .output()
        .unwrap();
    assert!(made.status.success(), "{arguments:?}: {made:?}");
}

/// A certificate that signed itself, with its key.
fn root(dir: &TempDir, name: &str, usage: &str) {
    let subject = format!("/CN={name}");
    let (key, out) = (format!("{name}.key"), format!("{name}.pem"));
    let more = ["-addext", usage, "-keyout", &key, "-out", &out];
    let first = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ];
    let second = ["-nodes", "-days", "2", "-subj", &subject];
    openssl(dir, &[&first[..], &second, &more].concat());
}

/// A certificate that another has signed; without extensions, it is of version 1.
fn signed(dir: &TempDir, name: &str, by: &str, extensions: Option<&str>) {
    let subject = format!("/CN={name}");
    let [key, request, out] = ["key", "csr", "pem"].map(|end| format!("{name}.{end}"));
    let (authority, its_key) = (format!("{by}.pem"), format!("{by}.key"));
    let first = [
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ];
    let second = [
        "-nodes", "-subj", &subject, "-keyout", &key, "-out", &request,
    ];
    openssl(dir, &[&first[..], &second].concat());
    let mut sign = vec!["x509", "-req", "-days", "2", "-in", &request, "-out", &out];
    sign.extend(["-CA", &authority, "-CAkey", &its_key, "-CAcreateserial"]);
    if let Some(extensions) = extensions {
        fs::write(dir.join("extensions"), extensions).unwrap();
        sign.extend(["-extfile", "extensions"]);
    }
    openssl(dir, &sign);
}

const AUTHORITY: &str = "basicConstraints=critical,CA:TRUE";

/// The certificates, and files that have several of them.
fn make(dir: &TempDir) {
    for name in ["root", "stranger"] {
        root(dir, name, AUTHORITY);
    }
    signed(dir, "between", "root", Some(AUTHORITY));
    // It does not say that it may sign.
    signed(dir, "none", "root", Some("basicConstraints=CA:FALSE"));
    for (name, by) in [
        ("first", "root"),
        ("second", "between"),
        ("third", "none"),
        ("other", "stranger"),
    ] {
        signed(dir, name, by, None);
    }
    let join = |name: &str, parts: &[&str]| {
        let read = |part: &&str| fs::read_to_string(dir.join(format!("{part}.pem"))).unwrap();
        let all: String = parts.iter().map(read).collect();
        fs::write(dir.join(name), all).unwrap();
    };
    join("second-chain.pem", &["second", "between"]);
    join("third-chain.pem", &["third", "none"]);
}

const SERVERS: &str = "server { listen {ip}:{q} ssl; ssl_certificate {tls}/first.pem; ssl_certificate_key {tls}/first.key; \
    ssl_verify_client on; ssl_client_certificate {tls}/root.pem; ssl_verify_depth 3; return \"$ssl_client_verify $ssl_client_s_dn\"; }\n\
    == http\nserver { listen {ip}:{p} ssl; ssl_certificate {tls}/first.pem; ssl_certificate_key {tls}/first.key; \
    ssl_verify_client optional; ssl_client_certificate {tls}/root.pem; ssl_verify_depth 3; return 200 \"$ssl_client_verify $ssl_client_s_dn\"; }\n\
    server { listen {ip}:{r}; proxy_ssl_session_reuse off; proxy_ssl_verify on; proxy_ssl_verify_depth 3; proxy_ssl_trusted_certificate {tls}/root.pem;\n\
    location /itself { proxy_pass https://{ip}:{self_port}; proxy_ssl_name root; }\n\
    location /first { proxy_pass https://{ip}:{p}; proxy_ssl_name first:443; }\n\
    location /second { proxy_pass https://{ip}:{second_port}; proxy_ssl_name second; }\n\
    location /third { proxy_pass https://{ip}:{third_port}; proxy_ssl_name third; }\n\
    location /variable { proxy_pass https://{ip}:{second_port}; proxy_ssl_name $arg_name; }\n\
    location /own { proxy_pass https://{ip}:{p}; proxy_ssl_name first; proxy_ssl_certificate {tls}/second-chain.pem; proxy_ssl_certificate_key {tls}/second.key; }\n\
    location /name { proxy_pass https://{ip}:{second_port}; proxy_ssl_name third; } }\n\
    server { listen {ip}:{self_port} ssl; ssl_certificate {tls}/root.pem; ssl_certificate_key {tls}/root.key; return 200 itself; }\n\
    server { listen {ip}:{second_port} ssl; ssl_certificate {tls}/second-chain.pem; ssl_certificate_key {tls}/second.key; return 200 second; }\n\
    server { listen {ip}:{third_port} ssl; ssl_certificate {tls}/third-chain.pem; ssl_certificate_key {tls}/third.key; return 200 third; }";

/// The server's words about a client's certificate, with `chain` behind it.
fn verdict(dir: &TempDir, address: SocketAddr, name: &str, chain: Option<&str>) -> String {
    let mut client = Command::new(require("openssl").unwrap());
    client
        .args(["s_client", "-quiet", "-connect", &address.to_string()])
        .args([
            "-cert",
            &format!("{name}.pem"),
            "-key",
            &format!("{name}.key"),
        ])
        .current_dir(dir.join("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(chain) = chain {
        client.args(["-cert_chain", &format!("{chain}.pem")]);
    }
    let mut client = client.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    // A server that has said its text, or refuses, is gone already.
    let _ = input.write_all(b"GET / HTTP/1.1\r\nHost: first\r\nConnection: close\r\n\r\n");
    let output = client.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdict = text
        .find("SUCCESS")
        .map(|at| text[at..].trim_end().to_owned());
    verdict.unwrap_or_default()
}

#[test]
fn nginx_chains_are_followed_as_by_openssl() {
    let tls = TempDir::new("nginx-chains-tls").unwrap();
    make(&tls);
    let port = || saker_testkit::free_port().unwrap().to_string();
    let given = [
        ("tls", tls.display().to_string()),
        ("self_port", port()),
        ("second_port", port()),
        ("third_port", port()),
    ];
    let pair = Pair::start("nginx-chains", &given, SERVERS);
    let at = |word: &str, address: SocketAddr| {
        SocketAddr::new(address.ip(), pair.word(word).parse().unwrap())
    };
    let rows = [
        ("root", None, true),
        ("first", None, true),
        ("second", Some("between"), true),
        ("second", None, false),
        ("third", Some("none"), false),
        ("other", Some("stranger"), false),
        ("stranger", None, false),
    ];
    for (name, chain, is_good) in rows {
        // Of a stream, and of a server of HTTP.
        for word in ["q", "p"] {
            let said = pair.both(|address| verdict(&tls, at(word, address), name, chain));
            let expected = match is_good {
                true => format!("SUCCESS CN={name}"),
                false => String::new(),
            };
            assert_eq!(said, expected, "{name} at {word}");
        }
    }
    let status = |path: &str| {
        pair.both(|address| {
            let mut client = Client::connect(at("r", address)).unwrap();
            let answer = client.get(path).unwrap();
            let text = Some(answer.text()).filter(|_| answer.status == 200);
            (answer.status, text.unwrap_or_default())
        })
    };
    let paths = ["/itself", "/first", "/second", "/third", "/name"];
    assert_eq!(paths.map(|path| status(path).0), [200, 200, 200, 502, 502]);
    let named = ["second:1", "third"].map(|name| status(&format!("/variable?name={name}")).0);
    assert_eq!(named, [200, 502]);
    assert_eq!(status("/own").1, "SUCCESS CN=second");
}
