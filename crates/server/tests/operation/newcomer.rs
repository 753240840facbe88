//! `saker serve DIR` as a newcomer uses it: each PHP alone on the machine, directories and state
//! directories with any name, root and a plain user, with and without the settings of a login; and
//! the responses to common mistakes of the first hour.
//!
//! Caveat: the test needs a machine with one PHP where there are three: as root each server gets a
//! mount namespace without the other programs. Where that is not allowed (no root, some
//! containers), the PHP is named instead. The cases are not the full product, but contain every
//! pair of values of any two properties.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self, PATIENCE, SAKER, stderr, stdout, wait_until};
use rustix::process::{Pid, Signal, geteuid, getuid, kill_process};
use saker_testkit::{Client, ProcessTree, Response, TempDir};
use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, PermissionsExt, chown, symlink},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

const PROGRAMS: [&str; 3] = ["lsphp", "php-fpm", "php-cgi"];
const FOLDERS: [&str; 4] = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"];
const ODD: &str = "ä b:c;d'e\"f%g$h${HOME}#[i]";
/// First uid of the plain users, one for each case, whose state directories are unused.
const PLAIN_USERS: u32 = 61_000;

const PAGE: &str = "<?php echo $_SERVER['SCRIPT_FILENAME'], '|', $_SERVER['DOCUMENT_ROOT'], '|', $_SERVER['PATH_INFO'] ?? '', '|', \
                    $_SERVER['QUERY_STRING'], '|', PHP_SAPI, '|', fileowner('/proc/self');";

/// Numbers of values: PHP, root, state directory, user, environment, end.
const PROPERTIES: [usize; 6] = [3, 6, 5, 2, 3, 3];
type Case = [usize; 6];

/// Greedily the case with most pairs of values that no case before it had.
fn cases() -> Vec<Case> {
    let all = (0..PROPERTIES.iter().product::<usize>()).map(|mut number| {
        PROPERTIES.map(|count| {
            let value = number % count;
            number /= count;
            value
        })
    });
    let all: Vec<Case> = all.collect();
    let pairs = |case: &Case| {
        let case = *case;
        (0..case.len()).flat_map(move |one| {
            (one + 1..case.len()).map(move |other| (one, case[one], other, case[other]))
        })
    };
    let (mut seen, mut kept) = (std::collections::HashSet::new(), Vec::new());
    loop {
        let news = |case: &Case| pairs(case).filter(|pair| !seen.contains(pair)).count();
        let best = *all.iter().max_by_key(|case| news(case)).unwrap();
        if news(&best) == 0 {
            return kept;
        }
        seen.extend(pairs(&best));
        kept.push(best);
    }
}

/// True if servers may have mount namespaces here.
fn is_isolated() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let try_it = "mount --bind /dev/null \"$1\"";
        let file = std::env::temp_dir().join(format!("saker-newcomer-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let tried = Command::new("unshare")
            .args(["-m", "sh", "-c", try_it, "sh"])
            .arg(&file)
            .stderr(Stdio::null())
            .status();
        fs::remove_file(file).unwrap();
        geteuid().is_root() && tried.is_ok_and(|status| status.success())
    })
}

/// Programs of the other kinds.
fn hidden(kind: &str) -> Vec<PathBuf> {
    let entries = FOLDERS
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path());
    let is_other = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        PROGRAMS
            .iter()
            .any(|other| *other != kind && name.starts_with(other))
    };
    entries.filter(is_other).collect()
}

