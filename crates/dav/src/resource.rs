//! Resources: what a URL stands for in the file system.
//!
//! Called by: the handler, for the request's URL and for that of a destination.
//! Caveat: the way to a resource obeys the site's rules for links; what lies below a collection is
//! reached without following any.
//! Out of scope: access rules, which have decided before.

use crate::dead_properties::PropertyStore;
use saker_files::{Kind, LinkPolicy, Metadata, ResolveError, Watcher, edit, resolve};
use saker_http::Status;
use saker_pipeline::{Exchange, link_policy};
use saker_static_files::{
    document_root::{relative, root},
    names,
};
use std::{ffi::OsStr, fs::File, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// A URL and its file, which may be missing.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Decoded path; that of a collection ends with a slash.
    pub url: Vec<u8>,
    /// Absolute file name without a slash at its end, by which locks know it.
    pub path: Vec<u8>,
    /// The directory that it is in, open as a path; `None`: that is missing, too.
    pub parent: Option<Arc<File>>,
    /// Empty for the root of a site.
    pub name: Vec<u8>,
    pub found: Option<Found>,
}

/// An existing file or collection.
#[derive(Clone, Debug)]
pub struct Found {
    /// Metadata of the target, if the entry is a link.
    pub metadata: Metadata,
    /// Open for reading; a directory as a path.
    pub file: Arc<File>,
    pub is_link: bool,
}

impl Resource {
    /// Returns the resource's directory, if it is a collection.
    pub fn collection(&self) -> Option<&Arc<File>> {
        let found = self.found.as_ref()?;
        (found.metadata.kind == Kind::Directory).then_some(&found.file)
    }

    /// Returns the collection itself and not a link to one: only such a tree is walked for changes.
    pub fn own_tree(&self) -> Option<&Arc<File>> {
        let is_link = self.found.as_ref().is_some_and(|found| found.is_link);
        self.collection().filter(|_| !is_link)
    }

    /// Returns the directory that the resource is an entry of.
    ///
    /// # Errors
    /// 403 for a root, 409 without the directory (RFC 4918 section 9.7.1).
    pub fn entry(&self) -> Result<(&File, &[u8]), Status> {
        if self.name.is_empty() {
            return Err(Status::FORBIDDEN);
        }
        match &self.parent {
            Some(parent) => Ok((parent, &self.name)),
            None => Err(Status::CONFLICT),
        }
    }

    /// Returns the properties' store. `None`: there is no place for one.
    pub fn properties(&self) -> Option<PropertyStore<'_>> {
        match self.collection() {
            Some(directory) => Some(PropertyStore::of_collection(directory)),
            None => Some(PropertyStore::of_member(
                self.parent.as_deref()?,
                &self.name,
            )),
        }
    }

    /// Returns the file name of the directory that the resource is in.
    pub fn parent_path(&self) -> &[u8] {
        parent_of(&self.path)
    }

    /// Returns the file name that another URL of the same tree has; `None` outside of it.
    pub fn path_of(&self, url: &[u8]) -> Option<Vec<u8>> {
        let own = trimmed(&self.url);
        let url = trimmed(url);
        let shared = shared_end(own, &self.path);
        let (url_base, path_base) = (
            own.get(..own.len() - shared)?,
            self.path.get(..self.path.len() - shared)?,
        );
        let rest = url.strip_prefix(url_base)?;
        (rest.is_empty() || rest.starts_with(b"/")).then(|| [path_base, rest].concat())
    }
}

/// Returns the file name of the directory above; `/` for a file in it.
pub fn parent_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) | None => b"/",
        Some(at) => path.get(..at).unwrap_or_default(),
    }
}

/// Without slashes at its end.
fn trimmed(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_suffix(b"/") {
        path = rest;
    }
    path
}

/// The number of bytes of whole components, each with its slash, that two paths end with.
fn shared_end(one: &[u8], other: &[u8]) -> usize {
    let mut shared = 0;
    loop {
        let rest = |path: &[u8]| path.len() - shared;
        let last = |path: &[u8]| -> Option<usize> {
            path.get(..rest(path))?
                .iter()
                .rposition(|byte| *byte == b'/')
        };
        let (Some(at), Some(there)) = (last(one), last(other)) else {
            return shared;
        };
        if one.get(at..rest(one)) != other.get(there..rest(other)) {
            return shared;
        }
        shared += rest(one) - at;
    }
}

