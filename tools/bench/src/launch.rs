//! Starts subjects: their commands and configuration files.
//!
//! Called by: the runner, the workloads, and `paced`.
//! Caveat: each is configured as its documentation recommends for the row's site, with one worker
//! and without logs, unless the row is about them.
//! Out of scope: the peers' own configuration (testkit).

use crate::{
    conditions::{Congestion, Feature},
    pinning::pinning,
    running_server::RunningServer,
    subject::Subject,
    test_env::TestEnv,
};
use saker_testkit::{
    KEPT, Peer, PeerSetting, PeerSite, PeerTls, SESSION_COOKIE, ServerProcess, free_port,
};
use std::{env, fs, io, net::SocketAddr, process::Command};

impl Subject {
    pub fn start(self, test_env: TestEnv<'_>) -> Result<RunningServer, String> {
        let port = free_port().map_err(|error| error.to_string())?;
        let (mut command, address) = self.pinned_command(test_env, port)?;
        ServerProcess::start(&mut command, address)
            .map(RunningServer::alone)
            .map_err(|error| format!("{self}: {error}"))
    }

    /// Returns the command that starts it on its core, and the address where it will listen.
    pub fn pinned_command(
        self,
        test_env: TestEnv<'_>,
        port: u16,
    ) -> Result<(Command, SocketAddr), String> {
        let command = self
            .command(test_env, port)
            .map_err(|error| format!("{self}: {error}"))?;
        Ok((
            pinned(&command, test_env.core)?,
            SocketAddr::from((test_env.host, port)),
        ))
    }

    fn command(self, test_env: TestEnv<'_>, port: u16) -> io::Result<Command> {
        let mut command = Command::new(test_env.saker);
        match self {
            Subject::Saker | Subject::SakerAgain if !matches!(test_env.site, PeerSite::Files) => {
                by_configuration(&mut command, test_env, port)?;
            }
            Subject::Saker | Subject::SakerHttp2 if test_env.congestion != Congestion::Usual => {
                let file = test_env.work.join("saker.toml");
                fs::write(&file, with_congestion(test_env, port))?;
                command.arg("run").arg("-c").arg(file);
            }
            Subject::Saker | Subject::SakerAgain | Subject::SakerHttp2 => {
                let address = format!("{}:{port}", test_env.host);
                command.arg("serve").arg(test_env.root).args([
                    if test_env.tls.is_some() {
                        "--https"
                    } else {
                        "--http"
                    },
                    &address,
                ]);
                if let Some(PeerTls { chain, key }) = test_env.tls {
                    command.arg("--cert").arg(chain).arg("--key").arg(key);
                }
                command.args(["--workers", "1", "--access-log", "off"]);
                command.arg("--state-dir").arg(test_env.work.join("state"));
            }
            Subject::SakerWithout(Feature::Htaccess | Feature::RewriteRules) => {
                command
                    .arg("run")
                    .args(["--workers", "1", "--apache"])
                    .arg(apache_file(test_env, port, "None")?);
            }
            Subject::SakerWith(Feature::Htaccess | Feature::RewriteRules) => {
                command
                    .arg("run")
                    .args(["--workers", "1", "--apache"])
                    .arg(apache_file(test_env, port, "All")?);
            }
            Subject::SakerWithout(_) => {
                command
                    .arg("run")
                    .arg("-c")
                    .arg(configure(test_env, port, None)?);
            }
            Subject::SakerWith(feature) => {
                command
                    .arg("run")
                    .arg("-c")
                    .arg(configure(test_env, port, Some(feature))?);
            }
            Subject::SakerByFileOf(peer) => by_file_of(&mut command, peer, test_env, port)?,
            Subject::Peer(peer) => return peer.command(setting(test_env, port)),
            Subject::Outside(outside) => return outside.command(setting(test_env, port)),
            Subject::Floor => {
                command = Command::new(env::current_exe()?);
                command.args(["floor", "--port", &port.to_string()]);
            }
        }
        Ok(command)
    }
}

