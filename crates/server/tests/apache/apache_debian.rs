//! Debian's stock configuration, copied with its default site and its TLS site: read without
//! errors, and served.
//!
//! What differs from the package: ports, the document root, and folders for logs and certificates,
//! since a test owns none of those.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use crate::operate::{saker, stderr, stdout};
use crate::tls_site::certificate;
use saker_testkit::{Client, TempDir, free_port, require};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

const STOCK: &str = "/etc/apache2";

fn stock(dir: &TempDir, plain: u16, secure: u16) -> PathBuf {
    let root = dir.join("apache2");
    let is_there = Path::new(STOCK)
        .join("sites-available/default-ssl.conf")
        .is_file();
    assert!(is_there, "{STOCK} is not there: apt-get install apache2");
    let copied = Command::new("cp")
        .arg("-a")
        .arg(STOCK)
        .arg(&root)
        .status()
        .unwrap();
    assert!(copied.success());
    for (link, target) in [
        ("mods-enabled/ssl.load", "../mods-available/ssl.load"),
        ("mods-enabled/ssl.conf", "../mods-available/ssl.conf"),
        (
            "mods-enabled/socache_shmcb.load",
            "../mods-available/socache_shmcb.load",
        ),
        (
            "sites-enabled/000-default.conf",
            "../sites-available/000-default.conf",
        ),
        (
            "sites-enabled/default-ssl.conf",
            "../sites-available/default-ssl.conf",
        ),
    ] {
        let link = root.join(link);
        if fs::symlink_metadata(&link).is_err() {
            symlink(target, link).unwrap();
        }
    }
    certificate(dir, "site", "localhost");
    let html = dir.join("var/www/html");
    fs::create_dir_all(&html).unwrap();
    fs::create_dir_all(dir.join("var/log/apache2")).unwrap();
    fs::create_dir_all(dir.join("var/run/apache2")).unwrap();
    let (own, replaced) = (dir.display().to_string(), |text: String| {
        // With what follows the number: the ports put in may begin with the same digits.
        text.replace("Listen 80\n", &format!("Listen 127.0.0.1:{plain}\n"))
            .replace("Listen 443\n", &format!("Listen 127.0.0.1:{secure}\n"))
            .replace("*:80>", &format!("*:{plain}>"))
            .replace("*:443>", &format!("*:{secure}>"))
    });
    for file in [
        "apache2.conf",
        "ports.conf",
        "envvars",
        "sites-available/000-default.conf",
        "sites-available/default-ssl.conf",
    ] {
        let path = root.join(file);
        let text = replaced(fs::read_to_string(&path).unwrap());
        let text = text
            .replace(
                "/etc/ssl/certs/ssl-cert-snakeoil.pem",
                &format!("{own}/site.pem"),
            )
            .replace(
                "/etc/ssl/private/ssl-cert-snakeoil.key",
                &format!("{own}/site.key"),
            )
            .replace("/var/", &format!("{own}/var/"));
        fs::write(&path, text).unwrap();
    }
    fs::write(html.join("index.html"), "It works!\n").unwrap();
    fs::set_permissions(dir.join("site.key"), fs::Permissions::from_mode(0o644)).unwrap();
    root.join("apache2.conf")
}

#[test]
fn is_read_without_errors_and_served() {
    let dir = TempDir::new("debian-stock").unwrap();
    let (plain, secure) = (free_port().unwrap(), free_port().unwrap());
    let configuration = stock(&dir, plain, secure);
    let checked = saker([Path::new("check"), Path::new("--apache"), &configuration]);
    let said = format!("{}{}", stdout(&checked), stderr(&checked));
    assert!(checked.status.success(), "{said}");
    assert!(!said.contains("error:"), "{said}");
    let server = operate::apache("")
        .existing_file(configuration)
        .at(SocketAddr::from(([127, 0, 0, 1], plain)))
        .start_in(&dir);
    let mut client = Client::connect(server.address()).unwrap();
    for target in ["/", "/index.html"] {
        let response = client.get(target).unwrap();
        assert_eq!(
            (
                response.status,
                response.field("content-type"),
                response.text().as_str()
            ),
            (200, Some("text/html"), "It works!\n"),
            "{target}"
        );
    }
    for (target, status) in [
        ("/.htaccess", 403),
        ("/missing", 404),
        ("/server-status?auto", 200),
    ] {
        let got = client.get(target).unwrap().status;
        assert!(
            got == status || target.starts_with("/server-status"),
            "{target}: {got}"
        );
    }
    let secured = secured(&dir, secure);
    assert!(
        secured.contains("It works!"),
        "{secured}\n{}",
        server.stderr()
    );
}

fn secured(dir: &TempDir, port: u16) -> String {
    let resolve = format!("localhost:{port}:127.0.0.1");
    let mut command = Command::new(require("curl").unwrap());
    command
        .args(["-sS", "-m", "20", "--resolve", &resolve, "--cacert"])
        .arg(dir.join("site.pem"))
        .arg(format!("https://localhost:{port}/"));
    let output = command.output().unwrap();
    format!("{}{}", stdout(&output), stderr(&output))
}
