//! Apache's directives about databases: mod_dbd with MariaDB and PostgreSQL under rewrite maps,
//! users and groups, while the database comes and goes; mod_maxminddb and mod_geoip with a database
//! of the test's own. What the real apache2 does is compared in `apache/cases/dbd.case`.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::databases::{Mariadb, Postgres, certificates::Certificates};
use crate::operate;
use crate::operate::wait_until;
use saker_testkit::{
    Client, Response, Saker, TempDir, free_port,
    mmdb::{Data, database},
    require,
};
use std::{fs, process::Command};

/// ann:secret
const ANN: &str = "Basic YW5uOnNlY3JldA==";
const STORED: &str = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";

fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    dir.write("www/form", "in\n").unwrap();
    for page in ["one", "two", "none"] {
        dir.write(&format!("www/{page}.html"), format!("{page}\n"))
            .unwrap();
    }
    dir
}

fn serve(dir: TempDir, conf: &str) -> Saker {
    let modules = [
        "authz_core",
        "authz_user",
        "authn_core",
        "auth_basic",
        "auth_digest",
        "rewrite",
        "headers",
        "setenvif",
        "dbd",
        "authn_dbd",
        "request",
        "session",
        "session_dbd",
        "auth_form",
    ];
    let loaded: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let text = format!(
        "ServerRoot {{dir}}\nLoadModule mpm_event_module modules/mod_mpm_event.so\n{loaded}\
         LoadModule authz_dbd_module modules/mod_authz_dbd.so\nListen {{address}}\nServerName a\nDocumentRoot {{dir}}/www\nErrorLog {{dir}}/error.log\n\
         <Directory {{dir}}/www>\nRequire all granted\n</Directory>\n{conf}"
    );
    operate::apache(&text).start(dir)
}

fn error_log(saker: &Saker) -> String {
    fs::read_to_string(saker.dir.join("error.log")).unwrap_or_default()
}

fn ask(saker: &Saker, target: &str, fields: &[(&str, &str)]) -> Response {
    let fields: Vec<(&str, &str)> = [("Host", "a")].iter().chain(fields).copied().collect();
    saker
        .connect()
        .unwrap()
        .request("GET", target, &fields)
        .unwrap()
}

/// Status and text.
fn got(saker: &Saker, target: &str) -> (u16, String) {
    let response = ask(saker, target, &[]);
    (response.status, response.text())
}

const RULES: &str = "RewriteEngine On\n\
    RewriteMap pages \"dbd:SELECT target FROM pages WHERE name = %s\"\n\
    RewriteMap quick \"fastdbd:SELECT target FROM pages WHERE name = %s\"\n\
    RewriteRule ^/map/(.*)$ /${pages:$1|none.html}\n\
    RewriteRule ^/quick/(.*)$ /${quick:$1|none.html}\n\
    <Location /one.html>\nHeader set X-Mail \"%{AUTHENTICATE_MAIL}e\"\nAuthType Basic\nAuthName realm\nAuthBasicProvider dbd\n\
    AuthDBDUserPWQuery \"SELECT password, mail FROM users WHERE name = %s\"\n\
    AuthzDBDQuery \"SELECT team FROM teams WHERE name = %s\"\nRequire dbd-group staff\n</Location>\n\
    <Location /digest>\nAuthType Digest\nAuthName realm\nAuthDigestProvider dbd\n\
    AuthDBDUserRealmQuery \"SELECT hash FROM realms WHERE name = %s AND realm = %s\"\nRequire valid-user\n</Location>\n\
    DBDPrepareSQL \"SELECT value FROM sessions WHERE id = %s AND (expiry = 0 OR expiry > %lld)\" selectsession\n\
    DBDPrepareSQL \"DELETE FROM sessions WHERE id = %s\" deletesession\n\
    DBDPrepareSQL \"INSERT INTO sessions (value, expiry, id) VALUES (%s, %lld, %s)\" insertsession\n\
    DBDPrepareSQL \"UPDATE sessions SET value = %s, expiry = %lld, id = %s WHERE id = %s\" updatesession\n\
    <Location /form>\nAuthType form\nAuthName realm\nAuthFormProvider dbd\n\
    AuthDBDUserPWQuery \"SELECT password FROM users WHERE name = %s\"\n\
    Session On\nSessionMaxAge 3600\nSessionDBDCookieName key path=/\nAuthFormLoginSuccessLocation /in\nRequire valid-user\n</Location>\n";

