//! Starting: root's privileges, systemd's two protocols, cores, many sites.

use crate::operate;
use crate::operate::{PATIENCE, SAKER, configuration, exit_code, folder, saker};
use saker_testkit::{Client, Signal, TempDir, free_port_among};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        net::{UnixDatagram, UnixListener},
    },
    process::{Command, Output},
    time::Duration,
};

/// A line of each thread's `/proc` status, without its name.
fn of_each_thread(pid: u32, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("threads")
        .flatten();
    let line = |status: String| {
        status
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.trim().replace('\t', " ")))
    };
    tasks
        .filter_map(|task| line(fs::read_to_string(task.path().join("status")).ok()?))
        .collect()
}

#[test]
fn root_binds_and_then_is_somebody_else_for_good() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root has privileges to drop");
        return;
    }
    let lowest = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|text| text.trim().parse::<u16>().ok());
    let dir = folder("start-user");
    fs::create_dir(dir.join("logs")).expect("made");
    fs::set_permissions(dir.join("logs"), fs::Permissions::from_mode(0o755)).expect("set");
    let server = "workers = 2\nuser = \"nobody\"\ngroup = \"www-data\"\nerror_log = \"logs/error.log\"\nlog_level = \"info\"";
    let text = configuration(server, "access_log = \"logs/access.log\"");
    // A port that only root may have, where there are such ports and one is free.
    let lowest = lowest.unwrap_or(0);
    let low = free_port_among(lowest.saturating_sub(200)..lowest);
    let text = text
        + &low.map_or_else(String::new, |port| {
            format!("\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n")
        });
    let mut saker = operate::start_in(dir, &text);
    let pid = saker.server.pid();
    for (name, id) in [("Uid:", "65534 65534 65534 65534"), ("Gid:", "33 33 33 33")] {
        let threads = of_each_thread(pid, name);
        assert!(
            threads.len() >= 3 && threads.iter().all(|thread| thread == id),
            "{name} {threads:?}"
        );
    }
    assert!(
        of_each_thread(pid, "CapPrm:")
            .iter()
            .all(|set| set.trim_start_matches('0').is_empty()),
        "no capability is left"
    );
    assert!(
        of_each_thread(pid, "Groups:")
            .iter()
            .all(|groups| !groups.split(' ').any(|group| group == "0")),
        "nor root's group"
    );
    if let Some(port) = low {
        assert_eq!(
            Client::connect(([127, 0, 0, 1], port).into())
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200
        );
    }
    // Root created the logs, and opens them again: no other user owns them.
    let logs = saker.dir.join("logs");
    for name in ["access.log", "error.log"] {
        assert_eq!(
            fs::metadata(logs.join(name)).expect(name).uid(),
            0,
            "{name}"
        );
    }
    assert!(operate::reload(&saker).status.success());
    assert_eq!(
        saker
            .connect()
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );

    // As logrotate does with `create 640 root adm`.
    for name in ["access.log", "error.log"] {
        fs::rename(logs.join(name), logs.join(format!("{name}.1"))).expect("renamed");
        fs::write(logs.join(name), "").expect("made");
        fs::set_permissions(logs.join(name), fs::Permissions::from_mode(0o640)).expect("set");
        chown(logs.join(name), Some(0), Some(4)).expect("given");
    }
    saker.server.signal(Signal::USR1).expect("sent");
    operate::wait_until("the new error log", || {
        operate::lines(&logs.join("error.log"))
            .iter()
            .any(|line| line.contains("SK0603"))
    });
    assert_eq!(
        saker
            .connect()
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    let requests = 2 + usize::from(low.is_some());
    operate::wait_until(
        "every line in one of the files, the last in the new one",
        || {
            let (old, new) = (
                operate::lines(&logs.join("access.log.1")),
                operate::lines(&logs.join("access.log")),
            );
            old.len() + new.len() == requests && !new.is_empty()
        },
    );
    saker.server.signal(Signal::TERM).expect("sent");
    assert_eq!(exit_code(&mut saker.server), Some(0));
}

#[test]
fn a_user_that_cannot_be_had_is_an_error() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can change its user");
        return;
    }
    let dir = folder("start-no-user");
    let output = start_as(&dir, "run", "\"no-such-user\"");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        operate::stderr(&output).contains("no such user"),
        "{}",
        operate::stderr(&output)
    );
}

#[test]
fn root_is_no_user_to_run_as() {
    let dir = folder("start-root");
    for (command, user) in [
        ("check", "\"root\""),
        ("run", "\"root\""),
        ("check", "\"0\""),
        ("check", "0"),
    ] {
        let output = start_as(&dir, command, user);
        assert_eq!(output.status.code(), Some(1), "{command} {user}");
        let said = operate::stderr(&output);
        let why = if user == "0" {
            "from 1 to"
        } else {
            "the server must not run as root"
        };
        assert!(
            said.contains("saker.toml:") && said.contains("user = ") && said.contains(why),
            "{said}"
        );
    }
}

