//! PUT (RFC 9110 section 9.3.4, RFC 4918 section 9.7).
//!
//! Called by: the handler; the checks and the last step run in jobs, and so does each piece of
//! content.
//! Caveat: content goes to a temporary file in the same directory, which gets the real name when it
//! is complete, so a broken upload leaves the old file.
//! Out of scope: parts of files (`Content-Range`), which are refused.

use crate::{
    names::TEMPORARY_PREFIX,
    operation::{Failure, Operation, Outcome},
    reply::Reply,
    resource::Resource,
};
use saker_files::edit::ReplacementFile;
use saker_http::Status;

/// Checks the request and creates the temporary file.
///
/// # Errors
/// 405 and 409 for collections, 412, 423, 403.
pub fn begin(operation: &Operation, resource: &Resource) -> Result<ReplacementFile, Failure> {
    check(operation, resource)?;
    let (parent, _) = resource.entry()?;
    ReplacementFile::begin(parent, TEMPORARY_PREFIX)
        .map_err(|error| Failure::of_file(&resource.path, &error))
}

fn check(operation: &Operation, resource: &Resource) -> Result<(), Failure> {
    // A URL with a slash at its end is that of a collection, too.
    if resource.collection().is_some() || resource.url.ends_with(b"/") {
        return Err(Status::CONFLICT.into());
    }
    operation.check_name(resource)?;
    resource.entry()?;
    let locks = operation.locks()?;
    operation.check_if(&locks, resource)?;
    Ok(operation.check_write(&locks, resource)?)
}

/// Gives the complete file its name. Locks are looked at once more: an upload takes its time.
///
/// # Errors
/// 423, 403; 500 and 507 if it cannot be written.
pub fn finish(operation: &Operation, resource: &Resource, file: ReplacementFile) -> Outcome {
    let failed = |error| Failure::of_file(&resource.path, &error);
    let locks = operation.locks()?;
    operation.check_write(&locks, resource)?;
    let before = resource.found.as_ref().filter(|found| !found.is_link);
    if let Some(before) = before {
        file.set_permissions(before.metadata.mode).map_err(failed)?;
    }
    file.sync().map_err(failed)?;
    file.put(&resource.name).map_err(failed)?;
    Ok(match resource.found {
        Some(_) => Status::NO_CONTENT.into(),
        None => Reply::created(&operation.origin, &resource.url),
    })
}