/// Environment and commands of one newcomer.
struct Newcomer {
    dir: TempDir,
    uid: u32,
    php: &'static str,
    /// Working directory, root as typed, and its path.
    here: PathBuf,
    typed: OsString,
    root: PathBuf,
    state: Option<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Newcomer {
    fn of(case: Case) -> Newcomer {
        let dir = TempDir::new("newcomer").unwrap();
        let long = format!("{}/{}", "long ".repeat(20), "x".repeat(150));
        let (at, here, typed): (&str, &str, OsString) = match case[1] {
            0 => ("site", "site", ".".into()),
            1 => ("app/public", "app/bin", "../public".into()),
            2 => ("site", "", "site/".into()),
            3 => ("site", "", "link".into()),
            4 => (ODD, "", ODD.into()),
            _ => (&long, "", dir.join(&long).into()),
        };
        for (file, text) in [
            ("index.php", PAGE),
            ("a b/info.php", PAGE),
            ("style.css", "a{}"),
            ("a b/é;%.txt", "odd"),
        ] {
            dir.write(&format!("{at}/{file}"), text).unwrap();
        }
        symlink("site", dir.join("link")).unwrap();
        let here = dir.join(here);
        fs::create_dir_all(&here).unwrap();
        let state = match case[2] {
            0 | 1 => None,
            2 => Some(PathBuf::from("state")),
            3 => Some(dir.join("state").join(ODD)),
            _ => Some(dir.join("s".repeat(120)).join("t".repeat(120))),
        };
        let mut environment = vec![
            ("HOME", dir.join("home")),
            ("XDG_RUNTIME_DIR", dir.join("run")),
        ];
        // The usual state directory may have other servers' in it, where it can't be had alone.
        environment.truncate(if is_isolated() { 2 - case[4] } else { 2 });
        let root = fs::canonicalize(dir.join(at)).unwrap();
        static USERS: AtomicU32 = AtomicU32::new(PLAIN_USERS);
        let uid = match case[3] {
            _ if !geteuid().is_root() => getuid().as_raw(),
            0 => 0,
            _ => USERS.fetch_add(1, Ordering::Relaxed),
        };
        let newcomer = Newcomer {
            dir,
            uid,
            php: PROGRAMS[case[0]],
            here,
            typed,
            root,
            state,
            environment,
        };
        newcomer.make_folders();
        newcomer
    }

    fn make_folders(&self) {
        // `state` below an odd folder is made by the server, as all of the others are.
        for name in ["home", "run", "base", "state"] {
            fs::create_dir(self.dir.join(name)).unwrap();
            fs::set_permissions(self.dir.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        if geteuid().is_root() {
            let give = |path: &Path| chown(path, Some(self.uid), Some(self.uid)).unwrap();
            [&*self.dir, &self.here].into_iter().for_each(give);
            ["home", "run", "base", "state"]
                .map(|name| self.dir.join(name))
                .iter()
                .for_each(|path| give(path));
        }
    }

    fn set_environment(&self, command: &mut Command) {
        command
            .env_remove("HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_DATA_HOME");
        command
            .envs(self.environment.iter().cloned())
            .current_dir(&self.here);
    }

    /// As this user; the program comes next.
    fn as_user(&self) -> Vec<OsString> {
        let id = self.uid.to_string();
        let set = [
            "setpriv".into(),
            format!("--reuid={id}"),
            format!("--regid={id}"),
            "--clear-groups".into(),
        ];
        if geteuid().as_raw() == self.uid {
            Vec::new()
        } else {
            set.map(OsString::from).to_vec()
        }
    }

    fn serve(&self, program: &Program) -> Running {
        // Servers of this machine have their state directories below /var/lib.
        const SCRIPT: &str = "set -e; mkdir -p -m 700 /tmp/saker-0; mount --bind \"$1\" /tmp/saker-0; shift
            mount -t tmpfs none /var/lib
            while [ \"$1\" != -- ]; do mount --bind /dev/null \"$1\"; shift; done; shift; exec \"$@\"";
        let mut words: Vec<OsString> = Vec::new();
        if is_isolated() {
            words.extend(["unshare", "-m", "sh", "-c", SCRIPT, "sh"].map(OsString::from));
            words.push(self.dir.join("base").into());
            words.extend(hidden(self.php).into_iter().map(PathBuf::into_os_string));
            words.push("--".into());
        }
        words.extend(self.as_user());
        words.push(program.path());
        words.extend(["serve", "--workers", "1", "--http", "127.0.0.1:0"].map(OsString::from));
        words.extend(
            (!is_isolated())
                .then(|| ["--php", self.php].map(OsString::from))
                .into_iter()
                .flatten(),
        );
        words.extend(
            self.state
                .iter()
                .flat_map(|state| ["--state-dir".into(), state.into()]),
        );
        words.extend(["--".into(), self.typed.clone()]);
        let mut command = Command::new(&words[0]);
        self.set_environment(command.args(&words[1..]));
        Running::start(command, &self.dir)
    }

    /// Another command about the server that runs, typed at the same place.
    fn tell(&self, program: &Program, server: &Running, verb: &str) -> Output {
        let mut words: Vec<OsString> = Vec::new();
        if is_isolated() {
            let pid = server.child.id().to_string();
            let script = "cd \"$1\"; shift; exec \"$@\"";
            words.extend(
                ["nsenter", "-m", "-t", &pid, "sh", "-c", script, "sh"].map(OsString::from),
            );
            words.push(self.here.clone().into());
        }
        words.extend(self.as_user());
        words.extend([program.path(), verb.into()]);
        words.extend(
            self.state
                .iter()
                .flat_map(|state| ["--state-dir".into(), state.into()]),
        );
        let mut command = Command::new(&words[0]);
        self.set_environment(command.args(&words[1..]));
        command.output().unwrap()
    }

    /// Below its folder and where state directories are by default.
    fn sockets_left(&self) -> Vec<PathBuf> {
        let is_left = |path: &PathBuf| {
            path.ends_with("saker.pid")
                || fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_socket())
        };
        let usual = (self.uid >= PLAIN_USERS).then(|| self.usual_base());
        [Some(self.dir.to_path_buf()), usual]
            .iter()
            .flatten()
            .flat_map(|path| all_below(path))
            .filter(is_left)
            .collect()
    }

    fn usual_base(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/saker-{}", self.uid))
    }
}

/// A copy of the server that every user can run, whatever the permissions of the build directory.
struct Program(TempDir);

impl Program {
    fn new() -> Program {
        let dir = TempDir::new("newcomer-program").unwrap();
        fs::hard_link(SAKER, dir.join("saker"))
            .or_else(|_| dir.copy_program(SAKER, "saker").map(drop))
            .unwrap();
        Program(dir)
    }

    fn path(&self) -> OsString {
        self.0.join("saker").into()
    }
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let below = |path: PathBuf| {
        if path.is_dir() && !path.is_symlink() {
            [vec![path.clone()], all_below(&path)].concat()
        } else {
            vec![path]
        }
    };
    entries.flat_map(below).collect()
}

struct Running {
    child: Child,
    out: PathBuf,
    error: PathBuf,
}

impl Running {
    fn start(mut command: Command, dir: &Path) -> Running {
        let (out, error) = (dir.join("stdout"), dir.join("stderr"));
        command
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out).unwrap())
            .stderr(fs::File::create(&error).unwrap());
        Running {
            child: command.spawn().unwrap(),
            out,
            error,
        }
    }

    fn said(&self) -> String {
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        text(&self.out) + &text(&self.error)
    }

    /// Address in the URL that it prints.
    fn address(&mut self) -> SocketAddr {
        let mut found = None;
        wait_until("an address is printed", || {
            let printed = fs::read_to_string(&self.out).unwrap();
            let line = printed.lines().find_map(|line| {
                line.strip_suffix('/')?
                    .rsplit_once(" on http://")?
                    .1
                    .parse()
                    .ok()
            });
            found = line.filter(|_| printed.ends_with('\n'));
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.said());
            found.is_some()
        });
        found.unwrap()
    }

