//! Earlier texts of configuration files, and the change that waits for its confirmation, in the
//! state directory.
//!
//! Called by: the editor.
//! Caveat: every file is written beside its name and renamed, so that a crash leaves the old or the
//! new one. Texts may have secrets in them: the directory is the server's alone.
//! Out of scope: reloading.

use crate::audit;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

/// Versions that are kept.
pub const VERSIONS_MAX: usize = 100;

/// A change that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub id: String,
    pub file: PathBuf,
    pub by: String,
    pub at_s: i64,
    /// Digest of the text that took the place of this one.
    pub after: String,
}

impl Version {
    fn to_json(&self) -> Value {
        json!({
            "id": self.id, "file": self.file.to_string_lossy(), "by": self.by, "at": self.at_s,
            "after": self.after,
        })
    }

    fn parse(value: &Value) -> Option<Version> {
        let text = |name| value.get(name)?.as_str().map(str::to_owned);
        Some(Version {
            id: text("id")?,
            file: text("file")?.into(),
            by: text("by")?,
            at_s: value.get("at")?.as_i64()?,
            after: text("after")?,
        })
    }
}

/// Hexadecimal SHA-256 of a text.
pub fn digest_of(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A new id: its order is that of time.
pub fn new_id(now_s: i64) -> Option<String> {
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).ok()?;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{now_s:012}-{random}"))
}

fn folder(state_dir: &Path) -> io::Result<PathBuf> {
    let folder = audit::folder(state_dir)?.join("history");
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

/// Keeps the text that a change replaces. The oldest texts beyond [`VERSIONS_MAX`] go.
pub fn keep(state_dir: &Path, version: &Version, text: &str) -> io::Result<()> {
    let folder = folder(state_dir)?;
    replace(&folder.join(format!("{}.text", version.id)), text, None)?;
    let meta = format!("{}\n", version.to_json());
    replace(&folder.join(format!("{}.json", version.id)), &meta, None)?;
    for old in versions(state_dir).into_iter().skip(VERSIONS_MAX) {
        for ending in ["text", "json"] {
            let _ = fs::remove_file(folder.join(format!("{}.{ending}", old.id)));
        }
    }
    Ok(())
}

/// Earlier versions, newest first.
pub fn versions(state_dir: &Path) -> Vec<Version> {
    let folder = state_dir.join("console/history");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let metas = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).ok()?;
        let version = Version::parse(&serde_json::from_str(&text).ok()?)?;
        // The name is what text is looked up by.
        (path.file_stem()?.to_str()? == version.id).then_some(version)
    };
    let mut versions: Vec<Version> = metas.filter_map(read).collect();
    versions.sort_by(|a, b| b.id.cmp(&a.id));
    versions
}

/// The text of a version, by an id that [`versions`] lists.
pub fn text_of(state_dir: &Path, id: &str) -> Option<(Version, String)> {
    let version = versions(state_dir)
        .into_iter()
        .find(|version| version.id == id)?;
    let path = state_dir
        .join("console/history")
        .join(format!("{}.text", version.id));
    Some((version, fs::read_to_string(path).ok()?))
}

/// Notes the change that waits for its confirmation, until that time.
pub fn set_pending(state_dir: &Path, id: &str, until_s: i64) -> io::Result<()> {
    let path = audit::folder(state_dir)?.join("pending.json");
    replace(
        &path,
        &format!("{}\n", json!({ "id": id, "until": until_s })),
        None,
    )
}

pub fn clear_pending(state_dir: &Path) {
    let _ = fs::remove_file(state_dir.join("console/pending.json"));
}

/// The change that waited when the server ended.
pub fn pending(state_dir: &Path) -> Option<(Version, i64)> {
    let text = fs::read_to_string(state_dir.join("console/pending.json")).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let (version, _) = text_of(state_dir, value.get("id")?.as_str()?)?;
    Some((version, value.get("until")?.as_i64()?))
}

/// Replaces a file in one step. `like`: the file whose owner, group, and mode it keeps.
pub fn replace(path: &Path, text: &str, like: Option<&fs::Metadata>) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = folder.join(format!(".{}.saker-new", name.to_string_lossy()));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        if let Some(like) = like {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
                std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o777))?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kept_in_order_and_bounded() {
        let state_dir =
            std::env::temp_dir().join(format!("console-history-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state_dir);
        fs::create_dir(&state_dir).expect("a folder");
        let version = |at_s| Version {
            id: new_id(at_s).expect("an id"),
            file: "/etc/saker/saker.toml".into(),
            by: "ada".into(),
            at_s,
            after: digest_of("new"),
        };
        for at_s in 0..VERSIONS_MAX as i64 + 2 {
            keep(&state_dir, &version(at_s), &format!("text {at_s}")).expect("kept");
        }
        let all = versions(&state_dir);
        assert_eq!(all.len(), VERSIONS_MAX);
        assert_eq!(
            (all[0].at_s, all[VERSIONS_MAX - 1].at_s),
            (VERSIONS_MAX as i64 + 1, 2)
        );
        let (_, text) = text_of(&state_dir, &all[0].id).expect("there");
        assert_eq!(text, format!("text {}", VERSIONS_MAX + 1));
        for id in [
            "",
            "../pending",
            "../../saker",
            &format!("../history/{}", all[0].id),
        ] {
            assert_eq!(text_of(&state_dir, id), None, "{id}");
        }
        assert_eq!(pending(&state_dir), None);
        set_pending(&state_dir, &all[0].id, 99).expect("noted");
        assert_eq!(pending(&state_dir), Some((all[0].clone(), 99)));
        clear_pending(&state_dir);
        assert_eq!(pending(&state_dir), None);
        let mode = fs::metadata(state_dir.join("console/history"))
            .expect("there")
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let _ = fs::remove_dir_all(state_dir);
    }
}
