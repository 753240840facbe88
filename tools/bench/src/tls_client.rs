//! Our side of TLS over TCP: blocking connections, with the one cipher and the one group that every
//! row over TLS is measured with.

use rustls::{
    ClientConfig, ClientConnection, StreamOwned, client::Resumption, pki_types::ServerName,
};
pub use saker_load::tls::{CIPHER_SUITE, NAME};
use std::{
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(20);

pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// TLS configuration of every load.
pub fn configuration(
    chain: &Path,
    alpn: &str,
    resumption: Resumption,
) -> Result<Arc<ClientConfig>, String> {
    saker_load::tls::configuration(chain, alpn, resumption).map(Arc::new)
}

/// Returns when the handshake is done.
pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Connection> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let client = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let mut connection = StreamOwned::new(client, stream);
    while connection.conn.is_handshaking() {
        connection.conn.complete_io(&mut connection.sock)?;
    }
    if connection.conn.alpn_protocol() != config.alpn_protocols.first().map(Vec::as_slice) {
        return Err(io::Error::other(
            "the server would not speak the protocol that we asked for",
        ));
    }
    Ok(connection)
}

/// Reads an HTTP/1.1 response with Content-Length off the stream; its size is returned, whatever
/// but a 200 is an error.
pub fn read_response(stream: &mut impl Read) -> io::Result<usize> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
        if let Some(end) = response_end(&bytes)? {
            return if bytes.len() == end {
                Ok(end)
            } else {
                Err(io::Error::other("more than a response"))
            };
        }
    }
}

/// `None` while the head is not there or the body is short.
fn response_end(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 200 ") {
        return Err(io::Error::other(format!("not a 200: {head}")));
    }
    let length = head.lines().find_map(|line| {
        line.strip_prefix("content-length:")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    let end = head_end
        + 4
        + length.ok_or_else(|| io::Error::other(format!("no Content-Length: {head}")))?;
    Ok((bytes.len() >= end).then_some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(read_response(&mut &whole[..]).expect("read"), whole.len());
        for bad in [
            &whole[..whole.len() - 1],
            b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"",
        ] {
            assert!(
                read_response(&mut &bad[..]).is_err(),
                "{}",
                bad.escape_ascii()
            );
        }
        assert!(read_response(&mut &[&whole[..], b"x"].concat()[..]).is_err());
    }
}
