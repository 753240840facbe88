//! Topics over TLS are requested over HTTP/3 as well: requirements of a host for the handshake
//! apply there, too.
//!
//! apache2 has no HTTP/3, so its response over TCP is the reference: the status, and fields set by
//! the cases' configurations. Requests for TLS 1.2 are left out, and a host without a newer version
//! must not be reachable at all. Client sockets are not distinguished by name here: names are in
//! the handshake.

use super::case::{Case, Request};
use crate::http3_client::{Client, Http3, Response as Over};
use saker_testkit::{Response, TempDir};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(20);
/// Fields in which cases report a client and its certificate; ciphers and resumption differ per
/// connection.
const TOLD: &[&str] = &["s", "i", "x", "n", "v", "u", "m", "t", "a", "hx", "hp", "p"];

/// Returns the differences.
pub fn differences(
    apache: &Result<Response, String>,
    address: SocketAddr,
    dir: &TempDir,
    case: &Case,
    request: &Request,
) -> Vec<String> {
    let is_old = case.conf.contains("SSLProtocol TLSv1.2");
    let asks_for_old = request.option("tls") == Some("1.2");
    if request.option("sni").is_some() || asks_for_old && !is_old {
        return Vec::new();
    }
    match (apache, ask(address, dir, case, request)) {
        (_, Err(_)) if is_old => Vec::new(),
        (Err(_), Err(_)) => Vec::new(),
        (Ok(apache), Ok(over)) if apache.status == over.status => TOLD
            .iter()
            .filter_map(|name| told(apache, &over, name))
            .collect(),
        (apache, over) => {
            let apache = apache
                .as_ref()
                .map_or_else(Clone::clone, |apache| apache.status.to_string());
            let over = over.map_or_else(|error| error, |over| over.status.to_string());
            vec![format!("    over HTTP/3: apache2 {apache}, saker {over}")]
        }
    }
}

fn told(apache: &Response, over: &Over, name: &str) -> Option<String> {
    // One reads bytes as Latin-1, the other as UTF-8.
    let apache: Vec<u8> = apache
        .field_values(name)
        .next()
        .unwrap_or_default()
        .chars()
        .map(|each| each as u8)
        .collect();
    let (apache, saker) = (
        String::from_utf8_lossy(&apache),
        over.field(name).unwrap_or_default(),
    );
    (apache != saker)
        .then(|| format!("    over HTTP/3, {name}: apache2 {apache:?}, saker {saker:?}"))
}

/// `Err`: the connection was refused.
fn ask(address: SocketAddr, dir: &TempDir, case: &Case, request: &Request) -> Result<Over, String> {
    let mut client = match request.option("cert") {
        Some(name) => Client::who_shows(&dir.join("tls"), name),
        None => Client::default(),
    };
    client.name = format!("{}.test", case.name);
    let mut connection = client.begin(&address.to_string());
    // A client's certificate is looked at when its side of the handshake is over.
    pass(&mut connection, |connection| {
        connection.peer().is_established
    })?;
    connection.authority = format!("{}.test:{}", case.name, address.port());
    let fields: Vec<(String, &str)> = request
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
        .collect();
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let ends = request.body.is_none();
    let stream = connection.open(&request.method, &request.target, &fields, ends);
    if let Some(body) = &request.body {
        connection.send(stream, body.as_bytes(), true);
    }
    pass(&mut connection, |connection| {
        connection.peer().responses[&stream].is_over()
    })?;
    Ok(connection.response(stream))
}

fn pass(connection: &mut Http3, holds: impl Fn(&mut Http3) -> bool) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !connection.is_gone() && Instant::now() < end {
        if holds(connection) {
            return Ok(());
        }
        connection.pass(Duration::from_millis(5));
    }
    Err(format!("no handshake: {:?}", connection.lost))
}
