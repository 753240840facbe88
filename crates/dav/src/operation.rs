//! The part that all operations share: settings, the client's claim to locks, and preconditions.
//!
//! Called by: the methods, in their jobs.
//! Caveat: everything here can go to another thread.
//! Out of scope: the operations.

use crate::{
    if_header::{IfHeader, ResourceState},
    lock_database::LockDatabase,
    locks::{Claim, Locks},
    names,
    reply::{Reply, status_of},
    resource::{Resource, parent_of},
    tree,
};
use rustix::fs::lstat;
use saker_config::model::{Settings, WebDav};
use saker_files::{Kind, Metadata};
use saker_http::Status;
use saker_net::jobs::Cancel;
use saker_static_files::{entity_tag, names::content_type};
use saker_telemetry::message::{self, Message};
use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::SystemTime};

/// A request's settings and claims.
#[derive(Clone, Debug)]
pub struct Operation {
    pub webdav: Arc<WebDav>,
    pub settings: Arc<Settings>,
    pub database: LockDatabase,
    pub if_header: Option<IfHeader>,
    pub claim: Claim,
    /// Seconds since the epoch.
    pub now_s: i64,
    /// The time that the request gives the file that it uploads.
    pub modified: Option<SystemTime>,
    /// `http://host:port`, for locations.
    pub origin: Vec<u8>,
}

/// Reason why an operation has no result.
#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    /// For the error log.
    pub log: Option<(&'static Message, String)>,
}

pub type Outcome = Result<Reply, Failure>;

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure { status, log: None }
    }
}

impl Failure {
    /// The failure of a file operation; those that are not the client's business are logged.
    pub fn of_file(path: &[u8], error: &io::Error) -> Failure {
        let status = status_of(error);
        let shown = String::from_utf8_lossy(path);
        let is_logged = status.0 >= 500 || error.kind() == io::ErrorKind::PermissionDenied;
        Failure {
            status,
            log: is_logged.then(|| (&message::WEBDAV_FILE_FAILED, format!("{shown}: {error}"))),
        }
    }
}

impl Operation {
    /// Reads the locks.
    ///
    /// # Errors
    /// 500 if they cannot be read: changes are then refused.
    pub fn locks(&self) -> Result<Locks, Failure> {
        self.database
            .read(self.now_s)
            .map_err(|error| self.database_failure(&error))
    }

    /// Changes the locks.
    ///
    /// # Errors
    /// 500 if they cannot be read or written, 507 if they don't fit.
    pub fn change_locks<T>(&self, change: impl FnOnce(&mut Locks) -> T) -> Result<T, Failure> {
        self.database
            .change(self.now_s, change)
            .map_err(|error| self.database_failure(&error))
    }

    fn database_failure(&self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::FileTooLarge {
            return Status::INSUFFICIENT_STORAGE.into();
        }
        let file = self.database.file().display();
        Failure {
            status: Status::INTERNAL_SERVER_ERROR,
            log: Some((&message::WEBDAV_LOCKS_UNUSABLE, format!("{file}: {error}"))),
        }
    }

    /// Evaluates the field `If`.
    ///
    /// # Errors
    /// 412 if it does not hold.
    pub fn check_if(&self, locks: &Locks, resource: &Resource) -> Result<(), Status> {
        let Some(header) = &self.if_header else {
            return Ok(());
        };
        let state_of = |url: Option<&[u8]>| match url {
            None => self.state(locks, &resource.path, own_metadata(resource)),
            Some(url) => match resource.path_of(url) {
                Some(path) if path == resource.path => {
                    self.state(locks, &path, own_metadata(resource))
                }
                Some(path) => {
                    let name = Path::new(OsStr::from_bytes(&path));
                    let metadata = lstat(name).ok().map(|stat| Metadata::from(&stat));
                    self.state(locks, &path, metadata)
                }
                None => ResourceState::default(),
            },
        };
        match header.holds(state_of) {
            true => Ok(()),
            false => Err(Status::PRECONDITION_FAILED),
        }
    }

    fn state(&self, locks: &Locks, path: &[u8], metadata: Option<Metadata>) -> ResourceState {
        ResourceState {
            tokens: locks.on(path).map(|lock| lock.token.clone()).collect(),
            entity_tag: metadata
                .and_then(|metadata| entity_tag(&self.settings, &metadata, self.now_s)),
        }
    }

    /// Checks whether the resource may be changed, and its collection if it is new.
    ///
    /// # Errors
    /// 412, 423, 403.
    pub fn check_write(&self, locks: &Locks, resource: &Resource) -> Result<(), Status> {
        locks.check(&resource.path, &self.claim)?;
        match resource.found.is_none() {
            true => locks.check(resource.parent_path(), &self.claim),
            false => Ok(()),
        }
    }

    /// Checks whether a member may be added to or removed from its collection.
    ///
    /// # Errors
    /// 423, 403.
    pub fn check_membership(&self, locks: &Locks, path: &[u8]) -> Result<(), Status> {
        locks.check(parent_of(path), &self.claim)
    }

    /// Refuses names that clients may not write.
    ///
    /// # Errors
    /// 403.
    pub fn check_name(&self, resource: &Resource) -> Result<(), Status> {
        match names::is_protected(&self.webdav, &resource.name) {
            true => Err(Status::FORBIDDEN),
            false => Ok(()),
        }
    }

    /// Refuses that a collection which has such names in it is removed, or copied without them.
    ///
    /// # Errors
    /// 403; those of reading the collection.
    pub fn check_protected(&self, resource: &Resource, cancel: &Cancel) -> Result<(), Failure> {
        let Some(directory) = resource.own_tree() else {
            return Ok(());
        };
        match tree::has_protected(directory, &self.webdav, cancel) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Status::FORBIDDEN.into()),
            Err(error) => Err(Failure::of_file(&resource.path, &error)),
        }
    }

    /// Returns the Content-Type that a GET of the file has.
    pub fn content_type(&self, name: &[u8], kind: Option<Kind>) -> Option<String> {
        if kind == Some(Kind::Directory) {
            return Some("httpd/unix-directory".to_owned());
        }
        if let Some(types) = &self.webdav.types {
            return types.of(name);
        }
        let found = content_type(&self.settings.files, name)?;
        Some(String::from_utf8_lossy(&found).into_owned())
    }
}

fn own_metadata(resource: &Resource) -> Option<Metadata> {
    resource.found.as_ref().map(|found| found.metadata)
}
