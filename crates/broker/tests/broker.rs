//! The broker as a process: this program is started once more by `BrokerClient::start`, so it has
//! no harness. Needs root.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_broker::{Grant, Role, SpawnKind, SpawnRequest, Transport, descriptor, role, serve};
use saker_broker_client::{BrokerClient, SpawnedChild};
use saker_net::{
    ChildSignal,
    privileged::{Broker, Open},
    program::{ProgramLimits, Spawned},
};
use saker_testkit::wait_until;
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

fn main() {
    match role() {
        Some(Role::Broker) => {
            serve(std::io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap()
        }
        Some(Role::Grants) => std::io::stdout()
            .write_all(&Grant::encode(
                &[grants("daemon"), vec![other_file()]].concat(),
            ))
            .unwrap(),
        Some(Role::Launcher) => panic!("the server's own"),
        None if rustix_is_root() => {
            a_program_is_started_and_its_end_is_heard();
            signals_and_groups();
            grants_are_read_again();
            all_ends_with_the_server();
            nothing_is_inherited_but_what_was_ordered();
            a_program_of_the_servers_user_is_apart();
            files_and_addresses_by_their_grants();
            println!("test result: ok. 7 passed");
        }
        None => println!("test result: ok. 0 passed; root is needed"),
    }
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn grants(user: &str) -> Vec<Grant> {
    let grant = |script: &&str| Grant::Program {
        user: user.into(),
        group: None,
        file: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("A".into(), descriptor(0))],
    };
    SCRIPTS.iter().map(grant).collect()
}

const WHO: &str = "id -u; id -g; id -G; pwd; ulimit -t; ulimit -Ht; echo $0; [ -e /proc/self/fd/$A ] && echo inherited; kill -INT $$; exit 3";
const ENDLESS: &str = "trap 'exit 5' TERM; sleep 100 & echo; while :; do sleep 0.01; done";
const STUBBORN: &str = "trap '' TERM; sleep 100 & echo; wait; wait";
const NOTHING: &str = "exit 0";
const WAITING: &str = "sleep 100 & echo; wait";
/// Lists the open descriptors of a program that only looks. (A shell with a pipeline has pipes of
/// its own for a moment.)
const OPEN: &str = "exec ls -l /proc/self/fd";
/// Signals to the process that has ordered it, and to all.
const SIGNALS: &str = "read number; echo $$; kill -0 $number 2>/dev/null && echo reached; kill -TERM -1 2>/dev/null; echo on";
const SCRIPTS: [&str; 7] = [WHO, ENDLESS, STUBBORN, NOTHING, WAITING, OPEN, SIGNALS];

fn shell(script: &str) -> SpawnRequest {
    SpawnRequest {
        kind: SpawnKind::Program,
        user: "nobody".into(),
        group: None,
        file: "/bin/sh".into(),
        name: "own-name".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("A".into(), descriptor(0))],
        folder: "/".into(),
        limits: ProgramLimits {
            cpu_s: Some((7, 9)),
            ..ProgramLimits::default()
        },
    }
}

fn client(grants: Vec<Grant>) -> BrokerClient {
    let (client, process) = BrokerClient::start(grants).unwrap();
    process.watch(|| ()).unwrap();
    client
}

fn start(broker: &BrokerClient, request: &SpawnRequest) -> (SpawnedChild, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let inherited = File::open("/etc/hostname").unwrap();
    let child = broker
        .start_program(
            request,
            [null.as_fd(), writer.as_fd(), writer.as_fd()],
            &[inherited.as_fd()],
        )
        .unwrap();
    (child, File::from(OwnedFd::from(reader)))
}

fn a_program_is_started_and_its_end_is_heard() {
    let broker = client(grants("nobody"));
    let (mut child, mut output) = start(&broker, &shell(WHO));
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "65534\n65534\n65534\n/\n7\n9\n/bin/sh\ninherited\n");
    wait_until("its end is heard", || child.status().is_some());
    // It is not left ignoring what the broker ignores.
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&child.status().unwrap()),
        Some(2)
    );
    let refused = SpawnRequest {
        file: "/bin/cat".into(),
        ..shell("")
    };
    let null = File::open("/dev/null").unwrap();
    let error = broker
        .start_program(&refused, [null.as_fd(); 3], &[])
        .unwrap_err();
    assert!(error.to_string().contains("/bin/cat"), "{error}");
    for refused in [
        SpawnRequest {
            user: "no-such-user".into(),
            ..shell(NOTHING)
        },
        shell("exit 1"),
        SpawnRequest {
            arguments: Vec::new(),
            ..shell(NOTHING)
        },
        SpawnRequest {
            environment: vec![("LD_PRELOAD".into(), "/tmp/x.so".into())],
            ..shell(NOTHING)
        },
        SpawnRequest {
            environment: vec![("A".into(), "/etc/shadow".into())],
            ..shell(NOTHING)
        },
    ] {
        assert!(
            broker
                .start_program(&refused, [null.as_fd(); 3], &[null.as_fd()])
                .is_err(),
            "{refused:?}"
        );
    }
    // More than it is granted to inherit, and less.
    for inherited in [&[][..], &[null.as_fd(); 2]] {
        assert!(
            broker
                .start_program(&shell(NOTHING), [null.as_fd(); 3], inherited)
                .is_err()
        );
    }
}

