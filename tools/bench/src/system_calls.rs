//! System calls of a server per keep-alive request.

use saker_testkit::{Client, ServerProcess, SystemCalls};
use std::{io, path::Path};

const REQUESTS: usize = 2000;

/// One connection, one request after the other: what a request costs when nothing can be gathered.
pub fn per_request(server: &ServerProcess, path: &str, work: &Path) -> io::Result<f64> {
    let target = format!("/{path}");
    let mut client = Client::connect(server.address())?;
    client.get(&target)?;
    let counting = SystemCalls::attach(server, work)?;
    for _ in 0..REQUESTS {
        client.get(&target)?;
    }
    let calls: u64 = counting.finish()?.values().map(|calls| calls.made).sum();
    Ok(calls as f64 / REQUESTS as f64)
}
