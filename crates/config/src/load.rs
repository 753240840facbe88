//! Loads a configuration: parses, reads, follows includes, checks the whole, and builds the model.
//!
//! Called by: the command line and reloads.
//! Caveat: syntax errors and all others are reported in one run: the parser recovers, and what it
//! recovered is read as far as possible. Order of the model: a file's own listeners and sites, then
//! those of its includes.

use crate::{
    check,
    configuration::Configuration,
    context::{FILE, LISTENER, SITE, STREAM, UPSTREAM},
    diagnostic::{Diagnostic, Diagnostics, Severity},
    directives::{self, file::FileDraft},
    foreign_words, include,
    model::{Model, NamedLog, NamedSocket, Origin, Server},
    reader::{Node, Reader},
    report::Report,
    resolve,
    source::{Location, Source},
};
use saker_net::privileged;
use saker_telemetry::error_log::ErrorLogTarget;
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use toml::de::{DeTable, DeValue};

/// A valid configuration.
#[derive(Debug)]
pub struct Loaded {
    pub model: Model,
    pub warnings: Vec<Diagnostic>,
}

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file and what it includes.
pub fn load(path: &Path) -> Result<Loaded, Diagnostics> {
    load_with_texts(path).map(|(loaded, _)| loaded)
}

/// Reads a file and what it includes like [`load`], with another text for one of the files: a
/// change that is checked before it is written.
pub fn load_replacing(path: &Path, changed: &Path, text: &str) -> Result<Loaded, Diagnostics> {
    let name = path.display().to_string();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = absolute.parent().unwrap_or(Path::new("/"));
    let loader = Loader {
        replaced: Some((canonical(changed), text.to_owned())),
        ..Loader::default()
    };
    match loader.read(path) {
        Ok(own) => loader.run(own, &name, base, path).map(|(loaded, _)| loaded),
        Err(reason) => Err(unreadable(&name, &reason)),
    }
}

fn unreadable(name: &str, reason: &str) -> Diagnostics {
    let origin = Origin {
        file: name.into(),
        line: 0,
        column: 0,
    };
    let message = format!("cannot read this file: {reason}");
    Diagnostics(vec![Diagnostic::without_source(origin, message)])
}

/// Reads a file and what it includes, and keeps the texts in the order in which they were read.
pub(crate) fn load_with_texts(path: &Path) -> Result<(Loaded, Vec<Arc<Source>>), Diagnostics> {
    let name = path.display().to_string();
    let read_at = SystemTime::now();
    // Directories in it stay valid when the server changes its working directory.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match read_file(path) {
        Ok(text) => {
            let base = absolute.parent().unwrap_or(Path::new("/"));
            let (mut loaded, texts) = Loader::default().run(text, &name, base, path)?;
            loaded.model.server.read_at = read_at;
            Ok((loaded, texts))
        }
        Err(reason) => Err(unreadable(&name, &reason)),
    }
}

/// Reads a text as if it were in `base`/`file_name`.
pub fn parse(text: &str, file_name: &str, base: &Path) -> Result<Loaded, Diagnostics> {
    parse_with_texts(text, file_name, base).map(|(loaded, _)| loaded)
}

/// Reads a text like [`parse`], and keeps it and those that it includes.
pub(crate) fn parse_with_texts(
    text: &str,
    file_name: &str,
    base: &Path,
) -> Result<(Loaded, Vec<Arc<Source>>), Diagnostics> {
    let file = Path::new(file_name).file_name().unwrap_or_default();
    Loader::default().run(text.to_owned(), file_name, base, &base.join(file))
}

/// Reads files into a configuration.
#[derive(Default)]
struct Loader {
    configuration: Configuration,
    /// Resolved paths of the files read.
    canonical: Vec<PathBuf>,
    /// Those of `canonical` whose includes are being read.
    open: Vec<PathBuf>,
    /// A file, by its resolved path, that is not read from the disk, and its text.
    replaced: Option<(PathBuf, String)>,
}

