//! A site's PHP and programs against the server that starts them: its control socket, its keys, its
//! processes, its descriptors.
//!
//! Caveat: root is needed, because only a server that root has started has anything to keep from
//! the user that it becomes. Out of scope: which programs the broker starts (crate `broker`),
//! suEXEC's checks (`users`).

use crate::operate::{self, PATIENCE, SAKER, wait_until};
use saker_testkit::{Client, ServerProcess, TempDir, require};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

const NOBODY: u32 = 65_534;
/// Users that nothing else of the machine is.
const OPERATOR: u32 = 41_011;
const ALICE: u32 = 41_012;

/// Attacks that a script of the server's own user tries.
const ATTACK: &str = r#"<?php
$state = $_GET['state']; $pid = (int) $_GET['pid'];
echo 'user=', posix_getuid(), "\n";
echo 'groups=', implode(',', posix_getgroups()), "\n";
$socket = @stream_socket_client("unix://$state/control.sock", $code, $error, 5);
if ($socket) { fwrite($socket, "{\"verb\":\"stop\",\"graceful\":false}\n"); echo 'asked=', stream_get_contents($socket), "\n"; }
echo 'listed=', json_encode(@scandir($state)), "\n";
foreach (['secret', 'saker.pid', 'control.sock'] as $name) {
    echo "$name=", json_encode(@file_get_contents("$state/$name")), json_encode(@chmod("$state/$name", 0666)), json_encode(@unlink("$state/$name")), "\n";
}
foreach (['mem', 'environ', 'maps', 'fd'] as $name) {
    echo "$name=", json_encode($name === 'fd' ? @scandir("/proc/$pid/fd") : @file_get_contents("/proc/$pid/$name", false, null, 0, 16)), "\n";
}
foreach ([0, 15, 9] as $signal) { echo "kill$signal=", json_encode(@posix_kill($pid, $signal)), "\n"; }
$script = $_GET['script'];
echo 'script=', is_file($script) ? json_encode([@file_put_contents($script, '<?php '), @unlink($script), @chmod($script, 0666)]) : 'none', "\n";
echo 'killall=', json_encode(@posix_kill(-1, 0)), "\n";
"#;

