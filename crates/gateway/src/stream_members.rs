//! Members of upstreams for streams: chosen, connected, and judged as those of requests are.
//!
//! Called by: `saker-stream-proxy`, for each session.
//! Caveat: a connection belongs to one session and is never kept for another.
//! Out of scope: the bytes, and which upstream a session goes to.

use crate::{
    balancer::{Choice, Group},
    failure::Failure,
    gateway::Busy,
    groups::Groups,
    pool::{Connection, Pool},
    resolver, retry,
};
use saker_config::model::{BackendAddress, Member, Upstream};
use saker_net::clock;
use saker_pipeline::Tunnel;
use std::{
    fmt, io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::net::UdpSocket;

/// The members that streams of a worker have used, with their failures.
pub struct StreamMembers {
    groups: Groups,
    workers: usize,
}

/// A member that may be tried.
pub struct StreamMember {
    group: Rc<Group>,
    /// The number of the member in its upstream.
    pub number: usize,
}

impl StreamMembers {
    pub fn new(workers: usize) -> StreamMembers {
        StreamMembers {
            groups: Groups::new(workers),
            workers,
        }
    }

    /// Chooses a member, but none of `tried`; those that have as many connections as they may are
    /// added there.
    ///
    /// # Errors
    /// No member may be tried.
    pub fn choose(
        &self,
        upstream: &Arc<Upstream>,
        choice: &Choice<'_>,
        tried: &mut Vec<usize>,
    ) -> Result<StreamMember, Failure> {
        let group = self.groups.group(upstream);
        loop {
            let number = group.choose(choice, tried)?;
            let (Some(member), Some(pool)) =
                (group.upstream.members.get(number), group.pools.get(number))
            else {
                return Err(Failure::NoMember);
            };
            if pool.has_room(&member.tuning, self.workers) {
                return Ok(StreamMember { group, number });
            }
            tried.push(number);
        }
    }

    /// Drops what has not been used for long.
    pub fn sweep(&self, now_ms: u64) {
        self.groups.sweep(now_ms);
    }
}

impl StreamMember {
    fn parts(&self) -> Result<(&Member, &Rc<Pool>), Failure> {
        let member = self.group.upstream.members.get(self.number);
        member
            .zip(self.group.pools.get(self.number))
            .ok_or(Failure::NoMember)
    }

    /// Connects. `preface`: what goes before everything else, TLS included.
    ///
    /// # Errors
    /// No connection, or no TLS on it.
    pub async fn connect(&self, preface: &[u8]) -> Result<StreamConnection, Failure> {
        let (member, pool) = self.parts()?;
        let busy = Busy::new(pool, member);
        let connection = pool.connect_with(&member.tuning, preface, None).await?;
        Ok(StreamConnection {
            connection,
            _busy: busy,
        })
    }

    /// Makes a socket whose datagrams go to the member.
    ///
    /// # Errors
    /// The name has no address, or there is no way to it.
    pub async fn connect_datagrams(&self) -> Result<(UdpSocket, Busy), Failure> {
        let (member, pool) = self.parts()?;
        let BackendAddress::Tcp { host, port } = &member.backend.address else {
            return Err(Failure::Unreachable(io::ErrorKind::Unsupported.into()));
        };
        let host = host.trim_matches(['[', ']']);
        let ip = match host.parse() {
            Ok(ip) => ip,
            Err(_) => {
                let known = resolver::addresses(host, member.tuning.address_ttl_ms).await;
                let first = known.map_err(Failure::Unreachable)?.first().copied();
                first.ok_or(Failure::NoMember)?
            }
        };
        let address = SocketAddr::new(ip, *port);
        let any: SocketAddr = match ip.is_ipv4() {
            true => ([0, 0, 0, 0], 0).into(),
            false => ([0u16; 8], 0).into(),
        };
        let own = member.backend.local.unwrap_or(any);
        let socket = UdpSocket::bind(own).await.map_err(Failure::Unreachable)?;
        socket
            .connect(address)
            .await
            .map_err(Failure::Unreachable)?;
        Ok((socket, Busy::new(pool, member)))
    }

    /// Notes that the member could not be used.
    pub fn fail(&self) {
        if let Ok((member, _)) = self.parts()
            && !member.ignores_errors
        {
            retry::fail(&self.group, member);
        }
    }

    /// Notes that the member can be used.
    pub fn succeed(&self) {
        if let Ok((member, _)) = self.parts()
            && member.state.succeed()
        {
            member.state.come_back(clock::monotonic_ms());
        }
    }
}

/// The address, as logs write it.
impl fmt::Display for StreamMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts().map(|(member, _)| &member.backend.address) {
            Ok(BackendAddress::Unix(path)) => write!(f, "unix:{}", path.display()),
            Ok(BackendAddress::Tcp { host, port }) => write!(f, "{host}:{port}"),
            Err(_) => f.write_str("-"),
        }
    }
}

/// A session's connection to a member.
pub struct StreamConnection {
    connection: Connection,
    _busy: Busy,
}

impl StreamConnection {
    /// Returns the address at the other end; `None`: it has none.
    pub fn peer_address(&mut self) -> Option<SocketAddr> {
        self.connection.transport()?.peer_address()
    }

    /// Returns the address at this end; `None`: it has none.
    pub fn local_address(&mut self) -> Option<SocketAddr> {
        self.connection.transport()?.local_address()
    }
}

impl Tunnel for StreamConnection {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.connection.transport() {
            Some(transport) => transport.poll_read(cx, buf),
            None => gone(),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.connection.transport() {
            Some(transport) => transport.poll_write(cx, buf),
            None => gone(),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.connection.transport() {
            Some(transport) => transport.poll_flush(cx),
            None => gone(),
        }
    }

    fn shutdown(&mut self) -> io::Result<()> {
        match self.connection.transport() {
            Some(transport) => transport.shutdown(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}
