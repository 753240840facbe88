//! WebDAV at a path (RFC 4918).
//!
//! Called by: the handler of `saker-dav`, by way of the settings in force.
//! Caveat: who may write is not said here; access rules and log-in decide that before.
//! Out of scope: the keys (`directives/webdav`), and what the methods do.

use super::Origin;
use std::{fmt, path::PathBuf, sync::Arc};

/// Media types of files by their names, where a front end has rules of its own.
pub trait ContentTypes: fmt::Debug + Send + Sync {
    /// Returns the Content-Type of a file of that name; `None`: it has none.
    fn of(&self, name: &[u8]) -> Option<String>;
}

/// WebDAV at a path.
#[derive(Clone, Debug)]
pub struct WebDav {
    /// The other values wait for it.
    pub is_on: bool,
    /// The file with the locks; `None`: one in the state directory.
    pub lock_database: Option<PathBuf>,
    /// Answer PROPFIND of a whole tree (`Depth: infinity`)?
    pub depth_infinity: bool,
    /// Tell clients about the locks of others?
    pub lock_discovery: bool,
    /// Locks are given for this long at least, in seconds.
    pub lock_timeout_min_s: u64,
    /// Larger XML content is refused with 413.
    pub xml_bytes_max: u64,
    /// Paths that do not begin with this text are refused (DavBasePath).
    pub base_path: Option<Box<str>>,
    /// Names that clients may not write, in addition to those that begin with `.ht`.
    pub protected_names: Vec<Box<str>>,
    /// Permissions of new files; those of new directories follow from them. `None`: the umask
    /// decides.
    pub file_mode: Option<u32>,
    /// `None`: types are those of the settings.
    pub types: Option<Arc<dyn ContentTypes>>,
    /// A destination is of this server if its host is the request's, whatever its port (nginx).
    pub is_any_port_ours: bool,
    /// The `Date` of an upload is the time of its file, and copies have time and permissions of what
    /// they are made of (nginx).
    pub keeps_times: bool,
    pub origin: Origin,
}

impl WebDav {
    /// The directory with the properties of its siblings, as Apache names it.
    pub const PROPERTY_DIRECTORY: &str = ".DAV";
    /// Beginning of the names of uploads under way.
    pub const TEMPORARY_PREFIX: &str = ".davfs.tmp";
    /// Default of `xml_bytes_max`; as Apache's LimitXMLRequestBody.
    pub const XML_BYTES_MAX: u64 = 1_000_000;

    /// Returns true if no key says anything but its default.
    pub fn is_default(&self) -> bool {
        !self.is_on
            && self.lock_database.is_none()
            && !self.depth_infinity
            && self.lock_discovery
            && self.lock_timeout_min_s == 0
            && self.xml_bytes_max == WebDav::XML_BYTES_MAX
            && self.base_path.is_none()
            && self.protected_names.is_empty()
            && self.file_mode.is_none()
            && self.types.is_none()
    }
}

/// Returns true for names that exist for no client, because WebDAV's own files have them. Compared
/// without case, because a file system may do so.
pub fn is_reserved_by_webdav(name: &[u8]) -> bool {
    let begins_with = |prefix: &str| {
        name.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    name.eq_ignore_ascii_case(WebDav::PROPERTY_DIRECTORY.as_bytes())
        || begins_with(WebDav::TEMPORARY_PREFIX)
}

/// Returns true if a component of the path is reserved.
pub fn has_name_of_webdav(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(is_reserved_by_webdav)
}

impl Default for WebDav {
    fn default() -> WebDav {
        WebDav {
            is_on: false,
            lock_database: None,
            depth_infinity: false,
            lock_discovery: true,
            lock_timeout_min_s: 0,
            xml_bytes_max: WebDav::XML_BYTES_MAX,
            base_path: None,
            protected_names: Vec::new(),
            file_mode: None,
            types: None,
            is_any_port_ours: false,
            keeps_times: false,
            origin: Origin::built_in(),
        }
    }
}
