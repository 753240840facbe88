//! Who may be started as whom: what the configuration allows, and what suEXEC would look at.
//!
//! The starter asks before each start. A script has to lie below a folder that was granted to its user, and has to be his alone, folder and file,
//! as the Apache manual's page "suEXEC Support" lists it. Difficulty: between the look and the start a path may come to mean something else.
//! The folder is opened once, looked at by its descriptor, and the script is started from there by its bare name; whoever can change what that
//! means is the user himself.
//! Absent on purpose: who asks. The other end of the starter's socket is the server's alone.

use super::{
    order::{Order, OrderKind},
    wire::{Reader, Writer},
};
use crate::process::{Identity, home_of};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::{
    collections::HashMap,
    ffi::OsString,
    io,
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
    Scripts { user: String, group: Option<String>, root: PathBuf },
    /// Scripts of any user, by his own group, below this folder of his home.
    Homes { suffix: PathBuf },
    /// A program by its path, whoever owns it; with exactly these arguments, or with any. As root only a log program with exact ones.
    Program { user: String, group: Option<String>, file: PathBuf, arguments: Option<Vec<OsString>> },
}

/// All of them.
#[derive(Debug, Default)]
pub struct Grants {
    users: HashMap<(String, Option<String>), Vec<Grant>>,
    homes: Vec<PathBuf>,
}

/// What may be started, as whom, and where.
#[derive(Debug)]
pub struct Allowed {
    pub identity: Identity,
    /// Of a script; programs are started by their path.
    pub folder: Option<OwnedFd>,
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
                Grant::Scripts { user, group, .. } | Grant::Program { user, group, .. } => (user.clone(), group.clone()),
            };
            grants.users.entry(key).or_default().push(grant);
        }
        grants
    }

    /// The error is for the server's log.
    pub fn allow(&self, order: &Order) -> io::Result<Allowed> {
        let identity = Identity::look_up(&order.user, order.group.as_deref())?;
        match order.kind {
            OrderKind::Program if identity.uid() == 0 => refuse(format!("{} as root", order.file.display())),
            OrderKind::Program | OrderKind::LogProgram => self.program(order, identity),
            OrderKind::Script => self.script(order, identity),
        }
    }

    fn program(&self, order: &Order, identity: Identity) -> io::Result<Allowed> {
        let is_granted = self.of(order).any(|grant| match grant {
            Grant::Program { file, arguments, .. } => {
                *file == order.file && arguments.as_ref().map_or(order.kind == OrderKind::Program, |exact| *exact == order.arguments)
            }
            _ => false,
        });
        match is_granted {
            true => Ok(Allowed { identity, folder: None }),
            false => refuse(format!("the configuration does not have {} run as {}", order.file.display(), order.user)),
        }
    }

    fn script(&self, order: &Order, identity: Identity) -> io::Result<Allowed> {
        if identity.uid() < ID_MIN || identity.gid() < ID_MIN {
            return refuse(format!("cannot run as forbidden uid or gid ({}/{})", identity.uid(), identity.gid()));
        }
        let (folder, path) = open_folder(&order.file)?;
        if !self.roots(order).iter().any(|root| std::fs::canonicalize(root).is_ok_and(|root| path.starts_with(root))) {
            return refuse(format!("command not in docroot of {} ({})", order.user, order.file.display()));
        }
        check_folder(&fstat(&folder)?, &identity, &path)?;
        let name = order.file.file_name().unwrap_or_default();
        check_file(&statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?, &identity, &order.file)?;
        Ok(Allowed { identity, folder: Some(folder) })
    }

    fn of(&self, order: &Order) -> impl Iterator<Item = &Grant> {
        self.users.get(&(order.user.clone(), order.group.clone())).into_iter().flatten()
    }

    fn roots(&self, order: &Order) -> Vec<PathBuf> {
        let granted = self.of(order).filter_map(|grant| match grant {
            Grant::Scripts { root, .. } => Some(root.clone()),
            _ => None,
        });
        let home = (order.group.is_none() && !self.homes.is_empty()).then(|| home_of(&order.user).ok().flatten()).flatten();
        let below_home = home.iter().flat_map(|home| self.homes.iter().map(|suffix| home.join(suffix)));
        granted.chain(below_home).collect()
    }
}

/// The folder of a file, and its own name without links.
fn open_folder(file: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    if !file.is_absolute() || file.components().any(|part| part == Component::ParentDir) {
        return refuse(format!("invalid command ({})", file.display()));
    }
    let parent = file.parent().unwrap_or(Path::new("/"));
    let folder = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    Ok((folder, path))
}

fn check_folder(found: &Stat, identity: &Identity, path: &Path) -> io::Result<()> {
    if found.st_mode & WRITABLE_BY_OTHERS != 0 {
        return refuse(format!("directory is writable by others: ({})", path.display()));
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

fn refuse<T>(reason: String) -> io::Result<T> {
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
            Grant::Program { user, group, file, arguments } => {
                writer.number(if arguments.is_some() { 3 } else { 2 });
                whom(writer, user, group.as_deref());
                writer.text(file.as_os_str().as_bytes());
                writer.list(arguments.as_deref().unwrap_or_default(), |writer, argument| writer.text(argument.as_bytes()));
            }
        });
        writer.0
    }

    pub fn decode(message: &[u8]) -> io::Result<Vec<Grant>> {
        Reader(message).list(|reader| {
            let kind = reader.number()?;
            if kind == 1 {
                return Ok(Grant::Homes { suffix: path(reader.text()?) });
            }
            let user = reader.string()?;
            let group = reader.optional()?.map(|group| String::from_utf8_lossy(group).into_owned());
            let at = path(reader.text()?);
            if kind == 0 {
                return Ok(Grant::Scripts { user, group, root: at });
            }
            let arguments = reader.list(|reader| Ok(OsString::from_vec(reader.text()?.to_vec())))?;
            Ok(Grant::Program { user, group, file: at, arguments: Some(arguments).filter(|_| kind == 3) })
        })
    }
}

fn whom(writer: &mut Writer, user: &str, group: Option<&str>) {
    writer.text(user.as_bytes());
    writer.optional(group.map(str::as_bytes));
}

fn path(text: &[u8]) -> PathBuf {
    OsString::from_vec(text.to_vec()).into()
}
