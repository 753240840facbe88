//! The user that PHP runs as, and what the process that starts it has to be granted.
//!
//! Called by: the manager, for each pool; the server, for grants and for `saker check`. Caveat: all
//! of it is about servers that root has started. Without root PHP has the server's rights, because
//! there is no other user to be had. Out of scope: servers that stay root (`manager`).

use crate::command::{Spec, Whom};
use saker_broker::Grant;
use saker_config::{
    Model,
    model::{Php, ProgramUser},
};
use saker_net::process::Identity;
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// The system user that PHP runs as where it exists and `[php]` names none.
pub const OWN_USER: &str = "saker-php";

/// Users that PHP runs as if the server is root and none is configured; the first that exists wins.
const USERS: [&str; 4] = [OWN_USER, "www-data", "apache", "nobody"];

/// The user of PHP where the server stays root.
pub fn instead_of_root() -> Option<Identity> {
    USERS
        .iter()
        .find_map(|user| Identity::look_up(user, None).ok())
}

/// The user of PHP for a folder that root serves without a configuration, where the usual one can't
/// enter the folder: its owner. `None`: the usual one is right, or there is none but root.
pub fn of_folder(folder: &Path) -> Option<String> {
    let usual = is_root().then(instead_of_root)??;
    let owner = fs::metadata(folder)
        .ok()
        .map(|found| found.uid())
        .filter(|uid| *uid != 0)?;
    let name = if can_enter(&usual, folder) {
        None
    } else {
        name_of(owner, &fs::read_to_string("/etc/passwd").ok()?)
    };
    name.filter(|name| Identity::look_up(name, None).is_ok_and(|identity| identity.uid() == owner))
}

/// Returns the name of PHP's user if it can't enter a directory that root serves.
pub fn closed_to(php: &Php, folder: &Path) -> Option<String> {
    let names = php
        .user
        .as_deref()
        .into_iter()
        .chain(USERS.into_iter().filter(|_| php.user.is_none()));
    let (name, user) = names
        .filter_map(|name| Some((name, Identity::look_up(name, php.group.as_deref()).ok()?)))
        .next()?;
    (is_root() && !can_enter(&user, folder)).then(|| name.to_owned())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// By owner, group and mode; access lists are not looked at.
fn can_enter(user: &Identity, folder: &Path) -> bool {
    let allows = |path: &Path, wanted: u32| {
        let Ok(found) = fs::metadata(path) else {
            return false;
        };
        let shift = if found.uid() == user.uid() {
            6
        } else {
            3 * u32::from(found.gid() == user.gid())
        };
        (found.mode() >> shift) & wanted == wanted
    };
    allows(folder, 0o5)
        && folder
            .ancestors()
            .skip(1)
            .filter(|path| !path.as_os_str().is_empty())
            .all(|path| allows(path, 0o1))
}

/// In a text as passwd(5) has it.
fn name_of(uid: u32, passwd: &str) -> Option<String> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (
            fields.next()?.to_owned(),
            fields.nth(1)?.parse::<u32>().ok()?,
        );
        (number == uid).then_some(name)
    };
    passwd.lines().find_map(entry)
}

/// The user of pools that no site has for itself, where root starts the server and the server
/// becomes another user: the one that `[php]` names, or else [`OWN_USER`], or else the server's
/// own.
pub fn of_server(model: &Model) -> Option<ProgramUser> {
    let server = model.server.user.as_ref()?;
    let named = model.php.user.as_ref().map(|user| ProgramUser {
        user: user.clone(),
        group: model.php.group.clone(),
    });
    let own = || {
        Identity::look_up(OWN_USER, None).ok().map(|_| ProgramUser {
            user: OWN_USER.into(),
            group: None,
        })
    };
    Some(named.or_else(own).unwrap_or_else(|| ProgramUser {
        user: server.clone(),
        group: model.server.group.clone(),
    }))
}

/// Says whether some PHP runs as the user that the server becomes.
pub fn shares_servers_user(model: &Model) -> bool {
    let uid = |user: &ProgramUser| {
        Identity::look_up(&user.user, user.group.as_deref())
            .ok()
            .map(|identity| identity.uid())
    };
    let server = model.server.user.clone().map(|user| ProgramUser {
        user,
        group: model.server.group.clone(),
    });
    let Some(server) = server.as_ref().and_then(uid) else {
        return false;
    };
    let default = of_server(model);
    model
        .php_pools
        .all()
        .iter()
        .filter_map(|pool| pool.user.as_ref().or(default.as_ref()))
        .any(|user| uid(user) == Some(server))
}

/// One for each pool.
pub fn grants(model: &Model) -> Vec<Grant> {
    let default = of_server(model);
    let pools = model.php_pools.all().iter();
    let granted = pools.filter_map(|pool| {
        let user = pool.user.as_ref().or(default.as_ref())?;
        Some(
            Spec {
                php: model.php.clone(),
                pool: pool.clone(),
                whom: Whom::Us(None),
            }
            .grant(user),
        )
    });
    granted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn names_of_users() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\nalice:x:1001:1001:A:/home/alice:/bin/sh\n";
        assert_eq!(
            (name_of(1001, passwd).as_deref(), name_of(7, passwd)),
            (Some("alice"), None)
        );
    }

    /// A folder in a home that only its owner may enter, as Debian makes homes.
    #[test]
    fn whom_a_closed_folder_wants() {
        if !is_root() {
            return;
        }
        let home = std::env::temp_dir().join(format!("saker-php-home-{}", std::process::id()));
        let site = home.join("site");
        fs::create_dir_all(&site).unwrap();
        let mode =
            |mode: u32| fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
        let usual = instead_of_root().unwrap();
        assert!(
            can_enter(&usual, &site)
                && of_folder(&site).is_none()
                && closed_to(&Php::default(), &site).is_none()
        );
        mode(0o700);
        assert!(
            !can_enter(&usual, &site) && of_folder(&site).is_none(),
            "never root"
        );
        assert!(closed_to(&Php::default(), &site).is_some());
        let games = Identity::look_up("games", None).unwrap();
        for path in [&home, &site] {
            chown(path, Some(games.uid()), Some(games.gid())).unwrap();
        }
        assert_eq!(of_folder(&site).as_deref(), Some("games"));
        assert!(
            closed_to(
                &Php {
                    user: Some("games".into()),
                    ..Php::default()
                },
                &site
            )
            .is_none()
        );
        mode(0o755);
        assert_eq!(
            of_folder(&site),
            None,
            "the one with fewer rights, where that will do"
        );
        fs::remove_dir_all(&home).unwrap();
    }
}
