//! Keys of session cookies: those of the configuration, or one that the server makes.
//!
//! Called by: `sessions` and `flow`.
//! Caveat: the key is made when a log-in needs it first, by whichever worker comes first; all others
//! read it. Without it there is no log-in.
//! Out of scope: rotation of the made key; remove the file and restart to end all sessions.

use saker_config::model::OidcRules;
use saker_identity::SealKeys;
use std::{
    cell::OnceCell,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Name of the file in the state directory.
pub const SESSION_KEY_FILE: &str = "session.key";

pub struct SessionKeys {
    file: PathBuf,
    made: OnceCell<SealKeys>,
}

impl SessionKeys {
    pub fn new(state_dir: &Path) -> SessionKeys {
        SessionKeys {
            file: state_dir.join(SESSION_KEY_FILE),
            made: OnceCell::new(),
        }
    }

    /// # Errors
    /// Why there is no key.
    pub fn of(&self, rules: &OidcRules) -> Result<SealKeys, String> {
        if let Some(keys) = rules.keys.as_ref().or_else(|| self.made.get()) {
            return Ok(keys.clone());
        }
        let text = self
            .read_or_make()
            .map_err(|error| format!("{}: {error}", self.file.display()))?;
        let keys =
            SealKeys::parse(&text).map_err(|why| format!("{}: {why}", self.file.display()))?;
        Ok(self.made.get_or_init(|| keys).clone())
    }

    fn read_or_make(&self) -> io::Result<Vec<u8>> {
        match fs::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let text = SealKeys::generate().ok_or(io::ErrorKind::Other)?;
        // Complete before it has its name, and made once: a link does not replace.
        let random = SealKeys::generate().ok_or(io::ErrorKind::Other)?;
        let name = format!(
            "{SESSION_KEY_FILE}.{}",
            random.get(..12).unwrap_or_default()
        );
        let new = self.file.with_file_name(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?
            .write_all(text.as_bytes())?;
        let linked = fs::hard_link(&new, &self.file);
        fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::read(&self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn the_key_is_made_once() {
        let dir = TempDir::new("session-key").expect("folder");
        let keys = || SessionKeys::new(&dir).of(&OidcRules::default());
        let first = keys().expect("a key");
        assert_eq!(keys(), Ok(first.clone()));
        let names = fs::read_dir(&*dir).expect("folder").count();
        assert_eq!(names, 1, "nothing else is left");
        dir.write(SESSION_KEY_FILE, "short").expect("written");
        assert!(keys().is_err(), "a broken key is no reason for another one");
        let configured = OidcRules {
            keys: Some(first.clone()),
            ..OidcRules::default()
        };
        assert_eq!(SessionKeys::new(&dir).of(&configured), Ok(first));
        assert!(
            SessionKeys::new(&dir.join("missing"))
                .of(&OidcRules::default())
                .is_err()
        );
    }
}