fn tables() -> String {
    format!(
        "CREATE TABLE pages (name VARCHAR(100), target VARCHAR(100));\n\
         INSERT INTO pages VALUES ('a', 'two.html'), ('several', 'two.html'), ('several', 'none.html'), ('several', 'two.html');\n\
         CREATE TABLE users (name VARCHAR(100), password VARCHAR(100), mail VARCHAR(100));\n\
         INSERT INTO users VALUES ('ann', '{STORED}', 'ann@mail.test'), ('bob', '{STORED}', 'bob@mail.test');\n\
         CREATE TABLE teams (name VARCHAR(100), team VARCHAR(100));\n\
         INSERT INTO teams VALUES ('ann', 'friends'), ('ann', 'staff'), ('bob', 'friends');\n\
         CREATE TABLE realms (name VARCHAR(100), realm VARCHAR(100), hash VARCHAR(100));\n\
         INSERT INTO realms VALUES ('ann', 'realm', '4f7d04b5b9899460e7638f8036f253f4');\n\
         CREATE TABLE sessions (id VARCHAR(40), value TEXT, expiry BIGINT);\n"
    )
}

/// Status of a log-in by the form, and the cookie of its session.
fn log_in(saker: &Saker, password: &str) -> (u16, Option<String>) {
    let form = format!("httpd_username=ann&httpd_password={password}");
    let mut client = saker.connect().unwrap();
    let head = format!(
        "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    client.send(head).unwrap();
    let response = client.read_response().unwrap();
    let cookie = response.field("set-cookie").map(|line| {
        let cookie = line.split(';').next().unwrap_or_default();
        cookie.to_owned()
    });
    (response.status, cookie)
}

/// Sessions of forms are rows, and are found by the cookie alone.
fn check_sessions(saker: &Saker) {
    let by = |cookie: &str| ask(saker, "/form", &[("Cookie", cookie)]).status;
    let (status, cookie) = log_in(saker, "secret");
    let cookie = cookie.unwrap_or_else(|| panic!("{status}: {}", error_log(saker)));
    assert_eq!((status, by(&cookie)), (302, 200), "{}", error_log(saker));
    // The key of a session that does not change stays.
    assert_eq!(
        (by(&cookie), by("key=none"), by("key=ann")),
        (200, 401, 401)
    );
    let other = cookie.replace(['0', '1', '2', '3'], "f");
    assert_eq!(by(&other), 401);
    let (_, again) = log_in(saker, "secret");
    assert_ne!(again, Some(cookie), "each log-in has a key of its own");
    let (status, _) = log_in(saker, "wrong");
    assert_eq!(status, 401);
}

/// Checks that hold for every database.
fn check(saker: &Saker) {
    check_sessions(saker);
    for _ in 0..2 {
        assert_eq!(
            got(saker, "/map/a"),
            (200, "two\n".into()),
            "{}",
            error_log(saker)
        );
        assert_eq!(got(saker, "/map/b"), (200, "none\n".into()));
        assert_eq!(got(saker, "/map/a'%20OR%20'1'='1"), (200, "none\n".into()));
        assert_eq!(got(saker, "/quick/a"), (200, "two\n".into()));
        // One of its rows, by chance.
        assert!(matches!(
            got(saker, "/map/several").1.as_str(),
            "two\n" | "none\n"
        ));
    }
    let bob = "Basic Ym9iOnNlY3JldA==";
    for (value, status) in [
        (Some(ANN), 200),
        (Some(bob), 401),
        (Some("Basic YW5uOm90aGVy"), 401),
        (None, 401),
    ] {
        let fields: Vec<(&str, &str)> = value
            .iter()
            .map(|value| ("Authorization", *value))
            .collect();
        let response = ask(saker, "/one.html", &fields);
        assert_eq!(response.status, status, "{value:?} {}", error_log(saker));
        assert!(
            status != 200 || response.field("x-mail") == Some("ann@mail.test"),
            "{response:?}"
        );
    }
}

fn by_digest(saker: &Saker, credentials: &str) -> String {
    let url = format!("http://{}/digest/page.html", saker.server.address());
    let mut curl = Command::new(require("curl").unwrap());
    let output = curl
        .args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--digest",
            "-u",
            credentials,
            "-H",
            "Host: a",
            &url,
        ])
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn mariadb_that_comes_and_goes() {
    let _turn = saker_testkit::heavy();
    let dir = folder("dbd-mariadb");
    dir.write("www/digest/page.html", "digest\n").unwrap();
    let mut database = Mariadb::start(&dir);
    // What is written outlives the process, which is killed below.
    assert!(database.ask(&format!(
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1; USE web; {} GRANT INSERT, UPDATE, DELETE ON web.sessions TO saker@localhost;",
        tables()
    )));
    let conf = "DBDriver mysql\nDBDParams \"sock={dir}/mysql.sock,user=saker,pass=secret,dbname=web,connecttimeout=600\"\nDBDMax 4\nDBDInitSQL \"SET NAMES utf8mb4\"\n";
    let saker = serve(dir, &format!("{conf}{RULES}"));
    check(&saker);
    assert_eq!(
        (
            by_digest(&saker, "ann:secret"),
            by_digest(&saker, "ann:other")
        ),
        ("200".into(), "401".into()),
        "{}",
        error_log(&saker)
    );
    // Each request asks anew, but for what `fastdbd` has found.
    assert!(database.ask("UPDATE web.pages SET target = 'none.html' WHERE name = 'a'; DELETE FROM web.users WHERE name = 'ann'"));
    assert_eq!(
        (got(&saker, "/map/a"), got(&saker, "/quick/a")),
        ((200, "none\n".into()), (200, "two\n".into()))
    );
    assert_eq!(
        ask(&saker, "/one.html", &[("Authorization", ANN)]).status,
        401
    );
    assert!(database.ask(&format!(
        "INSERT INTO web.users VALUES ('ann', '{STORED}', 'ann@mail.test')"
    )));
    assert_eq!(
        ask(&saker, "/one.html", &[("Authorization", ANN)]).status,
        200
    );
    // During an outage, no client is authorized, maps have no value, and earlier results stay.
    database.end();
    assert_eq!(
        ask(&saker, "/one.html", &[("Authorization", ANN)]).status,
        500
    );
    assert_eq!(
        (got(&saker, "/map/a"), got(&saker, "/quick/a")),
        ((200, "none\n".into()), (200, "two\n".into()))
    );
    wait_until("the outage is in the log", || {
        error_log(&saker).contains("the database can't be asked about 'ann'")
    });
    database.start_again();
    wait_until("users are known again", || {
        ask(&saker, "/one.html", &[("Authorization", ANN)]).status == 200
    });
}

