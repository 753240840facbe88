//! Real sockets on the loopback interface and in the temporary directory.

use super::*;
use saker_testkit::PATIENCE;
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv6Addr, TcpStream},
    os::unix::fs::{FileTypeExt, PermissionsExt},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

static NEXT: AtomicU32 = AtomicU32::new(0);

fn socket_path() -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("saker-net-{}-{number}.sock", std::process::id()))
}

fn bind_loopback(options: BindOptions) -> (BoundSocket, SocketAddr) {
    let socket = bind(Bind::Tcp("127.0.0.1:0".parse().unwrap()), options).unwrap();
    let address = ip(&socket);
    (socket, address)
}

fn ip(socket: &BoundSocket) -> SocketAddr {
    match socket.local_address().unwrap() {
        LocalAddress::Ip(address) => address,
        LocalAddress::Unix(path) => panic!("{path:?}"),
    }
}

fn bind_path(path: &Path, mode: Option<u32>) -> io::Result<BoundSocket> {
    bind(Bind::Unix(path, mode), BindOptions::default())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn accept_one(listener: &Listener) -> Accepted {
    loop {
        listener.readable().await.unwrap();
        match listener.try_accept() {
            Ok(accepted) => return accepted,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn accepts_without_registering() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions::default());
        let listener = Listener::register(socket).unwrap();
        assert_eq!(
            listener.try_accept().unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"request").unwrap();
        let Accepted {
            stream,
            peer,
            by_wake_up,
        } = accept_one(&listener).await;
        assert_eq!(peer, PeerAddress::Ip(client.local_addr().unwrap()));
        assert_eq!(stream.local_address().unwrap(), Some(address));
        assert!(
            stream.is_tcp() && !by_wake_up,
            "without defer_accept the data may be younger"
        );
        let mut buffer = [0; 100];
        assert_eq!(stream.try_read(&mut buffer).unwrap(), 7);
        assert_eq!(
            stream.try_read(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "not non-blocking"
        );
        let flags = rustix::io::fcntl_getfd(&stream).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        assert_eq!(
            listener.try_accept().unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    });
}

#[test]
fn accepted_sockets_inherit_nodelay() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions::default());
        let listener = Listener::register(socket).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let accepted = accept_one(&listener).await;
        assert!(rustix::net::sockopt::tcp_nodelay(&accepted.stream).unwrap());
    });
}

#[test]
fn only_the_first_after_a_wait_has_come_with_it() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions {
            defer_accept: true,
            reuse_port: true,
            ..BindOptions::default()
        });
        let listener = Listener::register(socket.try_clone().unwrap()).unwrap();
        let send = || {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"request").unwrap();
            client
        };
        let _first = send();
        assert!(
            !accept_one(&listener).await.by_wake_up,
            "another worker may have the same queue"
        );
        drop(listener);
        let listener = Listener::register(socket).unwrap();
        for _ in 0..2 {
            let clients = [send(), send()];
            let waited = clients.map(|_client| async { accept_one(&listener).await.by_wake_up });
            let [first, second] = waited;
            assert_eq!((first.await, second.await), (true, false));
            assert_eq!(
                listener.try_accept().unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
        }
    });
}

/// Readiness must survive until the queue was seen empty: the event comes only once for several
/// connections.
#[test]
fn no_connection_is_forgotten() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions::default());
        let listener = Listener::register(socket).unwrap();
        let clients: Vec<_> = (0..20)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for _ in &clients {
            tokio::time::timeout(Duration::from_secs(5), accept_one(&listener))
                .await
                .unwrap();
        }
    });
}

#[test]
fn waits_for_a_connection() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions::default());
        let listener = Listener::register(socket).unwrap();
        // Runs once the other has found that there is none yet.
        let connect = async { TcpStream::connect(address).unwrap() };
        let accept = tokio::time::timeout(PATIENCE, accept_one(&listener));
        let (accepted, _client) = tokio::join!(biased; accept, connect);
        accepted.unwrap();
    });
}

#[test]
fn a_port_is_taken_unless_shared() {
    let (_first, address) = bind_loopback(BindOptions::default());
    let again = bind(Bind::Tcp(address), BindOptions::default());
    assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let shared = BindOptions {
        reuse_port: true,
        ..BindOptions::default()
    };
    let (_first, address) = bind_loopback(shared);
    bind(Bind::Tcp(address), shared).unwrap();
}

#[test]
fn whether_an_address_is_taken_is_found_out_without_listening() {
    let shared = BindOptions {
        reuse_port: true,
        ..BindOptions::default()
    };
    let (first, address) = bind_loopback(shared);
    assert_eq!(
        refuse_if_taken(address, false).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    drop(first);
    refuse_if_taken(address, false).unwrap();
    let bound = bound_tcp(address, BindOptions::default()).unwrap();
    assert_eq!(
        TcpStream::connect(address).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    drop(bound);
}

#[test]
fn a_restart_does_not_wait_for_old_connections() {
    let (socket, address) = bind_loopback(BindOptions::default());
    let listener: std::net::TcpListener = socket.fd.into();
    listener.set_nonblocking(false).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    drop(listener.accept().unwrap()); // closing first, the server's side is the one left in TIME_WAIT
    client.read_exact(&mut [0]).unwrap_err();
    drop((client, listener));
    bind(Bind::Tcp(address), BindOptions::default()).unwrap();
}

#[test]
fn defer_accept_waits_for_data() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions {
            defer_accept: true,
            ..BindOptions::default()
        });
        let listener = Listener::register(socket).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let silent = tokio::time::timeout(Duration::from_millis(50), accept_one(&listener)).await;
        assert!(silent.is_err());
        client.write_all(b"x").unwrap();
        tokio::time::timeout(Duration::from_secs(5), accept_one(&listener))
            .await
            .unwrap();
    });
}

