//! `saker check` and `saker explain` for a running server's console, by its own source.
//!
//! Called by: the process, for its console, on a thread of its own.
//! Caveat: a changed file is checked before it is written: the other files are read from the disk.
//! Out of scope: the commands, which print (`check`, `explain`).

use crate::{
    check,
    dispatch_trace::{self, Question},
    source::{Source, load_apache_from, load_nginx_from, load_replacing, settle_php},
};
use saker_apache_syntax::{FileKind, Files as ApacheFiles, OnDiskPrivileged};
use saker_config::{
    Diagnostic, Model, Severity,
    completion::{self, Completion},
};
use saker_console::LiveChanges;
use saker_nginx::OnDisk;
use saker_nginx_syntax::Files as NginxFiles;
use saker_pipeline::TraceStep;
use saker_serving::services::MakeServices;
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

/// Dispatches a request (method, URL, and fields) that is never sent.
pub fn explain(
    source: &Source,
    make_services: MakeServices,
    (method, url, headers): (&str, &str, &[(String, String)]),
) -> Result<Vec<TraceStep>, String> {
    let read = source.read()?;
    if let Ok(changes) = LiveChanges::load(&read.model.server.state_dir) {
        changes.apply(&read.model);
    }
    let mut steps = Vec::new();
    let question = Question {
        method,
        url,
        headers,
    };
    let configuration = (read.model, read.front_end);
    dispatch_trace::explain(make_services, configuration, &question, &mut |step| {
        steps.push(step);
    })?;
    Ok(steps)
}

/// All diagnostics of the configuration, with another text for one of its files.
pub fn check(source: &Source, changed: Option<(&Path, &str)>) -> Vec<Diagnostic> {
    let (mut model, mut found) = match load(source, changed) {
        Ok(loaded) => loaded,
        Err(found) => return found,
    };
    settle_php(&mut model, matches!(source, Source::Apache { .. }));
    if !found.iter().any(Diagnostic::is_error) {
        found.extend(check::of_machine(&model));
    }
    found
}

/// Completes a text of one of the configuration's files.
pub fn complete(source: &Source, file: &Path, before: &str) -> Completion {
    match source {
        Source::Directory(_) => Completion::default(),
        Source::File { .. } => completion::complete(before),
        Source::Apache { .. } => saker_apache_syntax::complete(before),
        Source::Nginx { input, .. } => {
            let is_main = resolved(file) == resolved(&input.file);
            saker_nginx_syntax::complete(before, is_main)
        }
    }
}

/// The word for a severity.
pub fn severity(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

type Loaded = Result<(Model, Vec<Diagnostic>), Vec<Diagnostic>>;

fn load(source: &Source, changed: Option<(&Path, &str)>) -> Loaded {
    let overlay = Overlay::new(changed);
    match source {
        Source::Directory(options) => Ok((
            Model::for_directory(saker_config::ServeOptions::clone(options)),
            Vec::new(),
        )),
        Source::File { path, .. } => {
            let loaded = load_replacing(path, changed).map_err(|found| found.0)?;
            Ok((loaded.model, loaded.warnings))
        }
        Source::Apache { input, .. } => {
            let loaded = load_apache_from(input, &overlay);
            match loaded.has_errors() {
                true => Err(loaded.diagnostics),
                false => Ok((loaded.model, loaded.diagnostics)),
            }
        }
        Source::Nginx { input, .. } => {
            let loaded = load_nginx_from(input, &overlay);
            match loaded.report.has_errors() {
                true => Err(loaded.report.diagnostics),
                false => Ok((loaded.model, loaded.report.diagnostics)),
            }
        }
    }
}

/// The files of the disk, one of which has another text.
struct Overlay(Option<(PathBuf, Vec<u8>)>);

impl Overlay {
    fn new(changed: Option<(&Path, &str)>) -> Overlay {
        Overlay(changed.map(|(path, text)| (resolved(path), text.as_bytes().to_vec())))
    }

    fn replaced(&self, path: &Path) -> Option<Vec<u8>> {
        let (own, text) = self.0.as_ref()?;
        (*own == resolved(path)).then(|| text.clone())
    }
}

/// A file may have several names.
fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

impl ApacheFiles for Overlay {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.replaced(path)
            .map_or_else(|| OnDiskPrivileged.read(path), Ok)
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        OnDiskPrivileged.kind(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        OnDiskPrivileged.list(directory)
    }
}

impl NginxFiles for Overlay {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.replaced(path)
            .map_or_else(|| NginxFiles::read(&OnDisk, path), Ok)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        NginxFiles::list(&OnDisk, directory)
    }
}