#[test]
fn postgresql() {
    let _turn = saker_testkit::heavy();
    let dir = folder("dbd-postgresql");
    let database = Postgres::start(&dir);
    assert!(database.ask(&tables()));
    let conf = format!(
        "DBDriver pgsql\nDBDParams \"{}\"\nDBDPersist Off\n",
        database.words()
    );
    check(&serve(dir, &format!("{conf}{RULES}")));
}

/// By libpq's words, and for MariaDB by ours, since apr_dbd_mysql has none.
#[test]
fn over_tls() {
    let _turn = saker_testkit::heavy();
    let dir = folder("dbd-tls");
    let certificates = Certificates::make(&dir);
    certificates.give_to("postgres");
    let port = free_port().unwrap().to_string();
    let (certificate, key) = (
        certificates.path("server.pem"),
        certificates.path("server.key"),
    );
    let settings = [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port),
        ("ssl", "on"),
        ("ssl_cert_file", &certificate),
        ("ssl_key_file", &key),
    ];
    let postgres =
        Postgres::start_with(&dir, &settings, Some("hostssl all all 127.0.0.1/32 trust"));
    assert!(postgres.ask(&tables()));
    let ca = certificates.path("ca.pem");
    let words = format!(
        "host=localhost port={port} user=saker dbname=postgres sslmode=verify-full sslrootcert={ca}"
    );
    let saker = serve(
        dir,
        &format!("DBDriver pgsql\nDBDParams \"{words}\"\n{RULES}"),
    );
    check(&saker);
    drop((saker, postgres));

    let dir = folder("dbd-mariadb-tls");
    let certificates = Certificates::make(&dir);
    let port = free_port().unwrap();
    let files = [("cert", "server.pem"), ("key", "server.key")]
        .map(|(word, file)| format!("--ssl-{word}={}", certificates.path(file)));
    let options = [
        files.as_slice(),
        &[
            "--bind-address=127.0.0.1".to_owned(),
            format!("--port={port}"),
        ],
    ]
    .concat();
    let mariadb = Mariadb::start_with(&dir, &options);
    let user =
        "CREATE USER tls@'%' IDENTIFIED BY 'secret' REQUIRE SSL; GRANT SELECT ON web.* TO tls@'%';";
    assert!(mariadb.ask(&format!("USE web; {} {user}", tables())));
    let (ca, other) = (certificates.path("ca.pem"), certificates.path("other.pem"));
    let conf = |name: &str, host: &str, words: &str| {
        let params = format!("host={host},port={port},user=tls,pass=secret,dbname=web,{words}");
        format!(
            "<VirtualHost *>\nServerName {name}\nDocumentRoot {{dir}}/www\nDBDParams \"{params}\"\n{RULES}</VirtualHost>\n"
        )
    };
    let hosts = [
        conf("asked.test", "127.0.0.1", "sslmode=REQUIRED"),
        // In small letters it would be the Unix socket.
        conf(
            "verified.test",
            "LOCALHOST",
            &format!("sslmode=VERIFY_IDENTITY,sslca={ca}"),
        ),
        conf(
            "wrong.test",
            "LOCALHOST",
            &format!("sslmode=VERIFY_IDENTITY,sslca={other}"),
        ),
        conf("clear.test", "127.0.0.1", "sslmode=DISABLED"),
    ];
    let saker = serve(dir, &format!("DBDriver mysql\n{}", hosts.concat()));
    for (host, status) in [
        ("asked.test", 200),
        ("verified.test", 200),
        ("wrong.test", 500),
        ("clear.test", 500),
    ] {
        let fields = [("Host", host), ("Authorization", ANN)];
        let response = saker
            .connect()
            .unwrap()
            .request("GET", "/one.html", &fields)
            .unwrap();
        assert_eq!(response.status, status, "{host}: {}", error_log(&saker));
    }
    wait_until("it is said", || {
        error_log(&saker).contains("UnknownIssuer") && error_log(&saker).contains("`ssl-ca`")
    });
}

