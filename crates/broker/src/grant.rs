//! One permission of the configuration, and its encoding on the broker's socket.
//!
//! Called by: the server, which derives grants from its configuration; `request`, which carries
//! them; `grants` and `file_grants`, which decide by them.
//! Out of scope: decisions.

use saker_net::wire::{Reader, Writer};
use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// The protocol of a listening address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    Tcp,
    Udp,
}

/// A permission: a program, a file, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Scripts of a user below a folder.
    Scripts {
        user: String,
        group: Option<String>,
        root: PathBuf,
    },
    /// Scripts of any user, run with the user's own group, below this directory of the user's home.
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
    /// The user that the server has switched to. Starts nothing by itself.
    Own {
        user: String,
        group: Option<String>,
    },
    /// Scripts as that user, without access to the server's protected files: below a folder (a part
    /// of its path with a percent sign stands for any name), with these variables beside those of
    /// the request. Values may be patterns.
    OwnScripts {
        user: String,
        group: Option<String>,
        root: PathBuf,
        follows_links: bool,
        environment: Vec<(OsString, OsString)>,
    },
    /// Any program as that user: the server's rules may name any, and it is not confined.
    OwnPrograms {
        user: String,
        group: Option<String>,
    },
    /// A log that is opened for appending, and made with this mode.
    Log {
        path: PathBuf,
        mode: u32,
    },
    /// Files that the server's own rotation has renamed this log to, for compressing them.
    RenamedLogs {
        log: PathBuf,
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

impl Grant {
    /// Encodes a list of grants for the broker.
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
            Grant::OwnScripts {
                user,
                group,
                root,
                follows_links,
                environment,
            } => {
                writer.number(14);
                whom(writer, user, group.as_deref());
                writer.text(root.as_os_str().as_bytes());
                writer.number(u64::from(*follows_links));
                writer.pairs(environment);
            }
            Grant::OwnPrograms { user, group } => {
                writer.number(15);
                whom(writer, user, group.as_deref());
            }
            Grant::Log { path, mode } => file(writer, 5, path, *mode),
            Grant::Read { path } => file(writer, 6, path, 0),
            Grant::Directory { path } => file(writer, 7, path, 0),
            Grant::ListenUnix { path, mode } => file(writer, 8, path, *mode),
            Grant::PidFile { path } => file(writer, 9, path, 0),
            Grant::RenamedLogs { log } => file(writer, 13, log, 0),
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
            1 => Ok(Grant::Homes {
                suffix: path(reader.text()?),
            }),
            3 => Ok(Grant::LogProgram {
                file: path(reader.text()?),
                arguments: reader.texts()?,
            }),
            5..=9 | 13 => {
                let mode = u32::try_from(reader.number()?).map_err(io::Error::other)?;
                let path = path(reader.text()?);
                Ok(match kind {
                    5 => Grant::Log { path, mode },
                    6 => Grant::Read { path },
                    7 => Grant::Directory { path },
                    8 => Grant::ListenUnix { path, mode },
                    13 => Grant::RenamedLogs { log: path },
                    _ => Grant::PidFile { path },
                })
            }
            10 | 11 => {
                let transport = if kind == 10 {
                    Transport::Tcp
                } else {
                    Transport::Udp
                };
                Ok(Grant::Listen {
                    address: reader.string()?.parse().map_err(io::Error::other)?,
                    transport,
                })
            }
            12 => {
                let state_dir = path(reader.text()?);
                let users = reader
                    .list(|reader| u32::try_from(reader.number()?).map_err(io::Error::other))?;
                Ok(Grant::Control { state_dir, users })
            }
            _ => Grant::read_of_user(kind, reader),
        }
    }

    /// Reads a grant that begins with a user.
    fn read_of_user(kind: u64, reader: &mut Reader<'_>) -> io::Result<Grant> {
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
            14 => Ok(Grant::OwnScripts {
                user,
                group,
                root: path(reader.text()?),
                follows_links: match reader.number()? {
                    0 => false,
                    1 => true,
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                },
                environment: reader.pairs()?,
            }),
            15 => Ok(Grant::OwnPrograms { user, group }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Refuses a request, with the reason for the server's log.
pub(crate) fn refuse<T>(reason: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
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
