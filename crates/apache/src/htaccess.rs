//! `.htaccess` files: read when a walk first comes by, and again when their folder has changed.
//!
//! A worker keeps what it has read, the absence of a file too, with the stamps of everything that it looked at; so a walk past a folder costs
//! a look-up and a load. Difficulty: what a file may say depends on where AllowOverride stands, so one file is kept for each of its readings.

use crate::{
    host::Apache,
    load::read_all,
    local::Local,
    reading::{Methods, Place, Reading},
};
use saker_config_apache::{Node, OnDisk, Permission, limits::HTACCESS_BYTES_MAX, parse_htaccess};
use saker_files::{Kind, LinkPolicy, ResolveError, Stamp, Watcher, resolve};
use saker_http::Status;
use saker_telemetry::{
    error_log::{self, About},
    message,
};
use std::{collections::HashMap, ffi::OsStr, os::unix::ffi::OsStrExt, os::unix::fs::FileExt, path::Path, sync::Arc};

/// Files (or their absence) that a worker keeps.
const KEPT_MAX: usize = 50_000;

/// What a file comes to.
#[derive(Clone, Debug)]
pub enum Outcome {
    Absent,
    Settings(Arc<Local>),
    /// The folder and everything below is answered with this.
    Broken(Status),
}

struct Kept {
    stamps: Box<[Stamp]>,
    permission: Permission,
    outcome: Outcome,
}

#[derive(Default)]
pub struct HtaccessFiles {
    by_path: HashMap<Box<[u8]>, Vec<Kept>>,
}

impl HtaccessFiles {
    /// What the file `name` in `folder` (with a slash at its end) says. Leaves its stamps.
    pub fn look(
        &mut self,
        (apache, about): (&Apache, &dyn About),
        watcher: &Watcher,
        folder: &[u8],
        name: &str,
        permission: &Permission,
        stamps: &mut Vec<Stamp>,
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
        let outcome = read((apache, about), watcher, folder, name, permission, &mut own);
        stamps.extend(own.iter().cloned());
        self.keep(path, Kept { stamps: own.into(), permission: permission.clone(), outcome: outcome.clone() });
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
    (apache, about): (&Apache, &dyn About),
    watcher: &Watcher,
    folder: &[u8],
    name: &str,
    permission: &Permission,
    stamps: &mut Vec<Stamp>,
) -> Outcome {
    let shown = format!("{}{name}", String::from_utf8_lossy(folder));
    let found = match resolve(watcher, Path::new(OsStr::from_bytes(folder)), name.as_bytes(), LinkPolicy::Follow, stamps) {
        Ok(found) if found.metadata.kind == Kind::File => found,
        // As Apache: a folder of that name is no file.
        Ok(_) | Err(ResolveError::NotFound | ResolveError::LinkDangling) => return Outcome::Absent,
        Err(error) => {
            let text = format!("{shown}: {error}; the folder above it must be executable, the file readable");
            error_log::log_about(&message::HTACCESS_BROKEN, about, format_args!("{text}"));
            return Outcome::Broken(Status::FORBIDDEN);
        }
    };
    // Before room is made for it: whoever may write the file may make it as long as the disk.
    if found.metadata.size > HTACCESS_BYTES_MAX as u64 {
        error_log::log_about(&message::HTACCESS_BROKEN, about, format_args!("{shown}: larger than {HTACCESS_BYTES_MAX} bytes"));
        return Outcome::Broken(Status::INTERNAL_SERVER_ERROR);
    }
    let mut text = vec![0; found.metadata.size as usize];
    if let Err(error) = found.file.read_exact_at(&mut text, 0) {
        error_log::log_about(&message::HTACCESS_BROKEN, about, format_args!("{shown}: {error}"));
        return Outcome::Broken(Status::INTERNAL_SERVER_ERROR);
    }
    let _defaults = apache.pattern_options.in_force();
    match parse_htaccess(&text, &shown, &apache.environment, permission, &OnDisk) {
        Ok(parsed) => settings((apache, about), folder, &parsed.tree.nodes),
        Err(error) => broken(&error, about),
    }
}

fn settings((apache, about): (&Apache, &dyn About), folder: &[u8], nodes: &[Node]) -> Outcome {
    let mut diagnostics = Vec::new();
    let place = Place::Htaccess(String::from_utf8_lossy(folder).into());
    let mut reading = Reading {
        server_root: &apache.environment.server_root,
        place,
        section: None,
        methods: Methods::All,
        aliases: &apache.aliases,
        diagnostics: &mut diagnostics,
    };
    let local = read_all(nodes, &mut reading);
    match diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        Some(error) => broken(error, about),
        None => Outcome::Settings(Arc::new(local)),
    }
}

fn broken(error: &saker_config::Diagnostic, about: &dyn About) -> Outcome {
    let (file, line) = (&error.origin.file, error.origin.line);
    error_log::log_about(&message::HTACCESS_BROKEN, about, format_args!("{file}:{line}: {}", error.message));
    Outcome::Broken(Status::INTERNAL_SERVER_ERROR)
}