#[test]
fn ipv6_any_takes_ipv4_unless_told_otherwise() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let Ok(dual) = bind(Bind::Tcp(any), BindOptions::default()) else {
        return;
    }; // no IPv6 here
    let connect_v4 = |port| TcpStream::connect(("127.0.0.1", port));
    assert!(connect_v4(ip(&dual).port()).is_ok());
    runtime().block_on(async {
        let peer = accept_one(&Listener::register(dual).unwrap()).await.peer;
        assert_eq!(peer.ip(), Some("127.0.0.1".parse().unwrap()));
    });
    let only = bind(
        Bind::Tcp(any),
        BindOptions {
            v6_only: true,
            ..BindOptions::default()
        },
    )
    .unwrap();
    assert!(connect_v4(ip(&only).port()).is_err());
    let beside = SocketAddr::from(([0, 0, 0, 0], ip(&only).port()));
    bind(Bind::Tcp(beside), BindOptions::default()).unwrap();
}

#[test]
fn clones_share_one_queue() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions::default());
        let clone = socket.try_clone().unwrap();
        assert_eq!(ip(&clone), address);
        drop(socket);
        let _client = TcpStream::connect(address).unwrap();
        accept_one(&Listener::register(clone).unwrap()).await;
    });
}

#[test]
fn unix_sockets() {
    runtime().block_on(async {
        let path = socket_path();
        let socket = bind_path(&path, Some(0o600)).unwrap();
        assert_eq!(
            socket.local_address().unwrap(),
            LocalAddress::Unix(path.clone())
        );
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let kept = socket.try_clone().unwrap();
        let listener = Listener::register(socket).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        let accepted = accept_one(&listener).await;
        assert_eq!(accepted.peer, PeerAddress::Unix);
        assert!(!accepted.stream.is_tcp());
        assert_eq!(accepted.stream.local_address().unwrap(), None);
        kept.unlink().unwrap();
        assert!(!path.exists());
    });
}

#[test]
fn a_living_servers_socket_is_not_taken() {
    let path = socket_path();
    let first = bind_path(&path, None).unwrap();
    assert_eq!(
        bind_path(&path, None).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    UnixStream::connect(&path).unwrap();
    first.unlink().unwrap();
}

#[test]
fn a_dead_servers_socket_is_replaced_and_not_removed_by_the_dead() {
    let path = socket_path();
    let dead = bind_path(&path, None).unwrap();
    let file = dead.file.clone();
    drop(dead);
    let living = bind_path(&path, None).unwrap();
    // The file system may give the new socket the old one's inode; the comparison needs another.
    let (other, _) = bind_loopback(BindOptions::default());
    let stranger = BoundSocket {
        file: file.map(|file| SocketFile {
            inode: file.inode ^ (1 << 40),
            ..file
        }),
        ..other
    };
    stranger.unlink().unwrap();
    assert!(path.exists());
    living.unlink().unwrap();
    assert!(!path.exists());
    assert!(living.unlink().is_err(), "gone already");
}

#[test]
fn other_files_are_never_removed() {
    let path = socket_path();
    fs::write(&path, "precious").unwrap();
    assert_eq!(
        bind_path(&path, None).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();
    let target = socket_path();
    drop(bind_path(&target, None).unwrap());
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(
        bind_path(&path, None).is_err(),
        "a link to a dead socket is not a dead socket"
    );
    assert!(
        fs::symlink_metadata(&target)
            .unwrap()
            .file_type()
            .is_socket()
    );
    fs::remove_file(&path).unwrap();
    fs::remove_file(&target).unwrap();
}

#[test]
fn only_listening_streams_are_adopted() {
    let (socket, address) = bind_loopback(BindOptions::default());
    let adopted = BoundSocket::adopt(socket.fd, Some("web".into())).unwrap();
    assert_eq!((ip(&adopted), adopted.name()), (address, Some("web")));
    let client = TcpStream::connect(address).unwrap();
    assert!(
        BoundSocket::adopt(client.into(), None).is_err(),
        "connected"
    );
    let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(
        BoundSocket::adopt(datagram.into(), None).is_err(),
        "datagrams"
    );
    assert!(
        BoundSocket::adopt(fs::File::open("/dev/null").unwrap().into(), None).is_err(),
        "no socket"
    );
}

/// Out of descriptors the connection stays in the queue and the listener stays ready; needs a
/// process of its own for its low limit.
#[test]
fn out_of_descriptors_nothing_is_lost() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "listener::tests::child_runs_out_of_descriptors",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "lowers the descriptor limit of the process; run by out_of_descriptors_nothing_is_lost"]
fn child_runs_out_of_descriptors() {
    runtime().block_on(async {
        let (socket, address) = bind_loopback(BindOptions::default());
        let listener = Listener::register(socket).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let mut hoard = Vec::new();
        let limit = rustix::process::Rlimit {
            current: Some(64),
            maximum: Some(64),
        };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        while let Ok(file) = fs::File::open("/dev/null") {
            hoard.push(file);
        }
        for _ in 0..3 {
            listener.readable().await.unwrap();
            assert_eq!(
                listener.try_accept().unwrap_err().raw_os_error(),
                Some(Errno::MFILE.raw_os_error())
            );
        }
        hoard.clear();
        tokio::time::timeout(Duration::from_secs(5), accept_one(&listener))
            .await
            .unwrap();
    });
}
