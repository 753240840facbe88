//! The floor: a bare event loop that answers every request with the same page of 285 bytes,
//! whatever it asks.
//!
//! What it costs is what the kernel, the socket and tokio cost; a server can come near it, not
//! below. It looks for the end of a head and at which HTTP it is asked, since ab speaks HTTP/1.0
//! and waits for the end of a connection that it did not ask to keep. Absent on purpose: everything
//! that makes it a web server.

use saker_testkit::bench_files;
use std::{io, net::Ipv4Addr, rc::Rc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

const BUFFER_BYTES: usize = 4096;

/// Serves until it is killed.
pub fn serve(port: u16) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    LocalSet::new().block_on(&runtime, accept(port))
}

async fn accept(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let answer: Rc<[u8]> = answer().into();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A client that goes away is no event for a floor.
        tokio::task::spawn_local(converse(stream, Rc::clone(&answer)));
    }
}

async fn converse(mut stream: TcpStream, answer: Rc<[u8]>) -> io::Result<()> {
    let mut buffer = [0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            stream.write_all(&answer).await?;
            if is_last(&buffer[..filled]) {
                return stream.shutdown().await;
            }
            filled = 0;
        }
    }
}

/// HTTP/1.0 without a word about keeping the connection.
fn is_last(head: &[u8]) -> bool {
    let has = |text: &[u8]| head.windows(text.len()).any(|window| window == text);
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.ends_with(b"1.0") && !has(b"eep-")
}

/// With the fields that a file server sends.
fn answer() -> Vec<u8> {
    let body = bench_files::small_page();
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"2ed1b2c3-11d\"\r\nAccept-Ranges: bytes\r\nConnection: keep-alive\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::{Client, free_port};
    use std::{net::SocketAddr, thread, time::Duration};

    #[test]
    fn keeps_what_shall_be_kept() {
        assert!(is_last(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n"));
        assert!(!is_last(
            b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
        ));
        assert!(!is_last(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    }

    #[test]
    fn answers_again_and_again() {
        let port = free_port().expect("a port");
        thread::spawn(move || serve(port));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut client = (0..200)
            .find_map(|_| {
                Client::connect(address)
                    .map_err(|_| thread::sleep(Duration::from_millis(10)))
                    .ok()
            })
            .expect("it accepts within two seconds");
        for _ in 0..3 {
            assert_eq!(
                client.get("/").expect("answered").body,
                bench_files::small_page()
            );
        }
    }
}
