//! All pools of the server, on its main thread: made, changed and ended as the configuration says.
//!
//! Difficulty: who PHP runs as. Never root: where the server is root, it is who `[php]` names, or
//! else a user made for that. Where root has started a server that became another user, all of PHP
//! is started by the broker, which stays root, so that it has nothing of the server's but its user
//! at most ([`user::of_server`]). Where the server was never root PHP is the server's user, and a
//! configuration that wants another gets no PHP rather than one with the wrong rights.

use crate::{
    command::{Spec, Whom},
    plan,
    pool::{Order, Pool},
    user,
};
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use saker_broker_client::BrokerClient;
use saker_config::{
    Model,
    model::{Php, ProgramUser},
};
use saker_net::{process::Identity, program::Spawner, socket_path::SocketPath};
use saker_telemetry::{error_log, message};
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

/// All pools end at the same time.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// Requests that wait in a socket; the kernel has a bound of its own (net.core.somaxconn).
const BACKLOG: i32 = 4096;

#[derive(Default)]
pub struct Manager {
    /// By socket.
    pools: HashMap<PathBuf, Handle>,
}

struct Handle {
    orders: watch::Sender<Order>,
    task: JoinHandle<()>,
}

impl Manager {
    /// Makes what the model has to what there is. To be called within the main thread's runtime, by
    /// the user that serves. `broker`: of those of other users.
    pub fn apply(&mut self, model: &Model, broker: Option<&Arc<BrokerClient>>) {
        let default = user::of_server(model)
            .filter(|_| broker.is_some_and(|broker| broker.own_user().is_some()));
        let of_server = match &default {
            Some(user) => whom(user, broker),
            None => identity(&model.php).map(|identity| Whom::Us(identity.map(Arc::new))),
        };
        let (mut wanted, mut reasons) = (HashSet::new(), Vec::new());
        for pool in model.php_pools.all() {
            let whom = match &pool.user {
                None => of_server.clone(),
                Some(user) => whom(user, broker),
            };
            match whom {
                Ok(whom) => {
                    wanted.insert(pool.socket.clone());
                    self.run(Arc::new(Spec {
                        php: model.php.clone(),
                        pool: pool.clone(),
                        whom,
                    }));
                }
                Err(reason) => reasons.push(reason),
            }
        }
        reasons.extend(plan::none_of_the_named(model));
        reasons.dedup();
        reasons
            .iter()
            .for_each(|reason| error_log::log(&message::PHP_FAILED, format_args!("{reason}")));
        self.retire(|socket| wanted.contains(socket));
    }

    fn run(&mut self, spec: Arc<Spec>) {
        match self.pools.get(&spec.pool.socket) {
            Some(handle) => drop(handle.orders.send(Order::Run(spec))),
            None => self.add(spec),
        }
    }

    /// Starts new programs of the pools with this name, which take the place of those that run once
    /// these have finished their requests. Returns the number of pools.
    pub fn restart(&self, name: &str) -> usize {
        let mut count = 0;
        for handle in self.pools.values() {
            let spec = match &*handle.orders.borrow() {
                Order::Run(spec) | Order::Restart(spec) if &*spec.pool.name == name => {
                    Arc::clone(spec)
                }
                _ => continue,
            };
            count += usize::from(handle.orders.send(Order::Restart(spec)).is_ok());
        }
        count
    }

    /// Names of the pools.
    pub fn names(&self) -> Vec<String> {
        let specs = self
            .pools
            .values()
            .filter_map(|handle| match &*handle.orders.borrow() {
                Order::Run(spec) | Order::Restart(spec) => Some(spec.pool.name.to_string()),
                Order::Finish | Order::Stop => None,
            });
        let mut names: Vec<String> = specs.collect();
        names.sort();
        names
    }

    /// Ends all of them, and what they have started. `removes_files`: unless a successor has put
    /// its own in their place.
    pub async fn stop(&mut self, removes_files: bool) {
        let pools = std::mem::take(&mut self.pools);
        for handle in pools.values() {
            let _ = handle.orders.send(Order::Stop);
        }
        let all = async {
            for (socket, handle) in pools {
                let _ = handle.task.await;
                if removes_files {
                    remove_files(&socket);
                }
            }
        };
        let _ = timeout(STOP_TIME_MAX, all).await;
    }

