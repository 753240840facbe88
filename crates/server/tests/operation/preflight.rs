//! Diagnostics of `saker check` and `apache2 -t` about the machine: users, logs, keys and sockets
//! that are missing or closed; and files that a run as one user leaves to the next.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use crate::operate::{PATIENCE, SAKER, ask, saker, stderr, stdout};
use saker_testkit::{Client, ServerProcess, Signal, TempDir};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Output},
};

const NOBODY: u32 = 65_534;
const MODULES: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
     LoadModule ssl_module modules/mod_ssl.so\nLoadModule unixd_module modules/mod_unixd.so\nLoadModule headers_module modules/mod_headers.so\n\
     LoadModule proxy_module modules/mod_proxy.so\nLoadModule proxy_fcgi_module modules/mod_proxy_fcgi.so\n";

/// A folder that everybody may go through.
fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    dir.write("www/index.html", "<p>hello</p>\n").unwrap();
    fs::set_permissions(dir.join("www"), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn native(dir: &TempDir, server: &str, site: &str) -> std::path::PathBuf {
    let root = dir.display();
    let text = format!(
        "[server]\n{server}\n\n[[listener]]\naddress = \"127.0.0.1:8080\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{root}/www\"\n{site}\n"
    );
    dir.write("saker.toml", text.replace("{dir}", &root.to_string()))
        .unwrap()
}

fn check(path: &Path) -> (i32, String) {
    let output = saker(["check".as_ref(), "-c".as_ref(), path.as_os_str()]);
    (output.status.code().unwrap_or(-1), stderr(&output))
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("left out: root is needed");
    }
    is_root
}

/// This program as another user, wherever the build is.
fn as_nobody(dir: &TempDir, arguments: &[&str]) -> Output {
    let program = dir.join("saker");
    if !program.exists() {
        dir.copy_program(SAKER, "saker").unwrap();
    }
    Command::new(program)
        .args(arguments)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap()
}

#[test]
fn what_is_missing_is_named_with_its_line() {
    let dir = folder("preflight-missing");
    let server =
        "user = \"no-such-user\"\ngroup = \"no-such-group\"\nerror_log = \"{dir}/none/error.log\"";
    let site = "access_log = \"{dir}/nowhere/access.log\"\nphp = \"unix:/run/php/php9.9-fpm.sock\"";
    let (status, said) = check(&native(&dir, server, site));
    assert_eq!(status, 1, "{said}");
    for words in [
        "saker.toml:2:8: error: there is no user `no-such-user`",
        "saker.toml:3:9: error: there is no group `no-such-group`",
        "saker.toml:4:13: error: cannot open error log",
        "saker.toml:12:14: error: cannot open access log",
        "saker.toml:13:7: warning: there is no socket /run/php/php9.9-fpm.sock",
        "apt-get install php9.9-fpm",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(
        said.contains(&format!("mkdir -p {}/nowhere", dir.display())),
        "{said}"
    );
    // Nothing is made, and what is there is no error.
    assert!(!dir.join("none").exists() && !dir.join("nowhere").exists());
    fs::create_dir(dir.join("logs")).unwrap();
    let (status, said) = check(&native(
        &dir,
        "error_log = \"{dir}/logs/error.log\"",
        "access_log = \"{dir}/logs/access.log\"",
    ));
    assert_eq!((status, said.as_str()), (0, ""));
    assert_eq!(fs::read_dir(dir.join("logs")).unwrap().count(), 0);
}

#[test]
fn a_log_that_others_could_have_replaced() {
    if !is_root() {
        return;
    }
    let dir = folder("preflight-logs");
    let path = native(
        &dir,
        "user = \"nobody\"\ngroup = \"nogroup\"",
        "access_log = \"{dir}/logs/access.log\"",
    );
    fs::create_dir(dir.join("logs")).unwrap();
    chown(dir.join("logs"), Some(2), None).unwrap();
    // The broker makes it there, and follows no link.
    assert_eq!(check(&path), (0, String::new()));
    symlink("/etc/passwd", dir.join("logs/access.log")).unwrap();
    let (status, said) = check(&path);
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("saker.toml:11:14: error: cannot open access log")
            && said.contains("as root: a symbolic link"),
        "{said}"
    );
    assert!(
        said.contains("help: let root alone decide what stands in"),
        "{said}"
    );
}

