//! Pebble, the test authority for automatic certificates (Debian's package), with a name server
//! whose records tests set.
//!
//! All names are at 127.0.0.1. Pebble looks for challenges on ports of its own choosing, which the
//! server under test has to listen on. Absent on purpose: misbehavior; a test that wants some puts
//! a front before it.

use crate::{ServerProcess, TempDir, free_port, require};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
};

/// Accounts that Pebble knows where it demands that.
pub const KEY_ID: &str = "kid-1";
/// Base64url, as Pebble is told it.
pub const HMAC_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

#[derive(Debug)]
pub struct Pebble {
    pub folder: TempDir,
    pub port: u16,
    /// Ports where it validates HTTP-01 and TLS-ALPN-01.
    pub http_port: u16,
    pub tls_port: u16,
    management_port: u16,
    zone_port: u16,
    dns_port: u16,
    nonces_refused: u32,
    binding: bool,
    process: Option<ServerProcess>,
    _dns: ServerProcess,
}

impl Pebble {
    pub fn new() -> io::Result<Pebble> {
        Pebble::with(0, false)
    }

    /// Number of of 100 nonces are refused; whether accounts must be known to the authority
    /// already.
    pub fn with(nonces_refused: u32, binding: bool) -> io::Result<Pebble> {
        let folder = TempDir::new("pebble")?;
        own_certificate(&folder)?;
        let (dns_port, zone_port) = (free_port()?, free_port()?);
        let _dns = zone(dns_port, zone_port)?;
        let mut pebble = Pebble {
            folder,
            port: free_port()?,
            http_port: free_port()?,
            tls_port: free_port()?,
            management_port: free_port()?,
            zone_port,
            dns_port,
            nonces_refused,
            binding,
            process: None,
            _dns,
        };
        pebble.start()?;
        Ok(pebble)
    }

    pub fn stop(&mut self) {
        self.process = None;
    }

    /// A Pebble that knows nothing of what the last one did.
    pub fn start(&mut self) -> io::Result<()> {
        let config = self.folder.write("pebble.json", self.configuration())?;
        let mut command = Command::new(require("pebble").map_err(io::Error::other)?);
        command
            .arg("-config")
            .arg(config)
            .args(["-dnsserver", &format!("127.0.0.1:{}", self.dns_port)]);
        command
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", self.nonces_refused.to_string())
            .env("PEBBLE_AUTHZREUSE", "0");
        self.process = Some(ServerProcess::start(&mut command, loopback(self.port))?);
        Ok(())
    }

    fn configuration(&self) -> String {
        let keys = if self.binding {
            format!(", \"externalAccountMACKeys\": {{ \"{KEY_ID}\": \"{HMAC_KEY}\" }}")
        } else {
            String::new()
        };
        let path = |name: &str| self.folder.join(name).display().to_string();
        format!(
            "{{ \"pebble\": {{ \"listenAddress\": \"127.0.0.1:{}\", \"managementListenAddress\": \"127.0.0.1:{}\", \"certificate\": \"{}\", \
             \"privateKey\": \"{}\", \"httpPort\": {}, \"tlsPort\": {}, \"ocspResponderURL\": \"\", \"externalAccountBindingRequired\": {}{keys} }} }}",
            self.port,
            self.management_port,
            path("own.pem"),
            path("own.key"),
            self.http_port,
            self.tls_port,
            self.binding
        )
    }

    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    /// PEM of the authority that vouches for Pebble's own certificate; that one and its key are
    /// `own.pem` and `own.key`.
    pub fn directory_ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// PEM of the root of what it signs; another one after each start.
    pub fn root(&self) -> io::Result<PathBuf> {
        // Several threads may ask at once, and none may read half of it.
        let name = format!("root-{:?}.pem", std::thread::current().id());
        let (path, ca) = (self.folder.join(name), self.directory_ca());
        let url = format!("https://localhost:{}/roots/0", self.management_port);
        let mut command = Command::new(require("curl").map_err(io::Error::other)?);
        command.args([
            "-sSf",
            "-m",
            "20",
            "--retry",
            "5",
            "--retry-connrefused",
            "--resolve",
            &format!("localhost:{}:127.0.0.1", self.management_port),
        ]);
        succeed(
            command
                .arg("--cacert")
                .arg(ca)
                .arg("-o")
                .arg(&path)
                .arg(url),
        )?;
        Ok(path)
    }

    /// A helper that sets and clears records, and the file of what it was called with.
    pub fn zone_command(&self) -> io::Result<(String, PathBuf)> {
        let log = self.folder.join("zone.log");
        let script = format!(
            "echo \"$1 $2\" >> {log}\n\
             [ \"$1\" = set ] && exec curl -sf -d '{{\"host\":\"'$2'.\",\"value\":\"'$3'\"}}' http://127.0.0.1:{port}/set-txt\n\
             exec curl -sf -d '{{\"host\":\"'$2'.\"}}' http://127.0.0.1:{port}/clear-txt\n",
            log = log.display(),
            port = self.zone_port
        );
        let script = self.folder.write("zone.sh", script)?;
        Ok((format!("sh {}", script.display()), log))
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn zone(dns_port: u16, management_port: u16) -> io::Result<ServerProcess> {
    let mut command = Command::new(require("pebble-challtestsrv").map_err(io::Error::other)?);
    command.args([
        "-defaultIPv4",
        "127.0.0.1",
        "-defaultIPv6",
        "",
        "-http01",
        "",
        "-https01",
        "",
        "-tlsalpn01",
        "",
    ]);
    command.args([
        "-dns01",
        &format!("127.0.0.1:{dns_port}"),
        "-management",
        &format!("127.0.0.1:{management_port}"),
    ]);
    ServerProcess::start(&mut command, loopback(management_port))
}

/// For `localhost`, signed by an authority of its own.
fn own_certificate(folder: &TempDir) -> io::Result<()> {
    let file = |name: &str| folder.join(name).into_os_string();
    let request = |name: &str| -> io::Result<Command> {
        let mut command = Command::new(require("openssl").map_err(io::Error::other)?);
        command.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
        ]);
        command
            .arg("-out")
            .arg(file(&format!("{name}.pem")))
            .arg("-keyout")
            .arg(file(&format!("{name}.key")));
        Ok(command)
    };
    succeed(request("ca")?.args(["-subj", "/CN=authority"]))?;
    let mut own = request("own")?;
    own.arg("-CA")
        .arg(file("ca.pem"))
        .arg("-CAkey")
        .arg(file("ca.key"));
    succeed(own.args([
        "-subj",
        "/CN=localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]))
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
