//! Apache's package as it comes, with its TLS site and WordPress beside it: started as root,
//! reloaded, rotated, stopped, and left to Apache again.
// The whole file is tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::{
    load::Load,
    machine::{self, Machine, owners, run, text, users_of, with_rights_of},
};
use crate::operate::{PATIENCE, SAKER, ask, lines, saker, wait_until};
use saker_testkit::{Client, ServerProcess, Signal};
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

const CONFIGURATION: &str = "/etc/apache2/apache2.conf";
const STATE: &str = "/run/saker";
const LOGS: &str = "/var/log/apache2";
const PID_FILE: &str = "/run/apache2/apache2.pid";
const DAEMON: &str = "/usr/sbin/apache2";
/// Virtual hosts that come one by one, each with a port below 1024, logs and a certificate.
const SITES: u16 = 10;
const WWW_DATA: u32 = 33;

#[test]
#[ignore = "changes what it can reach; run on a machine of its own"]
fn on_a_machine() {
    let machine = Machine::lay_out("debian-apache");
    let page = prepare(&machine);
    let of_apache = what_apache_leaves(&machine);
    for number in 1..=SITES {
        run("a2dissite", ["-q", &site(number)]);
    }
    machine.stock_logs();
    let found = serves_and_reloads(&machine, &page);
    as_the_daemon(&machine, &page);
    leaves_what_apache_leaves(&of_apache);
    the_way_back(&page);
    // Last, so that the rest is seen even where the words of a line have changed.
    found.unwrap();
}

fn site(number: u16) -> String {
    format!("site{number}.example")
}

/// The package with the modules and sites that people switch on; Debian's own programs do it.
fn prepare(machine: &Machine) -> String {
    for number in 1..=SITES {
        let (name, port) = (site(number), 80 + number);
        let (certificate, key) = machine.certificate(&name);
        let (root, tls) = (
            format!("/var/www/{name}"),
            format!(
                "SSLCertificateFile {}\nSSLCertificateKeyFile {}",
                certificate.display(),
                key.display()
            ),
        );
        fs::create_dir_all(&root).unwrap();
        fs::write(format!("{root}/index.html"), format!("{name}\n")).unwrap();
        let logs = format!(
            "ErrorLog ${{APACHE_LOG_DIR}}/{name}-error.log\nCustomLog ${{APACHE_LOG_DIR}}/{name}-access.log combined"
        );
        let common = format!("ServerName {name}\nDocumentRoot {root}\n{logs}");
        let private = "<Location /private>\nAuthType Basic\nAuthName Private\nAuthUserFile /etc/apache2/passwords\nRequire valid-user\n</Location>";
        let text = format!(
            "Listen {port}\n<VirtualHost *:{port}>\n{common}\n{private}\n</VirtualHost>\n\
             <VirtualHost *:443>\n{common}\nSSLEngine on\n{tls}\n</VirtualHost>\n"
        );
        fs::write(format!("/etc/apache2/sites-available/{name}.conf"), text).unwrap();
    }
    fs::write(
        "/etc/apache2/passwords",
        "alice:$apr1$saltsalt$xxxxxxxxxxxxxxxxxxxxxx\n",
    )
    .unwrap();
    let snakeoil = Path::new("/etc/ssl/private/ssl-cert-snakeoil.key");
    assert!(
        snakeoil.exists(),
        "default-ssl's certificate is not there: apt-get install ssl-cert"
    );
    run(
        "a2enmod",
        ["-q", "ssl", "rewrite", "headers", "proxy_fcgi", "setenvif"],
    );
    run("a2ensite", ["-q", "default-ssl"]);
    wordpress();
    fs::read_to_string("/var/www/html/index.html").unwrap()
}

