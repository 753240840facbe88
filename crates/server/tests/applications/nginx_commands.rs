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
        let words = format!("-t|-p|{{dir}}|-c|c|-e|e.log{more}");
        let conf = format!("{main}\nevents {{ }}\nhttp {{ }}\n");
        let [nginx, saker] = self.both(&words, &[("c", &conf)]);
        let first = |said: &Said| {
            let line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
            (said.0, line(&said.2), line(&said.3))
        };
        assert_eq!(first(&saker), first(&nginx), "{main} {more}");
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