/// Finds the resource of an exchange whose path has been mapped.
///
/// # Errors
/// 404 for hidden names, 403 for what the rules for links refuse and for devices.
pub fn locate(watcher: &Watcher, exchange: &Exchange) -> Result<Resource, Status> {
    let settings = &exchange.routing.settings;
    let root = root(exchange).ok_or(Status::NOT_FOUND)?;
    let relative = [relative(exchange), &exchange.routing.path_info].concat();
    let relative = trimmed(&relative);
    if !settings.files.hidden && names::is_hidden(relative) {
        return Err(Status::NOT_FOUND);
    }
    let policy = link_policy(settings.files.symlinks);
    let root_bytes = trimmed(root.as_os_str().as_bytes());
    let path = match relative.is_empty() {
        true => root_bytes.to_vec(),
        false => [root_bytes, b"/", relative].concat(),
    };
    let is_root = exchange.path == b"/" || relative.is_empty() && is_site_root(exchange);
    let (above, name) = match (is_root, relative.iter().rposition(|byte| *byte == b'/')) {
        (true, _) => (None, &b""[..]),
        (false, _) if relative.is_empty() => {
            let above = Path::new(OsStr::from_bytes(parent_of(&path)));
            let name = path.rsplit(|byte| *byte == b'/').next();
            let parent = directory(watcher, above, b"", LinkPolicy::Follow)?;
            (parent, name.unwrap_or_default())
        }
        (false, at) => {
            let (above, name) = match at {
                Some(at) => relative.split_at(at + 1),
                None => (&b""[..], relative),
            };
            (directory(watcher, root, above, policy)?, name)
        }
    };
    let parent = above.map(Arc::new);
    let found = match (&parent, is_root) {
        (None, false) => None,
        _ => found(watcher, root, relative, policy, parent.as_deref(), name)?,
    };
    let mut url = exchange.path.clone();
    let is_collection = found
        .as_ref()
        .is_some_and(|found| found.metadata.kind == Kind::Directory);
    if is_collection && !url.ends_with(b"/") {
        url.push(b'/');
    }
    let name = name.to_vec();
    Ok(Resource {
        url,
        path,
        parent,
        name,
        found,
    })
}

/// True if the mapped path is the document root of the site or route itself, which is not the
/// client's to remove.
fn is_site_root(exchange: &Exchange) -> bool {
    match (&exchange.routing.mapped, &exchange.routing.site.root) {
        (None, _) => true,
        (Some(mapped), Some(root)) => {
            mapped.root.as_ref() == root.as_path() || exchange.routing.settings.root.is_some()
        }
        (Some(_), None) => false,
    }
}

/// Opens a directory on the way. `None`: it is missing, or no directory.
fn directory(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
) -> Result<Option<File>, Status> {
    match resolve(watcher, root, relative, policy, &mut Vec::new()) {
        Ok(resolved) if resolved.metadata.kind == Kind::Directory => Ok(Some(resolved.file)),
        Ok(_) => Ok(None),
        Err(error) => refusal(error).map(|()| None),
    }
}

fn found(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    parent: Option<&File>,
    name: &[u8],
) -> Result<Option<Found>, Status> {
    let resolved = match resolve(watcher, root, relative, policy, &mut Vec::new()) {
        Ok(resolved) => resolved,
        Err(error) => return refusal(error).map(|()| None),
    };
    if resolved.metadata.kind == Kind::Other {
        return Err(Status::FORBIDDEN);
    }
    let is_link = match parent {
        Some(parent) => edit::stat_entry(parent, name)
            .ok()
            .flatten()
            .is_some_and(|entry| entry.is_link),
        None => false,
    };
    Ok(Some(Found {
        metadata: resolved.metadata,
        file: Arc::new(resolved.file),
        is_link,
    }))
}

/// Tells what is missing from what is refused.
fn refusal(error: ResolveError) -> Result<(), Status> {
    match error {
        ResolveError::NotFound => Ok(()),
        ResolveError::LinkDangling
        | ResolveError::Denied
        | ResolveError::LinkDenied
        | ResolveError::LinkLoop => Err(Status::FORBIDDEN),
        ResolveError::Descriptors => Err(Status::SERVICE_UNAVAILABLE),
        ResolveError::Io(_) => Err(Status::INTERNAL_SERVER_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(url: &str, path: &str) -> Resource {
        Resource {
            url: url.as_bytes().to_vec(),
            path: path.as_bytes().to_vec(),
            parent: None,
            name: Vec::new(),
            found: None,
        }
    }

    #[test]
    fn other_urls_of_the_tree_have_file_names() {
        let cases = [
            ("/dav/a/b", "/srv/x/a/b", "/dav/c/", Some("/srv/x/c")),
            ("/dav/a/b", "/srv/x/a/b", "/dav", Some("/srv/x")),
            ("/dav/a/b", "/srv/x/a/b", "/davx/c", None),
            ("/dav/a/b", "/srv/x/a/b", "/other", None),
            ("/a/", "/srv/a", "/b", Some("/srv/b")),
            ("/", "/srv/www", "/b/c", Some("/srv/www/b/c")),
            ("/a/b", "/a/b", "/c", Some("/c")),
            ("/xa/b", "/srv/a/b", "/c", None),
        ];
        for (url, path, other, expected) in cases {
            let found = resource(url, path).path_of(other.as_bytes());
            let found = found.map(|path| String::from_utf8(path).unwrap());
            assert_eq!(found.as_deref(), expected, "{url} {path} {other}");
        }
    }

    #[test]
    fn parents() {
        for (path, expected) in [("/a/b", "/a"), ("/a", "/"), ("/", "/")] {
            assert_eq!(parent_of(path.as_bytes()), expected.as_bytes());
        }
    }
}
