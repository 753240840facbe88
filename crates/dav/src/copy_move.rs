//! COPY and MOVE (RFC 4918 sections 9.8 and 9.9).
//!
//! Called by: the handler, in a job.
//! Caveat: locks stay where they are: a copy has none, and what is moved loses its own. A
//! destination that is replaced is removed first, unless a file takes the place of a file.
//! Out of scope: the destination's access rules, which a subrequest has asked.

use crate::{
    dead_properties::PropertyStore,
    delete::{check_tree, forget, log_properties, partial},
    locks::is_below,
    operation::{Failure, Operation, Outcome},
    reply::Reply,
    resource::{Found, Resource},
    tree::{self, Failures, TreeCopy},
};
use saker_files::edit;
use saker_http::Status;
use saker_net::jobs::Cancel;
use std::{fs::File, io};

/// A COPY or MOVE.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub source: Resource,
    pub destination: Resource,
    /// Path of the destination as asked for.
    pub destination_url: Vec<u8>,
    pub is_move: bool,
    /// Depth infinity.
    pub is_deep: bool,
    pub overwrites: bool,
}

/// Carries the request out.
///
/// # Errors
/// 404, 403, 409, 412, 423.
pub fn run(operation: &Operation, transfer: &Transfer, cancel: &Cancel) -> Outcome {
    let (source, destination) = (&transfer.source, &transfer.destination);
    let found = source.found.as_ref().ok_or(Status::NOT_FOUND)?;
    operation.check_name(destination)?;
    if transfer.is_move {
        operation.check_name(source)?;
        source.entry()?;
    }
    let (parent, name) = destination.entry()?;
    check_places(transfer, found, parent)?;
    if let Some(refused) = check_locks(operation, transfer)? {
        return Ok(refused);
    }
    // A copy without its protected files would be open where these close something.
    if transfer.is_move || transfer.is_deep {
        operation.check_protected(source, cancel)?;
    }
    operation.check_protected(destination, cancel)?;
    let mut failures = Failures::new();
    let is_new = destination.found.is_none();
    if !is_new && !clear(transfer, found, (parent, name), cancel, &mut failures)? {
        return Ok(partial(&failures));
    }
    let failed = |error| Failure::of_file(&destination.path, &error);
    let how = TreeCopy {
        webdav: &operation.webdav,
        is_deep: transfer.is_deep || transfer.is_move,
        cancel,
    };
    match transfer.is_move {
        true => move_to(source, found, (parent, name), &how, &mut failures),
        false => copy_to(transfer, found, (parent, name), &how, &mut failures),
    }
    .map_err(failed)?;
    if !is_new {
        // A lock-null destination keeps its lock (RFC 4918 section 7.3).
        operation.change_locks(|locks| locks.remove_tree(&destination.path))?;
    }
    if transfer.is_move {
        forget(operation, source)?;
    }
    if !failures.is_empty() {
        return Ok(partial(&failures));
    }
    Ok(match is_new {
        true => Reply::created(&operation.origin, &transfer.destination_url),
        false => Status::NO_CONTENT.into(),
    })
}

/// The URLs that collections below a source get below a destination.
pub fn mapped(below: &[Vec<u8>], source: &[u8], destination: &[u8]) -> Vec<Vec<u8>> {
    let rests = below.iter().filter_map(|url| url.strip_prefix(source));
    rests
        .map(|rest| tree::joined(destination, rest.strip_prefix(b"/").unwrap_or(rest)))
        .collect()
}

/// Refuses places that lie in each other, whatever their names.
fn check_places(transfer: &Transfer, found: &Found, parent: &File) -> Result<(), Failure> {
    let (source, destination) = (&transfer.source, &transfer.destination);
    let is_same_file = destination.found.as_ref().is_some_and(|other| {
        let identity = |found: &Found| (found.metadata.device, found.metadata.inode);
        identity(other) == identity(found)
    });
    if source.path == destination.path || is_same_file {
        return Err(Status::FORBIDDEN.into());
    }
    let is_inside = |directory: &File, of: &Found| {
        tree::is_inside(directory, &of.metadata)
            .map_err(|error| Failure::of_file(&destination.path, &error))
    };
    if source.collection().is_some()
        && (is_below(&destination.path, &source.path) || is_inside(parent, found)?)
    {
        return Err(Status::FORBIDDEN.into());
    }
    // The source would go with what it replaces.
    if let (Some(target), Some(_)) = (&destination.found, destination.collection()) {
        let above = source.parent.as_deref();
        let is_member = match above {
            Some(above) => is_inside(above, target)?,
            None => false,
        };
        if is_member || is_below(&source.path, &destination.path) {
            return Err(Status::FORBIDDEN.into());
        }
        if destination
            .found
            .as_ref()
            .is_some_and(|found| found.is_link)
        {
            return Err(Status::FORBIDDEN.into());
        }
    }
    match destination.found.is_some() && !transfer.overwrites {
        true => Err(Status::PRECONDITION_FAILED.into()),
        false => Ok(()),
    }
}

