//! The pid file, by which scripts find the process.
//!
//! Called by: the start. Created by root beside its place before privileges are dropped; filled, and
//! given its name, when the server serves. So scripts that wait for the file find a server that
//! answers.
//! Caveat: it stays root's; at the end the broker removes it where the directory is root's.

use saker_config::model::Server;
use saker_net::privileged::{beside, place_file};
use saker_telemetry::{error_log, message};
use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
};

/// Removes the file when it is dropped, if it is still ours.
pub struct PidFile {
    path: PathBuf,
    file: File,
    /// It has its name.
    is_placed: bool,
}

impl PidFile {
    /// Still empty, beside its place. `None` where the configuration names no file.
    pub fn make(server: &Server) -> Result<Option<PidFile>, String> {
        let Some(path) = &server.pid_file else {
            return Ok(None);
        };
        let failed = |error: std::io::Error| format!("PidFile {}: {error}", path.display());
        // Written beside it and renamed: no reader sees half a number, and no link is followed.
        let fresh = beside(path);
        let _ = fs::remove_file(&fresh);
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&fresh)
            .map_err(failed)?;
        Ok(Some(PidFile {
            path: path.clone(),
            file,
            is_placed: false,
        }))
    }

    /// The file of a server that goes on until this one serves.
    pub fn inherit(path: &Path, file: OwnedFd) -> PidFile {
        PidFile {
            path: path.to_owned(),
            file: file.into(),
            is_placed: true,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A duplicate for a successor.
    pub fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    pub fn fill(&mut self) {
        let number = format!("{}\n", std::process::id());
        // A full disk is no reason not to serve. The descriptor's place may be shared.
        let _ = self.file.set_len(0);
        let _ = self.file.write_all_at(number.as_bytes(), 0);
        if !std::mem::replace(&mut self.is_placed, true)
            && let Err(error) = place_file(&self.path)
        {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!("PidFile {}: {error}", self.path.display()),
            );
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(beside(&self.path));
            return;
        }
        let ours = fs::read_to_string(&self.path)
            .is_ok_and(|text| text.trim() == std::process::id().to_string());
        if ours && saker_net::privileged::remove_file(&self.path).is_err() {
            let _ = self.file.set_len(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn written_and_removed_unless_it_is_another_s() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.join("saker.pid");
        let server = Server {
            pid_file: Some(path.clone()),
            ..Server::default()
        };
        let make = || PidFile::make(&server).unwrap().unwrap();
        let mut file = make();
        assert!(!path.exists());
        file.fill();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{}\n", std::process::id())
        );
        drop(file);
        assert!(!path.exists());
        let mut file = make();
        file.fill();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }
}