fn setting(
    TestEnv {
        root,
        host,
        work,
        tls,
        site,
        ..
    }: TestEnv<'_>,
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

fn configure(
    test_env: TestEnv<'_>,
    port: u16,
    on: Option<Feature>,
) -> io::Result<std::path::PathBuf> {
    let file = test_env.work.join("saker.toml");
    fs::write(&file, configuration(test_env, port, on))?;
    Ok(file)
}

fn configuration(test_env: TestEnv<'_>, port: u16, on: Option<Feature>) -> String {
    let (root, work, host) = (
        test_env.root.display(),
        test_env.work.display(),
        test_env.host,
    );
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

fn paced(test_env: TestEnv<'_>, port: u16, bytes_per_s: u64) -> String {
    format!(
        "{}[site.throttle]\nout_per_connection = \"{bytes_per_s}B/s\"\n",
        configuration(test_env, port, None)
    )
}

/// Over TLS, with another congestion control.
fn with_congestion(test_env: TestEnv<'_>, port: u16) -> String {
    let name = if test_env.congestion == Congestion::Bbr {
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
        test_env.work.display(),
        test_env.host,
        test_env.root.display(),
        test_env.tls.map(files).unwrap_or_default()
    )
}

/// Sites that need more than a folder.
fn by_configuration(command: &mut Command, test_env: TestEnv<'_>, port: u16) -> io::Result<()> {
    let (path, server) = match test_env.site {
        PeerSite::Paced { bytes_per_s } => {
            let file = test_env.work.join("saker.toml");
            fs::write(&file, paced(test_env, port, bytes_per_s))?;
            command.arg("run").arg("-c").arg(file);
            return Ok(());
        }
        PeerSite::Logged { log, workers } => {
            command
                .arg("serve")
                .arg(test_env.root)
                .args(["--http", &format!("{}:{port}", test_env.host)]);
            command
                .args(["--workers", &workers.to_string(), "--access-log"])
                .arg(log);
            command.arg("--state-dir").arg(test_env.work.join("state"));
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
                .arg(apache_file(test_env, port, "All")?);
            return Ok(());
        }
    };
    let file = test_env.work.join("saker.toml");
    let cache = match test_env.site {
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
        configuration(test_env, port, None)
    );
    fs::write(&file, text)?;
    command.arg("run").arg("-c").arg(file);
    Ok(())
}

/// By the configuration of a peer as it is, but for the user: Saker does not stay root, which the
/// peers do to read any folder.
fn by_file_of(
    command: &mut Command,
    peer: Peer,
    test_env: TestEnv<'_>,
    port: u16,
) -> io::Result<()> {
    let (language, file) = if peer == Peer::Nginx {
        ("--nginx", "saker-nginx.conf")
    } else {
        ("--apache", "saker-httpd.conf")
    };
    let file = test_env.work.join(file);
    let text = peer.configuration(setting(test_env, port));
    fs::write(&file, text.replace("user root;", ""))?;
    command.arg("run").args(["--workers", "1", language]);
    command.arg(file);
    command.arg("--state-dir").arg(test_env.work.join("state"));
    Ok(())
}

fn apache_file(
    test_env: TestEnv<'_>,
    port: u16,
    overrides: &str,
) -> io::Result<std::path::PathBuf> {
    let (root, work, host) = (
        test_env.root.display(),
        test_env.work.display(),
        test_env.host,
    );
    let modules = ["mpm_event", "authz_core", "mime", "dir", "rewrite"];
    let modules: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let file = test_env.work.join("saker-httpd.conf");
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
    use crate::behind::SessionStore;
    use std::net::Ipv4Addr;
    use std::path::Path;

    #[test]
    fn on_and_off_differ_by_the_feature_alone() {
        let test_env = TestEnv {
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
        let off = configuration(test_env, 80, None);
        for feature in [Feature::AccessLog, Feature::Throttle] {
            let on = configuration(test_env, 80, Some(feature));
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