fn check_locks(operation: &Operation, transfer: &Transfer) -> Result<Option<Reply>, Failure> {
    let (source, destination) = (&transfer.source, &transfer.destination);
    let locks = operation.locks()?;
    operation.check_if(&locks, source)?;
    if transfer.is_move {
        operation.check_membership(&locks, &source.path)?;
        if let Some(refused) = check_tree(operation, source, &locks)? {
            return Ok(Some(refused));
        }
    }
    operation.check_write(&locks, destination)?;
    // A collection that is replaced by another loses its members.
    Ok(check_tree(operation, destination, &locks)?)
}

/// Makes room at the destination. Returns false if something of it is still there.
fn clear(
    transfer: &Transfer,
    found: &Found,
    (parent, name): (&File, &[u8]),
    cancel: &Cancel,
    failures: &mut Failures,
) -> Result<bool, Failure> {
    let destination = &transfer.destination;
    let is_file_for_file = destination.own_tree().is_none()
        && (transfer.source.collection().is_none() || transfer.is_move && found.is_link);
    if is_file_for_file {
        return Ok(true);
    }
    let is_gone = tree::remove(parent, name, &destination.url, cancel, failures);
    if is_gone && destination.own_tree().is_none() {
        PropertyStore::of_member(parent, name)
            .remove()
            .map_err(|error| Failure::of_file(&destination.path, &error))?;
    }
    Ok(is_gone)
}

fn copy_to(
    transfer: &Transfer,
    found: &Found,
    (parent, name): (&File, &[u8]),
    how: &TreeCopy<'_>,
    failures: &mut Failures,
) -> io::Result<()> {
    let source = &transfer.source;
    if let Some(directory) = source.collection() {
        let url = &transfer.destination.url;
        return tree::copy_tree(directory, (parent, name), url, how, failures);
    }
    tree::copy_file(&found.file, &found.metadata, parent, name, how)?;
    match source.properties() {
        Some(properties) => properties.copy_to(&PropertyStore::of_member(parent, name)),
        None => Ok(()),
    }
}

fn move_to(
    source: &Resource,
    found: &Found,
    (parent, name): (&File, &[u8]),
    how: &TreeCopy<'_>,
    failures: &mut Failures,
) -> io::Result<()> {
    let (from, old_name) = source
        .entry()
        .map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
    let new = PropertyStore::of_member(parent, name);
    let old = PropertyStore::of_member(from, old_name);
    let is_tree = source.own_tree().is_some();
    match edit::rename_entry(from, old_name, parent, name) {
        // Those of a collection are inside of it.
        Ok(()) if is_tree => return Ok(()),
        Ok(()) => {
            // The file is there: its properties can't undo that.
            if let Err(error) = old.copy_to(&new) {
                log_properties(&source.path, &error);
                if let Err(error) = new.remove() {
                    log_properties(&source.path, &error);
                }
            }
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        Err(error) => return Err(error),
    }
    match source.own_tree() {
        Some(directory) => {
            tree::copy_tree(directory, (parent, name), &source.url, how, failures)?;
        }
        None => {
            tree::copy_file(&found.file, &found.metadata, parent, name, how)?;
            old.copy_to(&new)?;
        }
    }
    if failures.is_empty() {
        tree::remove(from, old_name, &source.url, how.cancel, failures);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_have_urls_below_the_destination() {
        let below = [b"/a/b/".to_vec(), b"/a/b/c/".to_vec()];
        for destination in ["/x/y", "/x/y/"] {
            assert_eq!(
                mapped(&below, b"/a/", destination.as_bytes()),
                [b"/x/y/b/".to_vec(), b"/x/y/b/c/".to_vec()]
            );
        }
    }
}
