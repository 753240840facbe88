//! nginx's commands beside nginx's own: messages, exit statuses, and what is in the log of `-e`.
//!
//! Called by: `cargo test -p saker --test applications nginx_commands`.
//! Caveat: times, process ids, and the program's version differ; Saker says all errors of a
//! configuration, so only the first line counts.

use crate::operate;
use saker_testkit::{TempDir, free_port, require, wait_until};
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Both programs, and a directory that each command starts with.
struct Commands {
    dir: TempDir,
    programs: [PathBuf; 2],
}

/// Exit status, standard output and error, and the log.
type Said = (Option<i32>, String, String, String);

impl Commands {
    fn new(name: &str) -> Commands {
        let dir = TempDir::new(name).unwrap();
        symlink(operate::SAKER, dir.join("nginx")).unwrap();
        let programs = [require("nginx").unwrap(), dir.join("nginx")];
        Commands { dir, programs }
    }

    /// Runs a command by both; `{dir}` is the same directory, made anew. Words are parted by `|`.
    fn both(&self, words: &str, files: &[(&str, &str)]) -> [Said; 2] {
        let folder = self.dir.join("run");
        [0, 1].map(|which| {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            let fill = |text: &str| text.replace("{dir}", &folder.display().to_string());
            for (name, text) in files {
                fs::write(folder.join(name), fill(text)).unwrap();
            }
            let output = Command::new("timeout")
                .arg("60")
                .arg(&self.programs[which])
                .args(fill(words).split('|'))
                .output()
                .unwrap();
            let plain = |bytes: &[u8]| without_times(&String::from_utf8_lossy(bytes));
            let log = fs::read(folder.join("e.log")).unwrap_or_else(|_| b"none".to_vec());
            (
                output.status.code(),
                plain(&output.stdout),
                plain(&output.stderr),
                plain(&log),
            )
        })
    }

    fn same(&self, words: &str, files: &[(&str, &str)]) {
        let [nginx, saker] = self.both(words, files);
        assert_eq!(saker, nginx, "{words} {files:?}");
    }

    /// The same of `-t`, where only the first error counts.
    fn same_test(&self, main: &str, more: &str) {
        let conf = format!("{main}\nevents {{ }}\nhttp {{ }}\n");
        self.same_first(&conf, more);
    }

    /// The same of the inside of `http`.
    fn same_http(&self, inside: &str) {
        self.same_first(
            &format!("pid {{dir}}/pid;\nevents {{ }}\nhttp {{\n{inside}\n}}\n"),
            "",
        );
    }

    fn same_first(&self, conf: &str, more: &str) {
        let words = format!("-t|-p|{{dir}}|-c|c|-e|e.log{more}");
        let [nginx, saker] = self.both(&words, &[("c", conf)]);
        let first = |said: &Said| {
            // nginx may complain behind the line that the syntax is right.
            let mut lines = said.2.lines();
            let complaint = lines.find(|line| line.starts_with("nginx: ["));
            let complaint = complaint.unwrap_or_default().to_owned();
            let line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
            (said.0, complaint, line(&said.3))
        };
        assert_eq!(first(&saker), first(&nginx), "{conf} {more}");
    }
}

