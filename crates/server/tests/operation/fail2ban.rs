//! Matches of fail2ban in the logs: Debian's stock filters in those of Apache and ours, for the
//! same configuration and the same requests; our own filters in those of a saker.toml.
//!
//! Caveat: where Apache's latest releases have changed words so that the stock filters no longer
//! match, ours match more; those are listed separately.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, TempDir,
    apache2::{load_modules, start_apache2},
    free_port, poll, require,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::Duration,
};

const MODULES: [&str; 20] = [
    "mpm_event",
    "authn_file",
    "authn_core",
    "authz_core",
    "authz_host",
    "authz_user",
    "access_compat",
    "auth_basic",
    "auth_digest",
    "allowmethods",
    "mime",
    "env",
    "setenvif",
    "dir",
    "alias",
    "autoindex",
    "cgid",
    "rewrite",
    "negotiation",
    "actions",
];
const CONFIGURATION: &str = "LogLevel info\n\
    LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\nCustomLog {dir}/{server}/access.log combined\n\
    <Directory {dir}>\nAllowOverride All\nOptions FollowSymLinks\nRequire all granted\n</Directory>\n\
    <Directory {dir}/www/links>\nOptions -FollowSymLinks\n</Directory>\n\
    <Location /basic>\nAuthType Basic\nAuthName Files\nAuthUserFile {dir}/users\nRequire user alice\n</Location>\n\
    <Location /knocking>\nAuthType Basic\nAuthName Files\nAuthUserFile {dir}/users\nRequire user alice\n</Location>\n\
    <Location /digest>\nAuthType Digest\nAuthName Files\nAuthUserFile {dir}/digests\nRequire user alice\n</Location>\n\
    <Location /closed>\nRequire ip 192.0.2.1\n</Location>\n<Location /old>\nOrder deny,allow\nDeny from all\n</Location>\n\
    ScriptAlias /cgi-bin/ {dir}/www/cgi/\n<Directory {dir}/www/cgi>\nOptions +ExecCGI\n</Directory>\n";
/// Generous: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// A folder that both servers' user may read, with what the configuration names.
fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    // alice:secret and bob:word, as htpasswd -s writes them; alice:Files:secret, as htdigest.
    dir.write(
        "users",
        "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}PLzZCtxLGSqHpiWFC38jHK3fDrM=\n",
    )
    .unwrap();
    dir.write("digests", format!("alice:Files:{}\n", "0".repeat(32)))
        .unwrap();
    dir.write("mime.types", "text/html html\n").unwrap();
    for path in [
        "basic/a.html",
        "knocking/index.html",
        "digest/a.html",
        "closed/a.html",
        "empty/a.txt",
        "locked/sub/a.html",
        "none.html",
    ] {
        dir.write(&format!("www/{path}"), "a page").unwrap();
    }
    dir.write("www/rules/.htaccess", "Options -Indexes\n")
        .unwrap();
    dir.write("www/rules/a.html", "a page").unwrap();
    dir.write("www/cgi/shell.cgi", "#!/bin/sh\necho '/bin/bash: warning: HTTP_X: ignoring function definition attempt' >&2\necho\n")
        .unwrap();
    fs::set_permissions(
        dir.join("www/cgi/shell.cgi"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::create_dir_all(dir.join("www/links")).unwrap();
    symlink("/etc/hostname", dir.join("www/links/a.html")).unwrap();
    for (path, mode) in [
        ("www/none.html", 0),
        ("www/rules/.htaccess", 0),
        ("www/locked", 0o700),
    ] {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    dir
}

/// The requests to that server, each on a connection of its own; its folder is named after it.
fn ask(dir: &TempDir, server: &str, requests: &[String]) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let root = dir.display().to_string();
    fs::create_dir_all(dir.join(server)).unwrap();
    fs::set_permissions(dir.join(server), fs::Permissions::from_mode(0o777)).unwrap();
    let mut text = format!(
        "ServerRoot {root}\nServerName localhost\nListen {address}\nPidFile {root}/{server}/pid\nErrorLog {root}/{server}/error.log\n\
         DefaultRuntimeDir {root}/{server}\nTypesConfig {root}/mime.types\nDocumentRoot {root}/www\n"
    );
    text.push_str(&load_modules(&MODULES));
    // Only an unprivileged user can be refused a file of root's.
    text.push_str(&format!(
        "ScriptSock {root}/{server}/cgid.sock\nUser www-data\nGroup www-data\n"
    ));
    text.push_str(
        &CONFIGURATION
            .replace("{dir}", &root)
            .replace("{server}", server),
    );
    dir.write(&format!("{server}.conf"), text).unwrap();
    let configuration = dir.join(format!("{server}.conf"));
    let running = match server {
        "apache" => start_apache2(&configuration, address).unwrap(),
        _ => operate::apache("")
            .existing_file(configuration)
            .at(address)
            .start_in(dir),
    };
    for request in requests {
        let mut client = Client::connect(address).unwrap();
        client.send(request).unwrap();
        drop(client.read_to_close(SOON));
    }
    // Which writes what is left.
    drop(running.stop());
}

/// Lines are written a little after the answers.
fn until(log: &Path, holds: impl Fn(&str) -> bool) -> String {
    let read = || fs::read_to_string(log).unwrap_or_default();
    poll(SOON, || Some(read()).filter(|text| holds(text))).unwrap_or_else(read)
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{fields}\r\n")
}

/// Number of log lines that the filter matches.
fn matched(log: &Path, filter: &str) -> usize {
    let output = Command::new(require("fail2ban-regex").unwrap())
        .arg(log)
        .arg(filter)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.starts_with("Lines:"))
        .unwrap_or_else(|| panic!("{filter}: {text}"));
    let count = line
        .split(", ")
        .find_map(|part| part.strip_suffix(" matched"));
    count
        .and_then(|count| count.parse().ok())
        .unwrap_or_else(|| panic!("{filter}: {line}"))
}

