//! From a file name to the settings in force there: folders from the root down with their `.htaccess` between, then files, locations and
//! conditions, in Apache's order.
//!
//! Difficulty: whether a link may be followed is said by the folder above it, and what a folder says is known only after its own sections
//! and file were laid over; so the path is walked component by component.

use crate::{
    facts::{Seen, note_dependencies},
    host::{Apache, Host},
    htaccess::{HtaccessFiles, Outcome},
    local::Local,
    sections::{ConditionKind, Section},
    state::{peek, state},
};
use saker_config_apache::options::{FOLLOW_SYM_LINKS, OptionSet, SYM_LINKS_IF_OWNER_MATCH};
use saker_expressions::Evaluation;
use saker_files::{Kind, LinkPolicy, ResolveError, Stamp, Watcher, resolve};
use saker_http::Status;
use saker_pipeline::Exchange;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// As Apache's own bound on components.
const COMPONENTS_MAX: usize = 200;

/// What a walk needs of its worker.
pub struct Walker<'w> {
    pub apache: &'w Apache,
    pub host: &'w Host,
    pub watcher: &'w Watcher,
    pub htaccess: &'w mut HtaccessFiles,
    pub stamps: Vec<Stamp>,
}

/// Where a walk ended.
#[derive(Debug)]
pub struct Walked {
    pub local: Arc<Local>,
    /// As far as it is there, and one component more; folders with their slash.
    pub filename: Vec<u8>,
    pub kind: Option<Kind>,
    pub path_info: Vec<u8>,
    /// What patterns of `<DirectoryMatch>` caught.
    pub captures: Vec<(String, Vec<u8>)>,
}

