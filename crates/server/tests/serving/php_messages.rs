//! Messages of PHP scripts are in the error log once, whatever kind of PHP runs them and whatever
//! started it.
//!
//! Caveat: php-fpm's processes write each message twice, and put several into one record or one
//! into several.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self, PATIENCE, wait_until};
use saker_testkit::{
    Client, Saker, ServerProcess, TempDir,
    apache2::{load_modules, unprivileged_user},
    require,
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    thread,
};

const SCRIPT: &str = "<?php\nerror_log('plain message');\ntrigger_error('first warning', E_USER_WARNING);\nerror_log(\"two\\nlines of it\");\n\
    echo 'body'; flush();\nerror_log('after output');\nfile_put_contents('php://stderr', \"direct line\\n\");\n\
    for ($i = 0; $i < 20; $i++) error_log(\"number-$i-\" . str_repeat('x', 3000));\nfunction f() { throw new Exception('boom'); }\nf();\n";
/// Each of these stands in the log once.
const EXPECTED: [&str; 8] = [
    "plain message",
    "first warning",
    "lines of it",
    "after output",
    "direct line",
    "number-0-x",
    "number-19-x",
    "Uncaught Exception: boom",
];

fn program(start: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/local/bin", "/usr/bin"];
    let mut entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let found = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(start));
    found
        .unwrap_or_else(|| panic!("{start} is not there: tools/install-test-programs"))
        .path()
}

fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o777)).unwrap();
    dir.write("www/a.php", SCRIPT).unwrap();
    dir.write(
        "php.ini",
        "log_errors = On\ndisplay_errors = Off\nlog_errors_max_len = 0\n",
    )
    .unwrap();
    dir
}

fn ask(address: std::net::SocketAddr, target: &str) -> u16 {
    let mut client = Client::connect(address).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client.get(target).unwrap().status
}

fn counts(text: &str, expected: &[&str]) -> Vec<usize> {
    expected
        .iter()
        .map(|part| text.matches(part).count())
        .collect()
}

/// The log, when all of it is there; it must have come once then.
fn assert_once(log: impl Fn() -> String, expected: &[&str]) {
    wait_until("the messages", || {
        counts(&log(), expected).iter().all(|count| *count > 0)
    });
    // The last that might come a second time does so at the end of the process.
    let text = log();
    assert_eq!(
        counts(&text, expected),
        vec![1; expected.len()],
        "{expected:?}\n{text}"
    );
}

#[test]
fn of_managed_php() {
    for kind in ["php-fpm", "php-cgi", "lsphp"] {
        let text = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\nerror_log = \"{{dir}}/error.log\"\n\n[php]\nprogram = \"{}\"\n\
             ini = \"{{dir}}/php.ini\"\n\n\
             [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\n",
            program(kind).display()
        );
        let saker = operate::native(&text).start(folder(&format!("messages-{kind}")));
        ask(saker.server.address(), "/a.php");
        let log = saker.dir.join("error.log");
        assert_once(|| fs::read_to_string(&log).unwrap_or_default(), &EXPECTED);
        let Saker { server, dir } = saker;
        server.stop().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(
            counts(&text, &EXPECTED),
            [1; EXPECTED.len()],
            "{kind}: {text}"
        );
        let line = text
            .lines()
            .find(|line| line.contains("first warning"))
            .unwrap();
        assert!(line.contains("[client 127.0.0.1:"), "{kind}: {line}");
        drop(dir);
    }
}

/// A php-fpm of the system's, which keeps what its processes write to standard error to itself. It
/// ends with all of them.
fn fpm(dir: &TempDir) -> ServerProcess {
    let user = if rustix::process::geteuid().is_root() {
        "user = www-data\ngroup = www-data\nlisten.mode = 0666\n"
    } else {
        ""
    };
    let root = dir.display();
    let text = format!(
        "[global]\nerror_log = {root}/fpm.log\ndaemonize = no\n[www]\n{user}listen = {root}/fpm.sock\npm = static\npm.max_children = 1\n\
         catch_workers_output = yes\nphp_admin_flag[log_errors] = on\nphp_admin_flag[display_errors] = off\nphp_admin_value[log_errors_max_len] = 0\n"
    );
    let path = dir.write("fpm.conf", text).unwrap();
    let mut command = Command::new(program("php-fpm"));
    let server = ServerProcess::spawn(
        command.args(["--nodaemonize", "--fpm-config"]).arg(path),
        SocketAddr::from(([127, 0, 0, 1], 0)),
    )
    .unwrap();
    wait_until("php-fpm", || dir.join("fpm.sock").exists());
    server
}

