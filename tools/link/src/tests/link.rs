//! Effects of a link on packets between two sockets, over real devices. Needs root and
//! /dev/net/tun.
//!
//! The machine is busy with other tests, so nothing here depends on a single packet's time: medians
//! and sums alone.

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use saker_link::{CLIENT, Link, LinkSettings, SERVER, Settings};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(20);
/// IPv4's and UDP's heads.
const HEAD_BYTES: usize = 28;

fn open(change: impl FnOnce(&mut LinkSettings)) -> Link {
    let mut settings = LinkSettings::default();
    change(&mut settings);
    Link::open(settings).expect("a link needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and /dev/net/tun")
}

/// One at each end, connected to each other.
fn sockets(link: &Link) -> (UdpSocket, UdpSocket) {
    let bind = |side: &saker_link::Side, own, other| {
        let socket = side
            .run(move || UdpSocket::bind((own, 9000)))
            .expect("it runs")
            .expect("the address is there");
        socket.connect((other, 9000)).expect("there is a route");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        // All of a test's packets: a busy machine may read late.
        set_socket_recv_buffer_size_force(&socket, 16 << 20).expect("root may");
        socket
    };
    (
        bind(link.server(), SERVER, CLIENT),
        bind(link.client(), CLIENT, SERVER),
    )
}

/// A busy machine spoils some.
const TRIES: usize = 5;

fn send(socket: &UdpSocket, bytes: usize, count: usize) {
    for _ in 0..count {
        socket.send(&vec![0; bytes]).expect("sent");
    }
}

fn both(settings: &mut LinkSettings, change: impl Fn(&mut Settings)) {
    change(&mut settings.to_client);
    change(&mut settings.to_server);
}

#[test]
fn delays_are_kept_within_a_millisecond() {
    let link = open(|settings| {
        settings.to_client.delay = Duration::from_millis(15);
        settings.to_server.delay = Duration::from_millis(5);
    });
    let (server, client) = sockets(&link);
    let echo = thread::spawn(move || {
        let mut packet = [0; 8];
        while server.recv(&mut packet).is_ok_and(|length| length > 1) {
            server.send(&packet).expect("sent");
        }
    });
    let measure = || {
        let round = |number: u64| {
            let start = Instant::now();
            client.send(&number.to_be_bytes()).expect("sent");
            client.recv(&mut [0; 8]).expect("it comes back");
            start.elapsed()
        };
        let mut rounds: Vec<Duration> = (0..41).map(round).collect();
        rounds.sort();
        rounds
    };
    // What else runs on the machine may make any of them late, and never early.
    let rounds: Vec<Vec<Duration>> = (0..TRIES).map(|_| measure()).collect();
    client.send(b"x").expect("sent");
    echo.join().expect("it echoed");
    assert!(
        rounds
            .iter()
            .all(|rounds| rounds[0] >= Duration::from_millis(20)),
        "{rounds:?}"
    );
    assert!(
        rounds
            .iter()
            .any(|rounds| rounds[0] < Duration::from_millis(21)),
        "{rounds:?}"
    );
}

#[test]
fn the_rate_is_kept_within_three_percent() {
    const BITS_PER_S: f64 = 20e6;
    const BYTES: usize = 1200;
    let link = open(|settings| {
        both(settings, |direction| {
            direction.rate_bits_per_s = Some(BITS_PER_S as u64);
            direction.queue_packets = 5000;
        });
    });
    let (server, client) = sockets(&link);
    // Two seconds' worth at once: it waits in the link's queue.
    let count = (BITS_PER_S * 2.0 / 8.0) as usize / (BYTES + HEAD_BYTES);
    let sender = thread::spawn(move || send(&server, BYTES, count));
    let mut packet = [0; BYTES];
    client.recv(&mut packet).expect("the first");
    let start = Instant::now();
    for _ in 1..count {
        client.recv(&mut packet).expect("the next");
    }
    let bits = ((count - 1) * (BYTES + HEAD_BYTES) * 8) as f64;
    let rate = bits / start.elapsed().as_secs_f64();
    sender.join().expect("sent");
    // Never faster; a busy machine may read late.
    assert!((0.7..1.03).contains(&(rate / BITS_PER_S)), "{rate}");
    let report = link.close();
    assert_eq!(
        (report.to_client.packets, report.to_client.dropped),
        (count as u64, 0)
    );
}

