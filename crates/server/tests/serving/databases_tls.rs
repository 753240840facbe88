//! TLS to databases: hosts are looked up in a real MariaDB, PostgreSQL, and slapd over TCP, which
//! insist on TLS and report it; the database's identity is verified where the URL says so, and
//! refusals are logged.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::databases::{Mariadb, Postgres, Slapd, certificates::Certificates};
use crate::operate::{configuration, folder, reload, rewrite, start_in, stderr, wait_until};
use saker_testkit::{Saker, TempDir, free_port};
use std::fs;

const TABLE: &str = "CREATE TABLE hosts (name VARCHAR(255) PRIMARY KEY, root VARCHAR(255));";
/// No row unless the session is encrypted.
const MARIADB: &str = "SELECT root FROM hosts WHERE name = ? AND \
                       (SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher') <> ''";
const POSTGRES: &str = "SELECT root FROM hosts WHERE name = ? AND (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())";
const PLAIN: &str = "SELECT root FROM hosts WHERE name = ?";

/// One server, whose database is given to it by reloads.
struct Site {
    saker: Saker,
    query: &'static str,
    more: &'static str,
}

impl Site {
    fn start(dir: TempDir, query: &'static str, more: &'static str) -> Site {
        let saker = start_in(dir, &configuration("workers = 1", ""));
        Site { saker, query, more }
    }

    fn text(&self, url: &str, query: &str) -> String {
        let hosts = format!(
            "[dynamic_vhosts]\ndatabase = \"{url}\"\nquery = \"{query}\"\nroots = [\"{{dir}}/srv\"]\n{}\n\n[[listener]]",
            self.more
        );
        configuration("workers = 1", "lookup = true").replace("[[listener]]", &hosts)
    }

    fn status(&self, url: &str, query: &str) -> u16 {
        rewrite(&self.saker, &self.text(url, query));
        let output = reload(&self.saker);
        assert!(output.status.success(), "{url}: {}", stderr(&output));
        self.saker
            .connect()
            .unwrap()
            .request("GET", "/", &[("Host", "a.example")])
            .unwrap()
            .status
    }

    fn is_served(&self, url: &str) {
        assert_eq!(
            self.status(url, self.query),
            200,
            "{url}: {}",
            self.saker.server.stderr()
        );
    }

    fn is_served_in_the_clear(&self, url: &str) {
        assert_eq!(self.status(url, self.query), 404, "encrypted: {url}");
        assert_eq!(
            self.status(url, PLAIN),
            200,
            "{url}: {}",
            self.saker.server.stderr()
        );
    }

    /// And the log says why.
    fn is_away(&self, url: &str, why: &[&str]) {
        let before = self.saker.server.stderr().len();
        assert_eq!(self.status(url, self.query), 503, "{url}");
        let line = || {
            let said = self.saker.server.stderr().split_off(before);
            said.lines()
                .find(|line| line.contains("SK1301"))
                .map(str::to_owned)
        };
        wait_until("it is said", || line().is_some());
        let line = line().unwrap();
        assert!(
            why.iter().all(|why| line.contains(why)),
            "{url}: {why:?}: {line}"
        );
    }

    /// The configuration is.
    fn is_refused(&self, url: &str, why: &str) {
        rewrite(&self.saker, &self.text(url, self.query));
        let output = reload(&self.saker);
        assert!(
            !output.status.success() && stderr(&output).contains(why),
            "{url}: {}",
            stderr(&output)
        );
    }
}

/// A page, and the row that leads to it.
fn site_folder(name: &str) -> (TempDir, String) {
    let dir = folder(name);
    dir.write("srv/a/index.html", "<p>a</p>\n").unwrap();
    let row = format!(
        "INSERT INTO hosts VALUES ('a.example', '{}');",
        dir.join("srv/a").display()
    );
    (dir, row)
}

fn mariadb(dir: &TempDir, row: &str, port: u16, more: &[String]) -> Mariadb {
    let mut options = vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
    ];
    options.extend_from_slice(more);
    let database = Mariadb::start_with(dir, &options);
    let user = |name: &str, demand: &str| {
        format!(
            "CREATE USER {name}@'%' IDENTIFIED BY 'secret' {demand}; GRANT SELECT ON web.* TO {name}@'%';"
        )
    };
    let users = [
        user("plain", "REQUIRE NONE"),
        user("tls", "REQUIRE SSL"),
        user("known", "REQUIRE X509"),
    ];
    assert!(database.ask(&format!("USE web; {TABLE} {row} {}", users.concat())));
    database
}

