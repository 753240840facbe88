//! Making connections.
//! Caveat: a Unix socket whose queue is full returns "try again" instead of blocking, so we wait
//! instead. One with room connects at once, without waiting and without a timer (which would cost
//! more system calls than the connection).

use crate::{failure::Failure, resolver, tls_stream::UpstreamTlsStream, transport::Transport};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt::socket_peercred,
};
use saker_config::model::{Backend, BackendAddress, Protocol, Through, Tuning};
use saker_net::{Stream, socket_path::SocketPath};
use saker_tls::ClientTls;
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    os::unix::net,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream, UnixStream},
    time::{sleep, timeout},
};

/// Length limit of a proxy's response head to CONNECT.
const PROXY_HEAD_BYTES_MAX: usize = 8 << 10;
/// First and longest pause before a full queue is tried again.
const PAUSE_MS: (u64, u64) = (1, 50);

/// The state directory, as it was named and as it is.
static CLOSED_FOLDER: OnceLock<[PathBuf; 2]> = OnceLock::new();

/// Without a wait, where there is none: unix(7) knows no state between connected and not. `None`:
/// it has to be waited for.
pub fn connect_now(backend: &Backend) -> Option<Result<Transport, Failure>> {
    let BackendAddress::Unix(path) = &backend.address else {
        return None;
    };
    if backend.tls.is_some() {
        return None;
    }
    match unix_now(path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        connected => {
            let stream = connected
                .and_then(|stream| permitted(backend, stream))
                .and_then(UnixStream::from_std)
                .map_err(Failure::Unreachable);
            Some(stream.map(|stream| Transport::Socket(Stream::Unix(stream))))
        }
    }
}

/// `tls`: where the backend is to be spoken to under it. `preface`: what goes before that.
pub async fn connect(
    backend: &Backend,
    tls: Option<&ClientTls>,
    tuning: &Tuning,
    preface: &[u8],
) -> Result<Transport, Failure> {
    let connecting = async {
        let connected = match &backend.address {
            BackendAddress::Unix(path) => unix(backend, path).await,
            BackendAddress::Tcp { host, port } => match &backend.through {
                None => tcp(host, *port, tuning.address_ttl_ms, backend.local).await,
                Some(proxy) => {
                    through(
                        proxy,
                        tls.is_some().then(|| format!("{host}:{port}")),
                        tuning.address_ttl_ms,
                    )
                    .await
                }
            },
        };
        let mut stream = connected.map_err(Failure::Unreachable)?;
        if backend.keeps_alive && stream.is_tcp() {
            stream.keep_alive().map_err(Failure::Unreachable)?;
        }
        let sent = send(&mut stream, preface).await;
        sent.map_err(Failure::Unreachable)?;
        Ok(match tls {
            None => Transport::Socket(stream),
            Some(tls) => {
                // RFC 9113 section 3.2: HTTP/2 over TLS is agreed upon; for the rest nothing has to
                // be.
                let protocol = (backend.protocol == Protocol::Http2).then_some(&b"h2"[..]);
                Transport::Tls(Box::new(
                    UpstreamTlsStream::connect(stream, tls, protocol).await?,
                ))
            }
        })
    };
    match timeout(Duration::from_millis(tuning.connect_timeout_ms), connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(Failure::ConnectTimeout),
    }
}

async fn send(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| stream.poll_write(cx, bytes)).await?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// To the proxy, and from there on to `target`, if that is not the proxy's to read in the request.
async fn through(
    proxy: &Through,
    target: Option<String>,
    address_ttl_ms: u64,
) -> io::Result<Stream> {
    let mut stream = tcp(&proxy.host, proxy.port, address_ttl_ms, None).await?;
    let (Some(target), Stream::Tcp(socket)) = (target, &mut stream) else {
        return Ok(stream);
    };
    let authorization = proxy
        .authorization
        .as_ref()
        .map(|value| format!("Proxy-Authorization: {value}\r\n"))
        .unwrap_or_default();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    // Byte by byte: what comes behind the head is another's.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_HEAD_BYTES_MAX {
            return Err(io::Error::other(
                "the proxy on the way has no end of its answer",
            ));
        }
        head.push(socket.read_u8().await?);
    }
    // RFC 9110 section 9.3.6: any 2xx.
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    match line.starts_with(b"HTTP/1.") && line.get(8..10) == Some(b" 2") {
        true => Ok(stream),
        false => Err(io::Error::other(format!(
            "the proxy on the way refuses: {}",
            line.escape_ascii()
        ))),
    }
}

