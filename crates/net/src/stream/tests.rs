//! Real connections. What a poll must not do (ask the kernel again) is shown by a tokio readiness
//! that stays cleared.

use super::*;
use crate::{Accepted, Bind, BindOptions, Listener, LocalAddress, bind};
use rustix::event::{PollFd, PollFlags, Timespec};
use saker_testkit::wait_until;
use std::{
    future::poll_fn,
    io::{Read, Seek, Write},
    net::TcpStream as StdTcpStream,
    os::unix::net::UnixStream as StdUnixStream,
    time::Duration,
};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), test)
            .await
            .unwrap()
    });
}

async fn tcp_pair() -> (StdTcpStream, RawStream) {
    let socket = bind(
        Bind::Tcp("127.0.0.1:0".parse().unwrap()),
        BindOptions::default(),
    )
    .unwrap();
    let LocalAddress::Ip(address) = socket.local_address().unwrap() else {
        panic!("not an IP address")
    };
    let listener = Listener::register(socket).unwrap();
    let client = StdTcpStream::connect(address).unwrap();
    listener.readable().await.unwrap();
    let Accepted { stream, .. } = listener.try_accept().unwrap();
    (client, stream)
}

fn unix_pair() -> (StdUnixStream, RawStream) {
    let (client, server) = StdUnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    (client, RawStream::new(server.into(), Family::Unix))
}

fn is_pending<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> bool {
    poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending()
}

async fn read(stream: &mut Stream, buf: &mut [u8]) -> usize {
    poll_fn(|cx| stream.poll_read(cx, buf)).await.unwrap()
}

/// Waits until so many bytes can be read from the socket.
fn arrived(socket: &impl AsFd, bytes: u64) {
    wait_until("bytes that have been sent", || {
        rustix::io::ioctl_fionread(socket).unwrap() >= bytes
    });
}

/// Waits until the other side has closed.
fn ended(socket: &impl AsFd) {
    wait_until("the end of the connection", || {
        let mut wanted = [PollFd::new(socket, PollFlags::RDHUP)];
        rustix::event::poll(&mut wanted, Some(&Timespec::default())).unwrap() > 0
    });
}

