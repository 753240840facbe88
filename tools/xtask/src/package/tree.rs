//! The files of a package, laid out below a folder.
//!
//! Called by: `deb` and `release`.
//! Caveat: modes and times are set here; owners are left to the archive's maker.

use super::{
    binary,
    contents::{Entry, From},
    options::{Options, maintainer, run, wrong},
};
use flate2::{Compression, GzBuilder};
use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

/// Lays the entries out below `folder`.
pub fn lay_out(options: &Options, entries: &[Entry], folder: &Path) -> io::Result<()> {
    entries.iter().try_for_each(|entry| {
        let to = folder.join(entry.path);
        lay(options, entry, &to).map_err(|error| wrong(format!("{}: {error}", entry.path)))
    })
}

fn lay(options: &Options, entry: &Entry, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    match entry.from {
        From::Folder => return fs::create_dir_all(to),
        From::Link(target) => return symlink(target, to),
        From::ManualPages => return manual_pages(options, to),
        From::Binary => drop(binary::strip(&options.binary, to)?),
        From::Repository(path) => fs::write(to, fs::read(options.root.join(path))?)?,
        From::Unit(path) => {
            let text = fs::read_to_string(options.root.join(path))?;
            fs::write(to, text.replace("/usr/local/bin/", "/usr/bin/"))?
        }
        From::Compressed(path) => fs::write(to, gzip(&fs::read(options.root.join(path))?)?)?,
        From::Said(words) => fs::write(to, run(binary::command(&options.binary)?.args(words))?)?,
        From::DebianChangelog => fs::write(to, gzip(changelog(options)?.as_bytes())?)?,
    }
    fs::set_permissions(to, fs::Permissions::from_mode(entry.mode))
}

fn manual_pages(options: &Options, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    run(binary::command(&options.binary)?.arg("man").arg(folder))?;
    for found in fs::read_dir(folder)? {
        let path = found?.path();
        let compressed = path.with_extension("1.gz");
        fs::write(&compressed, gzip(&fs::read(&path)?)?)?;
        fs::set_permissions(&compressed, fs::Permissions::from_mode(0o644))?;
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Without a name and a time in it: the same content gives the same bytes.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    gzip_at(bytes, Compression::best())
}

pub fn gzip_at(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn changelog(options: &Options) -> io::Result<String> {
    let date = run(Command::new("date").args(["-u", "-R", "-d", &format!("@{}", options.time)]))?;
    Ok(format!(
        "saker ({}-1) stable; urgency=medium\n\n  * Release {}; its changes are in changelog.gz.\n\n -- {}  {}",
        options.version,
        options.version,
        maintainer(),
        String::from_utf8_lossy(&date)
    ))
}

/// Sets modes of folders, and the time of everything.
pub fn settle(folder: &Path, time: u64) -> io::Result<()> {
    for found in fs::read_dir(folder)? {
        let path = found?.path();
        let stat = fs::symlink_metadata(&path)?;
        if stat.is_dir() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            settle(&path, time)?;
        }
        if !stat.is_symlink() {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
            fs::File::open(&path)?.set_times(fs::FileTimes::new().set_modified(at))?;
        }
    }
    Ok(())
}

/// Regular files below a folder, relative to it, sorted.
pub fn files(folder: &Path) -> io::Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            let stat = fs::symlink_metadata(&path)?;
            if stat.is_dir() {
                folders.push(path);
            } else if let (true, Ok(relative)) = (stat.is_file(), path.strip_prefix(folder)) {
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