    fn get(&mut self, target: &str) -> Response {
        let mut client = Client::connect(self.address()).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        client.get(target).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let tree = ProcessTree::of(self.child.id());
            let _ = self.child.kill();
            let _ = self.child.wait();
            tree.kill_survivors();
        }
    }
}

/// Names of the scripts that servers start PHP with.
fn php_scripts() -> HashSet<OsString> {
    let all = fs::read_dir("/tmp").unwrap().flatten();
    let names = all.map(|entry| entry.file_name());
    names
        .filter(|name| name.as_bytes().starts_with(b"saker-php-"))
        .collect()
}

fn try_case(case: Case, program: &Program) {
    let newcomer = Newcomer::of(case);
    // Servers that were killed leave theirs, and numbers of processes come again.
    let before = php_scripts();
    let mut server = newcomer.serve(program);
    let root = newcomer.root.to_str().unwrap();
    let sapi = ["litespeed", "fpm-fcgi", "cgi-fcgi"][case[0]];
    for (target, script, info, query) in [
        ("/", "index.php", "", ""),
        (
            "/a%20b/info.php/more%20of/it?q=1",
            "a b/info.php",
            "/more of/it",
            "q=1",
        ),
        ("/index.php", "index.php", "", ""),
    ] {
        let response = server.get(target);
        let (status, page) = (response.status, response.text());
        let (page, owner) = page.rsplit_once('|').unwrap_or((&page, ""));
        assert_eq!(
            (status, page),
            (
                200,
                &*format!("{root}/{script}|{root}|{info}|{query}|{sapi}")
            ),
            "{target}: {}",
            server.said()
        );
        let owner: u32 = owner.parse().unwrap();
        assert!(
            owner != 0 && (newcomer.uid == 0 || owner == newcomer.uid),
            "PHP runs as {owner}"
        );
    }
    assert_eq!(server.get("/style.css").text(), "a{}");
    assert_eq!(server.get("/a%20b/%C3%A9;%25.txt").text(), "odd");
    let status = newcomer.tell(program, &server, "status");
    assert!(
        status.status.success() && stdout(&status).contains(root),
        "{}{}",
        stdout(&status),
        stderr(&status)
    );
    let tree = ProcessTree::of(server.child.id());
    assert!(tree.pids().len() > 1, "PHP is a child of the server's");
    match case[5] {
        0 => {
            let stopped = newcomer.tell(program, &server, "stop");
            assert!(
                stopped.status.success(),
                "{}{}",
                stdout(&stopped),
                stderr(&stopped)
            );
        }
        1 => server.signal(Signal::INT),
        _ => server.signal(Signal::TERM),
    }
    let mut ended = None;
    wait_until("it ends", || {
        ended = server.child.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success(), "{ended:?}: {}", server.said());
    wait_until("no process is left", || tree.alive().is_empty());
    assert_eq!(newcomer.sockets_left(), Vec::<PathBuf>::new());
    let script = format!("saker-php-{}-", server.child.id());
    let of_server = |name: &OsString| name.as_bytes().starts_with(script.as_bytes());
    let mut left = php_scripts().into_iter().filter(of_server);
    assert_eq!(left.find(|name| !before.contains(name)), None);
    if newcomer.uid >= PLAIN_USERS {
        let _ = fs::remove_dir_all(newcomer.usual_base());
    }
}

#[test]
fn each_php_alone_everywhere() {
    let _turn = saker_testkit::heavy();
    for kind in PROGRAMS {
        let is_there = FOLDERS
            .iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        assert!(
            is_there
                .map(|entry| entry.file_name())
                .any(|name| name.to_string_lossy().starts_with(kind)),
            "{kind}: tools/install-test-programs"
        );
    }
    let (cases, program) = (cases(), Program::new());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failed = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if std::panic::catch_unwind(|| try_case(*case, &program)).is_err() {
                failed.push(*case);
            }
        }
        failed
    };
    // Most of a case is waiting.
    let failed: Vec<Case> = std::thread::scope(|scope| {
        let workers = [(); 4].map(|()| scope.spawn(work));
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    assert!(failed.is_empty(), "of {} cases: {failed:?}", cases.len());
}

/// Runs to its end; one that serves where it should have ended is stopped (status 124).
fn typed(dir: &Path, arguments: &[&str]) -> Output {
    let arguments = arguments.iter().map(OsStr::new);
    Command::new("timeout")
        .args(["60", SAKER])
        .args(arguments)
        .current_dir(dir)
        .env("XDG_RUNTIME_DIR", dir)
        .output()
        .unwrap()
}

#[test]
fn what_is_typed_wrong_is_answered_with_the_way_out() {
    let _turn = saker_testkit::heavy();
    let dir = TempDir::new("newcomer-typed").unwrap();
    dir.write("site/index.html", "hello").unwrap();
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o700)).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    for (arguments, status, words) in [
        (&["help"][..], 0, "Usage: saker"),
        (&["help", "serve"], 0, "Usage: saker serve"),
        (&[], 2, "Commands:"),
        (&["sevre", "."], 2, "'serve'"),
        (&["site"], 2, "To serve a folder: saker serve site"),
        (&["file-server"], 2, "saker serve DIR"),
        (
            &["reverse-proxy", "--to", ":3000"],
            2,
            "saker run -c saker.toml",
        ),
        (&["validate"], 2, "saker check -c saker.toml"),
        (&["-t"], 2, "saker check -c saker.toml"),
        (&["-s", "reload"], 2, "saker reload"),
        (&["-c", "nginx.conf"], 2, "saker run -c saker.toml"),
        (&["serve", "--htp", "8080"], 2, "'--http'"),
        (
            &["serve", "missing"],
            2,
            "cannot serve missing: No such file",
        ),
        (
            &["serve", "site/index.html"],
            2,
            "not a directory; its folder is served by: saker serve ",
        ),
        (&["serve", "site", "--http", "::1"], 2, "[::1]:8080"),
        (
            &["serve", "site", "--http", "99999"],
            2,
            "a port is a number up to 65535",
        ),
        (
            &["serve", "site", "--http", "http://localhost:8080"],
            2,
            "not a URL",
        ),
        (&["serve", "site", "--http", "unix:x.sock"], 2, "absolute"),
        (&["serve", "site", "--http", &port], 2, " is free"),
        (
            &["serve", "site", "--php", "on"],
            2,
            "it has to be auto, php-fpm, php-cgi, lsphp",
        ),
        (
            &["serve", "site", "--php", "/usr/bin/env"],
            2,
            "whose name begins with php-fpm, php-cgi or lsphp",
        ),
        (
            &["serve", "site", "--php", "php-fpm1.0"],
            2,
            "no such PHP is installed (installed: ",
        ),
        (
            &["serve", "--domain", "localhost", "site"],
            2,
            "--domain localhost: not a name",
        ),
        (&["serve", "site", "--cert", "none.pem"], 2, "none.pem"),
    ] {
        let output = typed(&dir, arguments);
        let said = stdout(&output) + &stderr(&output);
        assert!(
            output.status.code() == Some(status) && said.contains(words),
            "{arguments:?}: {:?} {said}",
            output.status
        );
    }
}