/// A folder that everybody may go through: `www` is the server's user's, `state` is too, as an
/// administrator may have left it.
fn folder(name: &str, files: &[(&str, u32, &str, u32)]) -> TempDir {
    assert!(
        rustix::process::geteuid().is_root(),
        "root is needed: it starts the servers of these tests"
    );
    let dir = TempDir::new(name).unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    for (file, owner, text, mode) in files {
        let path = dir.write(file, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        for path in [path.as_path(), path.parent().unwrap()] {
            chown(path, Some(*owner), Some(*owner)).unwrap();
        }
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir(dir.join("state")).unwrap();
    chown(dir.join("state"), Some(NOBODY), Some(NOBODY)).unwrap();
    dir.write("state/secret", "a key").unwrap();
    fs::set_permissions(dir.join("state/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    chown(dir.join("state/secret"), Some(NOBODY), Some(NOBODY)).unwrap();
    dir
}

/// By the native configuration; `{dir}` and `{port}` are filled in.
fn native(dir: &TempDir, text: &str) -> ServerProcess {
    // A descriptor that the server's parent left open.
    let inherits = ["/bin/sh", "-c", "exec 9</etc/passwd; exec \"$0\" \"$@\""];
    let server = operate::native(text).wrapped(&inherits).start_in(dir);
    wait_until("the server is started", || {
        status(dir, None).status.success()
    });
    server
}

/// `saker status`, as root or as a user.
fn status(dir: &TempDir, user: Option<u32>) -> Output {
    let mut command = Command::new(SAKER);
    command
        .args(["status", "--state-dir"])
        .arg(dir.join("state"))
        .current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.output().unwrap()
}

fn get(server: &ServerProcess, target: &str) -> (u16, String) {
    let mut client = Client::connect(server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client
        .send(format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
        .unwrap();
    let response = client.read_response().unwrap();
    (response.status, response.text())
}

fn php_site(kind: &str, php: &str) -> String {
    format!(
        "[server]\nworkers = 1\nuser = \"nobody\"\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"{kind}\"\nprocesses = 2\n{php}\n\
         [[listener]]\naddress = \"127.0.0.1:{{port}}\"\n\n[[site]]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\n"
    )
}

/// The script that php-cgi of every user runs first, where root has written it.
fn roots_script() -> PathBuf {
    let starts = std::env::var_os("SAKER_STARTS").unwrap_or_else(|| "/run/saker-starts".into());
    Path::new(&starts).with_file_name("saker-php/saker-php-0-0.php")
}

fn attack(server: &ServerProcess, dir: &TempDir) -> String {
    let (status, text) = get(
        server,
        &format!(
            "/attack.php?state={}/state&pid={}&script={}",
            dir.display(),
            server.pid(),
            roots_script().display()
        ),
    );
    assert_eq!(status, 200, "{text} {}", server.stderr());
    text
}

fn assert_repelled(text: &str, user: u32) {
    assert!(text.contains(&format!("user={user}\n")), "{text}");
    for line in [
        "listed=false",
        "secret=falsefalsefalse",
        "saker.pid=falsefalsefalse",
        "control.sock=falsefalsefalse",
        "mem=false",
        "fd=false",
        "environ=false",
        "maps=false",
        "kill0=false",
        "kill15=false",
        "kill9=false",
        "script=[false,false,false]",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    assert!(!text.contains("asked="), "{text}");
    let groups = text
        .lines()
        .find_map(|line| line.strip_prefix("groups="))
        .unwrap();
    assert!(
        groups
            .split(',')
            .all(|group| group.parse().is_ok_and(|group: u32| group < 1_000_000)),
        "{text}"
    );
}

/// PHP as the user that the server has become: the files of a site are that user's, so that uploads
/// work, and all the same nothing of the server is.
#[test]
fn php_of_the_servers_user_reaches_nothing_of_the_server() {
    for kind in ["php-fpm", "lsphp", "php-cgi"] {
        let dir = folder(
            &format!("privileges-{kind}"),
            &[("www/attack.php", NOBODY, ATTACK, 0o644)],
        );
        let server = native(&dir, &php_site(kind, ""));
        for _ in 0..2 {
            assert_repelled(&attack(&server, &dir), NOBODY);
        }
        // What it did has changed nothing, and a reload brings back none of it.
        let reload = Command::new(SAKER)
            .args(["reload", "--state-dir"])
            .arg(dir.join("state"))
            .output()
            .unwrap();
        assert!(
            reload.status.success(),
            "{}",
            String::from_utf8_lossy(&reload.stderr)
        );
        assert_repelled(&attack(&server, &dir), NOBODY);
        assert_eq!(
            fs::read_to_string(dir.join("state/secret")).unwrap(),
            "a key"
        );
        let state = fs::metadata(dir.join("state")).unwrap();
        assert_eq!(
            (state.uid(), state.permissions().mode() & 0o777),
            (0, 0o770),
            "{kind}"
        );
        assert!(server.stop().unwrap().success(), "{kind}");
        // The next start finds everything as it was left.
        let server = native(&dir, &php_site(kind, ""));
        assert_repelled(&attack(&server, &dir), NOBODY);
        assert_eq!(fs::metadata(dir.join("state")).unwrap().gid(), state.gid());
        assert!(server.stop().unwrap().success(), "{kind}");
    }
}

#[test]
fn php_of_an_apache_configuration_does_not_either() {
    let dir = folder(
        "privileges-apache",
        &[("www/attack.php", NOBODY, ATTACK, 0o644)],
    );
    let root = dir.display().to_string();
    let text = format!(
        "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
             LoadModule mime_module modules/mod_mime.so\nLoadModule php_module modules/libphp.so\nServerRoot {root}\nListen {{address}}\n\
             ServerName localhost\nUser nobody\nGroup nogroup\nDocumentRoot {root}/www\n<Directory {root}/www>\nRequire all granted\n</Directory>\n\
             <FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n"
    );
    let server = operate::apache(&text).start_in(&dir);
    wait_until("the server is started", || {
        status(&dir, None).status.success()
    });
    assert_repelled(&attack(&server, &dir), NOBODY);
    assert!(server.stop().unwrap().success());
}

#[test]
fn php_has_a_user_of_its_own_where_one_is_named() {
    let dir = folder("privileges-own", &[("www/attack.php", 0, ATTACK, 0o644)]);
    let server = native(&dir, &php_site("php-fpm", "user = \"daemon\"\n"));
    let daemon = saker_net::process::user_id("daemon").unwrap().unwrap();
    assert_repelled(&attack(&server, &dir), daemon);
    assert!(server.stop().unwrap().success());
}

fn control_site(users: &str) -> String {
    format!(
        "[server]\nworkers = 1\nuser = \"nobody\"\nstate_dir = \"{{dir}}/state\"\n{users}\n\n[[listener]]\naddress = \"127.0.0.1:{{port}}\"\n\n\
         [[site]]\nroot = \"{{dir}}/www\"\n"
    )
}

fn is_refused(output: &Output) -> bool {
    !output.status.success()
        && String::from_utf8_lossy(&output.stderr)
            .contains("only root, the user that started the server")
}

#[test]
fn control_is_for_root_and_named_users() {
    let dir = folder(
        "privileges-control",
        &[("www/index.html", NOBODY, "hello", 0o644)],
    );
    let server = native(&dir, &control_site(""));
    for user in [NOBODY, OPERATOR] {
        assert!(is_refused(&status(&dir, Some(user))), "{user}");
    }
    let socket = fs::metadata(dir.join("state/control.sock")).unwrap();
    assert_eq!(
        (socket.uid(), socket.permissions().mode() & 0o777),
        (0, 0o600)
    );
    // Peer credentials from the kernel decide, even if the permissions are wide open.
    for (path, mode) in [("state", 0o777), ("state/control.sock", 0o777)] {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    for user in [NOBODY, OPERATOR] {
        assert!(is_refused(&status(&dir, Some(user))), "{user}");
    }
    wait_until("the log says so", || {
        server.stderr().contains("SK0206") && server.stderr().contains(&format!("user {OPERATOR}"))
    });
    fs::set_permissions(dir.join("state"), fs::Permissions::from_mode(0o770)).unwrap();
    assert!(status(&dir, None).status.success());
    assert!(server.stop().unwrap().success());
    // Only the named user; files of the directory stay closed.
    let server = native(
        &dir,
        &control_site(&format!("control_users = [\"{OPERATOR}\"]")),
    );
    let output = status(&dir, Some(OPERATOR));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(is_refused(&status(&dir, Some(NOBODY))) && is_refused(&status(&dir, Some(ALICE))));
    for command in [["cat", "secret"], ["ls", "."]] {
        let path = dir.join("state").join(command[1]);
        let output = Command::new(command[0])
            .arg(path)
            .uid(OPERATOR)
            .gid(OPERATOR)
            .output()
            .unwrap();
        assert!(
            !output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    assert!(server.stop().unwrap().success());
    // No longer named.
    let server = native(&dir, &control_site(""));
    assert!(is_refused(&status(&dir, Some(OPERATOR))));
    assert!(server.stop().unwrap().success());
    let missing = dir.write(
        "saker.toml",
        control_site("control_users = [\"no-such-user\"]")
            .replace("{dir}", &dir.display().to_string()),
    );
    let output = Command::new(SAKER)
        .args(["run", "-c"])
        .arg(missing.unwrap().with_extension("toml"))
        .output()
        .unwrap();
    assert!(!output.status.success());
}

const PROGRAM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nid -u\nid -G\nls -l /proc/$$/fd\nls {dir}/state 2>&1\nls -l /proc/{pid}/fd 2>&1\n";

/// Programs of a user of their own and of the server's have three descriptors and the script,
/// whatever the server and the broker have open.
#[test]
fn programs_inherit_nothing_and_see_no_state() {
    for (owner, user) in [
        (ALICE, format!("user = \"{ALICE}\"\ngroup = \"{ALICE}\"\n")),
        (NOBODY, String::new()),
    ] {
        let dir = folder("privileges-cgi", &[("www/x.cgi", owner, "", 0o755)]);
        dir.write(
            "www/x.cgi",
            PROGRAM
                .replace("{dir}", &dir.display().to_string())
                .replace("{pid}", "self"),
        )
        .unwrap();
        let text = control_site("").replace(
            "root = \"{dir}/www\"",
            &format!("root = \"{{dir}}/www\"\ncgi = [\"*.cgi\"]\n{user}"),
        );
        let server = native(&dir, &text);
        // More of them at once: pipes of others are open then.
        let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| get(&server, "/x.cgi")))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for (status, text) in answers {
            assert_eq!(status, 200, "{text} {}", server.stderr());
            assert!(text.starts_with(&format!("{owner}\n")), "{text}");
            let groups = text.lines().nth(1).unwrap();
            assert!(
                groups
                    .split(' ')
                    .all(|group| group.parse().is_ok_and(|group: u32| group < 1_000_000)),
                "{text}"
            );
            let own = text
                .lines()
                .filter_map(|line| line.split_once(" -> "))
                .take_while(|(before, _)| !before.ends_with("total"));
            let targets: Vec<&str> = own.map(|(_, target)| target).collect();
            let is_own = |target: &&str| {
                target.starts_with("pipe:")
                    || *target == "/dev/null"
                    || target.ends_with("/x.cgi")
                    || target.starts_with("/proc/")
            };
            assert!(
                targets.iter().all(is_own) && !text.contains("passwd"),
                "{text}"
            );
            assert!(text.contains("Permission denied"), "{text}");
        }
        assert!(server.stop().unwrap().success());
    }
}

/// A server started by an unprivileged user is controlled by that user.
#[test]
fn who_starts_a_server_controls_it() {
    let dir = folder(
        "privileges-plain",
        &[("www/index.html", NOBODY, "hello", 0o644)],
    );
    require("curl").unwrap();
    let text = control_site("").replace("user = \"nobody\"\n", "");
    let as_nobody = |command: &mut Command| {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    };
    // The socket is the user's, who alone may ask whether the server is ready.
    let server = operate::native(&text)
        .prepared(as_nobody)
        .until_accepting()
        .start_in(&dir);
    wait_until("the server is started", || {
        status(&dir, Some(NOBODY)).status.success()
    });
    assert!(status(&dir, None).status.success() && !status(&dir, Some(OPERATOR)).status.success());
    assert!(Path::new(&dir.join("state/control.sock")).exists());
    assert!(server.stop().unwrap().success());
}
