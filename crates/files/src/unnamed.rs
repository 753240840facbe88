//! Unnamed files, for data that is too large for memory: they disappear when they are closed, even
//! after a crash.

use rustix::fs::{Mode, OFlags, open};
use std::{
    fs::File,
    io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

pub fn unnamed(folder: &Path) -> io::Result<File> {
    match open(
        folder,
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    ) {
        Ok(fd) => Ok(File::from(fd)),
        // A file system without such files.
        Err(_) => named(folder),
    }
}

fn named(folder: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("saker-{}-{number}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::FileExt;

    #[test]
    fn nothing_is_left_behind() {
        let scratch = Scratch::new();
        for file in [
            unnamed(scratch.root()).unwrap(),
            named(scratch.root()).unwrap(),
        ] {
            file.write_all_at(b"content", 0).unwrap();
            let mut read = [0; 7];
            file.read_exact_at(&mut read, 0).unwrap();
            assert_eq!(&read, b"content");
        }
        assert_eq!(std::fs::read_dir(scratch.root()).unwrap().count(), 0);
    }
}
