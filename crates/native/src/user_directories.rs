//! `/~user/`: a directory in the home of a user.
//!
//! Called by: `map_to_storage`, for the route that `user_directories` makes.
//! Caveat: the root is the home, which its user can't replace, and not the directory in it, so that
//! the policy for symbolic links holds for that directory, too. Unknown users and those without
//! pages get the same 404.
//! Out of scope: users that only a directory service knows.

use saker_config::model::UserDirectories;
use saker_files::{ChangeToken, Watcher, account};
use saker_http::Status;
use saker_pipeline::{Exchange, Mapped, Response};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// Maps the path to a file in a user's home, or answers that there is none.
pub fn map(
    exchange: &mut Exchange,
    rules: &UserDirectories,
    watcher: &Watcher,
) -> Option<Response> {
    let mut tokens = Vec::new();
    let mapped = mapped(&exchange.path, rules, watcher, &mut tokens);
    exchange.cache.change_tokens.append(&mut tokens);
    if mapped.is_none() {
        exchange.trace("map_to_storage", None, || {
            "no user with pages has this name (`user_directories`)".into()
        });
        return Some(Response::new(Status::NOT_FOUND));
    }
    exchange.routing.mapped = mapped;
    None
}

fn mapped(
    path: &[u8],
    rules: &UserDirectories,
    watcher: &Watcher,
    tokens: &mut Vec<ChangeToken>,
) -> Option<Mapped> {
    let rest = path.strip_prefix(b"/~")?;
    let end = rest
        .iter()
        .position(|byte| *byte == b'/')
        .unwrap_or(rest.len());
    let (name, below) = rest.split_at(end);
    let name = std::str::from_utf8(name).ok()?;
    let found = account(watcher, name, tokens)?;
    let home = found.home.as_slice();
    if !rules.allows(name, found.uid) || home.iter().all(|byte| *byte == b'/') {
        return None;
    }
    Some(Mapped {
        root: Arc::from(Path::new(OsStr::from_bytes(home))),
        relative: [rules.folder.as_bytes(), below].concat(),
    })
}
