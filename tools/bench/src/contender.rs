//! Who is measured, and how each is started.

use crate::{
    behind::SessionStore,
    load::pinning,
    outside::Outside,
    rows::{Congestion, Feature},
    stand::Stand,
};
use saker_testkit::{
    KEPT, Peer, PeerSetting, PeerSite, PeerTls, SESSION_COOKIE, ServerProcess, free_port,
};
use std::{
    env, fmt, fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// As `saker serve` runs, without a log.
    Saker,
    /// The same, asked over HTTP/2 where the row is about HTTP/3.
    SakerHttp2,
    /// The same as [`Saker`](Contender::Saker), to see what the machine's noise is.
    SakerAgain,
    /// From a configuration file that is the same but for the feature.
    SakerWithout(Feature),
    SakerWith(Feature),
    Peer(Peer),
    /// One that the user brings.
    Outside(Outside),
    Floor,
}

/// Settings shared by all participants of a run.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub saker: &'a Path,
    /// The files.
    pub root: &'a Path,
    pub host: Ipv4Addr,
    pub work: &'a Path,
    /// For the rows over TLS.
    pub tls: Option<PeerTls<'a>>,
    pub core: Option<usize>,
    pub site: PeerSite<'a>,
    /// Session store behind PHP.
    pub sessions: SessionStore<'a>,
    /// Congestion control of HTTP/3.
    pub congestion: Congestion,
}

impl Contender {
    pub fn is_saker(self) -> bool {
        matches!(
            self,
            Contender::Saker
                | Contender::SakerAgain
                | Contender::SakerHttp2
                | Contender::SakerWith(_)
                | Contender::SakerWithout(_)
        )
    }

    pub fn start(self, ground: Ground<'_>) -> Result<Stand, String> {
        let port = free_port().map_err(|error| error.to_string())?;
        let (mut command, address) = self.pinned_command(ground, port)?;
        ServerProcess::start(&mut command, address)
            .map(Stand::alone)
            .map_err(|error| format!("{self}: {error}"))
    }

    /// Returns the command that starts it on its core, and the address where it will listen.
    pub fn pinned_command(
        self,
        ground: Ground<'_>,
        port: u16,
    ) -> Result<(Command, SocketAddr), String> {
        let command = self
            .command(ground, port)
            .map_err(|error| format!("{self}: {error}"))?;
        Ok((
            pinned(&command, ground.core)?,
            SocketAddr::from((ground.host, port)),
        ))
    }

    fn command(self, ground: Ground<'_>, port: u16) -> io::Result<Command> {
        let mut command = Command::new(ground.saker);
        match self {
            Contender::Saker | Contender::SakerAgain if !matches!(ground.site, PeerSite::Files) => {
                by_configuration(&mut command, ground, port)?;
            }
            Contender::Saker | Contender::SakerHttp2 if ground.congestion != Congestion::Usual => {
                let file = ground.work.join("saker.toml");
                fs::write(&file, with_congestion(ground, port))?;
                command.arg("run").arg("-c").arg(file);
            }
            Contender::Saker | Contender::SakerAgain | Contender::SakerHttp2 => {
                let address = format!("{}:{port}", ground.host);
                command.arg("serve").arg(ground.root).args([
                    if ground.tls.is_some() {
                        "--https"
                    } else {
                        "--http"
                    },
                    &address,
                ]);
                if let Some(PeerTls { chain, key }) = ground.tls {
                    command.arg("--cert").arg(chain).arg("--key").arg(key);
                }
                command.args(["--workers", "1", "--access-log", "off"]);
                command.arg("--state-dir").arg(ground.work.join("state"));
            }
            Contender::SakerWithout(Feature::Htaccess | Feature::RewriteRules) => {
                command
                    .arg("run")
                    .args(["--workers", "1", "--apache"])
                    .arg(apache_file(ground, port, "None")?);
            }
            Contender::SakerWith(Feature::Htaccess | Feature::RewriteRules) => {
                command
                    .arg("run")
                    .args(["--workers", "1", "--apache"])
                    .arg(apache_file(ground, port, "All")?);
            }
            Contender::SakerWithout(_) => {
                command
                    .arg("run")
                    .arg("-c")
                    .arg(configure(ground, port, None)?);
            }
            Contender::SakerWith(feature) => {
                command
                    .arg("run")
                    .arg("-c")
                    .arg(configure(ground, port, Some(feature))?);
            }
            Contender::Peer(peer) => return peer.command(setting(ground, port)),
            Contender::Outside(outside) => return outside.command(setting(ground, port)),
            Contender::Floor => {
                command = Command::new(env::current_exe()?);
                command.args(["floor", "--port", &port.to_string()]);
            }
        }
        Ok(command)
    }
}

