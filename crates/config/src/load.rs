//! A configuration from its files: parse, read, follow includes, check the whole, build the model
//! or refuse it.
//!
//! Syntax errors and everything else are reported in one run: the parser recovers, and what it
//! recovered is read as far as it goes. Order of the model: a file's own listeners and sites, then
//! those of its includes.

use crate::{
    check,
    diagnostic::{Diagnostic, Diagnostics, Severity},
    directives::{self, FileDraft, SiteDraft},
    include,
    model::{
        Acme, CacheStore, Hosts, Limits, Listener, Model, NamedLog, NamedSocket, Origin, Php,
        PhpPools, Server, ServerGuard, ServerTls, Upstream,
    },
    reader::{Node, Reader},
    row::{FILE, LISTENER, SITE, UPSTREAM},
    source::{At, Source},
};
use saker_ipset::{AddressList, GeoDatabase};
use saker_net::privileged;
use saker_telemetry::error_log::ErrorLogTarget;
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use toml::de::{DeTable, DeValue};

/// A configuration that may be put in force.
#[derive(Debug)]
pub struct Loaded {
    pub model: Model,
    pub warnings: Vec<Diagnostic>,
}

/// Larger files are no configurations.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file and what it includes.
pub fn load(path: &Path) -> Result<Loaded, Diagnostics> {
    let name = path.display().to_string();
    // What it says of folders is to hold wherever the server stands.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match read_file(path) {
        Ok(text) => Loader::run(
            text,
            &name,
            absolute.parent().unwrap_or(Path::new("/")),
            path,
        ),
        Err(reason) => {
            let origin = Origin {
                file: name.as_str().into(),
                line: 0,
                column: 0,
            };
            Err(Diagnostics(vec![Diagnostic::without_source(
                origin,
                format!("this file can't be read: {reason}"),
            )]))
        }
    }
}

/// Reads a text as if it stood in `base`/`file_name`.
pub fn parse(text: &str, file_name: &str, base: &Path) -> Result<Loaded, Diagnostics> {
    let file = Path::new(file_name).file_name().unwrap_or_default();
    Loader::run(text.to_owned(), file_name, base, &base.join(file))
}

/// What the files said so far.
#[derive(Default)]
pub(crate) struct Loader {
    pub diagnostics: Vec<Diagnostic>,
    pub server: Option<(Server, At)>,
    pub named_logs: Vec<NamedLog>,
    pub named_sockets: Vec<NamedSocket>,
    pub limits: Option<(Limits, At)>,
    pub tls: Option<(ServerTls, At)>,
    pub acme: Option<(Acme, At)>,
    pub php: Option<(Php, At)>,
    pub cache: Option<(CacheStore, At)>,
    pub guard: Option<(ServerGuard, At)>,
    /// Of addresses, each file once.
    pub lists: Vec<Arc<AddressList>>,
    pub hosts: Option<(Hosts, At)>,
    pub databases: Vec<Arc<GeoDatabase>>,
    pub listeners: Vec<(Listener, At)>,
    pub sites: Vec<SiteDraft>,
    /// With their names; `None` where one is broken.
    pub upstreams: Vec<(String, Option<Upstream>, At)>,
    /// What became of them, and of those that routes name by URL.
    pub resolved: Vec<Arc<Upstream>>,
    /// Syntax errors may hide what seems to be missing.
    pub has_syntax_errors: bool,
    /// Whether there is a listener, a site, be it as broken as it may.
    pub has_listeners: bool,
    pub has_sites: bool,
    pub meant: check::Meant,
    sources: Vec<PathBuf>,
    /// Of `sources`, without links and dots.
    canonical: Vec<PathBuf>,
    /// Of `canonical`, those whose includes are being read.
    open: Vec<PathBuf>,
}

impl Loader {
    fn run(text: String, name: &str, base: &Path, path: &Path) -> Result<Loaded, Diagnostics> {
        let mut loader = Loader::default();
        let top = loader.file(text, name, base, path);
        directives::upstream::resolve(&mut loader);
        directives::abuse::finish(&mut loader);
        directives::modsecurity::finish(&mut loader);
        check::whole(&mut loader, &top);
        loader.diagnostics.sort_by_key(Diagnostic::sort_key);
        if loader.diagnostics.iter().any(Diagnostic::is_error) {
            return Err(Diagnostics(loader.diagnostics));
        }
        let warnings = std::mem::take(&mut loader.diagnostics);
        Ok(Loaded {
            model: loader.model(),
            warnings,
        })
    }

    /// Reads one file and its includes; answers where its beginning is.
    fn file(&mut self, text: String, name: &str, base: &Path, path: &Path) -> At {
        let source = Arc::new(Source::new(name, base.to_owned(), text, self.sources.len()));
        let canonical = canonical(path);
        self.sources.push(path.to_owned());
        self.canonical.push(canonical.clone());
        self.open.push(canonical);
        let include = self.text(&source);
        for (pattern, at) in include {
            self.include(&pattern, &at);
        }
        self.open.pop();
        At { source, span: 0..0 }
    }