/// Leaves out times and process ids: `2026/01/02 03:04:05 [error] 12#12: text`.
fn without_times(text: &str) -> String {
    let plain = |line: &str| match line.split_once(" [") {
        Some((time, rest)) if time.len() == 19 && time.contains('/') => {
            let (level, rest) = rest.split_once("] ").unwrap_or((rest, ""));
            let text = rest.split_once(": ").map_or(rest, |(_, text)| text);
            format!("[{level}] {text}")
        }
        _ => line.to_owned(),
    };
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

const GOOD: &str = "pid {dir}/pid;\nevents { }\nhttp { }\n";

#[test]
fn nginx_commands_refuse_options_alike() {
    let commands = Commands::new("nginx-commands-options");
    for words in [
        "-x", "x", "--help", "-t|x", "-tz", "-s", "-s|", "-s|now", "-snow", "-c", "-p", "-g", "-e",
        "-ss|stop",
    ] {
        commands.same(words, &[("c", GOOD)]);
    }
    let here = "-p|{dir}|-c|c|-e|e.log";
    for words in ["-t", "-tq", "-T", "-Tq", "-t|-s|reload"] {
        commands.same(&format!("{words}|{here}"), &[("c", GOOD)]);
    }
    commands.same(&format!("-t|{here}"), &[]);
    commands.same(here, &[]);
}

#[test]
fn nginx_commands_signal_alike() {
    let commands = Commands::new("nginx-commands-signals");
    let here = "-p|{dir}|-c|c|-e|e.log";
    for signal in ["stop", "quit", "reopen", "reload"] {
        commands.same(&format!("-s|{signal}|{here}"), &[("c", GOOD)]);
    }
    for number in [
        "",
        "abc\n",
        "-5\n",
        "123x\n",
        "\r\n123\n",
        "3999999 \n",
        "99999999\n",
    ] {
        let files = [("c", GOOD), ("pid", number)];
        commands.same(&format!("-s|reload|{here}"), &files);
    }
    commands.same(&format!("-s|stop|{here}"), &[("c", "nonsense;")]);
    commands.same(&format!("-s|stop|{here}"), &[]);
}

#[test]
fn nginx_commands_complain_alike_about_the_process() {
    let commands = Commands::new("nginx-commands-process");
    let lines = [
        "pid a;\npid b;",
        "daemon on;\ndaemon off;",
        "daemon x;",
        "master_process on;\nmaster_process off;",
        "master_process maybe;",
        "worker_processes 1;\nworker_processes 2;",
        "worker_processes -1;",
        "worker_processes x;",
        "worker_processes 0;",
        "worker_rlimit_nofile x;",
        "worker_rlimit_nofile 9;\nworker_rlimit_nofile 9;",
        "worker_priority x;",
        "worker_shutdown_timeout x;",
        "worker_shutdown_timeout 1s;\nworker_shutdown_timeout 1s;",
        "timer_resolution x;",
        "lock_file a;\nlock_file b;",
        "pcre_jit x;",
        "debug_points x;",
        "error_log a.log x;",
        "error_log a.log debug_http;",
        "error_log nowhere/a.log;",
        "pid nowhere/pid;",
        "events { }",
        "http { }",
        "env A=b;\nenv B;",
        "load_module nowhere.so;",
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n\
         load_module /usr/lib/nginx/modules/ngx_stream_module.so;",
        "error_log memory:x;",
        "error_log memory:;",
        "error_log syslog:server=127.0.0.1:x;",
        "error_log syslog:server=127.0.0.1,server=127.0.0.1;",
        "error_log a.log debug debug_core;",
        "error_log a.log info warn;",
        "error_log a.log debug_core debug_http;",
        "thread_pool a threads=x;",
        "thread_pool a threads=0;",
        "thread_pool a threads=1 max_queue=x;",
        "thread_pool a max_queue=5;",
        "worker_cpu_affinity auto 01 10;",
        "worker_cpu_affinity 01 10;",
        "worker_processes 3;\nworker_cpu_affinity 01 10;",
    ];
    lines.iter().for_each(|line| commands.same_test(line, ""));
    if rustix::process::geteuid().is_root() {
        let users = [
            "user no-such-user;",
            "user root no-such-group;",
            "user root;\nuser root;",
            "user root;",
        ];
        users.iter().for_each(|line| commands.same_test(line, ""));
    }
    for global in [
        "pid a; pid b;",
        "daemon off",
        "daemon \"off;",
        "daemon off;;",
        "daemon off; }",
        "foo bar;",
        "events { }",
        "error_log e2.log nonsense;",
        "include nowhere.conf;",
        "worker_processes x;",
        "daemon on;|-g|nonsense;",
        "nonsense;|-g|daemon on;",
        "# nothing",
    ] {
        commands.same_test("", &format!("|-g|{global}"));
    }
    commands.same_test("daemon on;", "|-g|daemon off;");
    commands.same_test("pid a;", "|-g|pid b;");
}

/// The first answer of a server that was started as scripts do, and its process.
#[test]
fn nginx_commands_complain_alike_about_tables_of_addresses() {
    let commands = Commands::new("nginx-commands-geo");
    let rows = [
        "ranges; 1.0.0.0-1.0.0.255 a; 1.0.0.10-1.0.0.20 b; default c;",
        "ranges; 1.0.0.0-1.0.0.255 a; 1.0.0.0-1.0.0.255 b;",
        "ranges; 1.0.0.0-1.0.0.255 a; 1.0.0.128-1.0.1.20 b;",
        "ranges; 1.0.0.10-1.0.0.20 a; 1.0.0.0-1.0.0.255 b;",
        "ranges; 1.0.0.0-1.0.255.255 a; 1.0.0.0-1.1.255.255 b;",
        "ranges; 1.0.0.9-1.0.0.1 a;",
        "ranges; 1.0.0.0-x a;",
        "ranges; 1.0.0.0/24 a;",
        "1.0.0.0/24 a; ranges;",
        "ranges; delete 1.0.0.0-1.0.0.255;",
        "ranges; 1.0.0.0-1.0.0.255 a; delete 1.0.0.0-1.0.0.255;",
        "ranges; default a; default b;",
        "delete 1.0.0.0/24;",
        "1.0.0.0/24 a; delete 1.0.0.0/24;",
        "1.0.0.0/24 a; 1.0.0.0/24 b;",
        "1.0.0.1/24 a;",
        "default a; default b;",
        "proxy 1.0.0.1/8;",
        "proxy x;",
        "1.0.0.0/24;",
        "1.0.0.0/24 a b;",
        "1.0.0.0-1.0.0.9 a;",
        "2001:db8::/32 a; 2001:db8::1/32 a;",
        "::1 a; ::1 b; delete ::2;",
        "1.0.0.0/24 { }",
        "volatile; default 1;",
    ];
    for row in rows {
        commands.same_http(&format!("geo $a {{ {row} }}"));
    }
    for row in [
        "map $host $a { hostnames; a*b c; }",
        "split_clients $host $a { * b; 10% a; }",
        "types { a/b c; d/e c; }",
        "types { a/b { } }",
    ] {
        commands.same_http(row);
    }
}

#[test]
fn nginx_commands_complain_alike_about_addresses() {
    let commands = Commands::new("nginx-commands-listen");
    let one = |options: &str| format!("server {{ listen 18080 {options}; }}");
    let two = |first: &str, second: &str| one(first) + "\n" + &one(second);
    for options in [
        "backlog=x",
        "backlog=0",
        "backlog=-1",
        "rcvbuf=x",
        "sndbuf=x",
        "fastopen=x",
        "fastopen=12",
        "setfib=1",
        "ipv6only=x",
        "so_keepalive=x",
        "so_keepalive=on",
        "so_keepalive=::",
        "so_keepalive=30m::10",
        "so_keepalive=1:2:3:4",
        "spdy",
        "deferred reuseport bind",
    ] {
        commands.same_http(&one(options));
    }
    for (first, second) in [
        ("backlog=5", "backlog=6"),
        ("backlog=5", "backlog=5"),
        ("bind", "bind"),
        ("reuseport", "rcvbuf=4k"),
        ("backlog=5", ""),
        ("default_server", "default_server"),
        ("", ""),
    ] {
        commands.same_http(&two(first, second));
    }
    for inside in [
        "server { listen 18080; listen 18080; }",
        "server { listen 18080; listen *:18080; }",
        "server { listen [::1; }",
        "server { listen ''; }",
        "server { listen 18080; server_name a *.b; }\nserver { listen 18080; server_name c *.b a; }",
        "server { listen 18080; server_name .a; }\nserver { listen 18080; server_name .a; }",
        "server { listen 18080; server_name a.*; }\nserver { listen 18080; server_name a.*; }",
        "server { server_name A; }\nserver { server_name a; }",
        "server { listen 18080; server_name a a; }",
        "server { server_name ~; }",
        "server { server_name .; }",
        "server { server_name *.; }",
        "server { server_name a/b; }",
        "server { location /a { location @b { } } }",
    ] {
        commands.same_http(inside);
    }
}

#[test]
fn nginx_commands_complain_alike_about_streams() {
    let commands = Commands::new("nginx-commands-stream");
    for inside in [
        "server { listen 127.0.0.1:18080-18082; return a; }",
        "server { listen 18080-18082; return a; }",
        "server { listen 18082-18080; return a; }",
        "server { listen 18080 backlog=x; return a; }",
        "server { listen 18080 so_keepalive=::; return a; }",
        "server { listen 18080 deferred; return a; }",
        "server { listen 18080 setfib=1; return a; }",
        "server { listen 18080 foo; return a; }",
        "server { listen ''; return a; }",
        "server { return a; }",
        "geo $a { proxy 1.0.0.1; }",
        "geo $a { ranges; 1.0.0.9-1.0.0.1 a; }",
        "limit_conn_zone $remote_addr zone=a:1m; limit_conn_zone $server_port zone=a:1m;",
        "server { listen 18080; limit_conn a 1; return a; }",
    ] {
        let module = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;";
        let conf = format!("{module}\npid {{dir}}/pid;\nevents {{ }}\nstream {{\n{inside}\n}}\n");
        commands.same_first(&conf, "");
    }
}

#[test]
fn nginx_commands_complain_alike_about_arguments() {
    let commands = Commands::new("nginx-commands-arguments");
    for name in [
        "aio_write",
        "directio",
        "gzip_window",
        "lingering_close",
        "lingering_time",
        "log_subrequest",
        "open_file_cache_errors",
        "open_file_cache_min_uses",
        "open_file_cache_valid",
        "postpone_output",
        "proxy_busy_buffers_size",
        "proxy_headers_hash_max_size",
        "proxy_ignore_headers",
        "proxy_limit_rate",
        "proxy_next_upstream",
        "memcached_next_upstream",
        "fastcgi_ssl_protocols",
        "proxy_ssl_protocols",
        "read_ahead",
        "reset_timedout_connection",
        "sendfile",
        "tcp_nopush",
        "types_hash_bucket_size",
        "satisfy",
        "gzip_proxied",
        "proxy_cache_methods",
        "if_modified_since",
    ] {
        commands.same_http(&format!("{name} @x;"));
    }
    for inside in [
        "sendfile on; sendfile on;",
        "lingering_time 5s; lingering_time 5s;",
        "types_hash_max_size 5; types_hash_max_size 5;",
        "proxy_temp_path a; proxy_temp_path a;",
        "limit_req_zone $host zone=a:1m rate=1r/s; limit_req_zone $uri zone=a:1m rate=1r/s;",
        "limit_conn_zone $host zone=a:1m; limit_req_zone $host zone=a:1m rate=1r/s;",
        "limit_conn_zone $host zone=a:1m; limit_req zone=a;",
        "limit_conn_zone $host zone=a:1m; limit_conn a 70000;",
        "limit_conn_zone $host zone=a:1m; limit_conn a 1; limit_conn a 2;",
        "limit_req_zone $host zone=a:1k rate=1r/s;",
        "limit_req zone=a;",
        "limit_conn a 1;",
        "gzip_comp_level 10;",
        "output_buffers 0 32k;",
        "large_client_header_buffers 0 8k;",
        "proxy_buffers x 4k;",
        "connection_pool_size 1;",
        "request_pool_size 255;",
        "access_log a combined buffer=x;",
        "access_log a combined flush=x;",
        "access_log a combined gzip=15;",
        "ssl_protocols TLSv1.2 TLSv1.9;",
        "ssl_early_data x;",
        "ssl_buffer_size x;",
        "ssl_session_cache x;",
        "ssl_session_cache shared:a;",
        "ssl_session_cache shared:a:1k;",
        "ssl_session_cache shared:a:1m builtin:x;",
        "ssl_session_cache builtin:1000 shared:a:1m;",
        "upstream u { server 127.0.0.1:80; keepalive -1; }",
        "upstream u { zone a 1k; server 127.0.0.1:80; }",
        "upstream u { zone '' 64k; server 127.0.0.1:80; }",
        "upstream u { zone a x; server 127.0.0.1:80; }",
        "upstream u { zone a 64k; server 127.0.0.1:80; }",
        "upstream u { random three; server 127.0.0.1:80; }",
        "upstream u { server 127.0.0.1:80 slow_start=5s; }",
        "upstream u { server 127.0.0.1:80 weight=0; }",
        "upstream u { server 127.0.0.1:80 backup; }\nserver { location / { proxy_pass http://u; } }",
        "upstream u { server 127.0.0.1:x; }",
        "upstream u { server unix:; }",
        "upstream u { server ''; }",
        "upstream u { server http://127.0.0.1; }",
        "upstream u { hash $host; server 127.0.0.1:80 backup; }",
        "upstream u { ip_hash; server 127.0.0.1:80 backup; }",
        "upstream u { server 127.0.0.1:80; server 127.0.0.1:81 backup; ip_hash; }",
        "upstream u { least_conn; ip_hash; server 127.0.0.1:80; }",
        "upstream u { keepalive 5; ip_hash; server 127.0.0.1:80; }",
        "upstream u { server 127.0.0.1:80; keepalive 5; keepalive 6; }",
        "server { return 200 ${host; }",
        "server { return 200 ${}; }",
        "server { return 200 $; }",
    ] {
        commands.same_http(inside);
    }
    let long = |count: usize| "a".repeat(count);
    for inside in [
        format!("log_format a {};", long(4095)),
        format!("log_format a\n\n{};", long(4096)),
        format!("log_format a '{}';", long(4094)),
        format!("log_format a '{}';", long(4095)),
        format!("log_format a\n'{}';", long(8000)),
        format!("log_format a \"{}", long(8000)),
        format!("#{}\n", long(9000)),
        format!("index {};", "a ".repeat(3000)),
    ] {
        commands.same_http(&inside);
    }
}

fn start(program: &Path, folder: &Path, global: &str) -> Child {
    fs::create_dir_all(folder).unwrap();
    let mut command = Command::new(program);
    command
        .arg("-p")
        .arg(folder)
        .args(["-c", "c", "-e", "e.log", "-g", global]);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Scripts wait for the file of the process, and send a request then.
#[test]
fn nginx_commands_have_a_process_file_when_they_answer() {
    let commands = Commands::new("nginx-commands-file");
    for turn in 0..5 {
        let folder = commands.dir.join(format!("site{turn}"));
        fs::create_dir(&folder).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let text = format!(
            "daemon off;\nevents {{ }}\nhttp {{ server {{ listen {address}; return 200 ok; }} }}\n"
        );
        fs::write(folder.join("c"), text).unwrap();
        let mut server = start(&commands.programs[1], &folder, "pid pid;");
        let file = folder.join("pid");
        wait_until("the file is there", || file.exists());
        let number = fs::read_to_string(&file).unwrap();
        assert_eq!(number.trim(), server.id().to_string());
        TcpStream::connect(address).unwrap();
        let quit = Command::new("kill").args(["-QUIT", number.trim()]).status();
        assert!(quit.unwrap().success());
        assert!(server.wait().unwrap().success());
        assert!(!file.exists());
        assert!(!folder.join("pid.new").exists());
    }
}

/// The server keeps root's rights if the configuration says so, as in containers.
#[test]
fn nginx_commands_run_as_root_where_root_is_the_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let commands = Commands::new("nginx-commands-root");
    for program in &commands.programs {
        let folder = commands.dir.join("site");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        fs::create_dir_all(folder.join("private")).unwrap();
        let mode = Command::new("chmod").arg("700").arg(&folder).status();
        assert!(mode.unwrap().success());
        fs::write(folder.join("private/index.html"), "for root").unwrap();
        let text = format!(
            "daemon off;\nuser root;\nevents {{ }}\nhttp {{ access_log off; server {{ listen {address}; root private; }} }}\n"
        );
        fs::write(folder.join("c"), text).unwrap();
        let mut server = start(program, &folder, "pid pid;");
        let answer = || {
            let mut client = saker_testkit::Client::connect(address).ok()?;
            Some(client.get("/").ok()?.text())
        };
        wait_until("it answers", || answer().is_some());
        assert_eq!(answer().as_deref(), Some("for root"), "{program:?}");
        let quit = Command::new("kill")
            .args(["-QUIT", &server.id().to_string()])
            .status();
        assert!(quit.unwrap().success());
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn nginx_commands_say_alike_that_an_address_is_taken() {
    let commands = Commands::new("nginx-commands-taken");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let conf = format!(
        "daemon off;\npid {{dir}}/pid;\nerror_log {{dir}}/e.log;\nevents {{ }}\nhttp {{ server {{ listen {address}; }} }}\n"
    );
    let [nginx, saker] = commands.both("-p|{dir}|-c|c|-e|stderr", &[("c", &conf)]);
    let lines = |text: &str| {
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| line.contains("[emerg]"))
            .map(str::to_owned)
            .collect();
        // nginx says it for each try.
        lines.dedup();
        lines
    };
    assert_eq!((saker.0, lines(&saker.2)), (nginx.0, lines(&nginx.2)));
    assert_eq!(lines(&saker.3), lines(&nginx.3));
    assert_eq!(lines(&nginx.3).len(), 2, "{nginx:?}");
}

const LARGE: usize = 32 << 20;

/// A refused configuration is in the error log in nginx's words; asked to quit, the server takes no
/// connection while a request goes on.
#[test]
fn nginx_commands_reload_and_quit_alike() {
    let commands = Commands::new("nginx-commands-quit");
    let user = match rustix::process::geteuid().is_root() {
        true => "user www-data;\n",
        false => "",
    };
    let refused: Vec<String> = (0..2)
        .map(|at| reload_and_quit(&commands, at, user))
        .collect();
    assert_eq!(refused[1], refused[0]);
    assert!(refused[0].contains("[emerg] unknown directive \"retrun\" in "));
}

fn reload_and_quit(commands: &Commands, at: usize, user: &str) -> String {
    let folder = commands.dir.join(format!("site{at}"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("slow"), vec![b'x'; LARGE]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let text = format!(
        "daemon off;\n{user}error_log e.log info;\nevents {{ }}\nhttp {{\naccess_log a.log;\nserver {{ listen {address};\nlocation / {{ return 200 ok; }}\n\
         location /slow {{ root {}; }} }} }}\n",
        folder.display()
    );
    fs::write(folder.join("c"), &text).unwrap();
    let mut server = start(&commands.programs[at], &folder, "pid pid;");
    let get = |path: &str| {
        let mut client = saker_testkit::Client::connect(address).ok()?;
        Some(client.get(path).ok()?.text())
    };
    wait_until("it answers", || get("/").is_some());
    let signal = |name: &str| {
        let sent = Command::new("kill")
            .args([name, &server.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    };
    fs::write(folder.join("c"), text.replace("return", "retrun")).unwrap();
    signal("-HUP");
    let mut line = String::new();
    wait_until("the refusal is in the log", || {
        let log = fs::read_to_string(folder.join("e.log")).unwrap_or_default();
        line = log
            .lines()
            .find(|line| line.contains("[emerg]"))
            .unwrap_or_default()
            .to_owned();
        !line.is_empty()
    });
    assert_eq!(get("/").as_deref(), Some("ok"));
    // Far more than the buffers of the sockets hold: it goes on for as long as the client does not read.
    let mut slow = saker_testkit::Client::connect(address).unwrap();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let begun = slow.read_bytes(12).unwrap();
    assert_eq!(begun, b"HTTP/1.1 200");
    signal("-QUIT");
    wait_until("no connection is taken", || {
        TcpStream::connect(address).is_err()
    });
    let rest = slow.read_to_close(operate::PATIENCE).unwrap();
    assert!(
        rest.len() > LARGE && rest.ends_with(b"xxx"),
        "{}",
        rest.len()
    );
    assert!(server.wait().unwrap().success());
    let line = without_times(&line);
    line.replace(&folder.display().to_string(), "{dir}")
}
