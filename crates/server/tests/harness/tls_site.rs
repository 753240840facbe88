//! A site under TLS with a self-signed certificate of its own.
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, clippy::unwrap_used)]

use crate::operate::{folder, start_in};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, SanType,
};
use saker_testkit::{OPENSSL_CLIENT, Saker, TempDir, require};
use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    time::{Duration, SystemTime},
};

/// One TLS listener; `tls` stands in `[site.tls]`, `site` in `[[site]]`.
pub fn configuration(tls: &str, site: &str) -> String {
    format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\ntls = true\n\n\
         [[site]]\nnames = [\"localhost\", \"*\"]\nroot = \"{{dir}}/www\"\n{site}\n\
         [site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n{tls}\n"
    )
}

pub fn start(name: &str, tls: &str, site: &str) -> Saker {
    let dir = folder(name);
    certificate(&dir, "site", "localhost");
    start_in(dir, &configuration(tls, site))
}

/// Makes `NAME.pem` and `NAME.key`, P-256, self-signed, good for signing others with.
pub fn certificate(dir: &TempDir, name: &str, host: &str) {
    self_signed(dir, name, host, IsCa::Ca(BasicConstraints::Unconstrained));
}

/// Makes `NAME.pem` and `NAME.key`, P-256, self-signed, for clients that take a server's own
/// certificate for its authority.
pub fn leaf_certificate(dir: &TempDir, name: &str, host: &str) {
    self_signed(dir, name, host, IsCa::ExplicitNoCa);
}

/// Makes `NAME.pem` and `NAME.key` for `localhost`, with further names, whatever they are.
pub fn certificate_with_names(dir: &TempDir, name: &str, further: &[&str]) {
    let further = further.iter().filter_map(|text| (*text).try_into().ok());
    let further = further.map(SanType::DnsName).collect();
    make(dir, name, "localhost", IsCa::ExplicitNoCa, further);
}

fn self_signed(dir: &TempDir, name: &str, host: &str, is_ca: IsCa) {
    make(dir, name, host, is_ca, Vec::new());
}

fn make(dir: &TempDir, name: &str, host: &str, is_ca: IsCa, further: Vec<SanType>) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params
        .subject_alt_names
        .push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
    params.subject_alt_names.extend(further);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, host);
    params.is_ca = is_ca;
    // Clients refuse certificates that last for much longer than a year.
    let day = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
    params.not_before = day.into();
    params.not_after = (day + Duration::from_secs(30 * 24 * 60 * 60)).into();
    let made = params.self_signed(&key).unwrap();
    dir.write(&format!("{name}.pem"), made.pem()).unwrap();
    let key_file = dir
        .write(&format!("{name}.key"), key.serialize_pem())
        .unwrap();
    fs::set_permissions(key_file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Makes `NAME.pem` and `NAME.key`, signed by the authority of that name.
pub fn signed(dir: &TempDir, name: &str, authority: &str) {
    let file = |name: &str, ending: &str| {
        dir.join(format!("{name}.{ending}"))
            .to_string_lossy()
            .into_owned()
    };
    let made = openssl(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "30",
        "-subj",
        &format!("/CN={name}"),
        "-CA",
        &file(authority, "pem"),
        "-CAkey",
        &file(authority, "key"),
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-out",
        &file(name, "pem"),
        "-keyout",
        &file(name, "key"),
    ]);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

pub fn openssl(arguments: &[&str]) -> Output {
    Command::new(require("openssl").unwrap())
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

/// Output of OpenSSL's client, which sends nothing.
pub fn openssl_client(arguments: &[&str]) -> Output {
    openssl(&[&OPENSSL_CLIENT, arguments].concat())
}

pub fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// curl over https, trusting the site's own certificate; its standard output.
pub fn curl(saker: &Saker, arguments: &[&str], path: &str) -> String {
    let url = format!("https://localhost:{}{path}", saker.server.address().port());
    let resolve = format!("localhost:{}:127.0.0.1", saker.server.address().port());
    let authority = saker.dir.join("site.pem");
    let mut command = Command::new(require("curl").unwrap());
    command
        .args([
            "-sS",
            "-m",
            "20",
            "--resolve",
            &resolve,
            "--cacert",
            shown(&authority),
        ])
        .args(arguments)
        .arg(url);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "curl {arguments:?} {path}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