impl Loader {
    fn run(
        mut self,
        text: String,
        name: &str,
        base: &Path,
        path: &Path,
    ) -> Result<(Loaded, Vec<Arc<Source>>), Diagnostics> {
        let top = self.file(text, name, base, path);
        let mut configuration = self.configuration;
        resolve::all(&mut configuration);
        check::whole(&mut configuration, &top);
        let mut diagnostics = std::mem::take(&mut configuration.diagnostics);
        diagnostics.sort_by_key(Diagnostic::sort_key);
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(Diagnostics(diagnostics));
        }
        let texts = std::mem::take(&mut configuration.texts);
        let loaded = Loaded {
            model: configuration.model(),
            warnings: diagnostics,
        };
        Ok((loaded, texts))
    }

    fn read(&self, path: &Path) -> Result<String, String> {
        match &self.replaced {
            Some((replaced, text)) if *replaced == canonical(path) => Ok(text.clone()),
            _ => read_file(path),
        }
    }

    /// Reads one file and its includes. Returns the location of its start.
    fn file(&mut self, text: String, name: &str, base: &Path, path: &Path) -> Location {
        let source = Arc::new(Source::new(
            name,
            base.to_owned(),
            text,
            self.configuration.sources.len(),
        ));
        let canonical = canonical(path);
        self.configuration.texts.push(Arc::clone(&source));
        self.configuration.sources.push(path.to_owned());
        self.canonical.push(canonical.clone());
        self.open.push(canonical);
        let include = self.text(&source);
        for (pattern, at) in include {
            self.include(&pattern, &at);
        }
        self.open.pop();
        Location { source, span: 0..0 }
    }

    /// Reads the text of one file. Returns its includes.
    fn text(&mut self, source: &Arc<Source>) -> Vec<(String, Location)> {
        let (document, errors) = DeTable::parse_recoverable(&source.text);
        let broken_lines = self.syntax_errors(source, &errors);
        let table = document.get_ref();
        let configuration = &mut self.configuration;
        configuration.has_syntax_errors |= !errors.is_empty();
        configuration.has_listeners |= table.contains_key("listener");
        configuration.has_sites |= table.contains_key("site");
        configuration.mentions.note(table);
        let mut diagnostics = Vec::new();
        let report = Report::new(source.clone(), &mut diagnostics, broken_lines);
        let mut reader = Reader::new(report, directives::catalog());
        let mut draft = FileDraft::default();
        let top = Location {
            source: source.clone(),
            span: 0..0,
        };
        reader.fill(table, FILE, &top, &mut draft);
        read_sections(configuration, &mut reader, table);
        note_sockets(source, table, &mut configuration.named_sockets);
        let error_log = note_identity(source, table, &mut draft.server);
        configuration.named_logs.extend(error_log);
        let include = std::mem::take(&mut draft.include);
        configuration
            .value_files
            .append(&mut reader.report.read_files);
        configuration.maps.append(&mut draft.maps);
        read_tables(configuration, &mut reader, table, draft);
        configuration.diagnostics.append(&mut diagnostics);
        include
    }

    /// Reports the first error of each line, as others there follow from it. Returns the lines.
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
                self.configuration.diagnostics.push(diagnostic);
            }
        }
        lines
    }

    fn include(&mut self, pattern: &str, at: &Location) {
        let base = at.source.base.clone();
        let files = include::expand(&base, pattern);
        self.configuration
            .includes
            .push((base.clone(), pattern.to_owned()));
        // An empty directory is one that files will be put into.
        let folder = Path::new(pattern).parent().unwrap_or(Path::new(""));
        if files.is_empty()
            && !privileged::metadata(&base.join(folder)).is_ok_and(|found| found.is_dir())
        {
            self.configuration.report(
                Severity::Warning,
                at,
                "no file matches this include pattern".into(),
                None,
            );
        }
        files.iter().for_each(|file| self.include_file(file, at));
    }

    fn include_file(&mut self, file: &Path, at: &Location) {
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
                "includes a file that includes it"
            };
            self.configuration.report(
                Severity::Error,
                at,
                format!("{name} {message}"),
                Some("remove one include of the cycle".into()),
            );
        } else if self.canonical.contains(&canonical) {
            self.configuration.report(
                Severity::Error,
                at,
                format!("{name} is already included"),
                Some("include each file once".into()),
            );
        } else {
            match self.read(&path) {
                Ok(text) => {
                    self.file(text, &name, path.parent().unwrap_or(Path::new("")), &path);
                }
                Err(reason) => self.configuration.report(
                    Severity::Error,
                    at,
                    format!("cannot read {name}: {reason}"),
                    Some(include_help(&name, &path)),
                ),
            }
        }
    }
}

/// Advice about an include that cannot be read.
fn include_help(name: &str, path: &Path) -> String {
    if name.contains("://") {
        return "only files of this machine can be included".to_owned();
    }
    if privileged::metadata(path).is_ok_and(|found| found.is_dir()) {
        let folder = name.trim_end_matches('/');
        return format!("write \"{folder}/*.toml\" for the files of this directory");
    }
    "paths are relative to the file that includes them; a pattern with `*` may match nothing"
        .to_owned()
}