#[test]
fn apache2_t_looks_at_logs_and_keys() {
    let dir = folder("preflight-apache");
    let root = dir.display();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    dir.write("cert.pem", made.cert.pem()).unwrap();
    let key = dir
        .write("keys/key.pem", made.signing_key.serialize_pem())
        .unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(dir.join("keys"), fs::Permissions::from_mode(0o700)).unwrap();
    let text = format!(
        "{MODULES}ServerName localhost\nListen 127.0.0.1:8443\nErrorLog {root}/logs/error.log\nDocumentRoot {root}/www\n\
         <VirtualHost *:8443>\nSSLEngine on\nSSLCertificateFile {root}/cert.pem\nSSLCertificateKeyFile {root}/keys/key.pem\n</VirtualHost>\n\
         <Location /x>\nSetHandler \"proxy:unix:/run/php/php9.9-fpm.sock|fcgi://localhost\"\n</Location>\n"
    );
    let conf = dir.write("httpd.conf", text).unwrap().display().to_string();
    symlink(SAKER, dir.join("apache2")).unwrap();
    let test = || {
        stderr(
            &Command::new(dir.join("apache2"))
                .args(["-t", "-f", &conf])
                .output()
                .unwrap(),
        )
    };
    let said = test();
    assert!(
        said.contains(&format!("Syntax error on line 10 of {conf}:\ncannot open error log {root}/logs/error.log: No such file")),
        "{said}"
    );
    fs::create_dir(dir.join("logs")).unwrap();
    assert_eq!(test(), "Syntax OK\n");
    let (output, arguments) = (
        saker(["check", "--apache", &conf]),
        ["check", "--apache", &conf],
    );
    assert!(
        output.status.success()
            && stderr(&output)
                .contains("httpd.conf:18:1: warning: there is no socket /run/php/php9.9-fpm.sock")
    );
    if is_root() {
        // Files that only root may read are no error for another user.
        let output = as_nobody(&dir, &arguments);
        let said = stderr(&output);
        assert!(
            output.status.success()
                && said.contains("note: ")
                && said.contains("key.pem (key) could not be looked at"),
            "{said}"
        );
    }
    fs::remove_file(key).unwrap();
    let said = test();
    assert!(
        said.contains("Syntax error on line 14")
            && said.contains("key.pem (key) can't be read: No such file"),
        "{said}"
    );
}

/// Two sections that say the same: each is known by its own line.
#[test]
fn explain_names_the_section_in_force() {
    let dir = folder("preflight-explain");
    let root = dir.display();
    dir.write("www/a/x.txt", "x").unwrap();
    let text = format!(
        "{MODULES}ServerName localhost\nListen 127.0.0.1:8080\nDocumentRoot {root}/www\n\
         <Directory {root}/www/other>\nRequire all granted\n</Directory>\n\
         <Directory {root}/www>\nHeader set X-Mark one\nAllowOverride All\n</Directory>\n\
         <Directory {root}/www/a>\nRequire all granted\n</Directory>\n"
    );
    let conf = dir.write("httpd.conf", text).unwrap().display().to_string();
    let explain = || stdout(&saker(["explain", "--apache", &conf, "/a/x.txt"]));
    let said = explain();
    assert!(
        said.contains(&format!("`Require all granted`: granted  [{conf}:19:1]")),
        "{said}"
    );
    assert!(
        said.contains(&format!("`Header` edits the field `X-Mark`  [{conf}:15:1]")),
        "{said}"
    );
    dir.write("www/.htaccess", "Require all granted\n").unwrap();
    let inner = dir
        .write(
            "www/a/.htaccess",
            "\nRequire all granted\nHeader set X-Mark one\n",
        )
        .unwrap()
        .display()
        .to_string();
    let said = explain();
    assert!(
        said.contains(&format!("`Require all granted`: granted  [{inner}:2:1]")),
        "{said}"
    );
    assert!(
        said.contains(&format!("overridden by {inner}:3:1  [{conf}:15:1]")),
        "{said}"
    );
    assert!(
        said.contains(&format!("`Header` edits the field `X-Mark`  [{inner}:3:1]")),
        "{said}"
    );
}

const RULES: &str = "LoadModule rewrite_module modules/mod_rewrite.so\nLoadModule authz_host_module modules/mod_authz_host.so\n\
     LoadModule setenvif_module modules/mod_setenvif.so\n";

