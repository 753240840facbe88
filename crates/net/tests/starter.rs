//! The starter as a process: this program is started once more by `Starter::split`, so it has no harness. Needs root.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_net::{
    ChildSignal,
    program::ProgramLimits,
    starter::{Grant, Lent, Order, OrderKind, Role, Starter, descriptor, role, serve},
};
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

fn main() {
    match role() {
        Some(Role::Starter) => serve(std::io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap(),
        Some(Role::Grants) => std::io::stdout().write_all(&Grant::encode(&grants("daemon"))).unwrap(),
        None if rustix_is_root() => {
            a_program_is_started_and_its_end_is_heard();
            signals_and_groups();
            grants_are_read_again();
            all_ends_with_the_server();
            println!("test result: ok. 4 passed");
        }
        None => println!("test result: ok. 0 passed; root is needed"),
    }
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn grants(user: &str) -> Vec<Grant> {
    vec![Grant::Program { user: user.into(), group: None, file: "/bin/sh".into(), arguments: None }]
}

fn shell(script: &str) -> Order {
    Order {
        kind: OrderKind::Program,
        user: "nobody".into(),
        group: None,
        file: "/bin/sh".into(),
        name: "own-name".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("A".into(), descriptor(0))],
        folder: "/usr".into(),
        limits: ProgramLimits { cpu_s: Some((7, 9)), ..ProgramLimits::default() },
    }
}

fn start(starter: &Starter, order: &Order) -> (Lent, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let inherited = File::open("/etc/hostname").unwrap();
    let lent = starter.start(order, [null.as_fd(), writer.as_fd(), writer.as_fd()], &[inherited.as_fd()]).unwrap();
    (lent, File::from(OwnedFd::from(reader)))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_program_is_started_and_its_end_is_heard() {
    let starter = Starter::split(&grants("nobody")).unwrap();
    let script =
        "id -u; id -g; id -G; pwd; ulimit -t; ulimit -Ht; echo $0; [ -e /proc/self/fd/$A ] && echo inherited; kill -INT $$; exit 3";
    let (mut lent, mut output) = start(&starter, &shell(script));
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "65534\n65534\n65534\n/usr\n7\n9\nown-name\ninherited\n");
    until("its end is heard", || lent.status().is_some());
    // It is not left ignoring what the starter ignores.
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&lent.status().unwrap()), Some(2));
    let refused = Order { file: "/bin/cat".into(), ..shell("") };
    let null = File::open("/dev/null").unwrap();
    let error = starter.start(&refused, [null.as_fd(); 3], &[]).unwrap_err();
    assert!(error.to_string().contains("/bin/cat"), "{error}");
    assert!(starter.start(&Order { user: "no-such-user".into(), ..shell("") }, [null.as_fd(); 3], &[]).is_err());
}

fn signals_and_groups() {
    let starter = Starter::split(&grants("nobody")).unwrap();
    let (mut lent, mut output) = start(&starter, &shell("trap 'exit 5' TERM; sleep 100 & echo; while :; do sleep 0.01; done"));
    output.read_exact(&mut [0]).unwrap();
    lent.signal_leader(ChildSignal::Term);
    until("it obeys", || lent.status().is_some());
    assert_eq!(lent.status().unwrap().code(), Some(5));
    assert!(!lent.is_gone(), "its child is still there");
    lent.signal_all(ChildSignal::Kill);
    until("its group ends", || lent.is_gone());
    let (lent, mut output) = start(&starter, &shell("trap '' TERM; sleep 100 & echo; wait; wait"));
    output.read_exact(&mut [0]).unwrap();
    drop(lent);
    assert_eq!(output.read(&mut [0; 8]).unwrap(), 0, "whoever forgets it ends its group");
}

fn grants_are_read_again() {
    let starter = Starter::split(&grants("nobody")).unwrap();
    let null = File::open("/dev/null").unwrap();
    let as_daemon = Order { user: "daemon".into(), ..shell("exit 0") };
    assert!(starter.start(&as_daemon, [null.as_fd(); 3], &[]).is_err());
    starter.read_again().unwrap();
    assert!(starter.start(&as_daemon, [null.as_fd(); 3], &[]).is_ok());
    assert!(starter.start(&shell("exit 0"), [null.as_fd(); 3], &[]).is_err());
}

fn all_ends_with_the_server() {
    let starter = Starter::split(&grants("nobody")).unwrap();
    let (lent, mut output) = start(&starter, &shell("sleep 100 & echo; wait"));
    output.read_exact(&mut [0]).unwrap();
    drop(starter);
    assert_eq!(output.read(&mut [0; 8]).unwrap(), 0);
    drop(lent);
}