impl Walker<'_> {
    /// Walks to an absolute file name, decoded, without `.` and `..`.
    pub fn folders(&mut self, filename: &[u8]) -> Result<Walked, Status> {
        let mut local = Arc::clone(&self.host.defaults);
        let mut folder = b"/".to_vec();
        let mut rest: &[u8] = filename.strip_prefix(b"/").unwrap_or(filename);
        let mut captures = Vec::new();
        for _ in 0..COMPONENTS_MAX {
            local = self.folder(local, &folder)?;
            let (component, behind) = split(rest);
            if component.is_empty() {
                let local = self.patterns(local, &folder, &mut captures);
                return Ok(Walked { local, filename: folder, kind: Some(Kind::Directory), path_info: Vec::new(), captures });
            }
            let kind = self.component(&folder, component, local.core.options.in_force())?;
            if kind == Some(Kind::Directory) {
                folder.extend_from_slice(component);
                if behind.is_none() {
                    // A folder by its name without the slash.
                    let local = self.patterns(local, &folder, &mut captures);
                    return Ok(Walked { local, filename: folder, kind, path_info: Vec::new(), captures });
                }
                folder.push(b'/');
                rest = behind.unwrap_or_default();
                continue;
            }
            let local = self.patterns(local, &folder, &mut captures);
            let path_info = behind.map(|behind| [b"/", behind].concat()).unwrap_or_default();
            let filename = [folder.as_slice(), component].concat();
            return Ok(Walked { local: files(local, component, &mut captures), filename, kind, path_info, captures });
        }
        Err(Status::FORBIDDEN)
    }

    /// Sections for a folder by its path, then its `.htaccess`.
    fn folder(&mut self, mut local: Arc<Local>, folder: &[u8]) -> Result<Arc<Local>, Status> {
        let host = self.host;
        for section in host.directories.iter().filter(|section| !section.matcher.is_pattern() && section.is_for_folder(folder)) {
            local = over(&local, section);
        }
        let permission = local.core.permission();
        if permission.is_none() {
            return Ok(local);
        }
        for name in &host.access_file_names {
            match self.htaccess.look(self.apache, self.watcher, folder, name, &permission, &mut self.stamps) {
                Outcome::Absent => {}
                Outcome::Settings(said) => return Ok(Arc::new(local.under(&said))),
                Outcome::Broken(status) => return Err(status),
            }
        }
        Ok(local)
    }

    /// `<DirectoryMatch>`, after all folders.
    fn patterns(&self, mut local: Arc<Local>, folder: &[u8], captures: &mut Vec<(String, Vec<u8>)>) -> Arc<Local> {
        for section in self.host.directories.iter().filter(|section| section.matcher.is_pattern() && section.is_for_folder(folder)) {
            captures.extend(section.named_captures(folder));
            local = over(&local, section);
        }
        local
    }

    /// `None`: not there.
    fn component(&mut self, folder: &[u8], name: &[u8], options: OptionSet) -> Result<Option<Kind>, Status> {
        let policy = link_policy(options);
        match resolve(self.watcher, Path::new(OsStr::from_bytes(folder)), name, policy, &mut self.stamps) {
            Ok(found) => Ok(Some(found.metadata.kind)),
            Err(ResolveError::NotFound) => Ok(None),
            // Its own permissions are the handler's business.
            Err(ResolveError::Denied) => self.kind_of_closed(folder, name),
            Err(ResolveError::Descriptors) => Err(Status::SERVICE_UNAVAILABLE),
            Err(ResolveError::LinkDenied | ResolveError::LinkLoop) => Err(Status::FORBIDDEN),
            Err(ResolveError::Io(_)) => Err(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// A file that may not be read is a file all the same; a folder that may not be searched is forbidden.
    fn kind_of_closed(&self, folder: &[u8], name: &[u8]) -> Result<Option<Kind>, Status> {
        let path = [folder, name].concat();
        match std::fs::metadata(OsStr::from_bytes(&path)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(Kind::File)),
            _ => Err(Status::FORBIDDEN),
        }
    }
}

/// The first component, and what is behind its slash.
fn split(rest: &[u8]) -> (&[u8], Option<&[u8]>) {
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

fn over(local: &Local, section: &Section) -> Arc<Local> {
    Arc::new(local.under(&section.local))
}

/// `<Files>` and `<FilesMatch>`, those of folders and `.htaccess` among them.
fn files(mut local: Arc<Local>, name: &[u8], captures: &mut Vec<(String, Vec<u8>)>) -> Arc<Local> {
    let sections = local.core.files.clone();
    for section in sections.iter().filter(|section| section.is_for_name(name)) {
        captures.extend(section.named_captures(name));
        local = over(&local, section);
    }
    local
}

/// `<Location>` and `<LocationMatch>`.
pub fn locations(host: &Host, mut local: Arc<Local>, path: &[u8], captures: &mut Vec<(String, Vec<u8>)>) -> Arc<Local> {
    for section in host.locations.iter().filter(|section| section.is_for_path(path)) {
        captures.extend(section.named_captures(path));
        local = over(&local, section);
    }
    local
}

/// `<If>` and what follows it, last of all. What conditions looked at is noted in the exchange.
pub fn conditions(exchange: &mut Exchange, host: &Host, watcher: &Watcher, local: Arc<Local>) -> Arc<Local> {
    if local.core.conditions.is_empty() {
        return local;
    }
    state(exchange).local = Some(Arc::clone(&local));
    let sections = local.core.conditions.clone();
    let (mut merged, mut taken) = (local, false);
    let Some(seen_state) = peek(exchange).cloned() else { return merged };
    let seen = Seen::new(exchange, &seen_state, host, watcher);
    let mut evaluation = Evaluation::new(&seen);
    for section in &sections {
        let holds = match &section.kind {
            ConditionKind::If(expression) => {
                taken = false;
                expression.evaluate(&mut evaluation)
            }
            _ if taken => continue,
            ConditionKind::ElseIf(expression) => expression.evaluate(&mut evaluation),
            ConditionKind::Else => Ok(true),
        };
        // As Apache: what can't be evaluated does not hold.
        if holds.unwrap_or(false) {
            taken = true;
            merged = Arc::new(merged.under(&section.local));
        }
    }
    let (dependencies, stamps) = (evaluation.dependencies, seen.stamps.take());
    note_dependencies(exchange, &dependencies, stamps);
    merged
}