fn start_as(dir: &TempDir, command: &str, user: &str) -> Output {
    let text = configuration(&format!("user = {user}"), "")
        .replace("{dir}", &dir.to_string_lossy())
        .replace("{address}", "127.0.0.1:0");
    let path = dir.write("saker.toml", text).expect("written");
    saker([command.as_ref(), "-c".as_ref(), path.as_os_str()])
}

#[test]
fn what_keeps_it_from_starting_is_said_where_it_was_started() {
    let dir = folder("start-words");
    let rows = [
        ("error_log = \"no/such/folder/error.log\"", "", "error log "),
        (
            "error_log = \"error.log\"",
            "access_log = \"no/such/folder/access.log\"",
            "access log ",
        ),
    ];
    for (server, site, words) in rows {
        let text = configuration(server, site)
            .replace("{dir}", &dir.to_string_lossy())
            .replace("{address}", "127.0.0.1:0");
        let path = dir.write("saker.toml", text).expect("written");
        let output = saker(["run".as_ref(), "-c".as_ref(), path.as_os_str()]);
        assert_eq!(output.status.code(), Some(2));
        let said = operate::stderr(&output);
        assert!(
            said.contains("cannot start")
                && said.contains(words)
                && said.contains("No such file or directory"),
            "{said}"
        );
        // Who checks hears of it before.
        let output = saker(["check".as_ref(), "-c".as_ref(), path.as_os_str()]);
        let said = operate::stderr(&output);
        let is_told = said.contains("saker.toml:")
            && said.contains("cannot open ")
            && said.contains("no/such/folder");
        assert_eq!((output.status.code(), is_told), (Some(1), true), "{said}");
    }
}

/// A relative path, typed in the directory of the files.
#[test]
fn a_configuration_named_from_where_one_stands() {
    let dir = TempDir::new("start-here").unwrap();
    dir.write("www/index.html", "here").unwrap();
    dir.write("sites/one.toml", "[[site]]\nroot = \"../www\"\n")
        .unwrap();
    let text = "include = [\"sites/*.toml\"]\n[server]\nworkers = 1\nstate_dir = \"state\"\n\n[[listener]]\naddress = \"{address}\"\n";
    let server = operate::native(text).from_folder().start_in(&dir);
    let get = || {
        Client::connect(server.address())
            .unwrap()
            .get("/")
            .unwrap()
            .text()
    };
    assert_eq!(get(), "here");
    assert!(dir.join("state/saker.pid").exists());
    let mut reload = Command::new(SAKER);
    assert!(
        reload
            .current_dir(&*dir)
            .args(["reload", "--state-dir", "state"])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(get(), "here");
}

#[test]
fn systemd_is_told() {
    let dir = folder("start-notify");
    let socket = UnixDatagram::bind(dir.join("notify")).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let heard = || {
        let mut buffer = [0; 1000];
        let count = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut server = operate::native(&configuration("workers = 1", ""))
        .env("NOTIFY_SOCKET", dir.join("notify"))
        .start_in(&dir);
    let ready = heard();
    assert!(
        ready.starts_with("READY=1\n") && ready.contains(&format!("MAINPID={}", server.pid())),
        "{ready}"
    );
    server.signal(Signal::HUP).expect("sent");
    let reloading = heard();
    let usec = reloading
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
        .and_then(|text| text.trim().parse::<u64>().ok());
    assert!(usec > Some(0), "{reloading}");
    assert_eq!(heard(), "READY=1");
    server.signal(Signal::TERM).expect("sent");
    // It is not to be cut before its own limit is over: 30 s by default.
    assert_eq!(heard(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=60000000");
    assert_eq!(exit_code(&mut server), Some(0));
}

#[test]
fn sockets_of_systemd_are_used() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = socket.local_addr().expect("address");
    let dir = folder("start-activated");
    let text = configuration("workers = 2", "");
    // Connected before there is a server: this is what socket activation is for.
    let mut early = Client::connect(address).expect("connected");
    let activated = operate::native(&text).activated(&socket).at(address);
    let mut server = activated.start_in(&dir);
    assert_eq!(early.get("/").expect("answered").status, 200);
    for _ in 0..50 {
        assert_eq!(
            Client::connect(address)
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200
        );
    }
    let state = dir.join("state").to_string_lossy().into_owned();
    assert!(saker(["reload", "--state-dir", &state]).status.success());
    assert_eq!(
        Client::connect(address)
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    server.signal(Signal::TERM).expect("sent");
    assert_eq!(exit_code(&mut server), Some(0));
    // The queue outlives the server; its successor answers.
    let mut waiting = Client::connect(address).expect("connected to systemd's socket");
    let server = activated.start_in(&dir);
    assert_eq!(waiting.get("/").expect("answered").status, 200);
    drop(server);
}

#[test]
fn a_unix_socket_of_systemd_and_one_that_nobody_named() {
    let dir = folder("start-activated-unix");
    let path = dir.join("http.sock");
    let socket = UnixListener::bind(&path).expect("bound");
    let address = SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().expect("port")));
    let text = configuration("workers = 2", "");
    let server = operate::native(&text)
        .activated(&socket)
        .at(address)
        .start_in(&dir);
    server
        .wait_for_stderr("systemd passed the socket unix:", PATIENCE)
        .expect("a socket that nobody named is said");
    assert!(server.stop().expect("stopped").success());

    let text = format!(
        "{text}\n[[listener]]\naddress = \"unix:{}\"\n",
        path.display()
    );
    let server = operate::native(&text)
        .activated(&socket)
        .at(address)
        .start_in(&dir);
    assert_eq!(
        Client::connect_unix(&path)
            .expect("connected")
            .get("/")
            .expect("answered")
            .status,
        200
    );
    assert!(server.stop().expect("stopped").success());
    assert!(path.exists(), "systemd's file is not ours to remove");
}

#[test]
fn one_socket_of_systemd_stands_for_both_families() {
    let Ok(socket) = TcpListener::bind("[::]:0") else {
        eprintln!("not tested: no IPv6 here");
        return;
    };
    let port = socket.local_addr().expect("address").port();
    let dir = folder("start-activated-any");
    let text = configuration("workers = 2", "").replace("{address}", ":{port}");
    let server = operate::native(&text)
        .activated(&socket)
        .at(SocketAddr::from(([127, 0, 0, 1], port)))
        .start_in(&dir);
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let address: SocketAddr = address.parse().expect("an address");
        assert_eq!(
            Client::connect(address)
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200,
            "{address}"
        );
    }
    assert!(server.stop().expect("stopped").success());
}

/// Worker threads and the cores that each may run on.
fn lists_by_worker(pid: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("threads")
        .flatten();
    let one = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm"))
            .ok()?
            .trim()
            .to_owned();
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?
            .trim()
            .to_owned();
        name.starts_with("worker-").then_some((name, list))
    };
    let mut all: Vec<_> = tasks.filter_map(one).collect();
    all.sort();
    all
}