/// The lines by which an outcome is cached, and those that prevent it.
#[test]
fn explain_names_the_lines_that_an_outcome_depends_on() {
    let dir = folder("preflight-depends");
    let root = dir.display();
    dir.write("www/x.txt", "x").unwrap();
    let text = format!(
        "{MODULES}{RULES}ServerName localhost\nListen 127.0.0.1:8080\nDocumentRoot {root}/www\n\
         <Directory {root}/www>\nAllowOverride All\nRequire all granted\n</Directory>\n"
    );
    let conf = dir.write("httpd.conf", text).unwrap().display().to_string();
    let explain = |rules: &str| {
        let inner = dir.write("www/.htaccess", rules).unwrap();
        let said = stdout(&saker(["explain", "--apache", &conf, "/x.txt"]));
        (said, inner.display().to_string())
    };
    let has = |said: &str, text: String| assert!(said.contains(&text), "`{text}` not in:\n{said}");
    let (said, inner) = explain(
        "<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.0/24\n</RequireAll>\nRewriteEngine on\n\
         RewriteCond %{HTTP_USER_AGENT} bot\nRewriteRule ^ - [F]\n",
    );
    has(&said, format!("tests the client address  [{inner}:3:1]"));
    has(
        &said,
        format!("tests the field `user-agent`  [{inner}:6:1]"),
    );
    has(
        &said,
        "in memory, by listener, host and path, for requests".into(),
    );
    let (said, inner) = explain(
        "RewriteEngine on\nRewriteCond %{TIME_HOUR} >25\nRewriteRule ^ - [F]\n\
         RewriteCond %{LA-U:REQUEST_FILENAME} none\nRewriteRule ^ - [F]\n",
    );
    has(
        &said,
        format!("not, because of {inner}:2:1 (depends on the time)"),
    );
    has(&said, format!("{inner}:4:1 (depends on the sub-request)"));
    let (said, inner) = explain("Header set X-A b \"expr=%{HTTP_COOKIE} == 'x'\"\n");
    has(
        &said,
        format!("not, because of {inner}:1:1 (the edit of the field `X-A` depends on the request)"),
    );
    // A redirect is an outcome like any other.
    let (said, inner) = explain("RewriteEngine on\nRewriteRule ^x /y [R=301,L]\n");
    has(&said, format!("tests the scheme  [{inner}:2:1]"));
    has(&said, format!("tests the query  [{inner}:2:1]"));
    has(
        &said,
        "in memory, by listener, host and path, for requests".into(),
    );
}

#[test]
fn check_lists_what_rules_cost() {
    let dir = folder("preflight-cost");
    let root = dir.display();
    let text = format!(
        "{MODULES}{RULES}ServerName localhost\nListen 127.0.0.1:8080\nDocumentRoot {root}/www\nRewriteMap slow prg:/bin/cat\n\
         <Directory {root}/www>\nAllowOverride All\n<RequireAll>\nRequire not ip 192.0.2.0/24\nRequire all granted\n</RequireAll>\n</Directory>\n"
    );
    let conf = dir.write("httpd.conf", text).unwrap().display().to_string();
    let inner = dir
        .write(
            "www/.htaccess",
            "RewriteEngine on\nRewriteCond %{HTTP_REFERER} evil\nRewriteRule ^ - [F]\nRewriteCond %{TIME_HOUR} >8\nRewriteRule ^(.*) /y?$1\n",
        )
        .unwrap()
        .display()
        .to_string();
    let output = saker(["check", "--cost", "--apache", &conf]);
    let said = stdout(&output);
    for line in [
        format!("{conf}:18:1: condition: `Require not ip 192.0.2.0/24` tests the client address\n"),
        format!(
            "{inner}:2:1: condition: `RewriteCond %{{HTTP_REFERER}} evil` tests the field `referer`\n"
        ),
        format!(
            "{inner}:4:1: dispatched each time: `RewriteCond %{{TIME_HOUR}} >8` reads the time\n"
        ),
        "cost: 1 rule off the route cache, 2 asked as conditions\n".to_owned(),
        ": ok: ".to_owned(),
    ] {
        assert!(
            said.contains(&line),
            "`{line}` not in:\n{said}{}",
            stderr(&output)
        );
    }
    let native = "[[listener]]\naddress = \"127.0.0.1:8081\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"www\"\n\n\
                  [site.hotlink]\nallow = [\"*.example.org\"]\n";
    let conf = dir
        .write("saker.toml", native)
        .unwrap()
        .display()
        .to_string();
    let output = saker(["check", "--cost", "-c", &conf]);
    let said = stdout(&output);
    let line = format!("{conf}:4:1: condition: `[[site]]` tests the field `referer`\n");
    assert!(said.contains(&line), "{said}{}", stderr(&output));
    let output = saker(["check", "--cost", "--json", "-c", &conf]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        report["cost"][0]["conditions"],
        serde_json::json!(["the field `referer`"]),
        "{report}"
    );
    assert!(stdout(&saker(["check", "-c", &conf])).starts_with(&format!("{conf}: ok")));
}

