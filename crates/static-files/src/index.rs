//! x

use crate::names;
use saker_config::model::{PhpUse, Settings};

/// Where PHP is run its index is one, too, after those that were named.
pub fn index_names(settings: &Settings) -> impl Iterator<Item = &str> {
    let of_php = (!matches!(settings.php, PhpUse::Off) && !settings.files.index.is_empty())
        .then_some("index.php");
    let named = settings
        .files
        .index
        .iter()
        .map(String::as_str)
        .chain(of_php);
    named.filter(|name| is_index_name(name, settings.files.hidden))
}

/// Only plain paths below the folder.
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