    fn add(&mut self, spec: Arc<Spec>) {
        let socket = spec.pool.socket.clone();
        match listen(&socket) {
            Ok(listener) => {
                let (orders, receiver) = watch::channel(Order::Run(spec));
                let task = tokio::spawn(Pool::new(listener, receiver).run());
                self.pools.insert(socket, Handle { orders, task });
            }
            Err(error) => error_log::log(
                &message::PHP_FAILED,
                format_args!("{}: {error}", socket.display()),
            ),
        }
    }

    /// Those that nothing refers to any more; requests of the configuration before may still be
    /// under way.
    fn retire(&mut self, is_wanted: impl Fn(&Path) -> bool) {
        self.pools.retain(|socket, handle| {
            let stays = is_wanted(socket);
            if !stays {
                let _ = handle.orders.send(Order::Finish);
                remove_files(socket);
            }
            stays
        });
    }
}

/// Running as another user goes through the broker, regardless of the server's own user.
fn whom(user: &ProgramUser, broker: Option<&Arc<BrokerClient>>) -> Result<Whom, String> {
    let shown = &user.user;
    let identity = Identity::look_up(shown, user.group.as_deref())
        .map_err(|error| format!("PHP as user {shown}: {error}"))?;
    let is_ours = identity.uid() == rustix::process::geteuid().as_raw()
        && identity.gid() == rustix::process::getegid().as_raw();
    match (identity.uid(), broker) {
        (0, _) => Err("PHP is not run as root: name another user".into()),
        (_, Some(broker)) => Ok(Whom::Broker(Arc::clone(broker), user.clone())),
        (_, None) if is_ours => Ok(Whom::Us(None)),
        (_, None) => Err(format!(
            "PHP as user {shown}: the server has to be started as root for that"
        )),
    }
}

/// The error is what the operator is told.
fn identity(php: &Php) -> Result<Option<Identity>, String> {
    let named = |user: &str| {
        Identity::look_up(user, php.group.as_deref())
            .map_err(|error| format!("PHP as user {user}: {error}"))
    };
    let is_root = rustix::process::geteuid().is_root();
    match &php.user {
        Some(user) if is_root => match named(user)? {
            identity if identity.uid() == 0 => {
                Err("PHP is not run as root: name another user in [php]".into())
            }
            identity => Ok(Some(identity)),
        },
        Some(user) => match named(user)? {
            identity if identity.uid() == rustix::process::getuid().as_raw() => Ok(None),
            _ => Err(format!(
                "PHP as user {user}: the server is not root any more, and can't start it so; leave `user` of [php] out"
            )),
        },
        None if is_root => user::instead_of_root()
            .map(Some)
            .ok_or_else(|| "PHP is not run as root: name a user in [php]".into()),
        None => Ok(None),
    }
}

/// A listening socket that only the server's user can connect to. It blocks, as PHP expects of one
/// that it inherits.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    let _ = fs::remove_file(path);
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Before the name is there.
    let _ = rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(
        &socket,
        &SocketAddrUnix::new(SocketPath::new(path)?.as_path())?,
    )?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn remove_files(socket: &Path) {
    let _ = fs::remove_file(socket);
    let _ = fs::remove_file(socket.with_extension("conf"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_socket_for_its_owner_alone() {
        let folder = std::env::temp_dir().join(format!("saker-php-socket-{}", std::process::id()));
        for path in [
            folder.join("php.sock"),
            folder.join("ü ".repeat(80)).join("php.sock"),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "stale").unwrap();
            let listener = listen(&path).unwrap();
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(
                (metadata.mode() & 0o777, metadata.uid()),
                (0o600, rustix::process::getuid().as_raw())
            );
            std::os::unix::net::UnixStream::connect(SocketPath::new(&path).unwrap().as_path())
                .unwrap();
            drop(listener);
            remove_files(&path);
            assert!(!path.exists());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn nobody_is_root() {
        let is_root = rustix::process::geteuid().is_root();
        let user = |name: &str| Php {
            user: Some(name.into()),
            ..Php::default()
        };
        assert!(identity(&user("root")).is_err() || !is_root);
        assert!(identity(&user("no-such-user-here")).is_err());
        assert_eq!(identity(&user("nobody")).is_ok(), is_root);
        assert_eq!(
            identity(&Php::default())
                .is_ok_and(|identity| identity.is_some_and(|one| one.uid() != 0)),
            is_root
        );
    }
}
