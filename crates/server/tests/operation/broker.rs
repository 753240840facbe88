//! A server that root starts and that becomes another user, with keys, logs, configuration and
//! ports that are root's alone: start, reload, rotation, end, and the end of its broker at any
//! moment. Needs root.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self, Load, PATIENCE, SAKER, ask, wait_until};
use saker_testkit::{
    Client, OPENSSL_CLIENT, ServerProcess, Signal, TempDir, free_port, free_port_among,
};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const NOBODY: u32 = 65_534;
/// Debian's `adm`.
const ADM: u32 = 4;
const PAGE: &str = "<p>page</p>\n";
const MODULES: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
                       LoadModule ssl_module modules/mod_ssl.so\nLoadModule log_config_module modules/mod_log_config.so\n";

/// Directories as Debian has them: nothing is for the server's user but pages.
fn folder(name: &str) -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        println!("left out: root is needed");
        return None;
    }
    let dir = TempDir::new(name).unwrap();
    for (path, group, mode) in [
        ("", 0, 0o755),
        ("conf", 0, 0o700),
        ("conf/sites", 0, 0o700),
        ("keys", 0, 0o700),
        ("logs", ADM, 0o750),
        ("run", 0, 0o755),
        ("www", 0, 0o755),
    ] {
        let path = dir.join(path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(0), Some(group)).unwrap();
    }
    dir.write("www/index.html", PAGE).unwrap();
    Some(dir)
}

fn certificate(dir: &TempDir, name: &str) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    dir.write(&format!("keys/{name}.crt"), made.cert.pem())
        .unwrap();
    let key = dir
        .write(
            &format!("keys/{name}.key"),
            made.signing_key.serialize_pem(),
        )
        .unwrap();
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Plain on one address, with TLS on another.
fn site(dir: &TempDir, name: &str, plain: u16, tls: u16) -> String {
    certificate(dir, name);
    let root = dir.display();
    format!(
        "Listen 127.0.0.1:{plain}\nListen 127.0.0.1:{tls}\n\
         <VirtualHost 127.0.0.1:{plain}>\nServerName {name}\nDocumentRoot {root}/www\nCustomLog {root}/logs/{name}.log \"%U\"\n\
         ErrorLog {root}/logs/{name}-error.log\n</VirtualHost>\n\
         <VirtualHost 127.0.0.1:{tls}>\nServerName {name}\nDocumentRoot {root}/www\nSSLEngine on\nSSLCertificateFile {root}/keys/{name}.crt\n\
         SSLCertificateKeyFile {root}/keys/{name}.key\n</VirtualHost>\n"
    )
}

fn start(dir: &TempDir) -> ServerProcess {
    let root = dir.display();
    let tls = free_port().unwrap();
    let port = free_port().unwrap();
    dir.write("conf/sites/a.conf", site(dir, "a.test", port, tls))
        .unwrap();
    let text = format!(
        "{MODULES}ServerRoot {root}\nServerName localhost\nUser nobody\nGroup nogroup\nPidFile {root}/run/pid\nErrorLog {root}/logs/error.log\n\
         MaxKeepAliveRequests 0\nDocumentRoot {root}/www\n<Directory {root}/www>\nRequire all granted\n</Directory>\nInclude {root}/conf/sites/*.conf\n"
    );
    let file = dir.write("conf/httpd.conf", text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    operate::apache("")
        .existing_file("conf/httpd.conf")
        .workers(2)
        .at(SocketAddr::from(([127, 0, 0, 1], port)))
        .start_in(dir)
}

fn get(address: SocketAddr) -> u16 {
    let mut client = Client::connect(address).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client.get("/index.html").unwrap().status
}

/// Certificate that OpenSSL's client receives.
fn shown_certificate(port: u16) -> String {
    let mut client = Command::new(saker_testkit::require("openssl").unwrap());
    client.args(OPENSSL_CLIENT).args([
        "-servername",
        "b.test",
        "-connect",
        &format!("127.0.0.1:{port}"),
    ]);
    String::from_utf8(
        client
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap()
}

fn errors(dir: &TempDir) -> String {
    fs::read_to_string(dir.join("logs/error.log")).unwrap_or_default()
}

/// All of its threads are the user's, and none has a capability.
fn assert_no_rights(server: &ServerProcess) {
    for thread in fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let Ok(status) = fs::read_to_string(thread.unwrap().path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap()
                .trim()
                .to_owned()
        };
        assert_eq!(
            field("Uid:"),
            [NOBODY; 4].map(|uid| uid.to_string()).join("\t")
        );
        assert_eq!(field("CapEff:").trim_start_matches('0'), "", "{status}");
        assert_eq!(field("CapPrm:").trim_start_matches('0'), "", "{status}");
    }
}

/// The broker of a server.
fn broker_of(server: &ServerProcess) -> Option<i32> {
    let of_server = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (front, rest) = stat.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?;
        (front.ends_with("(saker-broker") && parent == server.pid().to_string()).then_some(pid)
    };
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(of_server).next()
}

