//! Scripts in front of path info (`/a.php/x`), where a FastCGI or LSAPI server finds them by itself.
//!
//! Called by: `NativeRules`, once the path is mapped.
//! Caveat: without a root on this machine, names alone tell scripts.
//! Out of scope: scripts that this server finds (`php`, `cgi`), and routes of files (`file_routes`).

use saker_config::model::Action;
use saker_files::{Kind, LinkPolicy, ResolveError, Watcher, cached_stat};
use saker_pipeline::{Exchange, Verdict, file_routes};
use std::{path::Path, sync::Arc};

/// Endings of names that PHP runs on usual servers.
const ENDINGS: &[&[u8]] = &[
    b".php", b".phtml", b".phar", b".phps", b".php3", b".php4", b".php5", b".php7", b".php8",
    b".lsphp",
];

/// Leads the request to the route of the script in front of its path info, if that is another one.
pub fn follow(exchange: &mut Exchange, watcher: &Watcher) -> Option<Verdict> {
    let Action::Proxy(proxy) = exchange.action() else {
        return None;
    };
    if !proxy.is_for_files() {
        return None;
    }
    let bytes_behind = path_info_bytes(exchange, watcher)?;
    match file_routes::follow_file(exchange, watcher, bytes_behind) {
        Ok(false) => None,
        Ok(true) => Some(Verdict::Restart),
        Err(refused) => Some(Verdict::Answer(refused)),
    }
}

/// Returns the length of the path info. As PHP does, the longest path of a file is the script's.
fn path_info_bytes(exchange: &mut Exchange, watcher: &Watcher) -> Option<usize> {
    if !exchange.path.get(1..)?.contains(&b'/') {
        return None;
    }
    let path = exchange.path.clone();
    let (root, relative) = match &exchange.routing.mapped {
        Some(mapped) => (Some(Arc::clone(&mapped.root)), mapped.relative.clone()),
        None => (
            exchange.routing.site.root.clone().map(Arc::from),
            path.strip_prefix(b"/").unwrap_or(&path).to_vec(),
        ),
    };
    let slashes = relative.iter().enumerate().rev();
    for (at, _) in slashes.filter(|(_, byte)| **byte == b'/') {
        let name = relative.get(..at)?;
        let found = match &root {
            Some(root) => kind(exchange, watcher, root, name),
            None => None,
        };
        let is_script = match found {
            Some(Kind::Directory) => return None,
            Some(_) => true,
            None => has_ending(name) && !root.as_ref().is_some_and(|root| root.is_dir()),
        };
        if is_script {
            return Some(relative.len() - at);
        }
    }
    None
}

/// `None`: there is nothing. What can't be looked at counts as a file.
fn kind(exchange: &mut Exchange, watcher: &Watcher, root: &Path, name: &[u8]) -> Option<Kind> {
    let tokens = &mut exchange.cache.change_tokens;
    match cached_stat(watcher, root, name, LinkPolicy::Follow, tokens) {
        Ok(metadata) => Some(metadata.kind),
        Err(ResolveError::NotFound) => None,
        Err(_) => Some(Kind::Other),
    }
}

fn has_ending(name: &[u8]) -> bool {
    ENDINGS.iter().any(|ending| {
        let start = name.len().checked_sub(ending.len());
        let found = start.and_then(|start| name.get(start..));
        found.is_some_and(|found| found.eq_ignore_ascii_case(ending))
    })
}
