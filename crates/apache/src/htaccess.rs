//! `.htaccess` files: read when a walk first comes by, and again when their folder has changed.
//!
//! A worker keeps what it has read, the absence of a file too, with the stamps of everything that
//! it looked at; so a walk past a folder costs a look-up and a load. Difficulty: what a file may
//! say depends on where AllowOverride stands, so one file is kept for each of its readings.

use rustix::io::Errno;
use saker_ap_expr::{PATTERNS_WEIGHT_MAX, PatternsBounded};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Apache,
    read_section::read_all,
    reading::{Place, Reading},
};
use saker_apache_syntax::{
    FileKind, Files, Node, OnDisk, Permission, limits::HTACCESS_BYTES_MAX, parse_htaccess,
};
use saker_auth::Methods;
use saker_files::{
    ChangeToken, Kind, LinkPolicy, ResolveError, Watcher, cached_stat, metadata, resolve,
};
use saker_http::Status;
use saker_telemetry::{
    error_log::{self, LogContext},
    httpd_message, message,
};
use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Component, Path},
    sync::Arc,
};

/// Looked through several times a request.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Files (or their absence) that a worker keeps.
const KEPT_MAX: usize = 50_000;

/// The outcome of looking for a file.
#[derive(Clone, Debug)]
pub enum Outcome {
    Absent,
    Settings(Arc<DirConfig>),
    /// The folder and everything below is answered with an error.
    Broken(Arc<Broken>),
}

/// Why a file can't be used.
#[derive(Debug)]
pub struct Broken {
    pub status: Status,
    complaint: Complaint,
}

#[derive(Debug)]
enum Complaint {
    /// The file or its folder can't be read.
    Unreadable {
        shown: String,
        errno: i32,
    },
    Other(String),
}

impl Broken {
    fn other(status: Status, text: String) -> Outcome {
        Outcome::Broken(Arc::new(Broken {
            status,
            complaint: Complaint::Other(text),
        }))
    }

    /// Each request that it costs its answer leaves a line, as in Apache.
    pub fn log(&self, about: &dyn LogContext) {
        match &self.complaint {
            Complaint::Other(text) => {
                error_log::log_about(&message::HTACCESS_BROKEN, about, format_args!("{text}"))
            }
            Complaint::Unreadable { shown, errno } => {
                let folder = shown.rsplit_once('/').map_or("", |(folder, _)| folder);
                let what =
                    "pcfg_openfile: unable to check htaccess file, ensure it is readable and that";
                let text = format_args!("{shown} {what} '{folder}/' is executable");
                error_log::log_httpd(
                    &httpd_message::HTACCESS_UNREADABLE,
                    Some(*errno),
                    about,
                    text,
                );
            }
        }
    }
}

struct Kept {
    stamps: Box<[ChangeToken]>,
    permission: Permission,
    outcome: Outcome,
}

#[derive(Default)]
pub struct HtaccessFiles {
    by_path: Map<Box<[u8]>, Vec<Kept>>,
}

impl HtaccessFiles {
    /// Reads the file `name` in `folder` (with a slash at its end). Leaves its change tokens.
    pub fn look(
        &mut self,
        apache: &Apache,
        watcher: &Watcher,
        folder: &[u8],
        name: &str,
        permission: &Permission,
        stamps: &mut Vec<ChangeToken>,
    ) -> Outcome {
        let path: Box<[u8]> = [folder, name.as_bytes()].concat().into();
        let now_ms = watcher.now_ms();
        if let Some(readings) = self.by_path.get(&path)
            && let Some(kept) = readings.iter().find(|kept| kept.permission == *permission)
            && kept.stamps.iter().all(|stamp| stamp.is_current(now_ms))
        {
            stamps.extend(kept.stamps.iter().cloned());
            return kept.outcome.clone();
        }
        let mut own = Vec::new();
        let outcome = read(apache, watcher, folder, name, permission, &mut own);
        stamps.extend(own.iter().cloned());
        self.keep(
            path,
            Kept {
                stamps: own.into(),
                permission: permission.clone(),
                outcome: outcome.clone(),
            },
        );
        outcome
    }

    fn keep(&mut self, path: Box<[u8]>, kept: Kept) {
        if self.by_path.len() >= KEPT_MAX {
            // Rare enough to begin anew.
            self.by_path.clear();
        }
        let readings = self.by_path.entry(path).or_default();
        readings.retain(|other| other.permission != kept.permission);
        readings.push(kept);
    }
}