/// `--php` of every form, for the same folder.
#[test]
fn php_by_each_of_its_names() {
    let _turn = saker_testkit::heavy();
    let dir = TempDir::new("newcomer-php").unwrap();
    dir.write("site/index.php", PAGE).unwrap();
    dir.write("state/x", "").unwrap();
    fs::set_permissions(dir.join("state"), fs::Permissions::from_mode(0o700)).unwrap();
    let cgi = fs::canonicalize("/usr/bin/php-cgi").unwrap();
    let name = cgi.file_name().unwrap().to_str().unwrap();
    symlink(&cgi, dir.join(name)).unwrap();
    let here = format!("./{name}");
    for (php, sapi) in [
        ("auto", "litespeed"),
        ("lsphp", "litespeed"),
        ("php-fpm", "fpm-fcgi"),
        ("fpm", "fpm-fcgi"),
        ("php-cgi", "cgi-fcgi"),
        (name, "cgi-fcgi"),
        (cgi.to_str().unwrap(), "cgi-fcgi"),
        (&here, "cgi-fcgi"),
    ] {
        let mut command = Command::new(SAKER);
        command
            .args([
                "serve",
                "site",
                "--workers",
                "1",
                "--http",
                "127.0.0.1:0",
                "--state-dir",
                "state",
                "--php",
                php,
            ])
            .current_dir(&*dir);
        let mut server = Running::start(command, &dir);
        let page = server.get("/").text();
        assert_eq!(
            page.split('|').nth(4),
            Some(sapi),
            "{php}: {page} {}",
            server.said()
        );
        server.signal(Signal::TERM);
        wait_until("it ends", || server.child.try_wait().unwrap().is_some());
    }
}

