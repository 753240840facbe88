//! `saker takeover apache` on Debian's Apache as it comes, with WordPress on Debian's php-fpm and a
//! MariaDB: back to Apache where an answer differs, and Saker in its place where none does.
// The whole file is tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::machine::{Machine, run, text};
use crate::{
    operate::{SAKER, ask, stderr, stdout},
    wordpress_site::{Database, Visitor, install, log_in, permalinks, unpack},
};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const HOST: &str = "blog.example";
const STATE: &str = "/run/saker";
/// Pages of visitors, of the API, files, redirects, and what is not there; `/readme.html` is the one
/// that is changed meanwhile.
const PATHS: [&str; 10] = [
    "/",
    "/?p=1",
    "/sample-page/",
    "/feed/",
    "/wp-login.php",
    "/wp-admin/",
    "/wp-json/wp/v2/posts",
    "/wp-includes/css/buttons.min.css",
    "/readme.html",
    "/missing/page",
];

#[test]
#[ignore = "changes what it can reach; run on a machine of its own"]
fn on_a_machine() {
    let machine = Machine::lay_out("debian-wordpress");
    let database = Database::start(&machine.dir);
    unpack(&machine.dir, &database.socket);
    let root = format!("{}/wordpress", machine.dir.display());
    stock_apache_with(&root);
    let visitor = Visitor {
        base: format!("http://{HOST}"),
        jar: machine.dir.join("jar"),
    };
    install(&visitor);
    log_in(&visitor);
    permalinks(&visitor, &machine.dir);
    let urls = PATHS.map(|path| format!("http://{HOST}{path}")).join("\n");
    let list = machine.dir.write("urls", urls).unwrap();

    let readme = fs::read_to_string(format!("{root}/readme.html")).unwrap();
    let refused = takeover(&list, &format!("echo other >{root}/readme.html; "));
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let said = stderr(&refused);
    assert!(
        said.contains("/readme.html: ") && said.contains("Apache serves again"),
        "{said}"
    );
    assert!(
        ask(Path::new(STATE), "status").is_none(),
        "Saker is stopped"
    );
    visitor.expect("/", 200, "Falconry today");

    fs::write(format!("{root}/readme.html"), readme).unwrap();
    let taken = takeover(&list, "");
    assert!(taken.status.success(), "{}", text(&taken));
    let said = stdout(&taken);
    assert!(
        said.contains(&format!("{} answers are the same", PATHS.len())),
        "{said}"
    );
    println!("{said}");
    let status = ask(Path::new(STATE), "status").unwrap();
    assert!(status["listeners"].to_string().contains(":80"), "{status}");
    visitor.expect("/", 200, "Falconry today");
    // The session of the log-in is WordPress's own, and goes on.
    visitor.expect("/wp-admin/", 200, "Dashboard");
    run(SAKER, ["stop", "--state-dir", STATE]);
}

/// The package's configuration with what Debian's documentation switches on for php-fpm, and a site.
fn stock_apache_with(root: &str) {
    run("php-fpm8.2", ["--daemonize"]);
    run("a2enmod", ["-q", "proxy_fcgi", "setenvif", "rewrite"]);
    run("a2enconf", ["-q", "php8.2-fpm"]);
    let site = format!(
        "<VirtualHost *:80>\nServerName {HOST}\nDocumentRoot {root}\n\
         ErrorLog ${{APACHE_LOG_DIR}}/blog-error.log\nCustomLog ${{APACHE_LOG_DIR}}/blog-access.log combined\n\
         <Directory {root}>\nOptions FollowSymLinks\nAllowOverride All\nRequire all granted\n</Directory>\n</VirtualHost>\n"
    );
    fs::write("/etc/apache2/sites-available/blog.conf", site).unwrap();
    run("a2ensite", ["-q", "blog"]);
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    fs::write("/etc/hosts", format!("{hosts}\n127.0.0.1 {HOST}\n")).unwrap();
    run("apache2ctl", ["start"]);
}

/// systemd does not run here, so both servers are started and stopped by commands. `before` stands
/// in front of Saker's start.
fn takeover(list: &Path, before: &str) -> Output {
    let start = format!(
        "{before}{SAKER} run --apache /etc/apache2/apache2.conf --state-dir {STATE} >/var/log/saker.log 2>&1 & \
         for attempt in $(seq 1000); do {SAKER} status --healthy --state-dir {STATE} 2>/dev/null && exit 0; sleep 0.01; done; exit 1"
    );
    let stop = "apache2ctl stop; while [ -e /run/apache2/apache2.pid ]; do sleep 0.01; done";
    Command::new("timeout")
        .args(["120", SAKER, "takeover", "apache", "--list"])
        .arg(list)
        .args(["--start", "apache2ctl start", "--stop", stop])
        .args(["--saker-start", &start, "--saker-stop"])
        .arg(format!("{SAKER} stop --state-dir {STATE} >/dev/null"))
        .env("PATH", super::machine::PATH)
        .output()
        .unwrap()
}