#[test]
fn mariadb_that_insists_on_tls() {
    let _turn = saker_testkit::heavy();
    let (dir, row) = site_folder("tls-mariadb");
    let certificates = Certificates::make(&dir);
    let port = free_port().unwrap();
    let files = [
        ("cert", "server.pem"),
        ("key", "server.key"),
        ("ca", "ca.pem"),
    ];
    let _database = mariadb(
        &dir,
        &row,
        port,
        &files.map(|(word, file)| format!("--ssl-{word}={}", certificates.path(file))),
    );
    let (ca, other) = (certificates.path("ca.pem"), certificates.path("other.pem"));
    let site = Site::start(dir, MARIADB, "");
    let url = |user: &str, host: &str, words: &str| {
        format!("mysql://{user}:secret@{host}:{port}/web?{words}")
    };
    for words in [
        "".to_owned(),
        "ssl-mode=PREFERRED".to_owned(),
        "ssl-mode=REQUIRED".to_owned(),
        format!("ssl-mode=VERIFY_CA&ssl-ca={ca}"),
        format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"),
        format!("ssl-ca={ca}"),
    ] {
        site.is_served(&url("tls", "localhost", &words));
    }
    // The name is not looked at.
    site.is_served(&url("tls", "127.0.0.1", "ssl-mode=REQUIRED"));
    let own = format!(
        "ssl-cert={}&ssl-key={}",
        certificates.path("client.pem"),
        certificates.path("client.key")
    );
    site.is_served(&url(
        "known",
        "localhost",
        &format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}&{own}"),
    ));
    site.is_away(
        &url("known", "localhost", &format!("ssl-ca={ca}")),
        &["Access denied"],
    );
    site.is_served_in_the_clear(&url("plain", "localhost", "ssl-mode=DISABLED"));
    site.is_away(
        &url("tls", "localhost", "ssl-mode=DISABLED"),
        &["Access denied"],
    );
    site.is_away(
        &url("tls", "localhost", &format!("ssl-ca={other}")),
        &["UnknownIssuer", "`ssl-ca`"],
    );
    site.is_away(
        &url("tls", "localhost", "ssl-mode=VERIFY_CA"),
        &["UnknownIssuer", "`ssl-ca`"],
    );
    let named = format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}");
    site.is_away(
        &url("tls", "127.0.0.1", &named),
        &["the host of the URL has to be a name that the certificate has"],
    );
    site.is_away(
        &url("tls", "localhost", "ssl-ca=/none.pem"),
        &["ssl-ca /none.pem: No such file"],
    );
    site.is_refused(
        &url("tls", "localhost", "ssl_mode=REQUIRED"),
        "`ssl_mode` is no word of mysql: URLs",
    );
    site.is_refused(&url("tls", "localhost", "ssl-mode=ALWAYS"), "ALWAYS");
}

#[test]
fn mariadb_without_tls_or_with_none_that_serves() {
    let _turn = saker_testkit::heavy();
    let (dir, row) = site_folder("tls-mariadb-plain");
    let port = free_port().unwrap();
    let database = mariadb(&dir, &row, port, &[]);
    let site = Site::start(dir, MARIADB, "");
    let url = |words: &str| format!("mysql://plain:secret@localhost:{port}/web?{words}");
    site.is_served_in_the_clear(&url(""));
    site.is_served_in_the_clear(&url("ssl-mode=PREFERRED"));
    site.is_away(&url("ssl-mode=REQUIRED"), &["does not support TLS"]);
    drop(database);
    // What it offers no handshake comes of.
    let (dir, row) = site_folder("tls-mariadb-old");
    let certificates = Certificates::make(&dir);
    let old = [
        format!("--ssl-cert={}", certificates.path("server.pem")),
        format!("--ssl-key={}", certificates.path("server.key")),
    ];
    let port = free_port().unwrap();
    let _database = mariadb(
        &dir,
        &row,
        port,
        &[old.as_slice(), &["--tls-version=TLSv1.1".to_owned()]].concat(),
    );
    let site = Site::start(dir, MARIADB, "");
    let url = |words: &str| format!("mysql://plain:secret@localhost:{port}/web?{words}");
    site.is_away(&url("ssl-mode=REQUIRED"), &["SK1301"]);
    site.is_served_in_the_clear(&url(""));
}

