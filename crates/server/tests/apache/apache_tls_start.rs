//! Configurations of TLS that apache2 starts with: the same text for both servers, and which port
//! answers how.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, OPENSSL_CLIENT, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, require,
};
use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);
const APACHE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SAKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Stand for ports in a configuration; the first is always listened on.
const PORTS: [&str; 3] = ["{a}", "{b}", "{c}"];

fn shell(script: &str, dir: &TempDir) {
    require("openssl").unwrap();
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(&**dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// With certificates for `main.test` and `b.test` in `{dir}`, and `{main}` and `{b.test}` for the
/// two lines that name each.
fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    std::fs::set_permissions(dir.join(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["main", "b"] {
        let subject = format!("-subj /CN={name}.test -addext subjectAltName=DNS:{name}.test");
        shell(
            &format!(
                "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem {subject} -days 30"
            ),
            &dir,
        );
    }
    dir
}

fn filled(dir: &TempDir, text: &str, ip: IpAddr, ports: &[u16]) -> String {
    let certificate = |name: &str| {
        format!(
            "SSLCertificateFile {0}/{name}.pem\nSSLCertificateKeyFile {0}/{name}.key",
            dir.display()
        )
    };
    let text = text
        .replace("{main}", &certificate("main"))
        .replace("{b.test}", &certificate("b"))
        .replace("{ip}", &ip.to_string());
    let text = PORTS.iter().zip(ports).fold(text, |text, (name, port)| {
        text.replace(name, &port.to_string())
    });
    text.replace("{dir}", &dir.to_string_lossy())
}

fn configuration(dir: &TempDir, server: &str, text: &str) -> PathBuf {
    let modules = load_modules(&["mpm_event", "authz_core", "ssl", "socache_shmcb"]);
    let user = unprivileged_user();
    let root = dir.display();
    let head = format!(
        "ServerRoot {root}\nServerName main.test\nPidFile {root}/{server}.pid\nDefaultRuntimeDir {root}\nErrorLog {root}/{server}.log\n\
         {modules}{user}DocumentRoot {root}\n"
    );
    dir.write(&format!("{server}.conf"), head + text).unwrap()
}

fn saker(dir: &TempDir, text: &str, ports: &[u16]) -> ServerProcess {
    let file = configuration(dir, "saker", &filled(dir, text, SAKER, ports));
    operate::apache("")
        .existing_file(file)
        .at(SocketAddr::new(SAKER, ports[0]))
        .start_in(dir)
}

fn apache(dir: &TempDir, text: &str, ports: &[u16]) -> ServerProcess {
    let file = configuration(dir, "apache", &filled(dir, text, APACHE, ports));
    start_apache2(&file, SocketAddr::new(APACHE, ports[0])).unwrap()
}

/// Answer of a port: the subject of its certificate, or the status of a plain request.
fn seen(address: SocketAddr, name: &str) -> String {
    let mut client = Command::new(require("openssl").unwrap());
    client
        .args(OPENSSL_CLIENT)
        .args(["-servername", name, "-connect"])
        .arg(address.to_string());
    let output = client
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(subject) = text.lines().find_map(|line| line.strip_prefix("subject=")) {
        return format!("TLS as {}", subject.replace(' ', ""));
    }
    let Ok(mut client) = Client::connect(address) else {
        return "nobody".into();
    };
    client.set_timeout(PATIENCE).unwrap();
    let answer = client.request("GET", "/none", &[("Host", name), ("Connection", "close")]);
    answer.map_or("silence".into(), |answer| {
        format!("plain {}", answer.status)
    })
}

/// Both servers on this text; what they show on each of its ports to a client that wants `name`.
fn both(dir: &TempDir, text: &str, name: &str) -> [Vec<String>; 2] {
    let used = PORTS.iter().filter(|port| text.contains(**port)).count();
    let ports: Vec<u16> = (0..used).map(|_| free_port().unwrap()).collect();
    let of = |ip: IpAddr| {
        ports
            .iter()
            .map(|port| seen(SocketAddr::new(ip, *port), name))
            .collect()
    };
    let running = apache(dir, text, &ports);
    let apaches = of(APACHE);
    running.stop().unwrap();
    let running = saker(dir, text, &ports);
    let sakers = of(SAKER);
    running.stop().unwrap();
    [apaches, sakers]
}

/// Engines, and what apache2 showed on the ports when the table was written.
const ENGINES: &[(&str, &str, &[&str])] = &[
    (
        "the main server",
        "SSLEngine on\n{main}\nListen {ip}:{a}\nListen {ip}:{b}",
        &["TLS as CN=main.test", "TLS as CN=main.test"],
    ),
    (
        "the main server, lower case",
        "sslengine ON\n{main}\nListen {ip}:{a}",
        &["TLS as CN=main.test"],
    ),
    (
        "optional is off",
        "SSLEngine optional\n{main}\nListen {ip}:{a}",
        &["plain 404"],
    ),
    (
        "inherited",
        "SSLEngine on\n{main}\nListen {ip}:{a}\nListen {ip}:{b}\nListen {ip}:{c}\n\
         <VirtualHost {ip}:{a}>\nServerName b.test\n</VirtualHost>\n\
         <VirtualHost {ip}:{b}>\nServerName b.test\nSSLEngine off\n</VirtualHost>\n\
         <VirtualHost {ip}:{c}>\nServerName b.test\n{b.test}\n</VirtualHost>",
        &["TLS as CN=main.test", "plain 404", "TLS as CN=b.test"],
    ),
    (
        "an inherited certificate",
        "Listen {ip}:{a}\nListen {ip}:{b}\n<VirtualHost {ip}:{a}>\nServerName b.test\nSSLEngine on\n</VirtualHost>\n{main}",
        &["TLS as CN=main.test", "plain 404"],
    ),
    (
        "https without a host",
        "Listen {ip}:{a} https\n{main}",
        &["plain 404"],
    ),
    (
        "https",
        "Listen {ip}:{a} https\nListen {ip}:{b} https\nListen {ip}:{c} https\n{main}\n\
         <VirtualHost {ip}:{a}>\nServerName b.test\n</VirtualHost>\n\
         <VirtualHost *:{b}>\nServerName b.test\n</VirtualHost>\n\
         <VirtualHost {ip}:{c}>\nServerName b.test\nSSLEngine off\n</VirtualHost>",
        &["TLS as CN=main.test", "plain 404", "plain 404"],
    ),
    (
        "the first host decides",
        "Listen {ip}:{a}\nListen {ip}:{b}\n{main}\n\
         <VirtualHost *:{a}>\nServerName a.test\n</VirtualHost>\n<VirtualHost *:{a}>\nServerName b.test\nSSLEngine on\n</VirtualHost>\n\
         <VirtualHost *:{b}>\nServerName a.test\nSSLEngine on\n</VirtualHost>\n<VirtualHost *:{b}>\nServerName b.test\n</VirtualHost>",
        &["plain 404", "TLS as CN=main.test"],
    ),
    (
        "an address of its own comes first",
        "Listen {ip}:{a}\n{main}\n\
         <VirtualHost *:{a}>\nServerName a.test\n</VirtualHost>\n<VirtualHost {ip}:{a}>\nServerName b.test\nSSLEngine on\n</VirtualHost>",
        &["TLS as CN=main.test"],
    ),
];

#[test]
fn engines() {
    let dir = folder("apache-engines");
    for (name, text, expected) in ENGINES {
        let [apaches, sakers] = both(&dir, &format!("{text}\n"), "x.test");
        assert_eq!(
            (&apaches, &sakers),
            (
                &expected.iter().map(|seen| (*seen).to_owned()).collect(),
                &apaches
            ),
            "{name}"
        );
    }
}

/// A host whose engine does nothing is named.
#[test]
fn an_engine_without_effect_is_warned_about() {
    let dir = folder("apache-engine-void");
    let text = "Listen 18443\n{main}\n<VirtualHost *:18443>\nServerName a.test\n</VirtualHost>\n<VirtualHost *:18443>\nServerName b.test\nSSLEngine on\n</VirtualHost>\n";
    let file = configuration(&dir, "saker", &filled(&dir, text, SAKER, &[]));
    let output = Command::new(crate::operate::SAKER)
        .args(["check", "--apache"])
        .arg(file)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(text.contains("SSLEngine on has no effect: the first virtual host of *:18443 (a.test) does not speak TLS"), "{text}");
}

/// Certificates and lists without extensions: what `openssl x509 -req` and `openssl ca -gencrl`
/// make of themselves. `stranger` has an authority of the same name as the others.
const VERSION_1: &str = "
    key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key; }
    key site; openssl req -new -key site.key -subj /CN=old.test -out site.csr
    openssl x509 -req -in site.csr -signkey site.key -days 30 -out site.pem
    openssl x509 -in site.pem -noout -text | grep -q 'Version: 1 '
    for ca in ca other; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $ca.key -out $ca.pem -subj /CN=Clients -days 30; done
    signed() { key $1; openssl req -new -key $1.key -subj /CN=$1 -out $1.csr; openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -set_serial $3 -days 30 -out $1.pem $4 $5; }
    echo basicConstraints=CA:FALSE >ext
    signed good1 ca 16; signed revoked1 ca 17; signed stranger other 18
    signed good3 ca 19 -extfile ext; signed revoked3 ca 20 -extfile ext
    key between; openssl req -new -key between.key -subj /CN=Between -out between.csr
    printf 'basicConstraints=critical,CA:TRUE' >ca.ext
    openssl x509 -req -in between.csr -CA ca.pem -CAkey ca.key -set_serial 21 -days 30 -extfile ca.ext -out between.pem
    signed below3 between 22 -extfile ext; cat between.pem >>below3.pem
    : >index.txt
    printf '[ca]\\ndefault_ca=own\\n[own]\\ndatabase=index.txt\\ndefault_md=sha256\\ndefault_crl_days=30\\n' >ca.conf
    for name in revoked1 revoked3; do openssl ca -config ca.conf -cert ca.pem -keyfile ca.key -revoke $name.pem; done
    openssl ca -config ca.conf -cert ca.pem -keyfile ca.key -gencrl -out list.crl
    openssl crl -in list.crl -noout -text | grep -q 'Version 1 '
    : >index2.txt; sed s/index.txt/index2.txt/ ca.conf >ca2.conf
    openssl ca -config ca2.conf -cert between.pem -keyfile between.key -gencrl -out between.crl
    cat list.crl between.crl >both.crl
    chmod 644 *";

/// Response to openssl's client; empty if the handshake fails.
fn answer(address: SocketAddr, arguments: &[&str]) -> String {
    let mut client = Command::new(require("openssl").unwrap());
    client
        .args(OPENSSL_CLIENT)
        .args([
            "-quiet",
            "-nocommands",
            "-ign_eof",
            "-servername",
            "old.test",
            "-connect",
        ])
        .arg(address.to_string());
    let mut child = client
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A handshake that fails closes the pipe.
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(b"GET /none HTTP/1.1\r\nHost: old.test\r\nConnection: close\r\n\r\n");
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

/// True if a request succeeds with this certificate.
fn comes_in(dir: &TempDir, address: SocketAddr, certificate: &str, version: &str) -> bool {
    let [pem, key] = ["pem", "key"].map(|ending| {
        dir.join(format!("{certificate}.{ending}"))
            .to_string_lossy()
            .into_owned()
    });
    answer(
        address,
        &[version, "-cert", &pem, "-key", &key, "-cert_chain", &pem],
    )
    .contains("HTTP/1.1 404")
}

#[test]
fn certificates_and_lists_of_version_1() {
    let dir = folder("apache-version-1");
    shell(VERSION_1, &dir);
    let text = "Listen {ip}:{a}\n<VirtualHost {ip}:{a}>\nServerName old.test\nSSLEngine on\nSSLCertificateFile {dir}/site.pem\n\
                SSLCertificateKeyFile {dir}/site.key\nSSLVerifyClient require\nSSLVerifyDepth 5\nSSLCACertificateFile {dir}/ca.pem\n\
                SSLCARevocationFile {dir}/{list}\nSSLCARevocationCheck {check}\n</VirtualHost>\n";
    let names = [
        "good1", "revoked1", "stranger", "good3", "revoked3", "below3", "site",
    ];
    for (list, check, expected) in [
        ("list.crl", "leaf", ["good1", "good3"].as_slice()),
        ("list.crl", "chain", &["good1", "good3"]),
        (
            "list.crl",
            "leaf no_crl_for_cert_ok",
            &["good1", "good3", "below3"],
        ),
        (
            "list.crl",
            "none",
            &["good1", "revoked1", "good3", "revoked3", "below3"],
        ),
        ("both.crl", "chain", &["good1", "good3", "below3"]),
        ("between.crl", "leaf", &["below3"]),
    ] {
        let text = text.replace("{list}", list).replace("{check}", check);
        let ports = [free_port().unwrap()];
        for (server, ip) in [
            (
                apache as fn(&TempDir, &str, &[u16]) -> ServerProcess,
                APACHE,
            ),
            (saker, SAKER),
        ] {
            let running = server(&dir, &text, &ports);
            for version in ["-tls1_3", "-tls1_2"] {
                let in_now: Vec<&str> = names
                    .into_iter()
                    .filter(|name| comes_in(&dir, SocketAddr::new(ip, ports[0]), name, version))
                    .collect();
                assert_eq!(
                    in_now,
                    expected,
                    "{list} {check} {ip} {version}: {}",
                    running.stderr()
                );
            }
            assert_eq!(
                seen(SocketAddr::new(ip, ports[0]), "old.test"),
                "TLS as CN=old.test"
            );
            running.stop().unwrap();
        }
    }
}

/// A missing file is warned about and replaced by what exists: the server starts.
#[test]
fn ciphers_and_protocols_of_the_last_century() {
    let dir = folder("apache-outdated");
    for (line, warning, versions) in [
        (
            "SSLCipherSuite AES128-SHA:AES256-SHA:DES-CBC3-SHA",
            "SSLCipherSuite: of AES128-SHA:AES256-SHA:DES-CBC3-SHA nothing remains",
            [true, true],
        ),
        (
            "SSLCipherSuite TLSv1.3 TLS_AES_128_CCM_SHA256",
            "of TLS_AES_128_CCM_SHA256 nothing remains",
            [true, true],
        ),
        (
            "SSLProtocol TLSv1 TLSv1.1",
            "SSLProtocol: only protocols older than TLSv1.2 are named",
            [true, true],
        ),
        (
            "SSLProtocol all -TLSv1.2 -TLSv1.3",
            "SSLProtocol: only protocols older than TLSv1.2 are named",
            [true, true],
        ),
        ("SSLProtocol TLSv1.1 +TLSv1.2", "", [true, false]),
        (
            "SSLOpenSSLConfCmd MaxProtocol TLSv1.1",
            "MaxProtocol: only protocols older than TLSv1.2",
            [true, true],
        ),
    ] {
        let text = format!("Listen {{ip}}:{{a}}\nSSLEngine on\n{{main}}\n{line}\n");
        let ports = [free_port().unwrap()];
        let running = saker(&dir, &text, &ports);
        let served = ["-tls1_2", "-tls1_3"]
            .map(|version| answer(SocketAddr::new(SAKER, ports[0]), &[version]).contains("404"));
        // Lines are written beside the answers.
        let _ = running.wait_for_stderr(warning, Duration::from_secs(20));
        let said = running.stderr();
        running.stop().unwrap();
        assert_eq!(served, versions, "{line}: {said}");
        assert!(said.contains(warning), "{line}: {said}");
        assert!(
            !warning.is_empty() || !said.contains("older than"),
            "{line}: {said}"
        );
    }
}

/// A section's list of which nothing remains demands nothing that could be met; `all -all` names no
/// protocol at all, as for apache2.
#[test]
fn sections_and_lists_without_anything() {
    let dir = folder("apache-outdated-section");
    let text = "Listen {ip}:{a}\nSSLEngine on\n{main}\n<Location />\nSSLCipherSuite AES128-SHA\n</Location>\n";
    let ports = [free_port().unwrap()];
    let running = saker(&dir, text, &ports);
    assert!(
        answer(SocketAddr::new(SAKER, ports[0]), &["-tls1_2"]).contains("404"),
        "{}",
        running.stderr()
    );
    assert!(
        running
            .stderr()
            .contains("SSLCipherSuite: of AES128-SHA nothing remains"),
        "{}",
        running.stderr()
    );
    running.stop().unwrap();
    let file = configuration(
        &dir,
        "none",
        &filled(
            &dir,
            "Listen 18443\nSSLEngine on\n{main}\nSSLProtocol all -all\n",
            SAKER,
            &[],
        ),
    );
    let output = Command::new(crate::operate::SAKER)
        .args(["check", "--apache"])
        .arg(file)
        .output()
        .unwrap();
    assert!(!output.status.success());
}

/// HTTP/3 is offered with TLS unless `Protocols` leaves it out, and a taken UDP port is no reason
/// not to start.
#[test]
fn http3_is_offered_unless_protocols_leave_it_out() {
    let dir = folder("apache-http3");
    for (lines, is_taken, is_offered) in [
        ("", false, true),
        ("Protocols h2 http/1.1", false, false),
        ("Protocols h3 h2 http/1.1", false, true),
        (
            "Protocols h2 http/1.1\n<VirtualHost *:{a}>\nServerName old.test\nProtocols h3 http/1.1\n</VirtualHost>",
            false,
            true,
        ),
        ("", true, false),
    ] {
        let ports = [free_port().unwrap()];
        let address = SocketAddr::new(SAKER, ports[0]);
        let _taken = is_taken.then(|| UdpSocket::bind(address).unwrap());
        let running = saker(
            &dir,
            &format!("Listen {{ip}}:{{a}}\nSSLEngine on\n{{main}}\n{lines}\n"),
            &ports,
        );
        let answer = answer(address, &[]);
        assert!(
            answer.contains("404"),
            "{lines}: {answer} {}",
            running.stderr()
        );
        assert_eq!(
            answer.to_ascii_lowercase().contains("alt-svc: h3="),
            is_offered,
            "{lines}: {answer} {}",
            running.stderr()
        );
        assert!(
            !is_taken || running.stderr().contains("HTTP/3"),
            "{}",
            running.stderr()
        );
        running.stop().unwrap();
    }
}