/// A file of `size` bytes with a pattern in them, that has no name any more.
fn file(size: usize) -> (File, Vec<u8>) {
    let content: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let path =
        std::env::temp_dir().join(format!("saker-net-sendfile-{}-{size}", std::process::id()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(&content).unwrap();
    file.rewind().unwrap();
    (file, content)
}

#[test]
fn raw_streams_read_and_write_at_once() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        assert_eq!(
            server.try_read(&mut [0; 10]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        assert_eq!(server.try_write(b"one ").unwrap(), 4);
        assert_eq!(
            server
                .try_write_vectored(&[IoSlice::new(b"two "), IoSlice::new(b"three")])
                .unwrap(),
            9
        );
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two three");
    });
}

#[test]
fn writing_to_the_departed_is_an_error_and_no_signal() {
    run(async {
        let (client, server) = unix_pair();
        drop(client);
        assert_eq!(
            server.try_write(b"x").unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
        assert_eq!(
            server
                .try_write_vectored(&[IoSlice::new(b"x")])
                .unwrap_err()
                .kind(),
            io::ErrorKind::BrokenPipe
        );
        let mut stream = server.register().unwrap();
        let error = poll_fn(|cx| stream.poll_send_more(cx, b"x"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn more_buffers_than_the_kernel_takes() {
    let (_client, server) = unix_pair();
    let bufs = vec![IoSlice::new(b"x"); IOV_MAX + 1];
    assert_eq!(server.try_write_vectored(&bufs).unwrap(), IOV_MAX);
}

#[test]
fn both_families_carry_data_both_ways() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        assert!(stream.is_tcp());
        assert_eq!(
            stream.local_address().unwrap(),
            Some(client.peer_addr().unwrap())
        );
        exchange(&mut client, &mut stream).await;
        let (mut client, server) = unix_pair();
        let mut stream = server.register().unwrap();
        assert!(!stream.is_tcp());
        assert_eq!(stream.local_address().unwrap(), None);
        exchange(&mut client, &mut stream).await;
    });
}

async fn exchange(client: &mut (impl Read + Write), stream: &mut Stream) {
    let mut buf = [0; 100];
    client.write_all(b"request").unwrap();
    assert_eq!(read(stream, &mut buf).await, 7);
    assert_eq!(&buf[..7], b"request");
    stream.set_cork(true).unwrap();
    assert_eq!(poll_fn(|cx| stream.poll_write(cx, b"a")).await.unwrap(), 1);
    assert_eq!(
        poll_fn(|cx| stream.poll_write_vectored(cx, &[IoSlice::new(b"b"), IoSlice::new(b"c")]))
            .await
            .unwrap(),
        2
    );
    stream.set_cork(false).unwrap();
    assert_eq!(
        poll_fn(|cx| stream.poll_send_more(cx, b"d")).await.unwrap(),
        1
    );
    assert_eq!(
        poll_fn(|cx| stream.poll_send_more_vectored(cx, &[IoSlice::new(b"e"), IoSlice::new(b"f")]))
            .await
            .unwrap(),
        2
    );
    stream.shutdown_write().unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abcdef");
}

/// The rule that saves a recv per request: after a short read the socket counts as drained until
/// the next event. Data that arrives between the read and the next turn of the event loop is not
/// seen by another poll, which proves that the poll made no system call.
#[test]
fn a_short_read_ends_readiness() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        client.write_all(b"first").unwrap();
        let mut buf = [0; 100];
        assert_eq!(read(&mut stream, &mut buf).await, 5);
        client.write_all(b"second").unwrap();
        arrived(&stream, 6);
        assert!(
            is_pending(|cx| stream.poll_read(cx, &mut buf)),
            "asked the kernel although the last read was short"
        );
        assert!(is_pending(|cx| stream.poll_readable(cx)));
        assert_eq!(read(&mut stream, &mut buf).await, 6);
    });
}

#[test]
fn a_full_read_goes_on() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        client.write_all(b"12345678").unwrap();
        let mut buf = [0; 4];
        assert_eq!(read(&mut stream, &mut buf).await, 4);
        assert!(!is_pending(|cx| stream.poll_read(cx, &mut buf)));
        assert_eq!(&buf, b"5678");
    });
}

#[test]
fn the_end_is_seen_after_a_short_read() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        client.write_all(b"last words").unwrap();
        drop(client);
        ended(&stream);
        let mut buf = [0; 100];
        assert_eq!(read(&mut stream, &mut buf).await, 10);
        poll_fn(|cx| stream.poll_readable(cx)).await.unwrap();
        assert_eq!(read(&mut stream, &mut buf).await, 0);
    });
}

/// The same three rules for the reading that spares tokio's budget and waker.
#[test]
fn reading_now_follows_the_same_rules() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        let mut buf = [0; 8];
        assert!(is_pending(|cx| stream.poll_read_now(cx, &mut buf)));
        client.write_all(b"12345678abc").unwrap();
        poll_fn(|cx| stream.poll_readable(cx)).await.unwrap();
        let socket = stream.as_fd().try_clone_to_owned().unwrap();
        let mut now = |buf: &mut [u8]| {
            stream.poll_read_now(&mut Context::from_waker(std::task::Waker::noop()), buf)
        };
        assert!(matches!(now(&mut buf), Poll::Ready(Ok(8))), "a full read");
        assert!(matches!(now(&mut buf), Poll::Ready(Ok(3))), "goes on");
        client.write_all(b"more").unwrap();
        arrived(&socket, 4);
        assert!(now(&mut buf).is_pending(), "a short read ends readiness");
        assert_eq!(
            poll_fn(|cx| stream.poll_read_now(cx, &mut buf))
                .await
                .unwrap(),
            4
        );
        client.write_all(b"last").unwrap();
        drop(client);
        ended(&stream);
        assert_eq!(
            poll_fn(|cx| stream.poll_read_now(cx, &mut buf))
                .await
                .unwrap(),
            4
        );
        assert_eq!(
            poll_fn(|cx| stream.poll_read_now(cx, &mut buf))
                .await
                .unwrap(),
            0,
            "the end is seen after a short read"
        );
    });
}

