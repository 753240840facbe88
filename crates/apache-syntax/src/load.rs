//! A whole configuration from its files, as the command line names them.

use crate::{
    check::check, environment::Environment, files::Files, limits::Limits, read::Reading,
    tree::Tree, variables::ProcessEnvironment, version::PatternMatch,
};
use saker_config::Diagnostic;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

/// As Apache names the directives of its command line.
const COMMAND_LINE: &str = "-C/-c directives";

/// The command line, in Apache's letters.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `-d`: where relative paths begin until a `ServerRoot`.
    pub server_root: PathBuf,
    /// `-f`: relative to the server root as it is after `before`.
    pub config_file: PathBuf,
    /// `-D`.
    pub defines: Vec<Vec<u8>>,
    /// `-C`: directives before the file.
    pub before: Vec<Vec<u8>>,
    /// `-c`: directives after the file.
    pub after: Vec<Vec<u8>>,
    pub environment: ProcessEnvironment,
    /// For the regular expressions of `<IfVersion>`.
    pub matches: PatternMatch,
    pub limits: Limits,
    /// Sections that say the same are kept apart, so that each is known by its own lines (`saker
    /// explain`). A server lets them share what is made of them.
    pub keeps_places: bool,
}

impl Setup {
    pub fn new(server_root: impl Into<PathBuf>, config_file: impl Into<PathBuf>) -> Setup {
        Setup {
            server_root: server_root.into(),
            config_file: config_file.into(),
            defines: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            environment: ProcessEnvironment::new(),
            matches: |_, _| Err("there are no regular expressions here".into()),
            limits: Limits::default(),
            keeps_places: false,
        }
    }
}

/// A configuration that was read, with its diagnostics.
#[derive(Debug)]
pub struct Loaded {
    pub tree: Tree,
    /// Errors, warnings and notes in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
    /// Number of diagnostics that were too many to keep.
    pub left_out: usize,
    /// As it stands at the end: what `.htaccess` files are read with.
    pub environment: Environment,
    /// Every file that was read, in order.
    pub sources: Vec<PathBuf>,
}

impl Loaded {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
    }
}

/// Reads and checks a configuration.
pub fn load(setup: &Setup, files: &dyn Files) -> Loaded {
    let mut environment = Environment::new(
        setup.server_root.clone(),
        setup.environment.clone(),
        setup.matches,
    );
    for name in &setup.defines {
        environment.variables.define(name, None);
    }
    let mut reading = Reading::new(files, environment, None, setup.limits);
    command_line(&mut reading, &setup.before);
    let main = reading
        .environment
        .path(OsStr::new(&setup.config_file).as_bytes());
    reading.file(&main, None);
    command_line(&mut reading, &setup.after);
    let mut tree = Tree {
        nodes: reading.finish(),
    };
    check(
        &mut tree.nodes,
        &reading.environment.modules,
        None,
        &mut reading.report,
    );
    let (diagnostics, left_out) = reading.report.finish();
    Loaded {
        tree,
        diagnostics,
        left_out,
        environment: reading.environment,
        sources: reading.sources,
    }
}

fn command_line(reading: &mut Reading<'_>, directives: &[Vec<u8>]) {
    if !directives.is_empty() {
        reading.text(COMMAND_LINE.into(), directives.join(&b'\n').into());
    }
}
