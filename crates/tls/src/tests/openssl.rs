//! OpenSSL's client over a socket: another reading of the standards than ours.

use super::authority::{Authority, Key, Sites};
use rcgen::SerialNumber;
use saker_config::model::ClientCertificates;
use saker_testkit::{OPENSSL_CLIENT, TempDir, require, wait_until};
use saker_tls::{Acceptor, ServerSession, SessionInfo, State, TlsError};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

/// Serves connections one after the other: answers each request line `GET` with the session's
/// cipher. Tells of how each ended.
struct Server {
    address: String,
    ends: mpsc::Receiver<Result<SessionInfo, TlsError>>,
}

fn serve(acceptor: Acceptor) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, ends) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut session = acceptor.accept(super::authority::LOCAL);
            let end = attend(&mut session, stream.unwrap())
                .map(|()| session.info().map(|info| info.as_ref().clone()).unwrap());
            if sender.send(end).is_err() {
                return;
            }
        }
    });
    Server { address, ends }
}

fn attend(session: &mut ServerSession, mut stream: TcpStream) -> Result<(), TlsError> {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let (mut input, mut plain, mut buffer) = (Vec::new(), Vec::new(), vec![0; 20_000]);
    loop {
        let read = stream.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..read]);
        let mut out = Vec::new();
        let received = session.receive(&mut input, &mut plain, &mut out);
        let received = received.inspect_err(|_| drop(stream.write_all(&out)))?;
        input.drain(..received.used);
        if plain.ends_with(b"\n") {
            plain.clear();
            let info = session.info().unwrap();
            session
                .send_parts(
                    &[
                        b"cipher ",
                        info.cipher_openssl.as_bytes(),
                        b"\n",
                        &[b'x'; 50_000],
                        b"\n",
                    ],
                    &mut out,
                )
                .unwrap();
            session.close(&mut out);
        }
        let _ = stream.write_all(&out);
        if received.state == State::Closed {
            return Ok(());
        }
    }
}

impl Server {
    fn client(&self, arguments: &[&str]) -> String {
        let openssl = require("openssl").unwrap();
        let mut command = Command::new("timeout");
        command
            .arg("30")
            .arg(openssl)
            .args(OPENSSL_CLIENT)
            .args(["-connect", &self.address])
            .args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A client that was refused may be gone.
        let _ = child.stdin.take().unwrap().write_all(b"GET\n");
        let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr)
    }

    fn end(&self) -> Result<SessionInfo, TlsError> {
        self.ends.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    fn visit(&self, arguments: &[&str]) -> (String, Result<SessionInfo, TlsError>) {
        let said = self.client(&[&["-ign_eof"], arguments].concat());
        (said, self.end())
    }
}