/// `htdigest`'s side of it: whatever the proof, Apache looks at the fields in the same order.
fn digest(change: &str, to: &str) -> String {
    let fields = [
        ("username", "alice"),
        ("realm", "Files"),
        (
            "nonce",
            "MDAwMDAwMDA=0123456789012345678901234567890123456789",
        ),
        ("uri", "/digest/a.html"),
        ("qop", "auth"),
        ("nc", "00000001"),
        ("cnonce", "abc"),
        ("response", "00000000000000000000000000000000"),
    ];
    let value =
        |name: &str, value: &str| format!("{name}=\"{}\"", if name == change { to } else { value });
    let extra = if change == "algorithm" {
        format!(", algorithm={to}")
    } else {
        String::new()
    };
    let list: Vec<String> = fields.iter().map(|(name, own)| value(name, own)).collect();
    format!("Authorization: Digest {}{extra}\r\n", list.join(", "))
}

#[test]
fn stock_filters_find_in_our_logs_what_they_find_in_apaches() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = folder("fail2ban-stock");
    let user = |credentials: &str| format!("Authorization: Basic {credentials}\r\n");
    // An unknown user, a wrong password, and the credentials of Bob and Alice.
    let (nobody, wrong, bob, alice) = (
        "bm9ib2R5Ong=",
        "YWxpY2U6eA==",
        "Ym9iOndvcmQ=",
        "YWxpY2U6c2VjcmV0",
    );
    let mut requests = vec![
        get("/basic/a.html", ""),
        get("/basic/a.html", &user(nobody)),
        get(
            "/basic/a.html",
            &format!("{}Referer: http://a.example/\r\n", user(nobody)),
        ),
        get("/basic/a.html", &user(wrong)),
        get("/basic/a.html", &user(bob)),
        get("/basic/a.html", &user(alice)),
        get("/basic/a.html", "Authorization: Bearer abc\r\n"),
        get(
            "/knocking/",
            &format!("{}User-Agent: curl/8\r\n", user(alice)),
        ),
        get("/digest/a.html", ""),
        get("/digest/a.html", &digest("", "")),
        get("/digest/a.html", &digest("realm", "Other")),
        get("/digest/a.html", &digest("username", "zoe")),
        get("/digest/a.html", &digest("algorithm", "SHA9")),
        get("/digest/a.html", &digest("uri", "/other")),
        get("/digest/a.html", &user(alice)),
        get("/closed/a.html", ""),
        get("/old/a.html", ""),
        get("/phpmyadmin/index.html", ""),
        get("/~root/a.html", ""),
        get("/none.html", ""),
        get("/rules/a.html", ""),
        get("/locked/sub/a.html", ""),
        get("/links/a.html", ""),
        get("/empty/", ""),
        get("/a.html", "User-Agent: EmailSiphon\r\n"),
        get(
            "/a.html",
            "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\r\n",
        ),
    ];
    requests.push("FOO / HTTP/1.0\r\n\r\n".into());
    ask(&dir, "apache", &requests);
    ask(&dir, "saker", &requests);
    let of = |server: &str, log: &str, filter: &str| {
        matched(&dir.join(format!("{server}/{log}.log")), filter)
    };
    let botsearch = format!("apache-botsearch[webroot=\"{}/www/\"]", dir.display());
    for (filter, log, least) in [
        ("apache-auth", "error", 12),
        ("apache-overflows", "error", 1),
        ("apache-nohome", "error", 1),
        (botsearch.as_str(), "error", 1),
        ("apache-badbots", "access", 1),
        ("apache-fakegooglebot", "access", 0),
        ("apache-pass", "access", 1),
    ] {
        let (apache, saker) = (of("apache", log, filter), of("saker", log, filter));
        let logs = || {
            ["apache", "saker"]
                .map(|server| fs::read_to_string(dir.join(format!("{server}/{log}.log"))).unwrap())
                .join("\n")
        };
        assert!(
            apache == saker && saker >= least,
            "{filter}: apache2 {apache}, saker {saker}\n{}",
            logs()
        );
    }
    // Permissions: the same numbers, as often, with the path.
    let numbers = |server: &str| {
        let text = fs::read_to_string(dir.join(format!("{server}/error.log"))).unwrap();
        ["AH00132", "AH00529", "AH00037", "AH01276"].map(|number| {
            text.lines()
                .filter(|line| line.contains(&format!("] {number}: ")))
                .count()
        })
    };
    assert_eq!(numbers("saker"), numbers("apache"));
    let text = fs::read_to_string(dir.join("saker/error.log")).unwrap();
    assert_eq!(numbers("saker"), [1, 2, 1, 1], "{text}");
    let denied = format!(
        "AH00132: file permissions deny server access: {}/www/none.html",
        dir.display()
    );
    assert!(
        text.lines().any(|line| line.contains("[core:error]")
            && line.contains(" (13)Permission denied: [client ")
            && line.ends_with(&denied)),
        "{text}"
    );
}