/// By the package's own example, with PHP's own package.
fn wordpress() {
    let example = "/usr/share/doc/wordpress/examples/apache.conf";
    assert!(
        Path::new("/usr/share/wordpress/index.php").exists(),
        "wordpress is not there: apt-get install wordpress"
    );
    let conf = fs::read_dir("/etc/apache2/conf-available")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let conf = conf
        .filter_map(|name| name.strip_suffix("-fpm.conf").map(str::to_owned))
        .max();
    let php =
        conf.expect("PHP-FPM's configuration for Apache is not there: apt-get install php-fpm");
    run("a2enconf", ["-q", &format!("{php}-fpm")]);
    let text = fs::read_to_string(example).unwrap_or_else(|_| WORDPRESS.into());
    let below = text
        .split_once("## Without using Virtual host, hosted off /blog")
        .map_or(WORDPRESS, |(_, below)| below);
    let directives = below
        .split_once("# Tips")
        .map_or(below, |(directives, _)| directives);
    fs::write("/etc/apache2/conf-available/blog.conf", directives).unwrap();
    run("a2enconf", ["-q", "blog"]);
    // No database behind it: it says so itself, and is WordPress all the same.
    fs::create_dir_all("/etc/wordpress").unwrap();
    let database = "<?php\ndefine('DB_NAME', 'wp');\ndefine('DB_USER', 'wp');\ndefine('DB_PASSWORD', 'secret');\ndefine('DB_HOST', 'localhost:/run/none');\n\
                    define('WP_CONTENT_DIR', '/var/lib/wordpress/wp-content');\n";
    fs::write("/etc/wordpress/config-default.php", database).unwrap();
}

/// Used if documentation is not installed.
const WORDPRESS: &str = "Alias /blog/wp-content /var/lib/wordpress/wp-content\nAlias /blog /usr/share/wordpress\n\
    <Directory /usr/share/wordpress>\nOptions FollowSymLinks\nAllowOverride Limit Options FileInfo\nDirectoryIndex index.php\n\
    Require all granted\n</Directory>\n";

/// Debian's PHP-FPM, started as its service does.
struct Fpm(Child);

