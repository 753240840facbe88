//! Memory that waiting connections cost.
//!
//! Every connection has made a request, as it would have in life: a server that frees its buffers
//! between requests shows it here.

use crate::{conditions::Protocol, tls_client};
use rustls::{ClientConfig, client::Resumption};
use saker_testkit::{Client, PeerTls, ServerProcess, bench_files, frames};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    sync::Arc,
    thread,
    time::Duration,
};

/// Servers free and settle in the background.
const SETTLE: Duration = Duration::from_millis(1500);
/// One in so many connections is asked again at the end: a server must not have dropped them.
const ASK_EVERY: usize = 100;

pub struct Idle {
    pub bytes_per_connection: f64,
    pub errors: f64,
}

pub fn measure(
    server: &ServerProcess,
    protocol: Protocol,
    tls: Option<PeerTls<'_>>,
    connections: usize,
) -> io::Result<Idle> {
    if protocol == Protocol::Http3 {
        return measure_http3(server, tls, connections);
    }
    let opener = Opener::new(server.address(), protocol, tls)?;
    opener.open()?; // Closed at once: lighttpd may have room for exactly as many connections as are counted.
    thread::sleep(SETTLE);
    let before = server.tree().memory().rss_bytes;
    let mut open = (0..connections)
        .map(|_| opener.open())
        .collect::<io::Result<Vec<Waiting>>>()?;
    thread::sleep(SETTLE);
    let after = server.tree().memory().rss_bytes;
    let dropped = open
        .iter_mut()
        .step_by(ASK_EVERY)
        .filter_map(|waiting| waiting.ask().err())
        .count();
    Ok(Idle {
        bytes_per_connection: after.saturating_sub(before) as f64 / connections as f64,
        errors: dropped as f64,
    })
}

/// The load itself holds them all, and acknowledges what it is sent meanwhile.
fn measure_http3(
    server: &ServerProcess,
    tls: Option<PeerTls<'_>>,
    connections: usize,
) -> io::Result<Idle> {
    let chain = tls.ok_or_else(|| io::Error::other("no certificate"))?.chain;
    let path = format!("/{}", bench_files::SMALL);
    let rss = || server.tree().memory().rss_bytes;
    let held = |connections| {
        saker_load::idle(
            server.address(),
            &path,
            chain,
            connections,
            SETTLE,
            ASK_EVERY,
            rss,
        )
        .map_err(io::Error::other)
    };
    held(1)?;
    let before = rss();
    let (after, errors) = held(connections)?;
    Ok(Idle {
        bytes_per_connection: after.saturating_sub(before) as f64 / connections as f64,
        errors: errors as f64,
    })
}

struct Opener {
    address: SocketAddr,
    protocol: Protocol,
    /// For all but plain HTTP/1.1.
    config: Option<Arc<ClientConfig>>,
}

/// A connection without a request under way.
enum Waiting {
    Http1(Client),
    Http1OverTls(Box<tls_client::Connection>),
    Http2OverTls {
        connection: Box<tls_client::Connection>,
        next_stream: u32,
    },
}

impl Opener {
    fn new(
        address: SocketAddr,
        protocol: Protocol,
        tls: Option<PeerTls<'_>>,
    ) -> io::Result<Opener> {
        let alpn = if protocol == Protocol::Http2OverTls {
            "h2"
        } else {
            "http/1.1"
        };
        // Every handshake a full one: the dearer to remember.
        let config = tls
            .map(|tls| tls_client::configuration(tls.chain, alpn, Resumption::disabled()))
            .transpose();
        Ok(Opener {
            address,
            protocol,
            config: config.map_err(io::Error::other)?,
        })
    }

    fn open(&self) -> io::Result<Waiting> {
        let secure = || {
            let config = self
                .config
                .as_ref()
                .ok_or_else(|| io::Error::other("no certificate"))?;
            tls_client::connect(self.address, config).map(Box::new)
        };
        let mut waiting = match self.protocol {
            Protocol::Http1 | Protocol::Http3 => Waiting::Http1(Client::connect(self.address)?),
            Protocol::Http1OverTls => Waiting::Http1OverTls(secure()?),
            Protocol::Http2OverTls => {
                let mut connection = secure()?;
                connection.write_all(
                    &[frames::PREFACE, &frames::frame(frames::SETTINGS, 0, 0, &[])].concat(),
                )?;
                Waiting::Http2OverTls {
                    connection,
                    next_stream: 1,
                }
            }
        };
        waiting.ask()?;
        Ok(waiting)
    }
}

impl Waiting {
    fn ask(&mut self) -> io::Result<()> {
        let target = format!("/{}", bench_files::SMALL);
        match self {
            Waiting::Http1(client) => client.get(&target).map(drop),
            Waiting::Http1OverTls(connection) => {
                connection.write_all(
                    format!(
                        "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n",
                        tls_client::NAME
                    )
                    .as_bytes(),
                )?;
                tls_client::read_response(connection).map(drop)
            }
            Waiting::Http2OverTls {
                connection,
                next_stream,
            } => {
                let stream = *next_stream;
                *next_stream += 2;
                let fields = [
                    (":method", "GET"),
                    (":scheme", "https"),
                    (":authority", tls_client::NAME),
                    (":path", &target),
                ];
                let flags = frames::END_HEADERS | frames::END_STREAM;
                connection.write_all(&frames::frame(
                    frames::HEADERS,
                    flags,
                    stream,
                    &frames::block(&fields),
                ))?;
                read_stream(connection, stream)
            }
        }
    }
}

/// Reads frames until the stream has ended with the bytes of the file, and acknowledges the
/// server's settings.
fn read_stream(connection: &mut (impl Read + Write), wanted: u32) -> io::Result<()> {
    let mut body_bytes = 0;
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head)?;
        let [_, _, _, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        connection.read_exact(&mut payload)?;
        match kind {
            frames::SETTINGS if flags & frames::ACK == 0 => {
                connection.write_all(&frames::frame(frames::SETTINGS, frames::ACK, 0, &[]))?
            }
            frames::GOAWAY | frames::RST_STREAM => {
                return Err(io::Error::other("the server gave up"));
            }
            frames::DATA => body_bytes += payload.len(),
            _ => {}
        }
        let ended =
            matches!(kind, frames::DATA | frames::HEADERS) && flags & frames::END_STREAM != 0;
        if ended && u32::from_be_bytes(stream) == wanted {
            return if body_bytes == bench_files::SMALL_BYTES {
                Ok(())
            } else {
                Err(io::Error::other("not the file"))
            };
        }
    }
}
