//! What the configuration allows: programs as users, with suEXEC's checks, and files and addresses
//! (`file_grants`).
//!
//! Asked before each request is carried out. A script has to lie below a folder that was granted to
//! its user, and has to be his alone, folder and file, as the Apache manual's page "suEXEC Support"
//! lists it. Difficulty: between the look and the start a path may come to mean something else. The
//! folder is opened once, looked at by its descriptor, and the script is started from there by its
//! bare name; whoever can change what that means is the user himself. A program has the arguments
//! and the environment of its grant, and inherits as many descriptors as they name; nothing else is
//! started. Out of scope: who asks. The other end of the broker's socket is the server's alone.

use crate::{
    file_grants::{FileGrants, Transport},
    spawn_request::{SpawnKind, SpawnRequest, descriptors_named, matches},
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use saker_net::{
    process::{Identity, home_of},
    wire::{Reader, Writer},
};
use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    net::SocketAddr,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Component, Path, PathBuf},
};

/// Below are accounts of the system (AP_UID_MIN and AP_GID_MIN of most builds of suEXEC).
const ID_MIN: u32 = 100;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const SET_ID: u32 = 0o6000;
const EXECUTABLE_BY_OWNER: u32 = 0o100;

/// One thing that may be started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Scripts of a user below a folder.
    Scripts {
        user: String,
        group: Option<String>,
        root: PathBuf,
    },
    /// Scripts of any user, by his own group, below this folder of his home.
    Homes {
        suffix: PathBuf,
    },
    /// A program by its path, with these arguments and no variables but these, which may be
    /// patterns (`any_number`, `descriptor`). Never as root.
    Program {
        user: String,
        group: Option<String>,
        file: PathBuf,
        arguments: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
    },
    /// A log program with exactly these arguments, as root.
    LogProgram {
        file: PathBuf,
        arguments: Vec<OsString>,
    },
    /// Any program as the user that the server itself has become, but without what the server keeps
    /// from that user.
    Own {
        user: String,
        group: Option<String>,
    },
    /// A log that is opened for appending, and made with this mode.
    Log {
        path: PathBuf,
        mode: u32,
    },
    /// A file that the server reads: configuration, certificate, key …
    Read {
        path: PathBuf,
    },
    /// A directory whose names the server reads.
    Directory {
        path: PathBuf,
    },
    Listen {
        address: SocketAddr,
        transport: Transport,
    },
    ListenUnix {
        path: PathBuf,
        mode: u32,
    },
    /// A file that is removed at the server's end.
    PidFile {
        path: PathBuf,
    },
    /// The state directory, and users who may reach the control socket in it.
    Control {
        state_dir: PathBuf,
        users: Vec<u32>,
    },
}

/// All of them.
#[derive(Debug, Default)]
pub struct Grants {
    users: HashMap<(String, Option<String>), Vec<Grant>>,
    homes: Vec<PathBuf>,
    log_programs: Vec<(PathBuf, Vec<OsString>)>,
    /// The user that the server has become.
    own: Option<u32>,
    pub files: FileGrants,
}

