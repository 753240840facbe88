//! Rows of one tool that requests some paths from one server: what differs from row to row is data.
//!
//! Called by: the runner.
//! Caveat: all participants have to return the same bytes before any is measured.
//! Out of scope: sites that have to be generated, and several servers in one participant; they are
//! workloads of their own.

use crate::{
    conditions::Site,
    running_server::RunningServer,
    subject::Subject,
    test_env::TestEnv,
    tls_client,
    tool::Tool,
    workload::{Asked, Measure, Workload},
};
use rustls::client::Resumption;
use saker_testkit::Client;
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    path::Path,
};

#[derive(Clone, Copy, Debug)]
pub struct Plain {
    pub measure: Measure,
    pub tool: Tool,
    pub paths: &'static [&'static str],
    pub connections: usize,
    pub subjects: &'static [Subject],
    pub site: Site,
    /// `false`: what it says differs by nature (phpinfo), and only that it says something like it
    /// is looked at.
    pub says_the_same: bool,
}

impl Workload for Plain {
    fn measure(&self) -> Measure {
        self.measure
    }

    fn subjects(&self) -> &'static [Subject] {
        self.subjects
    }

    fn load(&self) -> Asked {
        Asked {
            tool: self.tool,
            paths: self.paths,
            connections: self.connections,
        }
    }

    fn site(&self) -> Site {
        self.site
    }

    fn admits_others(&self) -> bool {
        self.site == Site::Files
    }

    fn answer(&self, running: &RunningServer, test_env: TestEnv<'_>) -> Result<Vec<u8>, String> {
        let chain = test_env
            .tls
            .filter(|_| self.tool.is_over_tls())
            .map(|tls| tls.chain);
        let said = bodies(running.address(), self.paths, chain)?;
        Ok(if self.says_the_same {
            said
        } else {
            beginning(&said)
        })
    }
}

/// Part of the page before the first difference between servers.
fn beginning(body: &[u8]) -> Vec<u8> {
    body.iter()
        .copied()
        .take_while(|byte| *byte != b'\n')
        .collect()
}

/// All of them, one after the other.
pub fn bodies(
    address: SocketAddr,
    paths: &[&str],
    chain: Option<&Path>,
) -> Result<Vec<u8>, String> {
    let mut said = Vec::new();
    let mut client = None;
    for path in paths {
        let body = match chain {
            Some(chain) => secure_body(address, path, chain),
            None => plain_body(&mut client, address, path),
        };
        said.extend(body.map_err(|error| format!("/{path}: {error}"))?);
    }
    Ok(said)
}

/// Over the connection that is there, or a new one; with the load tools' `Host`, by which caches
/// tell pages apart.
fn plain_body(client: &mut Option<Client>, address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut connection = client.take().map_or_else(|| Client::connect(address), Ok)?;
    let response = connection.request(
        "GET",
        &format!("/{path}"),
        &[("Host", &address.to_string())],
    )?;
    if response.status != 200 {
        return Err(io::Error::other(format!("status {}", response.status)));
    }
    *client = (response.field("connection") != Some("close")).then_some(connection);
    Ok(response.body)
}

fn secure_body(address: SocketAddr, path: &str, chain: &Path) -> io::Result<Vec<u8>> {
    let config = tls_client::configuration(chain, "http/1.1", Resumption::disabled())
        .map_err(io::Error::other)?;
    let mut connection = tls_client::connect(address, &config)?;
    write!(
        connection,
        "GET /{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        tls_client::NAME
    )?;
    let mut said = Vec::new();
    // Some end the connection without TLS's own goodbye; a body that is short would differ from the
    // others'.
    let _ = connection.read_to_end(&mut said);
    let end = said
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?
        + 4;
    if !said.starts_with(b"HTTP/1.1 200") {
        return Err(io::Error::other(
            String::from_utf8_lossy(&said[..end]).into_owned(),
        ));
    }
    Ok(said.split_off(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor;
    use saker_testkit::{bench_files, free_port};
    use std::{net::Ipv4Addr, thread};

    #[test]
    fn bodies_are_put_together() {
        let port = free_port().expect("a port");
        thread::spawn(move || floor::serve(port));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        drop(Client::connect_when_up(address).expect("it accepts"));
        let said = bodies(address, &["a", "b"], None).expect("answered");
        assert_eq!(
            said,
            [bench_files::small_page(), bench_files::small_page()].concat()
        );
    }

    #[test]
    fn beginnings_end_with_their_line() {
        assert_eq!(beginning(b"<!DOCTYPE html>\nport 80"), b"<!DOCTYPE html>");
    }
}
