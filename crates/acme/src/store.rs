//! The state folder: `acme/accounts/` and `acme/certificates/`, for the owner's eyes only.
//!
//! A file is written under another name, brought to the disk and renamed, so that a crash leaves
//! the old or the new one, whole. A chain and its key share a file, since a pair that does not fit
//! together would be worse than none. Calls block; there are a few per order.

use crate::record::Record;
use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A chain with its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    pub chain: String,
    pub key: String,
}

#[derive(Debug)]
pub struct Store {
    accounts: PathBuf,
    certificates: PathBuf,
    orders: PathBuf,
}

impl Store {
    /// Creates missing directories, and removes permissions of group and others.
    pub fn open(state_dir: &Path) -> io::Result<Store> {
        let root = state_dir.join("acme");
        let store = Store {
            accounts: root.join("accounts"),
            certificates: root.join("certificates"),
            orders: root.join("orders.json"),
        };
        for folder in [&root, &store.accounts, &store.certificates] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        }
        Ok(store)
    }

    /// The credentials for a directory, in JSON.
    pub fn account(&self, directory: &str) -> Option<String> {
        fs::read_to_string(self.account_file(directory)).ok()
    }

    pub fn save_account(&self, directory: &str, credentials: &str) -> io::Result<()> {
        write(&self.account_file(directory), credentials.as_bytes())
    }

    /// An account that the authority no longer knows.
    pub fn forget_account(&self, directory: &str) -> io::Result<()> {
        fs::remove_file(self.account_file(directory))
    }

    pub fn record(&self, names: &[String]) -> Option<Record> {
        read_record(&self.file(names, "json")).filter(|record| record.names == names)
    }

    pub fn save_record(&self, record: &Record) -> io::Result<()> {
        write(
            &self.file(&record.names, "json"),
            record.to_json().as_bytes(),
        )
    }

    /// Returns all records, including those of names that are no longer configured.
    pub fn records(&self) -> Vec<Record> {
        let Ok(entries) = fs::read_dir(&self.certificates) else {
            return Vec::new();
        };
        let files = entries.flatten().map(|entry| entry.path()).filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        });
        files.filter_map(|path| read_record(&path)).collect()
    }

    /// `None` too if the file holds no chain and key.
    pub fn certificate(&self, names: &[String]) -> Option<Bundle> {
        Bundle::from_pem(&fs::read_to_string(self.file(names, "pem")).ok()?)
    }

    pub fn save_certificate(&self, names: &[String], bundle: &Bundle) -> io::Result<()> {
        write(
            &self.file(names, "pem"),
            format!("{}{}", with_end(&bundle.key), with_end(&bundle.chain)).as_bytes(),
        )
    }

    /// Returns the times of recent orders.
    pub fn order_times(&self) -> Vec<u64> {
        fs::read_to_string(&self.orders)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    pub fn save_order_times(&self, times: &[u64]) -> io::Result<()> {
        write(
            &self.orders,
            serde_json::json!(times).to_string().as_bytes(),
        )
    }

    fn account_file(&self, directory: &str) -> PathBuf {
        self.accounts
            .join(format!("{}.json", account_key(directory)))
    }

    fn file(&self, names: &[String], extension: &str) -> PathBuf {
        self.certificates
            .join(format!("{}.{extension}", key(names)))
    }
}

impl Bundle {
    fn from_pem(text: &str) -> Option<Bundle> {
        let begin = text.find("-----BEGIN CERTIFICATE-----")?;
        let (key, chain) = text.split_at(begin);
        CertificateDer::pem_slice_iter(chain.as_bytes())
            .next()?
            .ok()?;
        PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
        Some(Bundle {
            chain: chain.to_owned(),
            key: key.to_owned(),
        })
    }
}

/// File name stem for the account at a directory.
pub fn account_key(directory: &str) -> String {
    let host = directory
        .split_once("://")
        .map_or(directory, |(_, rest)| rest)
        .split('/')
        .next()
        .unwrap_or_default();
    format!("{}-{}", plain(host), fingerprint(directory))
}

/// File name stem for a set of names: the first name, followed by a fingerprint of all names if
/// there are several.
pub fn key(names: &[String]) -> String {
    let first = plain(names.first().map_or("", |name| name.as_str()));
    match names {
        [_] if first.len() < 200 => first,
        _ => format!(
            "{}+{}",
            first.chars().take(200).collect::<String>(),
            fingerprint(&names.join(","))
        ),
    }
}

/// Without anything that means something in a path.
fn plain(name: &str) -> String {
    name.replace('*', "_")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn fingerprint(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn with_end(text: &str) -> String {
    if text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

fn read_record(path: &Path) -> Option<Record> {
    Record::from_json(&fs::read_to_string(path).ok()?)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let other = path.with_extension("new");
    match fs::remove_file(&other) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&other)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&other, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