/// A folder in a home that only its owner may enter, served by root: PHP is that owner, never root,
/// and says so where there is none but root.
#[test]
fn php_for_root_in_a_closed_home() {
    let _turn = saker_testkit::heavy();
    if !geteuid().is_root() {
        eprintln!("not tested: only root has others' folders to serve");
        return;
    }
    let dir = TempDir::new("newcomer-home").unwrap();
    dir.write("home/site/index.php", PAGE).unwrap();
    let home = dir.join("home");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let serve = || {
        let mut command = Command::new(SAKER);
        command
            .args([
                "serve",
                "--workers",
                "1",
                "--http",
                "127.0.0.1:0",
                "--php",
                "php-fpm",
                "--state-dir",
            ])
            .arg(dir.join("state"));
        Running::start(
            {
                command.arg(home.join("site"));
                command
            },
            &dir,
        )
    };
    let mut server = serve();
    assert_ne!(server.get("/").status, 200);
    assert!(
        server.said().contains("who can't enter"),
        "{}",
        server.said()
    );
    server.signal(Signal::TERM);
    wait_until("it ends", || server.child.try_wait().unwrap().is_some());
    drop(server);
    // A system user that is everywhere and owns nothing.
    let games = 5;
    for path in [home.clone(), home.join("site"), home.join("site/index.php")] {
        chown(path, Some(games), Some(60)).unwrap();
    }
    let mut server = serve();
    let page = server.get("/").text();
    assert!(
        page.ends_with("|5") && server.said().contains("PHP runs as games"),
        "{page} {}",
        server.said()
    );
}

