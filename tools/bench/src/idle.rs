//! Memory that waiting connections cost.
//!
//! Every connection has made a request, as it would have in life: a server that frees its buffers between requests shows it here.

use saker_testkit::{Client, ServerProcess};
use std::{io, thread, time::Duration};

/// Servers free and settle in the background.
const SETTLE: Duration = Duration::from_millis(1500);
/// Of the connections, one in so many is asked again at the end: a server must not have dropped them.
const ASK_EVERY: usize = 100;

pub struct Idle {
    pub bytes_per_connection: f64,
    pub errors: f64,
}

pub fn measure(server: &ServerProcess, path: &str, connections: usize) -> io::Result<Idle> {
    let target = format!("/{path}");
    open(server, &target)?; // Closed at once: lighttpd may have room for exactly as many connections as are counted.
    thread::sleep(SETTLE);
    let before = server.tree().memory().rss_bytes;
    let mut open = (0..connections).map(|_| open(server, &target)).collect::<io::Result<Vec<Client>>>()?;
    thread::sleep(SETTLE);
    let after = server.tree().memory().rss_bytes;
    let dropped = open.iter_mut().step_by(ASK_EVERY).filter_map(|client| client.get(&target).err()).count();
    Ok(Idle { bytes_per_connection: after.saturating_sub(before) as f64 / connections as f64, errors: dropped as f64 })
}

fn open(server: &ServerProcess, target: &str) -> io::Result<Client> {
    let mut client = Client::connect(server.address())?;
    client.get(target)?;
    Ok(client)
}
