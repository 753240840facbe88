//! Pebble (Debian's package) with its DNS, a front that can be told to misbehave, and the part of a server that challenges need.
//!
//! The front stands before Pebble because this Pebble has no ARI, never times out and limits nothing. It passes the `Host` on, and
//! Pebble makes its URLs of that, so that all requests come through it.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub mod front;
pub mod site;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use saker_acme::{Event, Handle, Manager, Plan};
use saker_testkit::{ServerProcess, TempDir, free_port, require};
use site::Site;
use std::{
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle};

pub const KEY_ID: &str = "kid-1";
/// Base64url, as Pebble is told it.
pub const HMAC_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

pub struct Authority {
    pub folder: TempDir,
    pub port: u16,
    pub http_port: u16,
    pub tls_port: u16,
    pub zone_port: u16,
    nonces_refused: u32,
    binding: bool,
    pebble: Option<ServerProcess>,
    dns: ServerProcess,
    dns_port: u16,
    /// Of the authority's own certificate.
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Authority {
        Authority::with(0, false)
    }

    /// How many of 100 nonces are refused; whether accounts must be known to the authority already.
    pub fn with(nonces_refused: u32, binding: bool) -> Authority {
        let folder = TempDir::new("acme").unwrap();
        let (certificate, key) = own_certificate(&folder);
        let (dns_port, zone_port) = (free_port().unwrap(), free_port().unwrap());
        let dns = zone(dns_port, zone_port);
        let (port, http_port, tls_port) = (free_port().unwrap(), free_port().unwrap(), free_port().unwrap());
        let mut authority = Authority {
            folder,
            port,
            http_port,
            tls_port,
            zone_port,
            nonces_refused,
            binding,
            pebble: None,
            dns,
            dns_port,
            certificate,
            key,
        };
        authority.start();
        authority
    }

    pub fn stop(&mut self) {
        self.pebble = None;
    }

    /// A Pebble that knows nothing of what the last one did.
    pub fn start(&mut self) {
        let keys = if self.binding { format!(", \"externalAccountMACKeys\": {{ \"{KEY_ID}\": \"{HMAC_KEY}\" }}") } else { String::new() };
        let path = |name: &str| self.folder.join(name).display().to_string();
        let config = format!(
            "{{ \"pebble\": {{ \"listenAddress\": \"127.0.0.1:{}\", \"managementListenAddress\": \"\", \"certificate\": \"{}\", \
             \"privateKey\": \"{}\", \"httpPort\": {}, \"tlsPort\": {}, \"ocspResponderURL\": \"\", \"externalAccountBindingRequired\": {}{keys} }} }}",
            self.port,
            path("own.pem"),
            path("own.key"),
            self.http_port,
            self.tls_port,
            self.binding
        );
        let config = self.folder.write("pebble.json", config).unwrap();
        let mut command = Command::new(require("pebble").unwrap());
        command.arg("-config").arg(config).args(["-dnsserver", &format!("127.0.0.1:{}", self.dns_port)]);
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", self.nonces_refused.to_string()).env("PEBBLE_AUTHZREUSE", "0");
        self.pebble = Some(ServerProcess::start(&mut command, loopback(self.port)).unwrap());
    }

    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    pub fn state_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub fn certificates(&self) -> PathBuf {
        self.state_dir().join("acme/certificates")
    }

    /// A plan from a configuration: `acme` goes under [acme] (with `directory`, unless it is there), `sites` after the listeners.
    pub fn plan(&self, acme: &str, sites: &str) -> Plan {
        let mut text = format!("[server]\nstate_dir = \"{}\"\n[acme]\n", self.state_dir().display());
        if !acme.contains("directory =") {
            let _ = writeln!(text, "directory = \"{}\"", self.directory());
        }
        let _ = writeln!(text, "directory_ca = \"{}\"\n{acme}", self.folder.join("ca.pem").display());
        text.push_str("[[listener]]\naddress = \":80\"\n[[listener]]\naddress = \":443\"\ntls = true\n");
        text.push_str(sites);
        Plan::new(&saker_config::parse(&text, "saker.toml", &self.folder).unwrap_or_else(|problems| panic!("{problems}")).model)
    }

    /// A helper for `dns_command`, and the file of what it was called with.
    pub fn zone_command(&self) -> (String, PathBuf) {
        let log = self.folder.join("zone.log");
        let script = format!(
            "echo \"$1 $2\" >> {log}\n\
             [ \"$1\" = set ] && exec curl -sf -d '{{\"host\":\"'$2'.\",\"value\":\"'$3'\"}}' http://127.0.0.1:{port}/set-txt\n\
             exec curl -sf -d '{{\"host\":\"'$2'.\"}}' http://127.0.0.1:{port}/clear-txt\n",
            log = log.display(),
            port = self.zone_port
        );
        let script = self.folder.write("zone.sh", script).unwrap();
        (format!("sh {}", script.display()), log)
    }
}

pub fn site(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("[[site]]\nnames = [{}]\nroot = \"/\"\ntls.automatic = true\n", names.join(", "))
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A manager at work, and what it says.
pub struct Running {
    pub handle: Handle,
    pub site: Arc<Site>,
    events: mpsc::UnboundedReceiver<Event>,
    task: JoinHandle<()>,
}

impl Running {
    /// Serves challenges on the ports where the authority looks, if `reachable`.
    pub fn start(authority: &Authority, plan: Plan, reachable: bool) -> Running {
        let site = Arc::new(Site::default());
        let (to_events, events) = mpsc::unbounded_channel();
        let said = move |event| drop(to_events.send(event));
        let (manager, handle) = Manager::new(plan, site.clone(), said).unwrap();
        if reachable {
            site::serve_http(authority.http_port, handle.challenges().clone());
            site::serve_tls(authority.tls_port, site.clone());
        }
        Running { handle, site, events, task: tokio::spawn(manager.run()) }
    }

    pub async fn event(&mut self) -> Event {
        self.event_within(Duration::from_secs(60)).await.expect("something is said")
    }

    pub async fn event_within(&mut self, time: Duration) -> Option<Event> {
        tokio::time::timeout(time, self.events.recv()).await.ok().flatten()
    }

    pub async fn issued(&mut self) -> Vec<String> {
        match self.event().await {
            Event::Issued { names, .. } => names,
            other => panic!("{other}"),
        }
    }

    pub async fn failed(&mut self) -> (String, u64) {
        match self.event().await {
            Event::Failed { reason, retry_at, .. } => (reason, retry_at),
            other => panic!("{other}"),
        }
    }

    /// As a process that dies: nothing is brought to an end.
    pub async fn crash(self) -> Arc<Site> {
        self.task.abort();
        let _: Result<(), _> = self.task.await;
        self.site
    }
}

/// A name server whose records tests set; all hosts are at 127.0.0.1.
fn zone(dns_port: u16, management_port: u16) -> ServerProcess {
    let mut command = Command::new(require("pebble-challtestsrv").unwrap());
    command.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", ""]);
    command.args(["-dns01", &format!("127.0.0.1:{dns_port}"), "-management", &format!("127.0.0.1:{management_port}")]);
    ServerProcess::start(&mut command, loopback(management_port)).unwrap()
}

/// For `localhost`, signed by an authority of its own (`ca.pem`).
fn own_certificate(folder: &TempDir) -> (String, String) {
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signed = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &Issuer::from_params(&ca, &ca_key)).unwrap();
    folder.write("ca.pem", ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    folder.write("own.pem", signed.pem()).unwrap();
    folder.write("own.key", key.serialize_pem()).unwrap();
    (signed.pem(), key.serialize_pem())
}
