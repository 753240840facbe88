//! The certificates of the system, which OpenSSL, GnuTLS, curl, and most languages use.
//!
//! Called by: `trust`, as root.
//! Out of scope: distributions with neither of the known programs; they are told the file.

use super::store::{Authority, Step};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Directories for certificates of the administrator, with the program that reads them, and its
/// arguments: Debian, Ubuntu, Alpine; Fedora and Red Hat; Arch; openSUSE.
const STORES: [(&str, &str, &[&str]); 4] = [
    (
        "usr/local/share/ca-certificates",
        "update-ca-certificates",
        &[],
    ),
    (
        "etc/pki/ca-trust/source/anchors",
        "update-ca-trust",
        &["extract"],
    ),
    (
        "etc/ca-certificates/trust-source/anchors",
        "trust",
        &["extract-compat"],
    ),
    ("etc/pki/trust/anchors", "update-ca-certificates", &[]),
];

/// Adds the certificate to the store of the machine whose root is `root`, or removes it.
pub fn change(root: &Path, authority: &Authority, is_removal: bool) -> Step {
    let found = STORES
        .iter()
        .find(|(folder, ..)| root.join(folder).is_dir());
    let Some((folder, program, arguments)) = found else {
        return Step::LeftOut(format!(
            "no store for certificates of this system is known (install ca-certificates); the certificate is {}",
            authority.path.display()
        ));
    };
    let file = root.join(folder).join(file_name(authority));
    let changed = match is_removal {
        true => remove(&file, authority),
        false => add(&file, authority),
    };
    match changed {
        Err(error) => return Step::Failed(format!("{}: {error}", file.display())),
        Ok(false) if is_removal => {
            return Step::Done(format!("the system: not there ({})", file.display()));
        }
        Ok(_) => {}
    }
    let verb = if is_removal { "removed" } else { "added" };
    // Debian's program leaves the links to certificates that are gone, unless it makes all anew.
    let fresh: &[&str] = match is_removal && *program == "update-ca-certificates" {
        true => &["--fresh"],
        false => arguments,
    };
    match run(program, fresh) {
        Ok(()) => Step::Done(format!("the system: {verb} ({})", file.display())),
        Err(why) => Step::Failed(format!("{}: {verb}, but {program}: {why}", file.display())),
    }
}

/// The authority's name and the beginning of its key, so that those of two users don't meet.
fn file_name(authority: &Authority) -> String {
    let hash = authority
        .pem
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("saker-local-authority-{hash:016x}.crt")
}

fn add(file: &PathBuf, authority: &Authority) -> io::Result<bool> {
    if fs::read_to_string(file).is_ok_and(|text| text == authority.pem) {
        return Ok(false);
    }
    fs::write(file, &authority.pem)?;
    Ok(true)
}

/// A file of the same name with another certificate stays.
fn remove(file: &PathBuf, authority: &Authority) -> io::Result<bool> {
    match fs::read_to_string(file) {
        Ok(text) if text == authority.pem => fs::remove_file(file).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