#[test]
fn sending_a_file_now_waits_when_the_socket_is_full() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        let (file, content) = file(12 << 20);
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            got
        });
        assert_eq!(
            poll_fn(|cx| stream.poll_send_more_now(cx, b"head"))
                .await
                .unwrap(),
            4
        );
        let mut sent = 0;
        while sent < content.len() {
            sent +=
                poll_fn(|cx| stream.poll_sendfile(cx, &file, sent as u64, content.len() - sent))
                    .await
                    .unwrap();
        }
        drop(stream);
        let got = reader.join().unwrap();
        assert!(got[..4] == *b"head" && got[4..] == content);
    });
}

#[test]
fn writing_now_writes_or_says_so() {
    run(async {
        let (client, server) = tcp_pair().await;
        let stream = server.register().unwrap();
        assert_eq!(stream.write_now(b"x").unwrap(), 1);
        let full = std::iter::repeat_with(|| stream.write_now(&[0; 1 << 16])).find_map(Result::err);
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(client);
    });
}

#[test]
fn a_client_that_leaves_makes_it_readable() {
    run(async {
        let (client, server) = tcp_pair().await;
        let stream = server.register().unwrap();
        assert!(is_pending(|cx| stream.poll_readable(cx)));
        drop(client);
        poll_fn(|cx| stream.poll_readable(cx)).await.unwrap();
    });
}

#[test]
fn a_slow_reader_makes_writing_wait() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        let chunk = [7; 65536];
        let mut written = 0;
        poll_fn(|cx| stream.poll_writable(cx)).await.unwrap();
        while !is_pending(|cx| {
            stream
                .poll_write(cx, &chunk)
                .map(|count| written += count.unwrap())
        }) {
            tokio::task::yield_now().await;
        }
        assert!(stream.unsent_bytes().unwrap() > 0);
        assert!(is_pending(|cx| stream.poll_writable(cx)));
        let reader = std::thread::spawn(move || {
            let mut content = Vec::new();
            client.read_to_end(&mut content).unwrap();
            content.len()
        });
        poll_fn(|cx| stream.poll_writable(cx)).await.unwrap();
        drop(stream);
        assert_eq!(reader.join().unwrap(), written);
    });
}

#[test]
fn sendfile_sends_a_range_of_any_size() {
    run(async {
        let (file, content) = file(8 << 20);
        for (tcp, offset, end) in [
            (true, 0, content.len()),
            (true, 1000, 5000),
            (false, 123_456, content.len()),
        ] {
            let (client, server): (OwnedFd, RawStream) = if tcp {
                let (client, server) = tcp_pair().await;
                (client.into(), server)
            } else {
                let (client, server) = unix_pair();
                (client.into(), server)
            };
            let mut stream = server.register().unwrap();
            let reader = std::thread::spawn(move || {
                let mut received = Vec::new();
                StdTcpStream::from(client)
                    .read_to_end(&mut received)
                    .unwrap();
                received
            });
            let mut at = offset;
            while at < end {
                at += poll_fn(|cx| stream.poll_sendfile(cx, &file, at as u64, end - at))
                    .await
                    .unwrap();
            }
            drop(stream);
            assert!(
                reader.join().unwrap() == content[offset..end],
                "{offset}..{end}"
            );
        }
        assert_eq!(
            (&file).stream_position().unwrap(),
            0,
            "the file's own position is shared and must stay"
        );
    });
}

#[test]
fn a_full_socket_is_waited_for_and_not_asked_again() {
    run(async {
        let (file, content) = file(16 << 20);
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        let mut sent = poll_fn(|cx| stream.poll_sendfile(cx, &file, 0, content.len()))
            .await
            .unwrap();
        assert!(sent < content.len());
        assert!(is_pending(|cx| stream.poll_sendfile(
            cx,
            &file,
            sent as u64,
            content.len() - sent
        )));
        // Room that the event loop has not heard of is not looked for.
        let mut got = vec![0; sent];
        client.read_exact(&mut got).unwrap();
        assert!(is_pending(|cx| stream.poll_sendfile(
            cx,
            &file,
            sent as u64,
            content.len() - sent
        )));
        let reader = std::thread::spawn(move || {
            client.read_to_end(&mut got).unwrap();
            got
        });
        while sent < content.len() {
            sent +=
                poll_fn(|cx| stream.poll_sendfile(cx, &file, sent as u64, content.len() - sent))
                    .await
                    .unwrap();
        }
        drop(stream);
        assert!(reader.join().unwrap() == content);
    });
}

