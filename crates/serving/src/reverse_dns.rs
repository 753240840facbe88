//! Reverse DNS with forward confirmation, for clients that claim to be a search engine's robot.
//!
//! Called by: bot verification, through [`NameServer`].
//! Caveat: any client can trigger lookups by its User-Agent, so few queries run at a time, each
//! has a time limit, and only the first names of an address are checked. Truncated answers are
//! queried again over TCP.

use saker_abuse::{
    Confirmed, NameServer, bot_names,
    dns::{Answer, Question, server_of},
};
use saker_net::clock;
use saker_pipeline::LocalFuture;
use std::{
    cell::Cell,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    rc::Rc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

/// Maximum number of concurrent look-ups per worker.
const UNDER_WAY_MAX: u32 = 32;
const ATTEMPTS: u32 = 2;
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
const NAMES_MAX: usize = 4;
const ANSWER_BYTES_MAX: usize = 4096;

/// Queries over a fresh socket each, so that the source port is unpredictable.
#[derive(Clone, Debug, Default)]
pub struct ReverseDns {
    under_way: Rc<Cell<u32>>,
}

impl NameServer for ReverseDns {
    fn confirmed_names(
        &self,
        address: IpAddr,
        domains: Vec<String>,
        server: Option<SocketAddr>,
    ) -> LocalFuture<'static, Confirmed> {
        let under_way = Rc::clone(&self.under_way);
        Box::pin(async move {
            if under_way.get() >= UNDER_WAY_MAX {
                return Confirmed::Unknown;
            }
            let _place = QueryPermit::take(&under_way);
            confirmed(address, &domains, server)
                .await
                .map_or(Confirmed::Unknown, Confirmed::Names)
        })
    }
}

/// Released even if the client disconnects.
struct QueryPermit(Rc<Cell<u32>>);

impl QueryPermit {
    fn take(under_way: &Rc<Cell<u32>>) -> QueryPermit {
        under_way.set(under_way.get() + 1);
        QueryPermit(Rc::clone(under_way))
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Returns the confirmed names; `None`: the lookup failed.
async fn confirmed(
    address: IpAddr,
    domains: &[String],
    server: Option<SocketAddr>,
) -> Option<Vec<String>> {
    let server = match server {
        Some(server) => server,
        None => SocketAddr::new(
            server_of(&fs::read_to_string("/etc/resolv.conf").ok()?)?,
            53,
        ),
    };
    let names = ask(server, &Question::NamesOf(address)).await?.names;
    let mut confirmed = Vec::new();
    for name in names
        .into_iter()
        .filter(|name| bot_names::is_below(name, domains))
        .take(NAMES_MAX)
    {
        let back = ask(server, &Question::AddressesOf(name.clone(), address)).await?;
        if back.addresses.contains(&address) {
            confirmed.push(name);
        }
    }
    Some(confirmed)
}

async fn ask(server: SocketAddr, question: &Question) -> Option<Answer> {
    for attempt in 0..ATTEMPTS {
        let number = number(attempt)?;
        let message = question.encode(number)?;
        let answer = timeout(QUERY_TIMEOUT, over_udp(server, question, number, &message))
            .await
            .ok()
            .and_then(Result::ok);
        let answer = match answer {
            Some(answer) if answer.is_cut => {
                timeout(QUERY_TIMEOUT, over_tcp(server, question, number, &message))
                    .await
                    .ok()
                    .and_then(Result::ok)
            }
            answer => answer,
        };
        if let Some(answer) = answer {
            return (!answer.failed).then_some(answer);
        }
    }
    None
}

/// The query ID that the response must repeat.
fn number(attempt: u32) -> Option<u16> {
    let mut bytes = [0; 2];
    saker_abuse::random(&mut bytes)
        .then(|| u16::from_be_bytes(bytes) ^ (attempt as u16) ^ (clock::monotonic_ns() as u16))
}

async fn over_udp(
    server: SocketAddr,
    question: &Question,
    number: u16,
    message: &[u8],
) -> io::Result<Answer> {
    let own: IpAddr = if server.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    socket.send(message).await?;
    let mut buffer = [0; ANSWER_BYTES_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Datagrams that do not answer this query are ignored.
        if let Some(answer) = buffer
            .get(..length)
            .and_then(|message| question.decode(number, message))
        {
            return Ok(answer);
        }
    }
}

/// RFC 1035 section 4.2.2.
async fn over_tcp(
    server: SocketAddr,
    question: &Question,
    number: u16,
    message: &[u8],
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], message].concat())
        .await?;
    let length = usize::from(stream.read_u16().await?);
    let mut buffer = vec![0; length.min(4 * ANSWER_BYTES_MAX)];
    stream.read_exact(&mut buffer).await?;
    question
        .decode(number, &buffer)
        .filter(|answer| !answer.is_cut)
        .ok_or_else(|| io::Error::other("no answer to the question"))
}