fn read(
    apache: &Apache,
    watcher: &Watcher,
    folder: &[u8],
    name: &str,
    permission: &Permission,
    stamps: &mut Vec<ChangeToken>,
) -> Outcome {
    let shown = format!("{}{name}", String::from_utf8_lossy(folder));
    let found = match resolve(
        watcher,
        Path::new(OsStr::from_bytes(folder)),
        name.as_bytes(),
        LinkPolicy::Follow,
        stamps,
    ) {
        Ok(found) if found.metadata.kind == Kind::File => found,
        Err(ResolveError::NotFound | ResolveError::LinkDangling) => return Outcome::Absent,
        // As Apache: the rules in it are not known, so access is denied. Opening a FIFO would block
        // until it has a writer.
        Ok(found) => {
            let noun = found.metadata.noun();
            return Broken::other(
                Status::FORBIDDEN,
                format!("{shown}: it is a {noun} and no file; access is denied to be safe"),
            );
        }
        Err(ResolveError::Denied) => {
            let complaint = Complaint::Unreadable {
                shown,
                errno: Errno::ACCESS.raw_os_error(),
            };
            return Outcome::Broken(Arc::new(Broken {
                status: Status::FORBIDDEN,
                complaint,
            }));
        }
        Err(error) => return Broken::other(Status::FORBIDDEN, format!("{shown}: {error}")),
    };
    // The file itself, too: it may get another name later, and be written to by that.
    stamps.push(watcher.file_token(&found.file, &found.metadata));
    let size = metadata(&found.file).map_or(found.metadata.size, |metadata| metadata.size);
    // Before room is made for it: its author may make it as long as the disk.
    if size > HTACCESS_BYTES_MAX as u64 {
        return Broken::other(
            Status::INTERNAL_SERVER_ERROR,
            format!("{shown}: larger than {HTACCESS_BYTES_MAX} bytes"),
        );
    }
    let mut text = vec![0; size as usize];
    if let Err(error) = found.file.read_exact_at(&mut text, 0) {
        return Broken::other(Status::INTERNAL_SERVER_ERROR, format!("{shown}: {error}"));
    }
    let files = WatchedFiles {
        watcher,
        stamps: RefCell::new(stamps),
    };
    parsed(apache, folder, &shown, permission, (&text, &files))
}

fn parsed(
    apache: &Apache,
    folder: &[u8],
    shown: &str,
    permission: &Permission,
    (text, files): (&[u8], &dyn Files),
) -> Outcome {
    let _defaults = apache.pattern_options.in_force();
    let bounded = PatternsBounded::to(PATTERNS_WEIGHT_MAX);
    let outcome = match parse_htaccess(text, shown, &apache.environment, permission, files) {
        Ok(parsed) => settings(apache, folder, &parsed.tree.nodes),
        Err(error) => broken(&error),
    };
    match outcome {
        Outcome::Broken(broken) if bounded.is_exhausted() => Broken::other(
            broken.status,
            format!("{shown}: its patterns are too large together (PATTERNS_WEIGHT_MAX)"),
        ),
        outcome => outcome,
    }
}

/// The disk, with stamps of what was looked at there (`<IfFile>`): the outcome of reading a file
/// depends on that as well.
struct WatchedFiles<'w> {
    watcher: &'w Watcher,
    stamps: RefCell<&'w mut Vec<ChangeToken>>,
}

impl Files for WatchedFiles<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.stamps.borrow_mut().push(ChangeToken::until(0));
        OnDisk.read(path)
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        let mut stamps = self.stamps.borrow_mut();
        let bytes = path.as_os_str().as_bytes();
        let has_detours = path
            .components()
            .any(|component| component == Component::ParentDir);
        let Some(relative) = bytes.strip_prefix(b"/").filter(|_| !has_detours) else {
            // Where links and `..` lead is for the kernel to say, each time anew.
            stamps.push(ChangeToken::until(0));
            return OnDisk.kind(path);
        };
        let root = Path::new("/");
        let found = cached_stat(self.watcher, root, relative, LinkPolicy::Follow, *stamps);
        Some(match found.ok()?.kind {
            Kind::Directory => FileKind::Directory,
            Kind::File | Kind::Other => FileKind::File,
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.stamps.borrow_mut().push(ChangeToken::until(0));
        OnDisk.list(directory)
    }
}

fn settings(apache: &Apache, folder: &[u8], nodes: &[Node]) -> Outcome {
    let mut diagnostics = Vec::new();
    let place = Place::Htaccess(String::from_utf8_lossy(folder).into());
    let mut reading = Reading {
        inner: None,
        server_root: &apache.environment.server_root,
        place,
        section: None,
        methods: Methods::All,
        aliases: &apache.aliases,
        diagnostics: &mut diagnostics,
    };
    let mut local = read_all(nodes, &mut reading);
    local.is_made_anew = true;
    match diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        Some(error) => broken(error),
        None => Outcome::Settings(Arc::from(local)),
    }
}

fn broken(error: &saker_config::Diagnostic) -> Outcome {
    let (file, line) = (&error.origin.file, error.origin.line);
    Broken::other(
        Status::INTERNAL_SERVER_ERROR,
        format!("{file}:{line}: {}", error.message),
    )
}
