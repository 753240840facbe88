//! Hosts that get an access log of their own, where a site has one log per host (`%{host}`).
//!
//! Called by: `site_logs`.
//! Caveat: clients choose host names, so only names from the configuration, from the database of
//! virtual hosts, or with a document root of their own get a file; names that share a document root
//! share its file, and all others share one.

use saker_config::model::{HostPattern, Site, SiteName, is_plain_name};
use saker_dynamic_vhosts::Hosts;
use saker_pipeline::Generation;
use saker_telemetry::access_log::by_host;
use std::{cell::RefCell, path::Path, sync::Arc};

#[derive(Debug)]
pub struct LoggedHosts {
    names: Vec<String>,
    /// The names below which the site has all: `example.org` for `*.example.org`.
    parents: Vec<String>,
    root: Option<HostPattern>,
    known: Option<Arc<Hosts>>,
    /// The last name, and the name of its file (empty: none of its own): lines come in runs.
    last: RefCell<(String, String)>,
}

impl LoggedHosts {
    pub fn new(site: &Site, generation: &Generation) -> LoggedHosts {
        let exact = |name: &SiteName| {
            if let SiteName::Exact(name) = name {
                Some(name.clone())
            } else {
                None
            }
        };
        let wildcard = |name: &SiteName| match name {
            SiteName::Wildcard(parent) => Some(parent.clone()),
            _ => None,
        };
        let by_host = site.by_host.as_ref();
        LoggedHosts {
            names: site.names.iter().filter_map(exact).collect(),
            parents: site.names.iter().filter_map(wildcard).collect(),
            root: by_host.and_then(|by_host| by_host.root.clone()),
            known: generation
                .known_hosts
                .clone()
                .filter(|_| by_host.is_some_and(|by_host| by_host.is_looked_up)),
            last: RefCell::default(),
        }
    }

    /// The host whose log gets the line; `host` as requested, without a port.
    pub fn begin_line(&self, host: &[u8], line: &mut Vec<u8>) {
        let mut last = self.last.borrow_mut();
        let (name, file) = &mut *last;
        let host = host.strip_suffix(b".").unwrap_or(host);
        if file.is_empty() || !name.as_bytes().eq_ignore_ascii_case(host) {
            *name = String::from_utf8_lossy(host).to_ascii_lowercase();
            *file = self.file(name).unwrap_or_default();
        }
        let others = file.is_empty();
        by_host::begin_line(if others { by_host::OTHERS } else { file }, line);
    }

    /// Number of labels of the name that come from the configuration.
    fn fixed_labels(&self, name: &str) -> usize {
        let is_below = |parent: &&String| {
            name.strip_suffix(parent.as_str())
                .is_some_and(|rest| rest.ends_with('.'))
        };
        let parents = self.parents.iter().filter(is_below);
        parents
            .map(|parent| parent.split('.').count())
            .max()
            .unwrap_or(0)
    }

    /// The name of a host's file.
    fn file(&self, name: &str) -> Option<String> {
        let is_known = || self.known.as_ref().is_some_and(|hosts| hosts.knows(name));
        if !is_plain_name(name.as_bytes()) {
            return None;
        }
        if self.names.iter().any(|own| own == name) || is_known() {
            return Some(name.to_owned());
        }
        let root = self.root.as_ref()?;
        if !Path::new(&root.of(name, 0)).is_dir() {
            return None;
        }
        match root.tells_apart(name, self.fixed_labels(name)) {
            true => Some(name.to_owned()),
            // Any number of names has this directory.
            false => Some(root.label_of(name)).filter(|label| is_plain_name(label.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::{
        Model,
        model::{ByHost, Origin},
    };

    fn file_of(hosts: &LoggedHosts, asked: &str) -> String {
        let mut line = Vec::new();
        hosts.begin_line(asked.as_bytes(), &mut line);
        String::from_utf8(line).unwrap().replace('\0', "")
    }

    #[test]
    fn a_directory_of_many_names_has_one_file() {
        let folder = std::env::temp_dir().join(format!("saker-logged-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("b/htdocs")).unwrap();
        let hosts = |pattern: &str| {
            let root = HostPattern::parse(&format!("{}/{pattern}", folder.display()));
            let site = Site {
                names: vec![
                    SiteName::Exact("b.own".into()),
                    SiteName::Wildcard("example.com".into()),
                    SiteName::Any,
                ],
                by_host: Some(ByHost {
                    root,
                    is_looked_up: false,
                }),
                ..Site::new(Origin::built_in())
            };
            LoggedHosts::new(&site, &Generation::new(1, Model::default()))
        };
        for pattern in ["%1/htdocs", "%1"] {
            let hosts = hosts(pattern);
            for number in 0..100 {
                assert_eq!(file_of(&hosts, &format!("b.x{number}.example")), "b");
            }
            assert_eq!(file_of(&hosts, "c.example"), "_");
            assert_eq!(file_of(&hosts, "b.own"), "b.own");
            assert_eq!(file_of(&hosts, "b.example.com"), "b.example.com");
            assert_eq!(file_of(&hosts, "b.x.example.com"), "b");
        }
        assert_eq!(file_of(&hosts("%-2"), "a.b.c"), "b");
        assert_eq!(file_of(&hosts("%0"), "b"), "b");
        assert_eq!(file_of(&hosts("%0"), "b.x"), "_");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn strangers_share_a_file() {
        let site = Site {
            names: vec![SiteName::Exact("a.example".into()), SiteName::Any],
            ..Site::new(Origin::built_in())
        };
        let hosts = LoggedHosts::new(&site, &Generation::new(1, Model::default()));
        for (asked, expected) in [
            ("A.example", "a.example"),
            ("a.example.", "a.example"),
            ("b.example", "_"),
            ("a.example", "a.example"),
            ("../x", "_"),
            ("", "_"),
        ] {
            let mut line = Vec::new();
            hosts.begin_line(asked.as_bytes(), &mut line);
            assert_eq!(line, [expected.as_bytes(), b"\0"].concat(), "{asked}");
        }
    }
}
