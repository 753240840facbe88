//! Keys of clearance cookies: saved across restarts, and rotated weekly.
//!
//! Called by: the supervisor, once a second.

use saker_abuse::KeyRing;
use saker_config::Model;
use saker_telemetry::{error_log, message};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

pub(super) const FILE: &str = "guard.keys";
const NEW_FILE: &str = "guard.keys.new";

/// The file that keeps the keys.
pub struct KeyFile {
    folder: PathBuf,
    is_loaded: bool,
}

impl KeyFile {
    pub fn new(folder: &Path) -> KeyFile {
        KeyFile {
            folder: folder.to_owned(),
            is_loaded: false,
        }
    }

    /// Sees to it that there are good keys and that they are kept, where something of the
    /// configuration gives passes.
    pub fn keep(&mut self, model: &Model, keys: &KeyRing, now_s: i64) {
        let gives_passes = model.all_settings().any(|(_, settings)| {
            settings
                .links
                .trigger
                .as_ref()
                .is_some_and(|trigger| trigger.by_cookie)
                || settings.visitors.challenge.is_some()
                || settings.visitors.logins.is_some()
        });
        if keys.is_derived() {
            keys.refresh(now_s);
            return;
        }
        if !gives_passes {
            return;
        }
        if !std::mem::replace(&mut self.is_loaded, true)
            && let Ok(text) = fs::read_to_string(self.folder.join(FILE))
        {
            keys.load(&text);
        }
        if keys.refresh(now_s)
            && let Err(error) = self.write(&keys.to_text())
        {
            error_log::log(
                &message::GUARD_KEYS_NOT_KEPT,
                format_args!("{}: {error}", self.folder.join(FILE).display()),
            );
        }
    }

    /// Writes the file for its owner alone, completely or not at all.
    fn write(&self, text: &str) -> io::Result<()> {
        let new = self.folder.join(NEW_FILE);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?
            .write_all(text.as_bytes())?;
        fs::rename(new, self.folder.join(FILE))
    }
}
