//! Grants, derived from the configuration: programs as users, with suEXEC's checks, and files and
//! addresses (`file_grants`).
//!
//! Called by: the loop, before each request is carried out. A script has to lie below a directory
//! that was granted to its user, and script and directory must belong to that user alone, as the
//! page "suEXEC Support" of the Apache manual lists it. A program gets the arguments and the
//! environment of its grant, and inherits as many descriptors as they name; nothing else is
//! started.
//! Caveat: a path may come to mean something else between check and start. So the directory is
//! opened once and checked by its descriptor, and the script is started from there by its bare
//! name; only the user could change what that means.
//! Out of scope: authentication. The other end of the broker's socket is the server's alone.

use crate::{
    file_grants::FileGrants,
    grant::{Grant, refuse},
    own_scripts::OwnScripts,
    spawn_request::{SpawnKind, SpawnRequest, descriptors_named, matches},
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use saker_net::process::{Identity, home_of};
use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

/// Below are accounts of the system (AP_UID_MIN and AP_GID_MIN of most builds of suEXEC).
const ID_MIN: u32 = 100;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const SET_ID: u32 = 0o6000;
const EXECUTABLE_BY_OWNER: u32 = 0o100;

/// All grants of a configuration.
#[derive(Debug, Default)]
pub struct Grants {
    users: HashMap<(String, Option<String>), Vec<Grant>>,
    homes: Vec<PathBuf>,
    log_programs: Vec<(PathBuf, Vec<OsString>)>,
    /// The user that the server has become.
    own: Option<u32>,
    pub files: FileGrants,
}

/// A granted program: its user and its directory.
#[derive(Debug)]
pub struct Allowed {
    pub identity: Identity,
    /// Directory of a script; programs are started by their path.
    pub folder: Option<OwnedFd>,
    /// Number of inherited descriptors in addition to the standard ones.
    pub inherited: usize,
    /// Its processes are isolated (they can signal only each other), because it runs as the
    /// server's user.
    pub is_apart: bool,
    /// In the place of the request's.
    pub environment: Option<Vec<(OsString, OsString)>>,
}

impl Grants {
    pub fn new(all: Vec<Grant>) -> Grants {
        let mut grants = Grants::default();
        for grant in all {
            let key = match &grant {
                Grant::Homes { suffix } => {
                    grants.homes.push(suffix.clone());
                    continue;
                }
                Grant::LogProgram { file, arguments } => {
                    grants.log_programs.push((file.clone(), arguments.clone()));
                    continue;
                }
                Grant::Own { user, group } => {
                    grants.own = Identity::look_up(user, group.as_deref())
                        .ok()
                        .map(|identity| identity.uid());
                    (user.clone(), group.clone())
                }
                Grant::Scripts { user, group, .. }
                | Grant::Program { user, group, .. }
                | Grant::OwnScripts { user, group, .. }
                | Grant::OwnPrograms { user, group } => (user.clone(), group.clone()),
                _ => {
                    grants.files.add(grant);
                    continue;
                }
            };
            grants.users.entry(key).or_default().push(grant);
        }
        grants
    }

    /// The error is for the server's log.
    pub fn allow(&self, request: &SpawnRequest) -> io::Result<Allowed> {
        let identity = Identity::look_up(&request.user, request.group.as_deref())?;
        match request.kind {
            SpawnKind::LogProgram => self.log_program(request, identity),
            _ if identity.uid() == 0 => refuse(format!("{} as root", request.file.display())),
            SpawnKind::Program => self.program(request, identity),
            SpawnKind::Own => self.own_program(request, identity),
            SpawnKind::Script => self.script(request, identity),
        }
    }

    fn program(&self, request: &SpawnRequest, identity: Identity) -> io::Result<Allowed> {
        let granted = self.of(request).find_map(|grant| match grant {
            Grant::Program {
                file,
                arguments,
                environment,
                ..
            } if *file == request.file => {
                let is_as_granted = are_granted(&request.arguments, arguments)
                    && is_part_of(&request.environment, environment);
                is_as_granted.then(|| {
                    descriptors_named(
                        arguments
                            .iter()
                            .chain(environment.iter().map(|(_, value)| value)),
                    )
                })
            }
            _ => None,
        });
        match granted {
            Some(inherited) => Ok(Allowed {
                is_apart: self.own == Some(identity.uid()),
                identity,
                folder: None,
                inherited,
                environment: None,
            }),
            None => refuse(format!(
                "the configuration does not have {} run so as {}",
                request.file.display(),
                request.user
            )),
        }
    }

    fn log_program(&self, request: &SpawnRequest, identity: Identity) -> io::Result<Allowed> {
        let is_granted = self
            .log_programs
            .iter()
            .any(|(file, arguments)| *file == request.file && *arguments == request.arguments);
        match is_granted && identity.uid() == 0 {
            true => Ok(Allowed {
                identity,
                folder: None,
                inherited: 0,
                is_apart: false,
                environment: None,
            }),
            false => refuse(format!(
                "the configuration does not have {} as a log program",
                request.file.display()
            )),
        }
    }

    fn own_program(&self, request: &SpawnRequest, identity: Identity) -> io::Result<Allowed> {
        if self.own != Some(identity.uid()) {
            return refuse(format!("user {} is not the server's", request.user));
        }
        let mut outcome = refuse(format!(
            "the configuration has no programs of the server's user ({})",
            request.file.display()
        ));
        for grant in self.of(request) {
            let allowed = match grant {
                Grant::OwnPrograms { .. } => Ok(None),
                Grant::OwnScripts {
                    root,
                    follows_links,
                    environment,
                    ..
                } => {
                    let scripts = OwnScripts {
                        root,
                        follows_links: *follows_links,
                        environment,
                    };
                    scripts.allow(request).map(Some)
                }
                _ => continue,
            };
            outcome = allowed;
            if outcome.is_ok() {
                break;
            }
        }
        outcome.map(|environment| Allowed {
            identity,
            folder: None,
            inherited: 0,
            is_apart: false,
            environment,
        })
    }

    fn script(&self, request: &SpawnRequest, identity: Identity) -> io::Result<Allowed> {
        if identity.uid() < ID_MIN || identity.gid() < ID_MIN {
            return refuse(format!(
                "cannot run as forbidden uid or gid ({}/{})",
                identity.uid(),
                identity.gid()
            ));
        }
        let (folder, path) = open_folder(&request.file)?;
        if !self
            .roots(request)
            .iter()
            .any(|root| std::fs::canonicalize(root).is_ok_and(|root| path.starts_with(root)))
        {
            return refuse(format!(
                "command not in docroot of {} ({})",
                request.user,
                request.file.display()
            ));
        }
        check_folder(&fstat(&folder)?, &identity, &path)?;
        let name = request.file.file_name().unwrap_or_default();
        check_file(
            &statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?,
            &identity,
            &request.file,
        )?;
        Ok(Allowed {
            identity,
            folder: Some(folder),
            inherited: 0,
            is_apart: false,
            environment: None,
        })
    }

    fn of(&self, request: &SpawnRequest) -> impl Iterator<Item = &Grant> {
        self.users
            .get(&(request.user.clone(), request.group.clone()))
            .into_iter()
            .flatten()
    }

    fn roots(&self, request: &SpawnRequest) -> Vec<PathBuf> {
        let granted = self.of(request).filter_map(|grant| match grant {
            Grant::Scripts { root, .. } => Some(root.clone()),
            _ => None,
        });
        let home = (request.group.is_none() && !self.homes.is_empty())
            .then(|| home_of(&request.user).ok().flatten())
            .flatten();
        let below_home = home
            .iter()
            .flat_map(|home| self.homes.iter().map(|suffix| home.join(suffix)));
        granted.chain(below_home).collect()
    }
}

fn are_granted(arguments: &[OsString], granted: &[OsString]) -> bool {
    arguments.len() == granted.len()
        && granted
            .iter()
            .zip(arguments)
            .all(|(pattern, argument)| matches(pattern, argument))
}

/// Each variable once, and as granted. One may be missing.
fn is_part_of(environment: &[(OsString, OsString)], granted: &[(OsString, OsString)]) -> bool {
    environment
        .iter()
        .enumerate()
        .all(|(place, (name, value))| {
            let is_first = environment
                .iter()
                .take(place)
                .all(|(before, _)| before != name);
            is_first
                && granted
                    .iter()
                    .any(|(known, pattern)| known == name && matches(pattern, value))
        })
}

/// The folder of a file, and its own name without links.
fn open_folder(file: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    if !file.is_absolute() || file.components().any(|part| part == Component::ParentDir) {
        return refuse(format!("invalid command ({})", file.display()));
    }
    let parent = file.parent().unwrap_or(Path::new("/"));
    let folder = openat(
        CWD,
        parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    Ok((folder, path))
}

fn check_folder(found: &Stat, identity: &Identity, path: &Path) -> io::Result<()> {
    if found.st_mode & WRITABLE_BY_OTHERS != 0 {
        return refuse(format!(
            "directory is writable by others: ({})",
            path.display()
        ));
    }
    check_owner(found, identity, path)
}

fn check_file(found: &Stat, identity: &Identity, path: &Path) -> io::Result<()> {
    let shown = path.display();
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return refuse(format!("cannot stat program: ({shown})"));
    }
    if found.st_mode & WRITABLE_BY_OTHERS != 0 {
        return refuse(format!("file is writable by others: ({shown})"));
    }
    if found.st_mode & SET_ID != 0 {
        return refuse(format!("file is either setuid or setgid: ({shown})"));
    }
    if found.st_mode & EXECUTABLE_BY_OWNER == 0 {
        return refuse(format!("file has no execute permission: ({shown})"));
    }
    check_owner(found, identity, path)
}

fn check_owner(found: &Stat, identity: &Identity, path: &Path) -> io::Result<()> {
    match found.st_uid == identity.uid() && found.st_gid == identity.gid() {
        true => Ok(()),
        false => refuse(format!(
            "target uid/gid ({}/{}) mismatch with {} ({}/{})",
            identity.uid(),
            identity.gid(),
            path.display(),
            found.st_uid,
            found.st_gid
        )),
    }
}
