//! Programs that have one process for each connection, as php-fpm: kept connections keep none of
//! them from others, and processes that are started for connections are asked for again.

#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(dead_code)] // Of the bench, its part.

use super::bench::*;
use saker_config::model::{Backend, BackendAddress, Member, Protocol, Tuning, Upstream};
use saker_gateway::Gateway;
use saker_pipeline::Forwarder;
use saker_testkit::TempDir;
use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

// FastCGI section 8: types of records.
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0][..], content].concat()
}

/// Reads up to the end of the request's content; `None` where the connection ends.
fn hear(stream: &mut UnixStream) -> Option<()> {
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).ok()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        stream.read_exact(&mut content).ok()?;
        if header[1] == STDIN && length == 0 {
            return Some(());
        }
    }
}

/// Serves a connection until it ends, then takes the next, and counts them.
fn process(listener: &UnixListener, takes: Duration, taken: &AtomicUsize) {
    while let Ok((mut stream, _)) = listener.accept() {
        taken.fetch_add(1, Ordering::SeqCst);
        while hear(&mut stream).is_some() {
            thread::sleep(takes);
            let answer = [
                record(STDOUT, b"Content-Type: text/plain\r\n\r\nok"),
                record(STDOUT, b""),
                record(END_REQUEST, &[0; 8]),
            ]
            .concat();
            if stream.write_all(&answer).is_err() {
                break;
            }
        }
    }
}

fn program(path: &Path, forks_on_demand: bool) -> Arc<Upstream> {
    let tuning = Tuning {
        timeout_ms: 20_000,
        kept_max: 9,
        kept_ms: 60_000,
        forks_on_demand,
        ..tuning()
    };
    let mut backend = Backend::new(Protocol::FastCgi, BackendAddress::Unix(path.to_owned()));
    // This process listens, as the server does for PHP of its own.
    backend.is_own_php = true;
    Arc::new(Upstream::new("program", vec![Member::new(backend, tuning)]))
}

/// So many processes, and how many connections they have taken.
fn processes(path: &Path, count: usize, takes: Duration) -> Arc<AtomicUsize> {
    let (listener, taken) = (
        Arc::new(UnixListener::bind(path).unwrap()),
        Arc::<AtomicUsize>::default(),
    );
    for _ in 0..count {
        let (listener, taken) = (Arc::clone(&listener), Arc::clone(&taken));
        thread::spawn(move || process(&listener, takes, &taken));
    }
    taken
}

async fn at_once(gateway: &Rc<Gateway>, upstream: &Arc<Upstream>, count: usize) {
    let all = (0..count).map(|_| {
        let (gateway, upstream) = (Rc::clone(gateway), Arc::clone(upstream));
        tokio::task::spawn_local(async move { fetch(&gateway, &upstream).await })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), (200, Ok(b"ok".to_vec())));
    }
}

#[test]
fn an_idle_connection_keeps_no_process_from_others() {
    let folder = TempDir::new("gateway-processes").unwrap();
    // Scripts that outlast the patience, and such as are over before it.
    for takes_ms in [20, 0] {
        let path = folder.join(format!("{takes_ms}.sock"));
        processes(&path, 2, Duration::from_millis(takes_ms));
        with_gateway(1, |gateway| async move {
            at_once(&gateway, &program(&path, false), 9).await
        });
    }
}

/// A worker of its own for each request, which then keeps the connection and goes on living.
fn in_own_worker(path: &Path) -> (mpsc::Receiver<Duration>, mpsc::Sender<()>) {
    let ((tell, told), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    let path = path.to_owned();
    thread::spawn(move || {
        with_gateway(1, |gateway| async move {
            let began = Instant::now();
            at_once(&gateway, &program(&path, false), 1).await;
            let _ = tell.send(began.elapsed());
            // Idle, until the test ends.
            while ended.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    });
    (told, end)
}

#[test]
fn an_idle_connection_keeps_no_process_from_other_workers() {
    let folder = TempDir::new("gateway-processes").unwrap();
    let path = folder.join("fpm.sock");
    processes(&path, 2, Duration::ZERO);
    let mut workers = Vec::new();
    for _ in 0..6 {
        let worker = in_own_worker(&path);
        let took = worker.0.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(took < Duration::from_secs(5), "{took:?}");
        workers.push(worker);
    }
}

#[test]
fn with_processes_enough_connections_are_kept() {
    let folder = TempDir::new("gateway-processes").unwrap();
    let path = folder.join("fpm.sock");
    let taken = processes(&path, 9, Duration::ZERO);
    with_gateway(1, |gateway| async move {
        let upstream = program(&path, false);
        for _ in 0..100 {
            at_once(&gateway, &upstream, 4).await;
        }
    });
    // Four, and some more where this machine was slow.
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken <= 100, "{taken} connections for 400 requests");
}

#[test]
fn whoever_starts_processes_is_asked_again() {
    let folder = TempDir::new("gateway-probe_connect").unwrap();
    let path = folder.join("fpm.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let silent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&silent);
    // One that takes the first connection only when another one has come.
    thread::spawn(move || {
        let first = listener.accept().unwrap().0;
        let mut second = listener.accept().unwrap().0;
        counter.fetch_add(
            usize::from(second.read(&mut [0]).unwrap() == 0),
            Ordering::SeqCst,
        );
        drop(second);
        let mut first = first;
        hear(&mut first).unwrap();
        first
            .write_all(
                &[
                    record(STDOUT, b"Content-Type: text/plain\r\n\r\nok"),
                    record(END_REQUEST, &[0; 8]),
                ]
                .concat(),
            )
            .unwrap();
        hold(&mut first);
    });
    with_gateway(1, |gateway| async move {
        let upstream = program(&path, true);
        let ticking = Rc::clone(&gateway);
        let ticker = tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                ticking.tick(saker_net::clock::monotonic_ms());
            }
        });
        assert_eq!(fetch(&gateway, &upstream).await, (200, Ok(b"ok".to_vec())));
        assert_eq!(silent.load(Ordering::SeqCst), 1);
        ticker.abort();
    });
}
