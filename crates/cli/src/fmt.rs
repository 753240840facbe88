//! `saker fmt`: formats configuration files in place.
//!
//! Called by: `lib`.
//! Caveat: a file is replaced by a new one with the same mode and owner, so that a crash leaves the
//! old or the new one; where the owner can't be kept, the file stays as it is. Symbolic links stay.
//! Out of scope: the layout itself (`saker_config::format`).

use crate::{
    arguments::Fmt,
    check,
    exit_status::{CANNOT, CONFIGURATION_ERRORS, OK},
    locations,
    output::{self, cannot},
};
use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Outcome for one file, in the order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    /// It has errors, or would change.
    Refused,
    Failed,
}

pub fn fmt(fmt: &Fmt) -> ExitCode {
    let files = match fmt.files.as_slice() {
        [] => match locations::configuration(None) {
            Ok(path) => vec![path],
            Err(why) => return cannot(why),
        },
        files => files.to_vec(),
    };
    let worst = files.iter().map(|file| one(file, fmt)).max();
    ExitCode::from(match worst {
        Some(Outcome::Refused) => CONFIGURATION_ERRORS,
        Some(Outcome::Failed) => CANNOT,
        Some(Outcome::Done) | None => OK,
    })
}

fn one(file: &Path, fmt: &Fmt) -> Outcome {
    let is_input = file == Path::new("-");
    let read = match is_input {
        true => read_input(),
        false => fs::read_to_string(file),
    };
    let text = match read {
        Ok(text) => text,
        Err(error) => return failed(file, &error),
    };
    let formatted = match saker_config::format(&text, &file.display().to_string()) {
        Ok(formatted) => formatted,
        Err(diagnostics) => {
            check::report(&diagnostics);
            return Outcome::Refused;
        }
    };
    if fmt.check {
        if formatted == text {
            return Outcome::Done;
        }
        output::print(format!("{}\n", file.display()));
        return Outcome::Refused;
    }
    if fmt.stdout || is_input {
        return match output::print(&formatted) == ExitCode::from(OK) {
            true => Outcome::Done,
            false => Outcome::Failed,
        };
    }
    if formatted == text {
        return Outcome::Done;
    }
    match replace(file, formatted.as_bytes()) {
        Ok(()) => {
            output::print(format!("{}: formatted\n", file.display()));
            Outcome::Done
        }
        Err(error) => failed(file, &error),
    }
}

fn failed(file: &Path, error: &io::Error) -> Outcome {
    output::error(format_args!("saker: {}: {error}\n", file.display()));
    Outcome::Failed
}

fn read_input() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file's content as a whole.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(file)?;
    let old = fs::metadata(&target)?;
    let beside = beside(&target);
    let result = write_beside(&beside, &old, content).and_then(|()| fs::rename(&beside, &target));
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

fn write_beside(beside: &Path, old: &fs::Metadata, content: &[u8]) -> io::Result<()> {
    let mut new = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)?;
    let made = new.metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        fchown(&new, Some(old.uid()), Some(old.gid())).map_err(|error| {
            let (uid, gid) = (old.uid(), old.gid());
            io::Error::new(
                error.kind(),
                format!("its owner {uid}:{gid} can't be kept ({error}); run this as its owner"),
            )
        })?;
    }
    // After the owner, whose change clears bits.
    new.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    new.write_all(content)?;
    new.sync_all()
}

/// A name that no include pattern matches.
fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.fmt-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;
    use std::os::unix::fs::symlink;

    fn run(files: &[&Path], check: bool) -> ExitCode {
        fmt(&Fmt {
            files: files.iter().map(|file| file.to_path_buf()).collect(),
            check,
            stdout: false,
        })
    }

    #[test]
    fn a_file_keeps_its_mode_its_owner_and_its_link() {
        let dir = TempDir::private("fmt").unwrap();
        let (file, link) = (dir.join("a.toml"), dir.join("link.toml"));
        fs::write(&file, "a=1 # one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a.toml", &link).unwrap();
        let owner = match rustix::process::geteuid().is_root() {
            true => {
                std::os::unix::fs::chown(&file, Some(12), Some(34)).unwrap();
                (12, 34)
            }
            false => fs::metadata(&file)
                .map(|found| (found.uid(), found.gid()))
                .unwrap(),
        };
        assert_eq!(run(&[&link], true), ExitCode::from(CONFIGURATION_ERRORS));
        assert_eq!(fs::read_to_string(&file).unwrap(), "a=1 # one");
        assert_eq!(run(&[&link], false), ExitCode::from(OK));
        assert_eq!(fs::read_to_string(&file).unwrap(), "a = 1 # one\n");
        let found = fs::symlink_metadata(&file).unwrap();
        assert_eq!(
            (found.mode() & 0o7777, (found.uid(), found.gid())),
            (0o640, owner)
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let before = found.ino();
        assert_eq!(run(&[&file, &link], true), ExitCode::from(OK));
        assert_eq!(run(&[&file], false), ExitCode::from(OK));
        assert_eq!(fs::metadata(&file).unwrap().ino(), before);
        assert_eq!(fs::read_dir(&*dir).unwrap().count(), 2);
    }

    #[test]
    fn broken_files_stay_and_do_not_stop_the_others() {
        let dir = TempDir::private("fmt").unwrap();
        let (broken, good) = (dir.join("broken.toml"), dir.join("good.toml"));
        fs::write(&broken, "a =").unwrap();
        fs::write(&good, "a=1").unwrap();
        assert_eq!(
            run(&[&broken, &good], false),
            ExitCode::from(CONFIGURATION_ERRORS)
        );
        assert_eq!(fs::read_to_string(&broken).unwrap(), "a =");
        assert_eq!(fs::read_to_string(&good).unwrap(), "a = 1\n");
        assert_eq!(
            run(&[&dir.join("missing.toml"), &broken], false),
            ExitCode::from(CANNOT)
        );
    }
}
