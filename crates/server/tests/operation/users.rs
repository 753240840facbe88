//! Programs and PHP as other users: each site's own, below a server that has given root up. Needs
//! root, as the broker of such a server does.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self, PATIENCE, SAKER, wait_until};
use saker_testkit::{Client, ServerProcess, TempDir};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    process::Command,
};

/// Two users that nothing else of the machine is.
const ALICE: u32 = 41_001;
const BOB: u32 = 41_002;
/// User of PHP, whose processes are listed.
const CAROL: u32 = 41_003;
const DAVE: u32 = 41_004;
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("left out: root is needed");
    }
    is_root
}

/// A folder that everybody may go through, with what belongs to whom.
fn folder(name: &str, files: &[(&str, u32, &str, u32)]) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    for (file, owner, text, mode) in files {
        let path = dir.write(file, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        chown(&path, Some(*owner), Some(*owner)).unwrap();
        let parent = path.parent().unwrap();
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
        chown(parent, Some(*owner), Some(*owner)).unwrap();
    }
    // Owned by the user that the server becomes.
    fs::create_dir(dir.join("state")).unwrap();
    chown(dir.join("state"), Some(NOBODY), Some(NOBODY)).unwrap();
    dir
}

const MODULES: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
     LoadModule alias_module modules/mod_alias.so\nLoadModule env_module modules/mod_env.so\nLoadModule mime_module modules/mod_mime.so\nLoadModule cgid_module modules/mod_cgid.so\n\
     LoadModule suexec_module modules/mod_suexec.so\nLoadModule userdir_module modules/mod_userdir.so\n\
     LoadModule include_module modules/mod_include.so\n";

fn apache(dir: &TempDir, hosts: &str) -> ServerProcess {
    let root = dir.display();
    let text = format!(
        "{MODULES}ServerRoot {root}\nListen {{address}}\nServerName localhost\nUser nobody\nGroup nogroup\nDocumentRoot {root}/www\n\
         <Directory {root}>\nOptions +ExecCGI +Includes\nAddHandler cgi-script .cgi\nRequire all granted\nAllowOverride All\n</Directory>\n{hosts}\n"
    );
    operate::apache(&text).workers(2).start_in(dir)
}