/// The very first command, on a machine of its own: nothing is named but the folder.
#[test]
fn serve_and_a_folder_are_all_that_is_typed() {
    let _turn = saker_testkit::heavy();
    if !is_isolated() {
        eprintln!("not tested: no network namespaces here");
        return;
    }
    let dir = TempDir::new("newcomer-first").unwrap();
    dir.write("site/index.php", PAGE).unwrap();
    let inside = |command: &mut Command| {
        command
            .env("HOME", &*dir)
            .env("XDG_RUNTIME_DIR", &*dir)
            .env_remove("XDG_DATA_HOME");
    };
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("unshare");
    inside(
        command
            .args([
                "-n",
                "sh",
                "-c",
                "ip link set lo up; exec \"$@\"",
                "sh",
                SAKER,
                "serve",
                "site",
            ])
            .current_dir(&*dir),
    );
    let mut server = Running::start(command, &dir);
    assert_eq!(server.address(), "127.0.0.1:8080".parse().unwrap());
    wait_until("all of it is printed", || {
        server.said().contains("Browsers warn until they trust")
    });
    let pid = server.child.id().to_string();
    let said = server.said();
    assert!(
        said.contains(&format!(
            "import {}/.local/share/saker/authority/authority.pem",
            dir.display()
        )),
        "where it is kept for good: {said}"
    );
    // As it is proposed to the reader.
    let (_, proposed) = said.split_once("or try curl ").unwrap();
    let with_tls = format!("curl -sS -m 20 {}", proposed.lines().next().unwrap());
    for typed in ["curl -sS -m 20 http://127.0.0.1:8080/", &with_tls] {
        let output = Command::new("nsenter")
            .args(["-n", "-t", &pid, "sh", "-c", typed])
            .output()
            .unwrap();
        assert!(
            stdout(&output).contains("/site/index.php|"),
            "{typed}: {}{}{}",
            stdout(&output),
            stderr(&output),
            server.said()
        );
    }
    for (verb, words) in [("status", "127.0.0.1:8443"), ("stop", "stopped")] {
        let mut command = Command::new(SAKER);
        inside(command.arg(verb));
        let output = command.output().unwrap();
        assert!(
            output.status.success() && stdout(&output).contains(words),
            "{}{}",
            stdout(&output),
            stderr(&output)
        );
    }
    wait_until("it ends", || server.child.try_wait().unwrap().is_some());
}

/// The state directory is made by root, and its sockets by who the server becomes.
#[test]
fn php_where_the_server_changes_its_user() {
    let _turn = saker_testkit::heavy();
    if !geteuid().is_root() {
        eprintln!("not tested: only root can change its user");
        return;
    }
    let dir = TempDir::new("newcomer-user").unwrap();
    dir.write("site/index.php", PAGE).unwrap();
    for kind in PROGRAMS {
        let state = dir
            .join("s".repeat(120))
            .join(format!("{ODD} {kind}").replace(['"', '$', '{'], "_"));
        let state = state.to_str().unwrap();
        let text = format!(
            "[server]\nuser = \"nobody\"\nworkers = 1\nstate_dir = \"{state}\"\n\n[php]\nprogram = \"{kind}\"\n\n\
                 [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"site\"\nphp = \"auto\"\n"
        );
        // The path of the control socket is too long for other programs.
        let server = operate::native(&text).until_accepting().start_in(&dir);
        for _ in 0..2 {
            let response = Client::connect(server.address()).unwrap().get("/").unwrap();
            let (status, page) = (response.status, response.text());
            assert!(
                status == 200 && page.contains("/site/index.php|") && !page.ends_with("|0"),
                "{kind}: {status} {page} {}",
                server.stderr()
            );
            let told = Command::new(SAKER)
                .args(["reload", "--state-dir", state])
                .output()
                .unwrap();
            assert!(told.status.success(), "{}", stderr(&told));
        }
        assert!(server.stop().unwrap().success());
    }
}
