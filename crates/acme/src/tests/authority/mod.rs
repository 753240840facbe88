//! Pebble, a front that can be told to misbehave, and the part of a server that challenges need.
//!
//! The front stands before Pebble because this Pebble has no ARI, never times out and limits
//! nothing. It passes the `Host` on, and Pebble makes its URLs of that, so that all requests come
//! through it.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub mod front;
pub mod site;

use saker_acme::{Challenges, Event, Handle, Manager, Plan};
use saker_testkit::{PATIENCE, Pebble};
use site::Site;
use std::{
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    ops::{Deref, DerefMut},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinHandle};

pub struct Authority(Pebble);

impl Deref for Authority {
    type Target = Pebble;

    fn deref(&self) -> &Pebble {
        &self.0
    }
}

impl DerefMut for Authority {
    fn deref_mut(&mut self) -> &mut Pebble {
        &mut self.0
    }
}

impl Authority {
    pub fn new() -> Authority {
        Authority::with(0, false)
    }

    pub fn with(nonces_refused: u32, binding: bool) -> Authority {
        Authority(Pebble::with(nonces_refused, binding).unwrap())
    }

    pub fn state_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub fn certificates(&self) -> PathBuf {
        self.state_dir().join("acme/certificates")
    }

    /// A plan from a configuration: `acme` goes under [acme] (with `directory`, unless it is
    /// there), `sites` after the listeners.
    pub fn plan(&self, acme: &str, sites: &str) -> Plan {
        let mut text = format!(
            "[server]\nstate_dir = \"{}\"\n[acme]\n",
            self.state_dir().display()
        );
        if !acme.contains("directory =") {
            let _ = writeln!(text, "directory = \"{}\"", self.directory());
        }
        let _ = writeln!(
            text,
            "directory_ca = \"{}\"\n{acme}",
            self.directory_ca().display()
        );
        text.push_str(
            "[[listener]]\naddress = \":80\"\n[[listener]]\naddress = \":443\"\ntls = true\n",
        );
        text.push_str(sites);
        Plan::new(
            &saker_config::parse(&text, "saker.toml", &self.folder)
                .unwrap_or_else(|problems| panic!("{problems}"))
                .model,
        )
    }
}

/// Waits until a condition holds, and lets other tasks run meanwhile.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn site(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!(
        "[[site]]\nnames = [{}]\nroot = \"/\"\ntls.automatic = true\n",
        names.join(", ")
    )
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A manager at work, and what it says.
pub struct Running {
    pub handle: Handle,
    pub challenges: Arc<Challenges>,
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
        let challenges = Arc::new(Challenges::default());
        let (manager, handle) = Manager::new(plan, challenges.clone(), site.clone(), said).unwrap();
        if reachable {
            site::serve_http(authority.http_port, challenges.clone());
            site::serve_tls(authority.tls_port, site.clone());
        }
        Running {
            handle,
            challenges,
            site,
            events,
            task: tokio::spawn(manager.run()),
        }
    }

    pub async fn event(&mut self) -> Event {
        self.event_within(Duration::from_secs(60))
            .await
            .expect("something is said")
    }

    pub async fn event_within(&mut self, time: Duration) -> Option<Event> {
        tokio::time::timeout(time, self.events.recv())
            .await
            .ok()
            .flatten()
    }

    pub async fn issued(&mut self) -> Vec<String> {
        match self.event().await {
            Event::Issued { names, .. } => names,
            other => panic!("{other}"),
        }
    }

    pub async fn failed(&mut self) -> (String, u64) {
        match self.event().await {
            Event::Failed {
                reason, retry_at, ..
            } => (reason, retry_at),
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