fn ask(server: &ServerProcess, host: &str, target: &str) -> (u16, String) {
    let mut client = Client::connect(server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client
        .send(format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
        .unwrap();
    let response = client.read_response().unwrap();
    (response.status, response.text())
}

fn host(name: &str, own: &str) -> String {
    format!(
        "<VirtualHost 127.0.0.1:{{port}}>\nServerName {name}\nDocumentRoot {{dir}}/{name}\n{own}\n</VirtualHost>\n"
    )
}

const WHO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho $(id -u) $(id -g) $(id -G) ${PLAIN-none} $PATH $(ulimit -t)\n\
                   cat ../bob/secret 2>&1 | head -1\necho said >&2\n";

fn two_hosts() -> String {
    let alice = format!("SuexecUserGroup #{ALICE} #{ALICE}\nSetEnv PLAIN value\nRLimitCPU 77");
    host("alice", &alice) + &host("bob", &format!("SuexecUserGroup #{BOB} #{BOB}"))
}

#[test]
fn programs_of_two_hosts() {
    if !is_root() {
        return;
    }
    let files = [
        ("alice/x.cgi", ALICE, WHO, 0o755),
        ("alice/open/x.cgi", ALICE, WHO, 0o755),
        ("alice/roots.cgi", 0, WHO, 0o755),
        (
            "alice/page.shtml",
            ALICE,
            "<!--#exec cmd=\"id -u\" -->",
            0o644,
        ),
        ("alice/x2.cgi", ALICE, WHO, 0o755),
        ("bob/secret", BOB, "secret", 0o600),
        ("bob/x.cgi", BOB, WHO, 0o755),
        ("elsewhere/x.cgi", ALICE, WHO, 0o755),
    ];
    let dir = folder("users-cgi", &files);
    fs::set_permissions(dir.join("alice/open"), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(dir.join("elsewhere"), dir.join("alice/out")).unwrap();
    chown(dir.join("alice"), Some(ALICE), Some(ALICE)).unwrap();
    let own = "AddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n";
    let server = apache(&dir, &(own.to_owned() + &two_hosts()));
    let (status, text) = ask(&server, "alice", "/x.cgi");
    let path = "/usr/local/bin:/usr/bin:/bin";
    assert_eq!(status, 200, "{text}");
    assert!(
        text.starts_with(&format!("{ALICE} {ALICE} {ALICE} none {path} 77\n")),
        "{text}"
    );
    assert!(text.contains("Permission denied"), "{text}");
    let (_, text) = ask(&server, "bob", "/x.cgi");
    assert!(
        text.starts_with(&format!("{BOB} {BOB} {BOB} none {path} unlimited\nsecret")),
        "{text}"
    );
    let (_, text) = ask(&server, "alice", "/page.shtml");
    assert!(
        !text.contains(&NOBODY.to_string()) && text.contains("an error occurred"),
        "{text}"
    );
    // Root's script, a folder that others may write into, a folder that is no part of the site.
    for target in ["/roots.cgi", "/open/x.cgi", "/out/x.cgi"] {
        assert_eq!(ask(&server, "alice", target).0, 500, "{target}");
    }
    for reason in [
        "mismatch",
        "directory is writable by others",
        "command not in docroot",
        "said",
    ] {
        wait_until(reason, || server.stderr().contains(reason));
    }
    for _ in 0..100 {
        assert_eq!(ask(&server, "alice", "/x2.cgi").0, 200);
    }
    server.stop().unwrap();
}

#[test]
fn a_reload_brings_users_that_the_broker_reads_by_itself() {
    if !is_root() {
        return;
    }
    let files = [
        ("alice/x.cgi", ALICE, WHO, 0o755),
        ("bob/x.cgi", BOB, WHO, 0o755),
        ("bob/secret", BOB, "secret", 0o600),
    ];
    let dir = folder("users-reload", &files);
    let alice = host("alice", &format!("SuexecUserGroup #{ALICE} #{ALICE}"));
    let server = apache(&dir, &(alice + &host("bob", "")));
    let (_, text) = ask(&server, "bob", "/x.cgi");
    assert!(text.starts_with(&format!("{NOBODY} ")), "{text}");
    let bob = host("bob", &format!("SuexecUserGroup #{BOB} #{BOB}"))
        .replace("{dir}", &dir.display().to_string());
    let port = server.address().port().to_string();
    let old = fs::read_to_string(dir.join("httpd.conf")).unwrap();
    let (before, _) = old.split_at(old.find("ServerName bob").unwrap());
    let before = before.rsplit_once("<VirtualHost").unwrap().0.to_owned();
    fs::write(
        dir.join("httpd.conf"),
        before + &bob.replace("{port}", &port),
    )
    .unwrap();
    Command::new("kill")
        .args(["-HUP", &server.pid().to_string()])
        .status()
        .unwrap();
    wait_until("bob is bob", || {
        ask(&server, "bob", "/x.cgi")
            .1
            .starts_with(&format!("{BOB} "))
    });
    server.stop().unwrap();
}

const PHP_WHO: &str = "<?php echo posix_getuid(), ' ', posix_getgid(), ' ', PHP_SAPI, ' ', getmypid(), ' ', @file_get_contents('../bob/secret');";

#[test]
fn a_pool_of_php_for_each_user() {
    if !is_root() {
        return;
    }
    for (kind, sapi) in [
        ("php-fpm", "fpm-fcgi"),
        ("lsphp", "litespeed"),
        ("php-cgi", "cgi-fcgi"),
    ] {
        let files = [
            ("alice/x.php", CAROL, PHP_WHO, 0o644),
            ("bob/x.php", DAVE, PHP_WHO, 0o644),
            ("bob/secret", DAVE, "secret", 0o600),
            ("www/x.php", 0, PHP_WHO, 0o644),
        ];
        let dir = folder(&format!("users-{kind}"), &files);
        let text = |site: &str, user: &str| {
            format!(
                "[[site]]\nnames = [\"{site}\"]\nroot = \"{}/{site}\"\nphp = \"auto\"\n{user}\n",
                dir.display()
            )
        };
        let users = |id: u32| format!("user = \"{id}\"\ngroup = \"{id}\"");
        let sites = text("alice", &users(CAROL)) + &text("bob", &users(DAVE)) + &text("www", "");
        let root = dir.display();
        let text = format!(
            "[server]\nworkers = 1\nuser = \"nobody\"\nstate_dir = \"{root}/state\"\n\n[php]\nprogram = \"{kind}\"\nprocesses = 2\n\
                 pool_idle_timeout = \"3s\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n{sites}"
        );
        let server = operate::native(&text).start_in(&dir);
        let log = || server.stderr();
        let (status, text) = ask(&server, "alice", "/x.php");
        assert_eq!(status, 200, "{kind}: {text} {}", log());
        assert!(
            text.starts_with(&format!("{CAROL} {CAROL} {sapi} ")) && !text.contains("secret"),
            "{kind}: {text}"
        );
        let (_, text) = ask(&server, "bob", "/x.php");
        assert!(
            text.starts_with(&format!("{DAVE} {DAVE} {sapi} ")) && text.ends_with("secret"),
            "{kind}: {text}"
        );
        let bobs: u32 = text.split(' ').nth(3).unwrap().parse().unwrap();
        let (_, text) = ask(&server, "www", "/x.php");
        assert!(
            text.starts_with(&format!("{NOBODY} {NOBODY} {sapi} ")),
            "{kind}: {text}"
        );
        // Only the server may connect.
        for socket in fs::read_dir(dir.join("state"))
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock"))
        {
            assert_eq!(
                socket.metadata().unwrap().permissions().mode() & 0o777,
                0o600,
                "{kind}: {:?}",
                socket.file_name()
            );
        }
        let pids = processes_of(DAVE);
        assert!(
            pids.contains(&bobs) || kind == "php-cgi",
            "{kind}: {pids:?}"
        );
        // All of a pool is killed: the next request has a new one.
        Command::new("kill")
            .arg("-9")
            .args(pids.iter().map(u32::to_string))
            .status()
            .unwrap();
        wait_until(&format!("{kind} begins again"), || {
            ask(&server, "bob", "/x.php").0 == 200
        });
        // Without requests it ends by itself, and starts with the next one.
        wait_until(&format!("{kind} ends when idle"), || {
            processes_of(DAVE).is_empty()
        });
        assert_eq!(ask(&server, "bob", "/x.php").0, 200, "{kind}");
        assert!(server.stop().unwrap().success(), "{kind}");
        wait_until("nothing is left", || {
            processes_of(DAVE).is_empty() && processes_of(CAROL).is_empty()
        });
    }
}

/// It is made by root, in no home of root's, and belongs to whom the server becomes.
#[test]
fn a_local_certificate_is_found_again_at_a_reload() {
    if !is_root() {
        return;
    }
    let dir = folder("users-local", &[("www/a.txt", NOBODY, "text", 0o644)]);
    chown(dir.join("state"), Some(0), Some(0)).unwrap();
    fs::create_dir_all(dir.join("home/.local/share")).unwrap();
    let root = dir.display();
    let text = format!(
        "[server]\nworkers = 1\nuser = \"nobody\"\nstate_dir = \"{root}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\
         tls = true\n\n[[site]]\nnames = [\"a.example\"]\nroot = \"{root}/www\"\ntls.automatic = \"local\"\n"
    );
    let server = operate::native(&text)
        .env("HOME", dir.join("home"))
        .start_in(&dir);
    let authority = fs::metadata(dir.join("state/authority/authority.key")).unwrap();
    assert_eq!(
        (authority.uid(), authority.permissions().mode() & 0o777),
        (NOBODY, 0o600)
    );
    for _ in 0..2 {
        let reload = Command::new(SAKER)
            .arg("reload")
            .arg("-c")
            .arg(dir.join("saker.toml"))
            .output()
            .unwrap();
        assert!(
            reload.status.success(),
            "{}",
            String::from_utf8_lossy(&reload.stderr)
        );
    }
    assert!(server.stop().unwrap().success());
}

#[test]
fn programs_of_native_sites() {
    let files = [
        ("www/x.cgi", NOBODY, WHO, 0o755),
        ("www/plain.cgi", NOBODY, "text", 0o644),
        ("www/bin/tool", NOBODY, WHO, 0o755),
        ("www/a.txt", 0, "text", 0o644),
    ];
    if !is_root() {
        return;
    }
    let dir = folder("users-native", &files);
    chown(dir.join("www"), Some(NOBODY), Some(NOBODY)).unwrap();
    chown(dir.join("state"), Some(0), Some(0)).unwrap();
    fs::write(
        dir.join("www/index.cgi"),
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s' $SCRIPT_NAME $PATH_INFO $QUERY_STRING\n",
    )
    .unwrap();
    fs::set_permissions(dir.join("www/index.cgi"), fs::Permissions::from_mode(0o755)).unwrap();
    chown(dir.join("www/index.cgi"), Some(NOBODY), Some(NOBODY)).unwrap();
    let root = dir.display();
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{root}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n[[site]]\n\
             root = \"{root}/www\"\ncgi = [\"*.cgi\"]\nindex = [\"index.cgi\"]\nuser = \"nobody\"\n\n\
             [[site.route]]\npath = \"/bin/*\"\ncgi = [\"*\"]\n"
    );
    let server = operate::native(&text).start_in(&dir);
    for target in ["/x.cgi", "/bin/tool"] {
        let (status, text) = ask(&server, "a", target);
        assert!(
            status == 200 && text.starts_with(&format!("{NOBODY} ")),
            "{target}: {status} {text}"
        );
    }
    assert_eq!(
        ask(&server, "a", "/index.cgi/more?q=1").1,
        "/index.cgi|/more|q=1"
    );
    assert_eq!(ask(&server, "a", "/").1, "/index.cgi||");
    let statuses = ["/plain.cgi", "/none.cgi", "/a.txt"].map(|target| ask(&server, "a", target).0);
    assert_eq!(statuses, [500, 404, 200]);
    server.stop().unwrap();
}

/// Running ones.
fn processes_of(uid: u32) -> Vec<u32> {
    let listed = Command::new("ps")
        .args(["-o", "pid=,stat=", "-U", &uid.to_string()])
        .output()
        .unwrap()
        .stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let running = listed.lines().filter(|line| !line.contains('Z'));
    running
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect()
}