fn setting(
    Ground {
        root,
        host,
        work,
        tls,
        site,
        ..
    }: Ground<'_>,
    port: u16,
) -> PeerSetting<'_> {
    PeerSetting {
        root,
        host,
        port,
        work,
        tls,
        site,
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Saker => f.write_str("saker"),
            Contender::SakerAgain => f.write_str("saker again"),
            Contender::SakerHttp2 => f.write_str("saker, HTTP/2"),
            Contender::SakerWithout(feature) => write!(f, "saker, {feature} off"),
            Contender::SakerWith(feature) => write!(f, "saker, {feature} on"),
            Contender::Peer(peer) => peer.fmt(f),
            Contender::Outside(outside) => outside.fmt(f),
            Contender::Floor => f.write_str("bare tokio loop"),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::AccessLog => "access log",
            Feature::Throttle => "throttle",
            Feature::Htaccess => ".htaccess",
            Feature::RewriteRules => "rewrite rules",
        })
    }
}

fn configure(ground: Ground<'_>, port: u16, on: Option<Feature>) -> io::Result<std::path::PathBuf> {
    let file = ground.work.join("saker.toml");
    fs::write(&file, configuration(ground, port, on))?;
    Ok(file)
}

fn configuration(ground: Ground<'_>, port: u16, on: Option<Feature>) -> String {
    let (root, work, host) = (ground.root.display(), ground.work.display(), ground.host);
    let feature = match on {
        None | Some(Feature::Htaccess | Feature::RewriteRules) => String::new(),
        Some(Feature::AccessLog) => format!("access_log = \"{work}/access.log\"\n"),
        // Far above what one client reaches, so that every request is counted and none is held.
        Some(Feature::Throttle) => {
            "[site.throttle]\nout_per_address = \"10GB/s\"\nrequests_static = \"10000000/s\"\n"
                .to_owned()
        }
    };
    format!(
        "[server]\nworkers = 1\nstate_dir = \"{work}/state\"\n\n[[listener]]\naddress = \"{host}:{port}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{root}\"\n{feature}"
    )
}

fn paced(ground: Ground<'_>, port: u16, bytes_per_s: u64) -> String {
    format!(
        "{}[site.throttle]\nout_per_connection = \"{bytes_per_s}B/s\"\n",
        configuration(ground, port, None)
    )
}

/// Over TLS, with another congestion control.
fn with_congestion(ground: Ground<'_>, port: u16) -> String {
    let name = if ground.congestion == Congestion::Bbr {
        "bbr"
    } else {
        "newreno"
    };
    let files = |PeerTls { chain, key }: PeerTls<'_>| {
        format!(
            "certificate = \"{}\"\nkey = \"{}\"\n",
            chain.display(),
            key.display()
        )
    };
    format!(
        "[server]\nworkers = 1\nstate_dir = \"{}/state\"\n\n[[listener]]\naddress = \"{}:{port}\"\ntls = true\nhttp3_congestion = \"{name}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{}\"\n[site.tls]\n{}",
        ground.work.display(),
        ground.host,
        ground.root.display(),
        ground.tls.map(files).unwrap_or_default()
    )
}

