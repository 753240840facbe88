//! NSS databases: those of Chromium and Chrome (one for the user) and Firefox (one per profile).
//!
//! Called by: `trust`.
//! Caveat: `certutil` writes them, from libnss3-tools; a database that is open in a running browser
//! is seen by it after a restart.

use super::store::{Authority, Step};
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Databases of Chromium and Chrome below a home, snap's among them.
const CHROMIUM: [&str; 2] = [".pki/nssdb", "snap/chromium/current/.pki/nssdb"];
/// Directories with profiles of Firefox.
const FIREFOX: [&str; 4] = [
    ".mozilla/firefox",
    ".config/mozilla/firefox",
    "snap/firefox/common/.mozilla/firefox",
    ".var/app/org.mozilla.firefox/.mozilla/firefox",
];

/// Adds the certificate to all databases of a home, or removes it.
pub fn change(home: &Path, authority: &Authority, is_removal: bool) -> Vec<Step> {
    let databases = databases(home, is_removal);
    if databases.is_empty() {
        return vec![Step::Done(format!(
            "browsers: no database in {}",
            home.display()
        ))];
    }
    let each = databases
        .iter()
        .map(|(browser, database)| one(browser, database, authority, is_removal));
    each.collect()
}

/// Databases that are there, and the one of Chromium that is made if it is missing.
fn databases(home: &Path, is_removal: bool) -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    for (at, folder) in CHROMIUM.iter().enumerate() {
        let folder = home.join(folder);
        if folder.join("cert9.db").exists() || (at == 0 && !is_removal) {
            found.push(("Chromium and Chrome", folder));
        }
    }
    for folder in FIREFOX {
        let entries = fs::read_dir(home.join(folder)).into_iter().flatten();
        let profiles = entries.flatten().map(|entry| entry.path());
        let mut profiles: Vec<PathBuf> = profiles
            .filter(|profile| profile.join("cert9.db").exists())
            .collect();
        profiles.sort();
        found.extend(profiles.into_iter().map(|profile| ("Firefox", profile)));
    }
    found
}

fn one(browser: &str, database: &Path, authority: &Authority, is_removal: bool) -> Step {
    let shown = format!("{browser} ({})", database.display());
    let result = match is_removal {
        true => remove(database, authority),
        false => add(database, authority),
    };
    match result {
        Ok(what) => Step::Done(format!("{shown}: {what}")),
        Err(Refusal::NoCertutil) => {
            Step::LeftOut(format!("{shown} needs certutil: apt install libnss3-tools"))
        }
        Err(Refusal::Other(why)) => Step::Failed(format!("{shown}: {why}")),
    }
}

enum Refusal {
    NoCertutil,
    Other(String),
}

fn add(database: &Path, authority: &Authority) -> Result<&'static str, Refusal> {
    if !database.join("cert9.db").exists() {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(database);
        made.map_err(|error| Refusal::Other(error.to_string()))?;
        certutil(database, &["-N", "--empty-password"])?;
    }
    // Another one of this name would be the one before.
    if certutil(database, &["-L", "-n", &authority.name]).is_ok() {
        certutil(database, &["-D", "-n", &authority.name])?;
    }
    let file = authority.path.to_string_lossy();
    certutil(
        database,
        &["-A", "-t", "C,,", "-n", &authority.name, "-a", "-i", &file],
    )?;
    Ok("added")
}

fn remove(database: &Path, authority: &Authority) -> Result<&'static str, Refusal> {
    match certutil(database, &["-L", "-n", &authority.name]) {
        Ok(()) => certutil(database, &["-D", "-n", &authority.name]).map(|()| "removed"),
        Err(Refusal::NoCertutil) => Err(Refusal::NoCertutil),
        Err(Refusal::Other(_)) => Ok("not there"),
    }
}

fn certutil(database: &Path, arguments: &[&str]) -> Result<(), Refusal> {
    let output = Command::new("certutil")
        .arg("-d")
        .arg(format!("sql:{}", database.display()))
        .args(arguments)
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Refusal::NoCertutil,
            _ => Refusal::Other(error.to_string()),
        })?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(Refusal::Other(text.trim().to_owned()))
        }
    }
}
