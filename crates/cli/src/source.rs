//! Sources of the configuration: a directory, `saker.toml`, an Apache or an nginx configuration.
//!
//! Called by: the start and each reload, which read it; `check`, `explain`, `sign-url`.

use saker_ap_expr::{Pattern, PatternOptions};
use saker_apache::Loaded;
use saker_apache_syntax::{Files as ApacheFiles, OnDiskPrivileged, Setup, read_envvars};
use saker_config::{
    Diagnostic, Diagnostics, Model, ServeOptions, Severity,
    model::{PhpProgram, Workers},
};
use saker_control::apache_state;
use saker_pipeline::FrontEnd;
use std::{
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

#[derive(Clone, Debug)]
pub enum Source {
    Directory(Box<ServeOptions>),
    File {
        path: PathBuf,
        workers: Option<usize>,
        state_dir: Option<PathBuf>,
    },
    Apache {
        input: ApacheInput,
        workers: Option<usize>,
        state_dir: Option<PathBuf>,
        php: Option<PhpProgram>,
    },
    Nginx {
        input: NginxInput,
        workers: Option<usize>,
        state_dir: Option<PathBuf>,
    },
}

/// nginx's command line options for the configuration.
#[derive(Clone, Debug, Default)]
pub struct NginxInput {
    /// `-c`
    pub file: PathBuf,
    /// `-p`; else that of Debian's package for its own configuration, and the folder of the file for
    /// others.
    pub prefix: Option<PathBuf>,
    /// `-g`
    pub global: String,
    /// `-e`
    pub error_log: Option<PathBuf>,
}

/// Apache's command line options for the configuration.
#[derive(Clone, Debug, Default)]
pub struct ApacheInput {
    /// `-f`
    pub file: PathBuf,
    /// `-d`; else the folder of the file.
    pub server_root: Option<PathBuf>,
    /// `-D`
    pub defines: Vec<String>,
    /// `-C`
    pub before: Vec<String>,
    /// `-c`
    pub after: Vec<String>,
}

/// A configuration with its warnings, or all of its errors.
pub struct Read {
    pub model: Model,
    /// Data of a front end other than the native one.
    pub front_end: Option<FrontEnd>,
    pub warnings: Vec<String>,
}

impl Source {
    pub fn read(&self) -> Result<Read, String> {
        let mut read = self.read_text()?;
        let is_apache = matches!(self, Source::Apache { .. });
        settle_php(&mut read.model, is_apache);
        Ok(read)
    }

    fn read_text(&self) -> Result<Read, String> {
        match self {
            Source::Directory(options) => Ok(Read {
                model: Model::for_directory(ServeOptions::clone(options)),
                front_end: None,
                warnings: Vec::new(),
            }),
            Source::File {
                path,
                workers,
                state_dir,
            } => {
                let loaded = load_native(path).map_err(|diagnostics| diagnostics.to_string())?;
                let warnings = loaded.warnings.iter().map(ToString::to_string).collect();
                Ok(Read {
                    model: with(loaded.model, *workers, state_dir.as_deref()),
                    front_end: None,
                    warnings,
                })
            }
            Source::Apache {
                input,
                workers,
                state_dir,
                php,
            } => {
                let loaded = load_apache(input);
                if loaded.has_errors() {
                    return Err(loaded
                        .diagnostics
                        .iter()
                        .filter(|diagnostic| diagnostic.is_error())
                        .map(Diagnostic::to_string)
                        .collect());
                }
                let noteworthy = loaded
                    .diagnostics
                    .iter()
                    .filter(|diagnostic| diagnostic.severity == Severity::Warning);
                let mut warnings: Vec<String> = noteworthy.map(ToString::to_string).collect();
                let front_end: FrontEnd = Arc::new(loaded.apache);
                let mut model = with(loaded.model, *workers, state_dir.as_deref());
                model.php.program = php.clone().unwrap_or(model.php.program);
                let about_php = saker_php::problems(&model);
                warnings.extend(about_php.iter().map(ToString::to_string));
                Ok(Read {
                    model,
                    front_end: Some(front_end),
                    warnings,
                })
            }
            Source::Nginx {
                input,
                workers,
                state_dir,
            } => read_nginx(input, *workers, state_dir.as_deref()),
        }
    }

    /// Name of the configuration for status and messages.
    pub fn name(&self) -> String {
        match self {
            Source::Directory(options) => options.root.display().to_string(),
            Source::File { path, .. } => path.display().to_string(),
            Source::Apache { input, .. } => input.file.display().to_string(),
            Source::Nginx { input, .. } => input.file.display().to_string(),
        }
    }
}

/// Number of workers: one per core unless the configuration sets it.
pub fn count(workers: &Workers) -> usize {
    match workers {
        Workers::Auto => saker_net::process::allowed_cores().len().max(1),
        Workers::Count(count) => (*count).max(1),
    }
}

/// Looks for PHP. Apache's rules may want it for files of any locations, by `.htaccess`.
pub fn settle_php(model: &mut Model, is_apache: bool) {
    let workers = count(&model.server.workers);
    saker_php::settle(model, workers, is_apache);
}

fn with(mut model: Model, workers: Option<usize>, state_dir: Option<&Path>) -> Model {
    if let Some(count) = workers {
        model.server.workers = Workers::Count(count);
    }
    if let Some(path) = state_dir {
        model.server.state_dir = path.to_owned();
    }
    model
}

/// A diagnostic for the log, which has a line for each event: without the picture of the place.
pub fn on_one_line(rendered: &str) -> String {
    let mut lines = rendered.lines();
    let first = lines.next().unwrap_or_default();
    let help = lines
        .filter_map(|line| line.strip_prefix("help: "))
        .map(|help| format!("; {help}"));
    [first.to_owned()].into_iter().chain(help).collect()
}

/// Reads `saker.toml`, and lets the crates above the reader check their parts.
pub fn load_native(path: &Path) -> Result<saker_config::Loaded, Diagnostics> {
    with_features(saker_config::load(path)?)
}

/// The same with another text for one of its files.
pub fn load_replacing(
    path: &Path,
    changed: Option<(&Path, &str)>,
) -> Result<saker_config::Loaded, Diagnostics> {
    match changed {
        Some((file, text)) => with_features(saker_config::load_replacing(path, file, text)?),
        None => load_native(path),
    }
}

fn with_features(loaded: saker_config::Loaded) -> Result<saker_config::Loaded, Diagnostics> {
    let mut problems = saker_dynamic_vhosts::problems(&loaded.model.hosts);
    problems.extend(saker_apache::native_problems(&loaded.model));
    problems.extend(saker_console::problems(&loaded.model));
    match problems.is_empty() {
        true => Ok(loaded),
        false => Err(Diagnostics(
            loaded.warnings.into_iter().chain(problems).collect(),
        )),
    }
}

/// Reads Apache's configuration: its folder is the ServerRoot until the file says otherwise, and
/// Debian's `envvars` beside it is read as its start script would.
pub fn load_apache(input: &ApacheInput) -> Loaded {
    load_apache_keeping_places(input, false)
}

/// `keeps_places`: each section is known by its own lines, even where another one says the same.
pub fn load_apache_keeping_places(input: &ApacheInput, keeps_places: bool) -> Loaded {
    let (mut setup, file) = apache_setup(input);
    setup.keeps_places = keeps_places;
    apache_of((&setup, &file), &OnDiskPrivileged)
}

/// Reads it from other files than those of the disk.
pub fn load_apache_from(input: &ApacheInput, files: &dyn ApacheFiles) -> Loaded {
    let (setup, file) = apache_setup(input);
    apache_of((&setup, &file), files)
}

fn apache_of((setup, file): (&Setup, &Path), files: &dyn ApacheFiles) -> Loaded {
    let mut loaded = saker_apache::load(setup, files);
    loaded.model.server.state_dir = apache_state::of_configuration(file);
    loaded
}

fn read_nginx(
    input: &NginxInput,
    workers: Option<usize>,
    state_dir: Option<&Path>,
) -> Result<Read, String> {
    let loaded = load_nginx(input);
    let all = &loaded.report.diagnostics;
    if loaded.report.has_errors() {
        let errors = all.iter().filter(|diagnostic| diagnostic.is_error());
        return Err(errors.map(Diagnostic::to_string).collect());
    }
    let warnings = all
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Warning);
    let warnings = warnings.map(ToString::to_string).collect();
    let front_end: FrontEnd = Arc::new(saker_nginx::FrontEnd::new(loaded.nginx));
    Ok(Read {
        model: with(loaded.model, workers, state_dir),
        front_end: Some(front_end),
        warnings,
    })
}

