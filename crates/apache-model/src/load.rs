//! From the tree of a configuration to a model and its hosts.
//!
//! Difficulty: what stands outside of virtual hosts is both a host of its own and what every host
//! begins with, wherever in the file it stands; so the whole is read first and laid together at the
//! end.

use crate::{
    dir_config::{DirConfig, Section},
    host::Apache,
    host_draft::HostDraft,
    info::Info,
    matcher::Matcher,
    modules::cache,
    overview::Overview,
    paths::with_slash,
    process::Process,
    read_section::{matcher, read_all, read_one, section_name},
    reading::{Place, ProviderNames, Reading},
    server, tls,
};
use saker_ap_expr::PatternOptions;
use saker_apache_syntax::{Files, Node, Setup};
use saker_auth::Methods;
use saker_config::{Diagnostic, Model, model::PhpModule};
use saker_telemetry::error_log::ErrorLogTarget;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A configuration that may be put in force, if there is no error among the diagnostics.
#[derive(Debug)]
pub struct Loaded {
    pub model: Model,
    pub apache: Apache,
    pub overview: Overview,
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads a configuration and everything that it includes.
pub fn load(setup: &Setup, files: &dyn Files) -> Loaded {
    let read = saker_apache_syntax::load(setup, files);
    let mut diagnostics = read.diagnostics;
    crate::proxy::unhonored::warn(&read.tree.nodes, &mut diagnostics);
    tls::outdated::warn(&read.tree.nodes, &mut diagnostics);
    let mut sockets = Vec::new();
    crate::proxy::sockets::find(&read.tree.nodes, &mut sockets);
    let mut process = Process::default();
    let _defaults = PatternOptions::HTTPD.in_force();
    let server_root = read.environment.server_root.clone();
    let aliases = ProviderNames::of(&read.tree);
    let mut reader = TreeReader {
        server_root: &server_root,
        aliases: &aliases,
        diagnostics: &mut diagnostics,
        process: &mut process,
        hosts: Vec::new(),
        contents: HashMap::new(),
        keeps_places: setup.keeps_places,
    };
    let mut main = HostDraft::main(&server_root);
    reader.host(&read.tree.nodes, &mut main);
    let drafts = reader.hosts;
    logs_folder_defaults(&server_root, &mut process, &mut main);
    process
        .extended_status
        .get_or_insert(read.environment.modules.has_any(&["status_module"]));
    let php_module = read.environment.php_module.clone();
    process.php_module = php_module.map(|(file, origin)| PhpModule { file, origin });
    process.has_suexec = read.environment.modules.has_any(&["suexec_module"]);
    process.names_requests = read.environment.modules.has_any(&["unique_id_module"]);
    let cache_is_expected = cache::is_expected(&read.tree);
    let info = read
        .environment
        .modules
        .has_any(&["info_module"])
        .then(|| Info {
            modules: read.environment.modules.rows().collect(),
            server_root: server_root.clone(),
            timeout_s: main.limits.timeout_s.unwrap_or(60),
            keep_alive_timeout_ms: main.limits.keep_alive_timeout_ms(),
            remarks: process.module_remarks.clone(),
            tree: read.tree,
        });
    let overview = Overview::new(&process, &main, &drafts, &server_root);
    let (mut model, hosts) = process.finish(&main, &drafts, &mut diagnostics);
    let rules = crate::host_settings::of_hosts(&hosts, &mut diagnostics);
    let pattern_options = PatternOptions::default();
    model.sources = read.sources;
    model.named_sockets = sockets;
    model.cache.is_expected = cache_is_expected;
    Loaded {
        model,
        overview,
        apache: Apache {
            hosts,
            native: None,
            environment: read.environment,
            aliases,
            info,
            pattern_options,
            rules,
        },
        diagnostics,
    }
}

/// Apache's defaults of ErrorLog and PidFile, where the folder that they are in is there. Without
/// it, errors go to standard error, as service managers want them.
fn logs_folder_defaults(server_root: &Path, process: &mut Process, main: &mut HostDraft) {
    let folder = server_root.join("logs");
    if !folder.is_dir() {
        return;
    }
    process
        .pid_file
        .get_or_insert_with(|| folder.join("httpd.pid"));
    main.error_log
        .target
        .get_or_insert_with(|| ErrorLogTarget::File(folder.join("error_log")));
}

/// Directives that say the same wherever they stand.
const PLACELESS: &[&str] = &[
    "Require",
    "AllowOverride",
    "AllowOverrideList",
    "Options",
    "DirectoryIndex",
    "Order",
    "Allow",
    "Deny",
    "Satisfy",
    "DirectorySlash",
];

/// A section's content as a text, if nothing in it depends on where it stands.
fn placeless_text(nodes: &[Node]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for node in nodes {
        if !PLACELESS.contains(&node.canonical_name()) {
            return None;
        }
        text.extend_from_slice(node.canonical_name().as_bytes());
        text.push(b' ');
        text.extend_from_slice(node.argument_text());
        text.push(b'\n');
    }
    Some(text)
}

struct TreeReader<'r> {
    server_root: &'r PathBuf,
    aliases: &'r ProviderNames,
    diagnostics: &'r mut Vec<Diagnostic>,
    process: &'r mut Process,
    hosts: Vec<HostDraft>,
    /// Settings of sections, by their text.
    contents: HashMap<Vec<u8>, Arc<DirConfig>>,
    /// They are not shared.
    keeps_places: bool,
}