    /// Reads the text of one file; answers its includes.
    fn text(&mut self, source: &Arc<Source>) -> Vec<(String, At)> {
        let (document, errors) = DeTable::parse_recoverable(&source.text);
        self.has_syntax_errors |= !errors.is_empty();
        let broken_lines = self.syntax_errors(source, &errors);
        let table = document.get_ref();
        self.has_listeners |= table.contains_key("listener");
        self.has_sites |= table.contains_key("site");
        self.meant.note(table);
        let mut reader = Reader::new(source.clone(), &mut self.diagnostics);
        reader.broken_lines = broken_lines;
        let mut draft = FileDraft::default();
        reader.fill(
            table,
            FILE,
            &At {
                source: source.clone(),
                span: 0..0,
            },
            &mut draft,
        );
        for (listener, at) in reader.sections(table, "listener", LISTENER) {
            self.listeners
                .extend(directives::listener::read(&mut reader, listener, &at));
        }
        for (upstream, at) in reader.sections(table, "upstream", UPSTREAM) {
            self.upstreams
                .extend(directives::upstream::read(&mut reader, upstream, &at));
        }
        for (site, at) in reader.sections(table, "site", SITE) {
            self.sites
                .push(directives::site::read(&mut reader, site, at));
        }
        let acme = directives::acme::finish(&mut reader, draft.acme);
        let place = |key: &str| {
            table.get(key).map(|node| At {
                source: source.clone(),
                span: node.span(),
            })
        };
        note_sockets(source, table, &mut self.named_sockets);
        self.named_logs
            .extend(note_places(source, table, &mut draft.server));
        once(
            &mut reader,
            &mut self.server,
            "[server]",
            draft.server,
            place("server"),
        );
        once(
            &mut reader,
            &mut self.limits,
            "[limits]",
            draft.limits,
            place("limits"),
        );
        once(&mut reader, &mut self.tls, "[tls]", draft.tls, place("tls"));
        once(&mut reader, &mut self.acme, "[acme]", acme, place("acme"));
        let php_at = place("php");
        draft.php.origin = php_at.as_ref().map_or(draft.php.origin, At::origin);
        once(&mut reader, &mut self.php, "[php]", draft.php, php_at);
        once(
            &mut reader,
            &mut self.cache,
            "[cache]",
            draft.cache,
            place("cache"),
        );
        once(
            &mut reader,
            &mut self.guard,
            "[guard]",
            draft.guard,
            place("guard"),
        );
        let hosts_at = place("hosts");
        draft.hosts.origin = hosts_at.as_ref().map_or(draft.hosts.origin, At::origin);
        once(
            &mut reader,
            &mut self.hosts,
            "[hosts]",
            draft.hosts,
            hosts_at,
        );
        draft.include
    }

    /// Reports the first of each line, as the others there follow from it; answers the lines.
    fn syntax_errors(
        &mut self,
        source: &Arc<Source>,
        errors: &[toml::de::Error],
    ) -> HashSet<usize> {
        let mut lines = HashSet::new();
        for error in errors {
            let diagnostic = syntax_error(source, error);
            let line = (diagnostic.origin.line as usize).saturating_sub(1);
            if lines.insert(line) {
                self.diagnostics.push(diagnostic);
            }
        }
        lines
    }

    fn include(&mut self, pattern: &str, at: &At) {
        let base = at.source.base.clone();
        let files = include::expand(&base, pattern);
        if files.is_empty() {
            self.report(
                Severity::Warning,
                at,
                "no file is included: none matches".into(),
                None,
            );
        }
        files.iter().for_each(|file| self.include_file(file, at));
    }

    fn include_file(&mut self, file: &Path, at: &At) {
        let path = at.source.base.join(file);
        let name = Path::new(&*at.source.name)
            .parent()
            .unwrap_or(Path::new(""))
            .join(file)
            .display()
            .to_string();
        let canonical = canonical(&path);
        if let Some(first) = self.open.iter().position(|open| *open == canonical) {
            let message = if first + 1 == self.open.len() {
                "includes itself"
            } else {
                "is included by a file that it includes"
            };
            self.report(
                Severity::Error,
                at,
                format!("{name} {message}"),
                Some("a circle of includes has no end: break it".into()),
            );
        } else if self.canonical.contains(&canonical) {
            self.report(
                Severity::Error,
                at,
                format!("{name} is included already"),
                Some("include each file once".into()),
            );
        } else {
            match read_file(&path) {
                Ok(text) => {
                    self.file(text, &name, path.parent().unwrap_or(Path::new("")), &path);
                }
                Err(reason) => self.report(
                    Severity::Error,
                    at,
                    format!("{name} can't be read: {reason}"),
                    None,
                ),
            }
        }
    }

    pub fn report(&mut self, severity: Severity, at: &At, message: String, help: Option<String>) {
        self.diagnostics
            .push(Diagnostic::new(severity, at, message, help));
    }

