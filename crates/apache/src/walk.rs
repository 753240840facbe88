//! From a file name to the settings in force there: folders from the root down with their
//! `.htaccess` between, then files, locations and conditions, in Apache's order.
//!
//! Difficulty: whether a link may be followed is said by the folder above it, and what a folder
//! says is known only after its own sections and file were laid over; so the path is walked
//! component by component.

use crate::{
    facts::{RequestFacts, note_dependencies},
    htaccess::{HtaccessFiles, Outcome},
    memo::{Folder, Memo},
    state::{snapshot, state, vary_by},
    worker::ApacheRules,
};
use memchr::{memchr_iter, memrchr_iter};
use rustix::io::Errno;
use saker_ap_expr::{Evaluation, EvaluationError, Expression, WorkLimit};
use saker_apache_model::{
    dir_config::{Condition, ConditionKind, DirConfig, Section},
    host::{Apache, Host},
    native,
};
use saker_apache_syntax::options::{FOLLOW_SYM_LINKS, OptionSet, SYM_LINKS_IF_OWNER_MATCH};
use saker_config::model::SymlinkPolicy;
use saker_files::{ChangeToken, Kind, LinkPolicy, Metadata, ResolveError, Watcher, cached_stat};
use saker_http::Status;
use saker_net::blocking::Pause;
use saker_pipeline::Exchange;
use saker_static_files::link_policy as policy_of_files;
use saker_telemetry::{
    error_log::{self, LogContext},
    httpd_message::{self, HttpdMessage},
    message,
};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// No file system here has longer names; Apache says forbidden, not missing.
const NAME_BYTES_MAX: usize = 255;

/// As Apache's own bound on components.
const COMPONENTS_MAX: usize = 200;

/// Everything that a walk needs of its worker.
pub struct Walker<'w> {
    pub apache: &'w Apache,
    pub host: &'w Host,
    /// Which of the hosts it is, or of the roots of native sites.
    pub host_index: usize,
    /// Set for a native site.
    pub native: Option<NativeWalk>,
    pub watcher: &'w Watcher,
    pub htaccess: &'w mut HtaccessFiles,
    pub memo: &'w mut Memo,
    pub stamps: Vec<ChangeToken>,
    /// Whose request it is.
    pub about: &'w dyn LogContext,
    /// The path of the URL, for the log.
    pub uri: &'w [u8],
}

/// A walk in a native site: it begins at the site's root, whose own path is the operator's.
pub struct NativeWalk {
    /// With a slash at its end.
    pub root: Vec<u8>,
    /// In force there, before its `.htaccess`.
    pub local: Arc<DirConfig>,
    /// Links that the site follows.
    pub symlinks: SymlinkPolicy,
}

/// Settings in force in a folder, the folder, and what of the file name is left.
type Nearest<'f> = (Arc<DirConfig>, Vec<u8>, &'f [u8]);

/// The end of a walk.
#[derive(Debug)]
pub struct Walked {
    pub local: Arc<DirConfig>,
    /// As far as it is there, and one component more; folders with their slash.
    pub filename: Vec<u8>,
    pub kind: Option<Kind>,
    pub path_info: Vec<u8>,
    /// Groups that patterns of `<DirectoryMatch>` caught.
    pub captures: Vec<(String, Vec<u8>)>,
}