/// Apache 2.4.71 says these in words that the stock filters don't know; ours are those that they
/// know.
#[test]
fn words_that_the_stock_filters_know_are_kept() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = folder("fail2ban-kept");
    let requests = [
        get("/cgi-bin/missing.pl", ""),
        get("/cgi-bin/shell.cgi", ""),
        get("/%zz", ""),
        get("/../../etc/passwd", ""),
        get(&format!("/{}", "a".repeat(9000)), ""),
        get("/digest/a.html", &digest("qop", "foo")),
    ];
    ask(&dir, "saker", &requests);
    let log = dir.join("saker/error.log");
    let text = fs::read_to_string(&log).unwrap();
    for (filter, expected) in [
        ("apache-noscript", 1),
        ("apache-shellshock", 1),
        ("apache-overflows", 3),
        ("apache-auth", 1),
    ] {
        assert_eq!(matched(&log, filter), expected, "{filter}\n{text}");
    }
}

/// Paths and fields are the client's own: what looks like a line must not be taken for one.
#[test]
fn our_own_filters_find_the_client_and_nobody_else() {
    let dir = TempDir::new("fail2ban-own").unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(dir.join("www/folder")).unwrap();
    symlink("/etc/hostname", dir.join("www/link")).unwrap();
    let configuration = "[server]\nstate_dir = \"{dir}/state\"\nworkers = 1\nerror_log = \"{dir}/error.log\"\nlog_level = \"info\"\n\
        [[listener]]\naddress = \"{address}\"\n[[site]]\nnames = [\"*\"]\nroot = \"{dir}/www\"\nsymlinks = \"never\"\nphp = \"unix:{dir}/php.sock\"\n";
    let saker = operate::native(configuration).start(dir);
    let lure = "%5Bx%5D%20%5Ba:b%5D%20%5Bpid%201:tid%201%5D%20%5Bclient%20192.0.2.9%5D%20SK0927:%20SK0411:%20a%20client%20was%20refused:\
        %20address=192.0.2.9%20rule=x%20site=y";
    for request in [
        get("/missing.php", ""),
        get("/folder/", ""),
        get("/link", ""),
        get("/a%zz", ""),
        get(&format!("/{lure}.php"), ""),
        get(&format!("/{lure}"), ""),
    ] {
        let mut client = saker.connect().unwrap();
        client.send(&request).unwrap();
        drop(client.read_to_close(SOON));
    }
    let log = saker.dir.join("error.log");
    let text = until(&log, |text| {
        ["SK0927", "SK0502", "SK0506", "SK0401", "SK0512"]
            .iter()
            .all(|id| text.contains(id))
    });
    for (filter, expected) in [
        ("saker-noscript", 2),
        ("saker-denied", 2),
        ("saker-overflows", 1),
        ("saker", 0),
        ("saker-auth", 0),
    ] {
        let path = format!(
            "{}/../../contrib/fail2ban/filter.d/{filter}.conf",
            env!("CARGO_MANIFEST_DIR")
        );
        let output = Command::new(require("fail2ban-regex").unwrap())
            .args(["-o", "ip"])
            .arg(&log)
            .arg(path)
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        assert_eq!(
            found,
            vec!["127.0.0.1"; expected],
            "{filter}\n{text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
