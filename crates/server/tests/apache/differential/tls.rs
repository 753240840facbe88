//! Topics over TLS: the certificates that they use, and connections by openssl's own client, so
//! that neither server's library is on both sides.

use super::case::{Case, Request};
use saker_testkit::{Client, OPENSSL_CLIENT, TempDir, require};
use std::{
    io,
    net::SocketAddr,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
};

/// A connection under TLS; ends with the value.
pub struct Connection {
    pub client: Client,
    openssl: Child,
}

impl Connection {
    /// `@cert:` names one of [`certificates`], `@sni:` another name than the case's (`-`: none),
    /// `@tls:` the only version.
    pub fn open(
        address: SocketAddr,
        folder: &TempDir,
        case: &Case,
        request: &Request,
    ) -> io::Result<Connection> {
        let (ours, theirs) = UnixStream::pair()?;
        let own_name = format!("{}.test", case.name);
        let mut command = Command::new(require("openssl").map_err(io::Error::other)?);
        command.args(OPENSSL_CLIENT).args([
            "-quiet",
            "-nocommands",
            "-ign_eof",
            "-connect",
            &address.to_string(),
        ]);
        match request.option("sni") {
            Some("-") => command.arg("-noservername"),
            name => command.args(["-servername", name.unwrap_or(&own_name)]),
        };
        if let Some(version) = request.option("tls") {
            command.arg(format!("-tls{}", version.replace('.', "_")));
        }
        if let Some(name) = request.option("cert") {
            let file = |ending: &str| folder.join(format!("tls/{name}.{ending}"));
            command
                .arg("-cert")
                .arg(file("pem"))
                .arg("-key")
                .arg(file("key"))
                .arg("-cert_chain")
                .arg(file("pem"));
        }
        let openssl = command
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Connection {
            client: Client::over_unix(ours)?,
            openssl,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.openssl.kill();
        let _ = self.openssl.wait();
    }
}

/// `tls/site` for the servers; `tls/clients` (an authority) and `tls/deputy` (below it), with
/// `alice`, `bob` (by the deputy, with it in his file) and `mallory` (revoked by
/// `tls/clients.crl`); `strange` has signed itself.
pub fn certificates(dir: &TempDir) -> io::Result<()> {
    std::fs::create_dir_all(dir.join("tls"))?;
    let folder = dir.join("tls");
    let script = include_str!("certificates.sh");
    let output = Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "certificates: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    Ok(())
}
