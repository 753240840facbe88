//! The floor: a bare event loop that answers every request with the same 285 bytes, whatever it asks.
//!
//! What it costs is what the kernel, the socket and tokio cost; a server can come near it, not below. It looks for the end of a head and
//! nothing else. Absent on purpose: everything that makes it a web server.

use std::{io, net::Ipv4Addr, rc::Rc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

const BODY_BYTES: usize = 285;
const BUFFER_BYTES: usize = 4096;

/// Serves until it is killed.
pub fn serve(port: u16) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
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
            filled = 0;
            stream.write_all(&answer).await?;
        }
    }
}

/// With the fields that a file server sends.
fn answer() -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/html\r\nContent-Length: {BODY_BYTES}\r\n\
         Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"2ed1b2c3-11d\"\r\nAccept-Ranges: bytes\r\n\r\n"
    );
    [head.as_bytes(), &[b'x'; BODY_BYTES]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::{Client, free_port};
    use std::{net::SocketAddr, thread, time::Duration};

    #[test]
    fn answers_again_and_again() {
        let port = free_port().expect("a port");
        thread::spawn(move || serve(port));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut client = (0..200)
            .find_map(|_| Client::connect(address).map_err(|_| thread::sleep(Duration::from_millis(10))).ok())
            .expect("it accepts within two seconds");
        for _ in 0..3 {
            assert_eq!(client.get("/").expect("answered").body.len(), BODY_BYTES);
        }
    }
}