#[test]
fn where_clients_are() {
    let _turn = saker_testkit::heavy();
    const CITY: Data<'_> = Data::Map(&[
        (
            "city",
            Data::Map(&[("names", Data::Map(&[("en", Data::Text("Atlantis"))]))]),
        ),
        (
            "country",
            Data::Map(&[
                ("iso_code", Data::Text("XA")),
                ("names", Data::Map(&[("en", Data::Text("Utopia"))])),
            ]),
        ),
        ("location", Data::Map(&[("latitude", Data::Broken(1.5))])),
    ]);
    let dir = folder("maxminddb");
    dir.write("geo/city.mmdb", database([203, 0, 113, 0], 24, &CITY))
        .unwrap();
    let conf = "LoadModule maxminddb_module modules/mod_maxminddb.so\nLoadModule geoip_module modules/mod_geoip.so\n\
        LoadModule remoteip_module modules/mod_remoteip.so\nRemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\n\
        LogFormat \"%U %{MM_COUNTRY_CODE}e %{MM_COUNTRY_CODE}n\" places\nCustomLog {dir}/places.log places\n\
        <IfModule mod_maxminddb.c>\nMaxMindDBEnable On\nMaxMindDBSetNotes On\nMaxMindDBFile DB {dir}/geo/city.mmdb\n\
        MaxMindDBEnv MM_COUNTRY_CODE DB/country/iso_code\nMaxMindDBEnv MM_LATITUDE DB/location/latitude\nMaxMindDBNetworkEnv DB MM_NETWORK\n</IfModule>\n\
        <IfModule mod_geoip.c>\nGeoIPEnable On\nGeoIPDBFile {dir}/geo/city.mmdb MemoryCache\n</IfModule>\n\
        SetEnvIf MM_COUNTRY_CODE ^XA$ is_utopia\n\
        Header set X-Place \"%{MM_COUNTRY_CODE}e %{MM_LATITUDE}e %{MM_NETWORK}e %{MMDB_INFO}e %{GEOIP_CITY}e\"\n\
        RewriteEngine On\nRewriteCond %{ENV:GEOIP_COUNTRY_CODE} =XA\nRewriteRule ^/by-place$ /two.html\nRewriteRule ^/by-place$ /none.html\n\
        <Location /one.html>\nRequire env is_utopia\n</Location>\n";
    let saker = serve(dir, conf);
    let of = |target: &str, address: &str| ask(&saker, target, &[("X-Forwarded-For", address)]);
    // By turns, so that what is kept of one must not be served to the other.
    for _ in 0..3 {
        assert_eq!(
            of("/one.html", "203.0.113.7").status,
            200,
            "{}",
            error_log(&saker)
        );
        assert_eq!(of("/one.html", "192.0.2.1").status, 403);
        assert_eq!(
            (
                of("/by-place", "203.0.113.7").text(),
                of("/by-place", "192.0.2.1").text()
            ),
            ("two\n".into(), "none\n".into())
        );
        let place = of("/two.html", "203.0.113.7")
            .field("x-place")
            .map(str::to_owned);
        assert_eq!(
            place.as_deref(),
            Some("XA 1.50000 203.0.113.0/24 result found Atlantis")
        );
        let place = of("/two.html", "192.0.2.1")
            .field("x-place")
            .map(str::to_owned)
            .unwrap();
        assert!(
            place.starts_with("(null) (null) ") && place.ends_with(" lookup success (null)"),
            "{place}"
        );
    }
    let log = || fs::read_to_string(saker.dir.join("places.log")).unwrap_or_default();
    wait_until("it is logged", || {
        log().matches("/two.html XA XA\n").count() == 3
            && log().matches("/two.html - -\n").count() == 3
    });
}