fn site() -> (Authority, Sites) {
    let authority = Authority::new("A");
    let (rsa, ecdsa) = (
        authority.leaf(Key::Rsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    let sites = Sites::new().with(&["a.example"], &[&rsa, &ecdsa]);
    sites.dir.write("ca.pem", authority.pem()).unwrap();
    (authority, sites)
}

fn path(sites: &Sites, name: &str) -> String {
    sites.dir.join(name).display().to_string()
}

#[test]
fn versions_ciphers_and_verification() {
    let (_authority, sites) = site();
    let server = serve(sites.acceptor());
    let ca = path(&sites, "ca.pem");
    for (arguments, cipher) in [
        (&["-tls1_3"][..], "TLS_AES_128_GCM_SHA256"),
        (
            &["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"],
            "TLS_AES_256_GCM_SHA384",
        ),
        (
            &[
                "-tls1_3",
                "-ciphersuites",
                "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
            ],
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        (&["-tls1_2"], "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (
            &["-tls1_2", "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"],
            "ECDHE-RSA-AES128-GCM-SHA256",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"],
            "ECDHE-RSA-AES256-GCM-SHA384",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (&["-groups", "P-384:X25519"], "TLS_AES_128_GCM_SHA256"),
    ] {
        let common = [
            "-servername",
            "a.example",
            "-CAfile",
            &ca,
            "-verify_return_error",
            "-verify_hostname",
            "a.example",
        ];
        let (said, end) = server.visit(&[&common, arguments].concat());
        assert!(
            said.contains("Verify return code: 0 (ok)")
                && said.contains(&format!("cipher {cipher}\n")),
            "{arguments:?}: {said}"
        );
        assert_eq!(
            end.map(|info| info.cipher_openssl),
            Ok(cipher),
            "{arguments:?}"
        );
    }
}

#[test]
fn what_is_too_old_is_refused() {
    let (_authority, sites) = site();
    let server = serve(sites.acceptor());
    for arguments in [
        &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"][..],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"],
        &["-tls1_2", "-cipher", "AES128-GCM-SHA256"],
    ] {
        let (said, end) = server.visit(arguments);
        assert!(
            matches!(end, Err(TlsError::Refused { .. })),
            "{arguments:?}: {end:?} {said}"
        );
        assert!(said.contains("alert"), "{arguments:?}: {said}");
    }
}

#[test]
fn names_and_protocols() {
    let (_authority, sites) = site();
    let server = serve(sites.acceptor());
    let (said, end) = server.visit(&["-noservername", "-alpn", "x,http/1.1"]);
    let info = end.unwrap();
    assert_eq!(
        (info.server_name, info.alpn.as_deref()),
        (None, Some(&b"http/1.1"[..]))
    );
    assert!(
        said.contains("ALPN protocol: http/1.1") && said.contains("CN = a.example"),
        "{said}"
    );
    let (said, end) = server.visit(&["-alpn", "smtp"]);
    assert!(
        matches!(end, Err(TlsError::Refused { .. })) && said.contains("no application protocol"),
        "{said}"
    );
}

#[test]
fn resumption() {
    let (_authority, sites) = site();
    let server = serve(sites.acceptor());
    for version in ["-tls1_2", "-tls1_3"] {
        let session = path(&sites, "session");
        let (_, first) =
            server.visit(&[version, "-servername", "a.example", "-sess_out", &session]);
        let (said, second) =
            server.visit(&[version, "-servername", "a.example", "-sess_in", &session]);
        assert_eq!(
            (first.unwrap().resumed, second.unwrap().resumed),
            (false, true),
            "{version}: {said}"
        );
        assert!(said.contains("Reused, "), "{said}");
    }
}

/// Types each line once the text before it has been printed, and returns all that was printed up to
/// the end.
fn converse(child: &mut Child, lines: &[(&str, &str)]) -> String {
    let printed = Arc::<Mutex<String>>::default();
    let pipes: [Box<dyn Read + Send>; 2] = [
        Box::new(child.stdout.take().unwrap()),
        Box::new(child.stderr.take().unwrap()),
    ];
    let readers = pipes.map(|mut pipe| {
        let printed = Arc::clone(&printed);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..count]);
                printed.lock().unwrap().push_str(&text);
            }
        })
    });
    let mut stdin = child.stdin.take().unwrap();
    let mut from = 0;
    for (expected, line) in lines {
        wait_until(expected, || {
            printed.lock().unwrap()[from..].contains(expected)
        });
        from = printed.lock().unwrap().len();
        stdin.write_all(line.as_bytes()).unwrap();
    }
    child.wait().unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
    drop(stdin);
    std::mem::take(&mut *printed.lock().unwrap())
}

