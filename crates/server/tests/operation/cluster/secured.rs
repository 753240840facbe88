//! TLS and credentials.

use super::{fleet::Fleet, redis_server::RedisServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use saker_testkit::{TempDir, wait_until_or};
use std::path::Path;

/// An authority, and a certificate of its for 127.0.0.1.
pub fn certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    std::fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(dir.join("redis.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.join("redis.key"), key.serialize_pem()).unwrap();
}

#[test]
fn tls_with_a_password_from_a_file() {
    let dir = TempDir::new("cluster-tls").unwrap();
    certificates(&dir);
    let port = saker_testkit::free_port().unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    let arguments = |_: &TempDir| {
        let words = [
            "--port",
            "0",
            "--tls-auth-clients",
            "no",
            "--requirepass",
            "s3cret/+",
            "--tls-port",
        ];
        let files = [
            "--tls-cert-file".to_owned(),
            path("redis.pem"),
            "--tls-key-file".to_owned(),
            path("redis.key"),
        ];
        words
            .iter()
            .map(|word| (*word).to_owned())
            .chain([port.to_string()])
            .chain(files)
            .collect()
    };
    let _redis = RedisServer::start_at(port, arguments);
    dir.write("password", "s3cret/+\n").unwrap();
    let url = format!(
        "url = \"rediss://127.0.0.1:{port}/1\"\nstream = \"shop\"\nca_file = \"{}\"",
        path("ca.pem")
    );
    let fleet = Fleet::start_with(
        &format!("{url}\npassword_file = \"{}\"", path("password")),
        2,
    );
    fleet.fill("/a");
    let changed = fleet.origin.change();
    fleet.nodes[0].purge(&["--tag", "a", "--wait"]);
    fleet.wait_for_generation("/a", changed);
    let status = fleet.nodes[0].command(&["cluster", "status"]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        shown.contains(&format!("rediss://127.0.0.1:{port}/1")) && !shown.contains("s3cret"),
        "{shown}"
    );
    // Refused, and said, and requests go on.
    let wrong_password = url.replace("rediss://", "rediss://:wrong@");
    let other_authority = format!("url = \"rediss://:s3cret%2F+@127.0.0.1:{port}\"");
    for (cluster, why) in [
        (wrong_password, "AuthenticationFailed"),
        (other_authority, "certificate"),
    ] {
        let outsider = Fleet::start_apart(&cluster);
        let node = &outsider.nodes[0];
        wait_until_or(
            || {
                node.status()["error"]
                    .as_str()
                    .is_some_and(|error| error.contains(why))
            },
            || node.status().to_string(),
        );
        node.get("/a");
        let asked = outsider.origin.asked("/a");
        node.get("/a");
        assert_eq!(outsider.origin.asked("/a"), asked + 1, "no page is used");
        assert!(node.has_logged("SK1601") && !node.log().contains("s3cret"));
    }
}
