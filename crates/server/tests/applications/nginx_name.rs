//! Called as nginx: options, messages that tools parse, the file of the process id, and signals.
//!
//! Called by: `cargo test -p saker --test applications nginx_name`.
//! Caveat: Debian's configuration is a copy with another port and other logs; the rest is as
//! installed.

use crate::operate;
use saker_testkit::{Client, TempDir, free_port, wait_until};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

/// More than is on the way at a time.
const LARGE: u64 = 64 << 20;

struct Site {
    dir: TempDir,
    address: SocketAddr,
}

impl Site {
    fn new(name: &str) -> Site {
        let dir = TempDir::new(name).unwrap();
        let port = free_port().unwrap();
        symlink(operate::SAKER, dir.join("nginx")).unwrap();
        let site = Site {
            dir,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        };
        site.write("hello");
        site
    }

    fn write(&self, answer: &str) {
        let (dir, address) = (self.dir.display(), self.address);
        let user = match rustix::process::geteuid().is_root() {
            true => "user www-data;\n",
            false => "",
        };
        let text = format!(
            "{user}pid {dir}/nginx.pid;\nerror_log {dir}/error.log;\nevents {{ }}\nhttp {{\n    access_log {dir}/access.log;\n    \
             server {{ listen {address}; return 200 \"{answer}\\n\"; }}\n}}\n"
        );
        self.dir.write("nginx.conf", text).unwrap();
    }

    fn run(&self, arguments: &str) -> Output {
        let conf = self.dir.join("nginx.conf").display().to_string();
        Command::new("timeout")
            .arg("60")
            .arg(self.dir.join("nginx"))
            .args(arguments.replace("{conf}", &conf).split_ascii_whitespace())
            .output()
            .unwrap()
    }

