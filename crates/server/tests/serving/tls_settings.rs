//! Keys of `[site.tls]`, `[tls]`, and `[limits]` about handshakes: cipher suites, revoked
//! certificates, OCSP responses from files, keys of tickets, and their time.
//!
//! Called by: `cargo test -p saker --test serving tls_settings::`.
//! Caveat: OpenSSL is the client.
//! Out of scope: OCSP responses that the server fetches (`apache_tls`), versions (`tls`).

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{folder, start_in};
use crate::tls_site::{self, certificate, shown, signed};
use saker_testkit::{OPENSSL_CLIENT, PATIENCE, Saker, TempDir, require};
use std::{
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

fn shell(script: &str, dir: &TempDir) {
    require("openssl").unwrap();
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(&**dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Output of OpenSSL's client for a request.
fn visit(saker: &Saker, arguments: &[&str]) -> String {
    let mut client = Command::new(require("openssl").unwrap());
    client
        .args(OPENSSL_CLIENT)
        .args(["-ign_eof", "-servername", "localhost", "-connect"])
        .arg(saker.server.address().to_string())
        .args(arguments);
    let piped = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = piped.spawn().unwrap();
    // After a handshake that has failed, the pipe has no reader.
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(b"GET /index.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

#[test]
fn cipher_suites_are_those_of_the_list() {
    let saker = tls_site::start(
        "tls-ciphers",
        "ciphers = [\"TLS_AES_256_GCM_SHA384\", \"ECDHE-ECDSA-AES256-GCM-SHA384\"]",
        "",
    );
    for (arguments, suite) in [
        (&["-tls1_3"][..], Some("TLS_AES_256_GCM_SHA384")),
        (
            &["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
            None,
        ),
        (&["-tls1_2"], Some("ECDHE-ECDSA-AES256-GCM-SHA384")),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            None,
        ),
    ] {
        let said = visit(&saker, arguments);
        match suite {
            Some(suite) => assert!(
                said.contains(&format!("Cipher is {suite}")) && said.contains("hello"),
                "{arguments:?}: {said}"
            ),
            None => assert!(!said.contains("hello"), "{arguments:?}: {said}"),
        }
    }
}

#[test]
fn groups_are_those_of_the_list() {
    let saker = tls_site::start("tls-groups", "groups = [\"P-384\"]", "");
    for (group, is_one) in [("P-384", true), ("P-256", false), ("X25519", false)] {
        let said = visit(&saker, &["-tls1_3", "-groups", group]);
        assert_eq!(said.contains("hello"), is_one, "{group}: {said}");
    }
}

#[test]
fn revoked_certificates_are_refused() {
    let dir = folder("tls-crl");
    certificate(&dir, "site", "localhost");
    certificate(&dir, "authority", "authority");
    for name in ["friend", "foe"] {
        signed(&dir, name, "authority");
    }
    shell(
        "touch index; printf 01 >number\n\
         printf '[ca]\\ndefault_ca=own\\n[own]\\ndatabase=index\\ncrlnumber=number\\ndefault_md=sha256\\ndefault_crl_days=20\\n' >conf\n\
         openssl ca -config conf -cert authority.pem -keyfile authority.key -revoke foe.pem\n\
         openssl ca -config conf -cert authority.pem -keyfile authority.key -gencrl -out revoked.pem",
        &dir,
    );
    let tls = "client_certificates = \"required\"\nclient_ca = \"{dir}/authority.pem\"\nclient_crl = \"{dir}/revoked.pem\"";
    let saker = start_in(dir, &tls_site::configuration(tls, ""));
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, is_served) in [("friend", true), ("foe", false)] {
            let file = |ending: &str| saker.dir.join(format!("{name}.{ending}"));
            let (cert, key) = (file("pem"), file("key"));
            let said = visit(
                &saker,
                &[version, "-cert", shown(&cert), "-key", shown(&key)],
            );
            assert_eq!(
                said.contains("hello"),
                is_served,
                "{version} {name}: {said}"
            );
        }
    }
}

/// Staples for the only certificate, and for each of several.
#[test]
fn responses_of_files_are_stapled() {
    let dir = folder("tls-ocsp");
    shell(
        "new() { openssl req -newkey $1 -pkeyopt $2 -nodes -keyout $3.key -out $3.csr -subj /CN=$3\n\
         openssl x509 -req -in $3.csr -CA ca.pem -CAkey ca.key -set_serial $4 -days 20 -extfile names -out $3.pem; chmod 600 $3.key; }\n\
         openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 30\n\
         echo subjectAltName=DNS:localhost >names\n\
         new ec ec_paramgen_curve:P-256 ec 4096; new rsa rsa_keygen_bits:2048 rsa 4097\n\
         printf 'V\\t350101000000Z\\t\\t1000\\tunknown\\t/CN=ec\\nV\\t350101000000Z\\t\\t1001\\tunknown\\t/CN=rsa\\n' >index\n\
         for name in ec rsa; do openssl ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert $name.pem -ndays 5 -respout $name.der; done",
        &dir,
    );
    let only = tls_site::configuration("ocsp = \"{dir}/ec.der\"", "")
        .replace("site.pem", "ec.pem")
        .replace("site.key", "ec.key");
    let saker = start_in(dir, &only);
    let stapled = "Cert Status: good";
    assert!(visit(&saker, &["-status"]).contains(stapled));
    let several = tls_site::configuration("", "");
    let several = several.get(..several.find("[site.tls]").unwrap()).unwrap();
    let each = ["ec", "rsa"].map(|name| {
        format!(
            "[[site.tls.certificate]]\ncertificate = \"{{dir}}/{name}.pem\"\nkey = \"{{dir}}/{name}.key\"\nocsp = \"{{dir}}/{name}.der\"\n"
        )
    });
    crate::operate::rewrite(&saker, &format!("{several}{}", each.concat()));
    let reloaded = crate::operate::reload(&saker);
    let said = crate::operate::stderr(&reloaded);
    assert!(reloaded.status.success(), "{said}");
    for (cipher, serial) in [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "Serial Number: 1000"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "Serial Number: 1001"),
    ] {
        let said = visit(&saker, &["-status", "-tls1_2", "-cipher", cipher]);
        assert!(
            said.contains(stapled) && said.contains(serial),
            "{cipher}: {said}"
        );
    }
}

/// Machines with the same keys continue each other's sessions; one with others does not.
#[test]
fn tickets_of_other_machines() {
    let start = |name: &str, keys: &str| {
        let dir = folder(name);
        certificate(&dir, "site", "localhost");
        for (name, byte) in [("one", b'1'), ("two", b'2')] {
            dir.write(name, [byte; 80]).unwrap();
        }
        let top = format!("[tls]\nticket_keys = {keys}\nticket_rotation = \"1h\"\n\n[[listener]]");
        let text = tls_site::configuration("", "").replace("[[listener]]", &top);
        start_in(dir, &text)
    };
    let first = start("tickets-one", "[\"one\", \"two\"]");
    let same = start("tickets-same", "[\"two\", \"one\"]");
    let other = start("tickets-other", "\"two\"");
    for version in ["-tls1_2", "-tls1_3"] {
        let session = first.dir.join("session");
        let said = visit(&first, &[version, "-sess_out", shown(&session)]);
        assert!(
            said.contains("New, TLS") && said.contains("hello"),
            "{said}"
        );
        for (saker, is_known) in [(&same, true), (&other, false)] {
            let said = visit(saker, &[version, "-sess_in", shown(&session)]);
            assert_eq!(
                (said.contains("Reused, TLS"), said.contains("hello")),
                (is_known, true),
                "{version}: {said}"
            );
        }
    }
}

#[test]
fn handshakes_have_their_time() {
    let dir = folder("tls-handshake-timeout");
    certificate(&dir, "site", "localhost");
    let limits = "[limits]\ntls_handshake_timeout = \"300ms\"\n\n[[listener]]";
    let text = tls_site::configuration("", "").replace("[[listener]]", limits);
    let saker = start_in(dir, &text);
    let mut stream = TcpStream::connect(saker.server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The beginning of a record.
    stream.write_all(&[22, 3, 1, 2, 0]).unwrap();
    // `Ok`: closed; a connection that stays open would end in a timeout.
    let mut left = Vec::new();
    let ended = stream.read_to_end(&mut left);
    assert!(
        ended.is_ok()
            || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{left:?}"
    );
    assert!(visit(&saker, &[]).contains("hello"));
}
