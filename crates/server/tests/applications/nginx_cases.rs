//! nginx's configurations, read by nginx and by Saker: one `.case` file each, with a configuration,
//! a document tree, and requests.
//!
//! Called by: `cargo test -p saker --test applications nginx_cases`; `NGINX_CASE=name` runs one.
//! Caveat: all cases share one nginx and one Saker, each with an address per case; names of
//! variables, zones, and upstreams need `{case}` in them.
//! Out of scope: which responses count as the same (`compare`).

use crate::{
    here,
    nginx_programs::{self, Protocol},
    operate,
    requests::{self, Script},
    run::{Browser, differences, last_lines},
    servers::{self, Words},
};
use saker_testkit::{ServerProcess, TempDir, free_port, require};
use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
};

/// A case file.
struct Case {
    name: String,
    path: PathBuf,
    configuration: String,
    /// Paths below the case's folder, with their content.
    files: Vec<(String, String)>,
    /// Folders that everybody may write to.
    folders: Vec<String>,
    script: Script,
    port: u16,
    /// For a server behind the first.
    second_port: u16,
}

/// Reads the sections of a file: `== conf`, `== file PATH`, `== folder PATH`, `== requests`.
fn read(path: PathBuf) -> Case {
    let text = fs::read_to_string(&path).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut case = Case {
        name,
        path: path.clone(),
        configuration: String::new(),
        files: Vec::new(),
        folders: Vec::new(),
        script: Script::default(),
        port: free_port().unwrap(),
        second_port: free_port().unwrap(),
    };
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some(section) = line.strip_prefix("== ") else {
            assert!(
                line.is_empty() || line.starts_with('#'),
                "{}:{}: text outside of a section",
                path.display(),
                number + 1
            );
            continue;
        };
        let mut content = String::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with("== ")) {
            content.push_str(line);
            content.push('\n');
        }
        match section.split_once(' ') {
            None if section == "conf" => case.configuration = content,
            None if section == "requests" => {
                case.script = requests::parse(&path, &content, number + 1);
            }
            Some(("file", name)) => case.files.push((name.to_owned(), content)),
            Some(("folder", name)) => case.folders.push(name.to_owned()),
            _ => panic!("{}: unknown section {section}", path.display()),
        }
    }
    case
}

fn cases() -> Vec<Case> {
    let only = std::env::var("NGINX_CASE").ok();
    let mut paths: Vec<PathBuf> = fs::read_dir(here().join("nginx"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "case"))
        .filter(|path| {
            let name = path.file_stem().unwrap().to_string_lossy();
            only.as_ref().is_none_or(|only| *only == name)
        })
        .collect();
    paths.sort();
    paths.into_iter().map(read).collect()
}

/// The configuration of one server with all cases, at an address.
fn configuration(dir: &TempDir, cases: &[Case], ip: Ipv4Addr, words: &Words) -> String {
    let mut text = String::new();
    for case in cases {
        let mut words = words.clone();
        words.add("address", SocketAddr::from((ip, case.port)));
        words.add("address2", SocketAddr::from((ip, case.second_port)));
        words.add("ip", ip);
        words.add("port", case.port);
        words.add("case", &case.name);
        words.add("dir", dir.join(&case.name).display());
        writeln!(text, "{}", words.fill(&case.configuration)).unwrap();
    }
    text
}