impl Walker<'_> {
    /// Walks to an absolute file name, decoded, without `.` and `..`.
    pub fn folders(&mut self, filename: &[u8]) -> Result<Walked, Status> {
        let start = self.stamps.len();
        let (mut local, mut folder, mut rest) = self.nearest(filename)?;
        let mut captures = Vec::new();
        for _ in 0..COMPONENTS_MAX {
            let (component, behind) = split(rest);
            // A rule may have made it of a query: sections are compared with paths that have no
            // such detours.
            if component == b"." {
                rest = behind.unwrap_or_default();
                continue;
            }
            if component.is_empty() {
                let local = self.patterns(local, &folder, &mut captures)?;
                return Ok(Walked {
                    local,
                    filename: folder,
                    kind: Some(Kind::Directory),
                    path_info: Vec::new(),
                    captures,
                });
            }
            let kind = self.component(&folder, component, local.core.options.in_force())?;
            let Some(behind) = behind.filter(|_| kind == Some(Kind::Directory)) else {
                return self.last(local, folder, (component, kind, behind), captures);
            };
            folder.extend_from_slice(component);
            folder.push(b'/');
            local = self.folder(local, &folder)?;
            let stamps = self.stamps.get(start..).unwrap_or_default().into();
            self.memo.keep_folder(
                self.host_index,
                &folder,
                Folder {
                    local: Arc::clone(&local),
                    stamps,
                },
            );
            rest = behind;
        }
        self.complain(
            &httpd_message::ACCESS_FAILED,
            Errno::NAMETOOLONG,
            "failed",
            &folder,
            rest,
        );
        Err(Status::FORBIDDEN)
    }

    /// A file, a folder by its name without the slash, or what is not there; with what is behind
    /// it.
    fn last(
        &mut self,
        local: Arc<DirConfig>,
        mut folder: Vec<u8>,
        (name, kind, behind): (&[u8], Option<Kind>, Option<&[u8]>),
        mut captures: Vec<(String, Vec<u8>)>,
    ) -> Result<Walked, Status> {
        if kind == Some(Kind::Directory) {
            folder.extend_from_slice(name);
            folder.push(b'/');
            let local = self.folder(local, &folder)?;
            // As in Apache, the name of a folder without its slash is one like a file's.
            folder.pop();
            let local = self.patterns(local, &folder, &mut captures)?;
            return Ok(Walked {
                local: self.files(local, name, &mut captures)?,
                filename: folder,
                kind,
                path_info: Vec::new(),
                captures,
            });
        }
        if kind == Some(Kind::Other) {
            return Err(self.refuse(&folder, name));
        }
        folder.extend_from_slice(name);
        let local = match (kind, behind) {
            (Some(Kind::File), None) => self.file(local, &folder),
            _ => local,
        };
        let local = self.patterns(local, &folder, &mut captures)?;
        let path_info = behind
            .map(|behind| [b"/", behind].concat())
            .unwrap_or_default();
        Ok(Walked {
            local: self.files(local, name, &mut captures)?,
            filename: folder,
            kind,
            path_info,
            captures,
        })
    }

    /// FIFOs, sockets and devices are nothing to be served, whatever handler there is (Apache:
    /// "doesn't point to a file or directory").
    fn refuse(&self, folder: &[u8], name: &[u8]) -> Status {
        let (folder, name) = (
            String::from_utf8_lossy(folder),
            String::from_utf8_lossy(name),
        );
        error_log::log_about(
            &message::NOT_A_FILE,
            self.about,
            format_args!("{folder}{name}"),
        );
        Status::FORBIDDEN
    }

    /// The deepest folder on the way that a walk came through before, and what is left; else the
    /// root.
    fn nearest<'f>(&mut self, filename: &'f [u8]) -> Result<Nearest<'f>, Status> {
        let now_ms = self.watcher.now_ms();
        let root_bytes = self.native.as_ref().map_or(1, |native| native.root.len());
        // No folder is kept deeper than that, and a path of slashes must not cost its square.
        let too_deep = memchr_iter(b'/', filename)
            .count()
            .saturating_sub(COMPONENTS_MAX);
        let slashes = memrchr_iter(b'/', filename).skip(too_deep);
        for at in slashes.take_while(|at| *at > 0 && *at + 1 >= root_bytes) {
            let (path, rest) = filename.split_at(at + 1);
            if let Some(known) = self.memo.folder(self.host_index, path, now_ms) {
                self.stamps.extend(known.stamps.iter().cloned());
                return Ok((Arc::clone(&known.local), path.to_vec(), rest));
            }
        }
        if let Some(native) = &self.native {
            let Some(rest) = filename.strip_prefix(native.root.as_slice()) else {
                return Err(Status::FORBIDDEN);
            };
            let (root, local) = (native.root.clone(), Arc::clone(&native.local));
            let local = self.folder(local, &root)?;
            return Ok((local, root, rest));
        }
        let local = self.folder(Arc::clone(&self.host.defaults), b"/")?;
        Ok((
            local,
            b"/".to_vec(),
            filename.strip_prefix(b"/").unwrap_or(filename),
        ))
    }

    /// Sections for a folder by its path, then its `.htaccess`.
    fn folder(
        &mut self,
        mut local: Arc<DirConfig>,
        folder: &[u8],
    ) -> Result<Arc<DirConfig>, Status> {
        let host = self.host;
        for section in host
            .directories
            .iter()
            .filter(|section| is_by_name(section, folder))
        {
            local = self.memo.over(&local, &section.local);
        }
        let permission = local.core.permission();
        if permission.is_none() {
            return Ok(local);
        }
        for name in host.access_file_names.iter() {
            match self.htaccess.look(
                self.apache,
                self.watcher,
                folder,
                name,
                &permission,
                &mut self.stamps,
            ) {
                Outcome::Absent => {}
                Outcome::Settings(said) => return Ok(self.memo.over(&local, &said)),
                Outcome::Broken(broken) => {
                    broken.log(self.about);
                    return Err(broken.status);
                }
            }
        }
        Ok(local)
    }

    /// `<Directory>` with the name of a file. As in Apache, not if something stands behind the name.
    fn file(&mut self, mut local: Arc<DirConfig>, filename: &[u8]) -> Arc<DirConfig> {
        let with_slash = [filename, b"/"].concat();
        let sections = self.host.directories.iter();
        for section in sections.filter(|section| is_by_name(section, &with_slash)) {
            local = self.memo.over(&local, &section.local);
        }
        local
    }

    /// `<DirectoryMatch>`, after all folders: by the name of the file, or the folder, with its slash if
    /// the path has one.
    fn patterns(
        &mut self,
        mut local: Arc<DirConfig>,
        filename: &[u8],
        captures: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<Arc<DirConfig>, Status> {
        let sections = self.host.directories.iter();
        for section in sections.filter(|section| section.matcher.is_pattern()) {
            let is_for = section.is_for_folder(filename);
            if is_for.map_err(|_| self.gave_up(filename))? {
                captures.extend(section.named_captures(filename));
                local = self.memo.over(&local, &section.local);
            }
        }
        Ok(local)
    }

    /// `<Files>` and `<FilesMatch>`, those of folders and `.htaccess` among them.
    fn files(
        &mut self,
        local: Arc<DirConfig>,
        name: &[u8],
        captures: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<Arc<DirConfig>, Status> {
        let sections = local.files.clone();
        let mut own = None;
        for section in sections.iter() {
            if section.is_for_name(name).map_err(|_| self.gave_up(name))? {
                captures.extend(section.named_captures(name));
                own = among(self.memo, own, &section.local);
            }
        }
        Ok(own.map_or_else(|| Arc::clone(&local), |own| self.memo.over(&local, &own)))
    }

    /// The pattern of a section was given up, so it is not known what is in force.
    fn gave_up(&self, name: &[u8]) -> Status {
        let (name, limit) = (String::from_utf8_lossy(name), WorkLimit::Pattern.as_str());
        let facts = format_args!("{name}: {limit}");
        error_log::log_about(&message::REQUEST_GIVEN_UP, self.about, facts);
        Status::INTERNAL_SERVER_ERROR
    }

    /// `None`: not there.
    fn component(
        &mut self,
        folder: &[u8],
        name: &[u8],
        options: OptionSet,
    ) -> Result<Option<Kind>, Status> {
        if name.len() > NAME_BYTES_MAX {
            self.complain(
                &httpd_message::ACCESS_FAILED,
                Errno::NAMETOOLONG,
                "failed",
                folder,
                name,
            );
            return Err(Status::FORBIDDEN);
        }
        match self.stat(folder, name, options) {
            Ok(metadata) => Ok(Some(metadata.kind)),
            Err(ResolveError::NotFound) => Ok(None),
            // Its own permissions are the handler's business.
            Err(ResolveError::Denied) => self.kind_of_closed(folder, name),
            Err(ResolveError::Descriptors) => {
                self.complain(
                    &httpd_message::ACCESS_FAILED,
                    Errno::MFILE,
                    "failed",
                    folder,
                    name,
                );
                Err(Status::SERVICE_UNAVAILABLE)
            }
            Err(ResolveError::LinkDenied | ResolveError::LinkLoop | ResolveError::LinkDangling) => {
                let (folder, name) = (
                    String::from_utf8_lossy(folder),
                    String::from_utf8_lossy(name),
                );
                let text = format_args!(
                    "Symbolic link not allowed or link target not accessible: {folder}{name}"
                );
                error_log::log_httpd(&httpd_message::LINK_REFUSED, None, self.about, text);
                Err(Status::FORBIDDEN)
            }
            Err(ResolveError::Io(errno)) => {
                self.complain(
                    &httpd_message::ACCESS_FAILED,
                    Errno::from_raw_os_error(errno),
                    "failed",
                    folder,
                    name,
                );
                Err(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Links that have to stay inside a native site are judged from its root.
    fn stat(
        &mut self,
        folder: &[u8],
        name: &[u8],
        options: OptionSet,
    ) -> Result<Metadata, ResolveError> {
        let native = self.native.as_ref();
        let policy = native.map(|native| native::symlinks(native.symlinks, options));
        let policy = policy.map_or_else(|| link_policy(options), policy_of_files);
        let inside = native
            .filter(|_| policy == LinkPolicy::Inside)
            .and_then(|native| Some((native, folder.strip_prefix(native.root.as_slice())?)));
        let (root, relative) = match inside {
            Some((native, below)) => (native.root.as_slice(), [below, name].concat()),
            None => (folder, name.to_vec()),
        };
        cached_stat(
            self.watcher,
            Path::new(OsStr::from_bytes(root)),
            &relative,
            policy,
            &mut self.stamps,
        )
    }

    /// A file that may not be read is a file all the same; a folder that may not be searched is
    /// forbidden.
    fn kind_of_closed(&self, folder: &[u8], name: &[u8]) -> Result<Option<Kind>, Status> {
        let path = [folder, name].concat();
        match std::fs::metadata(OsStr::from_bytes(&path)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(Kind::File)),
            _ => {
                self.complain(
                    &httpd_message::SEARCH_DENIED,
                    Errno::ACCESS,
                    "denied",
                    folder,
                    name,
                );
                Err(Status::FORBIDDEN)
            }
        }
    }

    fn complain(
        &self,
        message: &'static HttpdMessage,
        errno: Errno,
        what: &str,
        folder: &[u8],
        name: &[u8],
    ) {
        let (folder, name) = (
            String::from_utf8_lossy(folder),
            String::from_utf8_lossy(name),
        );
        let uri = String::from_utf8_lossy(self.uri);
        let why = match errno {
            Errno::ACCESS => " because search permissions are missing on a component of the path",
            _ => "",
        };
        let text = format_args!("access to {uri} {what} (filesystem path '{folder}{name}'){why}");
        error_log::log_httpd(message, Some(errno.raw_os_error()), self.about, text);
    }
}

/// The first component, and what is behind its slash. Several slashes are one.
fn split(rest: &[u8]) -> (&[u8], Option<&[u8]>) {
    let rest = rest
        .get(rest.iter().take_while(|byte| **byte == b'/').count()..)
        .unwrap_or_default();
    match rest.iter().position(|byte| *byte == b'/') {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..)),
        None => (rest, None),
    }
}

pub fn link_policy(options: OptionSet) -> LinkPolicy {
    if options.contains(FOLLOW_SYM_LINKS) {
        LinkPolicy::Follow
    } else if options.contains(SYM_LINKS_IF_OWNER_MATCH) {
        LinkPolicy::OwnerMatch
    } else {
        LinkPolicy::Never
    }
}

/// True for a `<Directory>` of that folder that is no pattern.
fn is_by_name(section: &Section, folder: &[u8]) -> bool {
    !section.matcher.is_pattern() && section.is_for_folder(folder) == Ok(true)
}

/// Sections of one kind are laid over each other first, and all of them together over what is
/// outside.
fn among(
    memo: &mut Memo,
    before: Option<Arc<DirConfig>>,
    section: &Arc<DirConfig>,
) -> Option<Arc<DirConfig>> {
    Some(before.map_or_else(|| Arc::clone(section), |before| memo.over(&before, section)))
}

/// `<Location>` and `<LocationMatch>`.
pub fn locations(
    memo: &mut Memo,
    host: &Host,
    local: Arc<DirConfig>,
    exchange: &Exchange,
    captures: &mut Vec<(String, Vec<u8>)>,
) -> Arc<DirConfig> {
    let (mut own, path) = (None, &*exchange.path);
    let of_files = std::mem::take(captures);
    for section in host
        .locations
        .iter()
        .filter(|section| is_for_path(exchange, section, path))
    {
        captures.extend(section.named_captures(path));
        own = among(memo, own, &section.local);
    }
    // Apache matches locations first: what files set under the same name stays.
    captures.extend(of_files);
    own.map_or_else(|| Arc::clone(&local), |own| memo.over(&local, &own))
}

/// True if a `<Location>` is for a path, or if that can't be told: the request ends with an error
/// then.
pub fn is_for_path(exchange: &Exchange, section: &Section, path: &[u8]) -> bool {
    section.is_for_path(path).unwrap_or_else(|_| {
        exchange.budget().work().give_up();
        true
    })
}

/// `<If>` and what follows it, last of all. What conditions looked at is noted in the exchange.
///
/// # Errors
/// A look-ahead (`-U`, `-F`) has to wait; the conditions are evaluated again after it.
pub fn conditions(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: Arc<DirConfig>,
) -> Result<Arc<DirConfig>, Pause> {
    if local.conditions.is_empty() {
        return Ok(local);
    }
    state(exchange).local = Some(Arc::clone(&local));
    let sections = local.conditions.clone();
    let seen_state = snapshot(exchange);
    let seen = RequestFacts {
        rules: Some((rules, host)),
        ..RequestFacts::new(exchange, &seen_state, host, watcher)
    };
    let mut evaluation = Evaluation::recording_tests(&seen);
    let held = those_that_hold(&sections, &mut evaluation);
    let (dependencies, stamps) = (evaluation.dependencies, seen.stamps.take());
    let (has_looked_ahead, pause) = (seen.has_looked_ahead.get(), seen.pause.take());
    if let Some(pause) = pause {
        return Err(pause);
    }
    drop(seen_state);
    vary_by(exchange, &dependencies);
    note_dependencies(exchange, &dependencies, stamps);
    if has_looked_ahead {
        exchange.depends_on_request();
    }
    let mut memo = rules.memo.borrow_mut();
    let own = held
        .iter()
        .fold(None, |own, section| among(&mut memo, own, section));
    Ok(own.map_or_else(|| Arc::clone(&local), |own| memo.over(&local, &own)))
}

/// Groups of other expressions are none of this one's.
fn held_alone(
    expression: &Expression,
    evaluation: &mut Evaluation<'_>,
) -> Result<bool, EvaluationError> {
    evaluation.backreferences.clear();
    expression.evaluate(evaluation)
}

/// As Apache, level by level: sections inside of those that hold come after all of their own level,
/// whichever container they are in. As deep as the configuration's own nesting goes.
fn those_that_hold(
    sections: &[Arc<Condition>],
    evaluation: &mut Evaluation<'_>,
) -> Vec<Arc<DirConfig>> {
    let mut held = Vec::new();
    let mut level = sections.to_vec();
    while !level.is_empty() {
        let mut inner = Vec::new();
        let mut taken = false;
        for section in &level {
            let holds = match &section.kind {
                ConditionKind::If(expression) => {
                    taken = false;
                    held_alone(expression, evaluation)
                }
                _ if taken => continue,
                ConditionKind::ElseIf(expression) => held_alone(expression, evaluation),
                ConditionKind::Else => Ok(true),
            };
            // As Apache: what can't be evaluated does not hold.
            if holds.unwrap_or(false) {
                taken = true;
                held.push(Arc::clone(&section.local));
                inner.extend(section.local.conditions.iter().cloned());
            }
        }
        level = inner;
    }
    held
}
