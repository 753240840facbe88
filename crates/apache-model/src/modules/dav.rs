//! mod_dav and mod_dav_fs: where clients may write files, and how locks behave there.
//!
//! Called by: `dir_config`; the settings that the handler of `saker-dav` gets are made here.
//! Caveat: locks are kept beside the file that DAVLockDB names, in a format of our own.
//! Out of scope: providers other than the file system, whose places are denied.

use super::{core::Core, mime::Mime};
use crate::{
    arguments::{first, set_flag},
    reading::{Reading, Set, said},
};
use saker_apache_syntax::{NO_SUBVERSION, Node};
use saker_config::model::{ContentTypes, WebDav};
use std::{collections::HashMap, path::PathBuf, sync::Arc};

#[derive(Clone, Debug, Default)]
pub struct Dav {
    pub is_on: Option<bool>,
    /// Another provider than the file system is asked for: `read_section` denies everything.
    pub is_foreign: bool,
    pub depth_infinity: Option<bool>,
    pub lock_discovery: Option<bool>,
    pub timeout_min_s: Option<u64>,
    pub base_path: Option<Box<str>>,
    pub lock_database: Option<PathBuf>,
    pub xml_bytes_max: Option<u64>,
}

impl Dav {
    pub const DIRECTIVES: &'static [(&'static str, Set<Dav>)] = &[
        ("DAV", set_dav),
        ("DAVDepthInfinity", |node, dav, _| {
            set_flag(node, &mut dav.depth_infinity)
        }),
        ("DAVLockDiscovery", |node, dav, _| {
            set_flag(node, &mut dav.lock_discovery)
        }),
        ("DAVMinTimeout", |node, dav, _| {
            let number = first(node).and_then(|text| text.parse().ok());
            dav.timeout_min_s =
                Some(number.ok_or("DAVMinTimeout requires a non-negative integer.")?);
            Ok(())
        }),
        ("DAVBasePath", |node, dav, _| {
            dav.base_path = first(node).map(Into::into);
            Ok(())
        }),
        ("DAVLockDB", |node, dav, reading| {
            dav.lock_database = first(node).map(|path| reading.server_path(path.as_bytes()));
            Ok(())
        }),
        ("LimitXMLRequestBody", |node, dav, _| {
            let number = first(node).and_then(|text| text.parse().ok());
            dav.xml_bytes_max =
                Some(number.ok_or("LimitXMLRequestBody requires a non-negative integer.")?);
            Ok(())
        }),
    ];

    pub fn merge(&self, over: &Dav) -> Dav {
        // "Dav Off" in a section inside of another does not switch it off (AH00578).
        let is_on = match self.is_on {
            Some(true) => Some(true),
            outside => over.is_on.or(outside),
        };
        Dav {
            is_on,
            is_foreign: self.is_foreign || over.is_foreign,
            depth_infinity: over.depth_infinity.or(self.depth_infinity),
            lock_discovery: over.lock_discovery.or(self.lock_discovery),
            timeout_min_s: over.timeout_min_s.or(self.timeout_min_s),
            base_path: said(&self.base_path, &over.base_path),
            lock_database: said(&self.lock_database, &over.lock_database),
            xml_bytes_max: over.xml_bytes_max.or(self.xml_bytes_max),
        }
    }

    /// The rules for the handler; `None`: files are read-only. `types`: rules of mod_mime.
    pub fn in_use(&self, types: impl FnOnce() -> Types) -> Option<WebDav> {
        if self.is_on != Some(true) {
            return None;
        }
        let defaults = WebDav::default();
        Some(WebDav {
            is_on: true,
            lock_database: self.lock_database.clone(),
            depth_infinity: self.depth_infinity.unwrap_or(false),
            lock_discovery: self.lock_discovery.unwrap_or(true),
            lock_timeout_min_s: self.timeout_min_s.unwrap_or(0),
            // 0 is no limit in Apache's words; ours has to hold in memory.
            xml_bytes_max: match self.xml_bytes_max {
                None => defaults.xml_bytes_max,
                Some(0) => XML_BYTES_CEILING,
                Some(bytes) => bytes.min(XML_BYTES_CEILING),
            },
            base_path: self.base_path.clone(),
            types: Some(Arc::new(types())),
            ..defaults
        })
    }
}

/// XML that is read whole, whatever the configuration says.
const XML_BYTES_CEILING: u64 = 64 << 20;

fn set_dav(node: &Node, dav: &mut Dav, reading: &mut Reading<'_>) -> Result<(), String> {
    let name = first(node).unwrap_or_default();
    dav.is_on = Some(match name.to_ascii_lowercase().as_str() {
        "on" | "filesystem" => true,
        "off" => false,
        // Apache's module for it (mod_dav_svn) may be there.
        _ => {
            let help = match name.eq_ignore_ascii_case("svn") {
                true => NO_SUBVERSION,
                false => "use `DAV On` for files",
            };
            let message =
                format!("the WebDAV provider `{name}` is not available: requests are denied");
            reading
                .diagnostics
                .push(node.warning(message, Some(help.to_owned())));
            dav.is_foreign = true;
            false
        }
    });
    Ok(())
}

/// Types by the directives of mod_mime in force.
#[derive(Debug)]
pub struct Types {
    pub core: Core,
    pub mime: Mime,
    /// Types of TypesConfig, by extension in lower case.
    pub types: Arc<HashMap<Box<str>, Box<str>>>,
}

impl ContentTypes for Types {
    fn of(&self, name: &[u8]) -> Option<String> {
        let forced = self.core.force_type.clone().flatten();
        let found = forced.or_else(|| self.mime.facts(name, &self.types).content_type())?;
        Some(self.core.with_default_charset(&found).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_stays_on_below() {
        let of = |is_on| Dav {
            is_on,
            ..Dav::default()
        };
        for (outside, over, expected) in [
            (None, None, None),
            (None, Some(false), Some(false)),
            (Some(false), Some(true), Some(true)),
            (Some(true), Some(false), Some(true)),
        ] {
            assert_eq!(of(outside).merge(&of(over)).is_on, expected);
        }
    }
}