    fn model(self) -> Model {
        let listeners: Vec<Listener> = self
            .listeners
            .into_iter()
            .map(|(listener, _)| listener)
            .collect();
        let acme = self.acme.map_or_else(Acme::default, |(acme, _)| acme);
        Model {
            server: self
                .server
                .map_or_else(Server::default, |(server, _)| server),
            limits: self
                .limits
                .map_or_else(Limits::default, |(limits, _)| limits),
            tls: ServerTls {
                acme,
                ..self.tls.map_or_else(ServerTls::default, |(tls, _)| tls)
            },
            php: self.php.map_or_else(Php::default, |(php, _)| php),
            cache: self
                .cache
                .map_or_else(CacheStore::default, |(cache, _)| cache),
            guard: self
                .guard
                .map_or_else(ServerGuard::default, |(guard, _)| guard),
            address_lists: self.lists,
            hosts: self.hosts.map_or_else(Hosts::default, |(hosts, _)| hosts),
            geo_databases: self.databases,
            php_pools: PhpPools::default(),
            php_sets: Vec::new(),
            upstreams: self.resolved,
            sites: self
                .sites
                .into_iter()
                .map(|site| Arc::new(site.site(&listeners)))
                .collect(),
            listeners,
            named_logs: self.named_logs,
            named_sockets: self.named_sockets,
            sources: self.sources,
        }
    }
}

/// Notes where [server] names its user and group; answers its error log.
fn note_places(source: &Arc<Source>, table: &DeTable<'_>, server: &mut Server) -> Option<NamedLog> {
    let place = |key: &str| {
        let node = table.get("server")?.get_ref().as_table()?.get(key)?;
        Some(
            At {
                source: source.clone(),
                span: node.span(),
            }
            .origin(),
        )
    };
    for (key, origin) in ["user", "group"]
        .into_iter()
        .zip(&mut server.identity_origins)
    {
        *origin = place(key).unwrap_or_else(Origin::built_in);
    }
    match &server.error_log.target {
        ErrorLogTarget::File(path) => Some(NamedLog {
            kind: "error log",
            path: path.clone(),
            origin: place("error_log")?,
        }),
        _ => None,
    }
}

/// Notes sockets of `php`, `proxy` and the like: texts that say `unix:` anywhere but in a listener.
fn note_sockets(source: &Arc<Source>, table: &DeTable<'_>, found: &mut Vec<NamedSocket>) {
    for (_, node) in table
        .iter()
        .filter(|(key, _)| !["listener", "listeners"].contains(&key.get_ref().as_ref()))
    {
        note_sockets_in(source, node, found);
    }
}

fn note_sockets_in(source: &Arc<Source>, node: &Node<'_>, found: &mut Vec<NamedSocket>) {
    match node.get_ref() {
        DeValue::Table(table) => note_sockets(source, table, found),
        DeValue::Array(array) => array
            .iter()
            .for_each(|element| note_sockets_in(source, element, found)),
        DeValue::String(text) => {
            let (before, path) = text.split_once("unix:").unwrap_or_default();
            let path = path
                .split(['|', ' '])
                .next()
                .filter(|_| before.is_empty() || before.ends_with("://"));
            // Others follow from the host's name.
            if let Some(path) =
                path.filter(|path| path.starts_with('/') && !path.contains(['%', '$']))
            {
                found.push(NamedSocket {
                    path: path.into(),
                    origin: At {
                        source: source.clone(),
                        span: node.span(),
                    }
                    .origin(),
                });
            }
        }
        _ => {}
    }
}

/// A table that may stand in one file only.
fn once<T>(
    reader: &mut Reader<'_>,
    slot: &mut Option<(T, At)>,
    header: &str,
    value: T,
    at: Option<At>,
) {
    match (&slot, at) {
        (_, None) => {}
        (Some((_, first)), Some(at)) => {
            reader.error(
                &at,
                format!("{header} is given twice"),
                Some(format!("the first is at {}", first.origin())),
            );
        }
        (None, Some(at)) => *slot = Some((value, at)),
    }
}

fn syntax_error(source: &Arc<Source>, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let at = At {
        source: source.clone(),
        span: floor(&source.text, span.start)..floor(&source.text, span.end),
    };
    let message = match error.message() {
        "duplicate key" => format!("`{}` is given twice", source.slice(at.span.clone())),
        message => message.to_owned(),
    };
    Diagnostic::new(Severity::Error, &at, message, None)
}

fn read_file(path: &Path) -> Result<String, String> {
    let metadata = privileged::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    let bytes = privileged::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error
            .as_bytes()
            .iter()
            .take(valid)
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        format!("line {line} is not UTF-8, as TOML is")
    })
}

fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The nearest offset before that does not cut a character.
fn floor(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    (0..=offset)
        .rev()
        .find(|offset| text.is_char_boundary(*offset))
        .unwrap_or(0)
}