impl TreeReader<'_> {
    /// Everything at the top level, or in a virtual host.
    fn host(&mut self, nodes: &[Node], draft: &mut HostDraft) {
        for node in nodes {
            match node.canonical_name() {
                "<VirtualHost" => {
                    let mut inner = HostDraft::virtual_host(node);
                    self.host(&node.children, &mut inner);
                    self.hosts.push(inner);
                }
                "<Directory" | "<DirectoryMatch" => self.section(node, &mut draft.directories),
                "<Location" | "<LocationMatch" => {
                    self.section(node, &mut draft.locations);
                    self.pass_of_section(node, draft);
                }
                "<Proxy" | "<ProxyMatch" => {
                    let outcome = crate::proxy::sections::read(
                        node,
                        &mut draft.proxy,
                        &mut self.reading(Place::Location),
                    );
                    self.complain(node, outcome);
                }
                "<MDomainSet" | "<MDomain" => {
                    let outcome = self.process.managed.section(node, self.server_root);
                    self.complain(node, outcome);
                }
                _ => match server::set(node, draft, self.process, self.server_root) {
                    Some(outcome) => self.complain(node, outcome),
                    None => {
                        let local = draft.local.get_or_insert_default();
                        read_one(node, local, &mut self.reading(Place::Server));
                    }
                },
            }
        }
    }

    fn section(&mut self, node: &Node, sections: &mut Vec<Arc<Section>>) {
        let is_directory = node.canonical_name().starts_with("<Directory");
        let matcher = match matcher(node, is_directory.then_some(self.server_root)) {
            Ok(matcher) => matcher,
            Err(message) => return self.diagnostics.push(node.error(message, None)),
        };
        let place = match (&matcher, is_directory) {
            (Matcher::Exact(path), true) => {
                Place::Directory(Some(with_slash(&String::from_utf8_lossy(path)).into()))
            }
            (_, true) => Place::Directory(None),
            (_, false) => Place::Location,
        };
        let section = match (&matcher, is_directory) {
            (Matcher::Exact(path), false) => Some(String::from_utf8_lossy(path).into()),
            _ => None,
        };
        let inner = match &matcher {
            Matcher::Exact(_) => None,
            _ => Some(section_name(node)),
        };
        let local = self.content(node, place, (section, inner));
        sections.push(Arc::new(Section {
            matcher,
            local,
            origin: node.origin.clone(),
        }));
    }

    /// The settings of a section. Thousands of hosts have sections with the same text: they share
    /// the settings, and everything that is made of them later.
    fn content(
        &mut self,
        node: &Node,
        place: Place,
        (section, inner): (Option<Box<str>>, Option<Box<str>>),
    ) -> Arc<DirConfig> {
        let text = placeless_text(&node.children).filter(|_| !self.keeps_places);
        if let Some(known) = text.as_ref().and_then(|text| self.contents.get(text)) {
            return Arc::clone(known);
        }
        let complaints = self.diagnostics.len();
        let local = Arc::from(read_all(
            &node.children,
            &mut Reading {
                section,
                inner,
                ..self.reading(place)
            },
        ));
        // What is complained about is complained about at each place.
        if let Some(text) = text.filter(|_| self.diagnostics.len() == complaints) {
            self.contents.insert(text, Arc::clone(&local));
        }
        local
    }

    /// Its worker belongs to the host.
    fn pass_of_section(&mut self, node: &Node, draft: &mut HostDraft) {
        let section = draft
            .locations
            .last()
            .filter(|section| section.origin == node.origin);
        let Some(pass) = section.and_then(|section| section.local.proxy.pass().cloned()) else {
            return;
        };
        let outcome = pass
            .pass
            .to
            .as_ref()
            .map_or(Ok(()), |to| draft.proxy.define(to, &pass.parameters));
        self.complain(node, outcome.map_err(|error| format!("ProxyPass {error}")));
    }

    fn reading(&mut self, place: Place) -> Reading<'_> {
        Reading {
            inner: None,
            server_root: self.server_root,
            place,
            section: None,
            methods: Methods::All,
            aliases: self.aliases,
            diagnostics: self.diagnostics,
        }
    }

    fn complain(&mut self, node: &Node, outcome: Result<(), String>) {
        if let Err(message) = outcome {
            self.diagnostics.push(node.error(message, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use saker_config::model::Site;

    /// Ten thousand hosts are to cost less than 2 kB each beyond their text. What is a host's alone
    /// is counted here; the rest is shared.
    #[test]
    fn what_thousands_of_hosts_cost() {
        let own = size_of::<Host>() + size_of::<Site>() + size_of::<Section>() + 3 * 16;
        assert!(
            own <= 720,
            "{own} bytes: {} {} {}",
            size_of::<Host>(),
            size_of::<Site>(),
            size_of::<Section>()
        );
    }

    #[test]
    fn sections_that_say_the_same_are_one() {
        let dir = saker_testkit::TempDir::new("shared").unwrap();
        let section =
            |name: &str, text: &str| format!("<Directory /srv/{name}>\n{text}\n</Directory>\n");
        let text = format!(
            "ServerName x\nListen 127.0.0.1:80\n{}{}{}{}{}",
            section("a", "Require all granted\nOptions -Indexes"),
            section("b", "Require all granted\nOptions -Indexes"),
            section("c", "Require all denied\nOptions -Indexes"),
            section("d", "RewriteEngine On"),
            section("e", "RewriteEngine On")
        );
        let file = dir.write("httpd.conf", text).unwrap();
        let setup = Setup::new(&*dir, file);
        let loaded = load(&setup, &saker_apache_syntax::OnDisk);
        let sections = &loaded.apache.hosts[0].directories;
        let same =
            |one: usize, other: usize| Arc::ptr_eq(&sections[one].local, &sections[other].local);
        assert!(
            same(0, 1) && !same(0, 2) && !same(3, 4),
            "{:?}",
            loaded.diagnostics
        );
    }

    #[test]
    fn defaults_are_in_the_folder_of_logs_where_there_is_one() {
        let loaded = |name: &str, text: &str| {
            let dir = saker_testkit::TempDir::new(name).unwrap();
            if !name.ends_with("none") {
                std::fs::create_dir(dir.join("logs")).unwrap();
            }
            let text = format!("ServerName x\nListen 127.0.0.1:80\n{text}\n");
            let file = dir.write("httpd.conf", text).unwrap();
            let overview = load(&Setup::new(&*dir, file), &saker_apache_syntax::OnDisk).overview;
            let below = |path: Option<PathBuf>| {
                path.map(|path| path.strip_prefix(&*dir).unwrap().to_path_buf())
            };
            (below(overview.pid_file), below(overview.error_log))
        };
        let paths = |pid: &str, log: &str| Some((pid.into(), log.into()));
        let (pid, log) = loaded("logs", "");
        assert_eq!(pid.zip(log), paths("logs/httpd.pid", "logs/error_log"));
        let (pid, log) = loaded("logs-said", "PidFile own.pid\nErrorLog own.log");
        assert_eq!(pid.zip(log), paths("own.pid", "own.log"));
        assert_eq!(loaded("logs-none", ""), (None, None));
    }
}