/// The old format is refused with the way out, and so is a file that is no database.
#[test]
fn files_that_can_not_be_asked() {
    let _turn = saker_testkit::heavy();
    let dir = folder("geoip-old");
    dir.write("old.dat", "GEO-106FREE").unwrap();
    dir.write("broken.mmdb", "nothing").unwrap();
    for (module, line, message) in [
        ("geoip", "GeoIPDBFile {dir}/old.dat", "GeoLite2-City.mmdb"),
        (
            "geoip",
            "GeoIPDBFile {dir}/broken.mmdb",
            "no MaxMind database",
        ),
        (
            "maxminddb",
            "MaxMindDBFile DB {dir}/missing.mmdb",
            "MaxMindDBFile: Failed to open",
        ),
        ("dbd", "DBDriver oracle", "No driver for oracle"),
    ] {
        let text = format!(
            "ServerRoot {{dir}}\nServerName a\nListen 127.0.0.1:8080\nLoadModule {module}_module modules/mod_{module}.so\n{line}\n"
        );
        let path = dir
            .write(
                "httpd.conf",
                text.replace("{dir}", &dir.display().to_string()),
            )
            .unwrap();
        let output = operate::saker(["check", "--apache", path.to_str().unwrap()]);
        assert!(
            !output.status.success() && operate::stderr(&output).contains(message),
            "{line}: {}",
            operate::stderr(&output)
        );
    }
}

/// A client that goes while the database is asked leaves nothing behind.
#[test]
fn clients_that_do_not_wait() {
    let _turn = saker_testkit::heavy();
    let dir = folder("dbd-impatient");
    let database = Postgres::start(&dir);
    assert!(database.ask(&tables()));
    let conf = format!(
        "DBDriver pgsql\nDBDParams \"{}\"\nDBDMax 2\nRewriteEngine On\n\
         RewriteMap slow \"dbd:SELECT target || substr(pg_sleep(0.2)::text, 1, 0) FROM pages WHERE name = %s\"\n\
         RewriteRule ^/slow/(.*)$ /${{slow:$1|none.html}}\n",
        database.words()
    );
    let saker = serve(dir, &conf);
    for _ in 0..20 {
        let mut client: Client = saker.connect().unwrap();
        client
            .send("GET /slow/a HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
    }
    assert_eq!(
        got(&saker, "/slow/a"),
        (200, "two\n".into()),
        "{}",
        error_log(&saker)
    );
}