fn start(dir: &TempDir, cases: &[Case], words: &Words) -> (ServerProcess, ServerProcess) {
    let folder = dir.join("reference");
    fs::create_dir_all(&folder).unwrap();
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, cases[0].port));
    let ip = Ipv4Addr::new(127, 0, 0, 2);
    let second = SocketAddr::from((ip, cases[0].port));
    let text = servers::nginx(dir, &configuration(dir, cases, Ipv4Addr::LOCALHOST, words));
    let file = folder.join("nginx.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(require("nginx").unwrap());
    command
        .arg("-p")
        .arg(&folder)
        .arg("-c")
        .arg(&file)
        .args(["-e", "stderr"]);
    let reference = ServerProcess::start(&mut command, first).unwrap();
    let text = servers::nginx(dir, &configuration(dir, cases, ip, words))
        .replace("/nginx.pid", "/saker.pid");
    let file = dir.join("reference/saker.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(operate::SAKER);
    command
        .env("TMPDIR", dir.temporary_files().unwrap())
        .args(["run", "--workers", "1", "--nginx"])
        .arg(&file)
        .arg("--state-dir")
        .arg(dir.join("saker-state"));
    let saker = ServerProcess::start(&mut command, second).unwrap();
    (reference, saker)
}

#[test]
fn nginx_cases_are_answered_as_by_nginx() {
    let _turn = saker_testkit::heavy();
    let cases = cases();
    let dir = TempDir::new("nginx-cases").unwrap();
    let mut words = Words::default();
    words.add("all", dir.display());
    fs::create_dir_all(dir.join("sessions")).unwrap();
    let php = servers::php_fpm(&dir).unwrap_or_else(|error| panic!("php-fpm: {error}"));
    words.add("php", php.address());
    let values = [
        ("/value.html", "<b>a value</b>"),
        ("/empty", ""),
        ("/a%20b", "blank"),
        ("k:x", "of x"),
        ("/zipped", "packed"),
    ];
    let memcached =
        servers::memcached(&values).unwrap_or_else(|error| panic!("memcached: {error}"));
    words.add("memcached", memcached.address());
    words.add("scgi", nginx_programs::start(Protocol::Scgi));
    words.add("uwsgi", nginx_programs::start(Protocol::Uwsgi));
    for case in &cases {
        fs::create_dir_all(dir.join(&case.name).join("www")).unwrap();
        for (name, content) in &case.files {
            let path = format!("{}/{name}", case.name);
            dir.write(&path, content).unwrap();
        }
        for name in &case.folders {
            let folder = dir.join(&case.name).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }
    let (reference, saker) = start(&dir, &cases, &words);
    let mut complaints = Vec::new();
    for case in &cases {
        let address = |ip| SocketAddr::from((ip, case.port));
        let addresses = (
            address(Ipv4Addr::LOCALHOST),
            address(Ipv4Addr::new(127, 0, 0, 2)),
        );
        let mut browsers = (
            Browser::at(addresses.0, &words),
            Browser::at(addresses.1, &words),
        );
        let mut statuses = Vec::new();
        for request in &case.script.requests {
            let answers = (browsers.0.ask(request), browsers.1.ask(request));
            if let Ok(response) = &answers.0 {
                statuses.push((request.line, response.status));
            }
            let found = differences(&case.script, request, answers, addresses);
            complaints.extend(found.map(|text| format!("{}: {text}", case.name)));
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            requests::write_statuses(&case.path, &statuses);
        }
    }
    assert!(
        complaints.is_empty(),
        "{} differences\n{}\nsaker's standard error:\n{}reference's standard error:\n{}",
        complaints.len(),
        complaints.join("\n"),
        last_lines(&saker),
        last_lines(&reference)
    );
}

/// The suite has a size below which it says little.
#[test]
fn nginx_cases_are_many() {
    if std::env::var_os("NGINX_CASE").is_some() {
        return;
    }
    let cases = cases();
    let requests: usize = cases.iter().map(|case| case.script.requests.len()).sum();
    assert!(cases.len() >= 150, "{} cases", cases.len());
    assert!(requests >= 2_600, "{requests} requests");
}

/// Directives of nginx's own modules that are honored are used by a case, or by a test beside the
/// cases, or are in `nginx/without-case.txt` with the reason.
#[test]
fn nginx_cases_use_what_is_honored() {
    let page = fs::read_to_string(here().join("../../../../docs/nginx.md")).unwrap();
    let mut used = String::new();
    for entry in fs::read_dir(here().join("nginx")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "case") {
            used.push_str(&read(path).configuration);
        }
    }
    for entry in fs::read_dir(here()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("nginx_") && name.ends_with(".rs") {
            used.push_str(&fs::read_to_string(path).unwrap().replace("\\n", " "));
        }
    }
    let is_part = |byte: char| byte == '_' || byte.is_ascii_alphanumeric();
    let used: HashSet<&str> = used.split(|byte| !is_part(byte)).collect();
    let excused = fs::read_to_string(here().join("nginx/without-case.txt")).unwrap();
    let excused: BTreeSet<&str> = excused
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": ").map(|(name, _)| name))
        .collect();
    let honored: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.ends_with("| **honored** |"))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let without: BTreeSet<&str> = honored
        .into_iter()
        .filter(|name| !used.contains(name))
        .collect();
    let missing: Vec<&&str> = without.difference(&excused).collect();
    assert!(missing.is_empty(), "honored, and in no case: {missing:?}");
    let stale: Vec<&&str> = excused.difference(&without).collect();
    assert!(stale.is_empty(), "in without-case.txt, and used: {stale:?}");
}
