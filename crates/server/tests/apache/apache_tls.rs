//! mod_ssl where something outside takes part: OCSP responders, and programs that know passphrases.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    OPENSSL_CLIENT, ServerProcess, TempDir, apache2::load_modules, free_port, require,
    wait_until_or,
};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()))
}

fn shell(script: &str, dir: &Path) {
    require("openssl").unwrap();
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// `conf` stands in a host of TLS; `{dir}` is filled in.
fn start(dir: &TempDir, address: SocketAddr, server: &str, conf: &str) -> ServerProcess {
    let modules = load_modules(&["mpm_event", "authz_core", "ssl", "socache_shmcb"]);
    let text = format!(
        "ServerRoot {{dir}}\nServerName main.test\nListen {address}\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{modules}{server}\n\
         <VirtualHost {address}>\nServerName a.example\nDocumentRoot {{dir}}\nSSLEngine on\n{conf}\n</VirtualHost>\n"
    );
    operate::apache(&text).at(address).start_in(dir)
}

/// Output of OpenSSL's client.
fn visit(address: SocketAddr) -> String {
    let mut client = Command::new(require("openssl").unwrap());
    client
        .args(OPENSSL_CLIENT)
        .args(["-status", "-servername", "a.example", "-connect"])
        .arg(address.to_string());
    let output = client
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn until(what: &str, dir: &TempDir, holds: impl Fn() -> bool) {
    wait_until_or(holds, || {
        let log = fs::read_to_string(dir.join("error.log")).unwrap_or_default();
        format!("{what}: {log}")
    });
}

/// Ends with the test.
struct Responder(Child);

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Responder {
    fn start(dir: &TempDir, port: u16) -> Responder {
        let mut command = Command::new(require("openssl").unwrap());
        command.args([
            "ocsp", "-index", "index", "-rsigner", "ca.pem", "-rkey", "ca.key", "-CA", "ca.pem",
            "-nmin", "5", "-port",
        ]);
        command
            .arg(port.to_string())
            .current_dir(&**dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Responder(command.spawn().unwrap())
    }
}

const AUTHORITY: &str = "set -e
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 30
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout leaf.key -out leaf.csr -subj /CN=a.example
    printf 'subjectAltName=DNS:a.example\\nauthorityInfoAccess=OCSP;URI:http://127.0.0.1:PORT/\\n' >extensions
    openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial 4096 -days 20 -extfile extensions -out leaf.pem
    chmod 600 leaf.key
    printf 'V\\t350101000000Z\\t\\t1000\\tunknown\\t/CN=a.example\\n' >index";

/// A staple is fetched while the server runs, sent, stored, and sent after a restart even if the
/// responder is gone.
#[test]
fn responses_are_fetched_and_stapled() {
    let dir = TempDir::new("stapling").unwrap();
    let port = free_port().unwrap();
    shell(&AUTHORITY.replace("PORT", &port.to_string()), &dir);
    let conf = "SSLCertificateFile {dir}/leaf.pem\nSSLCertificateKeyFile {dir}/leaf.key\nSSLCertificateChainFile {dir}/ca.pem";
    let server = "SSLUseStapling on\nSSLStaplingCache shmcb:{dir}/stapling(32768)\nSSLStaplingResponderTimeout 3\nSSLStaplingErrorCacheTimeout 1";
    let at = address();
    let is_stapled = || visit(at).contains("Cert Status: good");
    let running = start(&dir, at, server, conf);
    // The responder does not answer yet, and clients do not wait for it.
    assert!(visit(at).contains("OCSP response: no response sent"));
    until("a message about it", &dir, || {
        fs::read_to_string(dir.join("error.log"))
            .unwrap_or_default()
            .contains("SK0712")
    });
    let responder = Responder::start(&dir, port);
    until("a staple", &dir, is_stapled);
    drop(responder);
    running.stop().unwrap();
    let _running = start(&dir, at, server, conf);
    until("what was kept", &dir, is_stapled);
}

#[test]
fn what_calls_a_certificate_revoked_is_not_shown() {
    let dir = TempDir::new("stapling-revoked").unwrap();
    let port = free_port().unwrap();
    shell(&AUTHORITY.replace("PORT", "1"), &dir);
    dir.write(
        "index",
        "R\t350101000000Z\t240101000000Z\t1000\tunknown\t/CN=a.example\n",
    )
    .unwrap();
    let _responder = Responder::start(&dir, port);
    let conf = "SSLCertificateFile {dir}/leaf.pem\nSSLCertificateKeyFile {dir}/leaf.key\nSSLCertificateChainFile {dir}/ca.pem";
    let server = format!(
        "SSLUseStapling on\nSSLStaplingCache shmcb:{{dir}}/stapling(32768)\nSSLStaplingForceURL http://127.0.0.1:{port}/\nSSLStaplingErrorCacheTimeout 1"
    );
    let at = address();
    let _running = start(&dir, at, &server, conf);
    let said = || fs::read_to_string(dir.join("error.log")).unwrap_or_default();
    until("a message about it", &dir, || {
        said().contains("does not call the certificate good")
    });
    assert!(visit(at).contains("OCSP response: no response sent"));
}

/// Asked once, as it is the same for both; told whose it is, and of what kind.
#[test]
fn passphrases_by_a_program() {
    let dir = TempDir::new("passphrase").unwrap();
    shell(
        "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -passout pass:secret -keyout a.key -out a.pem -subj /CN=a.example -addext subjectAltName=DNS:a.example -days 30
        openssl req -x509 -newkey rsa:2048 -nodes -keyout plain.key -out b.pem -subj /CN=a.example -addext subjectAltName=DNS:a.example -days 30
        openssl rsa -traditional -in plain.key -aes128 -passout pass:secret -out b.key
        chmod 600 a.key b.key
        printf '#!/bin/sh\\necho \"$@\" >>'$PWD'/asked\\necho secret\\n' >ask; chmod 755 ask
        printf '#!/bin/sh\\necho wrong\\n' >lie; chmod 755 lie
        printf '#!/bin/sh\\nfor line in 1 2 3 4 5 6; do read prompt; echo \"$prompt\" >>'$PWD'/prompts; done; echo secret\\n' >pipe; chmod 755 pipe",
        &dir,
    );
    assert_eq!(
        fs::metadata(dir.join("ask")).unwrap().permissions().mode() & 0o111,
        0o111
    );
    let conf = "SSLCertificateFile {dir}/a.pem\nSSLCertificateKeyFile {dir}/a.key\nSSLCertificateFile {dir}/b.pem\nSSLCertificateKeyFile {dir}/b.key";
    let at = address();
    let running = start(&dir, at, "SSLPassPhraseDialog exec:{dir}/ask", conf);
    assert!(visit(at).contains("CN = a.example"));
    assert_eq!(
        fs::read_to_string(dir.join("asked")).unwrap(),
        "a.example:443 RSA\n"
    );
    running.stop().unwrap();
    let running = start(&dir, at, "SSLPassPhraseDialog |{dir}/pipe", conf);
    assert!(visit(at).contains("CN = a.example"));
    assert!(
        fs::read_to_string(dir.join("prompts"))
            .unwrap()
            .contains("a.example")
    );
    running.stop().unwrap();
    let refused = |dialog: &str| {
        let text = fs::read_to_string(dir.join("httpd.conf")).unwrap();
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("SSLPassPhraseDialog"))
            .map(|line| format!("{line}\n"))
            .collect();
        let file = dir
            .write(
                "other.conf",
                format!(
                    "{text}{}\n",
                    dialog.replace("{dir}", &dir.to_string_lossy())
                ),
            )
            .unwrap();
        let mut command = Command::new(require("setsid").unwrap());
        command
            .arg("-w")
            .arg(crate::operate::SAKER)
            .args(["run", "--apache"])
            .arg(file)
            .arg("--state-dir")
            .arg(dir.join("state"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused("SSLPassPhraseDialog exec:{dir}/lie");
    assert!(
        said.contains("a.key is encrypted, and the passphrase is not the right one"),
        "{said}"
    );
    let said = refused("SSLPassPhraseDialog builtin");
    assert!(
        said.contains("no terminal to ask") && said.contains("SSLPassPhraseDialog exec:"),
        "{said}"
    );
}

/// Hosts of the port without TLS have no certificate and need none.
#[test]
fn only_hosts_that_clients_reach_by_tls_are_warned_about() {
    let dir = TempDir::new("apache-tls-warnings").unwrap();
    shell(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out pem.pem -subj /CN=shop.example -addext subjectAltName=DNS:shop.example",
        &dir,
    );
    let checked = |port_of_other: &str| {
        let text = format!(
            "ServerRoot {0}\nServerName main.test\nListen 127.0.0.1:18080\nListen 127.0.0.1:18443\nLoadModule mpm_event_module modules/mod_mpm_event.so\n\
             LoadModule authz_core_module modules/mod_authz_core.so\nLoadModule ssl_module modules/mod_ssl.so\n\
             <VirtualHost *:18443>\nServerName shop.example\nDocumentRoot {0}\nSSLEngine on\nSSLCertificateFile {0}/pem.pem\nSSLCertificateKeyFile {0}/key.pem\n</VirtualHost>\n\
             <VirtualHost *:{port_of_other}>\nServerName plain.example\nDocumentRoot {0}\n</VirtualHost>\n",
            dir.display()
        );
        let file = dir.write("httpd.conf", text).unwrap();
        let output = Command::new(crate::operate::SAKER)
            .args(["check", "--apache"])
            .arg(file)
            .output()
            .unwrap();
        [output.stdout, output.stderr]
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .concat()
    };
    let (warned, silent) = (checked("18443"), checked("18080"));
    assert!(
        warned.contains("no certificate is configured for plain.example"),
        "{warned}"
    );
    assert!(!silent.contains("no certificate"), "{silent}");
}
