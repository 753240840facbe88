//! Grants of files, sockets, and addresses named by the configuration; everything but programs.
//!
//! Called by: `Grants`.
//! Caveat: each grant is exact; no pattern and no directory stands for what is below it. Only the
//! files that a log was renamed to have the time in their names.
//! Out of scope: opening (`open`), which checks where a path leads.

use crate::{
    grant::{Grant, Transport, refuse},
    request::{Descriptor, Request},
};
use saker_net::{privileged::Open, renamed_log::log_of};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// All grants of files and addresses, indexed.
#[derive(Debug, Default)]
pub struct FileGrants {
    logs: HashMap<PathBuf, u32>,
    reads: HashSet<PathBuf>,
    renamed_logs: HashSet<PathBuf>,
    directories: HashSet<PathBuf>,
    listens: HashSet<(SocketAddr, Transport)>,
    pub(crate) sockets: HashMap<PathBuf, u32>,
    pub(crate) pid_files: HashSet<PathBuf>,
    pub(crate) control: Option<(PathBuf, BTreeSet<u32>)>,
}

/// A request that is granted, as it is to be carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum Permit<'r> {
    Open(&'r Path, Open),
    Bind(SocketAddr),
    BindUnix(&'r Path, u32),
    RemoveSocket(&'r Path),
    RemovePidFile(&'r Path),
    PlacePidFile(&'r Path),
}

impl FileGrants {
    pub(crate) fn add(&mut self, grant: Grant) {
        match grant {
            Grant::Log { path, mode } => drop(self.logs.insert(path, mode)),
            Grant::RenamedLogs { log } => drop(self.renamed_logs.insert(log)),
            Grant::Read { path } => drop(self.reads.insert(path)),
            Grant::Directory { path } => drop(self.directories.insert(path)),
            Grant::Listen { address, transport } => drop(self.listens.insert((address, transport))),
            Grant::ListenUnix { path, mode } => drop(self.sockets.insert(path, mode)),
            Grant::PidFile { path } => drop(self.pid_files.insert(path)),
            Grant::Control { state_dir, users } => {
                self.control = Some((state_dir, users.into_iter().collect()))
            }
            Grant::Scripts { .. }
            | Grant::Homes { .. }
            | Grant::Program { .. }
            | Grant::LogProgram { .. }
            | Grant::Own { .. }
            | Grant::OwnScripts { .. }
            | Grant::OwnPrograms { .. } => {}
        }
    }

    fn is_renamed_log(&self, path: &Path) -> bool {
        log_of(path).is_some_and(|log| self.renamed_logs.contains(&log))
    }

    /// Decides on a request about files and sockets, without touching any.
    ///
    /// # Errors
    /// The refusal, for the server's log.
    pub fn permit<'r>(
        &self,
        request: &'r Request,
        descriptors: &[Descriptor],
    ) -> io::Result<Permit<'r>> {
        let not_granted = |path: &Path| {
            refuse(format!(
                "the configuration does not name {}",
                path.display()
            ))
        };
        match (request, descriptors) {
            (Request::Open { path, how }, []) => match how {
                Open::Read if self.reads.contains(path) || self.is_renamed_log(path) => {
                    Ok(Permit::Open(path, Open::Read))
                }
                Open::Directory if self.directories.contains(path) => {
                    Ok(Permit::Open(path, Open::Directory))
                }
                Open::Append { .. } => match self.logs.get(path) {
                    Some(mode) => Ok(Permit::Open(path, Open::Append { mode: *mode })),
                    None => not_granted(path),
                },
                Open::Read | Open::Directory => not_granted(path),
            },
            (Request::Bind { address }, [Descriptor::Tcp])
                if self.listens.contains(&(*address, Transport::Tcp)) =>
            {
                Ok(Permit::Bind(*address))
            }
            (Request::Bind { address }, [Descriptor::Udp])
                if self.listens.contains(&(*address, Transport::Udp)) =>
            {
                Ok(Permit::Bind(*address))
            }
            (Request::Bind { address }, [Descriptor::Tcp | Descriptor::Udp]) => {
                refuse(format!("the configuration does not listen on {address}"))
            }
            (Request::BindUnix { path, .. }, [Descriptor::UnixStream]) => {
                match self.sockets.get(path) {
                    Some(mode) => Ok(Permit::BindUnix(path, *mode)),
                    None => not_granted(path),
                }
            }
            (Request::RemoveFile { path }, []) if self.sockets.contains_key(path) => {
                Ok(Permit::RemoveSocket(path))
            }
            (Request::RemoveFile { path }, []) if self.pid_files.contains(path) => {
                Ok(Permit::RemovePidFile(path))
            }
            (Request::PlaceFile { path }, []) if self.pid_files.contains(path) => {
                Ok(Permit::PlacePidFile(path))
            }
            (Request::RemoveFile { path } | Request::PlaceFile { path }, []) => not_granted(path),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
