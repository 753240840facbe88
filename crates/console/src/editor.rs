//! The configuration editor: propose, check, diff, apply, confirm; undone if not confirmed in
//! time.
//!
//! Called by: actions; `serve`, which runs [`watch`].
//! Caveat: only files of the configuration in force can be opened, by the exact name that the list
//! has. A file is written beside its name and renamed. The change that waits for its confirmation
//! is noted on disk, so that it is undone after a crash, too.
//! Out of scope: checking and reloading, which the backend does as `saker check` and `saker
//! reload` do.

use crate::{
    Backend, CheckedConfiguration, audit,
    diff::{DiffLine, diff},
    history_files::{
        self, Version, clear_pending, digest_of, keep, new_id, replace, set_pending, text_of,
    },
    pending_change::{Editor, Pending},
    sessions::Identity,
};
use saker_config::completion::Completion;
use saker_telemetry::{error_log, message};
use serde_json::json;
use std::{
    collections::HashMap,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

/// Shortest time for confirming an applied change.
pub const CONFIRM_TIME_S_MIN: i64 = 10;
/// Longest time for confirming an applied change.
pub const CONFIRM_TIME_S_MAX: i64 = 3_600;
/// Largest file that can be edited.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Interval of checks whether the time is over.
const LOOK: Duration = Duration::from_secs(1);
/// Marks a private key in PEM format, whatever its kind.
const KEY_MARK: &str = "PRIVATE KEY-----";
/// Length of a line in PEM format, or nearly.
const KEY_LINE_BYTES: usize = 48;
const WITH_KEY: &str = "this file contains a private key; what is wrong in it is not shown";

/// A file that is open in the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    pub name: String,
    pub text: String,
    pub digest: String,
}

/// A proposed text, and what it would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub checked: CheckedConfiguration,
    pub diff: Vec<DiffLine>,
}

/// Names of the files that can be opened.
pub fn files(backend: &dyn Backend) -> Vec<String> {
    let files = backend.configuration_files();
    files
        .iter()
        .map(|file| file.display().to_string())
        .collect()
}

/// Opens a file by its name in [`files`].
pub fn open(backend: &dyn Backend, name: &str) -> Result<OpenFile, String> {
    let path = path_of(backend, name)?;
    let text = read(&path)?;
    Ok(OpenFile {
        name: name.to_owned(),
        digest: digest_of(&text),
        text,
    })
}

fn path_of(backend: &dyn Backend, name: &str) -> Result<PathBuf, String> {
    let mut files = backend.configuration_files().into_iter();
    let found = files.find(|file| file.display().to_string() == name);
    found.ok_or_else(|| "this is not a file of the configuration".to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = saker_net::privileged::read(path).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        format!(
            "{} is not UTF-8 text; edit it on the machine",
            path.display()
        )
    })?;
    match text.contains(KEY_MARK) {
        true => Err(format!(
            "{} contains a private key, which is never shown",
            path.display()
        )),
        false => Ok(text),
    }
}

/// Line endings as on the machine: browsers send CRLF.
pub fn normalized(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Completes a text up to the cursor.
pub fn complete(backend: &dyn Backend, name: &str, before: &str) -> Result<Completion, String> {
    let path = path_of(backend, name)?;
    match before.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("a file has at most {FILE_BYTES_MAX} bytes")),
        false => Ok(backend.complete(&path, before)),
    }
}

/// Checks the configuration, and leaves out what diagnostics quote from files with private keys.
async fn check(
    backend: &dyn Backend,
    changed: Option<(&Path, &str)>,
) -> Result<CheckedConfiguration, String> {
    let mut checked = backend.check(changed).await?;
    let mut with_keys: HashMap<String, bool> = HashMap::new();
    for finding in &mut checked.findings {
        let has_key = with_keys
            .entry(finding.file.clone())
            .or_insert_with(|| has_key(Path::new(&finding.file)));
        if *has_key {
            finding.message = WITH_KEY.to_owned();
            finding.help = String::new();
        }
        finding.message = without_keys(&finding.message);
        finding.help = without_keys(&finding.help);
    }
    Ok(checked)
}

/// Returns whether a file has a private key in it, as far as it can be read.
fn has_key(path: &Path) -> bool {
    let bytes = saker_net::privileged::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).contains(KEY_MARK)
}