#[test]
fn postgresql_that_insists_on_tls() {
    let _turn = saker_testkit::heavy();
    let (dir, row) = site_folder("tls-postgresql");
    let certificates = Certificates::make(&dir);
    certificates.give_to("postgres");
    let port = free_port().unwrap().to_string();
    let files = [
        certificates.path("server.pem"),
        certificates.path("server.key"),
        certificates.path("ca.pem"),
    ];
    let settings = [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port),
        ("ssl", "on"),
        ("ssl_cert_file", &files[0]),
        ("ssl_key_file", &files[1]),
        ("ssl_ca_file", &files[2]),
    ];
    let ways = "hostnossl all clear 127.0.0.1/32 trust\nhostssl all known 127.0.0.1/32 trust clientcert=verify-ca\n\
                hostssl all saker 127.0.0.1/32 trust";
    let database = Postgres::start_with(&dir, &settings, Some(ways));
    let users = "CREATE USER clear; CREATE USER known; GRANT SELECT ON hosts TO PUBLIC;";
    assert!(database.ask(&format!("{TABLE} {row} {users}")));
    let (ca, other) = (certificates.path("ca.pem"), certificates.path("other.pem"));
    let site = Site::start(dir, POSTGRES, "");
    let url = |user: &str, host: &str, words: &str| {
        format!("postgres://{user}@{host}:{port}/postgres?{words}")
    };
    for words in [
        "".to_owned(),
        "sslmode=prefer".to_owned(),
        "sslmode=allow".to_owned(),
        "sslmode=require".to_owned(),
        format!("sslmode=require&sslrootcert={ca}"),
        format!("sslmode=verify-ca&sslrootcert={ca}"),
        format!("sslmode=verify-full&sslrootcert={ca}"),
    ] {
        site.is_served(&url("saker", "localhost", &words));
    }
    let own = format!(
        "sslcert={}&sslkey={}",
        certificates.path("client.pem"),
        certificates.path("client.key")
    );
    site.is_served(&url(
        "known",
        "localhost",
        &format!("sslmode=verify-full&sslrootcert={ca}&{own}"),
    ));
    // Who may come in the clear only still does where nothing is said.
    site.is_served_in_the_clear(&url("clear", "localhost", ""));
    site.is_away(
        &url("clear", "localhost", "sslmode=require"),
        &["pg_hba.conf"],
    );
    site.is_away(
        &url("saker", "localhost", "sslmode=disable"),
        &["pg_hba.conf"],
    );
    site.is_away(
        &url(
            "saker",
            "localhost",
            &format!("sslmode=require&sslrootcert={other}"),
        ),
        &["UnknownIssuer", "`sslrootcert`"],
    );
    site.is_away(
        &url("saker", "localhost", "sslmode=verify-full"),
        &["UnknownIssuer", "`sslrootcert`"],
    );
    let named = format!("sslmode=verify-full&sslrootcert={ca}");
    site.is_away(
        &url("saker", "127.0.0.1", &named),
        &["the host of the URL has to be a name that the certificate has"],
    );
    site.is_away(
        &url("saker", "localhost", "sslrootcert=/none.pem"),
        &["sslrootcert /none.pem: No such file"],
    );
    site.is_refused(
        &url("saker", "localhost", "sslcrl=/none.pem"),
        "`sslcrl` is no word of postgres: URLs",
    );
    // As libpq has it, there is none over a Unix socket.
    let folder = site.saker.dir.join("postgres").display().to_string();
    site.is_served_in_the_clear(&url(
        "saker",
        "localhost",
        &format!("sslmode=verify-full&host={folder}"),
    ));
}

#[test]
fn directories_that_insist_on_tls() {
    let _turn = saker_testkit::heavy();
    let (dir, _) = site_folder("tls-ldap");
    let certificates = Certificates::make(&dir);
    let (plain, secure) = (free_port().unwrap(), free_port().unwrap());
    let entries = format!(
        "dn: cn=a.example,dc=test\nobjectClass: webHost\ncn: a.example\ndocumentRoot: {}\n",
        fs::canonicalize(dir.join("srv/a")).unwrap().display()
    );
    let more = format!(
        "TLSCACertificateFile {}\nTLSCertificateFile {}\nTLSCertificateKeyFile {}\nsecurity tls=1\n",
        certificates.path("ca.pem"),
        certificates.path("server.pem"),
        certificates.path("server.key")
    );
    let _directory = Slapd::start_with(
        &dir,
        &entries,
        &more,
        &format!("ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{secure}"),
    );
    let (ca, other) = (certificates.path("ca.pem"), certificates.path("other.pem"));
    let more =
        "ldap_base = \"dc=test\"\nldap_user = \"cn=admin,dc=test\"\nldap_password = \"secret\"";
    let site = Site::start(dir, "(&(objectClass=webHost)(cn=?))", more);
    let own = format!(
        "ssl-cert={}&ssl-key={}",
        certificates.path("client.pem"),
        certificates.path("client.key")
    );
    for begins in [
        format!("ldaps://HOST:{secure}/?"),
        format!("ldap://HOST:{plain}/?starttls=yes&"),
    ] {
        let url = |host: &str, words: &str| format!("{}{words}", begins.replace("HOST", host));
        site.is_served(&url("localhost", &format!("ssl-ca={ca}")));
        site.is_served(&url("localhost", &format!("ssl-ca={ca}&{own}")));
        site.is_served(&url(
            "127.0.0.1",
            &format!("ssl-ca={ca}&ssl-mode=VERIFY_CA"),
        ));
        site.is_served(&url("127.0.0.1", "ssl-mode=REQUIRED"));
        site.is_away(&url("localhost", ""), &["UnknownIssuer", "`ssl-ca`"]);
        site.is_away(
            &url("localhost", &format!("ssl-ca={other}&ssl-mode=VERIFY_CA")),
            &["UnknownIssuer", "`ssl-ca`"],
        );
        site.is_away(
            &url("127.0.0.1", &format!("ssl-ca={ca}")),
            &["the host of the URL has to be a name that the certificate has"],
        );
        site.is_away(&url("localhost", "ssl-ca=/none.pem"), &["/none.pem"]);
    }
    // Without TLS it does not talk to us.
    site.is_away(
        &format!("ldap://localhost:{plain}"),
        &["TLS confidentiality required"],
    );
    site.is_refused(
        &format!("ldaps://localhost:{secure}?ssl-mode=DISABLED"),
        "ldaps: is TLS",
    );
}