#[test]
fn a_running_server_is_found_by_what_it_runs_by() {
    let dir = folder("preflight-found");
    let server = start(&dir, "");
    let conf = dir.join("saker.toml").display().to_string();
    let state = dir.join("state").display().to_string();
    let apache = dir
        .write(
            "httpd.conf",
            format!("{MODULES}ServerName localhost\nListen 127.0.0.1:1\n"),
        )
        .unwrap()
        .display()
        .to_string();
    for arguments in [
        &["reload", "-c", &conf][..],
        &["reload", "--state-dir", &state],
        &["reload", "-c", &conf, "--state-dir", &state],
        &["status", "-c", "/no/such/file", "--state-dir", &state],
        &["reload", "--apache", &apache, "--state-dir", &state],
        &[
            "status",
            "--apache",
            &apache,
            "-D",
            "X",
            "--state-dir",
            &state,
        ],
        &["reopen-logs", "-c", &conf],
    ] {
        let output = saker(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let output = saker(["reload", "--apache", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        saker(["stop", "-c", &conf, "--state-dir", &state])
            .status
            .success()
    );
    drop(server);
}

/// Started as `apache2`, it has its state beside its PidFile.
#[test]
fn a_server_of_apaches_configuration_is_found_by_it() {
    let dir = folder("preflight-found-apache");
    let root = dir.display();
    fs::create_dir(dir.join("run")).unwrap();
    let text = format!(
        "{MODULES}ServerName localhost\nListen {{address}}\nPidFile {root}/run/pid\nDocumentRoot {root}/www\n"
    );
    symlink(SAKER, dir.join("apache2")).unwrap();
    let conf = dir.join("httpd.conf").display().to_string();
    let server = operate::httpd(&dir.join("apache2"), &text)
        .arguments(&["-D", "FOREGROUND"])
        .start_in(&dir);
    server.wait_until_ready(&dir.join("run/saker")).unwrap();
    let output = saker(["reload", "--apache", &conf]);
    assert!(
        output.status.success() && stdout(&output).contains("generation 2"),
        "{}",
        stderr(&output)
    );
    assert!(saker(["status", "--apache", &conf]).status.success());
    assert!(saker(["stop", "--apache", &conf]).status.success());
}

fn start(dir: &TempDir, user: &str) -> ServerProcess {
    let root = dir.display();
    let text = format!(
        "[server]\nstate_dir = \"{root}/state\"\nerror_log = \"{root}/logs/error.log\"\n{user}\n[cache]\nfolder = \"{root}/cache\"\n\
         [[listener]]\naddress = \"{{address}}\"\n[[site]]\nnames = [\"*\"]\nroot = \"{root}/www\"\naccess_log = \"{root}/logs/access.log\"\n\
         [site.cache]\n"
    );
    fs::create_dir_all(dir.join("logs")).unwrap();
    operate::native(&text).workers(2).start_in(dir)
}

/// As one user, as root, as another user: each finds what the one before has left to be its own.
#[test]
fn runs_as_several_users_leave_nothing_to_be_refused() {
    if !is_root() {
        return;
    }
    let dir = folder("preflight-users");
    let users = [
        "user = \"nobody\"\ngroup = \"nogroup\"",
        "",
        "user = \"daemon\"",
        "user = \"nobody\"\ngroup = \"nogroup\"",
        "",
    ];
    for (run, user) in users.into_iter().enumerate() {
        let mut server = start(&dir, user);
        let mut client = Client::connect(server.address()).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        assert_eq!(client.get("/").unwrap().status, 200);
        assert!(
            saker([
                "ban",
                "192.0.2.1",
                "--state-dir",
                &dir.join("state").display().to_string()
            ])
            .status
            .success()
        );
        server.signal(Signal::TERM).unwrap();
        assert_eq!(operate::exit_code(&mut server), Some(0));
        // Logs are root's from the first run on, and nothing is given away.
        for log in ["logs/error.log", "logs/access.log"] {
            assert_eq!(fs::metadata(dir.join(log)).unwrap().uid(), 0, "{log}");
        }
        let said = fs::read_to_string(dir.join("logs/error.log")).unwrap();
        assert!(
            !said.contains("SK1004") && !said.contains("Permission denied"),
            "{user}: {said}"
        );
        assert_eq!(
            fs::read_to_string(dir.join("logs/access.log"))
                .unwrap()
                .lines()
                .count(),
            run + 1
        );
        assert!(ask(&dir.join("state"), "status").is_none());
    }
}

fn certificate(dir: &TempDir) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for (name, pem) in [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ] {
        let path = dir.write(&format!("keys/{name}.new"), pem).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&path, dir.join("keys").join(name)).unwrap();
    }
}

/// The server's user can't look into the directory, and the kernel does not tell it of changes
/// there.
#[test]
fn a_certificate_renewed_in_a_directory_of_roots_is_noticed() {
    if !is_root() {
        return;
    }
    let dir = folder("preflight-renewed");
    certificate(&dir);
    fs::set_permissions(dir.join("keys"), fs::Permissions::from_mode(0o700)).unwrap();
    let root = dir.display();
    let text = format!(
        "[server]\nstate_dir = \"{root}/state\"\nuser = \"nobody\"\ngroup = \"nogroup\"\n[[listener]]\naddress = \"{{address}}\"\ntls = true\n\
             [[site]]\nnames = [\"localhost\"]\nroot = \"{root}/www\"\n[site.tls]\ncertificate = \"{root}/keys/cert.pem\"\nkey = \"{root}/keys/key.pem\"\n"
    );
    let server = operate::native(&text).workers(2).start_in(&dir);
    certificate(&dir);
    operate::wait_until("the new certificate is shown", || {
        server.stderr().contains("SK0701")
    });
}

/// logrotate has moved them away by then.
#[test]
fn logs_are_reopened_where_a_graceful_restart_is_refused() {
    let dir = folder("preflight-refused");
    let root = dir.display();
    let log = dir.join("access.log");
    let text = format!(
        "{MODULES}LoadModule log_config_module modules/mod_log_config.so\nServerName localhost\nListen {{address}}\nDocumentRoot {root}/www\n\
         CustomLog {root}/access.log \"%U\"\n"
    );
    let server = operate::apache(&text).workers(2).start_in(&dir);
    fs::write(dir.join("httpd.conf"), "NoSuchDirective\n").unwrap();
    fs::rename(&log, dir.join("access.log.1")).unwrap();
    server.signal(Signal::USR1).unwrap();
    operate::wait_until("the new log is made", || log.exists());
    operate::wait_until("the refusal is reported", || {
        server.stderr().contains("SK0202")
    });
    let mut client = Client::connect(server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client.get("/index.html").unwrap();
    operate::wait_until("the request is in it", || {
        fs::read_to_string(&log).is_ok_and(|text| text == "/index.html\n")
    });
}

/// PHP of the server's own runs in the place of mod_php, whose version may be missing.
#[test]
fn a_php_that_is_not_there_is_told_ahead() {
    let dir = folder("preflight-php");
    let root = dir.display();
    let text = format!(
        "{MODULES}LoadModule php5_module modules/libphp5.6.so\nServerRoot {root}\nListen {{address}}\nServerName localhost\nDocumentRoot {root}/www\n"
    );
    let path = dir
        .write("httpd.conf", text.replace("{address}", "127.0.0.1:8080"))
        .unwrap();
    let checked = saker(["check".as_ref(), "--apache".as_ref(), path.as_os_str()]);
    let said = stderr(&checked);
    assert!(
        checked.status.success()
            && said.contains("mod_php is PHP 5.6")
            && said.contains("httpd.conf:"),
        "{said}"
    );
    let program = dir.join("apache2");
    symlink(SAKER, &program).unwrap();
    let tested = Command::new(&program)
        .arg("-t")
        .arg("-f")
        .arg(&path)
        .output()
        .unwrap();
    let said = stderr(&tested);
    assert!(
        tested.status.success()
            && said.contains("mod_php is PHP 5.6")
            && said.ends_with("Syntax OK\n"),
        "{said}"
    );
    let server = operate::apache(&text).file("started.conf").start_in(&dir);
    assert!(
        server.stderr().contains("mod_php is PHP 5.6"),
        "{}",
        server.stderr()
    );
    server.stop().unwrap();
}