#[test]
fn workers_keep_to_their_cores() {
    let cores: Vec<String> = of_each_thread(std::process::id(), "Cpus_allowed_list:");
    if !cores
        .iter()
        .all(|list| list.starts_with("0-") || list.starts_with("0,1"))
    {
        eprintln!("not tested: cores 0 and 1 are not both ours: {cores:?}");
        return;
    }
    let saker = operate::start(
        "start-affinity",
        &configuration("workers = 2\naffinity = [0, 1]", ""),
    );
    let expected = [
        ("worker-0".to_owned(), "0".to_owned()),
        ("worker-1".to_owned(), "1".to_owned()),
    ];
    // The socket accepts before the last worker has come up.
    operate::wait_until("both workers on their cores", || {
        lists_by_worker(saker.server.pid()) == expected
    });
}

#[test]
fn thousands_of_sites_start_quickly() {
    const SITES: usize = 2000;
    let dir = folder("start-sites");
    let mut text = configuration("workers = 2", "access_log = \"access.log\"");
    for number in 0..SITES {
        let root = if number == SITES - 1 { "last" } else { "www" };
        text += &format!(
            "\n[[site]]\nnames = [\"site-{number}.example\", \"*.site-{number}.example\"]\nroot = \"{{dir}}/{root}\"\naccess_log = \"access.log\"\n"
        );
    }
    dir.write("last/index.html", "last\n").expect("written");
    let saker = operate::start_in(dir, &text);
    // CPU time, since other tests run beside this one.
    let spent = saker.server.tree().cpu_time();
    assert!(spent < Duration::from_secs(2), "{spent:?}");
    let mut client = saker.connect().expect("connected");
    for (host, body) in [
        ("site-0.example", "<p>hello</p>\n"),
        ("a.b.site-1999.example", "last\n"),
        ("nobody.example", "<p>hello</p>\n"),
    ] {
        let response = client
            .request("GET", "/", &[("Host", host)])
            .expect("answered");
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, body),
            "{host}"
        );
    }
    assert!(
        saker.server.tree().open_descriptors() < 200,
        "one log file, however many sites write to it"
    );
}

/// The port accepts before the server has started as a whole, and a script that waits for the port
/// may signal at once.
#[test]
fn signals_that_come_too_early_do_no_harm() {
    for signal in [Signal::USR1, Signal::HUP] {
        let text = configuration("workers = 2", "");
        let mut saker = operate::native(&text).start(folder("start-early"));
        saker.server.signal(signal).expect("sent");
        assert_eq!(
            saker
                .connect()
                .expect("connected")
                .get("/")
                .expect("answered")
                .status,
            200
        );
        saker.server.signal(Signal::TERM).expect("sent");
        assert_eq!(exit_code(&mut saker.server), Some(0), "{signal:?}");
    }
}