/// Reads the tables that may appear any number of times.
fn read_sections(configuration: &mut Configuration, reader: &mut Reader<'_>, table: &DeTable<'_>) {
    for (listener, at) in reader.sections(table, "listener", LISTENER) {
        let listeners = directives::listener::read(reader, listener, &at);
        configuration.listeners.extend(listeners);
    }
    for (upstream, at) in reader.sections(table, "upstream", UPSTREAM) {
        let upstream = directives::upstream::read(reader, upstream, &at);
        configuration.upstreams.extend(upstream);
    }
    for (stream, at) in reader.sections(table, "stream", STREAM) {
        let stream = directives::stream::read(reader, stream, at);
        configuration.streams.push(stream);
    }
    for (site, at) in reader.sections(table, "site", SITE) {
        let site = directives::site::read(reader, site, at);
        configuration.sites.push(site);
    }
}

/// Takes over the tables that may appear in one file only.
fn read_tables(
    configuration: &mut Configuration,
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    mut draft: FileDraft,
) {
    let location = |reader: &Reader<'_>, key: &str| {
        let node = reader.node(table, key, FILE)?;
        Some(reader.at(node.span()))
    };
    let acme = directives::acme::finish(reader, draft.acme);
    for (origin, key) in [
        (&mut draft.php.origin, "php"),
        (&mut draft.dynamic_vhosts.origin, "dynamic_vhosts"),
    ] {
        if let Some(at) = location(reader, key) {
            *origin = at.origin();
        }
    }
    if let Some(at) = cluster_url(reader.source(), table) {
        draft.cluster.places.note("url", at);
    }
    macro_rules! once {
        ($($slot:ident $value:expr;)*) => {
            $({
                let at = location(reader, stringify!($slot));
                once(reader, &mut configuration.$slot, stringify!($slot), $value, at);
            })*
        };
    }
    once! {
        server draft.server;
        limits draft.limits;
        tls draft.tls;
        acme acme;
        php draft.php;
        cache draft.cache;
        cluster draft.cluster;
        abuse draft.abuse;
        dynamic_vhosts draft.dynamic_vhosts;
        metrics draft.metrics;
        console draft.console;
        tracing draft.tracing;
    }
}

/// Place of the URL in [cluster], whatever is wrong with it.
fn cluster_url(source: &Arc<Source>, table: &DeTable<'_>) -> Option<Location> {
    let section = table.get("cluster")?.get_ref().as_table()?;
    let names = ["url", "redis", "address", "endpoint"];
    let node = names.iter().find_map(|name| section.get(*name))?;
    Some(Location {
        source: source.clone(),
        span: node.span(),
    })
}

/// Notes where [server] names its user and group. Returns its error log.
fn note_identity(
    source: &Arc<Source>,
    table: &DeTable<'_>,
    server: &mut Server,
) -> Option<NamedLog> {
    let origin_of = |key: &str| {
        let node = table.get("server")?.get_ref().as_table()?.get(key)?;
        Some(
            Location {
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
        *origin = origin_of(key).unwrap_or_else(Origin::built_in);
    }
    match &server.error_log.target {
        ErrorLogTarget::File(path) => Some(NamedLog {
            kind: "error log",
            path: path.clone(),
            origin: origin_of("error_log")?,
        }),
        _ => None,
    }
}

/// Notes sockets of `php`, `proxy` and the like: texts that say `unix:` anywhere but in a listener.
fn note_sockets(source: &Arc<Source>, table: &DeTable<'_>, found: &mut Vec<NamedSocket>) {
    for (_, node) in table
        .iter()
        .filter(|(key, _)| !["listener", "listeners", "listen"].contains(&key.get_ref().as_ref()))
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
                    origin: Location {
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
    slot: &mut Option<(T, Location)>,
    table: &str,
    value: T,
    at: Option<Location>,
) {
    match (&slot, at) {
        (_, None) => {}
        (Some((_, first)), Some(at)) => {
            reader.error(
                &at,
                format!("duplicate [{table}]"),
                Some(format!("the first is at {}", first.origin())),
            );
        }
        (None, Some(at)) => *slot = Some((value, at)),
    }
}

pub(crate) fn syntax_error(source: &Arc<Source>, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let at = Location {
        source: source.clone(),
        span: floor(&source.text, span.start)..floor(&source.text, span.end),
    };
    let message = match error.message() {
        "duplicate key" => format!("duplicate key `{}`", source.slice(at.span.clone())),
        message => message.to_owned(),
    };
    let text = &source.text;
    let begin = text[..at.span.start].rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let help = match message.starts_with("missing escaped value") {
        true => Some("a text in '...' needs no escapes: '^/user/([0-9]+)\\.html$'".to_owned()),
        false => foreign_words::advice_for_line(line),
    };
    Diagnostic::new(Severity::Error, &at, message, help)
}

fn read_file(path: &Path) -> Result<String, String> {
    let metadata = privileged::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".into());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
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
        format!("line {line} is not valid UTF-8")
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
