//! One question to one name server: over UDP, and over TCP what does not fit.
//!
//! Called by: `resolver`, and bot verification.
//! Caveat: each query leaves from a socket of its own and has a random id, so that neither port nor
//! id can be foreseen; what does not answer the query is ignored until its time is over.

use crate::message::{Answer, Question};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

const ATTEMPTS: u32 = 2;
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 4096;

/// Asks a server twice, with two seconds each. `None`: it gives no answer, or could not find out.
pub async fn ask(server: SocketAddr, question: &Question) -> Option<Answer> {
    for _ in 0..ATTEMPTS {
        if let Ok(answer) = ask_server(server, question, QUERY_TIMEOUT).await {
            return (!answer.failed()).then_some(answer);
        }
    }
    None
}

/// Asks a server once. `limit` is for UDP, and for TCP if that has to follow.
///
/// # Errors
/// The name can't be asked for, the server can't be reached, or the time is over.
pub async fn ask_server(
    server: SocketAddr,
    question: &Question,
    limit: Duration,
) -> io::Result<Answer> {
    let mut id = [0; 2];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("no random bytes"))?;
    let id = u16::from_be_bytes(id);
    let message = question
        .encode(id)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let answer = timeout(limit, over_udp(server, question, id, &message)).await??;
    match answer.is_cut {
        false => Ok(answer),
        true => timeout(limit, over_tcp(server, question, id, &message)).await?,
    }
}

async fn over_udp(
    server: SocketAddr,
    question: &Question,
    id: u16,
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
            .and_then(|message| question.decode(id, message))
        {
            return Ok(answer);
        }
    }
}

/// RFC 1035 section 4.2.2.
async fn over_tcp(
    server: SocketAddr,
    question: &Question,
    id: u16,
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
        .decode(id, &buffer)
        .filter(|answer| !answer.is_cut)
        .ok_or_else(|| io::Error::other("no answer to the question"))
}
