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
use saker_files::{
    Metadata,
    edit::{self, ReplacementFile},
};
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

/// Gives the complete file its name. Locks and, for a request with preconditions, the file that is
/// replaced are looked at once more: an upload takes its time.
///
/// # Errors
/// 412, 423, 403; 500 and 507 if it cannot be written.
pub fn finish(
    operation: &Operation,
    resource: &Resource,
    is_conditional: bool,
    file: ReplacementFile,
) -> Outcome {
    let failed = |error| Failure::of_file(&resource.path, &error);
    let locks = operation.locks()?;
    operation.check_write(&locks, resource)?;
    if is_conditional && has_changed(resource)? {
        return Err(Status::PRECONDITION_FAILED.into());
    }
    let before = resource.found.as_ref().filter(|found| !found.is_link);
    let mode = before.map(|before| before.metadata.mode);
    if let Some(mode) = mode.or(operation.webdav.file_mode) {
        file.set_permissions(mode).map_err(failed)?;
    }
    if let Some(modified) = operation.modified {
        file.set_modified(modified).map_err(failed)?;
    }
    file.sync().map_err(failed)?;
    file.put(&resource.name).map_err(failed)?;
    Ok(match resource.found {
        Some(_) => Status::NO_CONTENT.into(),
        None => Reply::created(&operation.origin, &resource.url),
    })
}

/// Returns true if the name stands for another file, or other content, than when the request came.
fn has_changed(resource: &Resource) -> Result<bool, Failure> {
    let (parent, name) = resource.entry()?;
    let entry =
        edit::stat_entry(parent, name).map_err(|error| Failure::of_file(&resource.path, &error))?;
    let content = |metadata: &Metadata| {
        let times = (metadata.mtime_s, metadata.mtime_ns);
        (metadata.device, metadata.inode, metadata.size, times)
    };
    Ok(match (&resource.found, entry) {
        (None, None) => false,
        // What was found is the target of a link.
        (Some(found), Some(entry)) if found.is_link => !entry.is_link,
        (Some(found), Some(entry)) => content(&found.metadata) != content(&entry.metadata),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Found;
    use saker_testkit::TempDir;
    use std::{fs, fs::File, sync::Arc};

    #[test]
    fn changes_during_an_upload_are_seen() {
        let dir = TempDir::new("put-changed").unwrap();
        let mut resource = Resource {
            url: b"/a".to_vec(),
            path: b"/srv/a".to_vec(),
            parent: Some(Arc::new(File::open(&*dir).unwrap())),
            name: b"a".to_vec(),
            found: None,
        };
        assert!(!has_changed(&resource).unwrap());
        fs::write(dir.join("a"), "old").unwrap();
        assert!(has_changed(&resource).unwrap(), "created meanwhile");
        let file = File::open(dir.join("a")).unwrap();
        resource.found = Some(Found {
            metadata: saker_files::metadata(&file).unwrap(),
            file: Arc::new(file),
            is_link: false,
        });
        assert!(!has_changed(&resource).unwrap());
        fs::write(dir.join("a"), "longer").unwrap();
        assert!(has_changed(&resource).unwrap(), "written meanwhile");
        fs::remove_file(dir.join("a")).unwrap();
        assert!(has_changed(&resource).unwrap(), "removed meanwhile");
    }
}
