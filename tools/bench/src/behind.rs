//! Backends of the servers of some rows: a php-fpm, a server of files, and the store of sessions.
//! They run on the core of the load, and what they cost is not counted.

mod program;
mod sessions;

pub use sessions::{SessionStore, Sessions};

use crate::{conditions::Site, row::Row};
use program::{Program, on_core};
use saker_testkit::{KEPT, Peer, PeerSetting, PeerSite, ServerProcess, free_port, require};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
};

/// Processes of PHP: more than the connections that a server keeps.
const CHILDREN: usize = KEPT + 4;
#[derive(Default)]
pub struct Behind {
    php: Option<Program>,
    sessions: Option<(Sessions, Program)>,
    server: Option<ServerProcess>,
}

impl Behind {
    /// Starts what the chosen rows need.
    pub fn start(
        rows: &[&Row],
        root: &Path,
        work: &Path,
        core: Option<usize>,
        sessions: Sessions,
    ) -> Result<Behind, String> {
        let needs = |site: Site| rows.iter().any(|row| row.site() == site);
        Ok(Behind {
            php: if needs(Site::Php) {
                Some(php(work, core)?)
            } else {
                None
            },
            sessions: if needs(Site::Php) {
                sessions.start(work, core)?
            } else {
                None
            },
            server: if [Site::Proxy, Site::Cached, Site::CachedGzip, Site::Shop]
                .into_iter()
                .any(needs)
            {
                Some(server(root, work, core)?)
            } else {
                None
            },
        })
    }

    pub fn sessions(&self) -> SessionStore<'_> {
        match &self.sessions {
            Some((Sessions::Mariadb, program)) => SessionStore::Mariadb {
                socket: &program.socket,
            },
            Some((Sessions::Redis, program)) => SessionStore::Redis {
                socket: &program.socket,
            },
            _ => SessionStore::Files,
        }
    }

    pub fn site(&self, site: Site) -> PeerSite<'_> {
        match (site, &self.php, &self.server) {
            (Site::Permalinks, ..) => PeerSite::Permalinks,
            (Site::Php, Some(php), _) => PeerSite::Php {
                socket: &php.socket,
            },
            (Site::Cached, _, Some(server)) => PeerSite::Cached {
                upstream: server.address(),
                gzip: false,
            },
            (Site::CachedGzip, _, Some(server)) => PeerSite::Cached {
                upstream: server.address(),
                gzip: true,
            },
            (Site::Shop, _, Some(server)) => PeerSite::Shop {
                upstream: server.address(),
            },
            (Site::Proxy, _, Some(server)) => PeerSite::Proxy {
                upstream: server.address(),
            },
            _ => PeerSite::Files,
        }
    }
}

/// nginx, since all that are measured reach the same one.
fn server(root: &Path, work: &Path, core: Option<usize>) -> Result<ServerProcess, String> {
    let work = work.join("behind");
    fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let port = free_port().map_err(|error| error.to_string())?;
    let setting = PeerSetting {
        root,
        host: Ipv4Addr::LOCALHOST,
        port,
        work: &work,
        tls: None,
        site: PeerSite::Files,
    };
    let command = Peer::Nginx
        .command(setting)
        .map_err(|error| error.to_string())?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    ServerProcess::start(&mut on_core(&command, core)?, address).map_err(|error| error.to_string())
}

fn php(work: &Path, core: Option<usize>) -> Result<Program, String> {
    let program = ["php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm"]
        .into_iter()
        .find_map(|name| require(name).ok());
    let program =
        program.ok_or_else(|| "php-fpm is not there: apt-get install php-fpm".to_owned())?;
    let (socket, file) = (work.join("php.sock"), work.join("php-fpm.conf"));
    let user = if rustix::process::geteuid().is_root() {
        "user = root\n"
    } else {
        ""
    };
    let text = format!(
        "[global]\nerror_log = {0}/php-fpm.log\ndaemonize = no\n[www]\n{user}listen = {1}\nlisten.mode = 0666\nlisten.backlog = 1024\npm = static\n\
         pm.max_children = {CHILDREN}\npm.max_requests = 0\n",
        work.display(),
        socket.display()
    );
    fs::write(&file, text).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("-R").arg("-F").arg("-y").arg(&file);
    Program::start(&command, core, socket)
}