fn kill_broker(server: &ServerProcess) {
    let pid = broker_of(server).expect("a broker");
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL)
        .unwrap();
}

fn reload(dir: &TempDir) -> serde_json::Value {
    ask(&dir.join("state"), "reload").expect("an answer")
}

fn generation(dir: &TempDir) -> u64 {
    ask(&dir.join("state"), "status")
        .and_then(|status| status["generation"].as_u64())
        .unwrap_or(0)
}

/// As `logrotate` with a `create` line: root's new file, which the server's user may not open.
fn rotate(dir: &TempDir, server: &ServerProcess, name: &str) {
    let (log, old) = (
        dir.join("logs").join(name),
        dir.join("logs").join(format!("{name}.1")),
    );
    fs::rename(&log, old).unwrap();
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o640)).unwrap();
    chown(&log, Some(0), Some(ADM)).unwrap();
    server.signal(Signal::USR1).unwrap();
    wait_until("the new log is written", || {
        assert_eq!(get(server.address()), 200);
        fs::metadata(&log).unwrap().len() > 0
    });
    let found = fs::metadata(&log).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o777),
        (0, ADM, 0o640),
        "nothing is chowned"
    );
}

/// A port that only root may bind, if there are such here.
fn low_port() -> u16 {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .map_or(1024, |text| text.trim().parse().unwrap());
    if first < 600 {
        println!("every port is everybody's here");
        return free_port().unwrap();
    }
    free_port_among((600..first).rev()).unwrap()
}

#[test]
fn all_that_is_roots_alone_is_there_at_each_reload() {
    let Some(dir) = folder("broker-reload") else {
        return;
    };
    let mut server = start(&dir);
    assert_eq!(get(server.address()), 200);
    assert_no_rights(&server);
    let pid = fs::metadata(dir.join("run/pid")).unwrap();
    assert_eq!(
        (pid.uid(), fs::read_to_string(dir.join("run/pid")).unwrap()),
        (0, format!("{}\n", server.pid()))
    );
    for log in ["logs/error.log", "logs/a.test.log"] {
        let found = fs::metadata(dir.join(log)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o644), "{log}");
    }
    let before = reload(&dir);
    assert_eq!(generation(&dir), 2, "{before} {}", errors(&dir));
    // A new virtual host with a new log, a new key, and a port below 1024.
    let (low, tls) = (low_port(), free_port().unwrap());
    dir.write("conf/sites/b.conf", site(&dir, "b.test", low, tls))
        .unwrap();
    let answer = reload(&dir);
    assert_eq!(generation(&dir), 3, "{answer} {}", errors(&dir));
    assert_eq!(get(SocketAddr::from(([127, 0, 0, 1], low))), 200);
    wait_until("its log is written", || {
        fs::metadata(dir.join("logs/b.test.log"))
            .is_ok_and(|found| found.len() > 0 && found.uid() == 0)
    });
    assert!(
        shown_certificate(tls).contains(
            fs::read_to_string(dir.join("keys/b.test.crt"))
                .unwrap()
                .replace('\r', "")
                .trim()
        )
    );
    rotate(&dir, &server, "a.test.log");
    // Refused: nothing of it is in force, and all of the old is.
    dir.write(
        "conf/sites/c.conf",
        format!(
            "{}NoSuchDirective on\n",
            site(&dir, "c.test", free_port().unwrap(), free_port().unwrap())
        ),
    )
    .unwrap();
    let before = generation(&dir);
    let answer = reload(&dir);
    assert!(
        answer.to_string().contains("NoSuchDirective") && generation(&dir) == before,
        "{answer}"
    );
    assert!(!dir.join("logs/c.test.log").exists());
    rotate(&dir, &server, "a.test.log");
    fs::remove_file(dir.join("conf/sites/c.conf")).unwrap();
    fs::remove_file(dir.join("conf/sites/b.conf")).unwrap();
    let answer = reload(&dir);
    assert!(generation(&dir) > before, "{answer}");
    wait_until("the port is free again", || {
        TcpListener::bind(("127.0.0.1", low)).is_ok()
    });
    assert_no_rights(&server);
    // It ends as a whole, and what scripts look for goes with it.
    let broker = broker_of(&server).unwrap();
    server.signal(Signal::TERM).unwrap();
    assert!(server.wait_for_exit(PATIENCE).unwrap().is_some());
    wait_until("the PidFile goes", || !dir.join("run/pid").exists());
    wait_until("the broker goes", || {
        !Path::new(&format!("/proc/{broker}")).exists()
    });
    assert!(!dir.join("state/control.sock").exists());
}