/// Sites that need more than a folder.
fn by_configuration(command: &mut Command, ground: Ground<'_>, port: u16) -> io::Result<()> {
    let (path, server) = match ground.site {
        PeerSite::Paced { bytes_per_s } => {
            let file = ground.work.join("saker.toml");
            fs::write(&file, paced(ground, port, bytes_per_s))?;
            command.arg("run").arg("-c").arg(file);
            return Ok(());
        }
        PeerSite::Logged { log, workers } => {
            command
                .arg("serve")
                .arg(ground.root)
                .args(["--http", &format!("{}:{port}", ground.host)]);
            command
                .args(["--workers", &workers.to_string(), "--access-log"])
                .arg(log);
            command.arg("--state-dir").arg(ground.work.join("state"));
            return Ok(());
        }
        PeerSite::Php { socket } | PeerSite::Store { socket } => {
            ("*.php", format!("fcgi+unix:{}", socket.display()))
        }
        PeerSite::Proxy { upstream }
        | PeerSite::Cached { upstream, .. }
        | PeerSite::StoreBehind { upstream } => ("*", format!("http://{upstream}")),
        PeerSite::Shop { upstream } => ("/shop.html", format!("http://{upstream}")),
        PeerSite::Files | PeerSite::Htaccess | PeerSite::Permalinks => {
            command
                .arg("run")
                .args(["--workers", "1", "--apache"])
                .arg(apache_file(ground, port, "All")?);
            return Ok(());
        }
    };
    let file = ground.work.join("saker.toml");
    let cache = match ground.site {
        PeerSite::Cached { .. } | PeerSite::Shop { .. } => {
            "[site.cache]\nforce_ttl = \"1h\"\n".to_owned()
        }
        PeerSite::Store { .. } => {
            format!("[site.cache]\nsession_cookies = [\"{SESSION_COOKIE}\"]\n")
        }
        _ => String::new(),
    };
    let text = format!(
        "{}\n{cache}\n[[site.route]]\npath = \"{path}\"\nproxy = \"behind\"\n\n[[upstream]]\nname = \"behind\"\nservers = [\"{server}\"]\nkeep = {KEPT}\n",
        configuration(ground, port, None)
    );
    fs::write(&file, text)?;
    command.arg("run").arg("-c").arg(file);
    Ok(())
}

fn apache_file(ground: Ground<'_>, port: u16, overrides: &str) -> io::Result<std::path::PathBuf> {
    let (root, work, host) = (ground.root.display(), ground.work.display(), ground.host);
    let modules = ["mpm_event", "authz_core", "mime", "dir", "rewrite"];
    let modules: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let file = ground.work.join("saker-httpd.conf");
    let text = format!(
        "ServerRoot {work}\n{modules}ServerName localhost\nListen {host}:{port}\nErrorLog {work}/saker-error.log\nPidFile {work}/saker.pid\n\
         MaxKeepAliveRequests 0\nDocumentRoot {root}\n<Directory {root}>\n    AllowOverride {overrides}\n    Require all granted\n    \
         Options FollowSymLinks\n</Directory>\n"
    );
    fs::write(&file, text)?;
    Ok(file)
}

/// The same command behind `taskset`, which becomes it: the process id stays.
fn pinned(command: &Command, core: Option<usize>) -> Result<Command, String> {
    let words = pinning(core)?;
    let mut pinned = match words.split_first() {
        Some((taskset, rest)) => {
            let mut pinned = Command::new(taskset);
            pinned.args(rest).arg(command.get_program());
            pinned
        }
        None => Command::new(command.get_program()),
    };
    let environment = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    pinned.args(command.get_args()).envs(environment);
    Ok(pinned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_and_off_differ_by_the_feature_alone() {
        let ground = Ground {
            saker: Path::new("/s"),
            root: Path::new("/r"),
            host: Ipv4Addr::LOCALHOST,
            work: Path::new("/w"),
            tls: None,
            core: None,
            site: PeerSite::Files,
            sessions: SessionStore::Files,
            congestion: Congestion::Usual,
        };
        let off = configuration(ground, 80, None);
        for feature in [Feature::AccessLog, Feature::Throttle] {
            let on = configuration(ground, 80, Some(feature));
            assert!(on.starts_with(&off) && on.len() > off.len(), "{on}");
        }
    }

    #[test]
    fn pinning_keeps_the_command() {
        let mut command = Command::new("/bin/true");
        command.args(["a", "b"]).env("C", "d");
        assert_eq!(
            pinned(&command, None)
                .expect("made")
                .get_args()
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        let pinned = pinned(&command, Some(1)).expect("taskset is part of every Debian");
        assert_eq!(
            pinned.get_args().collect::<Vec<_>>(),
            ["-c", "1", "/bin/true", "a", "b"]
        );
        assert_eq!(pinned.get_envs().count(), 1);
    }
}
