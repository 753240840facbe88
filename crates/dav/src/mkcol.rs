//! MKCOL (RFC 4918 section 9.3).
//!
//! Called by: the handler, in a job.
//! Out of scope: content of the request, which the handler refuses with 415.

use crate::{
    operation::{Failure, Operation, Outcome},
    reply::Reply,
    resource::Resource,
};
use saker_files::edit;
use saker_http::Status;

/// Creates a collection.
///
/// # Errors
/// 405 if something is there, 409 without the collection above.
pub fn run(operation: &Operation, resource: &Resource, asked_url: &[u8]) -> Outcome {
    if resource.found.is_some() {
        return Err(Status::METHOD_NOT_ALLOWED.into());
    }
    operation.check_name(resource)?;
    let (parent, name) = resource.entry()?;
    let locks = operation.locks()?;
    operation.check_if(&locks, resource)?;
    operation.check_write(&locks, resource)?;
    let failed = |error| Failure::of_file(&resource.path, &error);
    edit::make_directory(parent, name).map_err(failed)?;
    if let Some(mode) = operation.webdav.file_mode {
        edit::set_directory_mode(parent, name, mode).map_err(failed)?;
    }
    Ok(Reply::created(&operation.origin, asked_url))
}