#[test]
fn what_a_killed_server_leaves_is_removed() {
    let Some(dir) = folder("broker-killed") else {
        return;
    };
    let mut server = start(&dir);
    server.kill().unwrap();
    wait_until("the PidFile goes", || !dir.join("run/pid").exists());
    wait_until("the control socket goes", || {
        !dir.join("state/control.sock").exists()
    });
    // Another server's is left alone.
    let server = start(&dir);
    fs::write(dir.join("run/pid"), "1\n").unwrap();
    server.stop().unwrap();
    assert_eq!(fs::read_to_string(dir.join("run/pid")).unwrap(), "1\n");
}

/// A user of the control socket, and of nothing else here.
const OPERATOR: u32 = 41_011;

#[test]
fn sockets_and_operators_come_and_go_with_reloads() {
    let Some(dir) = folder("broker-native") else {
        return;
    };
    let root = dir.display().to_string();
    let state = dir.join("state");
    let configuration = |port: &str, more: &str, listeners: &str| {
        format!(
            "[server]\nuser = \"nobody\"\nstate_dir = \"{root}/state\"\nworkers = 1\n{more}\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n{listeners}\n\
             [[site]]\nnames = [\"*\"]\nroot = \"{root}/www\"\n[[site.access_log]]\npath = \"{root}/logs/access.log\"\n"
        )
    };
    let mut server = operate::native(&configuration("{port}", "", ""))
        .file("conf/saker.toml")
        .start_in(&dir);
    assert_eq!(
        fs::metadata(dir.join("logs/access.log")).unwrap().mode() & 0o777,
        0o640
    );
    let by_operator = || {
        let mut command = Command::new(SAKER);
        command
            .args(["status", "--state-dir"])
            .arg(&state)
            .uid(OPERATOR)
            .gid(OPERATOR);
        command.output().unwrap().status.success()
    };
    assert!(!by_operator());
    let port = &server.address().port().to_string();
    let socket = dir.join("run/web.sock");
    let listener = format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display());
    let operators = format!("control_users = [\"{OPERATOR}\"]");
    dir.write(
        "conf/saker.toml",
        configuration(port, &operators, &listener),
    )
    .unwrap();
    let answer = reload(&dir);
    assert_eq!(generation(&dir), 2, "{answer}");
    let found = fs::metadata(&socket).unwrap();
    assert_eq!(found.uid(), 0);
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
    assert!(by_operator(), "{answer}");
    dir.write("conf/saker.toml", configuration(port, "", ""))
        .unwrap();
    let answer = reload(&dir);
    assert_eq!(generation(&dir), 3, "{answer}");
    assert!(!socket.exists() && !by_operator());
    // What is in the way of a new one is a dead one's file, or it stays.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    dir.write("conf/saker.toml", configuration(port, "", &listener))
        .unwrap();
    let answer = reload(&dir);
    assert_eq!(generation(&dir), 4, "{answer}");
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
    assert_no_rights(&server);
    server.kill().unwrap();
    wait_until("the sockets go", || {
        !socket.exists() && !dir.join("state/control.sock").exists()
    });
}