#[test]
fn sendfile_tells_when_the_file_has_shrunk() {
    run(async {
        let (file, _) = file(1000);
        let (_client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        file.set_len(400).unwrap();
        assert_eq!(
            poll_fn(|cx| stream.poll_sendfile(cx, &file, 0, 1000))
                .await
                .unwrap(),
            400
        );
        assert_eq!(
            poll_fn(|cx| stream.poll_sendfile(cx, &file, 400, 600))
                .await
                .unwrap(),
            0
        );
    });
}

/// As of a file that is written while it is sent: the end was there when its bytes were read, and is
/// further away when its length is.
#[test]
fn sendfile_goes_on_where_a_file_says_that_it_is_longer_than_what_it_gave() {
    run(async {
        let (_client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        // Files of sysfs are 4,096 bytes long, whatever is in them.
        let file = File::open("/sys/devices/system/cpu/online").unwrap();
        let text = std::fs::read("/sys/devices/system/cpu/online").unwrap();
        assert!(text.len() < 1000 && file.metadata().unwrap().len() > 1000);
        let sent = poll_fn(|cx| stream.poll_sendfile(cx, &file, 0, 1000)).await;
        assert_eq!(sent.unwrap(), text.len());
        let end = text.len() as u64;
        let mut next = std::pin::pin!(poll_fn(|cx| stream.poll_sendfile(cx, &file, end, 500)));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let next = next.as_mut().poll(&mut context);
        assert!(matches!(next, Poll::Ready(Ok(0))), "{next:?}");
    });
}

#[test]
fn a_head_waits_for_the_file_behind_it() {
    run(async {
        let (file, content) = file(500);
        let (mut client, server) = tcp_pair().await;
        let mut stream = server.register().unwrap();
        client.set_nonblocking(true).unwrap();
        assert_eq!(
            poll_fn(|cx| stream.poll_send_more(cx, b"head"))
                .await
                .unwrap(),
            4
        );
        let mut buf = [0; 1000];
        assert_eq!(
            client.read(&mut buf).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "the head left alone"
        );
        assert_eq!(
            poll_fn(|cx| stream.poll_sendfile(cx, &file, 0, 500))
                .await
                .unwrap(),
            500
        );
        arrived(&client, 504);
        assert_eq!(client.read(&mut buf).unwrap(), 504);
        assert_eq!(&buf[..504], [b"head", &content[..]].concat());
    });
}

#[test]
fn shutting_down_twice_or_after_a_reset_is_no_error() {
    run(async {
        let (client, server) = tcp_pair().await;
        let stream = server.register().unwrap();
        stream.shutdown_write().unwrap();
        stream.shutdown_write().unwrap();
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        ended(&stream);
        stream.shutdown_write().unwrap();
    });
}

#[test]
fn a_reset_on_drop_reaches_the_client() {
    run(async {
        let (mut client, server) = tcp_pair().await;
        let stream = server.register().unwrap();
        stream.reset_on_drop().unwrap();
        drop(stream);
        assert_eq!(
            client.read(&mut [0]).unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    });
}

/// The end of the peer's half is no hang-up; a reset behind it is one, and so is a Unix socket that
/// is closed.
#[test]
fn a_half_closed_connection_is_not_hung_up() {
    run(async {
        let (client, server) = tcp_pair().await;
        let mut server = server.register().unwrap();
        assert!(!server.is_hung_up());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read(&mut server, &mut [0; 10]).await, 0);
        assert!(!server.is_hung_up());
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        while !server.is_hung_up() {
            tokio::task::yield_now().await;
        }
        let (client, server) = unix_pair();
        let mut server = server.register().unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read(&mut server, &mut [0; 10]).await, 0);
        assert!(!server.is_hung_up());
        drop(client);
        assert!(server.is_hung_up());
    });
}