/// The process was root when it read its first configuration; it has changed its user at reloads.
static STARTED_BY_ROOT: OnceLock<bool> = OnceLock::new();

/// Prefix of Debian's package.
pub const NGINX_PREFIX: &str = "/usr/share/nginx";

/// Reads nginx's configuration.
pub fn load_nginx(input: &NginxInput) -> saker_nginx::Loaded {
    load_nginx_from(input, &saker_nginx::OnDisk)
}

/// Reads it from other files than those of the disk.
pub fn load_nginx_from(
    input: &NginxInput,
    files: &dyn saker_nginx_syntax::Files,
) -> saker_nginx::Loaded {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let file = absolute(&input.file);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let default = match folder == Path::new("/etc/nginx") {
        true => Path::new(NGINX_PREFIX),
        false => folder,
    };
    let prefix = absolute(input.prefix.as_deref().unwrap_or(default));
    let setup = saker_nginx::Setup {
        file: file.clone(),
        prefix,
        global: input.global.clone(),
        error_log: input.error_log.clone(),
        is_root: *STARTED_BY_ROOT.get_or_init(crate::preflight::is_root),
    };
    let mut loaded = saker_nginx::load(&setup, files);
    loaded.model.server.state_dir = apache_state::of_configuration(&file);
    loaded
}

/// The parameters for reading Apache's configuration, and its file.
pub fn apache_setup(input: &ApacheInput) -> (Setup, PathBuf) {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let file = absolute(
        &input
            .server_root
            .as_deref()
            .unwrap_or(Path::new(""))
            .join(&input.file),
    );
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    let root = input
        .server_root
        .as_deref()
        .map_or_else(|| folder.clone(), absolute);
    let lines = |lines: &[String]| lines.iter().map(|line| line.clone().into_bytes()).collect();
    let mut setup = Setup::new(&root, &file);
    (setup.defines, setup.before, setup.after) = (
        lines(&input.defines),
        lines(&input.before),
        lines(&input.after),
    );
    setup.environment = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect();
    if let Ok(text) = saker_net::privileged::read(&folder.join("envvars")) {
        read_envvars(&text, folder.as_os_str().as_bytes(), &mut setup.environment);
    }
    setup.matches = |pattern, version| {
        let pattern = Pattern::compile(pattern, PatternOptions::default())
            .map_err(|error| error.to_string())?;
        pattern
            .is_match(version)
            .map_err(|_| "the pattern takes too long".to_owned())
    };
    (setup, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_on_one_line() {
        let rendered = "saker.toml:6:8: warning: no folder\n  |\n6 | root = \"/x\"\n  |        ^^^^\nhelp: make it\n";
        assert_eq!(
            on_one_line(rendered),
            "saker.toml:6:8: warning: no folder; make it"
        );
        assert_eq!(on_one_line("one"), "one");
    }
}