#[test]
fn links_of_a_sites_owner_lead_nowhere() {
    let Some(dir) = folder("broker-links") else {
        return;
    };
    let server = start(&dir);
    let root = dir.display();
    // A log in a directory of the site's owner, who makes it a link to what is root's.
    fs::create_dir(dir.join("owner")).unwrap();
    chown(dir.join("owner"), Some(41_001), None).unwrap();
    let secret = dir.write("secret", "root's\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&secret, dir.join("owner/access.log")).unwrap();
    let port = free_port().unwrap();
    let host = format!(
        "Listen 127.0.0.1:{port}\n<VirtualHost 127.0.0.1:{port}>\nServerName o.test\nDocumentRoot {root}/www\n\
         CustomLog {root}/owner/access.log \"%U\"\n</VirtualHost>\n"
    );
    dir.write("conf/sites/owner.conf", &host).unwrap();
    let answer = reload(&dir).to_string();
    assert!(
        answer.contains("owner/access.log") && generation(&dir) == 1,
        "{answer}"
    );
    fs::remove_file(dir.join("owner/access.log")).unwrap();
    fs::hard_link(&secret, dir.join("owner/access.log")).unwrap();
    let answer = reload(&dir).to_string();
    assert!(
        answer.contains("owner/access.log") && generation(&dir) == 1,
        "{answer}"
    );
    fs::remove_file(dir.join("owner/access.log")).unwrap();
    let answer = reload(&dir).to_string();
    assert_eq!(generation(&dir), 2, "{answer}");
    assert_eq!(get(SocketAddr::from(([127, 0, 0, 1], port))), 200);
    wait_until("the log is written", || {
        fs::metadata(dir.join("owner/access.log")).is_ok_and(|found| found.len() > 0)
    });
    assert_eq!(fs::read_to_string(secret).unwrap(), "root's\n");
    server.stop().unwrap();
}

/// So much of the time that the rounds below may take together.
const ROUNDS_TIME: Duration = Duration::from_secs(30);

#[test]
fn the_broker_is_killed_at_random_moments() {
    let Some(dir) = folder("broker-death") else {
        return;
    };
    let begin = Instant::now();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut rounds = 0;
    while rounds < 100 && (begin.elapsed() < ROUNDS_TIME || rounds < 5) {
        let server = start(&dir);
        let load = Load::start(server.address(), 2, "/index.html", PAGE);
        let (more, state_dir) = (random(200), dir.join("state"));
        // In the middle of a reload, before one, or after it.
        let reloading = thread::spawn(move || ask(&state_dir, "reload"));
        if random(2) == 0 {
            server.signal(Signal::USR1).unwrap();
        }
        let answered = load.requests() + more;
        wait_until("some requests are answered", || {
            load.has_failed() || load.requests() >= answered
        });
        kill_broker(&server);
        let _ = reloading.join().unwrap();
        wait_until("it is said", || errors(&dir).contains("SK0116"));
        // The configuration is root's, so that nothing new comes; what runs goes on.
        let answer = reload(&dir).to_string();
        assert!(answer.contains("privileged broker has ended"), "{answer}");
        let answered = load.requests();
        wait_until("it goes on answering", || {
            load.has_failed() || load.requests() > answered + 20
        });
        load.finish().unwrap();
        assert_eq!(get(server.address()), 200);
        assert_no_rights(&server);
        assert!(broker_of(&server).is_none());
        assert_eq!(
            errors(&dir).matches("SK0116").count(),
            1,
            "{}",
            errors(&dir)
        );
        server.stop().unwrap();
        for log in ["logs/error.log", "logs/a.test.log"] {
            fs::remove_file(dir.join(log)).unwrap();
        }
        rounds += 1;
    }
    println!("{rounds} rounds in {:.0?}", begin.elapsed());
}

/// Commands of pages, external filters, and programs of rewrite maps are without the group that
/// opens the state directory, with the accounts and keys in it.
#[test]
fn commands_do_not_have_the_servers_own_group() {
    let Some(dir) = folder("broker-commands") else {
        return;
    };
    let root = dir.display();
    let groups = "id -G | tr ' ' _";
    dir.write(
        "www/page.shtml",
        format!("page <!--#exec cmd=\"{groups}\" -->"),
    )
    .unwrap();
    dir.write("www/filtered.txt", "text").unwrap();
    for (name, script) in [
        ("map", format!("while read -r key; do {groups}; done")),
        ("filter", format!("cat >/dev/null; {groups}")),
    ] {
        let file = dir
            .write(
                &format!("www/{name}"),
                format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n"),
            )
            .unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let port = free_port().unwrap();
    let modules: String = ["include", "ext_filter", "rewrite", "mime"]
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let text = format!(
        "{MODULES}{modules}ServerRoot {root}\nServerName localhost\nUser nobody\nGroup nogroup\nPidFile {root}/run/pid\n\
         ErrorLog {root}/logs/error.log\nListen 127.0.0.1:{port}\nDocumentRoot {root}/www\n\
         ExtFilterDefine groups mode=output cmd={root}/www/filter\nRewriteEngine On\nRewriteMap groups prg:{root}/www/map\n\
         RewriteRule ^/map-me$ /${{groups:x}} [R,L]\n\
         <Directory {root}/www>\nRequire all granted\nOptions +Includes\n\
         <Files *.shtml>\nSetOutputFilter INCLUDES\n</Files>\n<Files *.txt>\nSetOutputFilter groups\n</Files>\n</Directory>\n"
    );
    dir.write("conf/httpd.conf", text).unwrap();
    let _server = operate::apache("")
        .existing_file("conf/httpd.conf")
        .at(SocketAddr::from(([127, 0, 0, 1], port)))
        .start_in(&dir);
    let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let page = client.get("/page.shtml").unwrap();
    assert_eq!(page.text().trim(), format!("page {NOBODY}"));
    assert_eq!(
        client.get("/filtered.txt").unwrap().text().trim(),
        NOBODY.to_string()
    );
    let moved = client.get("/map-me").unwrap();
    let place = moved.field("Location").unwrap_or_default().to_owned();
    assert!(place.ends_with(&format!("/{NOBODY}")), "{place}");
}
