//! DELETE (RFC 4918 section 9.6).
//!
//! Called by: the handler, in a job.
//! Caveat: a member that is locked by others keeps the whole collection; failures of the file
//! system keep what they concern, and the response names them.
//! Out of scope: entries of caches, which the handler reports.

use crate::{
    dead_properties::PropertyStore,
    locks::{Locks, TreeRefusal},
    multistatus::Multistatus,
    operation::{Failure, Operation, Outcome},
    reply::Reply,
    resource::Resource,
    tree::{self, Failures},
};
use saker_files::edit;
use saker_http::Status;
use saker_net::jobs::Cancel;
use saker_telemetry::{error_log, message};
use std::io;

/// Removes a file, or a collection with everything below.
///
/// # Errors
/// 404, 412, 423, 403; 403 also for a collection with protected names in it.
pub fn run(operation: &Operation, resource: &Resource, cancel: &Cancel) -> Outcome {
    let locks = operation.locks()?;
    if resource.found.is_none() {
        return match locks.has_own(&resource.path) {
            true => lock_null(operation, resource, &locks),
            false => Err(Status::NOT_FOUND.into()),
        };
    }
    operation.check_name(resource)?;
    let (parent, name) = resource.entry()?;
    operation.check_if(&locks, resource)?;
    operation.check_membership(&locks, &resource.path)?;
    if let Some(refused) = check_tree(operation, resource, &locks)? {
        return Ok(refused);
    }
    operation.check_protected(resource, cancel)?;
    let mut failures = Failures::new();
    let is_gone = match resource.own_tree() {
        Some(_) => tree::remove(parent, name, &resource.url, cancel, &mut failures),
        None => {
            edit::remove_entry(parent, name)
                .map_err(|error| Failure::of_file(&resource.path, &error))?;
            true
        }
    };
    if is_gone {
        forget(operation, resource)?;
        return Ok(Status::NO_CONTENT.into());
    }
    Ok(partial(&failures))
}

/// A lock-null resource has nothing but its lock.
fn lock_null(operation: &Operation, resource: &Resource, locks: &Locks) -> Outcome {
    operation.check_if(locks, resource)?;
    locks.check(&resource.path, &operation.claim)?;
    operation.change_locks(|locks| locks.remove_tree(&resource.path))?;
    Ok(Status::NO_CONTENT.into())
}

/// Removes what belonged to a resource that is gone: locks and properties.
///
/// # Errors
/// 500 if the locks cannot be written.
pub fn forget(operation: &Operation, resource: &Resource) -> Result<(), Failure> {
    if let (Some(parent), None) = (&resource.parent, resource.own_tree()) {
        // The next file of this name must not inherit them.
        if let Err(error) = PropertyStore::of_member(parent, &resource.name).remove() {
            log_properties(&resource.path, &error);
        }
    }
    let locks = operation.locks()?;
    let is_locked = locks.has_own(&resource.path) || locks.below(&resource.path).next().is_some();
    match is_locked {
        true => operation.change_locks(|locks| locks.remove_tree(&resource.path)),
        false => Ok(()),
    }
}

/// Logs a failure about properties, which does not undo what has been done to their file.
pub fn log_properties(path: &[u8], error: &io::Error) {
    let shown = String::from_utf8_lossy(path);
    error_log::log(
        &message::WEBDAV_FILE_FAILED,
        format_args!("{shown}: its properties: {error}"),
    );
}

/// Checks the locks of a resource and of everything below. `Some`: the response that names locked
/// members.
///
/// # Errors
/// 423, 403.
pub fn check_tree(
    operation: &Operation,
    resource: &Resource,
    locks: &Locks,
) -> Result<Option<Reply>, Status> {
    match locks.check_tree(&resource.path, &operation.claim) {
        Ok(()) => Ok(None),
        Err(TreeRefusal::Itself(status)) => Err(status),
        Err(TreeRefusal::Members(members)) => {
            let mut found = Multistatus::new();
            for (path, status) in members {
                let rest = path.get(resource.path.len()..).unwrap_or_default();
                let url = resource.url.strip_suffix(b"/").unwrap_or(&resource.url);
                found.add_status(&[url, rest].concat(), status);
            }
            // RFC 4918 section 13 has 207 for it; Apache's clients know 424.
            Ok(Some(Reply::xml(Status::FAILED_DEPENDENCY, found.finish())))
        }
    }
}

/// The response that names what could not be done.
pub fn partial(failures: &Failures) -> Reply {
    let mut found = Multistatus::new();
    for (url, status) in failures {
        found.add_status(url, *status);
    }
    Reply::xml(Status(207), found.finish())
}