/// What may be started, as whom, and where.
#[derive(Debug)]
pub struct Allowed {
    pub identity: Identity,
    /// Of a script; programs are started by their path.
    pub folder: Option<OwnedFd>,
    /// Descriptors that it inherits besides its standard ones.
    pub inherited: usize,
    /// It has processes of its own alone to signal, because it runs as the server's user.
    pub is_apart: bool,
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
                Grant::Scripts { user, group, .. } | Grant::Program { user, group, .. } => {
                    (user.clone(), group.clone())
                }
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
            }),
            false => refuse(format!(
                "the configuration does not have {} as a log program",
                request.file.display()
            )),
        }
    }

    fn own_program(&self, request: &SpawnRequest, identity: Identity) -> io::Result<Allowed> {
        match self
            .of(request)
            .any(|grant| matches!(grant, Grant::Own { .. }))
            && self.own == Some(identity.uid())
        {
            true => Ok(Allowed {
                identity,
                folder: None,
                inherited: 0,
                is_apart: false,
            }),
            false => refuse(format!("user {} is not the server's", request.user)),
        }
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

pub(crate) fn refuse<T>(reason: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

impl Grant {
    /// A list of them as it goes from process to process.
    pub fn encode(all: &[Grant]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.list(all, |writer, grant| match grant {
            Grant::Scripts { user, group, root } => {
                writer.number(0);
                whom(writer, user, group.as_deref());
                writer.text(root.as_os_str().as_bytes());
            }
            Grant::Homes { suffix } => {
                writer.number(1);
                writer.text(suffix.as_os_str().as_bytes());
            }
            Grant::Program {
                user,
                group,
                file,
                arguments,
                environment,
            } => {
                writer.number(2);
                whom(writer, user, group.as_deref());
                writer.text(file.as_os_str().as_bytes());
                writer.texts(arguments);
                writer.pairs(environment);
            }
            Grant::LogProgram { file, arguments } => {
                writer.number(3);
                writer.text(file.as_os_str().as_bytes());
                writer.texts(arguments);
            }
            Grant::Own { user, group } => {
                writer.number(4);
                whom(writer, user, group.as_deref());
            }
            Grant::Log { path, mode } => file(writer, 5, path, *mode),
            Grant::Read { path } => file(writer, 6, path, 0),
            Grant::Directory { path } => file(writer, 7, path, 0),
            Grant::ListenUnix { path, mode } => file(writer, 8, path, *mode),
            Grant::PidFile { path } => file(writer, 9, path, 0),
            Grant::Control { state_dir, users } => {
                writer.number(12);
                writer.text(state_dir.as_os_str().as_bytes());
                writer.list(users, |writer, user| writer.number(u64::from(*user)));
            }
            Grant::Listen { address, transport } => {
                writer.number(10 + u64::from(*transport == Transport::Udp));
                writer.text(address.to_string().as_bytes());
            }
        });
        writer.0
    }

    pub fn decode(message: &[u8]) -> io::Result<Vec<Grant>> {
        let mut reader = Reader(message);
        let all = reader.list(Grant::read)?;
        reader.end().map(|()| all)
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Grant> {
        let kind = reader.number()?;
        match kind {
            1 => {
                return Ok(Grant::Homes {
                    suffix: path(reader.text()?),
                });
            }
            3 => {
                return Ok(Grant::LogProgram {
                    file: path(reader.text()?),
                    arguments: reader.texts()?,
                });
            }
            5..=9 => {
                let mode = u32::try_from(reader.number()?).map_err(io::Error::other)?;
                let path = path(reader.text()?);
                return Ok(match kind {
                    5 => Grant::Log { path, mode },
                    6 => Grant::Read { path },
                    7 => Grant::Directory { path },
                    8 => Grant::ListenUnix { path, mode },
                    _ => Grant::PidFile { path },
                });
            }
            10 | 11 => {
                let transport = if kind == 10 {
                    Transport::Tcp
                } else {
                    Transport::Udp
                };
                return Ok(Grant::Listen {
                    address: reader.string()?.parse().map_err(io::Error::other)?,
                    transport,
                });
            }
            12 => {
                let state_dir = path(reader.text()?);
                let users = reader
                    .list(|reader| u32::try_from(reader.number()?).map_err(io::Error::other))?;
                return Ok(Grant::Control { state_dir, users });
            }
            _ => {}
        }
        let user = reader.string()?;
        let group = reader.optional_string()?;
        match kind {
            0 => Ok(Grant::Scripts {
                user,
                group,
                root: path(reader.text()?),
            }),
            2 => Ok(Grant::Program {
                user,
                group,
                file: path(reader.text()?),
                arguments: reader.texts()?,
                environment: reader.pairs()?,
            }),
            4 => Ok(Grant::Own { user, group }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn file(writer: &mut Writer, kind: u64, path: &Path, mode: u32) {
    writer.number(kind);
    writer.number(u64::from(mode));
    writer.text(path.as_os_str().as_bytes());
}

fn whom(writer: &mut Writer, user: &str, group: Option<&str>) {
    writer.text(user.as_bytes());
    writer.optional(group.map(str::as_bytes));
}

fn path(text: &[u8]) -> PathBuf {
    OsString::from_vec(text.to_vec()).into()
}