impl Fpm {
    fn start() -> Fpm {
        let program = fs::read_dir("/usr/sbin")
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let program = program
            .filter(|path| path.to_string_lossy().contains("/php-fpm"))
            .max()
            .expect("php-fpm is not there: apt-get install php-fpm");
        let child = Command::new(program)
            .arg("--nodaemonize")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("PHP listens", || {
            fs::read_dir("/run/php").unwrap().count() > 0
        });
        Fpm(child)
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Owners and modes of logs by their names, after Apache has served and rotated them.
fn what_apache_leaves(_machine: &Machine) -> BTreeMap<String, String> {
    for number in 1..=SITES {
        run("a2ensite", ["-q", &site(number)]);
    }
    run("apache2ctl", ["start"]);
    wait_until("Apache serves", || {
        get(80, "localhost", "/").is_some_and(|(status, _)| status == 200)
    });
    run("logrotate", ["-f", "/etc/logrotate.d/apache2"]);
    wait_until("Apache has the new log", || {
        get(80, "localhost", "/");
        fs::metadata(format!("{LOGS}/access.log")).is_ok_and(|found| found.len() > 0)
    });
    wait_until("Apache is gone", || {
        // A signal that comes while it restarts may be lost.
        let _ = Command::new("apache2ctl").arg("stop").status();
        !Path::new(PID_FILE).exists() && get(80, "localhost", "/").is_none()
    });
    owners(LOGS)
        .into_iter()
        .filter_map(|line| {
            line.split_once(" /")
                .map(|(owner, path)| (format!("/{path}"), owner.to_owned()))
        })
        .collect()
}

/// Which logs were rotated differs, since which were empty does: a file is as Apache makes it or as
/// logrotate does, and nothing else.
fn leaves_what_apache_leaves(of_apache: &BTreeMap<String, String>) {
    for line in owners(LOGS) {
        let (owner, path) = line.split_once(" /").unwrap();
        let path = format!("/{path}");
        match path == LOGS {
            true => assert_eq!(Some(owner), of_apache.get(LOGS).map(String::as_str)),
            false => assert!(
                of_apache
                    .iter()
                    .any(|(other, as_of)| other != LOGS && as_of == owner),
                "{line}; by Apache: {of_apache:?}"
            ),
        }
    }
}

fn get(port: u16, host: &str, target: &str) -> Option<(u16, String)> {
    let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    client
        .send(format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
        .ok()?;
    let response = client.read_response().ok()?;
    Some((response.status, response.text()))
}

fn over_tls(name: &str) -> String {
    let (resolve, file) = (
        format!("{name}:443:127.0.0.1"),
        format!("/etc/ssl/certs/{name}.pem"),
    );
    let words = [
        "-sS",
        "-m",
        "30",
        "--resolve",
        &resolve,
        "--cacert",
        &file,
        &format!("https://{name}/"),
    ]
    .map(str::to_owned);
    text(&Command::new("curl").args(words).output().unwrap())
}

fn serves_and_reloads(machine: &Machine, page: &str) -> Result<(), String> {
    let _fpm = Fpm::start();
    let mut command = with_rights_of("saker-apache.service");
    command
        .args(["run", "--apache", CONFIGURATION, "--state-dir", STATE])
        .current_dir(&machine.dir);
    let mut server =
        ServerProcess::start(&mut command, SocketAddr::from(([127, 0, 0, 1], 80))).unwrap();
    server.wait_until_ready(Path::new(STATE)).unwrap();
    let users = users_of(server.pid());
    assert_eq!(users, [WWW_DATA, 0], "the server, and its broker");
    assert_eq!(get(80, "localhost", "/").unwrap(), (200, page.to_owned()));
    let (status, text) = get(80, "localhost", "/blog/index.php").unwrap();
    assert!(
        text.contains("database connection"),
        "WordPress under PHP-FPM: {status} {text}\n{}",
        server.stderr()
    );
    let load = Load::start(80, 443, page);
    for number in 1..=SITES {
        add_site(&server, number);
    }
    let unknown = [
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-u",
        "mallory:guess",
        "-H",
        "Host: site1.example",
        "http://127.0.0.1:81/private/",
    ];
    assert_eq!(run("curl", unknown), "401");
    rotate(&server);
    let requests = load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", server.stderr()));
    assert!(requests > 100, "{requests} requests");
    let found = fail2ban();
    let stopped = saker(["stop", "--state-dir", STATE]);
    assert!(stopped.status.success(), "{}", machine::text(&stopped));
    assert_eq!(
        server
            .wait_for_exit(PATIENCE)
            .unwrap()
            .and_then(|status| status.code()),
        Some(0)
    );
    assert!(
        !Path::new(PID_FILE).exists(),
        "the PidFile is left: {:?}",
        fs::read_to_string(PID_FILE)
    );
    found
}

/// A virtual host that only root can open everything of, by a reload.
fn add_site(server: &ServerProcess, number: u16) {
    let (name, port) = (site(number), 80 + number);
    run("a2ensite", ["-q", &name]);
    let before = ask(Path::new(STATE), "status").unwrap()["generation"].as_u64();
    if number.is_multiple_of(2) {
        server.signal(Signal::USR1).unwrap();
    } else {
        let reloaded = saker(["reload", "--state-dir", STATE]);
        assert!(reloaded.status.success(), "{name}: {}", text(&reloaded));
    }
    wait_until(
        &format!(
            "the reload with {name}; the server said:\n{}",
            server.stderr()
        ),
        || ask(Path::new(STATE), "status").unwrap()["generation"].as_u64() > before,
    );
    assert_eq!(
        get(port, &name, "/").unwrap(),
        (200, format!("{name}\n")),
        "{}",
        server.stderr()
    );
    assert_eq!(over_tls(&name), format!("{name}\n"), "{}", server.stderr());
    let log = format!("{LOGS}/{name}-access.log");
    wait_until(&format!("{log} has its lines"), || {
        fs::read_to_string(&log).is_ok_and(|text| text.lines().count() >= 2)
    });
}

/// By the package's own rules, and then Apache's signal, as its service has it.
fn rotate(server: &ServerProcess) {
    let (log, name) = (format!("{LOGS}/access.log"), site(1));
    run("logrotate", ["-f", "/etc/logrotate.d/apache2"]);
    assert!(Path::new(&format!("{log}.1")).exists());
    server.signal(Signal::USR1).unwrap();
    wait_until("lines are in the file that logrotate has made", || {
        fs::metadata(&log).is_ok_and(|found| found.len() > 0)
    });
    let own = format!("{LOGS}/{name}-access.log");
    let lines_before = lines(Path::new(&own)).len();
    assert_eq!(get(81, &name, "/").unwrap().0, 200);
    wait_until("the host's own log goes on, too", || {
        lines(Path::new(&own)).len() > lines_before
    });
}

/// The package's own filter finds who failed to log in.
fn fail2ban() -> Result<(), String> {
    let log = format!("{LOGS}/{}-error.log.1", site(1));
    let said = text(
        &Command::new("fail2ban-regex")
            .args([&log, "/etc/fail2ban/filter.d/apache-auth.conf"])
            .output()
            .unwrap(),
    );
    let matched = said
        .lines()
        .any(|line| line.starts_with("Lines: ") && line.contains(" 1 matched"));
    if matched {
        Ok(())
    } else {
        Err(format!(
            "{said}\nThe log:\n{}",
            fs::read_to_string(&log).unwrap_or_default()
        ))
    }
}

/// In Apache's place: its service's script, its logrotate rules and its programs find what they
/// look for.
fn as_the_daemon(machine: &Machine, page: &str) {
    let ours = machine.dir.copy_program(SAKER, "saker").unwrap();
    machine.replace(Path::new(DAEMON), &ours);
    run("apache2ctl", ["configtest"]);
    run("apache2ctl", ["start"]);
    let first = fs::read_to_string(PID_FILE).unwrap();
    assert_eq!(get(80, "localhost", "/").unwrap(), (200, page.to_owned()));
    let states = fs::read_dir("/var/lib").unwrap().flatten();
    let state = states
        .map(|entry| entry.path())
        .find(|path| {
            path.to_string_lossy()
                .contains("/saker-etc-apache2-apache2.conf")
        })
        .expect("a state directory that outlives a restart of the machine");
    assert!(ask(&state, "status").is_some() && !Path::new("/run/apache2/saker").exists());
    run(SAKER, ["status", "--apache", CONFIGURATION]);
    let load = Load::start(80, 443, page);
    let log = format!("{LOGS}/access.log");
    wait_until("the log has lines", || {
        fs::metadata(&log).is_ok_and(|found| found.len() > 0)
    });
    run("logrotate", ["-f", "/etc/logrotate.d/apache2"]);
    wait_until("the service's reload has the new log opened", || {
        fs::metadata(&log).is_ok_and(|found| found.len() > 0)
    });
    load.finish().unwrap();
    assert_eq!(
        fs::read_to_string(PID_FILE).unwrap(),
        first,
        "it is the same server"
    );
    run("apache2ctl", ["graceful-stop"]);
    wait_until("it is gone", || {
        !Path::new(PID_FILE).exists() && get(80, "localhost", "/").is_none()
    });
    wait_until("its program is free", || {
        Command::new("umount")
            .arg(DAEMON)
            .output()
            .unwrap()
            .status
            .success()
    });
}

/// Nothing keeps Apache from serving the same configuration again.
fn the_way_back(page: &str) {
    run("apache2ctl", ["start"]);
    wait_until("Apache serves again", || {
        get(80, "localhost", "/").is_some_and(|got| got == (200, page.to_owned()))
    });
    assert_eq!(over_tls(&site(SITES)), format!("{}\n", site(SITES)));
    assert!(run("pgrep", ["-a", "-x", "apache2"]).contains(DAEMON));
    run("apache2ctl", ["stop"]);
}