#[test]
fn renegotiation_is_refused() {
    let (_authority, sites) = site();
    let server = serve(sites.acceptor());
    let openssl = require("openssl").unwrap();
    let mut command = Command::new("timeout");
    command.arg("30").arg(openssl).args(OPENSSL_CLIENT).args([
        "-connect",
        &server.address,
        "-tls1_2",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command must come in a read of its own, after the handshake.
    let said = converse(&mut child, &[("Verify return code", "R\n")]);
    assert!(
        said.contains("RENEGOTIATING") && said.contains("no renegotiation"),
        "{said}"
    );
}

#[test]
fn key_updates() {
    let (_authority, sites) = site();
    let server = serve(sites.acceptor());
    let openssl = require("openssl").unwrap();
    let mut command = Command::new("timeout");
    command.arg("30").arg(openssl).args(OPENSSL_CLIENT).args([
        "-connect",
        &server.address,
        "-tls1_3",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = converse(
        &mut child,
        &[
            ("Verify return code", "K\n"),
            ("KEYUPDATE\n", "k\n"),
            ("KEYUPDATE\n", "GET\n"),
        ],
    );
    assert!(
        said.contains("KEYUPDATE")
            && said.contains("cipher TLS_AES_128_GCM_SHA256\n")
            && said.contains("xxx\n"),
        "{said}"
    );
}

#[test]
fn client_certificates() {
    let (authority, sites) = site();
    let sites = sites.where_tls(|tls, dir| {
        tls.client_certificates = ClientCertificates::Required;
        tls.client_ca = Some(dir.join("ca.pem"));
        tls.client_crl = vec![
            dir.write("crl.pem", authority.revocation_list(&[7], 2061))
                .unwrap(),
        ];
    });
    let server = serve(sites.acceptor());
    for (serial, is_good) in [(6_u64, true), (7, false)] {
        let leaf = authority.leaf_with(Key::Ecdsa, &["client"], |params| {
            params.serial_number = Some(SerialNumber::from(serial))
        });
        sites
            .dir
            .write("client.pem", format!("{}{}", leaf.chain, leaf.key))
            .unwrap();
        for version in ["-tls1_2", "-tls1_3"] {
            let (said, end) = server.visit(&[version, "-cert", &path(&sites, "client.pem")]);
            assert_eq!(end.is_ok(), is_good, "{serial} {version}: {end:?} {said}");
            assert!(
                said.contains("Acceptable client certificate CA names"),
                "{said}"
            );
            assert_eq!(said.contains("certificate revoked"), !is_good, "{said}");
        }
    }
    let (said, end) = server.visit(&["-tls1_3"]);
    assert!(
        end.is_err() && said.contains("certificate required"),
        "{said}"
    );
}

#[test]
fn a_stapled_response_is_shown() {
    let dir = TempDir::new("ocsp").unwrap();
    let response = ocsp_response(&dir);
    let (chain, key) = (
        std::fs::read_to_string(dir.join("leaf.pem")).unwrap(),
        std::fs::read_to_string(dir.join("leaf.key")).unwrap(),
    );
    let leaf = super::authority::Leaf { chain, key };
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .where_tls(|tls, dir| {
            tls.certificates[0].ocsp = Some(dir.write("ocsp.der", &response).unwrap());
        });
    let server = serve(sites.acceptor());
    for version in ["-tls1_2", "-tls1_3"] {
        let (said, end) = server.visit(&[version, "-status"]);
        assert!(
            end.is_ok()
                && said.contains("OCSP Response Status: successful")
                && said.contains("Cert Status: good"),
            "{said}"
        );
    }
}

/// Made by OpenSSL's own responder, for a leaf that OpenSSL signed.
fn ocsp_response(dir: &TempDir) -> Vec<u8> {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 30
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout leaf.key -out leaf.csr -subj /CN=a.example
        echo subjectAltName=DNS:a.example >extensions
        openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial 4096 -days 20 -extfile extensions -out leaf.pem
        printf 'V\\t350101000000Z\\t\\t1000\\tunknown\\t/CN=a.example\\n' >index
        openssl ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert leaf.pem -ndays 5 -respout ocsp.der
        chmod 600 leaf.key";
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
    std::fs::read(dir.join("ocsp.der")).unwrap()
}