#[test]
fn losses_and_reordering_are_about_as_many_as_asked_for_and_repeat_themselves() {
    const COUNT: u32 = 10_000;
    const AHEAD_MAX: u32 = 200;
    let pass = || {
        let link = open(|settings| {
            settings.seed = 42;
            settings.to_server.loss = 0.03;
            settings.to_server.reordering = 0.02;
            settings.to_server.held_back = Duration::from_millis(20);
        });
        let (server, client) = sockets(&link);
        let latest = Arc::new(AtomicU32::new(0));
        let received = Arc::clone(&latest);
        let sender = thread::spawn(move || {
            for number in 0..COUNT {
                client.send(&number.to_be_bytes()).expect("sent");
                if number % 20 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                // Or a socket is full, however busy the machine is.
                while number.saturating_sub(received.load(Ordering::Relaxed)) > AHEAD_MAX {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            // Behind whatever is held back.
            thread::sleep(Duration::from_millis(100));
            send(&client, 0, 20);
        });
        let mut seen = Vec::new();
        let mut packet = [0; 4];
        while server
            .recv(&mut packet)
            .expect("one of twenty ends comes through")
            > 0
        {
            let number = u32::from_be_bytes(packet);
            latest.fetch_max(number, Ordering::Relaxed);
            seen.push(number);
        }
        sender.join().expect("sent");
        seen
    };
    let seen = pass();
    let lost = f64::from(COUNT) - seen.len() as f64;
    assert!((200.0..400.0).contains(&lost), "{lost} of 300");
    let overtaken = seen.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!((100..=300).contains(&overtaken), "{overtaken} of 200");
    let sorted = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers
    };
    assert!(
        sorted(pass()) == sorted(seen),
        "the same seed, other losses"
    );
}

#[test]
fn forty_thousand_packets_a_second_cost_under_half_a_core() {
    const COUNT: u32 = 40_000;
    let link = open(|settings| {
        both(settings, |direction| {
            direction.delay = Duration::from_millis(10)
        })
    });
    let (server, client) = sockets(&link);
    let receiver =
        thread::spawn(move || while client.recv(&mut [0; 1500]).is_ok_and(|length| length > 1) {});
    let start = Instant::now();
    for turn in 1..=COUNT / 40 {
        send(&server, 1200, 40);
        thread::sleep(
            (start + Duration::from_millis(turn.into())).saturating_duration_since(Instant::now()),
        );
    }
    thread::sleep(Duration::from_millis(100));
    server.send(b"x").expect("sent");
    receiver.join().expect("received");
    let report = link.close();
    assert!(report.to_client.packets >= COUNT.into(), "{report:?}");
    assert!(report.cpu < Duration::from_millis(500), "{report:?}");
}

#[test]
fn tcp_fills_the_link() {
    const BYTES: usize = 2_000_000;
    let link = open(|settings| {
        both(settings, |direction| {
            direction.rate_bits_per_s = Some(16_000_000);
            direction.delay = Duration::from_millis(5);
        });
    });
    let listener = link
        .server()
        .run(|| TcpListener::bind((SERVER, 80)))
        .expect("it runs")
        .expect("bound");
    let server = thread::spawn(move || {
        listener
            .accept()
            .expect("it comes")
            .0
            .write_all(&vec![7; BYTES])
            .expect("sent")
    });
    let start = Instant::now();
    let mut stream = link
        .client()
        .run(|| TcpStream::connect((SERVER, 80)))
        .expect("it runs")
        .expect("connected");
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("read");
    let seconds = start.elapsed().as_secs_f64();
    server.join().expect("sent");
    assert_eq!(body.len(), BYTES);
    // A second for the bytes, some more for heads, slow start and a busy machine.
    assert!((1.0..4.0).contains(&seconds), "{seconds}");
}

#[test]
fn large_packets_find_the_links_mtu() {
    let link = open(|settings| settings.mtu_bytes = 1280);
    let (server, client) = sockets(&link);
    let fits = 1280 - HEAD_BYTES;
    rustix::net::sockopt::set_ip_mtu_discover(
        &client,
        rustix::net::sockopt::Ipv4PathMtuDiscovery::DO,
    )
    .expect("set");
    assert_eq!(client.send(&vec![0; fits]).expect("sent"), fits);
    assert_eq!(server.recv(&mut [0; 1500]).expect("received"), fits);
    assert!(client.send(&vec![0; fits + 1]).is_err());
}

#[test]
fn links_do_not_see_each_other() {
    let (one, other) = (open(|_| {}), open(|_| {}));
    let (server, client) = sockets(&one);
    let (_, stranger) = sockets(&other);
    stranger.send(b"stranger").expect("sent");
    client.send(b"client").expect("sent");
    let mut packet = [0; 16];
    let length = server.recv(&mut packet).expect("received");
    assert_eq!(&packet[..length], b"client");
}

#[test]
fn programs_enter_by_the_namespaces_file() {
    let link = open(|_| {});
    let mut entered = std::process::Command::new("nsenter");
    entered
        .arg(format!("--net={}", link.client().namespace().display()))
        .args(["cat", "/proc/net/fib_trie"]);
    let said = entered
        .output()
        .expect("nsenter is part of every Debian (util-linux)")
        .stdout;
    assert!(
        String::from_utf8_lossy(&said).contains("10.53.0.2\n"),
        "{}",
        said.escape_ascii()
    );
}

#[test]
fn an_end_survives_a_job_only_as_an_error() {
    let link = open(|_| {});
    assert_eq!(link.client().run(|| 7).expect("it runs"), 7);
    assert!(link.client().run(|| panic!("on purpose")).is_err());
    assert!(
        link.client().run(|| 7).is_err(),
        "its network is gone with its thread"
    );
}
