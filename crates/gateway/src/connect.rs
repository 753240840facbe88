//! Making connections. Difficulty: a Unix socket whose queue is full says "try again" instead of waiting, so we wait in its place.

use crate::{failure::Failure, resolver, secured::Secured, transport::Transport};
use saker_config::model::{Backend, BackendAddress, Protocol, Tuning};
use saker_net::Stream;
use saker_tls::ClientTls;
use std::{io, net::SocketAddr, path::Path, time::Duration};
use tokio::{
    net::{TcpStream, UnixStream},
    time::{sleep, timeout},
};

/// First and longest pause before a full queue is tried again.
const PAUSE_MS: (u64, u64) = (1, 50);

/// `tls`: where the backend is to be spoken to under it.
pub async fn connect(backend: &Backend, tls: Option<&ClientTls>, tuning: &Tuning) -> Result<Transport, Failure> {
    let connecting = async {
        let connected = match &backend.address {
            BackendAddress::Unix(path) => unix(path).await,
            BackendAddress::Tcp { host, port } => tcp(host, *port, tuning.address_ttl_ms).await,
        };
        let stream = connected.map_err(Failure::Unreachable)?;
        Ok(match tls {
            None => Transport::Socket(stream),
            Some(tls) => {
                // RFC 9113 section 3.2: HTTP/2 over TLS is agreed upon; for the rest nothing has to be.
                let protocol = (backend.protocol == Protocol::Http2).then_some(&b"h2"[..]);
                Transport::Tls(Box::new(Secured::connect(stream, tls, protocol).await?))
            }
        })
    };
    match timeout(Duration::from_millis(tuning.connect_timeout_ms), connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(Failure::ConnectTimeout),
    }
}

async fn unix(path: &Path) -> io::Result<Stream> {
    let mut pause_ms = PAUSE_MS.0;
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(Duration::from_millis(pause_ms)).await;
                pause_ms = (pause_ms * 2).min(PAUSE_MS.1);
            }
            connected => return connected.map(Stream::Unix),
        }
    }
}

/// All addresses of a name in turn; addresses themselves are not looked up.
async fn tcp(host: &str, port: u16, address_ttl_ms: u64) -> io::Result<Stream> {
    if let Ok(address) = host.trim_matches(['[', ']']).parse() {
        return to_address(SocketAddr::new(address, port)).await;
    }
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in resolver::addresses(host, address_ttl_ms).await? {
        match to_address(SocketAddr::new(address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    resolver::doubt(host);
    Err(failed)
}

async fn to_address(address: SocketAddr) -> io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Stream::Tcp(stream))
}