async fn unix(backend: &Backend, path: &Path) -> io::Result<Stream> {
    let mut pause_ms = PAUSE_MS.0;
    loop {
        match unix_now(path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(Duration::from_millis(pause_ms)).await;
                pause_ms = (pause_ms * 2).min(PAUSE_MS.1);
            }
            connected => {
                let stream = permitted(backend, connected?)?;
                return UnixStream::from_std(stream).map(Stream::Unix);
            }
        }
    }
}

/// Keeps backends out of this folder from now on, other than the server's own PHP.
pub fn close_folder(folder: &Path) {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.into());
    let _ = CLOSED_FOLDER.set([folder.into(), real]);
}

/// Refuses the server's own sockets to rules that name one (`SetHandler proxy:unix:` in a
/// `.htaccess` file, perhaps by a link): its PHP would take any variable for a setting. The kernel
/// says where the socket was bound, whichever link led there (unix(7)); during an upgrade it may be
/// another process that listens.
fn permitted(backend: &Backend, stream: net::UnixStream) -> io::Result<net::UnixStream> {
    if backend.is_own_php {
        return Ok(stream);
    }
    let peer = stream.peer_addr()?;
    let is_closed = peer.as_pathname().is_some_and(|path| {
        // Long paths are bound by a descriptor (`SocketPath`), which does not say the folder.
        let is_by_descriptor = path.starts_with("/proc/self/fd")
            && path.file_name().is_some_and(|name| {
                let name = name.as_encoded_bytes();
                name.starts_with(b"php-") || name.starts_with(b"lsphp") || name == b"control.sock"
            });
        is_by_descriptor
            || CLOSED_FOLDER
                .get()
                .is_some_and(|folders| folders.iter().any(|folder| path.starts_with(folder)))
    });
    let is_us = || {
        matches!(backend.protocol, Protocol::FastCgi | Protocol::Lsapi)
            && socket_peercred(&stream).is_ok_and(|peer| peer.pid == rustix::process::getpid())
    };
    match is_closed || is_us() {
        true => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is a socket of the server itself",
        )),
        false => Ok(stream),
    }
}

/// A connection that ends at once. Never waits.
pub fn probe_connect(path: &Path) -> io::Result<()> {
    unix_now(path).map(drop)
}

fn unix_now(path: &Path) -> io::Result<net::UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(
        &socket,
        &SocketAddrUnix::new(SocketPath::new(path)?.as_path())?,
    )?;
    Ok(socket.into())
}

/// All addresses of a name in turn; addresses themselves are not looked up. `local`: the address
/// that the connection leaves from.
async fn tcp(
    host: &str,
    port: u16,
    address_ttl_ms: u64,
    local: Option<SocketAddr>,
) -> io::Result<Stream> {
    if let Ok(address) = host.trim_matches(['[', ']']).parse() {
        return to_address(SocketAddr::new(address, port), local).await;
    }
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in resolver::addresses(host, address_ttl_ms).await? {
        match to_address(SocketAddr::new(address, port), local).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    resolver::doubt(host);
    Err(failed)
}

async fn to_address(address: SocketAddr, local: Option<SocketAddr>) -> io::Result<Stream> {
    let stream = match local {
        None => TcpStream::connect(address).await?,
        Some(local) => {
            let socket = match address.is_ipv4() {
                true => TcpSocket::new_v4()?,
                false => TcpSocket::new_v6()?,
            };
            // Many connections to different peers may leave from one port.
            socket.set_reuseaddr(local.port() != 0)?;
            socket.bind(local)?;
            socket.connect(address).await?
        }
    };
    stream.set_nodelay(true)?;
    Ok(Stream::Tcp(stream))
}
