//! Servers that were found, in the state directory: a server that starts while a source is away
//! begins with them.
//!
//! Called by: `discoveries`.
//! Caveat: a file that cannot be read is as good as none, and one of another source does not count.

use saker_config::model::{DiscoveredServer, Upstream};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

const FILE: &str = "discovered.json";
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Replaces the file.
pub fn write(state_dir: &Path, upstreams: &[&Upstream]) -> io::Result<()> {
    let all = upstreams.iter().filter_map(|upstream| {
        let discovery = upstream.discovery.as_ref()?;
        upstream.discovered()?;
        let servers = discovery.terms.state.lock().servers.clone();
        let server = |one: DiscoveredServer| {
            json!({ "ip": one.ip, "port": one.port, "weight": one.weight, "set": one.set })
        };
        let servers: Vec<Value> = servers.into_iter().map(server).collect();
        let source = discovery.to_string();
        Some(json!({ "name": upstream.name, "source": source, "servers": servers }))
    });
    let text = Value::from(all.collect::<Vec<_>>()).to_string();
    let new = state_dir.join(format!(".{FILE}.new"));
    let options = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new);
    options?.write_all(text.as_bytes())?;
    fs::rename(new, state_dir.join(FILE))
}

/// Reads the file. Null: there is none.
pub fn read(state_dir: &Path) -> Value {
    let path = state_dir.join(FILE);
    let is_small = fs::metadata(&path).is_ok_and(|found| found.len() <= FILE_BYTES_MAX);
    let text = fs::read(&path).ok().filter(|_| is_small);
    text.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// Returns the servers of an upstream.
pub fn of(kept: &Value, upstream: &Upstream) -> Option<Vec<DiscoveredServer>> {
    let source = upstream.discovery.as_ref()?.to_string();
    let mut all = kept.as_array()?.iter();
    let own = all.find(|one| one["name"] == *upstream.name && one["source"] == source)?;
    let number = |one: &Value, name: &str| one[name].as_u64();
    let server = |one: &Value| {
        Some(DiscoveredServer {
            set: number(one, "set")?.try_into().ok()?,
            ip: one["ip"].as_str()?.parse().ok()?,
            port: number(one, "port")?.try_into().ok()?,
            weight: number(one, "weight")?.try_into().ok()?,
        })
    };
    own["servers"].as_array()?.iter().map(server).collect()
}