fn signals_and_groups() {
    let broker = client(grants("nobody"));
    let (mut child, mut output) = start(&broker, &shell(ENDLESS));
    output.read_exact(&mut [0]).unwrap();
    child.signal_leader(ChildSignal::Term);
    wait_until("it obeys", || child.status().is_some());
    assert_eq!(child.status().unwrap().code(), Some(5));
    assert!(!child.is_gone(), "its child is still there");
    child.signal_all(ChildSignal::Kill);
    wait_until("its group ends", || child.is_gone());
    let (child, mut output) = start(&broker, &shell(STUBBORN));
    output.read_exact(&mut [0]).unwrap();
    drop(child);
    assert_eq!(
        output.read(&mut [0; 8]).unwrap(),
        0,
        "whoever forgets it ends its group"
    );
}

fn grants_are_read_again() {
    let broker = client(grants("nobody"));
    let null = File::open("/dev/null").unwrap();
    let as_daemon = SpawnRequest {
        user: "daemon".into(),
        ..shell(NOTHING)
    };
    assert!(
        broker
            .start_program(&as_daemon, [null.as_fd(); 3], &[null.as_fd()])
            .is_err()
    );
    // Beside those in force, until they replace them; discarded, they leave those exactly.
    broker.prepare_grants().unwrap();
    for user in ["nobody", "daemon"] {
        let request = SpawnRequest {
            user: user.into(),
            ..shell(NOTHING)
        };
        assert!(
            broker
                .start_program(&request, [null.as_fd(); 3], &[null.as_fd()])
                .is_ok(),
            "{user}"
        );
    }
    broker.discard_grants().unwrap();
    assert!(
        broker.commit_grants().is_err(),
        "nothing is prepared any more"
    );
    assert!(
        broker
            .start_program(&as_daemon, [null.as_fd(); 3], &[null.as_fd()])
            .is_err()
    );
    assert!(
        broker
            .start_program(&shell(NOTHING), [null.as_fd(); 3], &[null.as_fd()])
            .is_ok()
    );
    broker.prepare_grants().unwrap();
    broker.commit_grants().unwrap();
    assert!(
        broker
            .start_program(&as_daemon, [null.as_fd(); 3], &[null.as_fd()])
            .is_ok()
    );
    assert!(
        broker
            .start_program(&shell(NOTHING), [null.as_fd(); 3], &[null.as_fd()])
            .is_err()
    );
}

fn all_ends_with_the_server() {
    let broker = client(grants("nobody"));
    let (child, mut output) = start(&broker, &shell(WAITING));
    output.read_exact(&mut [0]).unwrap();
    drop(broker);
    assert_eq!(output.read(&mut [0; 8]).unwrap(), 0);
    drop(child);
}

/// Neither what this process has left open for programs, nor what the broker has for others.
fn nothing_is_inherited_but_what_was_ordered() {
    let leaked = File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let broker = client(grants("nobody"));
    let (_other, mut other_output) = start(&broker, &shell(WAITING));
    other_output.read_exact(&mut [0]).unwrap();
    let (_child, mut output) = start(&broker, &shell(OPEN));
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    // The directory that it reads is its own doing.
    let open = text
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .map(|(_, target)| target);
    let targets: Vec<&str> = open
        .filter(|target| !target.starts_with("/proc/"))
        .collect();
    let is_ordered = |target: &&str| {
        *target == "/dev/null" || target.starts_with("pipe:") || *target == "/etc/hostname"
    };
    assert!(
        targets.len() == 4 && targets.iter().all(is_ordered),
        "{text}"
    );
}

/// It has the same rights as the server over the server's processes, and can't name them.
fn a_program_of_the_servers_user_is_apart() {
    let own = Grant::Own {
        user: "nobody".into(),
        group: None,
    };
    let programs = Grant::OwnPrograms {
        user: "nobody".into(),
        group: None,
    };
    let broker = client([grants("nobody"), vec![own, programs]].concat());
    // In the place of the server's: a process of the same user, outside.
    let mut bystander = std::process::Command::new("sleep");
    std::os::unix::process::CommandExt::uid(bystander.arg("100"), 65_534);
    let mut bystander = bystander.spawn().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let (input, mut number) = std::io::pipe().unwrap();
    let inherited = File::open("/etc/hostname").unwrap();
    let mut child = broker
        .start_program(
            &shell(SIGNALS),
            [input.as_fd(), writer.as_fd(), writer.as_fd()],
            &[inherited.as_fd()],
        )
        .unwrap();
    drop(writer);
    writeln!(number, "{}", bystander.id()).unwrap();
    let mut text = String::new();
    File::from(OwnedFd::from(reader))
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "1\non\n");
    wait_until("its end is heard", || child.status().is_some());
    assert!(bystander.try_wait().unwrap().is_none(), "it was signalled");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    // Those that are not apart go on beginning in the namespace of all.
    let (mut child, _output) = start(&broker, &shell(NOTHING));
    wait_until("its end is heard", || child.status().is_some());
    let as_script = SpawnRequest {
        kind: SpawnKind::Own,
        arguments: vec!["-c".into(), "echo $$; pwd".into()],
        environment: Vec::new(),
        ..shell(NOTHING)
    };
    let (reader, writer) = std::io::pipe().unwrap();
    let child = broker
        .start_program(
            &as_script,
            [input.as_fd(), writer.as_fd(), writer.as_fd()],
            &[],
        )
        .unwrap();
    drop(writer);
    let mut text = String::new();
    File::from(OwnedFd::from(reader))
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, format!("{}\n/\n", child.id()));
}