/// A message without what could be a line of a private key: a long word in base64.
pub fn without_keys(text: &str) -> String {
    let is_base64 = |one: char| one.is_ascii_alphanumeric() || matches!(one, '+' | '/' | '=');
    let is_key = |word: &str| {
        let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(&test);
        word.len() >= KEY_LINE_BYTES
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_digit)
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|one| !is_base64(one)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        out.push_str(if is_key(word) { "…" } else { word });
        let next = behind.find(is_base64).unwrap_or(behind.len());
        let (between, behind) = behind.split_at(next);
        out.push_str(between);
        rest = behind;
    }
    out
}

/// Checks a text, and compares it with the file.
pub async fn propose(backend: &dyn Backend, name: &str, text: &str) -> Result<Proposal, String> {
    let path = path_of(backend, name)?;
    let before = read(&path)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("a file has at most {FILE_BYTES_MAX} bytes"));
    }
    Ok(Proposal {
        checked: check(backend, Some((&path, text))).await?,
        diff: diff(&before, text),
    })
}

/// A change to apply.
#[derive(Clone, Copy, Debug)]
pub struct Order<'o> {
    pub file: &'o str,
    pub text: &'o str,
    /// Digest of the text that was edited.
    pub base: &'o str,
    /// Time for confirming it; `None`: as the configuration says.
    pub confirm_time_s: Option<i64>,
}

/// Time for confirming a change that chooses none, in seconds.
pub fn confirm_time_s(backend: &dyn Backend) -> i64 {
    i64::try_from(backend.settings().confirm_time_ms / 1000).unwrap_or(CONFIRM_TIME_S_MAX)
}

/// The chosen time for confirming a change, or the configuration's, in seconds.
fn confirm_time(backend: &dyn Backend, chosen_s: Option<i64>) -> Result<i64, String> {
    let confirm_s = chosen_s.unwrap_or_else(|| confirm_time_s(backend));
    match (CONFIRM_TIME_S_MIN..=CONFIRM_TIME_S_MAX).contains(&confirm_s) {
        true => Ok(confirm_s),
        false => Err(format!(
            "the time for confirming must be {CONFIRM_TIME_S_MIN} to {CONFIRM_TIME_S_MAX} seconds"
        )),
    }
}

/// The name of an author. That of an owner cannot be another user's: names have no spaces.
pub fn author(identity: &Identity) -> String {
    match &identity.site {
        Some(site) => format!("{} (owner of {site})", identity.name),
        None => identity.name.clone(),
    }
}

/// Writes a file and reloads.
pub async fn apply(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    order: Order<'_>,
) -> Result<Pending, String> {
    let (name, text, base) = (order.file, order.text, order.base);
    let confirm_s = confirm_time(backend, order.confirm_time_s)?;
    let editor = &backend.state().editor;
    let _alone = editor.busy.lock().await;
    if editor.pending.borrow().is_some() {
        return Err("another change waits for its confirmation".into());
    }
    let path = path_of(backend, name)?;
    let before = read(&path)?;
    if digest_of(&before) != base {
        return Err("the file has changed since it was opened; open it again".into());
    }
    let proposal = propose(backend, name, text).await?;
    if proposal.checked.has_errors() {
        return Err("the configuration has errors; nothing was changed".into());
    }
    if proposal.diff.is_empty() && before == text {
        return Err("nothing was changed".into());
    }
    // What a link leads to is replaced, not the link.
    let target = fs::canonicalize(&path).map_err(|error| error.to_string())?;
    let like = fs::metadata(&target).map_err(|error| error.to_string())?;
    let (state_dir, now_s) = (backend.state_dir(), saker_net::clock::realtime_s());
    let version = Version {
        id: new_id(now_s).ok_or("the system gives no random bytes")?,
        file: target.clone(),
        by: author(who.0),
        at_s: now_s,
        after: digest_of(text),
    };
    let lines: Vec<String> = proposal
        .diff
        .iter()
        .map(|line| format!("{}{}", line.sign(), line.text))
        .collect();
    let detail = json!({ "file": name, "id": version.id, "diff": lines.join("\n") });
    audit::write(&state_dir, who, "apply configuration", detail)?;
    let until_s = now_s + confirm_s;
    let failed = |error: io::Error| {
        clear_pending(&state_dir);
        format!(
            "cannot write {name}: {error} (the server's user must be able to write the file and its directory, and the sandbox allows it \
             for files that the configuration had at the start: after others were included, `saker upgrade` does)"
        )
    };
    keep(&state_dir, &version, &before).map_err(failed)?;
    set_pending(&state_dir, &version.id, until_s).map_err(failed)?;
    replace(&target, text, Some(&like)).map_err(failed)?;
    if let Err(diagnostics) = backend.control().reload().await {
        let restored = replace(&target, &before, Some(&like));
        clear_pending(&state_dir);
        return Err(match restored {
            Ok(()) => format!(
                "the server did not take the configuration, and the file is as before: {}",
                without_keys(&diagnostics)
            ),
            Err(error) => format!(
                "the server did not take the configuration, and {name} cannot be written: {error}"
            ),
        });
    }
    let pending = Pending { version, until_s };
    *editor.pending.borrow_mut() = Some(pending.clone());
    Ok(pending)
}

