//! A folder that goes away with its owner.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    ops::Deref,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Derefs to its path. Readable by all, since peers started as root drop to another user.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// `name` is for the person who looks into the temporary folder.
    pub fn new(name: &str) -> io::Result<TempDir> {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("saker-{name}-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(TempDir { path })
    }

    /// Only for the user that runs the tests.
    pub fn private(name: &str) -> io::Result<TempDir> {
        let dir = TempDir::new(name)?;
        fs::set_permissions(&dir.path, fs::Permissions::from_mode(0o700))?;
        Ok(dir)
    }

    /// Writes a file below the folder, with the folders on the way.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content)?;
        Ok(path)
    }

    /// A directory for the temporary files of a server in this folder (`TMPDIR`). Without it, the
    /// folder itself would be among a server's temporary files, which its sandbox lets it write.
    pub fn temporary_files(&self) -> io::Result<PathBuf> {
        let path = self.path.join(".temp");
        if !path.exists() {
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o1777))?;
        }
        Ok(path)
    }

    /// A copy of `program` below the folder that can be run at once.
    ///
    /// Another process writes it: a child that another thread starts meanwhile would inherit this
    /// one's writable descriptor, and until its exec the program is busy (ETXTBSY).
    pub fn copy_program(&self, program: impl AsRef<Path>, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let output = Command::new("cp")
            .arg("--")
            .arg(program.as_ref())
            .arg(&path)
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ));
        }
        Ok(path)
    }
}

impl Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What is mounted there belongs to others.
        let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
        if has_mounts(&mounts, &self.path) {
            eprintln!("{} is left: it has mounts", self.path.display());
            return;
        }
        // A server that is being killed may still write: what is left then is only clutter.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// True if a line of `mounts` (proc_pid_mounts(5)) names a folder in this one.
fn has_mounts(mounts: &[u8], folder: &Path) -> bool {
    mounts.split(|byte| *byte == b'\n').any(|line| {
        let place = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        Path::new(OsStr::from_bytes(place)).starts_with(folder)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_and_removed() {
        let dir = TempDir::new("temp-dir-test").expect("made");
        let file = dir.write("a/b.txt", "hello").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("read"), "hello");
        let path = dir.to_path_buf();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn folders_with_mounts_are_known() {
        let mounts = b"proc /proc proc rw 0 0\ntmpfs /tmp/a/b/c tmpfs rw 0 0\n";
        for (folder, expected) in [
            ("/tmp/a", true),
            ("/tmp/a/b/c", true),
            ("/tmp/a/b/c/d", false),
            ("/tmp/a/x", false),
        ] {
            assert_eq!(has_mounts(mounts, Path::new(folder)), expected, "{folder}");
        }
    }

    #[test]
    fn two_do_not_collide() {
        let (one, two) = (
            TempDir::new("same").expect("made"),
            TempDir::new("same").expect("made"),
        );
        assert_ne!(one.to_path_buf(), two.to_path_buf());
    }
}
