//! Hosts that get an access log of their own, where a site has one log per host (`%{host}`).
//!
//! Called by: `site_logs`.
//! Caveat: clients choose host names, so only names from the configuration, from the database of
//! virtual hosts, or with a document root get a file; all others share one.

use saker_config::model::{HostPattern, Site, SiteName, is_plain_name};
use saker_dynamic_vhosts::Hosts;
use saker_pipeline::Generation;
use saker_telemetry::access_log::by_host;
use std::{cell::RefCell, path::Path, sync::Arc};

#[derive(Debug)]
pub struct LoggedHosts {
    names: Vec<String>,
    root: Option<HostPattern>,
    known: Option<Arc<Hosts>>,
    /// The last name, and whether it has a file: lines come in runs.
    last: RefCell<(String, bool)>,
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
        let by_host = site.by_host.as_ref();
        LoggedHosts {
            names: site.names.iter().filter_map(exact).collect(),
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
        let (name, has_file) = &mut *last;
        let host = host.strip_suffix(b".").unwrap_or(host);
        if !*has_file || !name.as_bytes().eq_ignore_ascii_case(host) {
            *name = String::from_utf8_lossy(host).to_ascii_lowercase();
            *has_file = self.has_file(name);
        }
        by_host::begin_line(if *has_file { name } else { by_host::OTHERS }, line);
    }

    fn has_file(&self, name: &str) -> bool {
        let has_root = || {
            self.root
                .as_ref()
                .is_some_and(|root| Path::new(&root.of(name, 0)).is_dir())
        };
        let is_known = || self.known.as_ref().is_some_and(|hosts| hosts.knows(name));
        is_plain_name(name.as_bytes())
            && (self.names.iter().any(|own| own == name) || is_known() || has_root())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::{Model, model::Origin};

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