/// Keeps the applied change.
pub async fn confirm(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    id: &str,
) -> Result<(), String> {
    let editor = &backend.state().editor;
    let _alone = editor.busy.lock().await;
    waiting(editor, id)?;
    audit::write(
        &backend.state_dir(),
        who,
        "confirm configuration",
        json!({ "id": id }),
    )?;
    *editor.pending.borrow_mut() = None;
    clear_pending(&backend.state_dir());
    Ok(())
}

/// Undoes the applied change.
pub async fn roll_back(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    id: &str,
) -> Result<(), String> {
    let editor = &backend.state().editor;
    let _alone = editor.busy.lock().await;
    let pending = waiting(editor, id)?;
    audit::write(
        &backend.state_dir(),
        who,
        "roll back configuration",
        json!({ "id": id }),
    )?;
    undo(backend, &pending).await
}

fn waiting(editor: &Editor, id: &str) -> Result<Pending, String> {
    let pending = editor.pending().filter(|pending| pending.version.id == id);
    pending.ok_or_else(|| "no such change waits for its confirmation".to_owned())
}

/// Writes the text from before a change back, and reloads.
async fn undo(backend: &dyn Backend, pending: &Pending) -> Result<(), String> {
    let state_dir = backend.state_dir();
    let undone = write_back(&state_dir, &pending.version);
    *backend.state().editor.pending.borrow_mut() = None;
    clear_pending(&state_dir);
    undone?;
    let reloaded = backend.control().reload().await;
    reloaded.map(drop)
}

fn write_back(state_dir: &Path, version: &Version) -> Result<(), String> {
    let (_, text) = text_of(state_dir, &version.id).ok_or("the previous text is not there")?;
    let now = read(&version.file)?;
    if now == text {
        return Ok(());
    }
    if digest_of(&now) != version.after {
        return Err("the file was changed by others in the meantime".into());
    }
    let like = fs::metadata(&version.file).map_err(|error| error.to_string())?;
    replace(&version.file, &text, Some(&like)).map_err(|error| error.to_string())
}

/// Undoes a change whose time is over; one that waited when the server ended, too.
pub async fn watch(backend: Rc<dyn Backend>) {
    if let Some((version, until_s)) = history_files::pending(&backend.state_dir()) {
        *backend.state().editor.pending.borrow_mut() = Some(Pending { version, until_s });
    }
    loop {
        let editor = &backend.state().editor;
        let now_s = saker_net::clock::realtime_s();
        if editor
            .pending()
            .is_some_and(|pending| now_s >= pending.until_s)
        {
            let _alone = editor.busy.lock().await;
            // It may have been confirmed meanwhile.
            if let Some(pending) = editor.pending() {
                let facts = format!(
                    "{} ({})",
                    pending.version.file.display(),
                    pending.version.id
                );
                match undo(&*backend, &pending).await {
                    Ok(()) => {
                        error_log::log(&message::CONSOLE_ROLLED_BACK, format_args!("{facts}"))
                    }
                    Err(error) => error_log::log(
                        &message::CONSOLE_ROLL_BACK_FAILED,
                        format_args!("{facts}: {error}"),
                    ),
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_keys_are_left_out_of_messages() {
        let line = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";
        assert_eq!(
            without_keys(&format!("invalid directive \"{line}\" (mod_x)")),
            "invalid directive \"…\" (mod_x)"
        );
        for text in [
            "",
            "é unknown key `x`",
            "/srv/www/example.org/current/public",
            &"a".repeat(80),
        ] {
            assert_eq!(without_keys(text), text);
        }
    }
}