    fn answer(&self) -> Option<String> {
        let response = Client::connect(self.address).ok()?.get("/").ok()?;
        Some(response.text())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.run("-c {conf} -s stop");
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nginx_name_tests_configurations() {
    let site = Site::new("nginx-name-test");
    let file = site.dir.join("nginx.conf").display().to_string();
    let tested = site.run("-t -c {conf}");
    let expected = format!(
        "nginx: the configuration file {file} syntax is ok\nnginx: configuration file {file} test is successful\n"
    );
    assert_eq!(err(&tested), expected);
    assert!(tested.status.success());
    assert_eq!(err(&site.run("-tq -c {conf}")), "");
    let dumped = site.run("-Tq -c {conf}");
    let text = String::from_utf8_lossy(&dumped.stdout).into_owned();
    assert!(
        text.starts_with(&format!("# configuration file {file}:\n")),
        "{text}"
    );
    let before = fs::read_to_string(&file).unwrap();
    site.dir
        .write("nginx.conf", before.replace("return", "retrun"))
        .unwrap();
    let refused = site.run("-t -c {conf}");
    assert_eq!(refused.status.code(), Some(1));
    let line = 1 + before
        .lines()
        .position(|line| line.contains("return"))
        .unwrap();
    let expected = format!(
        "nginx: [emerg] unknown directive \"retrun\" in {file}:{line}\nnginx: configuration file {file} test failed\n"
    );
    assert_eq!(err(&refused), expected);
    assert!(err(&site.run("-v")).starts_with("nginx version: nginx/1."));
    let build = err(&site.run("-V"));
    assert!(build.contains("\nbuilt with AWS-LC"), "{build}");
    assert!(build.contains("\nconfigure arguments: --prefix="));
    for module in ["http_ssl_module", "http_v2_module", "stream", "threads"] {
        assert!(build.contains(&format!(" --with-{module} ")), "{build}");
    }
    // Errors of the configuration are in the log of `-e`, too.
    let log = site.dir.join("early.log");
    let refused = site.run(&format!("-t -c {{conf}} -e {}", log.display()));
    assert_eq!(err(&refused), expected);
    let noted = fs::read_to_string(&log).unwrap();
    let line_of_log = format!("unknown directive \"retrun\" in {file}:{line}\n");
    assert!(
        noted.contains(" [emerg] ") && noted.ends_with(&line_of_log),
        "{noted}"
    );
    assert_eq!(err(&site.run("-x")), "nginx: invalid option: \"x\"\n");
    let none = site.run("-c /nowhere/nginx.conf -t");
    assert!(
        err(&none).contains(
            "[emerg] open() \"/nowhere/nginx.conf\" failed (2: No such file or directory)"
        )
    );
}

#[test]
fn nginx_name_starts_reloads_and_stops() {
    let site = Site::new("nginx-name-signals");
    let pid_file = site.dir.join("nginx.pid");
    let started = site.run("-c {conf}");
    assert!(started.status.success(), "{}", err(&started));
    wait_until("it answers", || site.answer().as_deref() == Some("hello\n"));
    assert!(pid_file.exists());
    site.write("again");
    assert!(site.run("-c {conf} -s reload").status.success());
    wait_until("it has the new answer", || {
        site.answer().as_deref() == Some("again\n")
    });
    let log = site.dir.join("access.log");
    fs::rename(&log, site.dir.join("access.log.1")).unwrap();
    assert!(site.run("-c {conf} -s reopen").status.success());
    wait_until("the log is reopened", || {
        site.answer();
        fs::read_to_string(&log).is_ok_and(|text| text.contains("\"GET / HTTP/1.1\" 200"))
    });
    assert!(site.run("-c {conf} -s quit").status.success());
    wait_until("it is gone", || {
        !pid_file.exists() && site.answer().is_none()
    });
    let gone = site.run("-c {conf} -s reload");
    assert_eq!(gone.status.code(), Some(1));
    assert!(err(&gone).contains("nginx.pid\" failed (2: No such file or directory)"));
}

/// Copies Debian's folder; links stay links within it.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

#[test]
fn nginx_name_serves_debians_configuration() {
    let site = Site::new("nginx-name-debian");
    let folder = site.dir.join("etc");
    copy(Path::new("/etc/nginx"), &folder);
    let main = fs::read_to_string(folder.join("nginx.conf")).unwrap();
    let dir = site.dir.display().to_string();
    let main = main
        .replace("/run/nginx.pid", &format!("{dir}/nginx.pid"))
        .replace("/var/log/nginx", &dir)
        .replace("/etc/nginx", &folder.display().to_string());
    let main = match rustix::process::geteuid().is_root() {
        true => main,
        false => main.replace("user www-data;", ""),
    };
    site.dir.write("etc/nginx.conf", &main).unwrap();
    let default = fs::read_to_string(folder.join("sites-available/default")).unwrap();
    let default = default
        .replace(
            "listen 80 default_server",
            &format!("listen {} default_server", site.address),
        )
        .replace("listen [::]:80 default_server;", "")
        .replace("/var/www/html", &format!("{dir}/www"));
    fs::remove_file(folder.join("sites-enabled/default")).unwrap();
    site.dir
        .write("etc/sites-enabled/default", &default)
        .unwrap();
    site.dir
        .write("www/index.nginx-debian.html", "welcome\n")
        .unwrap();
    let conf = folder.join("nginx.conf").display().to_string();
    let started = site.run(&format!("-c {conf}"));
    assert!(started.status.success(), "{}", err(&started));
    wait_until("it answers", || {
        site.answer().as_deref() == Some("welcome\n")
    });
    let mut client = Client::connect(site.address).unwrap();
    assert_eq!(client.get("/none").unwrap().status, 404);
    assert!(site.run(&format!("-c {conf} -s stop")).status.success());
    wait_until("it is gone", || site.answer().is_none());
}

/// The limits of the process are those of the configuration.
#[test]
fn nginx_name_limits_its_process() {
    let site = Site::new("nginx-name-limits");
    let file = site.dir.join("nginx.conf");
    let text = fs::read_to_string(&file).unwrap();
    let limits = format!(
        "worker_rlimit_nofile 1777;\nworker_rlimit_core 4k;\nworker_rlimit_sigpending 1234;\nworker_cpu_affinity 01;\nworker_priority 5;\nworking_directory {};\n",
        site.dir.display()
    );
    fs::write(
        &file,
        text.replace("events { }", &format!("{limits}events {{ use epoll; }}")),
    )
    .unwrap();
    assert!(site.run("-c {conf}").status.success());
    wait_until("the server answers", || site.answer().is_some());
    let pid = fs::read_to_string(site.dir.join("nginx.pid")).unwrap();
    let of_process = |name: &str| format!("/proc/{}/{name}", pid.trim());
    let limits = fs::read_to_string(of_process("limits")).unwrap();
    let line = |name: &str| {
        let mut lines = limits.lines();
        let line = lines.find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace()
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(line("Max open files"), ["1777", "1777"]);
    assert_eq!(line("Max core file size"), ["4096", "4096"]);
    assert_eq!(line("Max pending signals"), ["1234", "1234"]);
    let tasks = fs::read_dir(of_process("task")).unwrap();
    let tasks = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let mut workers = tasks.filter(|status| status.starts_with("Name:\tworker-"));
    let worker = workers.next().unwrap();
    assert!(worker.contains("Cpus_allowed_list:\t0\n"), "{worker}");
    let stat = fs::read_to_string(of_process("stat")).unwrap();
    // Behind the name in parentheses, the nice value is the 17th.
    let behind = stat.rsplit_once(')').unwrap().1;
    assert_eq!(behind.split_ascii_whitespace().nth(16), Some("5"));
    assert_eq!(&*fs::read_link(of_process("cwd")).unwrap(), &*site.dir);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("use epoll", "use kqueue")).unwrap();
    let refused = site.run("-t -c {conf}");
    assert!(
        err(&refused).contains("invalid event type \"kqueue\""),
        "{}",
        err(&refused)
    );
    fs::write(&file, text).unwrap();
}

#[test]
fn nginx_name_is_upgraded_by_signals() {
    let site = Site::new("nginx-name-upgrade");
    let root = format!(
        "location / {{ return 200 \"hello\\n\"; }} location = /large.bin {{ root {}; }}",
        site.dir.display()
    );
    let conf = fs::read_to_string(site.dir.join("nginx.conf")).unwrap();
    let conf = conf.replace("return 200 \"hello\\n\";", &root);
    site.dir.write("nginx.conf", conf).unwrap();
    let large = File::create(site.dir.join("large.bin")).unwrap();
    large.set_len(LARGE).unwrap();
    let (pid_file, old_file) = (
        site.dir.join("nginx.pid"),
        site.dir.join("nginx.pid.oldbin"),
    );
    let started = site.run("-c {conf}");
    assert!(started.status.success(), "{}", err(&started));
    let pid = || {
        let text = fs::read_to_string(&pid_file).unwrap_or_default();
        text.trim().to_owned()
    };
    let signal = |name: &str, pid: &str| {
        let sent = Command::new("kill").args([name, pid]).status().unwrap();
        assert!(sent.success());
    };
    let upgrade = || {
        let before = pid();
        // One is refused, as by nginx, while the server before this one finishes its requests.
        wait_until("the new program serves", || {
            let _ = Command::new("kill").args(["-USR2", &before]).output();
            let now = pid();
            !now.is_empty() && now != before
        });
        wait_until("the old program has its file", || {
            fs::read_to_string(&old_file).is_ok_and(|text| !text.trim().is_empty())
        });
        assert_eq!(site.answer().as_deref(), Some("hello\n"));
        let old = fs::read_to_string(&old_file).unwrap().trim().to_owned();
        assert_ne!(old, pid());
        signal("-WINCH", &old);
        old
    };
    let first = upgrade();
    let old = upgrade();
    assert_ne!(first, old);
    wait_until("the first old program is gone", || {
        fs::read_link(format!("/proc/{first}/exe")).is_err()
    });
    assert_eq!(fs::read_to_string(&old_file).unwrap().trim(), old);
    signal("-QUIT", &old);
    wait_until("the old program is gone", || !old_file.exists());
    assert_eq!(site.answer().as_deref(), Some("hello\n"));
    // The server before the one before may finish; then the next may be replaced.
    let mut download = TcpStream::connect(site.address).unwrap();
    download
        .write_all(b"GET /large.bin HTTP/1.0\r\n\r\n")
        .unwrap();
    download.read_exact(&mut [0; 1000]).unwrap();
    let old = upgrade();
    let new = pid();
    signal("-HUP", &old);
    // The new one would not give way while the server before it still sends a response.
    assert!(pid() == new && old_file.exists());
    let rest = io::copy(&mut download, &mut io::sink()).unwrap();
    assert!(rest > LARGE - 1000, "{rest}");
    wait_until("the old program is back", || {
        !old_file.exists() && !pid().is_empty() && pid() != new
    });
    assert_eq!(site.answer().as_deref(), Some("hello\n"));
}

#[test]
fn nginx_name_reads_what_balancers_add() {
    let site = Site::new("nginx-name-tlvs");
    let conf = fs::read_to_string(site.dir.join("nginx.conf")).unwrap();
    let conf = conf
        .replace("listen 127", "listen   127")
        .replace("; return 200", " proxy_protocol; return 200")
        .replace(
            "hello",
            "$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_0x05|$proxy_protocol_tlv_ssl_cn|$proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_netns|$request_port$is_request_port",
        );
    site.dir.write("nginx.conf", conf).unwrap();
    let started = site.run("-c {conf}");
    assert!(started.status.success(), "{}", err(&started));
    let tlv = |kind: u8, value: &[u8]| {
        let length = u16::try_from(value.len()).unwrap().to_be_bytes();
        [&[kind][..], &length, value].concat()
    };
    let tls = [&[1, 0, 0, 0, 7][..], &tlv(0x22, b"a.test")].concat();
    let body = [
        &[192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 187][..],
        &tlv(1, b"h2"),
        &tlv(5, b"id-1"),
        &tlv(0x20, &tls),
    ]
    .concat();
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    let head = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11", &length[..], &body].concat();
    let mut client = Client::connect(site.address).unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a.test:8080\r\nConnection: close\r\n\r\n";
    client.send([&head[..], request].concat()).unwrap();
    let response = client.read_response().unwrap();
    assert_eq!(response.text(), "h2|id-1|a.test|7||8080:\n");
}