fn apache_text(dir: &TempDir, port: &str, backend: &str) -> String {
    let root = dir.display();
    let modules = load_modules(&[
        "mpm_event",
        "authz_core",
        "proxy",
        "proxy_fcgi",
        "mime",
        "dir",
    ]);
    let user = unprivileged_user();
    format!(
        "{modules}{user}ServerRoot {root}\nListen 127.0.0.1:{port}\nServerName localhost\nDocumentRoot {root}/www\nErrorLog {root}/error.log\nTypesConfig /dev/null\n\
         <Directory {root}/www>\nRequire all granted\n</Directory>\n<FilesMatch \\.php$>\nSetHandler \"proxy:{backend}\"\n</FilesMatch>\n"
    )
}

fn saker_before(dir: &TempDir, backend: &str) -> ServerProcess {
    operate::apache(&apache_text(dir, "{port}", backend)).start_in(dir)
}

#[test]
fn under_apaches_configuration_in_apaches_words() {
    let dir = folder("messages-apache");
    let _fpm = fpm(&dir);
    let backend = format!("unix:{}/fpm.sock|fcgi://localhost", dir.display());
    let saker = saker_before(&dir, &backend);
    ask(saker.address(), "/a.php");
    assert_eq!(ask(saker.address(), "/missing.php"), 404);
    drop(saker.stop());
    let text = fs::read_to_string(dir.join("error.log")).unwrap();
    let expected = [
        "plain message",
        "first warning",
        "lines of it",
        "after output",
        "number-0-x",
        "number-19-x",
        "Uncaught Exception: boom",
    ];
    assert_eq!(counts(&text, &expected), [1; 7], "{text}");
    for message in [
        "PHP message: plain message'",
        "PHP message: two\\nlines of it'",
        "Primary script unknown'",
    ] {
        let start = format!("] AH01071: Got error '{message}");
        let line = text
            .lines()
            .find(|line| line.contains(&start))
            .unwrap_or_else(|| panic!("{start}: {text}"));
        assert!(
            line.contains("[proxy_fcgi:error] [pid ") && line.contains(" [client 127.0.0.1:"),
            "{line}"
        );
    }
    let output = Command::new(require("fail2ban-regex").unwrap())
        .arg(dir.join("error.log"))
        .arg("apache-noscript")
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stdout).contains(" 1 matched,"),
        "{text}"
    );
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

/// A FastCGI server that answers once, with what it is given as its log, in records of that size.
fn server_that_says(log: &'static [u8], size: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        // Up to the empty record that ends the content.
        while !heard.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]) {
            match stream.read(&mut piece) {
                Ok(bytes @ 1..) => heard.extend_from_slice(&piece[..bytes]),
                _ => return,
            }
        }
        let mut answer: Vec<u8> = log.chunks(size).flat_map(|part| record(7, part)).collect();
        answer.extend(record(6, b"Content-Type: text/plain\r\n\r\nbody"));
        answer.extend(record(3, &[0; 8]));
        let _ = stream.write_all(&answer);
    });
    port
}

#[test]
fn messages_cut_into_records_and_several_in_one() {
    let log = b"PHP message: alpha one; PHP message: beta; two; PHP message: gamma\nthree; PHP message: delta";
    for size in [1, 7, 13, 40, log.len()] {
        let dir = folder("messages-records");
        let port = server_that_says(log, size);
        let saker = saker_before(&dir, &format!("fcgi://127.0.0.1:{port}"));
        assert_eq!(ask(saker.address(), "/a.php"), 200);
        drop(saker.stop());
        let text = fs::read_to_string(dir.join("error.log")).unwrap();
        let found: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split("AH01071: Got error 'PHP message: ").nth(1))
            .collect();
        assert_eq!(
            found,
            ["alpha one'", "beta; two'", "gamma\\nthree'", "delta'"],
            "{size}: {text}"
        );
    }
}
