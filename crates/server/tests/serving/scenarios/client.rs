//! One request at a time over each protocol, on one connection per scenario.
//!
//! Called by: the runner of scenarios. Caveat: names of fields are sent in small letters over
//! HTTP/2 and HTTP/3, and compared in any case. Out of scope: clients that misbehave.

use super::file::Request;
use crate::{http3_client, upgrades::Http2};
use saker_http2::StreamId;
use std::{net::SocketAddr, time::Duration};

/// As long as the clients of the other protocols wait. Shorter than any time limit that is in force
/// without its key, which would else do for the key where that is taken out.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// Its name in `over`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "http1",
            Protocol::Http2 => "http2",
            Protocol::Http3 => "http3",
        }
    }
}

pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "{}", self.status)?;
        for (name, value) in &self.fields {
            writeln!(out, "    {name}: {value}")?;
        }
        let start = &self.body[..self.body.len().min(300)];
        write!(
            out,
            "    {:?} ({} bytes)",
            String::from_utf8_lossy(start),
            self.body.len()
        )
    }
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

pub enum Client {
    /// With the connections of requests that are left open.
    Http1(SocketAddr, Vec<saker_testkit::Client>),
    Http2(Box<Http2>),
    Http3(Box<http3_client::Http3>),
}

impl Client {
    pub fn connect(address: SocketAddr, protocol: Protocol) -> Client {
        match protocol {
            Protocol::Http1 => Client::Http1(address, Vec::new()),
            Protocol::Http2 => {
                let client = Http2::connect(address).waiting_at_most(PATIENCE);
                Client::Http2(Box::new(client.greeted()))
            }
            Protocol::Http3 => {
                let client = http3_client::Client::default();
                Client::Http3(Box::new(client.connect(&address.to_string())))
            }
        }
    }

    pub fn ask(&mut self, request: &Request) -> Answer {
        match self {
            Client::Http1(address, _) => over_http1(*address, request),
            Client::Http2(client) => over_http2(client, request),
            Client::Http3(client) => over_http3(client, request),
        }
    }

    /// Sends a request and leaves it open, without a look at the response.
    pub fn leave(&mut self, request: &Request) {
        match self {
            Client::Http1(address, left) => left.push(send_http1(*address, request)),
            Client::Http2(client) => drop(send_http2(client, request)),
            Client::Http3(client) => drop(send_http3(client, request)),
        }
    }
}

fn send_http1(address: SocketAddr, request: &Request) -> saker_testkit::Client {
    let mut client = saker_testkit::Client::connect(address).unwrap();
    let host = request.field("host").unwrap_or("localhost");
    let mut text = format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\n",
        request.method, request.target
    );
    for (name, value) in request.fields.iter().filter(|(name, _)| name != "host") {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !request.body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", request.body.len()));
    }
    client.send(format!("{text}\r\n{}", request.body)).unwrap();
    client
}

/// On a connection of its own, since an error may close it.
fn over_http1(address: SocketAddr, request: &Request) -> Answer {
    let mut client = send_http1(address, request);
    let response = loop {
        let response = match request.method.as_str() {
            "HEAD" => client.read_head_response(),
            _ => client.read_response(),
        };
        let response = response.unwrap();
        if response.status >= 200 {
            break response;
        }
    };
    Answer {
        status: response.status,
        fields: response.fields,
        body: response.body,
    }
}

fn send_http2(client: &mut Http2, request: &Request) -> StreamId {
    let pseudo = pseudo_fields(request, "http");
    let fields: Vec<(&str, &str)> = pseudo.into_iter().chain(plain_fields(request)).collect();
    let stream = client.open(&fields, request.body.is_empty());
    if !request.body.is_empty() {
        client.send(stream, request.body.as_bytes(), true);
    }
    stream
}

fn over_http2(client: &mut Http2, request: &Request) -> Answer {
    let stream = send_http2(client, request);
    let heard = client.until(stream, |heard| heard.has_ended || heard.reset.is_some());
    Answer {
        status: heard.status,
        fields: heard.fields.clone(),
        body: heard.data.clone(),
    }
}

fn send_http3(client: &mut http3_client::Http3, request: &Request) -> u64 {
    let fields: Vec<(&str, &str)> = plain_fields(request).collect();
    let stream = client.open_with(
        &pseudo_fields(request, "https"),
        &fields,
        request.body.is_empty(),
    );
    if !request.body.is_empty() {
        client.send(stream, request.body.as_bytes(), true);
    }
    stream
}

fn over_http3(client: &mut http3_client::Http3, request: &Request) -> Answer {
    let stream = send_http3(client, request);
    let response = client.response(stream);
    Answer {
        status: response.status,
        fields: response.fields,
        body: response.body,
    }
}

fn pseudo_fields<'r>(request: &'r Request, scheme: &'r str) -> [(&'r str, &'r str); 4] {
    [
        (":method", &request.method),
        (":scheme", scheme),
        (":authority", request.field("host").unwrap_or("localhost")),
        (":path", &request.target),
    ]
}

fn plain_fields(request: &Request) -> impl Iterator<Item = (&str, &str)> {
    request
        .fields
        .iter()
        .filter(|(name, _)| name != "host")
        .map(|(name, value)| (name.as_str(), value.as_str()))
}
