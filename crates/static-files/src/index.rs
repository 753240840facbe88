//! Names of index files.
//!
//! Called by: `locate`, `script` and the log messages about directories.
//! Caveat: only plain paths below the directory count.
//! Out of scope: looking for them.

use crate::names;
use saker_config::model::{PhpUse, Settings};

/// The configured names, and index.php where PHP runs.
pub fn index_names(settings: &Settings) -> impl Iterator<Item = &str> {
    let index = &settings.files.index;
    let of_php = (!matches!(settings.php, PhpUse::Off)
        && !index.is_empty()
        && index.iter().all(|name| name != "index.php"))
    .then_some("index.php");
    let named = index.iter().map(String::as_str).chain(of_php);
    named.filter(|name| is_index_name(name, settings.files.hidden))
}

/// True for plain paths below the directory.
fn is_index_name(name: &str, hidden: bool) -> bool {
    let plain = name
        .split('/')
        .all(|component| !matches!(component, "" | "." | ".."));
    plain
        && !name.contains('\0')
        && (hidden
            || !name
                .as_bytes()
                .split(|byte| *byte == b'/')
                .any(names::is_hidden_name))
}
