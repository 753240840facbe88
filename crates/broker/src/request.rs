//! The requests that a broker gets, and the grants that allow them.
//!
//! | request        | granted by                                     | checked besides                                                          |
//! | -------------- | ---------------------------------------------- | ------------------------------------------------------------------------ |
//! | `FirstGrants`  | being the first message; the server is root    | comes once                                                               |
//! | `Spawn`        | a grant of the program, the script's folder …  | not root but for log programs; suEXEC's checks; arguments, environment   |
//! | `Open`         | `Read`, `Log` or `Directory` of that very path | who decides what the path leads to (`open`); a log's mode is the grant's |
//! |                | `RenamedLogs`: a log's path, a dot, a time     | the same; for reading alone                                              |
//! | `Bind`         | `Listen` of that address and protocol          | one descriptor, a TCP or UDP socket of IPv4 or IPv6                      |
//! | `BindUnix`     | `ListenUnix` of that path                      | one descriptor, a Unix stream socket; only root writes to the directory  |
//! | `RemoveFile`   | a `ListenUnix` or `PidFile` so far             | a socket; a PidFile with the server's number in it                       |
//! | `PlaceFile`    | a `PidFile`                                    | a file beside it with the server's number in it                          |
//! | `PrepareGrants`| none is needed                                 | the configuration is read by a process of the broker's; replaces pending |
//! | `CommitGrants` | none is needed                                 | pending grants are there                                                 |
//! | `DiscardGrants`| none is needed                                 |                                                                          |
//!
//! Called by: both ends. Caveat: paths are compared as they are written, never resolved, before
//! anything is opened. Out of scope: doing it (`serve`).

use crate::{grant::Grant, spawn_request::SpawnRequest};
use saker_net::{
    privileged::Open,
    wire::{Reader, Writer},
};
use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// A message of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    FirstGrants(Vec<Grant>),
    Spawn(Box<SpawnRequest>),
    Open { path: PathBuf, how: Open },
    Bind { address: SocketAddr },
    BindUnix { path: PathBuf, mode: u32 },
    RemoveFile { path: PathBuf },
    PlaceFile { path: PathBuf },
    PrepareGrants,
    CommitGrants,
    DiscardGrants,
}

/// Kind of an attached descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    Tcp,
    Udp,
    UnixStream,
    Other,
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Request::FirstGrants(grants) => {
                writer.number(0);
                writer.text(&Grant::encode(grants));
            }
            Request::Spawn(request) => {
                writer.number(1);
                writer.text(&request.encode());
            }
            Request::Open { path, how } => {
                let (how, mode) = match how {
                    Open::Read => (0, 0),
                    Open::Append { mode } => (1, *mode),
                    Open::Directory => (2, 0),
                };
                [2, how, u64::from(mode)]
                    .into_iter()
                    .for_each(|number| writer.number(number));
                writer.text(path.as_os_str().as_bytes());
            }
            Request::Bind { address } => {
                writer.number(3);
                writer.text(address.to_string().as_bytes());
            }
            Request::BindUnix { path, mode } => {
                writer.number(4);
                writer.number(u64::from(*mode));
                writer.text(path.as_os_str().as_bytes());
            }
            Request::RemoveFile { path } => {
                writer.number(5);
                writer.text(path.as_os_str().as_bytes());
            }
            Request::PlaceFile { path } => {
                writer.number(9);
                writer.text(path.as_os_str().as_bytes());
            }
            Request::PrepareGrants => writer.number(6),
            Request::CommitGrants => writer.number(7),
            Request::DiscardGrants => writer.number(8),
        }
        writer.0
    }

    /// # Errors
    /// Anything but one whole request; paths are absolute and without NUL.
    pub fn decode(message: &[u8]) -> io::Result<Request> {
        let mut reader = Reader(message);
        let request = match reader.number()? {
            0 => Request::FirstGrants(Grant::decode(reader.text()?)?),
            1 => Request::Spawn(Box::new(SpawnRequest::decode(reader.text()?)?)),
            2 => {
                let how = match (reader.number()?, mode(&mut reader)?) {
                    (0, 0) => Open::Read,
                    (1, mode) => Open::Append { mode },
                    (2, 0) => Open::Directory,
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                };
                Request::Open {
                    path: path(&mut reader)?,
                    how,
                }
            }
            3 => Request::Bind {
                address: reader.string()?.parse().map_err(io::Error::other)?,
            },
            4 => Request::BindUnix {
                mode: mode(&mut reader)?,
                path: path(&mut reader)?,
            },
            5 => Request::RemoveFile {
                path: path(&mut reader)?,
            },
            6 => Request::PrepareGrants,
            7 => Request::CommitGrants,
            8 => Request::DiscardGrants,
            9 => Request::PlaceFile {
                path: path(&mut reader)?,
            },
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        reader.end().map(|()| request)
    }
}

fn mode(reader: &mut Reader<'_>) -> io::Result<u32> {
    u32::try_from(reader.number()?)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn path(reader: &mut Reader<'_>) -> io::Result<PathBuf> {
    let text = reader.text()?;
    let path = Path::new(std::ffi::OsStr::from_bytes(text));
    match path.is_absolute() && !text.contains(&0) {
        true => Ok(OsString::from_vec(text.to_vec()).into()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}
