//! Asks an AJP server whether it is there before it is told a request: CPING, answered by CPONG
//! (Apache manual, mod_proxy, parameter `ping`).
//!
//! Difficulty: a kept connection may have died without a word; its silence says nothing about the
//! server, a fresh one's does. Absent on purpose: HTTP/1.1, which asks with the request's head
//! (`Expect: 100-continue`), see `http1_dialogue`.

use crate::{failure::Failure, pool::Connection};
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

const CPING: &[u8] = &[0x12, 0x34, 0, 1, 10];
const CPONG: &[u8] = &[b'A', b'B', 0, 1, 9];

pub async fn ping(connection: &mut Connection, ping_ms: u64) -> Result<(), Failure> {
    let (mut sent, mut heard) = (0, Vec::with_capacity(CPONG.len()));
    let exchange = poll_fn(|cx| poll_pong(connection, cx, &mut sent, &mut heard));
    match tokio::time::timeout(Duration::from_millis(ping_ms), exchange).await {
        Ok(Ok(())) if heard == CPONG => Ok(()),
        _ => Err(Failure::Unready),
    }
}

fn poll_pong(
    connection: &mut Connection,
    cx: &mut Context<'_>,
    sent: &mut usize,
    heard: &mut Vec<u8>,
) -> Poll<io::Result<()>> {
    let Some(transport) = connection.transport() else {
        return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
    };
    while *sent < CPING.len() {
        match ready!(transport.poll_write(cx, CPING.get(*sent..).unwrap_or_default()))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            bytes => *sent += bytes,
        }
    }
    ready!(transport.poll_flush(cx))?;
    while heard.len() < CPONG.len() {
        let mut rest = [0; CPONG.len()];
        let room = CPONG.len() - heard.len();
        match ready!(transport.poll_read(cx, rest.get_mut(..room).unwrap_or_default()))? {
            0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            bytes => heard.extend(rest.iter().take(bytes)),
        }
    }
    Poll::Ready(Ok(()))
}