/// Grant of the configuration after a reload.
fn other_file() -> Grant {
    Grant::Read {
        path: "/etc/passwd".into(),
    }
}

fn files_and_addresses_by_their_grants() {
    let root = std::env::temp_dir().join(format!("saker-broker-files-{}", std::process::id()));
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (key, log) = (root.join("key"), root.join("log"));
    std::fs::write(&key, "secret").unwrap();
    let free = |address: &str| {
        std::net::TcpListener::bind(address)
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let (granted, other) = (free("127.0.0.1:0"), free("127.0.0.1:0"));
    let broker = client(vec![
        Grant::Read { path: key.clone() },
        Grant::Log {
            path: log.clone(),
            mode: 0o640,
        },
        Grant::RenamedLogs { log: log.clone() },
        Grant::Directory { path: root.clone() },
        Grant::Listen {
            address: granted,
            transport: Transport::Tcp,
        },
    ]);
    let read = |path: &Path| {
        let mut text = String::new();
        broker
            .open(path, Open::Read)
            .and_then(|file| File::from(file).read_to_string(&mut text))
            .map(|_| text)
    };
    let is_refused = |outcome: std::io::Error| {
        assert!(
            outcome.kind() == std::io::ErrorKind::PermissionDenied
                && outcome.raw_os_error().is_none(),
            "{outcome}"
        );
    };
    assert_eq!(read(&key).unwrap(), "secret");
    is_refused(read(Path::new("/etc/shadow")).unwrap_err());
    is_refused(read(&log).unwrap_err());
    is_refused(broker.open(&key, Open::Append { mode: 0o600 }).unwrap_err());
    is_refused(
        broker
            .open(&root.join("."), Open::Append { mode: 0o600 })
            .unwrap_err(),
    );
    // The mode is the grant's.
    File::from(broker.open(&log, Open::Append { mode: 0o666 }).unwrap())
        .write_all(b"line")
        .unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&log).unwrap()) & 0o777,
        0o640
    );
    // What its rotation has renamed it to is read, and nothing else beside it.
    let renamed = root.join("log.20261123T000000Z");
    std::fs::copy(&log, &renamed).unwrap();
    assert_eq!(read(&renamed).unwrap(), "line");
    is_refused(
        broker
            .open(&renamed, Open::Append { mode: 0o640 })
            .unwrap_err(),
    );
    for other in ["log.1", "key.20261123T000000Z", "log.20261123T000000Z.gz"] {
        is_refused(read(&root.join(other)).unwrap_err());
    }
    assert!(broker.open(&root, Open::Directory).is_ok());
    let socket = |kind| socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
    let tcp = socket(socket2::Type::STREAM);
    is_refused(broker.bind(tcp.as_fd(), other).unwrap_err());
    is_refused(
        broker
            .bind(socket(socket2::Type::DGRAM).as_fd(), granted)
            .unwrap_err(),
    );
    assert!(
        broker
            .bind(File::open("/dev/null").unwrap().as_fd(), granted)
            .is_err()
    );
    broker.bind(tcp.as_fd(), granted).unwrap();
    assert_eq!(tcp.local_addr().unwrap().as_socket(), Some(granted));
    is_refused(
        broker
            .bind_unix(
                socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)
                    .unwrap()
                    .as_fd(),
                &log,
                0o600,
            )
            .unwrap_err(),
    );
    is_refused(broker.remove_file(&key).unwrap_err());
    // A reload that is refused leaves the grants exactly; one that is taken replaces them.
    let has = || (read(&key).is_ok(), read(Path::new("/etc/passwd")).is_ok());
    assert_eq!(has(), (true, false));
    broker.prepare_grants().unwrap();
    assert_eq!(has(), (true, true));
    broker.discard_grants().unwrap();
    assert_eq!(has(), (true, false));
    broker.prepare_grants().unwrap();
    broker.commit_grants().unwrap();
    assert_eq!(has(), (false, true));
    std::fs::remove_dir_all(root).unwrap();
}
