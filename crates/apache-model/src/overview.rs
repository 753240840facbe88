//! The output of `apachectl -S`: hosts by address, and settings of the process.

use crate::{host_draft::HostDraft, process::Process};
use saker_config::model::Origin;
use saker_telemetry::error_log::ErrorLogTarget;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug)]
pub struct Overview {
    pub server_root: PathBuf,
    pub document_root: PathBuf,
    pub error_log: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
    pub user: Option<String>,
    pub group: Option<String>,
    hosts: Vec<Named>,
}

/// A virtual host at one of its addresses.
#[derive(Clone, Debug)]
struct Named {
    address: String,
    name: Box<str>,
    aliases: Vec<Box<str>>,
    origin: Origin,
}

impl Overview {
    pub fn new(
        process: &Process,
        main: &HostDraft,
        drafts: &[HostDraft],
        server_root: &Path,
    ) -> Overview {
        let named = |draft: &HostDraft| {
            let name = draft
                .server_name
                .clone()
                .or_else(|| main.server_name.clone())
                .unwrap_or_else(|| "localhost".into());
            let at = |address: &String| Named {
                address: address.clone(),
                name: name.clone(),
                aliases: draft.aliases.clone(),
                origin: draft.origin.clone(),
            };
            draft.addresses.iter().map(at).collect::<Vec<_>>()
        };
        Overview {
            server_root: server_root.to_owned(),
            document_root: main.document_root.clone().unwrap_or_default(),
            error_log: match &main.error_log.target {
                Some(ErrorLogTarget::File(path)) => Some(path.clone()),
                _ => None,
            },
            pid_file: process.pid_file.clone(),
            user: process.user.clone(),
            group: process.group.clone(),
            hosts: drafts.iter().flat_map(named).collect(),
        }
    }

    /// As `-S` prints it; `ids` of user and group, where they are known here.
    pub fn render(&self, ids: (Option<u32>, Option<u32>)) -> String {
        let mut page = String::new();
        self.hosts_into(&mut page);
        let _ = writeln!(page, "ServerRoot: \"{}\"", self.server_root.display());
        let _ = writeln!(
            page,
            "Main DocumentRoot: \"{}\"",
            self.document_root.display()
        );
        if let Some(log) = &self.error_log {
            let _ = writeln!(page, "Main ErrorLog: \"{}\"", log.display());
        }
        if let Some(file) = &self.pid_file {
            let _ = writeln!(page, "PidFile: \"{}\"", file.display());
        }
        let _ = writeln!(page, "Define: DUMP_VHOSTS\nDefine: DUMP_RUN_CFG");
        for (title, name, id) in [("User", &self.user, ids.0), ("Group", &self.group, ids.1)] {
            if let Some(name) = name {
                let id = id.map_or_else(|| "not_found".to_owned(), |id| id.to_string());
                let _ = writeln!(page, "{title}: name=\"{name}\" id={id}");
            }
        }
        page
    }

    fn hosts_into(&self, page: &mut String) {
        if self.hosts.is_empty() {
            return;
        }
        let _ = writeln!(page, "VirtualHost configuration:");
        let mut shown: Vec<&str> = Vec::new();
        for host in &self.hosts {
            if shown.contains(&host.address.as_str()) {
                continue;
            }
            shown.push(&host.address);
            let here: Vec<&Named> = self
                .hosts
                .iter()
                .filter(|other| other.address == host.address)
                .collect();
            match here.as_slice() {
                [only] if only.aliases.is_empty() => {
                    let _ = writeln!(
                        page,
                        "{:<22} {} ({})",
                        only.address,
                        only.name,
                        place(&only.origin)
                    );
                }
                all => group(&host.address, all, page),
            }
        }
    }
}

/// File and line, as Apache writes them.
fn place(origin: &Origin) -> String {
    format!("{}:{}", origin.file, origin.line)
}

fn group(address: &str, all: &[&Named], page: &mut String) {
    let port = address.rsplit_once(':').map_or("*", |(_, port)| port);
    let _ = writeln!(page, "{address:<22} is a NameVirtualHost");
    if let Some(first) = all.first() {
        let _ = writeln!(
            page,
            "         default server {} ({})",
            first.name,
            place(&first.origin)
        );
    }
    for host in all {
        let _ = writeln!(
            page,
            "         port {port} namevhost {} ({})",
            host.name,
            place(&host.origin)
        );
        for alias in &host.aliases {
            let kind = if alias.contains(['*', '?']) {
                "wild alias"
            } else {
                "alias"
            };
            let _ = writeln!(page, "                 {kind} {alias}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_by_address() {
        let named = |address: &str, name: &str, aliases: &[&str], line: u32| Named {
            address: address.into(),
            name: name.into(),
            aliases: aliases.iter().map(|alias| (*alias).into()).collect(),
            origin: Origin {
                file: "/c".into(),
                line,
                column: 1,
            },
        };
        let overview = Overview {
            server_root: "/r".into(),
            document_root: "/d".into(),
            error_log: None,
            pid_file: None,
            user: Some("u".into()),
            group: None,
            hosts: vec![
                named("*:80", "a", &["b", "*.c"], 1),
                named("*:443", "d", &[], 9),
                named("*:80", "e", &[], 5),
            ],
        };
        let expected = "VirtualHost configuration:\n\
            *:80                   is a NameVirtualHost\n         default server a (/c:1)\n         port 80 namevhost a (/c:1)\n\
            \x20                alias b\n                 wild alias *.c\n         port 80 namevhost e (/c:5)\n\
            *:443                  d (/c:9)\nServerRoot: \"/r\"\nMain DocumentRoot: \"/d\"\n\
            Define: DUMP_VHOSTS\nDefine: DUMP_RUN_CFG\nUser: name=\"u\" id=7\n";
        assert_eq!(overview.render((Some(7), None)), expected);
    }
}
