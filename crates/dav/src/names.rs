//! Names with a meaning of their own: those of the store of properties, of uploads under way, and
//! of files that steer servers.
//!
//! Called by: the handler for every request, and the operations for members of collections.
//! Caveat: front ends refuse reserved names for all methods; here they are left out of trees.
//! Out of scope: hidden names (`hidden`), which the static files' rules know.

use saker_config::model::WebDav;
pub use saker_config::model::{
    has_name_of_webdav as is_reserved_path, is_reserved_by_webdav as is_reserved,
};

/// The directory with the properties of its siblings.
pub const PROPERTY_DIRECTORY: &str = WebDav::PROPERTY_DIRECTORY;

/// Beginning of the names of uploads under way.
pub const TEMPORARY_PREFIX: &str = WebDav::TEMPORARY_PREFIX;

/// Returns true if clients may not write files of that name: they change what the server does
/// (`.htaccess`, `.htpasswd`, PHP's `.user.ini`).
pub fn is_protected(webdav: &WebDav, name: &[u8]) -> bool {
    let is_of_access = name
        .get(..3)
        .is_some_and(|start| start.eq_ignore_ascii_case(b".ht"));
    is_of_access
        || name.eq_ignore_ascii_case(b".user.ini")
        || webdav
            .protected_names
            .iter()
            .any(|protected| name.eq_ignore_ascii_case(protected.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_clients_have_no_business_with() {
        for path in ["/.DAV", "/a/.dav/x", "/a/.davfs.tmp1-2", "/.Dav/"] {
            assert!(is_reserved_path(path.as_bytes()), "{path}");
        }
        for path in ["/", "/.DAVE", "/a.DAV", "/.davfs", "/DAV"] {
            assert!(!is_reserved_path(path.as_bytes()), "{path}");
        }
        let webdav = WebDav {
            protected_names: vec!["acl".into()],
            ..WebDav::default()
        };
        for name in [".htaccess", ".HTpasswd", ".user.ini", "ACL"] {
            assert!(is_protected(&webdav, name.as_bytes()), "{name}");
        }
        for name in [
            ".h",
            "htaccess",
            "a.htaccess",
            "user.ini",
            "._a",
            ".DS_Store",
        ] {
            assert!(!is_protected(&webdav, name.as_bytes()), "{name}");
        }
    }
}
